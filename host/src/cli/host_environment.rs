//! The parts of the environment of this process that the app is given: variables, plugin directories, and the cache.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::compile_progress::CompileProgressObserver;
use crate::{
    app::Environment,
    plugin::{CompileConfig, CompileObserver, CompileSite, PACKAGED_FOLDER, PluginDirs, ShippedPlugins},
};

/// Returns the variables of this process.
pub fn environment() -> Environment {
    Arc::new(|name| std::env::var(name).ok())
}

/// Returns the directories of plugins: those of the command line, and of the user's own data; and the plugins in the
/// program and beside it.
pub fn plugin_dirs(named: &[PathBuf]) -> PluginDirs {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let data = set("XDG_DATA_HOME").or_else(|| set("HOME").map(|home| home.join(".local/share")));
    let data = data.filter(|data| data.is_absolute()).map(|data| data.join("shelly-host"));
    let installed = data.as_ref().map(|data| data.join("plugin-store"));
    let directories = std::env::current_exe().and_then(|program| program.canonicalize()).map_or_else(
        |_| Vec::new(),
        |program| {
            let folder = program.parent().unwrap_or(Path::new("/"));
            let mut directories = vec![folder.join("plugins"), folder.join("..").join(PACKAGED_FOLDER)];
            // In a cargo build the plugins lie one level up.
            if folder.ends_with("debug") || folder.ends_with("release") {
                directories.push(folder.join("../plugins"));
            }
            directories
        },
    );
    let (embedded, why_not_embedded) = (shelly_shipped::PLUGINS, shelly_shipped::WHY_NONE);
    let shipped = ShippedPlugins { embedded, directories, why_not_embedded };
    let standard = data.into_iter().map(|data| data.join("plugins")).collect();
    PluginDirs { named: named.to_vec(), shipped, standard, installed, offers_standard: named.is_empty() }
}

/// Set if this process compiles components itself.
static COMPILES_HERE: AtomicBool = AtomicBool::new(false);

/// Compiles components in this process from now on.
pub fn compile_here() {
    COMPILES_HERE.store(true, Ordering::Relaxed);
}

/// Returns the compiler settings: each component is compiled in a process of its own, which a person is told of if that takes
/// long, and the code is cached between runs.
pub fn compiling() -> CompileConfig {
    let site = match COMPILES_HERE.load(Ordering::Relaxed) {
        true => CompileSite::InProcess,
        false => CompileSite::OwnProgram,
    };
    let observer = Some(Arc::new(CompileProgressObserver) as Arc<dyn CompileObserver>);
    CompileConfig { cache: cache_directory(), site, observer, ..CompileConfig::default() }
}

/// Returns the cache directory of compiled code.
fn cache_directory() -> Option<PathBuf> {
    cache_base().map(|base| base.join("components"))
}

/// Returns the folder of all caches of this program; `None` without a home folder.
pub fn cache_base() -> Option<PathBuf> {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    set("SHELLY_CACHE_DIR").or_else(|| {
        let caches = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        caches.map(|caches| caches.join("shelly-host"))
    })
}
