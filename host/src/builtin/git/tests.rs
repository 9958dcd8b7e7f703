//! Tests with real repositories, some of which try to run programs.

mod bounds;

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, process::Command};

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::*;
use crate::{
    approval::{HeadlessPolicy, InboxQuestion, QuestionKind, TrustedSubjects},
    chat::ToolCall,
    event::{Event, EventSink},
    process::{ExecContext, ProgramFinder},
};

/// A project with a repository that has one commit, and the home of a person with a configured name.
struct World {
    folder: tempfile::TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir_all(world.project()).unwrap();
        fs::create_dir_all(world.path("home")).unwrap();
        fs::write(world.path("home/.gitconfig"), "[user]\n\tname = Ada\n\temail = ada@example.com\n").unwrap();
        world.plain(&["init", "--quiet", "--initial-branch=main"]);
        world.write("a.txt", "one\n");
        world.plain(&["add", "."]);
        world.plain(&["commit", "--quiet", "--message=The first"]);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(name)
    }

    fn project(&self) -> PathBuf {
        self.path("project")
    }

    fn write(&self, name: &str, text: &str) {
        fs::create_dir_all(self.project().join(name).parent().unwrap()).unwrap();
        fs::write(self.project().join(name), text).unwrap();
    }

    /// Returns a program that leaves a trace, and acts as a filter or a text conversion.
    fn evil(&self) -> String {
        let (script, mark) = (self.path("evil.sh"), self.path("mark"));
        fs::write(&script, format!("#!/bin/sh\ntouch '{}'\ncat \"$@\" 2>/dev/null\nexit 0\n", mark.display())).unwrap();
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        script.display().to_string()
    }

    fn is_marked(&self) -> bool {
        self.path("mark").exists()
    }

    /// Runs git without any protection.
    fn plain(&self, words: &[&str]) -> String {
        let mut git = Command::new("git");
        git.args(words).current_dir(self.project()).env_clear();
        git.env("PATH", "/usr/bin:/bin").env("HOME", self.path("home")).env("GIT_PAGER_IN_USE", "1");
        let output = git.output().expect("these tests need the program git");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Replaces the repository by a file.
    fn instead(&self, text: &str) {
        fs::remove_dir_all(self.project().join(".git")).unwrap();
        self.write(".git", text);
    }

    fn tools(&self, broker: &ApprovalBroker) -> ToolBox {
        self.tools_in(broker, self.project())
    }

    fn tools_in(&self, broker: &ApprovalBroker, root: PathBuf) -> ToolBox {
        git_tools(broker.clone(), GitRepository::new(ExecContext { root, ..self.ground("/usr/bin:/bin") }))
    }

    /// Returns the execution context of the project, with programs of these folders.
    fn ground(&self, path: &str) -> ExecContext {
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let home = self.path("home").display().to_string();
        ExecContext {
            finder: ProgramFinder::new(path),
            root: self.project(),
            environment: vec![variable("PATH", path), variable("HOME", &home)],
            ..ExecContext::default()
        }
    }
}

async fn call_in(run: RunCx, tools: &ToolBox, name: &str, arguments: Value) -> (bool, String) {
    let cx = ToolCx::new(run);
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    let result = tools.dispatch(&cx, &call).await.result;
    (result.is_error, result.text())
}

async fn call(tools: &ToolBox, name: &str, arguments: Value) -> (bool, String) {
    call_in(RunCx::new("ada"), tools, name, arguments).await
}

fn everybody_says_yes() -> ApprovalBroker {
    ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default())
}

