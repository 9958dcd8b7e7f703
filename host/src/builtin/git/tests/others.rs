//! Submodules and other repositories of this person: none is read by way of the project's repository.

use super::*;

/// Returns a submodule with two commits, with the first checked out: git shows the difference between them.
fn with_a_change_within(world: &World) {
    world.plain(&["init", "--quiet", "--initial-branch=main", "inner"]);
    for text in ["1\n", "2\n"] {
        world.write("inner/f", text);
        world.plain(&["-C", "inner", "add", "f"]);
        world.plain(&["-C", "inner", "commit", "--quiet", "--message=x"]);
    }
    world.plain(&["add", "inner"]);
    world.plain(&["commit", "--quiet", "--message=With one"]);
    world.plain(&["-C", "inner", "checkout", "--quiet", "HEAD~1"]);
}

#[tokio::test]
async fn git_diff_runs_no_programs_of_a_submodule() {
    for (key, attributes) in [("diff.external", ""), ("diff.evil.textconv", "* diff=evil\n")] {
        let world = World::new();
        let evil = world.evil();
        with_a_change_within(&world);
        world.plain(&["config", "diff.submodule", "diff"]);
        world.plain(&["-C", "inner", "config", key, &evil]);
        world.write("inner/.git/info/attributes", attributes);
        let tools = world.tools(&everybody_says_yes());
        let (is_error, text) = call(&tools, "git_diff", json!({})).await;
        assert!(!is_error && text.contains("+Subproject commit "), "{text}");
        assert!(!call(&tools, "git_show", json!({})).await.0);
        let (is_error, text) = call(&tools, "git_commit", json!({"message": "m", "all": true})).await;
        assert!(!is_error, "{text}");
        assert!(call(&tools, "git_show", json!({})).await.1.contains("+Subproject commit "));
        assert!(!world.is_marked(), "{key}");
        world.plain(&["show"]);
        assert!(world.is_marked(), "{key}: it would not be run anyway");
    }
}

