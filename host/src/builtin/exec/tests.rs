use std::{fs, os::unix::fs::PermissionsExt, path::Path};

use super::*;
use crate::{
    approval::{HeadlessPolicy, QuestionKind, TrustedSubjects},
    chat::ToolCall,
    event::RunCx,
    process::{AllowedProgram, ArgsPattern, ProgramFinder},
};

fn ground(root: &Path) -> ExecContext {
    let environment = vec![("PATH".into(), "/usr/bin:/bin".into())];
    ExecContext {
        finder: ProgramFinder::new("/usr/bin:/bin"),
        root: root.into(),
        environment,
        ..ExecContext::default()
    }
}

async fn call(tools: &ToolBox, arguments: serde_json::Value) -> (bool, String) {
    let cx = ToolCx::new(RunCx::new("ada"));
    let call = ToolCall { id: "c".into(), name: EXEC_RUN.into(), arguments: arguments.to_string(), meta: vec![] };
    let result = tools.dispatch(&cx, &call).await.result;
    (result.is_error, result.text())
}

#[tokio::test]
async fn exec_runs_a_program_after_approval() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::write(root.join("own.sh"), "#!/bin/sh\necho own\n").unwrap();
    fs::set_permissions(root.join("own.sh"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(root.join("a b")).unwrap();
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let tools = exec_tools(broker.clone(), ExecPolicy::Asked(ground(&root)));
    let unasked = call(&tools, serde_json::json!({"command": "echo", "args": ["x"]})).await;
    assert!(unasked.0 && unasked.1.contains("needs a person's consent, and no person"), "{unasked:?}");

    let mut inbox = broker.attend().unwrap();
    let shown = root.display();
    let own = format!("run the program `{shown}/own.sh`");
    for (arguments, subject, detail, verdict, result) in [
        (
            serde_json::json!({"command": "echo", "args": ["a b", "; rm -rf ~", "$HOME", "\n[y]es"]}),
            "run the program `echo`",
            format!("echo \"a b\" \"; rm -rf ~\" \"$HOME\" \"\\n[y]es\"\nProgram: /usr/bin/echo. Folder: {shown}. Time limit: 120 seconds."),
            Verdict::Yes,
            (false, "a b ; rm -rf ~ $HOME \n[y]es".to_owned()),
        ),
        (
            serde_json::json!({"command": "cat", "args": null, "cwd": "a b", "stdin": "told", "timeout": 7}),
            "run the program `cat`",
            format!("cat\nProgram: /usr/bin/cat. Folder: \"{shown}/a b\". Time limit: 7 seconds.\nStandard input, 4 bytes:\ntold"),
            Verdict::Yes,
            (false, "told".into()),
        ),
        (
            serde_json::json!({"command": "./own.sh"}),
            &own,
            format!("./own.sh\nProgram: {shown}/./own.sh. Folder: {shown}. Time limit: 120 seconds."),
            Verdict::No,
            (true, "the person declined this call of `exec_run`: do not try to achieve the same in another way; continue without it, or explain why you need it".into()),
        ),
        (
            serde_json::json!({"command": "sh", "args": ["-c", "echo out; echo err >&2; exit 3"], "timeout": 90_000}),
            "run the program `sh`",
            format!("sh -c \"echo out; echo err >&2; exit 3\"\nProgram: /usr/bin/sh. Folder: {shown}. Time limit: 3600 seconds."),
            Verdict::Trust,
            (true, "[exit status 3]\n[standard error]\nerr\nout".into()),
        ),
    ] {
        let person = async {
            let asked = inbox.next().await.unwrap();
            let QuestionKind::Permission { subject: about, detail: told } = &asked.question.kind else { panic!() };
            // Both paths are the same program.
            let told = told.replace("Program: /bin/", "Program: /usr/bin/");
            assert_eq!((about.to_string().as_str(), &told), (subject, &detail));
            inbox.decide(asked.id, verdict).unwrap();
        };
        assert_eq!(tokio::join!(call(&tools, arguments), person).0, result);
    }
    // The program is trusted with any arguments, and no other program is.
    let trusted = serde_json::json!({"command": "sh", "args": ["-c", "exit 0"]});
    assert_eq!(call(&tools, trusted).await, (false, "[no output]".into()));
    assert!(broker.trusts(&PermissionSubject::Program { name: "sh".into() }));
    assert!(!broker.trusts(&PermissionSubject::Program { name: "echo".into() }));
    // A program that cannot be run causes no question.
    let long = "x".repeat(limits::COMMAND_SHOWN_CHARS);
    for (arguments, says) in [
        (serde_json::json!({"command": "no-such-program"}), "there is no program `no-such-program`"),
        (serde_json::json!({"command": "echo x"}), "there is no program `echo x` in PATH"),
        (serde_json::json!({"command": "echo", "cwd": ".."}), "the folder `..` is outside"),
        (serde_json::json!({"command": "echo", "timeout": 0}), "the time limit of the program is 0"),
        (serde_json::json!({"command": "echo", "args": [long]}), "can be shown at most 2400"),
        (serde_json::json!({"command": "echo", "args": "x"}), "the arguments do not match the schema"),
    ] {
        let (is_error, text) = call(&tools, arguments).await;
        assert!(is_error && text.contains(says), "{says}: {text}");
    }
}

#[tokio::test]
async fn exec_question_shows_the_beginning_of_long_input() {
    let folder = tempfile::tempdir().unwrap();
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let tools = exec_tools(broker.clone(), ExecPolicy::Asked(ground(folder.path())));
    let mut inbox = broker.attend().unwrap();
    let most = limits::PROGRAM_STDIN_SHOWN_CHARS;
    for (chars, is_cut) in [(most, false), (most + 1, true), (100 * most, true)] {
        let person = async {
            let asked = inbox.next().await.unwrap();
            let QuestionKind::Permission { detail, .. } = &asked.question.kind else { panic!() };
            let how_much = if is_cut { ", beginning with" } else { "" };
            assert!(detail.contains(&format!("Standard input, {} bytes{how_much}:\né", 2 * chars)), "{detail:.400}");
            assert!((most - 1..=most).contains(&detail.matches('é').count()), "{detail}");
            inbox.decide(asked.id, Verdict::Yes).unwrap();
        };
        let arguments = serde_json::json!({"command": "wc", "args": ["-c"], "stdin": "é".repeat(chars)});
        let (answer, ()) = tokio::join!(call(&tools, arguments), person);
        assert_eq!((answer.0, answer.1.trim()), (false, (2 * chars).to_string().as_str()), "it reads all of it");
    }
}

#[tokio::test]
async fn project_program_is_not_trusted_by_a_trusted_name() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().canonicalize().unwrap();
    fs::create_dir(root.join("bin")).unwrap();
    let program = root.join("bin/echo");
    fs::write(&program, "#!/bin/sh\necho evil\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let finder = ProgramFinder::new(&format!("{}/bin:/usr/bin:/bin", root.display()));
    let trusted = TrustedSubjects::new([PermissionSubject::Program { name: "echo".into() }]).unwrap();
    let broker = ApprovalBroker::new(HeadlessPolicy::Granted, trusted);
    let tools = exec_tools(broker, ExecPolicy::Asked(ExecContext { finder, ..ground(&root) }));
    let (is_error, text) = call(&tools, serde_json::json!({"command": "echo"})).await;
    assert!(is_error && text.contains("needs a person's consent"), "{text}");
}

#[tokio::test]
async fn exec_runs_configured_programs_unasked_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let pattern = ArgsPattern::new(&["hello".to_owned(), "*".to_owned()]).unwrap();
    let entry = AllowedProgram {
        command: "echo".into(),
        args: vec![pattern],
        folder: folder.path().into(),
        environment: vec![],
        time: Duration::from_secs(9),
    };
    let programs = AllowedPrograms::new(ground(folder.path()), [("greet".to_owned(), entry)]);
    // Independent of what was trusted or would be allowed.
    let trusted = TrustedSubjects::new([PermissionSubject::Program { name: "echo".into() }]).unwrap();
    let tools = exec_tools(ApprovalBroker::new(HeadlessPolicy::All, trusted), ExecPolicy::Named(programs));
    let description = &tools.specs()[0].description;
    assert!(description.contains(r#"`greet` with ["hello", "*"], at most 9 seconds"#), "{description}");
    for (command, args, is_error, says) in [
        ("greet", &["hello", "you"][..], false, "hello you"),
        ("greet", &["hello", "-e"], true, "`greet` is not allowed with the arguments `hello -e`"),
        ("greet", &["hello", "you", "too"], true, "allowed arguments: [\"hello\", \"*\"]"),
        ("echo", &["hello", "you"], true, "program `echo` is not allowed; allowed programs: greet"),
        ("/bin/echo", &[], true, "program `/bin/echo` is not allowed"),
        ("../greet", &[], true, "program `../greet` is not allowed"),
    ] {
        let (was_error, text) = call(&tools, serde_json::json!({"command": command, "args": args})).await;
        assert!(was_error == is_error && text.contains(says), "{command} {args:?}: {text}");
    }
}

#[test]
fn exec_result_puts_the_failure_first() {
    let time = Duration::from_secs(5);
    let ended = |exit, stdout: &str, stderr: &str, is_cut| ProcessOutput {
        exit,
        stdout: stdout.into(),
        stderr: stderr.into(),
        is_cut,
    };
    let failed = |text: &str| ToolOutput::Failed(vec![ToolResultContent::Text(text.into())]);
    for (ended, output) in [
        (ended(ProcessExit::Status(0), "a\nb\n\n", "", false), "a\nb".into()),
        (ended(ProcessExit::Status(0), "", "warned\n", false), "[standard error]\nwarned".into()),
        (ended(ProcessExit::Status(0), "a", "warned", false), "a\n[standard error]\nwarned".into()),
        (ended(ProcessExit::Status(0), "a", "", true), "a\n[truncated: the output exceeds 1048576 bytes]".into()),
        (ended(ProcessExit::Status(1), "a", "why", false), failed("[exit status 1]\n[standard error]\nwhy\na")),
        (ended(ProcessExit::Signal(11), "", "", false), failed("[ended by signal 11]")),
        (ended(ProcessExit::Time, "so far", "", false), failed("[killed after 5 seconds]\nso far")),
    ] {
        assert_eq!(tool_output(ended, time), output);
    }
}

#[tokio::test(start_paused = true)]
async fn exec_begins_only_after_approval() {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };
    let folder = tempfile::tempdir().unwrap();
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let mut inbox = broker.attend().unwrap();
    let tools = exec_tools(broker, ExecPolicy::Asked(ground(folder.path())));
    let told = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&told);
    let begin = tool::CallStartHook::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Err(Fault::other("the disk is full")) })
    });
    let cx = ToolCx { begin, ..ToolCx::new(RunCx::new("ada")) };
    let arguments = r#"{"command":"touch","args":["made"]}"#.into();
    let call = ToolCall { id: "c".into(), name: EXEC_RUN.into(), arguments, meta: vec![] };
    let person = async {
        let asked = inbox.next().await.unwrap();
        assert_eq!(told.load(Ordering::Relaxed), 0);
        inbox.decide(asked.id, Verdict::Yes).unwrap();
    };
    let (dispatched, ()) = tokio::join!(tools.dispatch(&cx, &call), person);
    assert_eq!((dispatched.result.text().as_str(), told.load(Ordering::Relaxed)), ("the disk is full", 1));
    assert!(!folder.path().join("made").exists());
}