#[tokio::test]
async fn git_tools_cover_a_typical_workflow() {
    let world = World::new();
    let tools = world.tools(&everybody_says_yes());
    world.write("a.txt", "one\ntwo\n");
    world.write("-n", "a name like an option\n");
    world.write("ä b.txt", "new\n");
    world.write(":(top)x", "a name like a pattern\n");
    for (name, arguments, says) in [
        ("git_status", json!({"short": true}), "## main\n M a.txt\n?? -n\n"),
        ("git_status", json!({"short": null}), "On branch main"),
        ("git_diff", json!({}), "+two"),
        ("git_diff", json!({"path": "a.txt"}), "+two"),
        ("git_diff", json!({"path": "nowhere"}), "[no output]"),
        ("git_add", json!({"paths": ["-n", "ä b.txt", ":(top)x"]}), "[no output]"),
        ("git_diff", json!({"staged": true}), "a name like an option"),
        ("git_commit", json!({"message": "Adds\n\nthree files"}), "3 files changed"),
        ("git_log", json!({}), "Ada: Adds"),
        ("git_log", json!({"count": 1, "format": "medium", "path": "ä b.txt"}), "    three files"),
        ("git_log", json!({"count": 1, "format": "full"}), "Commit: Ada <ada@example.com>"),
        ("git_show", json!({}), "+a name like a pattern"),
        ("git_show", json!({"revision": "HEAD~1:a.txt"}), "one"),
        ("git_branch", json!({"action": "create", "name": "feature/x"}), "[no output]"),
        ("git_branch", json!({"action": "switch", "name": "feature/x"}), "Switched to branch 'feature/x'"),
        ("git_branch", json!({}), "* feature/x"),
        ("git_commit", json!({"message": "All", "all": true}), "1 file changed"),
    ] {
        let (is_error, text) = call(&tools, name, arguments.clone()).await;
        assert!(!is_error && text.contains(says), "{name} {arguments}: {text}");
    }
    // Of staged and unstaged files, only these.
    world.write("staged", "1");
    world.write("named", "2");
    world.plain(&["add", "staged"]);
    let committed = call(&tools, "git_commit", json!({"message": "Named", "files": ["named"]})).await;
    assert!(!committed.0 && committed.1.contains("1 file changed"), "{committed:?}");
    assert_eq!(world.plain(&["status", "--short"]), "A  staged\n");
    world.plain(&["reset", "--quiet"]);
    fs::remove_file(world.project().join("staged")).unwrap();
    for (name, arguments, says) in [
        ("git_commit", json!({"message": "None"}), "nothing to commit"),
        ("git_commit", json!({"message": "Two", "files": ["a.txt"], "all": true}), "omit one of them"),
        ("git_branch", json!({"action": "switch", "name": "none"}), "[exit status 128]"),
        ("git_branch", json!({"action": "create"}), "`name` is missing: name the branch"),
        ("git_show", json!({"revision": "none"}), "[exit status 128]"),
    ] {
        let (is_error, text) = call(&tools, name, arguments.clone()).await;
        assert!(is_error && text.contains(says), "{name} {arguments}: {text}");
    }
}

#[tokio::test]
async fn git_arguments_are_never_options_or_outside_paths() {
    let world = World::new();
    let tools = world.tools(&everybody_says_yes());
    fs::write(world.path("outside"), "secret").unwrap();
    let many: Vec<_> = (0..=limits::GIT_PATHS).map(|at| at.to_string()).collect();
    let long = "x".repeat(limits::GIT_NAME_BYTES + 1);
    for path in ["../outside", "/etc/passwd", "sub/../../outside", "a\0b", ".."] {
        for (name, arguments) in [
            ("git_diff", json!({"path": path})),
            ("git_log", json!({"path": path})),
            ("git_show", json!({"path": path})),
            ("git_add", json!({"paths": ["a.txt", path]})),
            ("git_commit", json!({"message": "m", "files": [path]})),
        ] {
            let (is_error, text) = call(&tools, name, arguments).await;
            assert!(is_error && text.contains("is not a valid path"), "{name} {path:?}: {text}");
        }
    }
    for revision in ["--output=made", "-p", "", " ", ":/first", "main..HEAD", "^main", "main;x", "a\nb", "$(x)", &long]
    {
        let (is_error, text) = call(&tools, "git_show", json!({"revision": revision})).await;
        assert!(is_error && text.contains("is not a valid revision"), "{revision}: {text}");
    }
    for branch in ["-D", "--force", "-", "a..b", "a b", "/x", ".x", "a\nb", "@{-1}", "x~1", &long] {
        for action in ["create", "switch"] {
            let (is_error, text) = call(&tools, "git_branch", json!({"action": action, "name": branch})).await;
            assert!(is_error && text.contains("is not a valid branch name"), "{branch}: {text}");
        }
    }
    for (name, arguments, says) in [
        ("git_commit", json!({"message": "--amend"}), "the message begins with `-`"),
        ("git_commit", json!({"message": " \n"}), "the message is empty"),
        ("git_commit", json!({"message": "x".repeat(limits::COMMAND_SHOWN_CHARS + 1)}), "at most 2400 are allowed"),
        ("git_add", json!({"paths": []}), "name 1 to 256 files or folders"),
        ("git_add", json!({"paths": many}), "name 1 to 256 files or folders"),
        ("git_add", json!({"paths": [":(top)*"]}), "did not match any files"),
        ("git_add", json!({"paths": ["*"]}), "did not match any files"),
        ("git_log", json!({"format": "%(trailers)"}), "the arguments do not match the schema"),
        ("git_branch", json!({"action": "delete", "name": "main"}), "the arguments do not match the schema"),
    ] {
        let (is_error, text) = call(&tools, name, arguments).await;
        assert!(is_error && text.contains(says), "{name} {says}: {text}");
    }
    assert_eq!(world.plain(&["log", "--format=%s"]), "The first\n");
    assert_eq!(fs::read_dir(world.project()).unwrap().count(), 2, "nothing was made");
}

