//! Hosted runs, with a model that never answers.

use super::{
    HostedRunOutcome, HostedRunState, RunEventStep, RunHost, RunHostError, RunHostOptions, RunRequest, RunTarget,
    testing::{SilentHost, request},
};
use crate::{
    app::BoardSharing,
    chat::{Message, Role},
    error::RequestObstacle,
    event::Event,
    limits,
    session::NewSession,
};

/// Waits until a condition holds.
async fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn host_refuses_more_runs_than_it_may_have() {
    let silent = SilentHost::new(2).await;
    let host = &silent.host;
    let first = host.start(request("one")).await.unwrap();
    let second = host.start(request("two")).await.unwrap();
    assert!(matches!(host.begin(request("three")), Err(RunHostError::Busy { most: 2 })));
    assert_ne!(first.id(), second.id());
    assert_eq!(first.state(), HostedRunState::Running);
    first.cancel();
    assert_eq!(first.finished().await.state(), HostedRunState::Cancelled);
    until(|| !matches!(host.begin(request("three")), Err(RunHostError::Busy { .. }))).await;
    assert!(matches!(host.run("run-none"), Err(RunHostError::NoRun { .. })));
}

#[tokio::test]
async fn ended_runs_are_forgotten_when_there_are_many() {
    let silent = SilentHost::new(1).await;
    let host = &silent.host;
    let mut first = None;
    for n in 0..=limits::SERVE_RUNS_ENDED {
        let run = host.start(request(&n.to_string())).await.unwrap();
        run.cancel();
        run.cancel();
        run.finished().await;
        until(|| host.totals().ended.iter().sum::<u64>() > n as u64).await;
        if first.is_none() {
            first = Some(run);
        }
    }
    assert_eq!(host.runs().len(), limits::SERVE_RUNS_ENDED);
    assert!(matches!(host.run(first.unwrap().id()), Err(RunHostError::NoRun { .. })));
    assert_eq!(host.runs()[0].snapshot().task, limits::SERVE_RUNS_ENDED.to_string(), "the newest comes first");
}

#[tokio::test]
async fn runs_that_end_together_are_all_remembered() {
    let many = limits::SERVE_RUNS_ENDED + 20;
    let silent = SilentHost::new(many).await;
    let host = &silent.host;
    for n in 0..many {
        host.start(request(&n.to_string())).await.unwrap();
    }
    for run in host.runs() {
        run.cancel();
        run.cancel();
    }
    until(|| host.totals().ended.iter().sum::<u64>() == many as u64).await;
    assert_eq!(host.runs().len(), many);
}

#[tokio::test]
async fn run_that_cannot_begin_is_forgotten() {
    let silent = SilentHost::new(1).await;
    let host = &silent.host;
    let unknown = RunRequest { agent: Some("bob".into()), ..request("hi") };
    let Err(RunHostError::NotBegun(report)) = host.start(unknown).await else { panic!("there is no such agent") };
    assert!(report.to_string().contains("bob"), "{report}");
    until(|| host.runs().is_empty()).await;
    let named = RunRequest { target: RunTarget::Named("s".into()), ..request("hi") };
    let Err(RunHostError::NotBegun(report)) = host.start(named).await else { panic!("nothing is recorded") };
    assert!(report.hint.unwrap().contains("--no-session"));
}

#[tokio::test]
async fn run_with_shared_boards_needs_a_session() {
    let silent = SilentHost::new(1).await;
    let boards = Some(BoardSharing { parent: Some("lead".into()) });
    let shared = RunRequest { boards, ..request("hi") };
    let Err(RunHostError::NotBegun(report)) = silent.host.start(shared).await else { panic!("it has no session") };
    assert!(report.to_string().contains("the boards of another session must be recorded"), "{report}");
}

#[tokio::test]
async fn conversation_that_is_not_valid_begins_no_run() {
    let silent = SilentHost::new(1).await;
    let history = vec![Message::text(Role::Assistant, "", "Hello.")];
    let wanted = RunRequest { history, ..request("hi") };
    let Err(RunHostError::NotBegun(report)) = silent.host.start(wanted).await else { panic!("nobody has spoken") };
    assert!(report.to_string().contains("the conversation cannot be used"), "{report}");
    let history = vec![Message::user("One?"), Message::text(Role::Assistant, "", "One.")];
    assert!(silent.host.start(RunRequest { history, ..request("Two?") }).await.is_ok());
}

#[tokio::test]
async fn one_run_works_in_a_session_at_a_time() {
    let silent = SilentHost::new(2).await;
    let host = &silent.host;
    let named = || RunRequest { target: RunTarget::Named("s".into()), ..request("hi") };
    let first = host.begin(named()).unwrap();
    assert!(matches!(host.begin(named()), Err(RunHostError::SessionInUse { id }) if id == "s"));
    assert!(host.begin(RunRequest { target: RunTarget::Named("t".into()), ..request("hi") }).is_ok());
    // It cannot begin, as nothing is recorded.
    first.finished().await;
    until(|| host.begin(named()).is_ok()).await;
}

