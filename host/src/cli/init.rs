use std::path::{Path, PathBuf};

use clap::Args;

use super::{
    config_path::BESIDE,
    render::{self, RunOutputFormat, name, print, warn},
    trust,
};
use crate::{
    app::{instruction_files, key_variables_in_words},
    config::Config,
    error::{ErrorKind, Report, without_number},
    files,
    project::ProjectLayout,
    trust::{InstructionFile, TrustStore},
};

/// Write a commented config, and what belongs to it, into the folder .shelly of a project.
///
/// What is there is never replaced unless --force says so; then what the template has too is replaced, and nothing else.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host init
  shelly-host init --template dev-team --dir ../project
  shelly-host init --list")]
pub struct InitArgs {
    /// The template; see --list.
    #[arg(long, value_name = "NAME", default_value = "assistant")]
    template: String,
    /// The project's folder; it must be there.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replace files that are there.
    #[arg(long)]
    force: bool,
    /// List the templates and write nothing.
    #[arg(long, conflicts_with_all = ["template", "dir", "force"])]
    list: bool,
}

/// A template of a project.
struct ProjectTemplate {
    name: &'static str,
    about: &'static str,
    /// Files by their path below `.shelly`, with `/` between folders.
    files: &'static [(&'static str, &'static str)],
}

macro_rules! template {
    ($name:literal, $about:literal, [$($path:literal),+ $(,)?]) => {
        ProjectTemplate {
            name: $name,
            about: $about,
            files: &[$(($path, include_str!(concat!("../../templates/", $name, "/", $path)))),+],
        }
    };
}

/// The templates; the first is the default.
const TEMPLATES: [ProjectTemplate; 3] = [
    template!(
        "assistant",
        "one assistant that knows the project",
        ["config.yaml", "context.md", "skills/describe-project/SKILL.md"]
    ),
    template!(
        "dev-team",
        "a lead who hands work to an explorer, a planner, a coder and a reviewer",
        ["config.yaml", "context.md", "skills/delivery/SKILL.md", "skills/planning/SKILL.md", "skills/review/SKILL.md",]
    ),
    template!(
        "project-indexer",
        "an agent that renews what the others are told of the project: shelly-host index",
        ["config.yaml", "context.md", "skills/index-project/SKILL.md"]
    ),
];

