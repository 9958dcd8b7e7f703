//! The tools `git_*` for everyday work with git. The repository may be another person's, so its configuration and content
//! run no program: see [`repository`].

mod repository;

use std::{
    collections::HashSet,
    path::{Component, Path},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt, future::BoxFuture};
pub use repository::GitRepository;
use repository::GitRepositoryInfo;
use schemars::JsonSchema;
use serde::{Deserialize, de::DeserializeOwned};

use super::{confirmed_tool::declined, exec::tool_output};
use crate::{
    approval::{ApprovalBroker, PermissionSubject, Verdict},
    chat::ToolHints,
    error::{Fault, cut},
    event::RunCx,
    limits,
    process::{ProcessOutput, shown_words},
    tool::{self, ConcurrencyDomain, Tool, ToolBox, ToolConcurrency, ToolCx, ToolOutput},
};

/// Creates the tools for this repository. A person is asked once per session for reading, and each time for a change, unless
/// the program `git` is trusted.
pub fn git_tools(broker: ApprovalBroker, repository: GitRepository) -> ToolBox {
    let git = GitContext { broker, repository, read_in: Arc::default(), changing: Arc::default() };
    let reads = ToolHints { read_only: true, closed_world: true, ..ToolHints::default() };
    let changes = ToolHints { closed_world: true, ..ToolHints::default() };
    ToolBox::new()
        .with(git.tool("git_status", "Shows the branch, and which files are changed, staged or untracked.", reads, GitContext::status))
        .with(git.tool(
            "git_diff",
            "Shows the changes in files as a unified diff: the unstaged ones, or the staged ones.",
            reads,
            GitContext::diff,
        ))
        .with(git.tool("git_log", "Lists the newest commits.", reads, GitContext::log))
        .with(git.tool("git_show", "Shows a commit with its diff, or an earlier version of a file (`REVISION:PATH`).", reads, GitContext::show))
        .with(git.tool("git_branch", "Lists branches, creates one, or switches to one.", changes, GitContext::branch))
        .with(git.tool("git_add", "Stages files for the next commit, after asking the person.", changes, GitContext::add))
        .with(git.tool(
            "git_commit",
            "Commits the staged changes, all changes of tracked files (`all`), or only these files (`files`). The person is \
             shown the message and the files, and may decline.",
            changes,
            GitContext::commit,
        ))
}

#[derive(Deserialize, JsonSchema)]
struct GitStatusArgs {
    /// `true`: one line for each file, with git's two-letter status.
    short: Option<bool>,
}

#[derive(Deserialize, JsonSchema)]
struct GitDiffArgs {
    /// `true`: the staged changes instead of the unstaged ones.
    staged: Option<bool>,
    /// Only this file or folder.
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct GitLogArgs {
    /// The number of commits; default 10.
    count: Option<u32>,
    /// The level of detail; default `oneline`.
    format: Option<GitLogFormat>,
    /// Only commits that changed this file or folder.
    path: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum GitLogFormat {
    Oneline,
    Short,
    Medium,
    Full,
}

#[derive(Deserialize, JsonSchema)]
struct GitShowArgs {
    /// A commit, a branch, a tag, `HEAD~2`, or `HEAD:src/main.rs`; default `HEAD`.
    revision: Option<String>,
    /// Only this file or folder.
    path: Option<String>,
}

#[derive(Deserialize, JsonSchema)]
struct GitBranchArgs {
    /// The action; default `list`.
    action: Option<GitBranchAction>,
    /// The branch to create or to switch to.
    name: Option<String>,
}

#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum GitBranchAction {
    List,
    Create,
    Switch,
}

#[derive(Deserialize, JsonSchema)]
struct GitAddArgs {
    /// The files and folders to stage.
    paths: Vec<String>,
}

#[derive(Deserialize, JsonSchema)]
struct GitCommitArgs {
    /// The commit message.
    message: String,
    /// Commit only these files, staged or not.
    files: Option<Vec<String>>,
    /// `true`: commit all tracked files, staged or not.
    all: Option<bool>,
}

#[derive(Clone)]
struct GitContext {
    broker: ApprovalBroker,
    repository: GitRepository,
    /// The runs for which the person allows reading, up to [`limits::GIT_RUNS`].
    read_in: Arc<Mutex<HashSet<Arc<str>>>>,
    /// Held while a change is made: git itself refuses a concurrent one.
    changing: Arc<tokio::sync::Mutex<()>>,
}

/// The implementation of one of the tools.
type GitToolFn<A> = fn(GitContext, ToolCx, A) -> BoxFuture<'static, Result<ToolOutput, Fault>>;

impl GitContext {
    fn tool<A>(&self, name: &str, description: &str, hints: ToolHints, call: GitToolFn<A>) -> impl Tool + use<A>
    where
        A: DeserializeOwned + JsonSchema + Send + 'static,
    {
        let git = self.clone();
        let most = limits::QUESTION_TIME + limits::PROCESS_PERMIT_WAIT + limits::GIT_TIME + limits::TOOL_TIME;
        tool::function(name, description, move |cx, args: A| call(git.clone(), cx, args))
            .with_hints(hints)
            .with_concurrency(ToolConcurrency::touching(hints, [ConcurrencyDomain::Files]))
            .with_time_limit(most)
            .beginning_itself()
    }

