//! Runs on a real server: what happens when workers, submitters and replies are lost at each step.

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{
            Arc,
            atomic::{AtomicUsize, Ordering},
        },
        thread,
        time::{Duration, Instant, SystemTime},
    };

    use async_nats::jetstream::AckKind;
    use bytes::Bytes;
    use futures_util::StreamExt;
    use shelly_core::{capability::Budget, limits};
    use tokio::{
        runtime::Builder,
        time::{sleep, timeout},
    };

    use crate::{
        Cluster, ClusterError, NamespaceLimits, QueuedRunEnd, RunEndState, RunEntry, RunPhase, RunPriority, RunQueue,
        RunSpec, Submission, TakenRun, WorkerIdentity,
        connection::{ClusterCallError, ClusterHandles},
        nats_server::{NatsServer, with},
        run_entry::StoredRun,
        taken_run::HeartbeatOutcome,
    };

    /// Longer than any test lasts in which no lease is to end.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::ZERO;

    fn spec(id: &str) -> RunSpec {
        RunSpec::new(id, format!("session-{id}"), Some("do it".into()))
    }

    fn worker(id: &str) -> WorkerIdentity {
        WorkerIdentity { id: id.into(), labels: BTreeSet::new(), limits: NamespaceLimits::default() }
    }

    fn answer(text: &str) -> QueuedRunEnd {
        QueuedRunEnd { answer: Some(text.into()), ..QueuedRunEnd::new(RunEndState::Completed) }
    }

    /// Takes a run; waits for it as long as a slow machine may need.
    async fn take(runs: &RunQueue, name: &str) -> TakenRun {
        runs.take(&worker(name), LONG).await.unwrap().expect("a run within a minute")
    }

    async fn entry(runs: &RunQueue, id: &str) -> RunEntry {
        runs.entry(id).await.unwrap().expect("an entry")
    }

    /// Stops the heartbeats of a run, as if its process were stopped.
    fn stop(run: &mut TakenRun) {
        run.heartbeat = None;
    }

    /// Waits until no queue has a message.
    async fn assert_queues_become_empty(runs: &RunQueue) {
        let began = Instant::now();
        while runs.depths().await.unwrap().iter().any(|queue| queue.waiting + queue.taken > 0) {
            assert!(began.elapsed() < LONG, "{:?}", runs.depths().await);
            assert!(runs.take(&worker("cleaner"), NOW).await.unwrap().is_none(), "nothing is to be done");
            sleep(Duration::from_millis(200)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_is_submitted_taken_and_ended_once() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        assert_eq!(runs.submit(spec("a")).await, Ok(Submission::New));
        assert_eq!(runs.submit(spec("a")).await, Ok(Submission::Known));
        let other = RunSpec { task: Some("something else".into()), ..spec("a") };
        assert!(matches!(runs.submit(other).await, Err(ClusterError::Conflict { .. })));
        assert!(matches!(runs.submit(spec("A")).await, Err(ClusterError::Invalid { .. })));
        let run = take(&runs, "w").await;
        assert_eq!((run.id(), run.attempt(), run.entry().deaths), ("a", 1, 0));
        assert!(
            matches!(&entry(&runs, "a").await.phase, RunPhase::Running { worker, attempt: 1, .. } if worker == "w")
        );
        assert!(runs.take(&worker("v"), NOW).await.unwrap().is_none(), "nobody else gets it");
        run.warn("slow").await.unwrap();
        run.finish(answer("42")).await.unwrap();
        assert_eq!(runs.ended("a").await.unwrap().answer.as_deref(), Some("42"));
        let ended = entry(&runs, "a").await;
        assert_eq!((ended.starts, ended.deaths, ended.warnings), (1, 0, vec!["slow".to_owned()]));
        assert_queues_become_empty(&runs).await;
        assert_eq!(runs.submit(spec("a")).await, Ok(Submission::Known), "an ended run is not done again");
        assert!(runs.take(&worker("w"), NOW).await.unwrap().is_none());
        assert!(matches!(runs.ended("none").await, Err(ClusterError::NotFound { .. })));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn worker_that_was_stopped_too_long_changes_nothing() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(SHORT);
        let runs = cluster.runs();
        runs.submit(spec("a")).await.unwrap();
        let mut first = take(&runs, "w").await;
        stop(&mut first);
        let second = take(&runs, "v").await;
        assert_eq!((second.attempt(), second.entry().deaths), (2, 1));
        let held = Arc::clone(&first.held);
        let beat = with(&cluster, |handles| async move { handles.heartbeat(&held).await }).await;
        assert_eq!(beat, HeartbeatOutcome::Lost, "the second one has the lease");
        second.finish(answer("second")).await.unwrap();
        // Now there is no lease at all: the first one could take it, and must not believe that it has the run.
        let held = Arc::clone(&first.held);
        let beat = with(&cluster, |handles| async move { handles.heartbeat(&held).await }).await;
        assert_eq!(beat, HeartbeatOutcome::Lost);
        let lost = first.lost();
        assert!(matches!(first.warn("late").await, Err(ClusterError::Lost { .. })));
        assert!(lost.is_cancelled());
        assert!(matches!(first.finish(answer("first")).await, Err(ClusterError::Lost { .. })));
        assert_eq!(runs.ended("a").await.unwrap().answer.as_deref(), Some("second"));
        assert_queues_become_empty(&runs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn heartbeats_keep_a_run_beyond_the_lease() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(SHORT).runs();
        runs.submit(spec("a")).await.unwrap();
        let run = take(&runs, "w").await;
        assert!(runs.take(&worker("v"), SHORT * 4).await.unwrap().is_none(), "it is at work");
        assert!(!run.lost().is_cancelled());
        run.finish(answer("done")).await.unwrap();
        assert_eq!(entry(&runs, "a").await.deaths, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn message_that_is_offered_again_is_no_death() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        runs.submit(spec("a")).await.unwrap();
        let run = take(&runs, "w").await;
        // As an earlier worker does that gives it back at last.
        run.held.acker.double_ack_with(AckKind::Nak(None)).await.unwrap();
        assert!(runs.take(&worker("v"), SHORT * 2).await.unwrap().is_none());
        assert_eq!(entry(&runs, "a").await.deaths, 0);
        run.finish(answer("done")).await.unwrap();
        assert_queues_become_empty(&runs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lost_acknowledgement_is_made_good() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(SHORT);
        let runs = cluster.runs();
        let mut limited = worker("w");
        limited.limits.runs = Some(1);
        runs.submit(spec("a")).await.unwrap();
        let mut run = runs.take(&limited, LONG).await.unwrap().unwrap();
        assert_eq!(cluster.counters().reserved().await.unwrap().runs, 1);
        stop(&mut run);
        // The worker dies right after it has written the end.
        let held = Arc::clone(&run.held);
        let end = |handles: ClusterHandles| async move {
            handles.change_held(&held, |entry| entry.end(QueuedRunEnd::new(RunEndState::Completed))).await
        };
        with(&cluster, end).await;
        drop(run);
        assert_queues_become_empty(&runs).await;
        let ended = entry(&runs, "a").await;
        assert_eq!((ended.starts, ended.deaths), (1, 0));
        assert_eq!(cluster.counters().reserved().await.unwrap().runs, 0, "its reservation is gone");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn writer_recognizes_its_write_whose_reply_was_lost() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        cluster.runs().submit(spec("a")).await.unwrap();
        let written = |handles: ClusterHandles| async move {
            let store = &handles.run_streams().await?.entries;
            let (mut stored, revision) = handles.stored_run("a").await?.expect("an entry");
            let value = |stored: &mut StoredRun, stamp: &str| Bytes::from(stored.stamped(stamp.into()));
            let (own, other) = (value(&mut stored, "0a"), value(&mut stored, "0b"));
            let once = handles.update(store, "a", &own, revision).await?;
            let again = handles.update(store, "a", &own, revision).await?;
            let others = handles.update(store, "a", &other, revision).await?;
            let created = handles.create(store, "a", &own).await?;
            Ok((once, again, others, created))
        };
        let (once, again, others, created) = with(&cluster, written).await;
        assert!(once.is_some());
        assert_eq!((again, others, created), (once, None, once));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn end_wins_against_a_cancel_at_the_same_time() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        for n in 0..20 {
            let id = format!("a{n}");
            runs.submit(spec(&id)).await.unwrap();
            let run = take(&runs, "w").await;
            let (finished, cancelled) = tokio::join!(run.finish(answer("done")), runs.cancel(&id));
            finished.unwrap();
            cancelled.unwrap();
            assert_eq!(runs.ended(&id).await.unwrap().state, RunEndState::Completed);
        }
        assert_queues_become_empty(&runs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn cancel_ends_a_waiting_run_and_asks_one_at_work() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(SHORT).runs();
        runs.submit(spec("waits")).await.unwrap();
        let ended = runs.cancel("waits").await.unwrap();
        assert_eq!(ended.ending().unwrap().state, RunEndState::Cancelled);
        let again = runs.cancel("waits").await.unwrap();
        assert_eq!(again.ending().unwrap().state, RunEndState::Cancelled, "it stays as it is");
        assert_queues_become_empty(&runs).await;
        runs.submit(spec("works")).await.unwrap();
        let mut run = take(&runs, "w").await;
        assert!(runs.cancel("works").await.unwrap().cancel_requested);
        timeout(LONG, run.cancelled().cancelled_owned()).await.unwrap();
        // Its worker dies before it stops: nobody starts it again.
        stop(&mut run);
        drop(run);
        assert_eq!(timeout(LONG, ended_by_takers(&runs, "works")).await.unwrap(), RunEndState::Cancelled);
        assert!(matches!(runs.cancel("none").await, Err(ClusterError::NotFound { .. })));
    }

    /// Lets a worker look at the queues until a run has ended.
    async fn ended_by_takers(runs: &RunQueue, id: &str) -> RunEndState {
        loop {
            assert!(runs.take(&worker("cleaner"), NOW).await.unwrap().is_none());
            if let Some(ending) = entry(runs, id).await.ending() {
                return ending.state;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_that_is_given_back_goes_on_at_once() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        runs.submit(spec("a")).await.unwrap();
        take(&runs, "w").await.give_back().await.unwrap();
        let began = Instant::now();
        let run = take(&runs, "v").await;
        assert!(began.elapsed() < LONG / 2, "the lease was given back too");
        assert_eq!((run.attempt(), run.entry().deaths), (2, 0));
        assert!(!run.decline("no trust").await.unwrap());
        let waiting = entry(&runs, "a").await;
        assert_eq!(waiting.phase, RunPhase::Queued { waits_for: Some("no trust".into()) });
        assert!(waiting.declined.is_some());
        assert!(runs.take(&worker("w"), NOW).await.unwrap().is_none(), "others may take it first");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn sessions_that_are_lost_end_a_run_and_drains_do_not() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        runs.submit(spec("a")).await.unwrap();
        for _ in 0..=limits::CLUSTER_RUN_DEATHS {
            take(&runs, "w").await.give_back().await.unwrap();
        }
        for death in 1..=limits::CLUSTER_RUN_DEATHS {
            let is_last = take(&runs, "w").await.give_back_lost("the session is full").await.unwrap();
            assert_eq!((is_last, entry(&runs, "a").await.deaths), (death == limits::CLUSTER_RUN_DEATHS, death));
        }
        let ending = runs.ended("a").await.unwrap();
        assert_eq!(ending.state, RunEndState::Poisoned);
        assert!(ending.error.unwrap().to_string().contains("the session is full"), "the reason is told");
        assert_queues_become_empty(&runs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_that_is_submitted_by_many_at_once_is_one() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let submissions: Vec<_> = (0..8)
            .map(|_| {
                let runs = Cluster::new(cluster.options().clone()).runs();
                tokio::spawn(async move { runs.submit(spec("a")).await.unwrap() })
            })
            .collect();
        let mut new = 0;
        for submission in submissions {
            new += usize::from(submission.await.unwrap() == Submission::New);
        }
        assert_eq!(new, 1);
        let depths = cluster.runs().depths().await.unwrap();
        assert_eq!(depths.iter().map(|queue| queue.waiting).sum::<u64>(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_whose_submitter_died_is_queued_by_a_worker() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let entry_alone = |handles: ClusterHandles| async move {
            let store = &handles.run_streams().await?.entries;
            let value = StoredRun::new(spec("a")).stamped("0a".into());
            handles.create(store, "a", &Bytes::from(value)).await
        };
        with(&cluster, entry_alone).await.unwrap();
        let run = take(&cluster.runs(), "w").await;
        assert_eq!((run.id(), run.attempt()), ("a", 1));
        run.finish(answer("done")).await.unwrap();
        // What was looked at is not looked at again, and an ended run is not queued.
        let other = Cluster::new(cluster.options().clone());
        with(&other, |handles| async move { handles.repair_queue().await }).await;
        assert_queues_become_empty(&other.runs()).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn message_of_a_removed_run_goes_away() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        runs.submit(spec("a")).await.unwrap();
        let remove = |handles: ClusterHandles| async move {
            let (_, revision) = handles.stored_run("a").await?.expect("an entry");
            handles.remove_run("a", revision).await
        };
        with(&cluster, remove).await;
        assert!(runs.entry("a").await.unwrap().is_none());
        assert_queues_become_empty(&runs).await;
        // The id is free, and a message of the earlier run in another queue does not matter.
        let labelled = RunSpec { labels: BTreeSet::from(["gpu".to_owned()]), ..spec("a") };
        assert_eq!(runs.submit(labelled).await, Ok(Submission::New));
        with(&cluster, |handles| async move { handles.publish_run(&spec("a")).await }).await;
        assert!(runs.take(&worker("w"), SHORT).await.unwrap().is_none(), "this worker has no such label");
        let able = WorkerIdentity { labels: BTreeSet::from(["gpu".to_owned()]), ..worker("v") };
        assert_eq!(runs.take(&able, LONG).await.unwrap().unwrap().id(), "a");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_with_which_workers_die_ends_as_poisoned() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(SHORT).runs();
        runs.submit(spec("a")).await.unwrap();
        for deaths in 0..limits::CLUSTER_RUN_DEATHS {
            let run = take(&runs, "w").await;
            assert_eq!(run.entry().deaths, deaths);
            drop(run);
        }
        assert_eq!(timeout(LONG, ended_by_takers(&runs, "a")).await.unwrap(), RunEndState::Poisoned);
        let ended = entry(&runs, "a").await;
        assert_eq!((ended.starts, ended.deaths), (limits::CLUSTER_RUN_DEATHS, limits::CLUSTER_RUN_DEATHS));
        assert_queues_become_empty(&runs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entry_of_a_later_version_is_left_alone() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        runs.submit(spec("a")).await.unwrap();
        let later = |handles: ClusterHandles| async move {
            let store = &handles.run_streams().await?.entries;
            store.put("a", Bytes::from_static(br#"{"version":2,"new":true}"#)).await.map_err(ClusterCallError::failed)
        };
        let revision = with(&cluster, later).await;
        assert!(runs.take(&worker("w"), SHORT).await.unwrap().is_none());
        assert!(matches!(runs.entry("a").await, Err(ClusterError::Newer { version: 2, .. })));
        assert!(matches!(runs.submit(spec("a")).await, Err(ClusterError::Newer { .. })));
        assert!(runs.list(9).await.unwrap().is_empty());
        let there = |handles: ClusterHandles| async move {
            let store = &handles.run_streams().await?.entries;
            Ok(handles.leader_value(store, "a").await?.map(|(_, revision)| revision))
        };
        assert_eq!(with(&cluster, there).await, Some(revision));
        assert_eq!(runs.depths().await.unwrap()[0].taken, 1, "it is offered again later");
        let offers = |handles: ClusterHandles| async move {
            let mut queues = handles.run_streams().await?.queue.consumers();
            let queue = queues.next().await.expect("a queue").map_err(ClusterCallError::failed)?;
            Ok(queue.delivered.consumer_sequence)
        };
        assert_eq!(with(&cluster, offers).await, 1, "and not again and again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn worker_passes_over_a_bounded_number_of_runs() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        let more = 3;
        for n in 0..limits::CLUSTER_TAKE_SKIPPED + more {
            let gone = RunSpec { priority: RunPriority::High, ..spec(&format!("gone{n}")) };
            runs.submit(gone.clone()).await.unwrap();
            runs.cancel(&gone.id).await.unwrap();
        }
        runs.submit(spec("a")).await.unwrap();
        assert_eq!(runs.take(&worker("w"), NOW).await.unwrap().expect("a run of the next queue").id(), "a");
        let depths = runs.depths().await.unwrap();
        assert_eq!(
            (depths[0].priority, depths[0].waiting),
            (RunPriority::High, more as u64),
            "they were not looked at"
        );
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn namespace_has_a_bounded_number_of_queues() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        let labelled = |n: usize| RunSpec { labels: BTreeSet::from([format!("l{n}")]), ..spec(&format!("a{n}")) };
        for n in 0..limits::CLUSTER_QUEUES {
            runs.submit(labelled(n)).await.unwrap();
        }
        let refused = runs.submit(labelled(limits::CLUSTER_QUEUES)).await.unwrap_err();
        assert!(matches!(&refused, ClusterError::Refused { reason, .. } if reason.contains("consumers")), "{refused}");
        let id = labelled(limits::CLUSTER_QUEUES).id;
        assert!(runs.entry(&id).await.unwrap().is_none(), "it does not begin when there is room");
        assert_eq!(runs.submit(RunSpec { id, ..labelled(0) }).await, Ok(Submission::New), "known queues take more");
        assert_eq!(runs.depths().await.unwrap().len(), limits::CLUSTER_QUEUES);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entry_that_others_change_all_the_time_is_given_up() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        runs.submit(spec("a")).await.unwrap();
        let run = take(&runs, "w").await;
        // A connection of its own, which works while the thread of the other one waits.
        let other = Cluster::new(cluster.options().clone());
        other.connect().await.unwrap();
        let (held, tries) = (Arc::clone(&run.held), Arc::new(AtomicUsize::new(0)));
        let counted = Arc::clone(&tries);
        let contested = |handles: ClusterHandles| async move {
            let change = move |_: &mut RunEntry| {
                counted.fetch_add(1, Ordering::Relaxed);
                let other = other.clone();
                let rewritten = thread::spawn(move || {
                    let rewrite = |handles: ClusterHandles| async move {
                        let (mut stored, revision) = handles.stored_run("a").await?.expect("an entry");
                        handles.store_run(&mut stored, revision).await
                    };
                    Builder::new_current_thread().enable_all().build().unwrap().block_on(with(&other, rewrite))
                });
                assert!(rewritten.join().unwrap().is_some());
            };
            handles.change_held(&held, change).await
        };
        let failed = cluster.shared.call("test", "the server", contested).await.unwrap_err();
        assert!(failed.to_string().contains("others change the entry all the time"), "{failed}");
        assert_eq!(tries.load(Ordering::Relaxed), limits::CLUSTER_CHANGE_TRIES);
        run.finish(answer("done")).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_waits_for_room_in_its_namespace() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        let mut limited = worker("w");
        limited.limits = NamespaceLimits { tokens: Some(100), ..NamespaceLimits::default() };
        let spec =
            |id: &str, tokens| RunSpec { budget: Budget { tokens: Some(tokens), ..Budget::default() }, ..spec(id) };
        runs.submit(spec("a", 60)).await.unwrap();
        let first = runs.take(&limited, LONG).await.unwrap().unwrap();
        runs.submit(spec("b", 60)).await.unwrap();
        runs.submit(spec("never", 101)).await.unwrap();
        assert!(runs.take(&limited, SHORT).await.unwrap().is_none());
        let waits = entry(&runs, "b").await.phase;
        assert!(matches!(&waits, RunPhase::Queued { waits_for: Some(why) } if why.contains("100 tokens")), "{waits:?}");
        assert_eq!(runs.ended("never").await.unwrap().state, RunEndState::Refused);
        first.finish(answer("done")).await.unwrap();
        let second = runs.take(&limited, LONG).await.unwrap().unwrap();
        assert_eq!((second.id(), cluster.counters().reserved().await.unwrap().tokens), ("b", 60));
        second.give_back().await.unwrap();
        assert_eq!(cluster.counters().reserved().await.unwrap().runs, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn labels_and_priorities_decide_who_takes_what() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        let labels = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<BTreeSet<String>>();
        for (id, words, priority) in [
            ("low", &[][..], RunPriority::Low),
            ("both", &["eu", "gpu"][..], RunPriority::Normal),
            ("high", &["gpu"][..], RunPriority::High),
        ] {
            runs.submit(RunSpec { labels: labels(words), priority, ..spec(id) }).await.unwrap();
        }
        let depths: Vec<RunPriority> = runs.depths().await.unwrap().iter().map(|queue| queue.priority).collect();
        assert_eq!(depths, RunPriority::ALL);
        let gpu = WorkerIdentity { labels: labels(&["gpu"]), ..worker("g") };
        let first = runs.take(&gpu, LONG).await.unwrap().unwrap();
        let second = runs.take(&gpu, LONG).await.unwrap().unwrap();
        assert_eq!((first.id(), second.id()), ("high", "low"));
        assert!(runs.take(&gpu, NOW).await.unwrap().is_none());
        let able = WorkerIdentity { labels: labels(&["eu", "gpu", "big"]), ..worker("e") };
        assert_eq!(runs.take(&able, LONG).await.unwrap().unwrap().id(), "both");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_at_work_survives_a_server_that_is_away() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(SHORT).runs();
        runs.submit(spec("a")).await.unwrap();
        let run = take(&runs, "w").await;
        server.kill();
        sleep(SHORT * 2).await;
        server.run();
        run.warn("still there").await.unwrap();
        sleep(SHORT * 2).await;
        assert!(!run.lost().is_cancelled());
        run.finish(answer("done")).await.unwrap();
        assert_eq!(entry(&runs, "a").await.deaths, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn take_that_is_dropped_gives_the_run_back() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        runs.submit(spec("a")).await.unwrap();
        let (mut taken, worker) = (None, worker("w"));
        for millis in 0..40 {
            let take = runs.take(&worker, LONG);
            if let Ok(run) = timeout(Duration::from_millis(millis), take).await {
                taken = run.unwrap();
                break;
            }
        }
        let run = match taken {
            Some(run) => run,
            None => take(&runs, "w").await,
        };
        assert_eq!(run.entry().deaths, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn watcher_sees_each_state_across_a_restart() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        runs.submit(spec("a")).await.unwrap();
        let mut seen = runs.watch("a").await.unwrap();
        let queued = seen.next().await.unwrap().unwrap();
        assert!(matches!(queued.phase, RunPhase::Queued { .. }));
        let run = take(&runs, "w").await;
        assert!(matches!(seen.next().await.unwrap().unwrap().phase, RunPhase::Running { .. }));
        server.kill();
        server.run();
        run.finish(answer("done")).await.unwrap();
        assert!(timeout(LONG, seen.next()).await.unwrap().unwrap().unwrap().ending().is_some());
        assert!(seen.next().await.is_none());
        assert!(matches!(runs.watch("none").await, Err(ClusterError::NotFound { .. })));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs_are_listed_and_old_ones_removed() {
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(LONG).runs();
        let began = SystemTime::now();
        for n in 0..5_u64 {
            let submitted = began + Duration::from_secs(n);
            runs.submit(RunSpec { submitted, ..spec(&format!("a{n}")) }).await.unwrap();
        }
        let ids = |all: Vec<RunEntry>| all.into_iter().map(|entry| entry.spec.id).collect::<Vec<_>>();
        assert_eq!(ids(runs.list(3).await.unwrap()), ["a4", "a3", "a2"]);
        runs.cancel("a1").await.unwrap();
        assert_eq!(runs.remove_ended(LONG).await.unwrap(), 0);
        assert_eq!(runs.remove_ended(NOW).await.unwrap(), 1);
        assert_eq!(ids(runs.list(usize::MAX).await.unwrap()), ["a4", "a3", "a2", "a0"]);
        assert!(runs.entry("a1").await.unwrap().is_none());
    }
}
