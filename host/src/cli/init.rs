mod project_template;

use std::path::{Path, PathBuf};

use clap::Args;
use project_template::{ProjectTemplate, TEMPLATES};

use super::{
    ask::{self, Consent, ConsentPrompt},
    command_runtime::runtime,
    config_path::read_over_user_config,
    host_environment::{compiling, environment, plugin_dirs},
    project_search::BESIDE,
    render::{self, RunOutputFormat, path_name, print_prose, warn},
    trust,
    user_config_path::{contains_home, user_config_path},
};
use crate::{
    app::{App, key_variables_in_words},
    approval::{ApprovalBroker, HeadlessPolicy, TrustedSubjects},
    error::{ErrorKind, Report, without_number},
    files,
    project::ProjectLayout,
    trust::TrustStore,
};

/// Write a commented config, and what belongs to it, into the folder .shelly of a project.
///
/// At a terminal you are asked for the template. Existing files are replaced only with --force, and only those that the
/// template has too; files of another template that nobody changed since are then removed. The written files need no further
/// consent until they allow more. In your home folder the agents could read all of your files, so you are asked first, and without
/// a terminal --force is needed.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host init
  shelly-host init --template team --dir ../project
  shelly-host init --list-templates")]
pub struct InitArgs {
    /// The template; see --list-templates. Without it you are asked; where nobody is there to be asked it is `assistant`.
    #[arg(long, value_name = "NAME")]
    template: Option<String>,
    /// The project's folder; it must be there.
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Replace files that are there, and remove those of another template that nobody changed; write into your home folder
    /// without asking.
    #[arg(long)]
    force: bool,
    /// List the templates and write nothing.
    #[arg(long, conflicts_with_all = ["template", "dir", "force"])]
    list_templates: bool,
}

impl InitArgs {
    pub fn execute(self) -> u8 {
        let text = if self.list_templates {
            Ok(list())
        } else {
            self.check_folder().and_then(|()| self.template()).and_then(|one| self.write(one, &trust::store()))
        };
        let printed = text.and_then(|text| print_prose(&text));
        if printed.is_ok() && !self.list_templates {
            self.warn_of_hidden();
        }
        printed.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    /// Asks before a config is written whose agents could read all files of the person.
    fn check_folder(&self) -> Result<(), Report> {
        if self.force || !contains_home(&self.dir) {
            return Ok(());
        }
        let folder = std::path::absolute(&self.dir).unwrap_or_else(|_| self.dir.clone());
        let what = format!("{} is or contains your home folder", path_name(&files::resolved(&folder)));
        let why = "the agents of a config there can read all of your files";
        let own = user_config_path().map(|path| format!(" in {}", path_name(&path))).unwrap_or_default();
        let refused = |cause: &str| {
            Report::new(ErrorKind::Usage, format!("{what}; nothing was written")).cause(cause).hint(format!(
                "name the folder of a project with --dir; what all projects share belongs in your own config{own}; --force \
                 writes it nevertheless"
            ))
        };
        if !ask::is_attended() {
            return Err(refused(why));
        }
        match runtime()?.block_on(ask::trust(&format!("{what}: {why}\n"), ConsentPrompt::InHome)) {
            Consent::Yes => Ok(()),
            Consent::Once | Consent::No => Err(refused("you declined")),
        }
    }

    /// Warns of a config that was found before and is now hidden by the new one.
    fn warn_of_hidden(&self) {
        let hidden = self.dir.join(BESIDE);
        if is_there(&hidden) {
            let (hidden, config) = (path_name(&hidden), path_name(&ProjectLayout::new(&self.dir).config()));
            warn(&format!(
                "{hidden} is not used any more, since {config} comes first: move what you need of it there, or name it \
                 with --config {BESIDE}"
            ));
        }
    }

    /// Returns the template that the command line names, or that the person chooses.
    fn template(&self) -> Result<&'static ProjectTemplate, Report> {
        let names = TEMPLATES.each_ref().map(|template| template.name);
        match &self.template {
            Some(name) => {
                ProjectTemplate::named(name).ok_or_else(|| crate::config::unknown("template", name, names.into_iter()))
            }
            None if !ask::is_attended() => Ok(&TEMPLATES[0]),
            None => {
                // Nobody should choose first and then read that nothing is written.
                let layout = ProjectLayout::new(&self.dir);
                self.check_free(ProjectTemplate::common_paths().map(|path| layout.dir().join(path)))?;
                let lines = TEMPLATES.iter().enumerate();
                let lines = lines.map(|(at, one)| format!("  {:>2}  {:15} {}\n", at + 1, one.name, one.about));
                let shown = format!("which template?\n{}", lines.collect::<String>());
                let chosen = runtime()?.block_on(ask::choose(&shown, &names));
                chosen.map(|at| &TEMPLATES[at]).ok_or_else(|| {
                    Report::new(ErrorKind::Usage, "no template was chosen; nothing was written")
                        .hint("name one with --template; --list-templates shows them")
                })
            }
        }
    }

