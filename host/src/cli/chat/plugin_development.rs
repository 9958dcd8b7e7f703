//! Plugin projects of `chat --dev`: each is built when the chat begins, and again after each change.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::mpsc, time::sleep};
use tokio_util::task::AbortOnDropHandle;

use super::build_error_excerpt::BuildErrorExcerpt;
use crate::{
    app::App,
    cli::{
        plugin::{InstalledBuild, ReadProject, SourceWatch, build_into_place, show_tool_line},
        render::{self, DIM, PLAIN, RunOutputFormat, call_time, name, path_name, tell, warn},
    },
    error::{ErrorKind, Report},
    limits,
    plugin::PluginEngine,
};

/// A project whose plugin a chat uses.
pub struct DevelopedProject {
    /// The folder, without links.
    pub folder: PathBuf,
    /// The id of the plugin.
    pub id: String,
    /// The folder that the plugin is built into.
    pub output: PathBuf,
    sources: SourceWatch,
    /// Checks each build.
    engine: Arc<PluginEngine>,
}

/// The tasks that watch and build all projects of a chat, and the channel of their progress.
pub struct PluginDevelopment {
    sender: mpsc::Sender<DevelopmentProgress>,
    progress: mpsc::Receiver<DevelopmentProgress>,
    watches: Vec<AbortOnDropHandle<()>>,
    /// The tasks that replace tools of running agents, by the ids of their plugins.
    replacements: HashMap<String, AbortOnDropHandle<()>>,
}

/// An event of a watched project.
pub enum DevelopmentProgress {
    /// Its plugin was built again.
    Built(PluginRebuild),
    /// Its plugin was not built again.
    Failed { id: String, report: Report },
    /// Running agents call the tools of its newest build from now on.
    ToolsReplaced { id: String, tools: usize },
}

/// A plugin that was built again while the chat runs.
pub struct PluginRebuild {
    pub id: String,
    /// The folder of the plugin.
    pub folder: PathBuf,
    duration: Duration,
    /// The differences to the previous build, a line each.
    changes: Vec<String>,
}

impl DevelopedProject {
    /// Builds a project before the chat begins, so the build may print to the terminal. If the build fails, the chat uses
    /// the previous build. The compiler of `engine` has the settings of a run, so that the chat finds the compiled code in
    /// the cache.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the folder is no project, or the build fails and there is no earlier one.
    pub async fn build(folder: &Path, engine: &Arc<PluginEngine>) -> Result<Self, Report> {
        let ReadProject { manifest, project } = ReadProject::read(folder)?;
        // A file that is written during the build leads to another build.
        let sources = SourceWatch::begin(&project.folder)?;
        let (id, output) = (manifest.id, project.output());
        tell(&format!("{DIM}building the plugin {} in {}{PLAIN}\n", name(&id), path_name(folder)));
        let started = Instant::now();
        match build_into_place(&project.folder, false, engine, show_tool_line).await {
            Ok(_) => tell(&format!("{DIM}built {} in {}{PLAIN}\n", path_name(&output), call_time(started.elapsed()))),
            Err(report) if output.is_dir() => {
                render::failed(&report, RunOutputFormat::Text);
                warn(&format!("the chat begins with the last build of the plugin `{id}`"));
            }
            Err(report) => return Err(report),
        }
        Ok(Self { folder: project.folder, id, output, sources, engine: Arc::clone(engine) })
    }

    /// Watches the sources and builds after each change, until the receiver of `progress` is dropped.
    async fn watch(mut self, progress: mpsc::Sender<DevelopmentProgress>) {
        let mut is_readable = true;
        loop {
            sleep(limits::WATCH_PAUSE).await;
            let next = match self.sources.look_again() {
                Ok(changed) => {
                    is_readable = true;
                    if changed.is_none() {
                        continue;
                    }
                    self.rebuild().await
                }
                // The failure was reported already.
                Err(_) if !is_readable => continue,
                Err(report) => {
                    is_readable = false;
                    self.failed(report)
                }
            };
            if progress.send(next).await.is_err() {
                return;
            }
        }
    }

    async fn rebuild(&self) -> DevelopmentProgress {
        let started = Instant::now();
        let excerpt = Arc::new(Mutex::new(BuildErrorExcerpt::default()));
        let noted = Arc::clone(&excerpt);
        let note = move |line: &str| noted.lock().unwrap_or_else(PoisonError::into_inner).note(line);
        match build_into_place(&self.folder, false, &self.engine, note).await {
            Ok(InstalledBuild { folder, package, changes, .. }) if package.manifest.id == self.id => {
                let (id, duration, changes) = (self.id.clone(), started.elapsed(), changes.unwrap_or_default());
                DevelopmentProgress::Built(PluginRebuild { id, folder, duration, changes })
            }
            Ok(InstalledBuild { package, .. }) => {
                let message = format!("the project now builds the plugin `{}`", package.manifest.id);
                self.failed(
                    Report::new(ErrorKind::Usage, message).hint("start the chat again with --continue to use it"),
                )
            }
            Err(report) => {
                let excerpt = excerpt.lock().unwrap_or_else(PoisonError::into_inner);
                self.failed(excerpt.explain(report))
            }
        }
    }