impl InitArgs {
    pub fn execute(self) -> u8 {
        let text = if self.list { Ok(list()) } else { self.write() };
        let printed = text.and_then(|text| print(&text));
        if printed.is_ok() && !self.list {
            self.warn_of_hidden();
        }
        printed.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    /// Warns of a config that was found before and is now hidden by the new one.
    fn warn_of_hidden(&self) {
        let hidden = self.dir.join(BESIDE);
        if is_there(&hidden) {
            let (hidden, config) = (shown(&hidden), shown(&ProjectLayout::new(&self.dir).config()));
            warn(&format!(
                "{hidden} is not used any more, since {config} comes first: move what you need of it there, or name it \
                 with --config {BESIDE}"
            ));
        }
    }

    /// Writes the template. Returns a summary of the written files and the next steps.
    fn write(&self) -> Result<String, Report> {
        let template = TEMPLATES.iter().find(|template| template.name == self.template);
        let template = template.ok_or_else(|| {
            crate::config::unknown("template", &self.template, TEMPLATES.iter().map(|known| known.name))
        })?;
        let layout = ProjectLayout::new(&self.dir);
        let keys = key_variables_in_words("or");
        let files = template.files.iter().map(|(path, text)| (layout.dir().join(path), text.replace("{keys}", &keys)));
        let files: Vec<_> = files.map(|(path, text)| (is_there(&path), path, text)).collect();
        // All or nothing: parts of two templates do not fit together.
        let in_the_way: Vec<_> = files.iter().filter(|(is_there, ..)| *is_there).map(|(_, path, _)| path).collect();
        if !self.force && !in_the_way.is_empty() {
            let report = Report::new(ErrorKind::Usage, "there are files that this would replace; nothing was written");
            let report = in_the_way.iter().fold(report, |report, path| report.cause(shown(path)));
            return Err(report.hint("move these files away, or replace them with --force"));
        }
        let mut lines: Vec<_> = layout.bootstrap().map_err(|error| error.report())?;
        lines.retain(|path| path.is_file());
        let mut lines: Vec<_> = lines.iter().map(|path| format!("wrote     {}", shown(path))).collect();
        for (is_there, path, text) in &files {
            let written = if *is_there { files::replace(path, text.as_bytes()) } else { create(path, text) };
            written.map_err(|error| {
                let report = Report::new(ErrorKind::Usage, format!("cannot write {}", shown(path)));
                report
                    .cause(without_number(&error.to_string()))
                    .hint("check who may write there, and what stands in its place; then do it again with --force")
            })?;
            lines.push(format!("{} {}", if *is_there { "replaced " } else { "wrote    " }, shown(path)));
        }
        let written: Vec<_> = files.iter().map(|(_, path, _)| path.clone()).collect();
        trust_config(&layout, &trust::store(), &written);
        lines.push(self.next(&layout));
        Ok(lines.join("\n"))
    }

    fn next(&self, layout: &ProjectLayout) -> String {
        let into = match self.dir == Path::new(".") {
            true => String::new(),
            false => format!("  go to the project:      cd {}\n", shown(&self.dir)),
        };
        format!(
            "\nnext:\n{into}  \
             say what it is:         edit {}, which every agent is told\n  \
             look at the agents:     {}; shelly-host config check shows what holds\n  \
             choose a model:         set {} or start a local server; or name one in the config\n  \
             give it a task:         shelly-host run \"What is this project?\"",
            shown(&layout.context()),
            shown(&layout.config()),
            key_variables_in_words("or"),
        )
    }
}

/// Stores the user's consent to the config that was just written, and to the instruction files among `written`; nothing
/// else in the project is covered. If it cannot be stored, a run asks.
fn trust_config(layout: &ProjectLayout, store: &TrustStore, written: &[PathBuf]) {
    let Ok(config) = Config::read(&layout.config()) else { return };
    let facts = config.facts();
    if !facts.is_empty() {
        let _ = store.change(layout.root(), |answered| answered.facts.extend(facts));
    }
    // If no instruction files were ever stored, the first run stores them.
    if let (Ok(Some(_)), Ok(files)) = (store.seen_instructions(layout.root()), instruction_files(&config)) {
        let is_written = |file: &InstructionFile| written.contains(&layout.root().join(&file.path));
        let files: Vec<_> = files.into_iter().filter(is_written).collect();
        let _ = store.keep_instructions(layout.root(), &files);
    }
}

/// Returns the names of the templates, each with what it is.
pub fn template_names() -> impl Iterator<Item = (String, String)> {
    TEMPLATES.iter().map(|template| (template.name.to_owned(), template.about.to_owned()))
}

fn list() -> String {
    let line = |(at, template): (usize, &ProjectTemplate)| {
        let default = if at == 0 { " (the default)" } else { "" };
        format!("{:15} {}{default}", template.name, template.about)
    };
    TEMPLATES.iter().enumerate().map(line).collect::<Vec<_>>().join("\n")
}

fn is_there(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// Creates a file that must not exist, with the missing folders above it.
fn create(path: &Path, text: &str) -> std::io::Result<()> {
    let missing: Vec<_> = path.ancestors().skip(1).take_while(|folder| !is_there(folder)).collect();
    for folder in missing.into_iter().rev() {
        files::create_folder(folder)?;
    }
    match files::create(path, text.as_bytes())? {
        true => Ok(()),
        false => Err(std::io::ErrorKind::AlreadyExists.into()),
    }
}

/// Formats a path for a message, without a leading `./`.
fn shown(path: &Path) -> String {
    name(&path.strip_prefix(".").unwrap_or(path).display().to_string())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::{app::key_variables, skill, trust::ProjectTrust};

    #[test]
    fn every_template_has_valid_config_and_skills() {
        for template in &TEMPLATES {
            let project = tempfile::tempdir().unwrap();
            let dir = project.path().into();
            let init = InitArgs { template: template.name.into(), dir, force: false, list: false };
            init.write().unwrap_or_else(|report| panic!("{report}"));
            let layout = ProjectLayout::new(project.path());
            let skills = skill::load_dir(&layout.skills()).unwrap_or_else(|error| panic!("{}", error.report()));
            assert!(!skills.is_empty() && skills.iter().all(|skill| !skill.is_inline()), "{}", template.name);
            let written = fs::read_to_string(layout.config()).unwrap();
            assert!(key_variables().all(|key| written.contains(key)) && !written.contains("{keys}"), "{written}");
            let config = Config::read(&layout.config()).unwrap_or_else(|report| panic!("{report}"));
            assert!(config.entry_agent.is_some(), "{}", template.name);
            // A new user is not asked about the template, unless its agents read the project's files.
            let reads = template.name == "project-indexer";
            let is_of_toolbox = |fact: &str| ["`filesystem`", "`search`"].iter().any(|id| fact.contains(id));
            assert!(reads != config.facts().is_empty(), "{}", template.name);
            assert!(config.facts().lines().all(is_of_toolbox), "{}", template.name);
            // No plugins are granted yet.
            assert!(config.plugin_dirs.is_empty() && config.agents.iter().all(|agent| agent.plugins.is_empty()));
        }
    }

    #[test]
    fn init_trusts_only_files_it_wrote() {
        let project = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(project.path());
        let store = TrustStore::new(Some(project.path().join("state/trust.json")));
        trust_config(&layout, &store, &[]);
        assert_eq!(store.of(project.path()).unwrap(), ProjectTrust::default(), "there is none");
        fs::create_dir_all(layout.local()).unwrap();
        fs::write(layout.permissions(), r#"{"trusted_tools": ["p/t"]}"#).unwrap();
        fs::write(layout.config(), "providers: [{name: m, kind: openai, model: m, base_url: 'http://h'}]").unwrap();
        trust_config(&layout, &store, &[]);
        let kept = store.of(project.path()).unwrap();
        let lines: Vec<_> = kept.facts.lines().collect();
        assert_eq!(lines, ["the model `m` is at `http://h`; conversations are sent there"]);
        assert!(kept.permissions.is_empty() && kept.tools.is_empty(), "these were brought");
    }

    #[test]
    fn a_template_holds_every_file_of_its_folder() {
        for template in &TEMPLATES {
            let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("templates").join(template.name);
            let (mut found, mut folders) = (Vec::new(), vec![root.clone()]);
            while let Some(folder) = folders.pop() {
                for entry in fs::read_dir(folder).unwrap() {
                    let path = entry.unwrap().path();
                    match path.is_dir() {
                        true => folders.push(path),
                        false => found.push(path.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/")),
                    }
                }
            }
            found.sort();
            assert_eq!(found, template.files.iter().map(|(path, _)| *path).collect::<Vec<_>>());
        }
    }
}