    /// Writes the template, and notes in `store` that it is trusted. Returns a summary of the written files and the next steps.
    fn write(&self, template: &ProjectTemplate, store: &TrustStore) -> Result<String, Report> {
        let layout = ProjectLayout::new(&self.dir);
        let files = template.files().map(|(path, text)| (layout.dir().join(path), text));
        let files: Vec<_> = files.map(|(path, text)| (is_there(&path), path, text)).collect();
        // All or nothing: parts of two templates do not fit together.
        self.check_free(files.iter().map(|(_, path, _)| path.clone()))?;
        let mut lines: Vec<_> = layout.bootstrap().map_err(|error| error.report())?;
        lines.retain(|path| path.is_file());
        let mut lines: Vec<_> = lines.iter().map(|path| format!("wrote     {}", path_name(path))).collect();
        for (is_there, path, text) in &files {
            let written = if *is_there { files::replace_shared(path, text.as_bytes()) } else { create(path, text) };
            written.map_err(|error| {
                let report = Report::new(ErrorKind::Usage, format!("cannot write {}", path_name(path)));
                report
                    .cause(without_number(&error.to_string()))
                    .hint("check who may write there, and what stands in its place; then do it again with --force")
            })?;
            lines.push(format!("{} {}", if *is_there { "replaced " } else { "wrote    " }, path_name(path)));
        }
        if self.force {
            lines.extend(remove_leftovers(template, &layout));
        }
        let written: Vec<_> = files.iter().map(|(_, path, _)| path.clone()).collect();
        let app = app_of(&layout);
        app.iter().for_each(|app| trust_written(app, store, &written));
        let has_offline_model = app.is_some_and(|app| app.is_model_plugin(Some(OFFLINE_MODEL)));
        lines.push(self.next(template, &layout, has_offline_model));
        Ok(lines.join("\n"))
    }

    /// Checks that there are none of the files, unless they are to be replaced.
    fn check_free(&self, paths: impl Iterator<Item = PathBuf>) -> Result<(), Report> {
        let in_the_way: Vec<_> = paths.filter(|path| !self.force && is_there(path)).collect();
        if in_the_way.is_empty() {
            return Ok(());
        }
        let report = Report::new(ErrorKind::Usage, "there are files that this would replace; nothing was written");
        let report = in_the_way.iter().fold(report, |report, path| report.cause(path_name(path)));
        Err(report.hint("move these files away, or replace them with --force"))
    }

    /// Returns the next steps, the one without which nothing answers first.
    fn next(&self, template: &ProjectTemplate, layout: &ProjectLayout, has_offline_model: bool) -> String {
        let keys = key_variables_in_words("or");
        let mut steps = vec![
            (
                "get a model:",
                format!(
                    "set {keys}, or start a local server such as Ollama; shelly-host config path says where to name one"
                ),
            ),
            (
                "look at the agents:",
                format!("{}; shelly-host config show prints what holds", path_name(&layout.config())),
            ),
            ("say what it is:", format!("edit {}, which every agent is told", path_name(&layout.context()))),
            ("give it a task:", template.first_command.to_owned()),
        ];
        if has_offline_model {
            let command = format!("shelly-host run --model {OFFLINE_MODEL} \"How many files are in this folder?\"");
            steps.insert(1, ("try it without one:", command));
        }
        if self.dir != Path::new(".") {
            steps.insert(0, ("go to the project:", format!("cd {}", path_name(&self.dir))));
        }
        let lines = steps.iter().map(|(what, how)| format!("\n  {what:24}{how}"));
        format!("\nnext:{}", lines.collect::<String>())
    }
}

/// The model that needs neither a key nor a server.
const OFFLINE_MODEL: &str = "offline-model";

/// Removes what another template has left behind, if nobody changed it since; names what stays. Returns a line for each file.
fn remove_leftovers(template: &ProjectTemplate, layout: &ProjectLayout) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, text) in template.files_of_others() {
        let path = layout.dir().join(path);
        if !is_there(&path) {
            continue;
        }
        let is_unchanged = files::read(&path, &layout.dir(), text.len() as u64).is_ok_and(|there| there == text);
        if is_unchanged && std::fs::remove_file(&path).is_ok() {
            // A folder with anything else in it stays.
            let _ = path.parent().map(std::fs::remove_dir);
            lines.push(format!("removed   {}", path_name(&path)));
        } else {
            lines.push(format!(
                "left      {}, which is no part of this template; agents may still use it",
                path_name(&path)
            ));
        }
    }
    lines
}

/// Builds the app of the config that was just written.
fn app_of(layout: &ProjectLayout) -> Option<App> {
    let config = read_over_user_config(Some(&layout.config())).ok()?;
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    App::new(config, plugin_dirs(&[]), compiling(), environment(), broker).ok()
}