    fn failed(&self, report: Report) -> DevelopmentProgress {
        DevelopmentProgress::Failed { id: self.id.clone(), report }
    }
}

impl PluginDevelopment {
    /// Starts a task for each project that builds it again after each change.
    pub fn watch(projects: Vec<DevelopedProject>) -> Self {
        let (sender, progress) = mpsc::channel(1);
        let watch = |project: DevelopedProject| AbortOnDropHandle::new(tokio::spawn(project.watch(sender.clone())));
        let watches = projects.into_iter().map(watch).collect();
        Self { sender, progress, watches, replacements: HashMap::new() }
    }

    /// Starts to replace the tools of running agents by those of a plugin that was built again. An agent that cannot take
    /// them is no error here: the next message uses the whole plugin, and reports a failure.
    pub fn replace_tools(&mut self, app: Arc<App>, rebuild: &PluginRebuild) {
        let (id, folder, sender) = (rebuild.id.clone(), rebuild.folder.clone(), self.sender.clone());
        let replace = async move {
            if let Ok(tools @ 1..) = app.replace_tools(&folder).await {
                // Nobody listens any more when the chat ends.
                let _ = sender.send(DevelopmentProgress::ToolsReplaced { id, tools }).await;
            }
        };
        // The task of an earlier build of the plugin ends.
        self.replacements.insert(rebuild.id.clone(), AbortOnDropHandle::new(tokio::spawn(replace)));
    }

    /// Waits for the next event. Cancel safe.
    pub async fn next(&mut self) -> DevelopmentProgress {
        match self.progress.recv().await {
            Some(progress) => progress,
            // The channel stays open: `sender` is the other end.
            None => std::future::pending().await,
        }
    }

    /// Cancels all builds, and waits until the programs that they have started have ended.
    pub async fn stop(&mut self) {
        self.replacements.clear();
        for watch in self.watches.drain(..) {
            watch.abort();
            let _ = watch.await;
        }
    }
}

impl PluginRebuild {
    /// Returns the line about a plugin that is used from now on.
    pub fn text(&self) -> String {
        let changes: Vec<_> = self.changes.iter().take(limits::NAMES_SHOWN).map(|change| name(change)).collect();
        let more = if self.changes.len() > changes.len() { ", …" } else { "" };
        let changes = match changes.is_empty() {
            true => "no change in what it wants, imports and offers".to_owned(),
            false => changes.join(", "),
        };
        format!("plugin {} rebuilt in {}: {changes}{more}", name(&self.id), call_time(self.duration))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_about_a_rebuilt_plugin_lists_its_changes() {
        let line = |changes: Vec<String>| {
            let (id, folder, duration) = ("dice".into(), PathBuf::new(), Duration::from_millis(1500));
            PluginRebuild { id, folder, duration, changes }.text()
        };
        assert_eq!(line(vec![]), "plugin dice rebuilt in 1.5 s: no change in what it wants, imports and offers");
        let changes = vec!["+ tool roll".to_owned(), "- want kv\u{1b}[2J".to_owned()];
        assert_eq!(line(changes), "plugin dice rebuilt in 1.5 s: + tool roll, - want kv\\u{1b}[2J");
        let many = line(vec!["+ tool a".to_owned(); limits::NAMES_SHOWN + 1]);
        assert!(many.ends_with(", …") && many.matches("+ tool a").count() == limits::NAMES_SHOWN, "{many}");
    }

    #[tokio::test(start_paused = true)]
    async fn project_that_cannot_be_read_is_told_once() {
        let world = tempfile::tempdir().unwrap();
        let folder = world.path().join("dice");
        std::fs::create_dir(&folder).unwrap();
        let sources = SourceWatch::begin(&folder).unwrap();
        std::fs::remove_dir(&folder).unwrap();
        let (id, output) = ("dice".to_owned(), folder.join("build/dice"));
        let engine = Arc::new(PluginEngine::new(None).unwrap());
        let project = DevelopedProject { folder: folder.clone(), id, output, sources, engine };
        let mut development = PluginDevelopment::watch(vec![project]);
        let DevelopmentProgress::Failed { report, .. } = development.next().await else { panic!("it was built") };
        assert!(report.message.starts_with("cannot read"), "{report}");
        let again = tokio::time::timeout(limits::WATCH_PAUSE * 10, development.next()).await;
        assert!(again.is_err(), "nothing new");
        // Once it is there again, its next change counts: it is no project now.
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("app.py"), "").unwrap();
        let DevelopmentProgress::Failed { report, .. } = development.next().await else { panic!("it was built") };
        assert!(report.message.starts_with("there is no plugin.toml"), "{report}");
        development.stop().await;
    }
}
