//! Triggers, with a model that never answers and a clock that stands still unless a test waits.

use std::{
    fs,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::Value;
use tokio::time::{Instant, sleep};

use super::{FiringOutcome, HookOutcome, TriggerHost, TriggerSnapshot};
use crate::{
    limits,
    serve::hosted_runs::{RunHostError, testing::SilentHost},
    trigger::WebhookRefusal,
};

/// The code of GitHub's documentation, for the body `Hello, World!` and the secret of the host.
const CODE: &str = "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
const BODY: &str = "Hello, World!";

/// A host with triggers, whose clock begins at half a minute before three.
struct Triggered {
    silent: SilentHost,
    triggers: TriggerHost,
    /// The seconds by which the clock was set forward.
    ahead: Arc<AtomicU64>,
    warnings: Arc<Mutex<Vec<String>>>,
}

impl Triggered {
    async fn new(triggers: &str) -> Self {
        Self::with_runs(8, triggers).await
    }

    async fn with_runs(max_runs: usize, triggers: &str) -> Self {
        let silent = SilentHost::with_keys(max_runs, &format!("triggers: [{triggers}]\n")).await;
        let (ahead, warnings) = (Arc::new(AtomicU64::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (begun, base) = (Instant::now(), humantime::parse_rfc3339("2026-11-27T02:59:30Z").unwrap());
        let (set, told) = (Arc::clone(&ahead), Arc::clone(&warnings));
        let clock = Arc::new(move || base + begun.elapsed() + Duration::from_secs(set.load(Ordering::SeqCst)));
        let told = move |warning: &str| told.lock().unwrap().push(warning.to_owned());
        let triggers = TriggerHost::new(silent.host.clone(), clock, told).unwrap();
        triggers.start();
        Self { silent, triggers, ahead, warnings }
    }

    fn one(&self) -> TriggerSnapshot {
        self.triggers.snapshots().remove(0)
    }

    /// Returns how many runs were started, firings skipped, and times missed.
    fn counts(&self) -> (u64, u64, u64) {
        let TriggerSnapshot { started, skipped, missed, .. } = self.one();
        (started, skipped, missed)
    }

    /// Returns the triggers as a server has them that is started later.
    fn again(&self) -> TriggerHost {
        let later = humantime::parse_rfc3339("2026-11-28T12:00:00Z").unwrap();
        TriggerHost::new(self.silent.host.clone(), Arc::new(move || later), |_: &str| {}).unwrap()
    }

    /// Ends the newest run, and waits until the trigger knows.
    async fn end_run(&self) {
        let run = self.silent.host.runs().remove(0);
        run.cancel();
        run.cancel();
        run.finished().await;
        seconds(1).await;
    }
}

async fn seconds(count: u64) {
    sleep(Duration::from_secs(count)).await;
}

#[tokio::test(start_paused = true)]
async fn schedule_starts_a_run_at_each_of_its_times() {
    let triggered = Triggered::new("{name: a, cron: '* * * * *', task: 'At {{time}}.'}").await;
    seconds(1).await;
    let next = triggered.one().next.unwrap();
    assert_eq!(humantime::format_rfc3339_seconds(next).to_string(), "2026-11-27T03:00:00Z");
    assert_eq!(triggered.counts(), (0, 0, 0));
    seconds(30).await;
    assert_eq!(triggered.counts(), (1, 0, 0));
    assert_eq!(triggered.silent.host.runs()[0].snapshot().task, "At 2026-11-27T03:00:00+00:00.");
    // The run is at work.
    seconds(60).await;
    assert_eq!((triggered.counts(), triggered.one().at_work), ((1, 1, 0), 1));
    triggered.end_run().await;
    seconds(60).await;
    assert_eq!((triggered.counts(), triggered.one().at_work), ((2, 1, 0), 1));
    triggered.triggers.stop();
    triggered.end_run().await;
    seconds(120).await;
    assert_eq!(triggered.counts(), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn time_that_is_missed_is_skipped_or_made_up_for_once() {
    for (missed, expected) in [("skip", (0, 0, 1)), ("once", (1, 0, 1))] {
        let triggers = format!("{{name: a, cron: '*/10 3-4 * * *', task: t, missed: {missed}}}");
        let triggered = Triggered::new(&triggers).await;
        seconds(1).await;
        // The machine sleeps for an hour, and the clock is looked at within half a minute.
        triggered.ahead.store(3_600, Ordering::SeqCst);
        seconds(31).await;
        assert_eq!(triggered.counts(), expected, "{missed}");
        let is_told = triggered.warnings.lock().unwrap().iter().any(|warning| warning.contains("was missed"));
        assert_eq!(is_told, missed == "skip");
        let next = humantime::format_rfc3339_seconds(triggered.one().next.unwrap()).to_string();
        assert_eq!(next, "2026-11-27T04:10:00Z");
    }
}

#[tokio::test(start_paused = true)]
async fn time_missed_without_a_server_is_made_up_for_at_the_start() {
    let keys = "{name: a, cron: '0 3 * * *', task: t, missed: once}";
    let triggered = Triggered::new(keys).await;
    seconds(1).await;
    assert_eq!(triggered.counts(), (0, 0, 0), "nothing is known of an earlier time");
    let root = triggered.silent.host.app().config.root.clone();
    triggered.triggers.stop();
    let text = fs::read_to_string(root.join(".shelly/local/triggers.json")).unwrap();
    assert!(text.contains("2026-11-27T02:59:"), "{text}");
    let triggers = triggered.again();
    triggers.start();
    seconds(1).await;
    let again = triggers.snapshots().remove(0);
    assert_eq!((again.started, again.missed), (1, 1), "once, though two were missed");
    triggers.stop();
}

#[tokio::test]
async fn firing_during_a_run_is_treated_as_the_config_says() {
    for (overlap, started) in [("skip", 1), ("queue", 1), ("{parallel: 2}", 2)] {
        let triggers = format!("{{name: a, cron: '0 3 * * *', task: t, overlap: {overlap}}}");
        let triggered = Triggered::new(&triggers).await;
        let fire = || triggered.triggers.fire_named("a", Value::Null).unwrap();
        assert!(matches!(fire(), FiringOutcome::Started(_)), "{overlap}");
        let second = fire();
        match overlap {
            "skip" => assert!(matches!(second, FiringOutcome::Skipped)),
            "queue" => assert!(matches!(second, FiringOutcome::Queued) && triggered.one().is_queued),
            _ => assert!(matches!(second, FiringOutcome::Started(_))),
        }
        assert!(matches!(fire(), FiringOutcome::Skipped), "{overlap}: one more is too many");
        assert_eq!(triggered.one().started, started, "{overlap}");
        let run = triggered.silent.host.runs().remove(0);
        run.begun().await.unwrap();
        run.cancel();
        run.finished().await;
        let expected = if overlap == "skip" { (0, 1) } else { (1, 2) };
        // A firing that waits is the next run.
        while (triggered.one().at_work, triggered.one().started) != expected {
            tokio::task::yield_now().await;
        }
    }
    let triggered = Triggered::new("{name: a, cron: '0 3 * * *', task: t}").await;
    assert!(triggered.triggers.fire_named("b", Value::Null).is_none());
}

#[tokio::test]
async fn run_that_cannot_begin_is_told() {
    let triggered = Triggered::new("{name: a, cron: '0 3 * * *', task: t, agent: ada, overlap: {parallel: 8}}").await;
    for _ in 0..8 {
        assert!(matches!(triggered.triggers.fire_named("a", Value::Null), Some(FiringOutcome::Started(_))));
    }
    triggered.silent.host.shut_down().await;
    while triggered.one().at_work > 0 {
        tokio::task::yield_now().await;
    }
    assert!(matches!(triggered.triggers.fire_named("a", Value::Null), Some(FiringOutcome::Refused(_))));
    let now = triggered.one();
    assert!(now.failed >= 1 && now.last.unwrap().problem.unwrap().contains("stopping"));
    let told = triggered.warnings.lock().unwrap().join("\n");
    assert!(told.contains("the trigger `a`: no run was started: the server is stopping"), "{told}");
}

#[tokio::test]
async fn webhook_fires_once_for_each_delivery() {
    let hook = "{name: hook, webhook: {secret: {env: HOOK_SECRET}, signature: github}, task: 'See {{body.no}}.'}";
    let triggered = Triggered::new(&format!("{hook}, {{name: nightly, cron: '0 3 * * *', task: t}}")).await;
    let receive = |name: &str, code: &str, id: &str, body: &str| {
        let header = |wanted: &str| match wanted {
            "x-hub-signature-256" => Some(code.to_owned()),
            "x-github-delivery" => Some(id.to_owned()),
            _ => None,
        };
        triggered.triggers.receive(name, &header, body.as_bytes())
    };
    let wrong = receive("hook", CODE, "1", "Hello, World?").unwrap();
    assert!(matches!(wrong, Err(WebhookRefusal::Signature)));
    assert!(receive("nightly", CODE, "1", BODY).is_none() && receive("none", CODE, "1", "x").is_none());
    assert_eq!(triggered.counts(), (0, 0, 0));
    let Some(Ok(HookOutcome::Fired(FiringOutcome::Started(run)))) = receive("hook", CODE, "1", BODY) else {
        panic!("it is signed")
    };
    assert!(run.snapshot().task.starts_with("See \"\".\n\n---\n"), "{}", run.snapshot().task);
    for id in ["1", "2"] {
        let again = receive("hook", CODE, id, BODY).unwrap();
        assert!(matches!(again, Ok(HookOutcome::Repeated(Some(same))) if same == *run.id()), "{id}");
    }
    assert_eq!(triggered.counts(), (1, 0, 0));
    assert_eq!(triggered.one().last.unwrap().missing, ["body.no"]);
    assert!(triggered.warnings.lock().unwrap()[0].contains("the firing has no body.no"));
}

#[tokio::test(start_paused = true)]
async fn files_fire_when_they_have_settled_and_not_by_the_run_itself() {
    let triggered = Triggered::new("{name: a, files: {paths: ['docs/**'], settle: 5s}, task: '{{files}}'}").await;
    let docs = triggered.silent.host.app().config.root.join("docs");
    seconds(3).await;
    fs::create_dir(&docs).unwrap();
    fs::write(docs.join("a.md"), "1").unwrap();
    fs::write(docs.join("../other.md"), "1").unwrap();
    seconds(4).await;
    fs::write(docs.join("a.md"), "22").unwrap();
    seconds(4).await;
    assert_eq!(triggered.counts(), (0, 0, 0), "it has just been written");
    seconds(4).await;
    assert_eq!(triggered.counts(), (1, 0, 0));
    let task = triggered.silent.host.runs()[0].snapshot().task;
    assert!(task.starts_with("[\"docs/a.md\"]\n\n---\n"), "{task}");
    // The run writes.
    fs::write(docs.join("b.md"), "333").unwrap();
    seconds(20).await;
    triggered.end_run().await;
    seconds(20).await;
    assert_eq!(triggered.counts(), (1, 0, 0));
    for n in 0..=limits::TRIGGER_FILES_NAMED {
        fs::write(docs.join(format!("f-{n}.md")), "").unwrap();
    }
    seconds(20).await;
    assert_eq!(triggered.counts(), (2, 0, 0));
    let task = triggered.silent.host.runs()[0].snapshot().task;
    assert_eq!(task.matches("docs/f-").count(), limits::TRIGGER_FILES_NAMED, "{task}");
    triggered.triggers.stop();
}

#[tokio::test]
async fn values_by_hand_are_those_that_a_trigger_takes() {
    let files = "{name: a, files: {paths: ['docs/**']}, task: '{{files}}'}";
    let triggered = Triggered::new(&format!("{files}, {{name: b, cron: '0 3 * * *', task: t}}")).await;
    let values = |name: &str, payload: Value| triggered.triggers.firing_values(name, Some(payload), None);
    let names = serde_json::json!(["docs/a.md"]);
    assert_eq!(values("a", names.clone()).unwrap().unwrap(), serde_json::json!({ "files": names }));
    for (name, says) in [("a", "is no list of files"), ("b", "takes no values")] {
        let refused = values(name, Value::from("x")).unwrap().unwrap_err();
        assert!(refused.message.contains(says), "{refused:?}");
    }
    assert!(values("c", names).is_none());
}

/// A webhook of GitHub, whose id is no part of what is signed.
fn receive(triggers: &TriggerHost, id: &str) -> HookOutcome {
    let header = |wanted: &str| match wanted {
        "x-hub-signature-256" => Some(CODE.to_owned()),
        "x-github-delivery" => Some(id.to_owned()),
        _ => None,
    };
    triggers.receive("hook", &header, BODY.as_bytes()).unwrap().unwrap_or_else(|refusal| panic!("{refusal}"))
}

#[tokio::test]
async fn webhook_that_comes_again_after_a_restart_is_known() {
    let hook = "{name: hook, webhook: {secret: {env: HOOK_SECRET}, signature: github}, task: t}";
    let triggered = Triggered::new(hook).await;
    let HookOutcome::Fired(FiringOutcome::Started(run)) = receive(&triggered.triggers, "1") else {
        panic!("it is new")
    };
    for id in ["1", "2"] {
        let again = receive(&triggered.again(), id);
        assert!(matches!(again, HookOutcome::Repeated(Some(same)) if same == *run.id()), "{id}");
    }
    let host = &triggered.silent.host;
    fs::write(host.app().config.root.join(".shelly/local/deliveries/hook.json"), "damaged").unwrap();
    let report = TriggerHost::new(host.clone(), Arc::new(SystemTime::now), |_: &str| {}).err().unwrap();
    assert!(report.to_string().contains("deliveries/hook.json"), "{report}");
}

#[tokio::test(start_paused = true)]
async fn webhook_that_finds_no_room_can_be_repeated() {
    for (overlap, waits) in [("skip", false), ("queue", true)] {
        let hook = format!(
            "{{name: hook, webhook: {{secret: {{env: HOOK_SECRET}}, signature: github}}, task: t, overlap: {overlap}}}"
        );
        let triggered = Triggered::with_runs(1, &hook).await;
        let room = triggered.silent.host.room().await.unwrap();
        let first = receive(&triggered.triggers, "1");
        match waits {
            false => {
                assert!(matches!(first, HookOutcome::Fired(FiringOutcome::Refused(RunHostError::Busy { most: 1 }))))
            }
            true => {
                assert!(matches!(first, HookOutcome::Fired(FiringOutcome::Queued)));
                assert!(matches!(receive(&triggered.triggers, "1"), HookOutcome::Repeated(None)));
            }
        }
        // A server that ends meanwhile has started nothing for it.
        let again = receive(&triggered.again(), "1");
        assert_eq!(matches!(again, HookOutcome::Fired(FiringOutcome::Queued)), waits, "{overlap}");
        triggered.triggers.stop();
        drop(room);
    }
}

#[tokio::test(start_paused = true)]
async fn webhook_that_has_waited_is_kept_with_its_run() {
    let hook = "{name: hook, webhook: {secret: {env: HOOK_SECRET}, signature: github}, task: t, overlap: queue}";
    let triggered = Triggered::with_runs(1, hook).await;
    let room = triggered.silent.host.room().await.unwrap();
    assert!(matches!(receive(&triggered.triggers, "1"), HookOutcome::Fired(FiringOutcome::Queued)));
    drop(room);
    seconds(1).await;
    let run = Arc::clone(triggered.silent.host.runs()[0].id());
    for triggers in [triggered.triggers.clone(), triggered.again()] {
        assert!(matches!(receive(&triggers, "1"), HookOutcome::Repeated(Some(same)) if same == run));
    }
}

#[tokio::test(start_paused = true)]
async fn firing_waits_until_the_host_takes_a_run() {
    let triggered = Triggered::with_runs(1, "{name: a, cron: '* * * * *', task: 'At {{time}}.'}").await;
    let room = triggered.silent.host.room().await.unwrap();
    seconds(31).await;
    assert!(triggered.one().is_queued && triggered.counts() == (0, 0, 0));
    let fire = || triggered.triggers.fire_named("a", Value::Null).unwrap();
    assert!(matches!(fire(), FiringOutcome::Refused(RunHostError::Busy { most: 1 })), "its client can try again");
    // One waits, and a further one is skipped.
    seconds(60).await;
    assert!(triggered.one().is_queued && triggered.counts() == (0, 1, 0));
    let told = triggered.warnings.lock().unwrap().join("\n");
    assert!(told.contains("its firing waits, since 1 run is at work, which is the maximum"), "{told}");
    drop(room);
    seconds(1).await;
    assert!(!triggered.one().is_queued && triggered.counts() == (1, 1, 0));
    assert_eq!(triggered.silent.host.runs()[0].snapshot().task, "At 2026-11-27T03:00:00+00:00.");
}

#[tokio::test(start_paused = true)]
async fn firing_behind_a_run_waits_on_if_there_is_no_room() {
    let triggered = Triggered::with_runs(1, "{name: a, cron: '0 3 * * *', task: t, overlap: queue}").await;
    let fire = || triggered.triggers.fire_named("a", Value::Null).unwrap();
    assert!(matches!(fire(), FiringOutcome::Started(_)) && matches!(fire(), FiringOutcome::Queued));
    let host = triggered.silent.host.clone();
    let other = tokio::spawn(async move { host.room().await });
    tokio::task::yield_now().await;
    triggered.end_run().await;
    let room = other.await.unwrap().unwrap();
    assert!(triggered.one().is_queued && triggered.one().started == 1);
    drop(room);
    seconds(1).await;
    assert!(!triggered.one().is_queued && triggered.one().started == 2);
}

#[tokio::test(start_paused = true)]
async fn firing_that_waits_for_too_long_is_told() {
    let triggered = Triggered::with_runs(1, "{name: a, cron: '0 3 * * *', task: t}").await;
    let room = triggered.silent.host.room().await.unwrap();
    seconds(31).await;
    assert!(triggered.one().is_queued);
    seconds(limits::TRIGGER_ROOM_TIME.as_secs()).await;
    let now = triggered.one();
    assert_eq!((now.is_queued, now.started, now.failed), (false, 0, 1));
    assert!(now.last.unwrap().problem.unwrap().contains("1 run is at work"));
    drop(room);
    seconds(1).await;
    assert_eq!(triggered.one().started, 0);
}

#[tokio::test]
async fn firing_after_the_stop_does_not_begin_to_wait() {
    let triggered = Triggered::with_runs(1, "{name: a, cron: '0 3 * * *', task: t, overlap: queue}").await;
    let room = triggered.silent.host.room().await.unwrap();
    triggered.triggers.stop();
    let fired = triggered.triggers.fire_named("a", Value::Null).unwrap();
    assert!(matches!(fired, FiringOutcome::Refused(RunHostError::Stopping)));
    assert_eq!((triggered.one().is_queued, triggered.one().failed), (false, 1));
    drop(room);
}

#[tokio::test(start_paused = true)]
async fn time_that_waits_when_the_server_ends_is_made_up_for() {
    let triggered = Triggered::with_runs(1, "{name: a, cron: '0 3 * * *', task: t, missed: once}").await;
    let room = triggered.silent.host.room().await.unwrap();
    seconds(31).await;
    assert!(triggered.one().is_queued);
    triggered.triggers.stop();
    let told = triggered.warnings.lock().unwrap().join("\n");
    assert!(told.contains("a firing that waits starts no run, since the server stops"), "{told}");
    drop(room);
    let triggers = triggered.again();
    triggers.start();
    seconds(1).await;
    assert_eq!(triggers.snapshots()[0].started, 1);
    triggers.stop();
}

#[tokio::test(start_paused = true)]
async fn files_that_change_while_a_firing_waits_are_named_too() {
    let files = "{name: a, files: {paths: ['docs/**'], settle: 2s}, task: '{{files}}'}";
    let triggered = Triggered::with_runs(1, files).await;
    let docs = triggered.silent.host.app().config.root.join("docs");
    let room = triggered.silent.host.room().await.unwrap();
    fs::create_dir(&docs).unwrap();
    seconds(3).await;
    for name in ["a.md", "b.md"] {
        fs::write(docs.join(name), "1").unwrap();
        seconds(10).await;
        assert!(triggered.one().is_queued && triggered.counts() == (0, 0, 0), "{name}");
    }
    drop(room);
    seconds(1).await;
    let task = triggered.silent.host.runs()[0].snapshot().task;
    assert!(task.starts_with("[\"docs/a.md\",\"docs/b.md\"]\n"), "{task}");
    triggered.triggers.stop();
}

#[tokio::test(start_paused = true)]
async fn files_that_settle_after_the_wait_are_named_next() {
    let files = "{name: a, files: {paths: ['docs/**'], settle: 5s}, task: '{{files}}'}";
    let triggered = Triggered::with_runs(1, files).await;
    let docs = triggered.silent.host.app().config.root.join("docs");
    let room = triggered.silent.host.room().await.unwrap();
    fs::create_dir(&docs).unwrap();
    seconds(3).await;
    fs::write(docs.join("a.md"), "1").unwrap();
    seconds(10).await;
    assert!(triggered.one().is_queued && triggered.counts() == (0, 0, 0));
    // It is seen, and has not settled when the run begins.
    fs::write(docs.join("b.md"), "1").unwrap();
    seconds(3).await;
    drop(room);
    seconds(1).await;
    let newest = || triggered.silent.host.runs()[0].snapshot().task;
    assert!(newest().starts_with("[\"docs/a.md\"]\n"), "{}", newest());
    // The work of the run.
    fs::write(docs.join("c.md"), "1").unwrap();
    seconds(10).await;
    triggered.end_run().await;
    seconds(10).await;
    assert_eq!(triggered.counts(), (2, 0, 0));
    assert!(newest().starts_with("[\"docs/b.md\"]\n"), "{}", newest());
    triggered.triggers.stop();
}