#[tokio::test]
async fn session_of_another_process_is_in_use() {
    let silent = SilentHost::new(1).await;
    let host = &silent.host;
    let target = RunTarget::Named("s".into());
    assert!(host.check_session(&target).await.is_ok(), "there is none");
    std::fs::create_dir_all(host.app().config.root.join(".shelly/local")).unwrap();
    let new = NewSession { id: Some("s".into()), ..NewSession::default() };
    let session = host.app().sessions().create(new).unwrap();
    assert!(matches!(host.check_session(&target).await, Err(RunHostError::SessionInUse { id }) if id == "s"));
    drop(session);
    // The thread that writes the session gives it up.
    let free = async {
        while host.check_session(&target).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), free).await.unwrap();
    assert!(host.check_session(&RunTarget::New).await.is_ok());
}

#[tokio::test]
async fn request_that_names_nothing_is_not_the_cause() {
    let silent = SilentHost::new(1).await;
    let model = Some("zzz".to_owned());
    let options = RunHostOptions { record: false, model: model.clone(), ..RunHostOptions::default() };
    let host = RunHost::new((**silent.host.app()).clone(), None, options);
    for (wanted, obstacle) in [
        (request("hi"), Some(RequestObstacle::Setup)),
        (RunRequest { model, ..request("hi") }, None),
        (RunRequest { agent: Some("ada".into()), ..request("hi") }, None),
    ] {
        let Err(RunHostError::NotBegun(report)) = host.start(wanted).await else { panic!("there is no such model") };
        assert!(report.message.contains("zzz") && report.obstacle == obstacle, "{report:?}");
        until(|| host.runs().is_empty()).await;
    }
}

#[tokio::test]
async fn session_that_is_taken_meanwhile_is_in_use() {
    let silent = SilentHost::new(1).await;
    let app = silent.host.app();
    std::fs::create_dir_all(app.config.root.join(".shelly/local")).unwrap();
    let new = NewSession { id: Some("s".into()), agent: "ada".into(), ..NewSession::default() };
    let session = app.sessions().create(new).unwrap();
    let host = RunHost::new((**app).clone(), None, RunHostOptions { is_trusted: true, ..RunHostOptions::default() });
    // The sessions are not looked at before.
    let run = host.begin(RunRequest { target: RunTarget::Named("s".into()), ..request("hi") }).unwrap();
    assert!(matches!(run.begun().await, Err(RunHostError::SessionInUse { id }) if id == "s"));
    drop(session);
}

#[tokio::test]
async fn only_so_many_streams_of_events_are_read() {
    let silent = SilentHost::new(1).await;
    let host = &silent.host;
    let run = host.start(request("hi")).await.unwrap();
    let watchers: Vec<_> = (0..limits::SERVE_WATCHERS).map(|_| host.watch(&run, 0).unwrap()).collect();
    assert!(matches!(host.watch(&run, 0), Err(RunHostError::TooManyWatchers)));
    assert!(matches!(host.watch_lines(&run, 0), Err(RunHostError::TooManyWatchers)));
    assert_eq!(host.watchers(), limits::SERVE_WATCHERS);
    drop(watchers);
    assert!(host.watch(&run, 0).is_ok());
}

#[tokio::test]
async fn shut_down_interrupts_runs_and_ends_their_events() {
    let silent = SilentHost::new(1).await;
    let host = &silent.host;
    let run = host.start(request("hi")).await.unwrap();
    assert!(matches!(run.events_after(0).next().await, RunEventStep::Event(_)), "it works");
    host.shut_down().await;
    let snapshot = run.finished().await;
    assert!(matches!(snapshot.outcome, Some(HostedRunOutcome::Interrupted)), "{snapshot:?}");
    let mut reader = run.events_after(0);
    let mut events = Vec::new();
    while let RunEventStep::Event(record) = reader.next().await {
        assert!(record.event.run.as_ref().is_none_or(|id| id == run.id()));
        // It has not ended: it goes on when its session is resumed.
        assert!(!matches!(record.event.event, Event::RunFinished { .. }), "{record:?}");
        events.push(record.event.sequence);
    }
    assert!(!events.is_empty() && events.is_sorted(), "{events:?}");
    assert_eq!(snapshot.last_event, *events.last().unwrap());
    assert!(matches!(host.begin(request("more")), Err(RunHostError::Stopping)) && host.is_stopping());
    assert!(matches!(run.send(None, "hello"), Err(RunHostError::Send(_))), "nobody is at work");
}

#[tokio::test]
async fn run_that_is_abandoned_has_no_end_in_its_events() {
    let silent = SilentHost::new(2).await;
    for is_abandoned in [true, false] {
        let run = silent.host.start(request("hi")).await.unwrap();
        let mut reader = run.events_after(0);
        loop {
            let RunEventStep::Event(record) = reader.next().await else { panic!("it is at work") };
            if matches!(record.event.event, Event::ModelStarted { .. }) {
                break;
            }
        }
        match is_abandoned {
            true => run.abandon(),
            false => (0..2).for_each(|_| run.cancel()),
        }
        assert_eq!(run.finished().await.state(), HostedRunState::Cancelled);
        let mut has_end = false;
        while let RunEventStep::Event(record) = reader.next().await {
            has_end |= matches!(record.event.event, Event::RunFinished { .. });
        }
        assert_eq!(has_end, !is_abandoned);
    }
}

#[tokio::test]
async fn long_task_is_cut_in_the_description() {
    let silent = SilentHost::new(1).await;
    let run = silent.host.start(request(&"é".repeat(limits::SERVE_TASK_CHARS + 1))).await.unwrap();
    assert_eq!(run.snapshot().task, format!("{}…", "é".repeat(limits::SERVE_TASK_CHARS)));
}
