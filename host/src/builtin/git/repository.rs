//! Runs git in a repository such that nothing in the repository runs a program: no hook, no monitor, no external diff, no
//! text conversion, no filter, no pager, editor, signing or credential program, and nothing that reaches the network.
//!
//! Everything that can be disabled for one command is disabled. Filters have names that only the repository knows: they are
//! queried first, which runs nothing, and are replaced by none for reading commands. With filters, changing commands are
//! refused, since they would store wrong file contents. The person's own configuration stays in effect.

use std::{
    collections::BTreeSet,
    fmt, fs,
    io::Read,
    path::{Path, PathBuf},
    sync::Arc,
};

use crate::{
    error::{Fault, cut, why_unreadable},
    limits,
    process::{ExecContext, ProcessExit, ProcessOutput, ProgramRequest},
};

/// The repository in which git works.
#[derive(Debug, Clone)]
pub struct GitRepository(Arc<ExecContext>);

/// Facts about a repository that are determined before a command is run in it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct GitRepositoryInfo {
    top: PathBuf,
    git_dir: PathBuf,
    /// The names of the filters in its own configuration.
    filters: BTreeSet<String>,
    /// `true` if its own configuration names hooks.
    hooks: bool,
}

/// Options that disable, for one command, programs that a repository could have run.
const SETTINGS: [&str; 28] = [
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "sequence.editor=false",
    "core.askPass=false",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=",
    "credential.helper=",
    "interactive.diffFilter=",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "log.showSignature=false",
    "gpg.program=false",
    "gpg.openpgp.program=false",
    "gpg.ssh.program=false",
    "gpg.x509.program=false",
    "gpg.ssh.defaultKeyCommand=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "status.submoduleSummary=false",
    "diff.ignoreSubmodules=dirty",
    "safe.bareRepository=explicit",
    "color.ui=false",
    "core.quotePath=false",
    "i18n.logOutputEncoding=UTF-8",
];

/// Environment variables with the same purpose, which git's subprocesses inherit. `GIT_ALLOW_PROTOCOL` lists the only
/// allowed transports, and no transport has this name.
const ENVIRONMENT: [(&str, &str); 12] = [
    ("LC_ALL", "C"),
    ("GIT_CONFIG_NOSYSTEM", "1"),
    ("GIT_TERMINAL_PROMPT", "0"),
    ("GIT_OPTIONAL_LOCKS", "0"),
    ("GIT_NO_LAZY_FETCH", "1"),
    ("GIT_ALLOW_PROTOCOL", "none"),
    ("GIT_PAGER", "cat"),
    ("GIT_EDITOR", "false"),
    ("GIT_ASKPASS", "false"),
    ("SSH_ASKPASS", "false"),
    ("GIT_SSH_COMMAND", "false"),
    ("GIT_LITERAL_PATHSPECS", "1"),
];

impl GitRepository {
    /// Creates the repository that contains the root of this execution context.
    pub fn new(mut ground: ExecContext) -> Self {
        ground.environment.retain(|(name, _)| !ENVIRONMENT.iter().any(|(own, _)| own == name));
        ground.environment.extend(ENVIRONMENT.map(|(name, value)| (name.to_owned(), value.to_owned())));
        Self(Arc::new(ground))
    }

    /// Inspects the repository before a command is run in it.
    ///
    /// # Errors
    ///
    /// [`Fault`] if there is no repository, git is missing, or the repository is not that of the folder.
    pub(super) async fn prepare(&self) -> Result<GitRepositoryInfo, Fault> {
        let folders = ["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-dir", "--git-common-dir"];
        let folders = self.asked(&folders).await?;
        let [top, git_dir, common] = &*folders.lines().map(PathBuf::from).collect::<Vec<_>>() else {
            return Err(Fault::other("git did not report the location of the repository"));
        };
        let settings = self.asked(&["config", "--list", "--null", "--show-scope", "--includes"]).await?;
        let (mut filters, mut hooks, mut moved) = (BTreeSet::new(), false, false);
        let mut words = settings.split('\0');
        while let (Some(scope), Some(setting)) = (words.next(), words.next()) {
            if !matches!(scope, "local" | "worktree") {
                continue;
            }
            let key = setting.split('\n').next().unwrap_or_default();
            let (section, variable) = key.rsplit_once('.').unwrap_or_default();
            match section.split_once('.').unwrap_or((section, "")) {
                ("filter", name) if ["clean", "smudge", "process"].contains(&variable) => {
                    filters.insert(name.to_owned());
                }
                ("hook", _) => hooks = true,
                ("core", "") if variable == "worktree" => moved = true,
                _ => {}
            }
        }
        if let Err(why) = is_its_own(top, git_dir, common, moved) {
            let (top, git_dir) = (top.display(), git_dir.display());
            let message =
                format!("the repository {git_dir} does not belong to the folder {top}, so git is not run: {why}");
            return Err(Fault::Denied { message });
        }
        if let Some(name) = filters.iter().find(|name| name.contains(['=', '\n'])) {
            let name = cut(name, limits::NAME_SHOWN_CHARS);
            let message = format!(
                "the repository has a filter `{}` that cannot be disabled, so git is not run",
                name.escape_debug()
            );
            return Err(Fault::Denied { message });
        }
        Ok(GitRepositoryInfo { top: top.clone(), git_dir: git_dir.clone(), filters, hooks })
    }

