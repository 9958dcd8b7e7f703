use std::path::PathBuf;

use clap::Subcommand;
use serde_json::json;

use super::{
    plugin::Format,
    render::{self, Output, json_line, name, print, print_for_people, warn},
    trust,
};
use crate::{
    app::{App, Checked},
    approval::{Desk, Policy, Trusted},
    config::Config as File,
    error::{ErrorKind, Report},
};

#[derive(Subcommand)]
pub enum Config {
    /// Check a config, and print what holds: every key, with its default or ceiling where the file says nothing.
    ///
    /// No model is asked, and nothing of a plugin is run. The exit code is 0 if the config can be used, else 2; what is
    /// not as it should be, though it can be used, is told on standard error, and so is what a run would ask you about
    /// first. Credentials are not shown.
    Check {
        /// The config; without it .shelly/config.yaml or shelly.yaml.
        #[arg(long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// A directory of plugin folders; may be given several times.
        #[arg(long, value_name = "DIR")]
        plugins: Vec<PathBuf>,
        /// How to print it: `text` is YAML.
        #[arg(long, value_name = "FORMAT", value_enum, default_value_t = Format::Text)]
        output: Format,
    },
    Trust(trust::Trust),
}

impl Config {
    pub fn execute(self) -> u8 {
        let (config, plugins, output) = match self {
            Self::Check { config, plugins, output } => (config, plugins, output),
            Self::Trust(trust) => return trust.execute(),
        };
        check(config, &plugins, output).map_or_else(
            |mut report| {
                // Whatever is wrong, it is the config that names it.
                report.kind = ErrorKind::Usage;
                render::failed(&report, if output == Format::Json { Output::Json } else { Output::Text })
            },
            |()| 0,
        )
    }
}

fn check(config: Option<PathBuf>, plugins: &[PathBuf], output: Format) -> Result<(), Report> {
    let is_named = config.is_some();
    let path = super::config_path(config).ok_or_else(|| {
        Report::new(ErrorKind::Usage, "there is no config to check")
            .cause("neither .shelly/config.yaml nor shelly.yaml is there")
            .hint("write one with shelly-host init, or name one with --config")
    })?;
    let config = File::read(&path)?;
    let desk = Desk::new(Policy::Never, Trusted::default());
    let app = App::new(config, super::plugin_dirs(plugins), None, super::environment(), desk)?;
    let standing = app.standing(&trust::store(), is_named)?;
    let Checked { effective, warnings } = app.check()?;
    match output {
        Format::Json => print(&json_line(&json!({
            "ok": true,
            "config": effective,
            "warnings": warnings,
            "trust": trust::standing_json(&standing),
        })))?,
        Format::Text => {
            print_for_people(&format!(
                "# {}, as it holds\n{}",
                name(&path.display().to_string()),
                effective.to_yaml()
            ))?;
        }
    }
    warnings.iter().for_each(|warning| warn(warning));
    trust::tell_standing(&standing, &path);
    Ok(())
}
