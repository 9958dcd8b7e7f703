use std::path::PathBuf;

use clap::Args;
use serde_json::json;

use super::{
    config::{ConfigCheck, UsableConfig},
    config_path::config_path,
    render::{self, CliOutputFormat, json_line, print, print_for_people},
};
use crate::{
    config::{OriginatedSetting, SettingOrigin},
    error::{ErrorKind, Report},
};

/// Print the effective config: the project's config over your user-wide one, with defaults.
///
/// Runs nothing and asks nothing. Credentials are not shown.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host config show
  shelly-host config show --origin")]
pub struct ConfigShowArgs {
    /// Print one setting a line, each with the file and line that it comes from, or `default`.
    #[arg(long)]
    origin: bool,
    /// The config file [default: .shelly/config.yaml or shelly.yaml].
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// A directory of plugin folders; repeatable.
    #[arg(long, value_name = "DIR")]
    plugins: Vec<PathBuf>,
    /// The output format; without --origin `text` is YAML.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    output: CliOutputFormat,
}

impl ConfigShowArgs {
    pub fn execute(self) -> u8 {
        let output = self.output.into();
        self.show().map_or_else(|report| render::failed(&report, output), |()| 0)
    }

    fn show(self) -> Result<(), Report> {
        let is_named = self.config.is_some();
        let path = config_path(self.config);
        let mut check = ConfigCheck::of(path.as_deref(), is_named, &self.plugins, None);
        let UsableConfig { effective, sources, .. } = match check.checked.take() {
            Some(usable) if check.mistakes.is_empty() => usable,
            _ => {
                // A check tells the others.
                let mut first = check.mistakes.swap_remove(0);
                first.kind = ErrorKind::Usage;
                return Err(first);
            }
        };
        match (self.origin, self.output) {
            (false, CliOutputFormat::Text) => print_for_people(&effective.to_yaml()),
            (false, CliOutputFormat::Json) => print(&json_line(&json!({ "config": effective }))),
            (true, CliOutputFormat::Text) => {
                let lines = effective.settings(&sources).iter().map(line).collect::<Vec<_>>();
                print_for_people(&lines.join("\n"))
            }
            (true, CliOutputFormat::Json) => print(&json_line(&json!({ "settings": effective.settings(&sources) }))),
        }
    }
}

/// Formats a setting on one line.
fn line(setting: &OriginatedSetting) -> String {
    let OriginatedSetting { key, value, origin, note } = setting;
    let note = match origin {
        SettingOrigin::Default if !note.is_empty() && *note != "default" => format!(": {note}"),
        _ => String::new(),
    };
    format!("{key}: {value}  # {origin}{note}")
}
