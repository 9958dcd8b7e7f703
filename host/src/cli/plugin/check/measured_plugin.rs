//! Measurements of a plugin's start.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use super::super::inspect::listing_settings;
use crate::{
    chat::ToolSpec,
    cli::host_environment::compiling,
    error::{ErrorKind, Report},
    plugin::{CompileConfig, Plugin, PluginEngine, PluginError, PluginPackage, PluginStart},
};

/// A plugin that was started twice: once with an empty cache of compiled code, and once with the code in it.
pub struct MeasuredPlugin {
    pub tools: Arc<[Arc<ToolSpec>]>,
    /// Wall time of the first start, compiling included.
    pub first: Duration,
    /// Wall time of the second start.
    pub later: Duration,
    /// The figures of the first call in the second start.
    pub call: PluginStart,
}

/// The measurements of one start.
struct MeasuredStart {
    tools: Arc<[Arc<ToolSpec>]>,
    duration: Duration,
    call: PluginStart,
}

impl MeasuredPlugin {
    /// Starts a plugin twice in the sandbox, without any grant. The person's own cache of compiled code is neither used nor
    /// changed.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no folder for the compiled code. The inner error says why the plugin does not start.
    pub async fn measure(package: &Arc<PluginPackage>) -> Result<Result<Self, PluginError>, Report> {
        let folder = tempfile::tempdir().map_err(|error| {
            Report::new(ErrorKind::Run, "cannot make a folder for the compiled code")
                .cause(error)
                .hint("check that the folder of temporary files can be written to")
        })?;
        let cache = folder.path().join("components");
        let first = match MeasuredStart::measure(package, &cache).await? {
            Ok(first) => first,
            Err(error) => return Ok(Err(error)),
        };
        let later = MeasuredStart::measure(package, &cache).await?;
        Ok(later.map(|later| Self {
            tools: first.tools,
            first: first.duration,
            later: later.duration,
            call: later.call,
        }))
    }
}

impl MeasuredStart {
    async fn measure(package: &Arc<PluginPackage>, cache: &Path) -> Result<Result<Self, PluginError>, Report> {
        let config = CompileConfig { cache: Some(cache.into()), ..compiling() };
        let engine = Arc::new(PluginEngine::new(config)?);
        let started = Instant::now();
        let loaded = Plugin::load_measured(&engine, package, &listing_settings(package)).await;
        let duration = started.elapsed();
        Ok(loaded.map(|(plugin, call)| Self { tools: Arc::clone(plugin.tools()), duration, call }))
    }
}
