//! Tests with real programs, some of which resist being killed.

use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

use futures_util::{FutureExt, future::join_all};

use super::*;

/// Returns a run of a shell, which the host itself never starts.
fn shell(script: &str) -> ProcessSpec {
    ProcessSpec {
        program: "/bin/sh".into(),
        args: vec!["-c".into(), script.into()],
        folder: "/".into(),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        stdin: Vec::new(),
        time: Duration::from_secs(20),
    }
}

async fn run(job: ProcessSpec) -> (ProcessExit, String, String) {
    let ended = ProcessSlots::default().run(job).await.unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended.exit, text(ended.stdout), text(ended.stderr))
}

/// Waits until no process has this word in its command line.
async fn is_gone(word: &str) -> bool {
    let is_there = || {
        let all = fs::read_dir("/proc").unwrap().flatten();
        let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
        lines.into_iter().any(|line| String::from_utf8_lossy(&line).contains(word))
    };
    for _ in 0..500 {
        if !is_there() {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    false
}

/// Returns a word that is unique among processes.
fn word(of: &str) -> String {
    format!("{of}-{}-{:?}", std::process::id(), Instant::now()).replace(|c: char| !c.is_ascii_alphanumeric(), "")
}

#[tokio::test]
async fn process_output_reports_exit_and_streams() {
    let in_tmp = ProcessSpec { folder: "/tmp".into(), ..shell("pwd") };
    let told = ProcessSpec { stdin: b"what it is told".to_vec(), ..shell("cat; echo; cat") };
    let much = ProcessSpec { stdin: vec![b'x'; 300_000], ..shell("wc -c") };
    let deaf = ProcessSpec { stdin: vec![b'x'; 300_000], ..shell("exec 0<&-; echo deaf") };
    let set = ProcessSpec {
        environment: vec![("A".into(), "b c".into())],
        program: "/usr/bin/env".into(),
        args: vec![],
        ..shell("")
    };
    for (job, exit, stdout, stderr) in [
        (shell("echo out; echo err >&2"), ProcessExit::Status(0), "out\n", "err\n"),
        (shell("echo out; exit 7"), ProcessExit::Status(7), "out\n", ""),
        (shell("kill -ABRT $$"), ProcessExit::Signal(6), "", ""),
        (shell("cat"), ProcessExit::Status(0), "", ""),
        (in_tmp, ProcessExit::Status(0), "/tmp\n", ""),
        (told, ProcessExit::Status(0), "what it is told\n", ""),
        (much, ProcessExit::Status(0), "300000\n", ""),
        (deaf, ProcessExit::Status(0), "deaf\n", ""),
        (set, ProcessExit::Status(0), "A=b c\n", ""),
        // It closes its pipes and continues to run.
        (shell("exec >&- 2>&-; sleep 0.1; exit 3"), ProcessExit::Status(3), "", ""),
    ] {
        let shown = format!("{job:?}");
        assert_eq!(run(job).await, (exit, stdout.into(), stderr.into()), "{shown}");
    }
}

#[tokio::test]
async fn process_has_own_session_and_no_inherited_files() {
    let ours = tempfile::NamedTempFile::new().unwrap();
    let open = async || {
        let (exit, out, _) = run(shell("ls -l /proc/self/fd")).await;
        assert!(exit == ProcessExit::Status(0) && !out.contains(&*ours.path().to_string_lossy()), "{out}");
        out.lines().filter(|line| line.contains("pipe:")).count()
    };
    // The parent process of the tests may have left some files open.
    let pipes = open().await;
    // The pipes of another run also count.
    let slots = ProcessSlots::default();
    let mut other = Box::pin(slots.run(shell("sleep 1000")));
    assert!(timeout(Duration::from_millis(100), &mut other).await.is_err());
    assert_eq!(open().await, pipes);
    let (exit, out, _) = run(shell("cut -d' ' -f1,6,7 /proc/$$/stat; exec 2>/dev/null </dev/tty")).await;
    let ids: Vec<_> = out.split_whitespace().collect();
    assert_eq!((ids[0] == ids[1], ids[2]), (true, "0"), "its session is its own, and it has no terminal: {out}");
    assert_ne!(exit, ProcessExit::Status(0), "there is none to open");
}

#[tokio::test]
async fn process_output_beyond_the_limit_is_discarded() {
    let most = limits::PROCESS_OUTPUT_BYTES;
    let flood = format!("head -c {} /dev/zero; head -c {most} /dev/zero >&2; echo end >&2", 5 * most);
    let ended = ProcessSlots::default().run(shell(&flood)).await.unwrap();
    assert_eq!((ended.exit, ended.stdout.len(), ended.stderr.len()), (ProcessExit::Status(0), most, most));
    assert!(ended.is_cut);
    let ended = ProcessSlots::default().run(shell(&format!("head -c {most} /dev/zero"))).await.unwrap();
    assert_eq!((ended.stdout.len(), ended.is_cut), (most, false));
    // An endless program is killed when its time expires, and its output is kept.
    let endless = ProcessSpec { time: Duration::from_millis(300), ..shell("yes") };
    let ended = ProcessSlots::default().run(endless).await.unwrap();
    assert_eq!((ended.exit, ended.stdout.len(), ended.is_cut), (ProcessExit::Time, most, true));
}

#[tokio::test]
async fn descendants_end_with_the_process() {
    let word = &word("started");
    // Processes that ignore signals, run in the background in their own groups, hold the pipes, and start more.
    let nasty = format!(
        "trap '' TERM HUP INT; set -m; for i in 1 2 3; do \
         (trap '' TERM HUP; (trap '' TERM; while :; do sleep 0.01; done; : {word}) & while :; do sleep 1; done; : {word}) & \
         done; echo started"
    );
    for (script, exit) in
        [(format!("{nasty}; exit 0"), ProcessExit::Status(0)), (format!("{nasty}; wait"), ProcessExit::Time)]
    {
        let began = Instant::now();
        let job = ProcessSpec { time: Duration::from_millis(500), ..shell(&script) };
        let (ended, out, _) = run(job).await;
        assert_eq!((ended, out.as_str()), (exit, "started\n"));
        assert!(began.elapsed() < Duration::from_secs(10));
        assert!(is_gone(word).await, "{script}");
    }
}

#[tokio::test]
async fn dropped_process_run_is_killed() {
    let word = &word("dropped");
    let slots = ProcessSlots::default();
    let mut running = Box::pin(slots.run(shell(&format!("sleep 1000 & echo {word}; sleep 1000; : {word}"))));
    let soon = timeout(Duration::from_millis(200), &mut running).await;
    assert!(soon.is_err());
    drop(running);
    assert!(is_gone(word).await);
    assert!(!has_zombies(), "it was waited for");
}

/// Returns `true` if a child process has ended and was not reaped.
fn has_zombies() -> bool {
    let me = std::process::id().to_string();
    let look = || {
        let stats = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| {
            let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
            let (id, rest) = (stat.split(' ').next()?.to_owned(), stat.rsplit_once(") ")?.1.to_owned());
            (rest.starts_with("Z ") && rest.split(' ').nth(1) == Some(&me)).then_some(id)
        });
        stats.collect::<std::collections::HashSet<_>>()
    };
    // Other tests end programs at the same time: those are reaped soon.
    let mut seen = look();
    for _ in 0..100 {
        if seen.is_empty() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(50));
        let still = look();
        seen.retain(|id| still.contains(id));
    }
    true
}