/// Stores the person's consent to the config that was just written for them, and to the instruction files among `written`;
/// nothing else in the project is covered. If it cannot be stored, a run asks.
fn trust_written(app: &App, store: &TrustStore, written: &[PathBuf]) {
    let _ = app.trust_written(store, written);
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
        files::create_shared_folder(folder)?;
    }
    match files::create_shared(path, text.as_bytes())? {
        true => Ok(()),
        false => Err(std::io::ErrorKind::AlreadyExists.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::skill;

    #[test]
    fn each_template_is_written_with_its_skills() {
        for template in &TEMPLATES {
            let project = tempfile::tempdir().unwrap();
            let dir = project.path().into();
            let init = InitArgs { template: Some(template.name.into()), dir, force: false, list_templates: false };
            let chosen = init.template().unwrap_or_else(|report| panic!("{report}"));
            init.write(chosen, &TrustStore::new(None)).unwrap_or_else(|report| panic!("{report}"));
            let layout = ProjectLayout::new(project.path());
            let skills = skill::load_dir(&layout.skills()).unwrap_or_else(|error| panic!("{}", error.report()));
            assert!(!skills.is_empty() && skills.iter().all(|skill| !skill.is_inline()), "{}", template.name);
            for (path, text) in template.files() {
                assert_eq!(fs::read_to_string(layout.dir().join(path)).unwrap(), text, "{path}");
            }
        }
    }

    fn init(dir: &Path, template: &str, force: bool) -> Result<String, Report> {
        let init = InitArgs { template: Some(template.into()), dir: dir.into(), force, list_templates: false };
        init.write(init.template().unwrap(), &TrustStore::new(None))
    }

    #[test]
    fn leftovers_of_another_template_are_removed_or_named() {
        let project = tempfile::tempdir().unwrap();
        let skills = ProjectLayout::new(project.path()).skills();
        init(project.path(), "team", false).unwrap();
        fs::write(skills.join("review/SKILL.md"), "mine").unwrap();
        let summary = init(project.path(), "coder", true).unwrap();
        let shown = |path: &str| skills.join(path).display().to_string();
        assert!(summary.contains(&format!("removed   {}\n", shown("planning/SKILL.md"))), "{summary}");
        assert!(!skills.join("planning").exists() && skills.join("change/SKILL.md").is_file());
        assert!(summary.contains(&format!("left      {}, which", shown("review/SKILL.md"))), "{summary}");
        assert_eq!(fs::read_to_string(skills.join("review/SKILL.md")).unwrap(), "mine");
        // Without force nothing is removed: nothing is written either.
        assert!(init(project.path(), "reviewer", false).is_err() && skills.join("change/SKILL.md").is_file());
    }

    #[test]
    fn next_steps_begin_with_a_model() {
        let project = tempfile::tempdir().unwrap();
        let summary = init(project.path(), "project-indexer", false).unwrap();
        let (_, next) = summary.split_once("next:\n").unwrap();
        let steps: Vec<_> = next.lines().map(str::trim_start).collect();
        assert!(steps[0].starts_with("go to the project:") && steps[1].starts_with("get a model:"), "{next}");
        assert!(steps.last().unwrap().ends_with("shelly-host index"), "{next}");
        assert_eq!(ProjectTemplate::common_paths().collect::<Vec<_>>(), ["config.yaml", "context.md"]);
    }

    #[test]
    fn init_trusts_only_files_it_wrote() {
        let project = tempfile::tempdir().unwrap();
        let layout = ProjectLayout::new(project.path());
        let store = TrustStore::new(Some(project.path().join("state/trust.json")));
        assert!(app_of(&layout).is_none(), "there is no config");
        fs::create_dir_all(layout.local()).unwrap();
        fs::write(layout.permissions(), r#"{"trusted_tools": ["p/t"]}"#).unwrap();
        // A plugin that is there may be somebody else's.
        let plugin = layout.dir().join("plugins/p");
        fs::create_dir_all(&plugin).unwrap();
        fs::write(plugin.join("plugin.toml"), "id = \"p\"\ncomponent = \"c.wasm\"\nkinds = [\"tool\"]\n").unwrap();
        fs::write(plugin.join("c.wasm"), "").unwrap();
        let config = "providers: [{name: m, kind: openai, model: m, base_url: 'http://h'}]\n\
                      agents: [{name: a, plugins: {p: {confirm: true}}}]\n";
        fs::write(layout.config(), config).unwrap();
        trust_written(&app_of(&layout).unwrap(), &store, &[]);
        let kept = store.of(project.path()).unwrap();
        let lines: Vec<_> = kept.facts.lines().collect();
        assert_eq!(
            lines,
            [
                "the agent `a` is guarded by no plugin",
                "the agent `a`: the plugin `p` is used",
                "the model `m` is at `http://h`; conversations are sent there"
            ]
        );
        assert!(kept.permissions.is_empty() && kept.tools.is_empty(), "these were brought");
    }
}
