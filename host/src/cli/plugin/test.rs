//! `shelly-host plugin test`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use clap::Args;

use super::{
    given_text::file_text,
    plugin_lookup_args::PluginLookupArgs,
    test_results::{CaseResult, TestResults},
    trial_args::trial_compiler,
};
use crate::{
    cli::{
        command_runtime::runtime,
        render::{TestOutputFormat, name, path_name},
        secrets,
    },
    config::nearest,
    error::{ErrorKind, Report, why_unreadable},
    files, limits,
    plugin::{PluginManifest, PluginPackage},
    trial::{CaseFile, PluginCase, run_case, updated_text},
};

/// Run the test cases of a plugin in the sandbox: each is one call with its grants, the answers of its host, and the expected
/// outcome.
///
/// The cases are in the files cases/*.yaml of the plugin's project or folder, in YAML or JSON. A case has its own key-value store
/// and folder, a fixed clock and fixed random numbers, and the HTTP responses and model replies that it names; nothing leaves the
/// machine. A failed case is shown with a diff of what differs.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin test
  shelly-host plugin test build/dice --filter empty
  shelly-host plugin test target/plugins/fetch --cases plugins/fetch/cases --output junit > cases.xml
  shelly-host plugin test --update

Exit codes: 0 if every case passed, 1 if a case failed, 2 for wrong usage or a mistake in a case, 3 if the plugin cannot be
used.")]
pub struct PluginTestArgs {
    /// A plugin's folder, a component file, the id of a listed plugin, or a project that is built.
    #[arg(default_value = ".")]
    plugin: PathBuf,
    /// A file of cases, or a folder of such files; repeatable (default: the folder cases beside the plugin.toml).
    #[arg(long, value_name = "PATH")]
    cases: Vec<PathBuf>,
    /// Run only the cases whose name contains this text.
    #[arg(long, value_name = "TEXT")]
    filter: Option<String>,
    /// Write the actual outcome into the `expect` of the cases that fail.
    ///
    /// The rest of a YAML file stays as it is, except for comments within a replaced `expect`. A case without an `expect`
    /// gets one with its result and its log.
    #[arg(long)]
    update: bool,
    #[command(flatten)]
    lookup: PluginLookupArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = TestOutputFormat::Text)]
    pub output: TestOutputFormat,
}

impl PluginTestArgs {
    /// Runs the cases. Returns the exit code.
    pub(super) fn execute(&self) -> Result<u8, Report> {
        runtime()?.block_on(self.run())?.finish()
    }

    async fn run(&self) -> Result<TestResults, Report> {
        let (compiler, plugin) = (trial_compiler(), built_plugin(&self.plugin)?);
        let package = self.lookup.open(&plugin, &compiler).await?;
        let cases = self.case_files(&package)?;
        self.check_entries(&cases)?;
        let app = self.lookup.app(&plugin, &package, false).await?.with_compiler(&compiler);
        secrets::hide(app.secrets());
        let mut results = TestResults::new(self.output, &package.manifest.id);
        for file in &cases {
            let (mut updates, mut updated) = (Vec::new(), Vec::new());
            for (at, case) in file.cases.iter().enumerate().filter(|(_, case)| self.is_wanted(case)) {
                let place = format!("{}, case `{}`", file.path.display(), case.name);
                let outcome = run_case(&app, &package, case).await.map_err(|report| report.in_file(place))?;
                let is_updated = self.update && outcome.can_be_updated;
                if is_updated {
                    updates.push((at, outcome.updated.clone()));
                }
                let result = CaseResult { file: file.path.clone(), name: case.name.clone(), outcome, is_updated };
                // A case is shown as updated only after its file was written.
                if self.update { updated.push(result) } else { results.add(result)? }
            }
            if !updates.is_empty() {
                let text = updated_text(file, &updates, &package.manifest)?;
                files::replace_shared(&file.path, text.as_bytes()).map_err(|error| {
                    let shown = path_name(&file.path);
                    Report::new(ErrorKind::Run, format!("cannot write {shown}")).cause(error)
                })?;
            }
            updated.into_iter().try_for_each(|result| results.add(result))?;
        }
        Ok(results)
    }

