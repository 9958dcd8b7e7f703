//! Builds every guest, sets the path of each for the tests, and generates random modules and the schema of a protocol.

mod acp_schema;
mod smith;

use std::{env, error::Error, fs, path::PathBuf};

use shelly_guest_builder::{Builder, GuestFolder, generate, rerun_lines};

fn main() {
    if let Err(error) = run() {
        // cargo shows a build script's standard error as it is.
        eprintln!("error: {error}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let folders = [
        GuestFolder::new("plugin", "plugins", "target/plugins"),
        GuestFolder::new("example", "examples/plugins", "target/example-plugins"),
        GuestFolder::new("guest", "tests/guests", "target/test-plugins"),
    ];
    let builder = Builder::new("..")?;
    let built = builder.build(&folders)?;
    print!("{}", rerun_lines(&builder, &folders, &built));
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("this is run by cargo")?);
    fs::write(out.join("guests.rs"), generate(&builder, &folders, &built)?)?;
    fs::write(out.join("smith.rs"), smith::generate(&out)?)?;
    fs::write(out.join("acp_schema.json"), acp_schema::generate())?;
    Ok(())
}
