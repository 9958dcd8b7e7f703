use std::{
    fmt, fs,
    io::Read,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::{Duration, SystemTime},
};

use super::{
    ChangeError, ChangePlan, FileChange,
    apply::{BeforeImages, check_back, steps},
    change_path::ResolvedChangePath,
    diff,
    editor_buffers::{EditorBuffers, EditorHandle},
    fingerprint::{FingerprintNode, PathFingerprint, state},
    folder::{FolderSync, open_file},
    protected_files::ProtectedFiles,
    record::{ChangeFolders, ChangeIntent, ChangeRecord, DONE, UNDONE, forget, read, take_back},
    unsaved_text::UnsavedText,
};
use crate::{chat::ToolResultContent, files, limits, trust::UserKey};

/// Applies the file changes that tools propose, one result at a time. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct ChangeApplier(Arc<ChangeApplierInner>);

#[derive(Debug, Default)]
struct ChangeApplierInner {
    guarded: ProtectedFiles,
    own: UserKey,
    /// The folders for previous contents, once the session is recorded.
    session: OnceLock<ChangeFolders>,
    /// The callback for files whose present content a person has seen.
    seen: Option<SeenFilesHook>,
    /// The editor in which the person has files open.
    editor: Option<EditorHandle>,
}

impl ChangeApplierInner {
    /// Returns a copy for another session.
    fn without_session(&self) -> Self {
        let Self { guarded, own, seen, editor, session: _ } = self;
        let (guarded, own, seen, editor) = (guarded.clone(), own.clone(), seen.clone(), editor.clone());
        Self { guarded, own, seen, editor, session: OnceLock::new() }
    }
}

/// A callback for files whose present content a person has seen.
#[derive(Clone)]
struct SeenFilesHook(Arc<SeenFilesFn>);

type SeenFilesFn = dyn Fn(&[PathBuf]) + Send + Sync;

impl fmt::Debug for SeenFilesHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SeenFilesHook")
    }
}

/// The origin of a set of changes.
#[derive(Debug, Clone, Copy)]
pub struct ChangeOrigin<'a> {
    /// The instance name of the agent.
    pub agent: &'a str,
    /// The id of the call.
    pub call: &'a str,
    /// The name of the tool.
    pub tool: &'a str,
}

/// Serializes changes in the whole process, so that a path is not modified between its check and its replacement. The lock
/// of the project's folder excludes other processes of the project.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

impl ChangeApplier {
    /// Creates the applier of a host. No tool may change the paths in `guarded` (absolute, without links), anything below
    /// them, or certain files in any `.shelly` folder. A person is asked about each change of `instructions`, the files that
    /// are part of agents' prompts, as about well-known configuration files. `own` authenticates the records of this person.
    pub fn new(
        guarded: impl IntoIterator<Item = PathBuf>,
        instructions: impl IntoIterator<Item = PathBuf>,
        own: UserKey,
    ) -> Self {
        let guarded = ProtectedFiles::new(guarded).with_instructions(instructions);
        Self(Arc::new(ChangeApplierInner { guarded, own, ..ChangeApplierInner::default() }))
    }

    /// Returns an applier that also asks a person about each change below these folders (absolute, without links), because
    /// their content is built as soon as it changes, and a build runs it.
    pub fn with_built(self, folders: impl IntoIterator<Item = PathBuf>) -> Self {
        let guarded = self.0.guarded.clone().with_built(folders);
        Self(Arc::new(ChangeApplierInner { guarded, ..self.0.without_session() }))
    }

    /// Returns an applier that calls `hook` with the files that a person saw completely when approving their change. The
    /// hook may block for the time of reading and writing small files.
    pub fn on_seen(self, hook: impl Fn(&[PathBuf]) + Send + Sync + 'static) -> Self {
        let seen = Some(SeenFilesHook(Arc::new(hook)));
        Self(Arc::new(ChangeApplierInner { seen, ..self.0.without_session() }))
    }

    /// Returns an applier for files that the person may have open in this editor.
    pub fn with_editor(self, editor: Option<Arc<dyn EditorBuffers>>) -> Self {
        let editor = editor.map(EditorHandle);
        Self(Arc::new(ChangeApplierInner { editor, ..self.0.without_session() }))
    }