    fn status(self, cx: ToolCx, args: GitStatusArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        let short: &[&str] = if args.short.unwrap_or_default() { &["--short", "--branch"] } else { &[] };
        let words = [&["status", "--ignore-submodules=dirty"], short].concat();
        async move { self.read(&cx, "git_status", &words).await }.boxed()
    }

    fn diff(self, cx: ToolCx, args: GitDiffArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        async move {
            let mut words = [&["diff", "--ignore-submodules=dirty"], PLAIN].concat();
            words.extend(args.staged.unwrap_or_default().then_some("--cached"));
            words.push("--");
            words.extend(path(args.path.as_deref())?);
            self.read(&cx, "git_diff", &words).await
        }
        .boxed()
    }

    fn log(self, cx: ToolCx, args: GitLogArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        async move {
            let count = format!("--max-count={}", args.count.unwrap_or(10).min(limits::GIT_COMMITS));
            let format = match args.format.unwrap_or(GitLogFormat::Oneline) {
                GitLogFormat::Oneline => "--format=%h %ad %an: %s",
                GitLogFormat::Short => "--format=short",
                GitLogFormat::Medium => "--format=medium",
                GitLogFormat::Full => "--format=full",
            };
            let mut words = [&["log", "--date=short", "--no-show-signature", &*count, format], PLAIN, &["--"]].concat();
            words.extend(path(args.path.as_deref())?);
            self.read(&cx, "git_log", &words).await
        }
        .boxed()
    }

    fn show(self, cx: ToolCx, args: GitShowArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        async move {
            let revision = revision(args.revision.as_deref().unwrap_or("HEAD"))?;
            let mut words = [&["show", "--no-show-signature"], PLAIN, &[revision, "--"]].concat();
            words.extend(path(args.path.as_deref())?);
            self.read(&cx, "git_show", &words).await
        }
        .boxed()
    }

    fn branch(self, cx: ToolCx, args: GitBranchArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        const TOOL: &str = "git_branch";
        async move {
            let name =
                || branch(args.name.as_deref().ok_or_else(|| Fault::invalid("`name` is missing: name the branch"))?);
            match args.action.unwrap_or(GitBranchAction::List) {
                GitBranchAction::List => self.read(&cx, TOOL, &["branch", "--list", "--verbose", "--no-color"]).await,
                GitBranchAction::Create => {
                    let prepared = self.repository.prepare().await?;
                    let words = ["branch", "--no-track", "--", name()?];
                    self.change(&cx, TOOL, &prepared, GitChange::of(&words)).await
                }
                GitBranchAction::Switch => {
                    let prepared = self.repository.prepare().await?;
                    let words = ["switch", "--no-guess", "--no-recurse-submodules", name()?];
                    self.change(&cx, TOOL, &prepared, GitChange::of(&words)).await
                }
            }
        }
        .boxed()
    }

    fn add(self, cx: ToolCx, args: GitAddArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        async move {
            let prepared = self.repository.prepare().await?;
            let paths = paths(&args.paths)?;
            let detail = shown_words([GIT, "add", "--"].into_iter().chain(paths.iter().copied()));
            let change = GitChange { detail: Some(detail), ..GitChange::of(&[ADD, &*paths].concat()) };
            self.change(&cx, "git_add", &prepared, change).await
        }
        .boxed()
    }

