//! The plugins that come with the host, as part of the program, so that one file is all that has to be installed.
//!
//! The build script builds them for a release build and compresses them. A development build has none: it finds them in
//! `target/plugins`. A release build on a machine that cannot build WebAssembly has none either, and [`WHY_NONE`] says so;
//! with `SHELLY_EMBED_PLUGINS=1` it fails instead.
//!
//! ```
//! for plugin in shelly_shipped::PLUGINS {
//!     println!("{}: {} bytes", plugin.id, plugin.size);
//! }
//! ```

#[cfg(test)]
mod embed_choice;

use shelly_plugin_host::EmbeddedPlugin;

include!(concat!(env!("OUT_DIR"), "/plugins.rs"));