    /// Refuses cases that grant programs or credentials of a config that nobody has named. The cases come with a plugin, and programs
    /// run outside of the sandbox: who tests a plugin of somebody else must not run them unasked.
    fn check_entries(&self, cases: &[CaseFile]) -> Result<(), Report> {
        if self.lookup.has_config() {
            return Ok(());
        }
        let mut all = cases.iter().flat_map(|file| file.cases.iter().map(move |case| (file, case)));
        match all.find(|(_, case)| case.names_config_entries()) {
            None => Ok(()),
            Some((file, case)) => {
                let message = format!("the case `{}` grants programs or credentials", name(&case.name));
                Err(Report::new(ErrorKind::Usage, message)
                    .cause("the cases of a plugin get those of a config only if you name it")
                    .hint("read the cases, then name the config with --config")
                    .in_file(path_name(&file.path)))
            }
        }
    }

    /// Reads the files of cases that the options name, or those of the plugin.
    fn case_files(&self, package: &PluginPackage) -> Result<Vec<CaseFile>, Report> {
        let places = match &self.cases[..] {
            [] => vec![self.own_cases(package)?],
            named => named.to_vec(),
        };
        let mut read = Vec::new();
        for path in places.iter().map(|place| files_at(place)).collect::<Result<Vec<_>, _>>()?.into_iter().flatten() {
            let text = file_text(&path, "the cases", limits::TRIAL_INPUT_BYTES)?;
            read.push(CaseFile::parse(path, text, &package.manifest)?);
        }
        let names: Vec<_> = read.iter().flat_map(|file| &file.cases).map(|case| case.name.as_str()).collect();
        let usage = |message: String| Report::new(ErrorKind::Usage, message);
        match &self.filter {
            _ if names.is_empty() => Err(usage("there are no cases in the files".into())
                .hint("write each case as `- name: …`, with `call`, `step` or `complete`, and `expect`")),
            Some(text) if !names.iter().any(|name| name.contains(text)) => {
                let near = nearest(text, &names).unwrap_or(names[0]);
                Err(usage(format!("no case has `{}` in its name", name(text)))
                    .hint(format!("one of the cases is `{}`", name(near))))
            }
            _ => Ok(read),
        }
    }

    fn is_wanted(&self, case: &PluginCase) -> bool {
        self.filter.as_ref().is_none_or(|text| case.name.contains(text))
    }

    /// Returns the folder `cases` in the plugin's folder, or the one in the project whose `build` contains the plugin.
    fn own_cases(&self, package: &PluginPackage) -> Result<PathBuf, Report> {
        let named = Some(&*self.plugin).filter(|plugin| plugin.is_dir());
        let folder = named.or(package.location.folder());
        let project = folder.and_then(Path::parent).filter(|build| build.ends_with("build")).and_then(Path::parent);
        let mut places = folder.into_iter().chain(project).map(|folder| folder.join("cases"));
        places.find(|cases| cases.is_dir()).ok_or_else(|| {
            let message = format!("plugin `{}` has no folder `cases`", package.manifest.id);
            Report::new(ErrorKind::Usage, message)
                .hint("write cases into cases/NAME.yaml beside plugin.toml, or name a file of cases with --cases")
        })
    }
}

/// Returns the path or id of the plugin to test. For a project this is the plugin in its `build`.
fn built_plugin(plugin: &Path) -> Result<PathBuf, Report> {
    if !plugin.join("plugin.toml").is_file() {
        return Ok(plugin.to_owned());
    }
    let manifest = PluginManifest::read(plugin).map_err(|error| error.report())?;
    let built = plugin.join("build").join(&manifest.id);
    match [plugin, built.as_path()].into_iter().find(|folder| folder.join(&manifest.component).is_file()) {
        Some(folder) => Ok(folder.to_owned()),
        None => {
            let place = if plugin == Path::new(".") { String::new() } else { format!(" {}", path_name(plugin)) };
            Err(Report::new(ErrorKind::Usage, format!("plugin `{}` is not built", manifest.id))
                .hint(format!("build it with shelly-host plugin build{place}, or name the folder of the built plugin")))
        }
    }
}

/// Returns a file, or the files of cases in a folder in the order of their names.
fn files_at(path: &Path) -> Result<Vec<PathBuf>, Report> {
    let unreadable = |error: std::io::Error| {
        let message = format!("cannot read the cases in {}", path_name(path));
        Report::new(ErrorKind::Usage, message)
            .cause(why_unreadable(&error))
            .hint("name a file of cases, or a folder with such files")
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file.extension().is_some_and(|end| end == "yaml" || end == "yml" || end == "json") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}
