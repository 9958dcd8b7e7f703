//! The programs that a config allows, and the arguments with which each may be run.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use super::{
    ArgsPattern, ProcessOutput, ProcessSlots, ProcessSpec, ProgramFindError, ProgramFinder, known_options, shown_words,
};
use crate::{
    error::{Fault, cut, seconds},
    limits,
};

/// The execution context of all programs of a project. Clones share the slots.
#[derive(Debug, Clone, Default)]
pub struct ExecContext {
    /// The search path for programs.
    pub finder: ProgramFinder,
    /// The folder of the project.
    pub root: PathBuf,
    /// The base environment of every program: the variables in [`INHERITED`](Self::INHERITED) that are set.
    pub environment: Vec<(String, String)>,
    /// The slots that limit the number of concurrent programs.
    pub slots: ProcessSlots,
}

/// A program that a config allows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedProgram {
    /// The program's name, or its path, which may be relative to the project's folder.
    pub command: String,
    /// The allowed argument patterns.
    pub args: Vec<ArgsPattern>,
    /// The working folder; a caller may choose a folder below it.
    pub folder: PathBuf,
    /// The complete environment.
    pub environment: Vec<(String, String)>,
    /// The maximum wall time.
    pub time: Duration,
}

/// The parameters of a program run.
#[derive(Debug, Clone, Default)]
pub struct ProgramRequest {
    /// The arguments, one word each.
    pub args: Vec<String>,
    /// The working folder, relative to the program's own; `None`: the program's own.
    pub folder: Option<String>,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The wall time limit, if it is shorter than the program's own.
    pub time: Option<Duration>,
}

impl ExecContext {
    /// Environment variables that nearly every program needs. Other variables, which may hold credentials, are passed only
    /// to programs to which a config gives them.
    pub const INHERITED: [&str; 7] = ["PATH", "HOME", "USER", "LANG", "LC_ALL", "TMPDIR", "TZ"];

    /// Builds the specification of a run of any program, by name or path, with the base environment.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the program or the folder does not exist, or the folder is outside the project.
    pub fn job(&self, command: &str, wish: ProgramRequest) -> Result<ProcessSpec, Fault> {
        let entry = AllowedProgram {
            command: command.into(),
            args: Vec::new(),
            folder: self.root.clone(),
            environment: self.environment.clone(),
            time: limits::PROCESS_TIME_CEILING,
        };
        let time = wish.time.unwrap_or(limits::PROCESS_TIME);
        self.job_of(&entry, ProgramRequest { time: Some(time), ..wish })
    }

    fn job_of(&self, entry: &AllowedProgram, wish: ProgramRequest) -> Result<ProcessSpec, Fault> {
        let program = self.finder.find(&entry.command, &self.root);
        let program = program.map_err(|error| Fault::NotFound { message: error.to_string() })?;
        let folder = below(&entry.folder, wish.folder.as_deref())?;
        let time = wish.time.map_or(entry.time, |time| time.min(entry.time));
        if time.is_zero() {
            return Err(Fault::invalid("the time limit of the program is 0; raise it, or leave it out"));
        }
        let ProgramRequest { args, stdin, .. } = wish;
        Ok(ProcessSpec { program, args, folder, environment: entry.environment.clone(), stdin, time })
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    ///
    /// [`Fault`] if the program did not run or its result is unknown.
    pub async fn run(&self, job: ProcessSpec) -> Result<ProcessOutput, Fault> {
        self.slots.run(job).await.map_err(|error| error.fault())
    }
}

/// Resolves the folder `name` in `base`. Links are followed first: one that leads out of `base` is refused.
fn below(base: &Path, name: Option<&str>) -> Result<PathBuf, Fault> {
    let not_there = |what: String| Fault::NotFound { message: format!("there is no working folder {what}") };
    let base =
        base.canonicalize().ok().filter(|base| base.is_dir()).ok_or_else(|| not_there("for this program".into()))?;
    let Some(name) = name.filter(|name| !name.is_empty()) else { return Ok(base) };
    let shown = cut(name, limits::NAME_SHOWN_CHARS);
    let shown = format!("`{}`", shown.escape_debug());
    let found = base.join(name).canonicalize().map_err(|_| not_there(shown.clone()))?;
    if !found.starts_with(&base) {
        let message = format!("the folder {shown} is outside the working folder; use a folder below it");
        return Err(Fault::Denied { message });
    }
    if found.is_dir() { Ok(found) } else { Err(not_there(shown)) }
}

/// The programs that a config allows, by their names there. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct AllowedPrograms {
    ground: ExecContext,
    entries: Arc<BTreeMap<String, AllowedProgram>>,
}

impl AllowedPrograms {
    /// Creates the set of programs with their execution context.
    pub fn new(ground: ExecContext, entries: impl IntoIterator<Item = (String, AllowedProgram)>) -> Self {
        Self { ground, entries: Arc::new(entries.into_iter().collect()) }
    }

