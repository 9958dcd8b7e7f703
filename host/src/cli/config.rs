use std::path::{Path, PathBuf};

use clap::Subcommand;
use serde_json::json;

use super::{
    ask,
    command_runtime::runtime,
    config_files::ConfigPathArgs,
    config_path::{config_path, read_over_user_config, with_default_toolboxes},
    config_show::ConfigShowArgs,
    host_environment::{compiling, environment, plugin_dirs},
    render::{self, CliOutputFormat, RunOutputFormat, json_line, name, print, print_for_people, tell, warn},
    trust,
    user_config_path::user_config_path,
};
use crate::{
    app::{App, AppCheck, AppCheckFailure, ProjectTrustStatus},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    config::{ConfigErrors, ConfigSources, EffectiveConfig, json_schema},
    error::{ErrorKind, Report, count},
};

#[derive(Subcommand)]
pub enum ConfigCommand {
    /// Check a config, and print what its files set.
    ///
    /// Sends nothing to a model, and runs no plugin code without --load. Prints on standard error: all errors that can be
    /// found in one pass, warnings, and what a run would ask you to trust first. The last line is the verdict: `ok`, or
    /// the numbers of errors and warnings. The exit code is 0 if the config can be used, else 2. Credentials are not
    /// shown. shelly-host config show prints every key with the value that holds, defaults included; so does the JSON
    /// output of this command.
    Check {
        /// The config file (default: .shelly/config.yaml or shelly.yaml).
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; repeatable.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// Also load every plugin in its sandbox, as a run would, and check the tools that it declares.
        ///
        /// Contacts no model and no server, and reads no credential. As before a run, you are asked first to trust what the
        /// files of the project name.
        #[arg(long)]
        load: bool,
        /// Trust the project's config and permissions for this command without asking; see shelly-host config trust.
        #[arg(long, requires = "load")]
        trust: bool,
        /// The output format; `text` is YAML.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
        output: CliOutputFormat,
    },
    Show(ConfigShowArgs),
    Path(ConfigPathArgs),
    /// Print the JSON Schema of the config file, for editors and other programs.
    ///
    /// A config that this schema rejects cannot be run. References between names, and rules that depend on several keys,
    /// are checked only by shelly-host config check.
    Schema,
    Trust(trust::ConfigTrustArgs),
}

impl ConfigCommand {
    pub fn execute(self) -> u8 {
        let (config, plugins, loading, output) = match self {
            Self::Check { config, plugins, load, trust, output } => {
                (config, plugins, load.then_some(PluginLoadOptions { is_trusted: trust }), output)
            }
            Self::Schema => {
                let printed = print(&format!("{:#}\n", json_schema()));
                return printed.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0);
            }
            Self::Show(show) => return show.execute(),
            Self::Path(path) => return path.execute(),
            Self::Trust(trust) => return trust.execute(),
        };
        check(config, &plugins, loading, output).unwrap_or_else(|report| render::failed(&report, output.into()))
    }
}

/// Options for loading plugins during the check.
#[derive(Clone, Copy)]
pub struct PluginLoadOptions {
    /// The command line gives consent to load them.
    is_trusted: bool,
}

/// A config that can be used.
pub struct UsableConfig {
    pub standing: ProjectTrustStatus,
    pub effective: EffectiveConfig,
    /// The lines of its files.
    pub sources: ConfigSources,
}

/// The result of a check of a config: the effective config if it can be used, and the mistakes and warnings.
#[derive(Default)]
pub struct ConfigCheck {
    pub checked: Option<UsableConfig>,
    pub mistakes: Vec<Report>,
    pub warnings: Vec<String>,
}

impl ConfigCheck {
    /// Checks the config at this path over the user-wide config, or that one alone, and everything that it names as far as
    /// its mistakes allow.
    pub fn of(path: Option<&Path>, is_named: bool, plugins: &[PathBuf], loading: Option<PluginLoadOptions>) -> Self {
        let (config, mut mistakes) = match read_over_user_config(path) {
            Ok(config) => (config, Vec::new()),
            Err(ConfigErrors { reports, config: Some(config) }) => (*config, reports),
            Err(ConfigErrors { reports, config: None }) => return Self { mistakes: reports, ..Self::default() },
        };
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (config, _) = with_default_toolboxes(config, plugins);
        let sources = config.sources();
        let app = App::new(config, plugin_dirs(plugins), compiling(), environment(), broker);
        let looked = app.and_then(|app| Ok((app.standing(&trust::store(), is_named)?, sources?, app)));
        let (standing, sources, app) = match looked {
            Ok(looked) => looked,
            Err(report) => {
                mistakes.push(report);
                return Self { mistakes, ..Self::default() };
            }
        };
        match runtime() {
            Ok(runtime) => runtime.block_on(app.validate_plugins()),
            Err(report) => return Self { mistakes: vec![report], ..Self::default() },
        }
        match app.check() {
            Ok(AppCheck { effective, warnings }) => {
                let mut check = Self { mistakes, warnings, ..Self::default() };
                if let Some(loading) = loading.filter(|_| check.mistakes.is_empty()) {
                    check.load_plugins(&app, &standing, loading);
                }
                Self { checked: Some(UsableConfig { standing, effective, sources }), ..check }
            }
            Err(AppCheckFailure { mistakes: more, warnings }) => {
                // Unknown names are found by both checks; the report of the file check also has its position.
                let is_new = |report: &Report| !mistakes.iter().any(|known| known.message.starts_with(&report.message));
                let more: Vec<_> = more.into_iter().filter(is_new).collect();
                mistakes.extend(more);
                Self { mistakes, warnings, ..Self::default() }
            }
        }
    }