/// Its name, settings of the repository, and a git command that runs a program because of them.
type Attack = (&'static str, Vec<(&'static str, String)>, &'static [&'static str]);

/// Returns configurations that run programs, each with a command that does so without protection.
fn attacks(evil: &str) -> Vec<Attack> {
    let evil = || evil.to_owned();
    let shell = format!("!{}", evil());
    vec![
        ("hooks", vec![], &["commit", "--allow-empty", "--message=x"]),
        ("hooks elsewhere", vec![("core.hooksPath", "hooks".into())], &["commit", "--allow-empty", "--message=x"]),
        ("monitor", vec![("core.fsmonitor", evil())], &["status"]),
        ("external diff", vec![("diff.external", evil())], &["diff"]),
        ("driver", vec![("diff.evil.command", evil())], &["diff"]),
        ("text conversion", vec![("diff.evil.textconv", evil())], &["diff"]),
        ("editor", vec![("core.editor", evil())], &["commit", "--allow-empty"]),
        (
            "signing",
            vec![("commit.gpgSign", "true".into()), ("gpg.program", evil())],
            &["commit", "--allow-empty", "--message=x"],
        ),
        ("alias", vec![("alias.st", shell)], &["st"]),
    ]
}

#[tokio::test]
async fn repository_configuration_runs_no_program() {
    let names = attacks("").len();
    for at in 0..names {
        for guarded in [false, true] {
            let world = World::new();
            let evil = world.evil();
            let (name, settings, runs) = attacks(&evil).swap_remove(at);
            world.write(".gitattributes", "*.txt diff=evil\n");
            world.plain(&["add", "."]);
            world.plain(&["commit", "--quiet", "--message=Attributes"]);
            world.write("a.txt", "changed\n");
            for hook in
                ["pre-commit", "commit-msg", "prepare-commit-msg", "post-commit", "post-checkout", "post-index-change"]
            {
                let folder = match name {
                    "hooks" => ".git/hooks",
                    "hooks elsewhere" => "hooks",
                    _ => break,
                };
                fs::create_dir_all(world.project().join(folder)).unwrap();
                fs::copy(&evil, world.project().join(folder).join(hook)).unwrap();
            }
            // Settings that the others imply need no test of their own.
            let always =
                [("core.pager", evil.clone()), ("pager.log", evil.clone()), ("log.showSignature", "true".into())];
            for (key, value) in settings.iter().chain(&always) {
                world.plain(&["config", key, value]);
            }
            fs::remove_file(world.path("mark")).ok();
            if !guarded {
                world.plain(runs);
                assert!(world.is_marked(), "{name}: it would not be run anyway");
                continue;
            }
            let tools = world.tools(&everybody_says_yes());
            everything(&tools).await;
            assert!(!world.is_marked(), "{name}");
            assert_eq!(
                world.plain(&["--no-pager", "-c", "log.showSignature=false", "log", "-1", "--format=%s"]),
                "m\n",
                "{name}"
            );
        }
    }
}

/// Calls every tool.
async fn everything(tools: &ToolBox) {
    for (name, arguments) in [
        ("git_status", json!({})),
        ("git_diff", json!({})),
        ("git_add", json!({"paths": ["a.txt"]})),
        ("git_diff", json!({"staged": true})),
        ("git_log", json!({"format": "full"})),
        ("git_show", json!({})),
        ("git_show", json!({"revision": "HEAD:a.txt"})),
        ("git_commit", json!({"message": "m"})),
        ("git_branch", json!({"action": "create", "name": "b"})),
        ("git_branch", json!({"action": "switch", "name": "b"})),
    ] {
        let (is_error, text) = call(tools, name, arguments).await;
        assert!(!is_error, "{name}: {text}");
    }
}

