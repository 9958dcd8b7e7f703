//! Programs that agents and plugins may run, and the working directory of git.

use std::{path::PathBuf, time::Duration};

use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::Deserialize;

use super::values::SetDuration;
use crate::{
    error::{ErrorKind, Report},
    limits,
    process::ArgsPattern,
};

/// A program, and the arguments with which it may be run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProgramConfig {
    /// A name that is looked up in `PATH`, or a path; a relative path is below the config's root. `None`: the name of the
    /// entry.
    pub command: Option<String>,
    /// Argument patterns, each a list of words in which `*`, `?` and a last `**` stand for any text. If the key is left out,
    /// the program may be run only without arguments.
    #[serde(default = "no_arguments")]
    pub args: Vec<Vec<String>>,
    /// The working directory; a relative path is below the config's root. `None`: the root.
    pub cwd: Option<PathBuf>,
    /// Environment variables of the program.
    #[serde(default)]
    pub env: IndexMap<String, String>,
    /// Variables that the program inherits from the host's environment; it gets no others.
    #[serde(default)]
    pub inherit_env: Vec<String>,
    /// The longest time that one run of the program may take.
    #[serde(default = "usual_time", with = "SetDuration")]
    pub timeout: Duration,
}

/// Settings of the toolbox `git`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GitConfig {
    /// The working directory; a relative path is below the config's root, and the empty path is the root itself.
    pub work_dir: PathBuf,
}

fn no_arguments() -> Vec<Vec<String>> {
    vec![Vec::new()]
}

fn usual_time() -> Duration {
    limits::PROCESS_TIME
}

/// The name in a grant that stands for every program.
pub const ANY_PROGRAM: &str = "*";

/// The name in a grant of the program of the toolbox `git`, whether or not `programs` has an entry of that name.
pub const GIT_PROGRAM: &str = "git";

impl ProgramConfig {
    /// Returns the argument patterns. One that cannot be parsed is left out; a checked config has none.
    pub fn patterns(&self) -> Vec<ArgsPattern> {
        self.args.iter().filter_map(|words| ArgsPattern::new(words).ok()).collect()
    }