    fn commit(self, cx: ToolCx, args: GitCommitArgs) -> BoxFuture<'static, Result<ToolOutput, Fault>> {
        async move {
            let GitCommitArgs { message, files, all } = args;
            message_check(&message)?;
            let files = files.unwrap_or_default();
            if all.unwrap_or_default() && !files.is_empty() {
                return Err(Fault::invalid("`files` and `all` are both given: omit one of them"));
            }
            let prepared = self.repository.prepare().await?;
            // The message goes to standard input, where git does not parse it as an option.
            let words = ["commit", "--no-gpg-sign", "--no-verify", "--file=-"];
            let (list, first, words) = match (all.unwrap_or_default(), files.is_empty()) {
                (true, _) => {
                    let list = ["status", "--short", "--untracked-files=no", "--ignore-submodules=dirty"].into();
                    (list, None, [&words[..], &["--all"]].concat())
                }
                (false, true) => (
                    ["diff", "--cached", "--name-status"].into_iter().chain(PLAIN.iter().copied()).collect(),
                    None,
                    words.to_vec(),
                ),
                (false, false) => {
                    let files = paths(&files)?;
                    let list = [&["status", "--short", "--ignore-submodules=dirty", "--"], &*files].concat();
                    // Stages the files first, so that untracked ones are committed too.
                    let first = [ADD, &*files].concat();
                    (list, Some(first), [&words[..], &["--only", "--"], &files].concat())
                }
            };
            let listed: Vec<_> = list;
            let listed = self.repository.run(&prepared, &listed, Vec::new()).await?;
            if !listed.is_success() {
                return Ok(tool_output(listed, limits::GIT_TIME));
            }
            let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
            if listed.trim().is_empty() {
                return Err(Fault::invalid(
                    "nothing to commit: stage files with git_add, name them in `files`, or set `all`",
                ));
            }
            let shown = cut(&listed, limits::GIT_LIST_SHOWN_CHARS);
            let detail = format!("git commit, with these files:\n{}", shown.trim_end());
            let change = GitChange { first, words, message, detail: Some(detail) };
            self.change(&cx, "git_commit", &prepared, change).await
        }
        .boxed()
    }

    /// Runs a reading command, if the person allows reading the repository.
    async fn read(&self, cx: &ToolCx, tool: &str, words: &[&str]) -> Result<ToolOutput, Fault> {
        self.may_read(&cx.run, tool).await?;
        let prepared = self.repository.prepare().await?;
        Ok(tool_output(self.repository.run(&prepared, words, Vec::new()).await?, limits::GIT_TIME))
    }

    async fn may_read(&self, cx: &RunCx, tool: &str) -> Result<(), Fault> {
        if self.read_in().contains(&cx.run) {
            return Ok(());
        }
        let prepared = self.repository.prepare().await?;
        let program = PermissionSubject::Program { name: GIT.into() };
        let subject = if self.broker.trusts(&program) { program } else { PermissionSubject::GitReading };
        let detail = format!("git status, diff, log, show and branch.\n{prepared}");
        let ruling = self.broker.permit(cx, subject, &detail).await?;
        if ruling.verdict == Verdict::No {
            return Err(declined(tool, ruling.by));
        }
        let mut read_in = self.read_in();
        if read_in.len() >= limits::GIT_RUNS {
            read_in.clear();
        }
        read_in.insert(Arc::clone(&cx.run));
        Ok(())
    }

    fn read_in(&self) -> MutexGuard<'_, HashSet<Arc<str>>> {
        self.read_in.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a changing command, if the person approves it.
    async fn change(
        &self,
        cx: &ToolCx,
        tool: &str,
        prepared: &GitRepositoryInfo,
        change: GitChange<'_>,
    ) -> Result<ToolOutput, Fault> {
        prepared.may_change()?;
        let GitChange { first, words, message, detail } = change;
        let detail = detail.unwrap_or_else(|| shown_words([GIT].into_iter().chain(words.iter().copied())));
        if detail.chars().count() > limits::PERMISSION_DETAIL_CHARS {
            let message = "the command is too long to be shown to a person: split it into several steps".into();
            return Err(Fault::TooLarge { message });
        }
        // The model's text comes last, so that it cannot imitate the parts after it.
        let quoted = if message.is_empty() { String::new() } else { format!("\nMessage:\n{message}") };
        let detail = format!("{detail}\n{prepared}{quoted}");
        let ruling = self.broker.permit(&cx.run, PermissionSubject::Program { name: GIT.into() }, &detail).await?;
        if ruling.verdict == Verdict::No {
            return Err(declined(tool, ruling.by));
        }
        let _alone = self.changing.lock().await;
        // While the person decides, another process may have changed the repository.
        let now = self.repository.prepare().await?;
        if now != *prepared {
            let message = "the repository's configuration changed while the person was asked: try again";
            return Err(Fault::Denied { message: message.into() });
        }
        cx.begin_now().await?;
        if let Some(first) = first {
            let ended = self.repository.run(prepared, &first, Vec::new()).await?;
            if !ended.is_success() {
                return changed(ended);
            }
        }
        changed(self.repository.run(prepared, &words, message.into_bytes()).await?)
    }
}