    /// Returns the editor in which the person may have files open.
    pub fn editor(&self) -> Option<Arc<dyn EditorBuffers>> {
        self.0.editor.as_ref().map(|EditorHandle(editor)| Arc::clone(editor))
    }

    /// Reports that a person was shown an applied plan and approved it.
    pub fn tell_seen(&self, plan: &ChangePlan) {
        let files = plan.files_shown_whole();
        if let Some(SeenFilesHook(hook)) = self.0.seen.as_ref().filter(|_| !files.is_empty()) {
            hook(&files);
        }
    }

    /// From now on stores previous contents in the session's folder `folder`, and records changes in progress in `common`.
    /// Only the first call has an effect.
    pub fn of_session(&self, common: PathBuf, folder: &Path) {
        let session = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let _ = self.0.session.set(ChangeFolders { common, folder: folder.join(FOLDER), session });
    }

    /// Returns the folder in which a session keeps previous contents.
    pub fn folder_in(session: &Path) -> PathBuf {
        session.join(FOLDER)
    }

    /// Compares changes with the present files without changing anything. Blocks while it reads them.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if one of the changes cannot be made.
    pub fn plan(&self, changes: &[FileChange]) -> Result<ChangePlan, ChangeError> {
        self.plan_over(changes, &[])
    }

    /// Compares changes with the present files as [`plan`](Self::plan) does, as if these texts of an editor were saved. The
    /// plan can be applied once they are.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if one of the changes cannot be made.
    pub fn plan_over(&self, changes: &[FileChange], unsaved: &[UnsavedText]) -> Result<ChangePlan, ChangeError> {
        let planned = |no_undo| ChangePlan::of(changes, unsaved, &self.0.guarded, no_undo);
        let none = "this run has no session";
        let Some(kept) = self.0.session.get() else { return planned(Some(none)) };
        let (bytes, records) = kept.used();
        if !self.0.own.has_place() {
            let none = "there is no folder for the key that authenticates the record of changes";
            return planned(Some(none));
        }
        let full = match (bytes > limits::SESSION_UNDO_BYTES - limits::CHANGE_UNDO_BYTES, records) {
            (_, limits::SESSION_UNDO_RECORDS..) => {
                Some("the session has reached its maximum number of recorded changes")
            }
            (true, _) => Some("the session has reached its maximum size of stored previous content"),
            (false, _) => None,
        };
        planned(full)
    }

    /// Applies all changes of a plan or none, if everything still matches the plan. `result` is recorded as what the model
    /// is told then. Blocks until file contents are on disk; with a session, until their names and the undo data are on
    /// disk, too. After a power loss, a file therefore has either its complete old content or its complete new one. With a
    /// session, reported changes survive, and an interrupted one is rolled back at the next start.
    ///
    /// # Errors
    ///
    /// [`ChangeError`]; nothing was changed, unless it is [`ChangeError::NotTakenBack`].
    pub fn apply(
        &self,
        plan: &ChangePlan,
        by: ChangeOrigin<'_>,
        result: &[ToolResultContent],
    ) -> Result<(), ChangeError> {
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let id = id(now)?;
        let steps = steps(plan, &id);
        let kept = self.0.session.get();
        let mut images = BeforeImages::of(plan);
        let mut new = Vec::new();
        let mut lock = None;
        let mut intent = None;
        if let Some(kept) = kept {
            kept.make()?;
            let failed = ChangeError::io("record of changes", "written");
            lock = files::lock_folder(&kept.common).map_err(failed)?;
            new = kept.keep(plan)?;
            images.folder = Some(kept.folder.clone());
            let record = ChangeRecord {
                at: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
                session: kept.session.clone(),
                agent: by.agent.to_owned(),
                call: by.call.to_owned(),
                tool: by.tool.to_owned(),
                steps: steps.iter().map(|(step, _)| step.clone()).collect(),
                result: result.to_vec(),
                can_undo: plan.no_undo().is_none(),
            };
            let begun = kept.begin(&id, &record, &self.0.own);
            intent = Some(begun.inspect_err(|_| forget(&new))?);
        }
        let mut done = Vec::new();
        let names = if intent.is_some() { FolderSync::AtOnce } else { FolderSync::InTime };
        let made = steps.iter().try_for_each(|(step, item)| {
            step.make(item, names)?;
            done.push(step.clone());
            Ok(())
        });
        let failed = ChangeError::io("record of changes", "written");
        let is_aside = steps.iter().any(|(step, _)| step.puts_aside());
        let mark = |intent: &ChangeIntent| if is_aside { intent.made() } else { intent.done() };
        let made = made.and_then(|()| intent.as_ref().map_or(Ok(()), |intent| mark(intent).map_err(failed)));
        if let Err(error) = made {
            let left = take_back(&done, &images);
            if !left.is_empty() {
                // The kept contents and the intent record stay for a person to examine.
                return Err(ChangeError::NotTakenBack { error: Box::new(error), left: left.join("; ") });
            }
            let _ = intent.map(|intent| intent.gone());
            forget(&new);
            return Err(error);
        }
        // Kept removals are garbage now: the next start deletes what cannot be deleted here.
        if is_aside
            && steps.iter().all(|(step, _)| step.settle().is_ok())
            && let Some(intent) = intent
        {
            let _ = intent.settled();
        }
        if plan.no_undo().is_some() {
            forget(&new);
        }
        drop(lock);
        Ok(())
    }