    /// Loads every plugin, unless the person refuses consent to the project's files, and adds the mistakes found.
    fn load_plugins(&mut self, app: &App, standing: &ProjectTrustStatus, loading: PluginLoadOptions) {
        let loading = async {
            trust::admitted(standing, loading.is_trusted, ask::is_attended()).await?;
            app.check_plugins().await
        };
        match runtime().and_then(|runtime| runtime.block_on(loading)) {
            Ok((mistakes, warnings)) => {
                self.mistakes.extend(mistakes);
                self.warnings.extend(warnings);
            }
            Err(report) => self.mistakes.push(report),
        }
    }

    /// Returns `ok`, or the numbers of errors and warnings.
    pub fn verdict(&self) -> String {
        let count = |of: usize, what: &str| (of > 0).then(|| count(of as u64, what, &format!("{what}s")));
        let counted = [count(self.mistakes.len(), "error"), count(self.warnings.len(), "warning")];
        let counted = counted.into_iter().flatten().collect::<Vec<_>>().join(", ");
        match (self.mistakes.is_empty(), counted.is_empty()) {
            (true, true) => "ok".into(),
            (true, false) => format!("ok, {counted}"),
            (false, _) => counted,
        }
    }
}

/// Formats what the files of a config set.
fn set_by_files(effective: &EffectiveConfig, sources: &ConfigSources) -> String {
    let files: Vec<_> = sources.files().map(|file| name(&file.display().to_string())).collect();
    let files = files.join(" and ");
    match effective.set_to_yaml(sources) {
        Some(set) => {
            format!("# set in {files}; shelly-host config show prints every key with the value that holds\n{set}")
        }
        None => {
            format!("# {files}: sets nothing; shelly-host config show prints every key with the value that holds\n")
        }
    }
}

/// Checks a config and prints the results. Returns the exit code.
fn check(
    config: Option<PathBuf>,
    plugins: &[PathBuf],
    loading: Option<PluginLoadOptions>,
    output: CliOutputFormat,
) -> Result<u8, Report> {
    let is_named = config.is_some();
    let path = config_path(config);
    let user = user_config_path().filter(|path| path.symlink_metadata().is_ok());
    let shown = path.clone().or(user).ok_or_else(|| {
        Report::new(ErrorKind::Usage, "no config to check")
            .cause("this folder has neither .shelly/config.yaml nor shelly.yaml")
            .hint("write a config with shelly-host init, or name one with --config")
    })?;
    let mut check = ConfigCheck::of(path.as_deref(), is_named, plugins, loading);
    let path = shown;
    // Every mistake is one of the config, so the exit code is that of wrong usage.
    check.mistakes.iter_mut().for_each(|report| report.kind = ErrorKind::Usage);
    let shown = name(&path.display().to_string());
    let code = match check.mistakes.first() {
        Some(first) => first.kind.exit_code(),
        None => 0,
    };
    match (&check.checked, check.mistakes.first(), output) {
        (Some(UsableConfig { standing, effective, .. }), None, CliOutputFormat::Json) => print(&json_line(&json!({
            "ok": true,
            "config": effective,
            "warnings": check.warnings,
            "trust": trust::standing_json(standing),
        })))?,
        (Some(UsableConfig { effective, sources, .. }), None, CliOutputFormat::Text) => {
            print_for_people(&set_by_files(effective, sources))?;
        }
        (_, first, CliOutputFormat::Json) => print(&json_line(&json!({
            "event": "result",
            "ok": false,
            "error": first,
            "errors": check.mistakes,
            "warnings": check.warnings,
            "exit_code": code,
        })))?,
        (_, _, CliOutputFormat::Text) => {}
    }
    for report in &check.mistakes {
        render::failed(report, RunOutputFormat::Text);
    }
    check.warnings.iter().for_each(|warning| warn(warning));
    if let (Some(UsableConfig { standing, .. }), 0) = (&check.checked, code) {
        trust::tell_standing(standing, &path);
    }
    tell(&format!("{shown}: {}\n", check.verdict()));
    Ok(code)
}
