//! A plugin outside of any agent: its grants and settings stand on the command line, and it keeps nothing on disk.

use std::{path::Path, sync::Arc};

use super::{App, StartupNotices, plugin_grants::given_below, plugin_limits::plugin_limits, plugins::check_params};
use crate::{
    config::{self, ChangesUse, PluginUse},
    error::{ErrorKind, Report},
    kv::KvStores,
    model::Completer,
    net::egress::HttpResponder,
    plugin::{ComponentCompiler, FixedInputs, Plugin, PluginError, PluginPackage, PluginSettings},
};

/// The option of the command line with which a person grants something to a lone plugin.
pub const GRANT_OPTION: &str = "--grant";

/// The name of the run and of the agent that a lone plugin is told.
pub const LONE_RUN: &str = "trial";

/// The place where a person grants something to a lone plugin in a test case.
const CASE_GRANTS: &str = "`grants` of the case";

/// The host of a plugin outside of any agent: the place where its grants stand, and the stand-ins for parts of the host.
pub struct LonePluginHost {
    /// The option of the command line that grants; `None`: a test case does.
    option: Option<&'static str>,
    /// The place of the grants, for messages.
    place: &'static str,
    /// The place of the params, for messages.
    params_place: &'static str,
    stores: KvStores,
    fixed_inputs: Option<FixedInputs>,
    responder: Option<Arc<dyn HttpResponder>>,
}

impl LonePluginHost {
    /// Returns the real host, for grants on the command line. Key-value stores are in memory.
    fn of_command_line() -> Self {
        Self {
            option: Some(GRANT_OPTION),
            place: GRANT_OPTION,
            params_place: "--params, or by `params` of --grant",
            stores: KvStores::default(),
            fixed_inputs: None,
            responder: None,
        }
    }

    /// Returns the host of a test case: with these stores, this time and these random numbers, and with this responder in place
    /// of the network. Any model can be granted, since the case answers for it.
    pub fn of_case(stores: KvStores, fixed_inputs: FixedInputs, responder: Arc<dyn HttpResponder>) -> Self {
        Self {
            option: None,
            place: CASE_GRANTS,
            params_place: "`params` of the case",
            stores,
            fixed_inputs: Some(fixed_inputs),
            responder: Some(responder),
        }
    }

    fn is_of_case(&self) -> bool {
        self.option.is_none()
    }
}

/// The failure to load a lone plugin.
#[derive(Debug)]
pub struct LonePluginFailure {
    /// The report for the person.
    pub report: Report,
    /// `true` if the plugin needs something that is not granted.
    pub is_missing_grant: bool,
}

impl From<Report> for LonePluginFailure {
    fn from(report: Report) -> Self {
        Self { report, is_missing_grant: false }
    }
}

/// A plugin that is loaded outside of any agent.
pub struct LonePlugin {
    /// The plugin.
    pub plugin: Arc<Plugin>,
    /// Problems that do not keep it from running, such as a wish that was not granted.
    pub warnings: Vec<String>,
}

impl App {
    /// Uses this compiler, which has compiled what the engine will run.
    pub fn with_compiler(mut self, compiler: &Arc<ComponentCompiler>) -> Self {
        self.compiler = Arc::clone(compiler);
        self.catalog.set_compiler(compiler);
        self
    }

    /// Loads a plugin outside of any agent, with what `uses` grants it. Relative paths of the grants are below `folder`; names
    /// of programs, models and credentials are those of the config. Its key-value stores are in memory.
    ///
    /// # Errors
    ///
    /// A [`Report`] that names the option which grants what is missing, or the mistake in the grants.
    pub async fn load_alone(
        &self,
        package: &Arc<PluginPackage>,
        uses: &PluginUse,
        folder: &Path,
    ) -> Result<LonePlugin, Report> {
        let loaded = self.load_alone_on(LonePluginHost::of_command_line(), package, uses, folder).await;
        loaded.map_err(|failure| failure.report)
    }