    /// Returns the recorded result of a call, if its changes were applied.
    pub fn made(&self, by: ChangeOrigin<'_>) -> Option<Vec<ToolResultContent>> {
        let kept = self.0.session.get()?;
        let is_it =
            |record: &ChangeRecord| record.agent == by.agent && record.call == by.call && record.tool == by.tool;
        let records = [DONE, UNDONE].into_iter().flat_map(|state| records(&kept.folder, state));
        records.filter_map(|path| read(&path, &self.0.own)).find(is_it).map(|record| record.result)
    }
}

/// The name of the folder for changes in a session's folder.
const FOLDER: &str = "changes";

/// Returns a unique id that sorts by time.
fn id(now: Duration) -> Result<String, ChangeError> {
    let mut random = [0; 8];
    let failed = ChangeError::io("record of changes", "named");
    getrandom::fill(&mut random).map_err(|error| failed(std::io::Error::other(error.to_string())))?;
    Ok(format!("{:013}-{:016x}", now.as_millis(), u64::from_le_bytes(random)))
}

/// Returns the records of a folder in this state, the newest first.
fn records(folder: &Path, state: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut records: Vec<_> = entries.filter(|path| path.extension().is_some_and(|found| found == state)).collect();
    records.sort();
    records.reverse();
    records
}

/// The changes of a session that can be undone, the newest first.
#[derive(Debug)]
pub struct ChangeHistory {
    common: PathBuf,
    folder: PathBuf,
    own: UserKey,
}

/// The changes of one result, which can be undone.
#[derive(Debug)]
pub struct UndoableChange {
    record: ChangeRecord,
    path: PathBuf,
    images: PathBuf,
    common: PathBuf,
}

impl ChangeHistory {
    /// Returns the history of the session in this folder; `common` as for [`ChangeApplier::of_session`].
    pub fn new(common: PathBuf, folder: &Path, own: UserKey) -> Self {
        Self { common, folder: folder.join(FOLDER), own }
    }

    /// Returns the newest changes that are not undone; `Err` with the reason if they cannot be undone.
    pub fn last(&self) -> Option<Result<UndoableChange, String>> {
        let path = records(&self.folder, DONE).into_iter().next()?;
        let Some(record) = read(&path, &self.own) else {
            return Some(Err(format!("{} was not written by you on this machine, or is damaged", path.display())));
        };
        if !record.can_undo {
            return Some(Err(format!(
                "the previous content of the changes by `{}` was not stored",
                record.tool.escape_debug()
            )));
        }
        let (images, common) = (self.folder.clone(), self.common.clone());
        Some(Ok(UndoableChange { record, path, images, common }))
    }
}

impl UndoableChange {
    /// Returns the tool that made them.
    pub fn tool(&self) -> &str {
        &self.record.tool
    }

    /// Returns the time at which they were made.
    pub fn at(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_millis(self.record.at)
    }

    /// Returns the temporary names of removed files and folders.
    #[cfg(test)]
    pub(super) fn asides(&self) -> impl Iterator<Item = &str> {
        use super::apply::ChangeStep;
        self.record
            .steps
            .iter()
            .filter_map(|step| if let ChangeStep::Removed { aside, .. } = step { Some(&**aside) } else { None })
    }