    /// Returns the programs whose name satisfies `is_wanted`.
    pub fn only(&self, is_wanted: impl Fn(&str) -> bool) -> Self {
        let entries = self.entries.iter().filter(|(name, _)| is_wanted(name));
        let entries = entries.map(|(name, entry)| (name.clone(), entry.clone())).collect();
        Self { ground: self.ground.clone(), entries: Arc::new(entries) }
    }

    /// Returns `true` if there is no program.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Returns the execution context.
    pub fn ground(&self) -> &ExecContext {
        &self.ground
    }

    /// Iterates over the programs, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AllowedProgram)> {
        self.entries.iter().map(|(name, entry)| (name.as_str(), entry))
    }

    /// Iterates over the programs that cannot be found, by config name, with the reason.
    pub fn missing(&self) -> impl Iterator<Item = (&str, ProgramFindError)> {
        let find = |entry: &AllowedProgram| self.ground.finder.find(&entry.command, &self.ground.root);
        self.entries.iter().filter_map(move |(name, entry)| Some((name.as_str(), find(entry).err()?)))
    }

    /// Builds the specification of a requested run.
    ///
    /// # Errors
    ///
    /// [`Fault`] that names the alternatives: the program is not allowed, its arguments are not, or the folder is outside
    /// its own.
    pub fn job(&self, name: &str, wish: ProgramRequest) -> Result<ProcessSpec, Fault> {
        let shown = |text: &str| cut(text, limits::NAME_SHOWN_CHARS).escape_debug().to_string();
        let Some(entry) = self.entries.get(name) else {
            let known: Vec<_> = self.entries.keys().map(String::as_str).take(limits::NAMES_SHOWN).collect();
            let there = if known.is_empty() {
                "no programs are allowed".into()
            } else {
                format!("allowed programs: {}", known.join(", "))
            };
            return Err(Fault::NotFound { message: format!("program `{}` is not allowed; {there}", shown(name)) });
        };
        let fitting: Vec<_> = entry.args.iter().filter(|pattern| pattern.fits(&wish.args)).collect();
        if fitting.is_empty() {
            let may: Vec<_> = entry.args.iter().map(ArgsPattern::to_string).collect();
            let may = if may.is_empty() { "[]".into() } else { may.join(" or ") };
            let args = cut(&shown_words(wish.args.iter().map(String::as_str)), limits::NAME_SHOWN_CHARS);
            let message = format!("`{name}` is not allowed with the arguments `{args}`; allowed arguments: {may}");
            return Err(Fault::Denied { message });
        }
        // A pattern with wildcards for options does not mean options that turn a reading program into a writing one.
        let more = known_options::that_do_more(&entry.command, &wish.args);
        let is_meant = |pattern: &&ArgsPattern| {
            more.iter().all(|at| pattern.spells_out(*at) && (at + 1 == wish.args.len() || pattern.spells_out(at + 1)))
        };
        if let (Some(first), false) = (more.first(), fitting.into_iter().any(|pattern| is_meant(&pattern))) {
            let message = format!(
                "`{name}` is not allowed with `{}`: that argument writes a file, runs a program or leads elsewhere, \
                 and needs a config entry that spells out it and the argument after it",
                shown(&wish.args[*first])
            );
            return Err(Fault::Denied { message });
        }
        self.ground.job_of(entry, wish)
    }

    /// Runs a program to its end.
    ///
    /// # Errors
    ///
    /// The errors of [`AllowedPrograms::job`]; [`Fault::Timeout`] if the time limit expired.
    pub async fn run(&self, name: &str, wish: ProgramRequest) -> Result<ProcessOutput, Fault> {
        let job = self.job(name, wish)?;
        let time = job.time;
        let ended = self.ground.run(job).await?;
        match ended.exit {
            super::ProcessExit::Time => {
                Err(Fault::Timeout { message: format!("`{name}` took longer than {}", seconds(time)) })
            }
            _ => Ok(ended),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn wish(args: &[&str]) -> ProgramRequest {
        ProgramRequest { args: args.iter().map(|arg| (*arg).to_owned()).collect(), ..ProgramRequest::default() }
    }

    fn world() -> (tempfile::TempDir, AllowedPrograms) {
        let world = tempfile::tempdir().unwrap();
        let root = world.path().join("project");
        for folder in ["project/sub/deep", "project-other", "other"] {
            fs::create_dir_all(world.path().join(folder)).unwrap();
        }
        fs::write(root.join("file"), "").unwrap();
        let pattern = |words: &[&str]| {
            ArgsPattern::new(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).unwrap()
        };
        let finder = ProgramFinder::new("/usr/bin:/bin");
        let ground = ExecContext { finder, root: root.clone(), ..ExecContext::default() };
        let entry = |command: &str, args| AllowedProgram {
            command: command.into(),
            args,
            folder: root.clone(),
            environment: vec![("ONLY".into(), "this".into())],
            time: Duration::from_secs(5),
        };
        let entries = [
            ("say".to_owned(), entry("echo", vec![pattern(&["hello", "*"]), pattern(&["-n", "**"])])),
            ("bare".to_owned(), entry("env", vec![])),
            ("env".to_owned(), entry("env", vec![pattern(&[])])),
            ("gone".to_owned(), entry("no-such-program", vec![pattern(&[])])),
            (
                "history".to_owned(),
                entry(
                    "git",
                    vec![
                        pattern(&["log", "-*"]),
                        pattern(&["diff", "**"]),
                        pattern(&["archive", "-o", "out.tar", "*"]),
                        pattern(&["show", "--output=*"]),
                    ],
                ),
            ),
        ];
        (world, AllowedPrograms::new(ground, entries))
    }

    #[cfg(unix)]
    #[test]
    fn only_configured_programs_and_arguments_run() {
        let (world, programs) = world();
        std::os::unix::fs::symlink(world.path().join("other"), world.path().join("project/out")).unwrap();
        std::os::unix::fs::symlink("sub", world.path().join("project/in")).unwrap();
        let root = world.path().canonicalize().unwrap().join("project");
        for (name, args, folder, says) in [
            ("say", &["hello", "world"][..], None, Ok("")),
            ("say", &["-n", "x", "-e"], None, Ok("")),
            ("say", &["hello", "world"], Some("sub/deep"), Ok("sub/deep")),
            ("say", &["hello", "world"], Some("in"), Ok("sub")),
            ("say", &["hello", "world"], Some(""), Ok("")),
            (
                "say",
                &["hello"],
                None,
                Err("`say` is not allowed with the arguments `hello`; allowed arguments: [\"hello\", \"*\"] or \
                     [\"-n\", \"**\"]"),
            ),
            ("say", &["hello", "-e"], None, Err("`say` is not allowed with the arguments `hello -e`")),
            ("say", &["hello", "a", "; id"], None, Err("`say` is not allowed with the arguments `hello a \"; id\"`")),
            ("bare", &[], None, Err("`bare` is not allowed with the arguments ``; allowed arguments: []")),
            ("rm", &[], None, Err("program `rm` is not allowed; allowed programs: bare, env, gone, history, say")),
            ("echo", &["hello", "x"], None, Err("program `echo` is not allowed")),
            ("/bin/echo", &["hello", "x"], None, Err("program `/bin/echo` is not allowed")),
            ("history", &["log", "--oneline"], None, Ok("")),
            (
                "history",
                &["log", "--output=/tmp/x"],
                None,
                Err("`history` is not allowed with `--output=/tmp/x`: that argument writes"),
            ),
            ("history", &["diff", "HEAD", "--output", "x"], None, Err("is not allowed with `--output`")),
            ("history", &["diff", "--ext-d"], None, Err("is not allowed with `--ext-d`")),
            ("history", &["diff", "--", "--output"], None, Ok("")),
            ("history", &["archive", "-o", "out.tar", "HEAD"], None, Ok("")),
            ("history", &["show", "--output=x"], None, Err("is not allowed with `--output=x`")),
            ("gone", &[], None, Err("there is no program `no-such-program` in PATH")),
            ("env", &[], Some(".."), Err("the folder `..` is outside the working folder")),
            ("env", &[], Some("../project-other"), Err("is outside the working folder")),
            ("env", &[], Some("out"), Err("the folder `out` is outside the working folder")),
            ("env", &[], Some("/"), Err("the folder `/` is outside the working folder")),
            ("env", &[], Some("none"), Err("there is no working folder `none`")),
            ("env", &[], Some("file"), Err("there is no working folder `file`")),
            ("env", &[], Some("a\0b"), Err("there is no working folder `a\\0b`")),
        ] {
            let job = programs.job(name, ProgramRequest { folder: folder.map(str::to_owned), ..wish(args) });
            match (job, says) {
                (Ok(job), Ok(below)) => assert_eq!(job.folder, root.join(below).canonicalize().unwrap()),
                (Err(fault), Err(says)) => assert!(fault.to_string().contains(says), "{name} {args:?}: {fault}"),
                (job, _) => panic!("{name} {args:?} {folder:?}: {job:?}"),
            }
        }
        let times = [(None, 5), (Some(2), 2), (Some(60), 5)];
        for (time, lasts) in times {
            let job = programs.job("env", ProgramRequest { time: time.map(Duration::from_secs), ..wish(&[]) }).unwrap();
            assert_eq!(job.time, Duration::from_secs(lasts));
        }
        let none = programs.job("env", ProgramRequest { time: Some(Duration::ZERO), ..wish(&[]) });
        assert!(matches!(none, Err(Fault::Invalid { .. })), "{none:?}");
        let fewer = programs.only(|name| name == "env");
        assert!(fewer.job("say", wish(&["hello", "x"])).is_err() && fewer.job("env", wish(&[])).is_ok());
        assert!(programs.only(|_| false).is_empty());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn program_runs_with_exactly_its_configuration() {
        let (_world, programs) = world();
        let ended = programs.run("env", wish(&[])).await.unwrap();
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), "ONLY=this\n");
        let ended = programs.run("say", wish(&["hello", "$HOME `id` ; x"])).await.unwrap();
        assert_eq!(String::from_utf8(ended.stdout).unwrap(), "hello $HOME `id` ; x\n");
    }
}