#[tokio::test]
async fn process_outside_the_session_does_not_delay_the_run() {
    let began = Instant::now();
    let (exit, out, _) = run(shell("setsid sleep 3 & echo done")).await;
    assert_eq!((exit, out.as_str()), (ProcessExit::Status(0), "done\n"));
    assert!(began.elapsed() < Duration::from_millis(2_500), "{:?}", began.elapsed());
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn fast_forking_process_does_not_delay_the_timeout() {
    let (word, folder) = (&word("relay"), tempfile::tempdir().unwrap());
    let on = folder.path().join("on");
    fs::write(&on, "").unwrap();
    // Each script starts the next one and ends, as long as the file exists.
    let relay = folder.path().join("relay.sh");
    fs::write(&relay, "[ -e \"$1\" ] || exit\nset -m\nsh \"$0\" \"$@\" &\n").unwrap();
    let script = format!("for i in 1 2 3 4; do sh {} {} {word} & done; sleep 1000", relay.display(), on.display());
    let began = Instant::now();
    let ended =
        ProcessSlots::default().run(ProcessSpec { time: Duration::from_millis(300), ..shell(&script) }).await.unwrap();
    assert_eq!(ended.exit, ProcessExit::Time);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    fs::remove_file(&on).unwrap();
    assert!(is_gone(word).await);
}

#[tokio::test]
async fn concurrent_processes_are_limited() {
    let folder = tempfile::tempdir().unwrap();
    let slots = ProcessSlots::default();
    // Each counts the runs that are active at the same time.
    let script = "touch $$.on; ls *.on | wc -l; sleep 0.2; rm $$.on";
    let job = || ProcessSpec { folder: folder.path().into(), ..shell(script) };
    let all = join_all((0..2 * limits::PROCESSES).map(|_| slots.run(job()))).await;
    let counts =
        all.into_iter().map(|ended| String::from_utf8(ended.unwrap().stdout).unwrap().trim().parse::<usize>().unwrap());
    let most = counts.max().unwrap();
    assert!((2..=limits::PROCESSES).contains(&most), "{most}");
}

#[tokio::test(start_paused = true)]
async fn wait_for_a_process_slot_times_out() {
    let slots = ProcessSlots::default();
    let _all = slots.0.acquire_many(limits::PROCESSES as u32).await.unwrap();
    let began = tokio::time::Instant::now();
    let refused = slots.run(shell("true")).await.unwrap_err();
    assert!(matches!(refused.fault(), Fault::Unavailable { .. }), "{refused}");
    assert_eq!(began.elapsed(), limits::PROCESS_PERMIT_WAIT);
}

#[tokio::test]
async fn process_start_failure_is_reported() {
    let long = |bytes: usize| ProcessSpec { args: vec!["x".repeat(bytes)], ..shell("") };
    for (job, says, is_too_large) in [
        (
            ProcessSpec { program: "/no/such/program".into(), ..shell("") },
            "cannot start the program /no/such/program",
            false,
        ),
        (ProcessSpec { program: "/etc/passwd".into(), ..shell("") }, "cannot start the program /etc/passwd", false),
        (ProcessSpec { args: vec!["a\0b".into()], ..shell("") }, "cannot start the program /bin/sh", false),
        (long(4 << 20), "cannot start the program /bin/sh", true),
    ] {
        let error = ProcessSlots::default().run(job).now_or_never().unwrap().unwrap_err();
        assert!(error.to_string().starts_with(says), "{error}");
        assert_eq!(matches!(error.fault(), Fault::TooLarge { .. }), is_too_large, "{error}");
    }
    assert!(!Path::new("/no/such/program").exists());
}
