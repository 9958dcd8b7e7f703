//! Bounds of the git tools: commits, shown text, remembered runs, time.

use std::{io::Write, process::Stdio};

use super::*;

#[tokio::test]
async fn git_log_limits_the_commits() {
    let world = World::new();
    let mut import = Command::new("git");
    import.args(["fast-import", "--quiet"]).current_dir(world.project()).env_clear().env("PATH", "/usr/bin:/bin");
    let mut child = import.stdin(Stdio::piped()).spawn().unwrap();
    let commit = |at: u32| {
        let from = if at == 0 { "from refs/heads/main^0\n" } else { "" };
        format!("commit refs/heads/main\ncommitter Ada <a@example.com> {at} +0000\ndata 2\nc\n{from}\n")
    };
    let commits: String = (0..limits::GIT_COMMITS + 5).map(commit).collect();
    child.stdin.take().unwrap().write_all(commits.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success());
    let tools = world.tools(&everybody_says_yes());
    for (count, shown) in [(3, 3), (limits::GIT_COMMITS, limits::GIT_COMMITS), (u32::MAX, limits::GIT_COMMITS)] {
        let (is_error, text) = call(&tools, "git_log", json!({ "count": count })).await;
        assert_eq!((is_error, text.lines().count()), (false, shown as usize), "{text:.200}");
    }
}

#[tokio::test]
async fn git_commit_question_shows_the_beginning_of_a_long_list() {
    let world = World::new();
    (0..300).for_each(|at| world.write(&format!("file-{at:03}"), "new\n"));
    world.plain(&["add", "."]);
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let tools = world.tools(&broker);
    let mut inbox = broker.attend().unwrap();
    let person = async {
        let question = inbox.next().await.unwrap();
        let detail = asked(&question).1;
        let list = detail.split("git commit, with these files:\n").nth(1).unwrap();
        assert!(list.starts_with("A\tfile-000\nA\tfile-001\n") && !list.contains("file-299"), "{detail}");
        // The location of the repository follows.
        let list = list.split("\nFolder: ").next().unwrap();
        assert!(list.chars().count() <= limits::GIT_LIST_SHOWN_CHARS + 1, "{list}");
        inbox.decide(question.id, Verdict::Yes).unwrap();
    };
    let (committed, ()) = tokio::join!(call(&tools, "git_commit", json!({"message": "All of them"})), person);
    assert!(!committed.0 && committed.1.contains("300 files changed"), "{committed:?}");
}

#[tokio::test]
async fn git_read_permissions_are_remembered_up_to_a_limit() {
    let world = World::new();
    let repository = GitRepository::new(world.ground("/usr/bin:/bin"));
    let git =
        GitContext { broker: everybody_says_yes(), repository, read_in: Arc::default(), changing: Arc::default() };
    for at in 0..=limits::GIT_RUNS {
        git.may_read(&RunCx::new("ada").with_run(at.to_string()), "git_status").await.unwrap();
        let remembered = if at == limits::GIT_RUNS { 1 } else { at + 1 };
        assert_eq!(git.read_in().len(), remembered);
    }
}

#[tokio::test]
async fn a_command_that_does_not_end_is_ended() {
    let world = World::new();
    let (programs, mark) = (world.path("programs"), world.path("begun"));
    fs::create_dir(&programs).unwrap();
    let script = format!(
        "#!/bin/sh\nfor last; do :; done\n\
         case \"$last\" in --ignore-submodules=dirty) touch '{}'; exec sleep 1000;; esac\n\
         PATH=/usr/bin:/bin exec git \"$@\"\n",
        mark.display()
    );
    fs::write(programs.join("git"), script).unwrap();
    fs::set_permissions(programs.join("git"), fs::Permissions::from_mode(0o755)).unwrap();
    let ground = world.ground(&format!("{}:/usr/bin:/bin", programs.display()));
    let tools = git_tools(everybody_says_yes(), GitRepository::new(ground));
    // Preparation takes real time; from then on the test controls time.
    let clock = async {
        while !mark.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        tokio::time::pause();
    };
    let ((is_error, text), ()) = tokio::join!(call(&tools, "git_status", json!({})), clock);
    assert!(is_error && text.contains("[killed after 60 seconds]"), "{text}");
}