#[tokio::test]
async fn git_filters_are_not_run_and_filtered_writes_are_refused() {
    for via_include in [false, true] {
        for kind in ["clean", "process", "smudge"] {
            let world = World::new();
            let evil = world.evil();
            world.write(".gitattributes", "*.txt filter=e.vil\n");
            world.plain(&["add", "."]);
            world.plain(&["commit", "--quiet", "--message=Attributes"]);
            let key = format!("filter.e.vil.{kind}");
            if via_include {
                world.write("config", &format!("[filter \"e.vil\"]\n\t{kind} = {evil}\n\trequired = true\n"));
                world.plain(&["config", "include.path", "../config"]);
            } else {
                world.plain(&["config", &key, &evil]);
                world.plain(&["config", "filter.e.vil.required", "true"]);
            }
            world.write("a.txt", "changed\n");
            let tools = world.tools(&everybody_says_yes());
            for (name, arguments) in
                [("git_status", json!({})), ("git_diff", json!({})), ("git_log", json!({})), ("git_show", json!({}))]
            {
                let (is_error, text) = call(&tools, name, arguments).await;
                assert!(!is_error, "{name}: {text}");
            }
            assert!(call(&tools, "git_diff", json!({})).await.1.contains("+changed"));
            for (name, arguments) in [
                ("git_add", json!({"paths": ["a.txt"]})),
                ("git_commit", json!({"message": "m", "all": true})),
                ("git_branch", json!({"action": "create", "name": "b"})),
                ("git_branch", json!({"action": "switch", "name": "main"})),
            ] {
                let (is_error, text) = call(&tools, name, arguments).await;
                assert!(
                    is_error && text.contains("has the filter `e.vil`, which the host does not run"),
                    "{name}: {text}"
                );
            }
            assert!(!world.is_marked(), "{kind} {via_include}");
            world.plain(if kind == "smudge" { &["checkout", "--", "a.txt"] } else { &["diff"] });
            assert!(world.is_marked(), "{kind} {via_include}: it would not be run anyway");
        }
    }
}

#[tokio::test]
async fn git_obeys_the_persons_own_configuration() {
    let world = World::new();
    let evil = world.evil();
    let own = format!("[user]\n\tname = Ada\n\temail = a@example.com\n[filter \"own\"]\n\tclean = {evil}\n");
    fs::write(world.path("home/.gitconfig"), own).unwrap();
    world.write(".gitattributes", "*.txt filter=own\n");
    world.write("a.txt", "changed\n");
    let tools = world.tools(&everybody_says_yes());
    let (is_error, text) = call(&tools, "git_add", json!({"paths": ["a.txt"]})).await;
    assert!(!is_error && world.is_marked(), "{text}");
}

#[tokio::test]
async fn git_config_cannot_redirect_the_worktree_or_use_network() {
    let world = World::new();
    let tools = world.tools(&everybody_says_yes());
    let elsewhere = world.path("home").display().to_string();
    world.plain(&["config", "core.worktree", &elsewhere]);
    let (is_error, text) = call(&tools, "git_diff", json!({})).await;
    assert!(is_error && text.contains("so git is not run: the folder has no `.git`"), "{text}");
    world.plain(&["config", "--unset", "core.worktree"]);
    // The program in the remote's address would fetch the missing object.
    let evil = world.evil();
    // This one ends by itself: git would wait for its answer.
    let remote = format!("ext::{evil} /dev/null");
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.url", &remote),
        ("remote.origin.promisor", "true"),
        ("remote.origin.uploadpack", &evil),
        ("protocol.ext.allow", "always"),
        ("core.sshCommand", &evil),
    ] {
        world.plain(&["config", key, value]);
    }
    let missing = "1".repeat(40);
    let (is_error, text) = call(&tools, "git_show", json!({"revision": missing})).await;
    assert!(is_error && !world.is_marked(), "{text}");
    world.plain(&["show", &missing]);
    assert!(world.is_marked(), "it would not be run anyway");
    // A folder without a repository.
    fs::remove_dir_all(world.project().join(".git")).unwrap();
    let (is_error, text) = call(&tools, "git_status", json!({})).await;
    assert!(is_error && text.contains("git cannot be used here: fatal: not a git repository"), "{text}");
}

