//! Builds the guests of a workspace, which are Rust crates that become WebAssembly components, and assembles each into a
//! plugin folder that `shelly-host` can load.
//!
//! A folder such as `plugins/` contains guests: every direct subfolder with a `Cargo.toml` and a `plugin.toml`.
//! [`Builder::build`] makes the wasm target usable (`sdk/rust/wasm-toolchain.sh`), compiles all guests with one call of
//! cargo into `target/guests`, and writes `<output>/<id>/{plugin.toml, <id_with_underscores>.wasm}` for each. The crate
//! depends only on std, because it is a build-dependency of the tests:
//!
//! ```no_run
//! use shelly_guest_builder::{Builder, GuestFolder, generate, rerun_lines};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let folders = [
//!         GuestFolder::new("plugin", "plugins", "target/plugins"),
//!         GuestFolder::new("guest", "tests/guests", "target/test-plugins"),
//!     ];
//!     let builder = Builder::new("..")?;
//!     let built = builder.build(&folders)?;
//!     print!("{}", rerun_lines(&builder, &folders, &built));
//!     let out = std::path::PathBuf::from(std::env::var_os("OUT_DIR").ok_or("not run by cargo")?);
//!     std::fs::write(out.join("guests.rs"), generate(&builder, &folders, &built)?)?;
//!     Ok(())
//! }
//! ```

mod assemble;
mod build;
mod cargo;
mod depfile;
mod discover;
mod error;
mod generate;
mod process;
#[cfg(all(test, unix))]
mod script_tests;
#[cfg(test)]
mod testing;
mod toolchain;

pub use build::{Builder, Built, GuestFolder};
pub use cargo::belongs_to_outer_cargo;
pub use discover::Guest;
pub use error::BuildError;
pub use generate::{generate, rerun_always_lines, rerun_lines};
pub use toolchain::parse_env;
