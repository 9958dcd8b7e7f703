//! `shelly-host plugin build`.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    sync::Arc,
};

use clap::Args;
use shelly_author::{
    AuthorError, BuildEnvironment, BuildRecord, BuiltPlugin, PluginBuild, PluginLanguage, PluginProject,
    ProjectSettings, hint_for_other_kinds, hint_for_undeclared_import,
};

use super::{
    cancelled_work::cancelled_with,
    inspect::{described, load_to_list},
};
use crate::{
    capability::Grant,
    cli::{
        command_runtime::runtime,
        host_environment::{cache_base, compiling},
        render::{DIM, PLAIN, escaped, name, print, tell},
    },
    error::{ErrorKind, Report},
    plugin::{
        CompileStep, CompiledPlugin, ComponentError, Plugin as Loaded, PluginEngine, PluginError, PluginManifest,
        PluginPackage,
    },
};

/// Build a plugin's project into build/ID, with the toolchain of its language.
///
/// The language is that of the project's files, or of `language` under [build] in plugin.toml. The result is a plugin
/// folder, so that `--plugins build` finds it. A component that the host would refuse does not replace the last one. The
/// build runs the toolchain and the code of the project that builds it: build only what you trust.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host plugin build
  shelly-host plugin build plugins/dice --release")]
pub struct PluginBuildArgs {
    /// The project's folder, with its plugin.toml.
    #[arg(value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Optimise it, without debug information.
    #[arg(long)]
    release: bool,
}

/// Returns the parts of this process's environment that a build depends on.
pub(super) fn build_environment() -> BuildEnvironment {
    // Others cannot be passed on, and nothing here needs them.
    let text = |(name, value): (OsString, OsString)| Some((name.into_string().ok()?, value.into_string().ok()?));
    BuildEnvironment::new(std::env::vars_os().filter_map(text).collect(), cache_base())
}

impl PluginBuildArgs {
    /// Builds the plugin, checks it against the contract, and shows what it is and what has changed.
    pub(super) fn build(&self) -> Result<u8, Report> {
        let ReadProject { manifest, project } = ReadProject::read(&self.dir)?;
        let report = |error: AuthorError| error.report();
        let environment = build_environment();
        let built = PluginBuild::new(&project, &environment, self.release, &mut show_tool_line).run();
        let (built, engine) = (built.map_err(report)?, Arc::new(PluginEngine::new(compiling())?));
        let installed = runtime()?.block_on(checked_into_place(&built, &project, &manifest, &engine))?;
        let InstalledBuild { folder, package, plugin, changes } = &installed;
        let mut lines = vec![format!("built        {} ({})", name(&folder.display().to_string()), project.language)];
        lines.extend(described(package, plugin));
        lines.extend(changes.as_ref().map(|changes| format!("changed      {}", changes_text(changes))));
        print(&lines.join("\n"))?;
        Ok(0)
    }
}

/// A project with its manifest.
pub struct ReadProject {
    pub manifest: PluginManifest,
    pub project: PluginProject,
}

impl ReadProject {
    /// Reads the manifest of a folder and recognises the language of the project in it.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the folder has no manifest or a mistake in it, or no language fits its files.
    pub fn read(folder: &Path) -> Result<Self, Report> {
        let manifest = PluginManifest::read(folder).map_err(|error| no_project(folder, &error))?;
        let settings = ProjectSettings {
            id: manifest.id.clone(),
            component: manifest.component.clone(),
            language: manifest.build.language.clone(),
            engine: manifest.build.engine.clone(),
            world: manifest.build.world.clone(),
            source: manifest.build.source.clone(),
            wants_http: !manifest.wants.http.is_empty(),
        };
        let project = PluginProject::recognise(folder, settings).map_err(|error| error.report())?;
        Ok(Self { manifest, project })
    }
}

/// Shows a line of a tool of a build. What compilers and packages write may be of anybody.
pub fn show_tool_line(line: &str) {
    tell(&format!("{DIM}{}{PLAIN}\n", escaped(&line.replace('\t', "    "))));
}

/// A plugin that was built, checked and put into its place.
pub struct InstalledBuild {
    pub folder: PathBuf,
    pub package: Arc<PluginPackage>,
    pub plugin: Loaded,
    /// The differences to the last build, a line each; `None` for the first build.
    pub changes: Option<Vec<String>>,
}

/// Checks a component that was built, puts it into its place, and compares it with the last build. A component that the host
/// would refuse does not replace the last one.
async fn checked_into_place(
    built: &BuiltPlugin,
    project: &PluginProject,
    manifest: &PluginManifest,
    engine: &Arc<PluginEngine>,
) -> Result<InstalledBuild, Report> {
    let report = |error: AuthorError| error.report();
    let (package, plugin) = checked(&built.staged, project.language, manifest, engine).await?;
    let folder = built.install().map_err(report)?.to_owned();
    let record = record_of(&package, &plugin);
    let changes = BuildRecord::read(&project.work()).map(|before| record.changes_since(&before));
    record.write(&project.work()).map_err(report)?;
    Ok(InstalledBuild { folder, package, plugin, changes })
}