#[tokio::test]
async fn submodule_is_not_queried() {
    let world = World::new();
    let evil = world.evil();
    let inner = world.project().join("inner");
    fs::create_dir(&inner).unwrap();
    world.plain(&["-C", "inner", "init", "--quiet"]);
    world.plain(&["-C", "inner", "commit", "--quiet", "--allow-empty", "--message=x"]);
    world.write(".gitmodules", "[submodule \"inner\"]\n\tpath = inner\n\turl = ./inner\n");
    world.plain(&["add", "."]);
    world.plain(&["commit", "--quiet", "--message=With one"]);
    world.plain(&["config", "submodule.inner.url", "./inner"]);
    world.plain(&["-C", "inner", "config", "core.fsmonitor", &evil]);
    fs::write(inner.join("new"), "").unwrap();
    world.write("a.txt", "changed\n");
    fs::remove_file(world.path("mark")).ok();
    everything(&world.tools(&everybody_says_yes())).await;
    assert!(!world.is_marked());
    world.plain(&["status"]);
    assert!(world.is_marked(), "it would not be run anyway");
}

fn asked(question: &InboxQuestion) -> (String, String) {
    let QuestionKind::Permission { subject, detail } = &question.question.kind else { panic!("{question:?}") };
    (subject.to_string(), detail.clone())
}

#[tokio::test]
async fn git_read_consent_is_asked_once_and_write_consent_each_time() {
    let world = World::new();
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let tools = world.tools(&broker);
    let refused = call(&tools, "git_status", json!({})).await;
    assert!(refused.0 && refused.1.contains("a call of `git_status` needs a person's consent"), "{refused:?}");
    let mut inbox = broker.attend().unwrap();
    let reading = ["git_status", "git_log", "git_diff", "git_show", "git_branch"];
    let (events, mut told) = EventSink::channel();
    let cx = RunCx::new("ada").with_events(events);
    let readers = || join_all(reading.iter().map(|name| call_in(cx.clone(), &tools, name, json!({}))));
    // One question, one answer, for all waiting calls.
    for verdict in [Verdict::No, Verdict::Yes] {
        let person = async {
            let question = inbox.next().await.unwrap();
            let (subject, detail) = asked(&question);
            assert_eq!(subject, "read the project's repository with `git`");
            let (files, repository) = (world.project(), world.project().join(".git"));
            let places = format!("Folder: {}. Repository: {}.", files.display(), repository.display());
            assert!(detail.ends_with(&places), "{detail}");
            for _ in reading {
                while !matches!(told.next_event().await, Some(Event::QuestionAsked { .. })) {}
            }
            inbox.decide(question.id, verdict).unwrap();
        };
        let (answers, ()) = tokio::join!(readers(), person);
        assert!(answers.iter().all(|(is_error, _)| *is_error == (verdict == Verdict::No)), "{verdict:?} {answers:?}");
    }
    assert!(readers().await.iter().all(|(is_error, _)| !is_error), "nobody is asked again");
    // The question shows the change.
    world.write("a.txt", "changed\n");
    let commits = || call(&tools, "git_commit", json!({"message": "Why\n\nbecause", "all": true}));
    for (verdict, subjects) in [(Verdict::No, "The first\n"), (Verdict::Yes, "Why\nThe first\n")] {
        let person = async {
            let question = inbox.next().await.unwrap();
            let (subject, detail) = asked(&question);
            assert_eq!(subject, "run the program `git`");
            assert!(detail.starts_with("git commit, with these files:\n M a.txt\nFolder: "), "{detail}");
            assert!(detail.ends_with("/.git.\nMessage:\nWhy\n\nbecause"), "{detail}");
            inbox.decide(question.id, verdict).unwrap();
        };
        let (committed, ()) = tokio::join!(commits(), person);
        assert_eq!((committed.0, world.plain(&["log", "--format=%s"]).as_str()), (verdict == Verdict::No, subjects));
    }
    let person = async {
        let question = inbox.next().await.unwrap();
        assert!(asked(&question).1.starts_with("git branch --no-track -- b\n"), "{question:?}");
        inbox.decide(question.id, Verdict::Trust).unwrap();
    };
    let (made, ()) = tokio::join!(call(&tools, "git_branch", json!({"action": "create", "name": "b"})), person);
    assert!(!made.0, "{made:?}");
    // A person who trusts the program is not asked again in any run.
    world.write("a.txt", "again\n");
    assert!(
        !commits().await.0 && !call_in(RunCx::new("ada").with_run("other"), &tools, "git_status", json!({})).await.0
    );
}

#[test]
fn git_path_must_be_below_the_project() {
    for fine in ["a", "a/b", "./a", "a b", "-x", ":(glob)*", "..a"] {
        assert_eq!(checked_path(fine), Ok(fine));
    }
    for wrong in ["", "/", "/a", "..", "a/..", "a/../b", "a\0"] {
        assert!(checked_path(wrong).is_err(), "{wrong:?}");
    }
}

mod others;