    /// Runs git with these arguments.
    ///
    /// # Errors
    ///
    /// [`Fault`] if git does not run. A failed command is not an error; its result says so.
    pub(super) async fn run(
        &self,
        prepared: &GitRepositoryInfo,
        words: &[&str],
        stdin: Vec<u8>,
    ) -> Result<ProcessOutput, Fault> {
        let off = |name: &String| {
            ["clean=", "smudge=", "process=", "required=false"].map(|setting| format!("filter.{name}.{setting}"))
        };
        let off: Vec<_> = prepared.filters.iter().flat_map(off).collect();
        self.run_with(&off, words, stdin).await
    }

    async fn run_with(&self, more: &[String], words: &[&str], stdin: Vec<u8>) -> Result<ProcessOutput, Fault> {
        let settings = SETTINGS.into_iter().chain(more.iter().map(String::as_str));
        let settings = settings.flat_map(|setting| ["-c", setting]);
        let args = ["--no-pager", "--literal-pathspecs"].into_iter().chain(settings).chain(words.iter().copied());
        let args = args.map(str::to_owned).collect();
        let wish = ProgramRequest { args, folder: None, stdin, time: Some(limits::GIT_TIME) };
        self.0.run(self.0.job("git", wish)?).await
    }

    /// Returns the output of a query that must succeed.
    async fn asked(&self, words: &[&str]) -> Result<String, Fault> {
        let ended = self.run_with(&[], words, Vec::new()).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match ended.exit {
            ProcessExit::Status(0) if !ended.is_cut => Ok(text(&ended.stdout)),
            ProcessExit::Status(0) => {
                Err(Fault::TooLarge { message: "the configuration of the repository is too large".into() })
            }
            exit => {
                let why = cut(text(&ended.stderr).trim(), limits::ERROR_BYTES / 4);
                Err(Fault::other(format!("git cannot be used here: {why} ({exit})")))
            }
        }
    }
}

/// Checks that a repository and its working folder belong together. Each of them names the other, but those names may be
/// another person's: they could point to the files or commits of any other repository of this person. `names_folder`: the
/// repository's configuration names its working folder.
fn is_its_own(top: &Path, git_dir: &Path, common: &Path, names_folder: bool) -> Result<(), String> {
    let real =
        |path: &Path| path.canonicalize().map_err(|error| format!("{}: {}", path.display(), why_unreadable(&error)));
    let named = top.join(".git");
    let Ok(found) = fs::symlink_metadata(&named) else { return Err("the folder has no `.git`".into()) };
    let (git_dir, common) = (real(git_dir)?, real(common)?);
    if found.is_dir() {
        return match (real(&named)? == git_dir, common == git_dir) {
            (true, true) => Ok(()),
            (true, false) => Err(format!("its data is in {}, which is another repository", common.display())),
            (false, _) => Err("the folder's `.git` is another repository".into()),
        };
    }
    if !found.is_file() {
        return Err("the folder's `.git` is a link".into());
    }
    if leads_to(&named, top, "gitdir: ").as_ref() != Some(&git_dir) {
        return Err("the folder's `.git` leads to another repository".into());
    }
    let is_worktree = git_dir.parent() == Some(&common.join("worktrees"))
        && leads_to(&git_dir.join("gitdir"), &git_dir, "") == Some(real(&named)?);
    match is_worktree || names_folder && common == git_dir {
        true => Ok(()),
        false => Err(format!(
            "the folder's `.git` leads to the repository, but the repository does not name the folder; if they belong together, \
             run: git --git-dir={} config core.worktree {}",
            git_dir.display(),
            top.display()
        )),
    }
}

/// Returns the target of a git link file in `folder`: it holds `before` and a path.
fn leads_to(file: &Path, folder: &Path, before: &str) -> Option<PathBuf> {
    // Opening a pipe would block.
    fs::symlink_metadata(file).ok().filter(fs::Metadata::is_file)?;
    let mut text = String::new();
    fs::File::open(file).ok()?.take(limits::GIT_LINK_BYTES).read_to_string(&mut text).ok()?;
    folder.join(text.trim_end().strip_prefix(before)?).canonicalize().ok()
}

impl GitRepositoryInfo {
    /// Checks that no program of the repository would have to take part in a change.
    ///
    /// # Errors
    ///
    /// [`Fault`] that names the program.
    pub fn may_change(&self) -> Result<(), Fault> {
        let what = match (self.filters.first(), self.hooks) {
            (Some(name), _) => format!("the filter `{}`", cut(name, limits::NAME_SHOWN_CHARS).escape_debug()),
            (None, true) => "hooks".into(),
            (None, false) => return Ok(()),
        };
        let message = format!(
            "the repository's own configuration has {what}, which the host does not run, so the change would be incomplete: \
             report this to the person, or run git in another way"
        );
        Err(Fault::Denied { message })
    }
}

/// Formats the location for a person.
impl fmt::Display for GitRepositoryInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (top, git_dir) = (self.top.to_string_lossy(), self.git_dir.to_string_lossy());
        let shown = |path: &str| crate::process::shown_words([path]);
        write!(f, "Folder: {}. Repository: {}.", shown(&top), shown(&git_dir))
    }
}