    /// Loads a plugin outside of any agent like [`App::load_alone`], on this host.
    ///
    /// # Errors
    ///
    /// A [`LonePluginFailure`] that says what is missing, or the mistake in the grants.
    pub async fn load_alone_on(
        &self,
        host: LonePluginHost,
        package: &Arc<PluginPackage>,
        uses: &PluginUse,
        folder: &Path,
    ) -> Result<LonePlugin, LonePluginFailure> {
        check_keys(uses, host.place)?;
        // A case answers for every model that it grants.
        let models = if host.is_of_case() { Vec::new() } else { uses.models.clone() };
        self.config.check_use(&PluginUse { models, ..uses.clone() }, host.place)?;
        let manifest = &package.manifest;
        check_params(package, &uses.params, host.params_place)?;
        let (grant, mounts) = given_below(uses, folder);
        let settings = PluginSettings {
            grant,
            mounts,
            programs: self.programs.clone(),
            params: config::params(&uses.params),
            limits: plugin_limits(&uses.limits.over(&self.config.limits)),
            stores: host.stores,
            option: host.option,
            fixed_inputs: host.fixed_inputs,
            responder: host.responder,
            ..PluginSettings::new(LONE_RUN, host.place)
        };
        let mut warnings = self.doubts_of_credentials(&settings, manifest);
        let credentials = self.credentials(&settings, manifest, &mut warnings).await;
        let settings = PluginSettings { credentials, ..settings };
        let plugin = Plugin::load(self.engine().await?, package, &settings).await;
        let plugin = plugin.map_err(|error| LonePluginFailure {
            report: refused(&error, &settings, package),
            is_missing_grant: matches!(error, PluginError::NotGranted { .. }),
        })?;
        warnings.extend(settings.lacking(manifest));
        warnings.extend(settings.in_vain(manifest));
        warnings.extend(self.engine_warnings());
        Ok(LonePlugin { plugin: Arc::new(plugin), warnings })
    }

    /// Returns the model of this name for a plugin that asks a model, and notices about it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if there is no such model, or it cannot be used.
    pub async fn lone_model(&self, name: &str) -> Result<(Arc<dyn Completer>, Vec<String>), Report> {
        let mut notices = StartupNotices::default();
        let model = self.make_model(Some(name), &KvStores::default(), &mut notices).await?;
        Ok((model.completer, notices.warnings))
    }
}

/// Refuses keys that only an agent has a use for: nobody is asked, and nothing is changed or goes on after a failure.
fn check_keys(uses: &PluginUse, place: &str) -> Result<(), Report> {
    let idle = [
        ("ask", !uses.ask.is_empty()),
        ("confirm", uses.confirm),
        ("changes", uses.changes != ChangesUse::default()),
        ("on_failure", uses.on_failure.is_some()),
    ];
    match idle.into_iter().find(|(_, is_set)| *is_set) {
        None => Ok(()),
        Some((key, _)) => {
            let message = format!("{place}: `{key}` has no effect outside of an agent");
            Err(Report::new(ErrorKind::Usage, message).hint("remove the key"))
        }
    }
}

/// Returns the report about a plugin that cannot be loaded. What was not granted is granted by the option, all of it at once.
fn refused(error: &PluginError, settings: &PluginSettings, package: &PluginPackage) -> Report {
    let mut report = error.report();
    match error {
        PluginError::NotGranted { id, missing, .. } => {
            report.message = format!("plugin `{id}` needs `{}`, which is not granted", missing.capability);
            let missing = settings.grant.missing(&package.manifest.wants).into_iter();
            let options: Vec<_> = missing.map(|missing| settings.granted_by(&missing.line).replace('`', "")).collect();
            report.hint(format!("grant what it wants: {}", options.join(" ")))
        }
        PluginError::NoFolder { id, path, .. } => {
            let (path, place) = (path.display(), &settings.place);
            report.message = format!("{place} grants plugin `{id}` the folder {path}, which cannot be opened");
            report.hint(format!("correct `files` in {place}; relative paths are below --dir, or the current folder"))
        }
        _ => report,
    }
}