#[tokio::test]
async fn git_add_runs_no_filters_of_a_submodule() {
    let world = World::new();
    let evil = world.evil();
    with_a_change_within(&world);
    world.plain(&["-C", "inner", "checkout", "--quiet", "main"]);
    world.write("inner/.git/info/attributes", "* filter=evil\n");
    world.plain(&["-C", "inner", "config", "filter.evil.clean", &evil]);
    // The content is unchanged, but the new modification time makes git read the file, through the filter.
    fs::File::open(world.project().join("inner/f")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    world.write("a.txt", "changed\n");
    let tools = world.tools(&everybody_says_yes());
    let tried = [
        ("git_add", json!({"paths": ["."]})),
        ("git_add", json!({"paths": ["inner"]})),
        ("git_commit", json!({"message": "m", "files": ["."]})),
    ];
    for (name, arguments) in tried {
        let (is_error, text) = call(&tools, name, arguments.clone()).await;
        assert!(is_error && text.contains("the folder of another repository"), "{name} {arguments}: {text}");
    }
    for (name, arguments) in [
        ("git_add", json!({"paths": ["a.txt"]})),
        ("git_status", json!({})),
        ("git_commit", json!({"message": "m", "all": true})),
    ] {
        let (is_error, text) = call(&tools, name, arguments.clone()).await;
        assert!(!is_error, "{name} {arguments}: {text}");
    }
    assert!(!world.is_marked());
    world.plain(&["add", "."]);
    assert!(world.is_marked(), "it would not be run anyway");
}

#[tokio::test]
async fn git_repository_cannot_point_at_a_private_one() {
    let files = |world: &World| world.path("home/private");
    type Made = fn(&World);
    let elsewhere: [(&str, Made, &str); 6] = [
        (
            "its files",
            |w| drop(w.plain(&["config", "core.worktree", &w.path("home/private").display().to_string()])),
            "the folder's `.git` is another repository",
        ),
        (
            "its commits",
            |w| w.write(".git/commondir", &w.path("home/private/.git").display().to_string()),
            "its data is in ",
        ),
        (
            "all of it",
            |w| w.instead(&format!("gitdir: {}\n", w.path("home/private/.git").display())),
            "does not name the folder",
        ),
        (
            "a link",
            |w| {
                fs::remove_dir_all(w.project().join(".git")).unwrap();
                std::os::unix::fs::symlink(w.path("home/private/.git"), w.project().join(".git")).unwrap();
            },
            "the folder's `.git` is a link",
        ),
        (
            "one that looks like a second folder of it",
            |w| {
                fs::rename(w.project().join(".git"), w.project().join("fake")).unwrap();
                w.write("fake/commondir", &w.path("home/private/.git").display().to_string());
                w.write("fake/gitdir", "../.git\n");
                w.write(".git", "gitdir: fake\n");
            },
            "does not name the folder",
        ),
        (
            "a long way",
            |w| {
                fs::rename(w.project().join(".git"), w.project().join("fake")).unwrap();
                w.plain(&["--git-dir=fake", "config", "core.worktree", ".."]);
                w.write(".git", &format!("gitdir: fake{}", "\n".repeat(limits::GIT_LINK_BYTES as usize)));
                let whole = fs::read(w.project().join(".git")).unwrap();
                assert!(whole.len() as u64 > limits::GIT_LINK_BYTES);
                // Content beyond the limit is not read, and the part before it is a valid link.
            },
            "",
        ),
    ];
    for (name, make, says) in elsewhere {
        let world = World::new();
        let private = files(&world).display().to_string();
        world.plain(&["init", "--quiet", "--initial-branch=main", &private]);
        fs::write(files(&world).join("secret"), "s").unwrap();
        world.plain(&["-C", &private, "add", "."]);
        world.plain(&["-C", &private, "commit", "--quiet", "--message=The secret"]);
        make(&world);
        let tools = world.tools(&everybody_says_yes());
        for tool in ["git_log", "git_status"] {
            let (is_error, text) = call(&tools, tool, json!({})).await;
            assert_eq!(is_error, !says.is_empty(), "{name}: {text}");
            assert!(text.contains(says) && !text.contains("The secret"), "{name}: {text}");
        }
    }
    // A worktree, a repository outside its folder that names the folder, and a submodule are accepted.
    let world = World::new();
    for words in [
        &["worktree", "add", "--quiet", "../second"][..],
        &["init", "--quiet", "--separate-git-dir=../kept", "../beside"],
        &["--git-dir=../kept", "config", "core.worktree", "../beside"],
        &["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../second", "within"],
    ] {
        world.plain(words);
    }
    for folder in ["second", "beside", "project/within"] {
        let tools = world.tools_in(&everybody_says_yes(), world.path(folder));
        let (is_error, text) = call(&tools, "git_status", json!({})).await;
        assert!(!is_error, "{folder}: {text}");
    }
    let unsaid = world.path("unsaid");
    world.plain(&["init", "--quiet", "--separate-git-dir=../other", &unsaid.display().to_string()]);
    let (is_error, text) = call(&world.tools_in(&everybody_says_yes(), unsaid), "git_status", json!({})).await;
    assert!(is_error && text.contains("if they belong together, run: git --git-dir="), "{text}");
}

#[tokio::test]
async fn git_config_changed_during_approval_is_refused() {
    let world = World::new();
    let evil = world.evil();
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let tools = world.tools(&broker);
    let mut inbox = broker.attend().unwrap();
    world.write("a.txt", "changed\n");
    world.write(".git/info/attributes", "*.txt filter=evil\n");
    for (name, arguments, is_refused) in
        [("git_add", json!({"paths": ["a.txt"]}), true), ("git_diff", json!({}), false)]
    {
        world.plain(&["config", "--unset", "filter.evil.clean"]);
        let person = async {
            let question = inbox.next().await.unwrap();
            world.plain(&["config", "filter.evil.clean", &evil]);
            inbox.decide(question.id, Verdict::Yes).unwrap();
        };
        let ((is_error, text), ()) = tokio::join!(call(&tools, name, arguments), person);
        assert_eq!(is_error, is_refused, "{name}: {text}");
        assert!(is_refused == text.contains("changed while the person was asked"), "{name}: {text}");
        assert!(!world.is_marked(), "{name}");
    }
    world.plain(&["add", "."]);
    assert!(world.is_marked(), "it would not be run anyway");
}
