//! Builds the plugins that come with the host, and writes a table of them for the crate to include.
//!
//! A development build gets an empty table, so that a change of a plugin does not rebuild the program: it finds the plugins
//! in `target/plugins`. The variable `SHELLY_EMBED_PLUGINS` decides otherwise: `1` embeds them in any build, which fails without
//! a toolchain for them; `0` embeds them in none.

#[path = "src/embed_choice.rs"]
mod embed_choice;

use std::{
    env,
    error::Error,
    fs,
    io::Write,
    path::{Path, PathBuf},
};

use embed_choice::EmbedChoice;
use flate2::{Compression, write::ZlibEncoder};
use shelly_guest_builder::{BuildError, Builder, Built, GuestFolder, rerun_always_lines, rerun_lines};

fn main() {
    if let Err(error) = run() {
        // cargo shows a build script's standard error as it is.
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={}", EmbedChoice::VARIABLE);
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("this is run by cargo")?);
    let is_release = env::var("PROFILE").is_ok_and(|profile| profile == "release");
    let choice = EmbedChoice::of(env::var(EmbedChoice::VARIABLE).ok().as_deref(), is_release)?;
    if choice == EmbedChoice::LeftOut {
        // A development build has its plugins beside it, and needs no reason.
        let why = is_release.then_some("this program was built without them");
        return write_table(&out, &[], why);
    }
    let folders = [GuestFolder::new("plugin", "plugins", "target/plugins")];
    let builder = Builder::new("../..")?;
    match builder.build(&folders) {
        Ok(built) => {
            print!("{}", rerun_lines(&builder, &folders, &built));
            write_table(&out, &built, None)
        }
        // The program is of use without them, and says how to get them.
        Err(error @ BuildError::Toolchain { .. }) if choice == EmbedChoice::IfPossible => {
            print!("{}", rerun_always_lines(&out));
            println!(
                "cargo::warning=the program is built without the plugins that come with it: no Rust toolchain here can build them"
            );
            for line in error.to_string().lines() {
                println!("cargo::warning={line}");
            }
            println!("cargo::warning=run `rustup target add wasm32-unknown-unknown`, then build again");
            write_table(&out, &[], Some("this program was built without them, for lack of a WebAssembly toolchain"))
        }
        Err(error) => Err(error.into()),
    }
}

/// Writes `plugins.rs` with the constants `PLUGINS` and `WHY_NONE`, and the compressed components beside it.
fn write_table(out: &Path, built: &[Built], why_none: Option<&str>) -> Result<(), Box<dyn Error>> {
    let mut rows = String::new();
    for plugin in built {
        let component = fs::read(&plugin.component)?;
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(&component)?;
        let compressed = out.join(format!("{}.wasm.z", plugin.id));
        fs::write(&compressed, encoder.finish()?)?;
        let manifest = fs::read_to_string(plugin.plugin.join("plugin.toml"))?;
        rows += &format!(
            "    EmbeddedPlugin {{ id: {:?}, manifest: {manifest:?}, compressed: include_bytes!({compressed:?}), size: {} }},\n",
            plugin.id,
            component.len()
        );
    }
    let source = format!(
        "/// The plugins in this program, in the order of their ids; none in a development build.\n\
         pub const PLUGINS: &[EmbeddedPlugin] = &[\n{rows}];\n\n\
         /// The reason why there is none, if one was to be expected.\n\
         pub const WHY_NONE: Option<&str> = {why_none:?};\n"
    );
    Ok(fs::write(out.join("plugins.rs"), source)?)
}