/// Returns the result of a change.
fn changed(ended: ProcessOutput) -> Result<ToolOutput, Fault> {
    let is_within = String::from_utf8_lossy(&ended.stderr).contains("failed in submodule");
    match !ended.is_success() && is_within {
        true => Err(Fault::Denied {
            message:
                "the paths include the folder of another repository, whose configuration could run programs: name the \
                      other files one by one"
                    .into(),
        }),
        false => Ok(tool_output(ended, limits::GIT_TIME)),
    }
}

/// A changing command.
struct GitChange<'a> {
    /// A command that runs before it.
    first: Option<Vec<&'a str>>,
    words: Vec<&'a str>,
    /// The standard input of the command.
    message: String,
    /// The text for the person; `None`: the command itself.
    detail: Option<String>,
}

impl<'a> GitChange<'a> {
    fn of(words: &[&'a str]) -> Self {
        Self { first: None, words: words.to_vec(), message: String::new(), detail: None }
    }
}

const GIT: &str = "git";

/// Options for built-in diffs: no external diff program runs, whatever the repository configures. For a submodule only the
/// two commits are named: its diff would be made by a second git, which follows the submodule's configuration.
const PLAIN: &[&str] = &["--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short"];

/// Git checks whether submodules have changed by running a second git in each, which would run the filters of that
/// submodule; no option prevents this. The second git inherits this invalid setting and ends with an error.
const ADD: &[&str] = &["-c", "status.showUntrackedFiles=not-within", "add", "--"];

/// Validates a path from a model, if there is one.
fn path(path: Option<&str>) -> Result<Option<&str>, Fault> {
    path.filter(|path| !path.is_empty()).map(checked_path).transpose()
}

fn paths(all: &[String]) -> Result<Vec<&str>, Fault> {
    if all.is_empty() || all.len() > limits::GIT_PATHS {
        return Err(Fault::invalid(format!("name 1 to {} files or folders", limits::GIT_PATHS)));
    }
    all.iter().map(|path| checked_path(path)).collect()
}

/// Checks that a path is below git's working folder. It cannot act as a pattern or an option: it follows `--`, and git takes
/// it literally.
fn checked_path(path: &str) -> Result<&str, Fault> {
    let is_below = Path::new(path).components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if path.is_empty() || path.contains('\0') || !is_below {
        let shown = cut(path, limits::NAME_SHOWN_CHARS);
        let message =
            format!("`{}` is not a valid path: write it relative to the project, without `..`", shown.escape_debug());
        return Err(Fault::invalid(message));
    }
    Ok(path)
}

/// Validates a revision, which names a commit or an object in it and is not an option.
fn revision(revision: &str) -> Result<&str, Fault> {
    let is_one = |c: char| c.is_alphanumeric() || "._-/@{}^~:+,= ".contains(c);
    let is_range = revision.split(':').next().unwrap_or_default().contains("..");
    let is_fine = !revision.trim().is_empty() && !revision.starts_with(['-', ':', '^']) && revision.chars().all(is_one);
    match is_fine && !is_range && revision.len() <= limits::GIT_NAME_BYTES {
        true => Ok(revision),
        false => Err(named_badly(revision, "revision: write, for example, `HEAD~2`, a branch, or `HEAD:src/main.rs`")),
    }
}

/// Validates the name of a branch, which is not an option.
fn branch(name: &str) -> Result<&str, Fault> {
    let is_one = |c: char| c.is_alphanumeric() || "._-/+".contains(c);
    let is_fine =
        !name.is_empty() && !name.starts_with(['-', '/', '.']) && name.chars().all(is_one) && !name.contains("..");
    match is_fine && name.len() <= limits::GIT_NAME_BYTES {
        true => Ok(name),
        false => Err(named_badly(
            name,
            "branch name: use letters, digits, `.`, `_`, `-`, `+` and `/`, and do not begin with `-`, `/` or `.`",
        )),
    }
}

fn named_badly(name: &str, what: &str) -> Fault {
    let shown = cut(name, limits::NAME_SHOWN_CHARS);
    Fault::invalid(format!("`{}` is not a valid {what}", shown.escape_debug()))
}

fn message_check(message: &str) -> Result<(), Fault> {
    let chars = message.chars().count();
    if message.trim().is_empty() {
        return Err(Fault::invalid("the message is empty: describe what the commit does and why"));
    }
    if message.starts_with('-') || message.contains('\0') {
        return Err(Fault::invalid("the message begins with `-` or contains a NUL: write plain text"));
    }
    if chars > limits::COMMAND_SHOWN_CHARS {
        let most = limits::COMMAND_SHOWN_CHARS;
        return Err(Fault::TooLarge {
            message: format!("the message has {chars} characters, at most {most} are allowed: shorten it"),
        });
    }
    Ok(())
}

#[cfg(all(test, unix))]
mod tests;