    /// Describes the effect of undoing them: one line per step, then the diffs.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if a changed path was modified since.
    pub fn shown(&self) -> Result<String, ChangeError> {
        use super::apply::ChangeStep;
        check_back(&self.record.steps).map_err(ChangeError::of_undo)?;
        let images = BeforeImages { folder: Some(self.images.clone()), ..BeforeImages::default() };
        let (mut lines, mut texts) = (String::new(), String::new());
        for step in self.record.steps.iter().rev() {
            let line = match step {
                ChangeStep::Made { at, .. } => format!("remove the folder {} if it is empty", at.shown),
                ChangeStep::Moved { from, to, .. } => format!("move {} back to {}", to.shown, from.shown),
                ChangeStep::Removed { at, before, .. } => format!("restore {}{}", at.shown, in_words(before)),
                ChangeStep::Placed { at, before: PathFingerprint::Nothing, after, .. } => {
                    texts.push_str(&difference(at, None, after));
                    format!("remove {}{}", at.shown, in_words(after))
                }
                ChangeStep::Placed {
                    at,
                    before: PathFingerprint::There(FingerprintNode::File { digest, .. }),
                    after,
                    ..
                } => {
                    let old = images.get(*digest).map_err(ChangeError::io(&at.shown, "restored"))?;
                    texts.push_str(&difference(at, Some(&old), after));
                    format!("restore the previous content of {}", at.shown)
                }
                ChangeStep::Placed { at, .. } => format!("restore {}", at.shown),
            };
            lines.push_str(&line);
            lines.push('\n');
        }
        let texts: Vec<_> = texts.lines().collect();
        let shown = texts.iter().take(limits::UNDO_LINES).map(|line| crate::error::cut(line, limits::DIFF_LINE_CHARS));
        let mut text = lines;
        shown.for_each(|line| text.extend([line.as_str(), "\n"]));
        if let Some(beyond) = texts.len().checked_sub(limits::UNDO_LINES).filter(|beyond| *beyond > 0) {
            text.push_str(&format!("[{beyond} more lines are not shown]\n"));
        }
        Ok(text)
    }

    /// Undoes the changes. An undo that was interrupted by the end of a process is completed.
    ///
    /// # Errors
    ///
    /// [`ChangeError`] if a changed path was modified since, in which case nothing is undone, or if the disk fails.
    pub fn make(&self) -> Result<(), ChangeError> {
        let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let failed = ChangeError::io("changes", "undone");
        let _lock = files::create_private_folders(&self.common)
            .and_then(|()| files::lock_folder(&self.common))
            .map_err(&failed)?;
        check_back(&self.record.steps).map_err(ChangeError::of_undo)?;
        let images = BeforeImages { folder: Some(self.images.clone()), ..BeforeImages::default() };
        for step in self.record.steps.iter().rev() {
            // A kept removal is left from an earlier attempt: a partly deleted tree.
            step.settle().and_then(|()| step.take_back(&images)).map_err(ChangeError::of_undo)?;
        }
        let undone = self.path.with_extension(UNDONE);
        fs::rename(&self.path, &undone).and_then(|()| files::sync_folder(&undone)).map_err(failed)
    }
}

/// Returns the diff from the present content to the previous one.
fn difference(at: &ResolvedChangePath, old: Option<&[u8]>, now: &PathFingerprint) -> String {
    match now {
        PathFingerprint::There(FingerprintNode::File { bytes, .. }) if *bytes <= limits::DIFF_BYTES as u64 => {
            // The state was checked a moment ago; a later modification is detected before the undo.
            let now = state(at).ok().and_then(|_| open_file(&at.real).ok());
            let now = now.and_then(|file| {
                let mut bytes = Vec::new();
                file.take(limits::DIFF_BYTES as u64).read_to_end(&mut bytes).ok().map(|_| bytes)
            });
            now.map_or_else(String::new, |now| diff::between(&at.shown, Some(&now), old).text)
        }
        _ => String::new(),
    }
}

fn in_words(state: &PathFingerprint) -> String {
    match state {
        PathFingerprint::There(node @ FingerprintNode::Folder { .. }) => format!(", {}", node.holding()),
        _ => String::new(),
    }
}
