//! Events of agents three levels deep, with middleware and a board, recorded beside the journal of a session that is
//! interrupted anywhere: the trace has every run of the journal, and all that was done.

use std::{
    collections::BTreeSet,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use shelly_host::{
    agent::journal::{JournalRecord, JournalState},
    chat::{Chat, Message},
    event::{EventSink, RunCx},
    session::{MemoryDisk, NewSession, OpenedSession, SessionOpenOptions, SessionStore, SessionStoreOptions},
    trace::{RunEnd, Trace, TraceLines, TraceStepKind},
};
use tokio::sync::Notify;

use super::world::{Outside, World};

fn store(disk: &MemoryDisk) -> SessionStore {
    SessionStore::new(Arc::new(disk.clone()), "/sessions", SessionStoreOptions::default())
}

/// Begins the world in the session `s`, or goes on with it, until so many events were emitted. Returns `true` if it ended.
async fn live(disk: &MemoryDisk, outside: &Outside, most: usize) -> bool {
    let (session, past) = match store(disk).open("s", SessionOpenOptions::default()) {
        Ok(OpenedSession { session, records, .. }) => (session, Some(JournalState::of(records).unwrap())),
        Err(_) => {
            let new = NewSession { id: Some("s".into()), ..NewSession::default() };
            (store(disk).create(new).unwrap(), None)
        }
    };
    let chat = past.as_ref().map_or_else(Chat::recorded, |past| past.chat().unwrap());
    let session = Arc::new(session);
    let world = World::new(session.clone(), past.map(|past| (past, &chat)), outside.clone());
    let sink = EventSink::new();
    session.begin_events();
    let (recorder, stop) = (Arc::clone(&session), Arc::new(Notify::new()));
    let (count, stops) = (AtomicUsize::new(0), Arc::clone(&stop));
    sink.record(Arc::new(move |event| {
        recorder.record_event(event);
        if count.fetch_add(1, Ordering::SeqCst) + 1 == most {
            stops.notify_one();
        }
    }));
    let cx = RunCx::new("lead").with_events(sink);
    let mut working = pin!(async {
        match world.lead.resume(&cx, &chat, Vec::new()).await {
            Some(outcome) => outcome,
            None => world.lead.run(&cx, &chat, vec![Message::user("Do it all.")]).await,
        }
    });
    let ended = tokio::select! {
        biased;
        () = stop.notified() => false,
        outcome = &mut working => {
            outcome.unwrap();
            true
        }
    };
    // The journal ends here as in a crash: what is dropped now is not recorded.
    session.close().await.unwrap();
    ended
}

/// Returns the instances of agents that the journal of the session `s` has.
fn instances(disk: &MemoryDisk) -> BTreeSet<String> {
    let opened = store(disk).open("s", SessionOpenOptions::default()).unwrap();
    let instance = |(_, record): &(u64, JournalRecord)| match record {
        JournalRecord::Began { instance, .. } => Some(instance.to_string()),
        _ => None,
    };
    opened.records.iter().filter_map(instance).collect()
}

#[test]
fn trace_of_an_interrupted_session_has_every_run() {
    // Not a paused clock: it would run ahead while the thread that writes is at work.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for most in [usize::MAX, 1, 7, 40, 95, 150] {
        let (disk, outside) = (MemoryDisk::new(), Outside::default());
        let mut lives = 1;
        while !runtime.block_on(live(&disk, &outside, most.saturating_mul(lives))) {
            lives += 1;
        }
        let trace = Trace::read(TraceLines::open(&store(&disk), "s").unwrap()).unwrap();
        let traced: BTreeSet<_> = trace.runs.iter().map(|run| run.span.agent.to_string()).collect();
        assert_eq!(traced, instances(&disk), "interrupted after {most} events, {lives} times");
        assert_eq!((trace.left_out, trace.is_recorded), (0, true));
        let last = trace.runs.iter().rev().find(|run| run.span.parent.is_none()).unwrap();
        assert_eq!((&*last.span.agent, &last.span.end), ("lead", &RunEnd::Answered), "{most}");
        let calls = trace.runs.iter().flat_map(|run| &run.steps);
        let calls = calls.filter(|step| step.kind == TraceStepKind::Call && step.error.is_none());
        let sent = calls.filter(|step| step.name == "send").count();
        assert!(sent >= outside.lock().unwrap().len() || most != usize::MAX, "{most}: {sent}");
        if most == usize::MAX {
            assert!(trace.runs.iter().all(|run| run.span.end != RunEnd::Open), "{:#?}", trace.runs);
            assert!(trace.totals().usd > 0.0, "its models have prices");
        }
    }
}
