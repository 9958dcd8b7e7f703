use std::{cell::OnceCell, collections::BTreeMap, path::PathBuf};

use futures_util::future::join_all;
use tokio::time::timeout;

use crate::{
    app::{App, LocalServerStatus, ModelProbe, ProjectTrustStatus, local_servers},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    cli::{
        command_runtime::{CommandRuntime, runtime},
        config::ConfigCheck,
        config_path::{read_over_user_config, search, with_default_toolboxes},
        host_environment::{compiling, environment, plugin_dirs},
        secrets, trust,
        user_config_path::user_config_path,
    },
    config::{Config, ConfigErrors, ShareableConfig},
    error::{ErrorKind, Report},
    limits,
    session::Secrets,
};

/// Everything that the checks look at. What takes time is done when the first check needs it, and once.
pub struct DoctorContext {
    /// `true` if nothing may be sent.
    pub is_offline: bool,
    /// `true` if MCP servers are started or reached.
    pub starts_servers: bool,
    /// The config: named on the command line, or found.
    pub path: Option<PathBuf>,
    /// `true` if the command line names the config.
    pub is_named: bool,
    /// `true` if the config was found in a folder above the current one.
    pub is_above: bool,
    /// The user-wide config, if there is one.
    pub user_path: Option<PathBuf>,
    /// The plugin directories that the command line names.
    pub named_dirs: Vec<PathBuf>,
    /// The result of `config check`; `None` if there is no config.
    pub config_check: Option<ConfigCheck>,
    /// The app of the config, or of none if there is none; the error if it cannot be made.
    pub app: Result<App, Report>,
    /// The person's consent to the project; the error if that cannot be read.
    pub standing: Option<Result<ProjectTrustStatus, Report>>,
    runtime: CommandRuntime,
    probes: OnceCell<Vec<ModelProbeAnswer>>,
    local_servers: OnceCell<Result<Vec<LocalServerStatus>, Report>>,
}

/// A model that was asked, and its answer.
pub struct ModelProbeAnswer {
    /// Its name in the config; `None`: the model that a run without a config uses.
    pub name: Option<String>,
    pub answer: Result<ModelProbe, Report>,
}

impl DoctorContext {
    /// Finds the config and reads it. Nothing of it is acted on.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the runtime cannot be started.
    pub fn new(
        config: Option<PathBuf>,
        named_dirs: Vec<PathBuf>,
        is_offline: bool,
        starts_servers: bool,
    ) -> Result<Self, Report> {
        let (runtime, is_named) = (runtime()?, config.is_some());
        let found = search();
        let found = found.used().filter(|_| !is_named);
        let is_above = found.is_some_and(|found| found.is_above);
        let path = config.or_else(|| found.map(|found| found.path.clone()));
        let user_path = user_config_path().filter(|path| path.symlink_metadata().is_ok());
        let config_check = (path.is_some() || user_path.is_some())
            .then(|| ConfigCheck::of(path.as_deref(), is_named, &named_dirs, None));
        let read = read_over_user_config(path.as_deref()).map_err(ConfigErrors::first);
        let app = read.and_then(|config| {
            let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
            let (config, _) = with_default_toolboxes(config, &named_dirs);
            let app = App::new(config, plugin_dirs(&named_dirs), compiling(), environment(), broker)?;
            Ok(app.with_approvals(trust::store(), false).with_logins(trust::logins()))
        });
        let standing = app.as_ref().ok().map(|app| app.standing(&trust::store(), is_named));
        let (probes, local_servers) = Default::default();
        let context = Self {
            is_offline,
            starts_servers,
            path,
            is_named,
            is_above,
            user_path,
            named_dirs,
            config_check,
            app,
            standing,
            runtime,
            probes,
            local_servers,
        };
        context.hide_secrets();
        Ok(context)
    }

    /// Returns the config, if it can be used.
    pub fn config(&self) -> Option<&Config> {
        self.app.as_ref().ok().map(|app| &app.config)
    }

    /// Returns the folder of the project.
    pub fn root(&self) -> PathBuf {
        let root = self.path.as_ref().and_then(|path| Config::root_of(path).ok());
        root.unwrap_or_else(|| PathBuf::from("."))
    }

    /// Returns `true` if the config has a mistake, so that no run can use it.
    pub fn has_mistakes(&self) -> bool {
        self.app.is_err() || self.config_check.as_ref().is_some_and(|check| !check.mistakes.is_empty())
    }

    /// Returns the app if it may act: its config can be used and the person has consented to the project. Otherwise the
    /// reason why it may not.
    pub fn app_if_trusted(&self) -> Result<&App, &'static str> {
        let app = self.app.as_ref().map_err(|_| "the config cannot be used")?;
        if self.has_mistakes() {
            return Err("the config cannot be used");
        }
        match &self.standing {
            Some(Ok(standing)) if standing.is_trusted() => Ok(app),
            Some(Ok(standing)) if standing.is_about_own_alone() => Err("plugins in your own folders are not trusted"),
            _ => Err("the project is not trusted"),
        }
    }

    /// Waits for `work`; a signal ends the process.
    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Returns the answers of the models, which are asked at the first call; none if nothing may be sent or acted on.
    pub fn probes(&self) -> &[ModelProbeAnswer] {
        self.probes.get_or_init(|| {
            let Some(app) = self.app_if_trusted().ok().filter(|_| !self.is_offline) else { return Vec::new() };
            let mut wanted: Vec<_> = app.model_names().map(|name| Some(name.to_owned())).collect();
            if wanted.is_empty() {
                wanted.push(None);
            }
            let probe = async |name: Option<String>| {
                let answer = timeout(limits::DOCTOR_MODEL_TIME, app.probe(name.as_deref())).await;
                ModelProbeAnswer { answer: answer.unwrap_or_else(|_| Err(too_slow())), name }
            };
            self.block_on(join_all(wanted.into_iter().map(probe)))
        })
    }

    /// Returns the answers of the local model servers, which are asked at the first call.
    ///
    /// # Errors
    ///
    /// A [`Report`] if no request can be sent at all.
    pub fn local_servers(&self) -> Result<&[LocalServerStatus], &Report> {
        self.local_servers.get_or_init(|| self.block_on(local_servers())).as_deref()
    }

    /// Hides all credentials that are known by now in everything that is printed and written.
    pub fn hide_secrets(&self) {
        secrets::hide(self.secrets());
    }

    /// Returns the credentials of the environment, of the config files and of the app.
    fn secrets(&self) -> Secrets {
        let in_environment = std::env::vars_os().filter_map(|(name, value)| {
            let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
            ShareableConfig::is_credential(&name, &value).then_some((name, value))
        });
        let files = self.path.iter().chain(&self.user_path);
        let in_file = files.map(|path| ShareableConfig::read(path)).flat_map(|config| config.hidden);
        let known: BTreeMap<_, _> = in_file.map(|text| (text, "config".to_owned())).collect();
        let known = known.into_iter().map(|(text, name)| (name, text));
        let known = Secrets::new(in_environment.chain(known));
        self.app.as_ref().map_or_else(|_| known.clone(), |app| app.secrets().with(&known))
    }
}

/// Reports that a model did not answer in time.
fn too_slow() -> Report {
    let time = limits::DOCTOR_MODEL_TIME.as_secs();
    Report::new(ErrorKind::Provider, format!("no answer within {time} s"))
        .hint("try again with shelly-host provider check, which waits longer; a local server may be loading the model")
}