/// Builds a project as its files are now, checks the component in this engine, and puts it into its place. `show` is called
/// with each line that a tool writes. If the future is dropped, the programs of the build are killed.
///
/// # Errors
///
/// A [`Report`] if the project is none, cannot be built, or makes a component that the host would refuse. The last build stays.
pub async fn build_into_place(
    folder: &Path,
    is_release: bool,
    engine: &Arc<PluginEngine>,
    mut show: impl FnMut(&str) + Send + 'static,
) -> Result<InstalledBuild, Report> {
    let ReadProject { manifest, project } = ReadProject::read(folder)?;
    let environment = build_environment();
    let (built, project) = cancelled_with(move |cancellation| {
        let build = PluginBuild::new(&project, &environment, is_release, &mut show).cancelled_by(cancellation);
        (build.run(), project)
    })
    .await;
    let built = built.map_err(|error: AuthorError| error.report())?;
    checked_into_place(&built, &project, &manifest, engine).await
}

/// Returns the differences between two builds for people.
pub(super) fn changes_text(changes: &[String]) -> String {
    match changes {
        [] => "nothing in what it wants, imports and offers".to_owned(),
        changes => changes.iter().map(|change| name(change)).collect::<Vec<_>>().join("\n             "),
    }
}

/// Returns the error for a folder whose manifest cannot be used.
fn no_project(folder: &Path, error: &PluginError) -> Report {
    match error {
        PluginError::NoManifest { .. } => {
            let message = format!("there is no plugin.toml in {}", name(&folder.display().to_string()));
            Report::new(ErrorKind::Usage, message)
                .hint("name the folder of a project; shelly-host plugin new NAME writes one")
        }
        error => error.report(),
    }
}

/// Checks a component against the contract, and starts it once to list its tools.
async fn checked(
    folder: &Path,
    language: PluginLanguage,
    manifest: &PluginManifest,
    engine: &Arc<PluginEngine>,
) -> Result<(Arc<PluginPackage>, Loaded), Report> {
    let package = PluginPackage::open(folder, engine.compiler(), CompileStep::Compile).await;
    let package = Arc::new(package.map_err(|error| for_author(&error, language, manifest))?);
    // Once it is dropped, the engine forgets the tools of this build.
    let _code = CompiledPlugin::of(engine, &package).await.map_err(|error| error.report())?;
    let plugin = load_to_list(&package, engine).await?;
    Ok((package, plugin))
}

/// Returns the report of an error with its mend in the words of the author's language.
fn for_author(error: &PluginError, language: PluginLanguage, manifest: &PluginManifest) -> Report {
    let report = error.report();
    match error {
        PluginError::NotAskedFor { import, line, .. } => {
            report.hint(hint_for_undeclared_import(language, import, line))
        }
        PluginError::KindsDiffer { declared, exported, .. } => {
            report.hint(hint_for_other_kinds(language, declared, exported))
        }
        PluginError::Component { source: ComponentError::NoKind, .. } => {
            let declared: Vec<_> = manifest.kinds.iter().map(|kind| format!("\"{kind}\"")).collect();
            report.hint(hint_for_other_kinds(language, &declared.join(", "), ""))
        }
        _ => report,
    }
}

/// Returns the facts of a build that the next one is compared with.
fn record_of(package: &PluginPackage, plugin: &Loaded) -> BuildRecord {
    let wants = Grant::default().missing(&package.manifest.wants).into_iter().map(|missing| missing.line);
    let wasi = package.manifest.wasi.then(|| "wasi: powerless".to_owned());
    let tool = |spec: &crate::chat::ToolSpec| {
        let text = serde_json::to_string(spec).unwrap_or_default();
        (spec.name.to_string(), text)
    };
    BuildRecord {
        wants: wants.chain(wasi).collect(),
        imports: package.anatomy.imports.clone(),
        tools: plugin.tools().iter().map(|spec| tool(spec)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> PluginManifest {
        PluginManifest::parse("id = \"a\"\ncomponent = \"a.wasm\"\nkinds = [\"tool\"]\n").unwrap()
    }

    #[test]
    fn refused_component_is_mended_in_the_words_of_its_language() {
        let id = || "a".to_owned();
        let import = "shelly:plugin/http@0.1.0".to_owned();
        let undeclared = PluginError::NotAskedFor { id: id(), import, line: "http = true", is_lone: false };
        let differ = PluginError::KindsDiffer { id: id(), declared: "\"tool\"".into(), exported: "\"effect\"".into() };
        let nothing = PluginError::Component { path: "a.wasm".into(), source: ComponentError::NoKind };
        for (error, language, says) in [
            (&undeclared, PluginLanguage::Rust, "remove the calls of `shelly_plugin::http`"),
            (&undeclared, PluginLanguage::Python, "remove the import from the world in wit/"),
            (
                &differ,
                PluginLanguage::Rust,
                "write kinds = [\"effect\"] in plugin.toml; or, for [\"tool\"], name them in",
            ),
            (
                &nothing,
                PluginLanguage::Rust,
                "plugin.toml says kinds = [\"tool\"]: name them in `shelly_plugin::export!`",
            ),
            (&nothing, PluginLanguage::Go, "plugin.toml says kinds = [\"tool\"]: import the packages of these kinds"),
        ] {
            let hint = for_author(error, language, &manifest()).hint.unwrap();
            assert!(hint.contains(says), "{hint}");
        }
    }
}
