//! `shelly-host plugin new`.

use std::path::{Path, PathBuf};

use clap::{Args, builder::PossibleValuesParser};
use shelly_author::{JavaScriptEngine, NewProject, PluginLanguage, ProjectKind, ProjectName};

use crate::{
    cli::render::{name, print},
    error::{ErrorKind, Report},
};

/// Write a project of a new plugin: its source, a test, a README and a plugin.toml.
///
/// The project builds as it is. No file that is there is replaced. The name becomes the plugin's id.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin new dice
  shelly-host plugin new dice --lang python
  shelly-host plugin new reminder --kind effect --lang typescript --dir plugins/reminder
  shelly-host plugin new calc --lang go --world plain
  shelly-host plugin new slug --lang javascript --engine quickjs")]
pub struct PluginNewArgs {
    /// The name: 1 to 64 of a-z, 0-9 and -, beginning with a letter.
    name: String,
    /// The kind of the plugin.
    #[arg(long, value_name = "KIND", default_value = "tool", value_parser = PossibleValuesParser::new(kinds()))]
    kind: String,
    /// The language.
    #[arg(long, value_name = "LANGUAGE", default_value = "rust", value_parser = PossibleValuesParser::new(languages()))]
    lang: String,
    /// The engine of JavaScript and TypeScript (default: spidermonkey).
    ///
    /// `quickjs` makes a plugin of a tenth of the size, which starts sooner. It has no console, no clock and no integers beyond
    /// 2^53, and there are only tools and components with a world of their own.
    #[arg(long, value_name = "ENGINE", value_parser = PossibleValuesParser::new(engines()))]
    engine: Option<String>,
    /// `plain`: a world of its own, which knows nothing of the host; each exported function is a tool.
    #[arg(long, value_name = "WORLD", conflicts_with = "kind", value_parser = PossibleValuesParser::new([PLAIN]))]
    world: Option<String>,
    /// The project's folder (default: a new one with the plugin's name).
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The name of a world of its own.
const PLAIN: &str = ProjectKind::Plain.name();

fn kinds() -> Vec<&'static str> {
    ProjectKind::ALL.map(ProjectKind::name).into_iter().filter(|kind| *kind != PLAIN).collect()
}

fn languages() -> [&'static str; 6] {
    PluginLanguage::ALL.map(PluginLanguage::name)
}

fn engines() -> [&'static str; 2] {
    JavaScriptEngine::ALL.map(JavaScriptEngine::name)
}

impl PluginNewArgs {
    /// Writes the project and says what comes next.
    pub(super) fn write(&self) -> Result<u8, Report> {
        let wrong = |message: String| Report::new(ErrorKind::Usage, message);
        let project_name = ProjectName::new(&self.name)
            .map_err(|message| wrong(message).hint("choose another name, such as `my-tool`"))?;
        let kind: ProjectKind = self.world.as_ref().unwrap_or(&self.kind).parse().map_err(wrong)?;
        let language: PluginLanguage = self.lang.parse().map_err(wrong)?;
        let engine = self.engine.as_deref().map(str::parse::<JavaScriptEngine>).transpose().map_err(wrong)?;
        let project = NewProject::new(project_name, kind, language);
        let project = match engine {
            Some(engine) => project.with_engine(engine).map_err(|error| error.report())?,
            None => project,
        };
        let folder = self.dir.clone().unwrap_or_else(|| PathBuf::from(&self.name));
        let written = project.write(&folder).map_err(|error| error.report())?;
        let mut lines: Vec<String> = Vec::new();
        for path in &written {
            let below = path.strip_prefix(&folder).unwrap_or(path);
            // The copies of the SDK and of the contract are one line each.
            let line = match copied(below) {
                Some(copy) => format!("wrote     {}/", shown(&folder.join(copy))),
                None => format!("wrote     {}", shown(path)),
            };
            if lines.last() != Some(&line) {
                lines.push(line);
            }
        }
        lines.push(next(&folder, language));
        print(&lines.join("\n"))?;
        Ok(0)
    }
}

/// Returns the folder of a copied package that a file belongs to.
fn copied(path: &Path) -> Option<&'static str> {
    let folders = [
        "vendor/shelly-plugin",
        "shelly_plugin",
        "src/shelly-plugin",
        "shelly-plugin",
        "shelly",
        "wit/deps/shelly-plugin",
    ];
    folders.into_iter().find(|folder| path.starts_with(folder))
}

fn next(folder: &Path, language: PluginLanguage) -> String {
    let mut steps = vec![format!("cd {}", shown(folder))];
    match language {
        PluginLanguage::Python => steps.push("python3 -m venv .venv && .venv/bin/pip install componentize-py".into()),
        PluginLanguage::TypeScript | PluginLanguage::JavaScript => steps.push("npm install".into()),
        _ => {}
    }
    steps.push("shelly-host plugin build".into());
    format!(
        "\nnext:\n  {}\nREADME.md says how to use it; shelly-host plugin doctor, what a build needs",
        steps.join("\n  ")
    )
}

fn shown(path: &Path) -> String {
    name(&path.display().to_string())
}