    /// Checks what serde cannot express.
    pub(super) fn check(&self, name: &str) -> Result<(), Report> {
        let usage = |what: String| Err(Report::new(ErrorKind::Usage, what));
        let at = format!("programs.{}", name.escape_debug());
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._+-".contains(c);
        let most = limits::PROGRAM_NAME_BYTES;
        if !(1..=most).contains(&name.len()) || !name.chars().all(is_plain) || name.starts_with(['-', '.']) {
            return usage(format!(
                "{at}: the name must be 1 to {most} characters of a-z, A-Z, 0-9, `.`, `_`, `+` and `-`, not beginning with `-` or `.`"
            ));
        }
        if self.command.as_deref().is_some_and(|command| command.trim().is_empty() || command.contains('\0')) {
            return usage(format!("{at}.command: is empty or has a NUL; name the program"));
        }
        let most = limits::PROGRAM_LISTS;
        if self.args.len().max(self.env.len()).max(self.inherit_env.len()) > most {
            return usage(format!("{at}: `args`, `env` and `inherit_env` must have at most {most} entries each"));
        }
        for words in &self.args {
            if words.len() > limits::PROGRAM_WORDS {
                return usage(format!("{at}.args: a list must have at most {} words", limits::PROGRAM_WORDS));
            }
            ArgsPattern::new(words).or_else(|error| usage(format!("{at}.args: {error}")).map(|()| unreachable!()))?;
        }
        let names =
            self.env.keys().map(|name| ("env", name)).chain(self.inherit_env.iter().map(|name| ("inherit_env", name)));
        for (key, name) in names {
            if name.is_empty() || name.contains(['=', '\0']) {
                return usage(format!(
                    "{at}.{key}: `{}` is not the name of an environment variable",
                    name.escape_debug()
                ));
            }
        }
        if let Some(name) = self.env.iter().find(|(_, value)| value.contains('\0')).map(|(name, _)| name) {
            return usage(format!("{at}.env.{name}: the value must not contain a NUL"));
        }
        if let Some((name, _)) = self.env.iter().find(|(_, value)| value.contains("${")) {
            let report = Report::new(ErrorKind::Usage, format!("{at}.env.{name}: `${{…}}` is not replaced here"));
            return Err(report.hint(format!("pass on your own variable with `inherit_env: [{name}]`")));
        }
        if self.timeout > limits::PROCESS_TIME_CEILING {
            let most = humantime::format_duration(limits::PROCESS_TIME_CEILING);
            return usage(format!("{at}.timeout: must be at most {most}"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, HostToolbox, ToolboxUse};

    fn parse(text: &str) -> Result<Config, Report> {
        Config::parse(text, "/project".into())
    }

    #[test]
    fn programs_are_read() {
        let config = parse(
            "programs:\n\
             \x20 cargo: {args: [[test, '**'], [build]], cwd: sub, env: {TERM: dumb}, inherit_env: [PATH, HOME], timeout: 5m}\n\
             \x20 fmt: {command: ./tools/fmt}\n\
             git: {work_dir: sub}\n\
             agents: [{name: a, toolboxes: [exec, {name: git, tools: [git_status]}]},\n\
             \x20 {name: b, toolboxes: [{name: exec, programs: [cargo]}], use: {programs: ['*']}, delegable: {grant: {programs: [fmt, git]}}}]",
        )
        .unwrap_or_else(|report| panic!("{report:?}"));
        let cargo = &config.programs["cargo"];
        let patterns: Vec<_> = cargo.patterns().iter().map(ToString::to_string).collect();
        assert_eq!(patterns, [r#"["test", "**"]"#, r#"["build"]"#]);
        assert_eq!((cargo.timeout, cargo.cwd.clone()), (Duration::from_secs(300), Some("sub".into())));
        assert_eq!((cargo.env["TERM"].as_str(), cargo.inherit_env.len()), ("dumb", 2));
        let fmt = &config.programs["fmt"];
        assert_eq!((fmt.command.as_deref(), fmt.timeout), (Some("./tools/fmt"), limits::PROCESS_TIME));
        assert!(fmt.patterns()[0].fits(&[]) && !fmt.patterns()[0].fits(&["x".into()]), "it has no arguments");
        assert_eq!(config.git.work_dir, PathBuf::from("sub"));
        let ToolboxUse::Own(exec) = &config.agents[1].toolboxes[0] else { panic!() };
        assert_eq!((exec.name, exec.programs.as_deref()), (HostToolbox::Exec, Some(&["cargo".to_owned()][..])));
        let granted = config.agents[1].ceiling.as_ref().unwrap().grant(|path| path.into());
        assert!(granted.programs.contains("anything"));
    }

    #[test]
    fn invalid_program_is_refused_with_reason() {
        let many = vec!["[a]"; limits::PROGRAM_LISTS + 1].join(", ");
        let words = vec!["a"; limits::PROGRAM_WORDS + 1].join(", ");
        let programs: Vec<_> = (0..=limits::PROGRAMS).map(|at| format!("p{at}: {{}}")).collect();
        for (text, says) in [
            ("programs: {'a b': {}}".to_owned(), "programs.a b: the name must be 1 to 64 characters of"),
            ("programs: {'-x': {}}".into(), "programs.-x: the name must be"),
            (format!("programs: {{{}: {{}}}}", "x".repeat(65)), "the name must be"),
            ("programs: {a: {command: ' '}}".into(), "programs.a.command: is empty"),
            ("programs: {a: {args: [['**', x]]}}".into(), "programs.a.args: `**` matches all further arguments"),
            ("programs: {a: {args: [['x\\']]}}".into(), "programs.a.args: `x\\` ends with"),
            (format!("programs: {{a: {{args: [{many}]}}}}"), "have at most 64 entries each"),
            (format!("programs: {{a: {{args: [[{words}]]}}}}"), "a list must have at most 64 words"),
            (format!("programs: {{{}}}", programs.join(", ")), "programs: must have at most 256 entries"),
            (
                "programs: {a: {env: {'A=B': c}}}".into(),
                "programs.a.env: `A=B` is not the name of an environment variable",
            ),
            ("programs: {a: {env: {T: '${T}'}}}".into(), "programs.a.env.T: `${…}` is not replaced here"),
            (
                "programs: {a: {inherit_env: ['']}}".into(),
                "programs.a.inherit_env: `` is not the name of an environment variable",
            ),
            ("programs: {a: {timeout: 2h}}".into(), "programs.a.timeout: must be at most 1h"),
            ("programs: {a: {timeout: 0s}}".into(), "must be more than 0"),
            ("programs: {a: {arg: []}}".into(), "there is no key `arg`"),
            ("git: {dir: x}".into(), "there is no key `dir`"),
            (
                "programs: {fmt: {}}\nagents: [{name: a, toolboxes: [{name: exec, programs: [fnt]}]}]".into(),
                "there is no program `fnt`",
            ),
            (
                "agents: [{name: a, toolboxes: [{name: git, programs: [x]}]}]".into(),
                "`programs` is not valid for `git`",
            ),
            ("agents: [{name: a, toolboxes: [exec, exec]}]".into(), "agents.a.toolboxes: `exec` appears twice"),
            ("agents: [{name: a, use: {programs: [x]}}]".into(), "there is no program `x`"),
            ("agents: [{name: a, delegable: {grant: {programs: [x]}}}]".into(), "there is no program `x`"),
            ("agents: [{name: a, plugins: {p: {programs: [x]}}}]".into(), "there is no program `x`"),
            ("agents: [{name: a, plugins: {p: {programs: ['*']}}}]".into(), "there is no program `*`"),
        ] {
            let report = parse(&text).unwrap_err();
            let said = report.to_string() + &report.causes.concat();
            assert!(said.contains(says), "{text}\n{report:?}");
        }
    }
}
