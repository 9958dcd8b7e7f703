//! Objects, workers, the bus and the streams of a namespace on a real server.

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        sync::{Arc, Mutex},
        time::{Duration, Instant, SystemTime},
    };

    use async_nats::jetstream::{object_store::ObjectMetadata, stream::Config};
    use bytes::Bytes;
    use futures_util::{FutureExt, StreamExt, future::join_all};
    use serde_json::json;
    use shelly_core::{digest::Sha256Digest, limits};
    use shelly_session::{JournalStorage, NewSession, SessionStore, SessionStoreOptions};
    use tokio::time::{sleep, timeout};
    use tokio_util::sync::CancellationToken;

    use crate::{
        Cluster, ClusterError, ClusterOptions, NamespaceLimits, QueuedRunEnd, RunCommand, RunEndState, RunOffer,
        RunReply, RunSpec, WorkerEntry, WorkerIdentity, WorkerState, connection::ClusterCallError,
        nats_server::NatsServer, run_entry::StoredRun,
    };

    const LONG: Duration = Duration::from_secs(60);

    fn worker(id: &str) -> WorkerEntry {
        WorkerEntry {
            id: id.into(),
            host: "h".into(),
            pid: 7,
            version: "0.1.0".into(),
            labels: BTreeSet::new(),
            jobs: 2,
            running: Vec::new(),
            state: WorkerState::Working,
            started: SystemTime::UNIX_EPOCH,
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn object_is_what_its_digest_says() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let objects = cluster.objects();
        for bytes in [Vec::new(), b"small".to_vec(), vec![7; 3 * limits::CLUSTER_OBJECT_PART + 1]] {
            let bytes = Bytes::from(bytes);
            let digest = objects.put(bytes.clone()).await.unwrap();
            assert_eq!(objects.put(bytes.clone()).await.unwrap(), digest, "once more");
            assert!(objects.contains(&digest).await.unwrap());
            assert_eq!(objects.get(&digest, u64::MAX).await.unwrap(), bytes);
            let most = bytes.len() as u64;
            assert_eq!(objects.get(&digest, most).await.unwrap(), bytes);
            if most > 0 {
                assert!(matches!(objects.get(&digest, most - 1).await, Err(ClusterError::TooLarge { .. })));
            }
        }
        let missing = Sha256Digest::of(b"missing");
        assert!(!objects.contains(&missing).await.unwrap());
        assert!(matches!(objects.get(&missing, 9).await, Err(ClusterError::NotFound { .. })));
        let large = Bytes::from(vec![0; usize::try_from(limits::CLUSTER_OBJECT_BYTES).unwrap() + 1]);
        assert!(matches!(objects.put(large).await, Err(ClusterError::TooLarge { .. })));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn object_that_was_exchanged_is_refused() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let objects = cluster.objects();
        let digest = objects.put(Bytes::from_static(b"a config")).await.unwrap();
        let linked = objects.put(Bytes::from_static(b"another")).await.unwrap();
        let bucket = format!("shelly-{}-objects", cluster.options().namespace);
        let exchange = |handles: crate::connection::ClusterHandles| async move {
            let store = handles.context.get_object_store(&bucket).await.map_err(ClusterCallError::failed)?;
            let metadata = ObjectMetadata { name: digest.hex(), ..ObjectMetadata::default() };
            store.put(metadata, &mut &b"a virus!"[..]).await.map_err(ClusterCallError::failed)?;
            store.delete(linked.hex()).await.map_err(ClusterCallError::failed)
        };
        cluster.shared.call("test", "the server", exchange).await.unwrap();
        let refused = objects.get(&digest, 99).await.unwrap_err();
        assert!(refused.to_string().contains("other bytes under this digest"), "{refused}");
        assert!(matches!(objects.get(&linked, 99).await, Err(ClusterError::NotFound { .. })));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn object_without_its_parts_is_refused_soon() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let objects = cluster.objects();
        let digest = objects.put(Bytes::from_static(b"a config")).await.unwrap();
        let bucket = format!("shelly-{}-objects", cluster.options().namespace);
        let of_bucket = bucket.clone();
        let describe = |handles: crate::connection::ClusterHandles| async move {
            let stream =
                handles.context.get_stream(format!("OBJ_{of_bucket}")).await.map_err(ClusterCallError::failed)?;
            let there = stream.get_last_raw_message_by_subject(&format!("$O.{of_bucket}.M.>")).await;
            let there = there.map_err(ClusterCallError::failed)?;
            let other = String::from_utf8_lossy(&there.payload).replace("SHA-256=", "SHA-256=x");
            let sent = handles.context.publish(there.subject, other.into()).await.map_err(ClusterCallError::failed)?;
            sent.await.map(drop).map_err(ClusterCallError::failed)
        };
        cluster.shared.call("test", "the server", describe).await.unwrap();
        let began = Instant::now();
        let refused = objects.get(&digest, 99).await.unwrap_err();
        assert!(refused.to_string().contains("not what its description says"), "{refused}");
        let remove = |handles: crate::connection::ClusterHandles| async move {
            let stream = handles.context.get_stream(format!("OBJ_{bucket}")).await.map_err(ClusterCallError::failed)?;
            let parts = format!("$O.{bucket}.C.>");
            stream.purge().filter(parts).await.map(drop).map_err(ClusterCallError::failed)
        };
        cluster.shared.call("test", "the server", remove).await.unwrap();
        let refused = objects.get(&digest, 99).await.unwrap_err();
        assert!(refused.to_string().contains("lacks a part"), "{refused}");
        assert!(began.elapsed() < cluster.options().retry, "neither is waited for as for a server that is away");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn foreign_descriptions_remove_no_object_in_use() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let objects = cluster.objects();
        let unused = objects.put(Bytes::from_static(b"unused")).await.unwrap();
        let used = objects.put(Bytes::from_static(b"used")).await.unwrap();
        let bucket = format!("shelly-{}-objects", cluster.options().namespace);
        let prune = |handles: crate::connection::ClusterHandles| async move {
            let stream = handles.context.get_stream(format!("OBJ_{bucket}")).await.map_err(ClusterCallError::failed)?;
            let there = stream.get_last_raw_message_by_subject(&format!("$O.{bucket}.M.>")).await;
            // Another name with the parts of the object in use, and a subject that stands for all descriptions.
            let other =
                String::from_utf8_lossy(&there.map_err(ClusterCallError::failed)?.payload).replace(&used.hex(), "x");
            for subject in ["eA==", "*"] {
                let subject = format!("$O.{bucket}.M.{subject}");
                let sent = handles.context.publish(subject, other.clone().into()).await;
                sent.map_err(ClusterCallError::failed)?.await.map_err(ClusterCallError::failed)?;
            }
            handles.prune_objects(&BTreeSet::from([used]), Duration::ZERO, limits::CLUSTER_OBJECTS_LISTED).await
        };
        let pruning = cluster.shared.call("test", "the server", prune).await.unwrap();
        assert_eq!((pruning.removed, pruning.kept), (2, 1), "the unused one and the one of the other name");
        assert_eq!(objects.get(&used, 99).await.unwrap(), "used");
        assert!(matches!(objects.get(&unused, 99).await, Err(ClusterError::NotFound { .. })));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn workers_are_there_until_they_leave_or_die() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(Duration::from_secs(1));
        let workers = cluster.workers();
        assert!(workers.list().await.unwrap().is_empty());
        assert!(matches!(workers.announce(worker("W")).await, Err(ClusterError::Invalid { .. })));
        let presence = workers.announce(worker("b")).await.unwrap();
        let other = workers.announce(worker("a")).await.unwrap();
        assert_eq!(workers.list().await.unwrap(), [worker("a"), worker("b")]);
        presence.update(|entry| entry.state = WorkerState::Draining);
        let began = Instant::now();
        while workers.list().await.unwrap().iter().all(|entry| entry.state == WorkerState::Working) {
            assert!(began.elapsed() < LONG, "the change is not sent");
        }
        sleep(Duration::from_secs(3)).await;
        assert_eq!(workers.list().await.unwrap().len(), 2, "both are renewed");
        presence.leave().await;
        assert_eq!(workers.list().await.unwrap(), [worker("a")]);
        drop(other);
        while !workers.list().await.unwrap().is_empty() {
            assert!(began.elapsed() < LONG, "the entry stays");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn commands_are_answered_by_the_worker_of_the_run() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let (bus, elsewhere) = (cluster.bus(), Cluster::new(cluster.options().clone()).bus());
        assert!(matches!(elsewhere.ask("a", &RunCommand::Questions).await, Err(ClusterError::NotAtWork { .. })));
        let heard = Arc::new(Mutex::new(Vec::new()));
        let of_handler = Arc::clone(&heard);
        let service = bus.serve("a", move |command| {
            let heard = Arc::clone(&of_handler);
            async move {
                heard.lock().unwrap().push(command.clone());
                match command {
                    RunCommand::Questions => RunReply::Questions { questions: vec![json!({ "id": "q" })] },
                    RunCommand::Snapshot => {
                        RunReply::Snapshot { snapshot: json!("x".repeat(limits::CLUSTER_REPLY_BYTES)) }
                    }
                    _ => RunReply::Done,
                }
            }
            .boxed()
        });
        let service = service.await.unwrap();
        let message = RunCommand::Message { id: Some("m".into()), agent: None, text: "hi".into() };
        for _ in 0..2 {
            assert_eq!(elsewhere.ask("a", &message).await, Ok(RunReply::Done), "its reply may have been lost");
        }
        let questions = elsewhere.ask("a", &RunCommand::Questions).await.unwrap();
        assert_eq!(questions, RunReply::Questions { questions: vec![json!({ "id": "q" })] });
        assert_eq!(*heard.lock().unwrap(), [message, RunCommand::Questions]);
        let refused = elsewhere.ask("a", &RunCommand::Snapshot).await.unwrap();
        assert!(matches!(&refused, RunReply::Refused { reason } if reason.contains("more than")), "{refused:?}");
        let long = RunCommand::Message { id: None, agent: None, text: "x".repeat(limits::CLUSTER_COMMAND_BYTES) };
        assert!(matches!(elsewhere.ask("a", &long).await, Err(ClusterError::TooLarge { .. })));
        drop(service);
        let began = Instant::now();
        while !matches!(elsewhere.ask("a", &RunCommand::Cancel).await, Err(ClusterError::NotAtWork { .. })) {
            assert!(began.elapsed() < LONG, "the service does not end");
        }
        assert!(matches!(elsewhere.ask("a.b", &RunCommand::Cancel).await, Err(ClusterError::Invalid { .. })));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn no_more_commands_are_answered_at_once_than_allowed() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let counts = Arc::new(Mutex::new((0_usize, 0_usize)));
        let of_handler = Arc::clone(&counts);
        let bus = cluster.bus();
        let service = bus.serve("a", move |_| {
            let counts = Arc::clone(&of_handler);
            async move {
                {
                    let mut counts = counts.lock().unwrap();
                    counts.0 += 1;
                    counts.1 = counts.1.max(counts.0);
                }
                sleep(Duration::from_millis(500)).await;
                counts.lock().unwrap().0 -= 1;
                RunReply::Done
            }
            .boxed()
        });
        let _service = service.await.unwrap();
        let asking: Vec<_> = (0..limits::CLUSTER_COMMANDS_AT_ONCE * 2)
            .map(|_| {
                let bus = cluster.bus();
                tokio::spawn(async move { bus.ask("a", &RunCommand::Questions).await })
            })
            .collect();
        for asked in asking {
            assert_eq!(asked.await.unwrap(), Ok(RunReply::Done));
        }
        assert_eq!(counts.lock().unwrap().1, limits::CLUSTER_COMMANDS_AT_ONCE);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn live_events_reach_those_who_follow() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let (bus, elsewhere) = (cluster.bus(), Cluster::new(cluster.options().clone()).bus());
        bus.publish("a", Bytes::from_static(b"nobody follows")).await.unwrap();
        let mut events = elsewhere.follow("a").await.unwrap();
        // Another program may publish anything.
        let subject = format!("shelly.{}.bus.run.a.events", cluster.options().namespace);
        let long = |handles: crate::connection::ClusterHandles| async move {
            let payload = vec![b'x'; limits::CLUSTER_EVENT_LINE_BYTES + 1];
            handles.context.client().publish(subject, payload.into()).await.map_err(ClusterCallError::failed)
        };
        cluster.shared.call("test", "the server", long).await.unwrap();
        let too_long = Bytes::from(vec![b'x'; limits::CLUSTER_EVENT_LINE_BYTES + 1]);
        assert!(matches!(bus.publish("a", too_long).await, Err(ClusterError::TooLarge { .. })));
        bus.publish("b", Bytes::from_static(b"of another run")).await.unwrap();
        bus.publish("a", Bytes::from_static(b"one")).await.unwrap();
        assert_eq!(timeout(LONG, events.next()).await.unwrap().unwrap(), "one");
        server.kill();
        server.run();
        let began = Instant::now();
        let next = loop {
            bus.publish("a", Bytes::from_static(b"two")).await.unwrap();
            if let Ok(next) = timeout(Duration::from_millis(200), events.next()).await {
                break next;
            }
            assert!(began.elapsed() < LONG, "the subscription does not come back");
        };
        assert_eq!(next.unwrap(), "two");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn events_that_nobody_reads_take_a_bounded_room() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let (bus, elsewhere) = (cluster.bus(), Cluster::new(cluster.options().clone()).bus());
        let (mut long, mut short) = (elsewhere.follow("a").await.unwrap(), elsewhere.follow("b").await.unwrap());
        let line = Bytes::from(vec![b'x'; limits::CLUSTER_EVENT_LINE_BYTES]);
        let published = 2 * limits::CLUSTER_FOLLOWED_BYTES / limits::CLUSTER_EVENT_LINE_BYTES;
        for _ in 0..published {
            bus.publish("a", line.clone()).await.unwrap();
        }
        for _ in 0..2 * limits::CLUSTER_FOLLOWED_EVENTS {
            bus.publish("b", Bytes::new()).await.unwrap();
        }
        // Each follower gets the messages of the connection in their order: when the last one is here, all are.
        let mut end = elsewhere.follow("end").await.unwrap();
        let began = Instant::now();
        while timeout(Duration::from_millis(100), end.next()).await.is_err() {
            bus.publish("end", Bytes::new()).await.unwrap();
            assert!(began.elapsed() < LONG, "the connection is silent");
        }
        for (events, most) in [(&mut long, published), (&mut short, 2 * limits::CLUSTER_FOLLOWED_EVENTS)] {
            let mut read = 0;
            while let Ok(Some(_)) = timeout(Duration::from_millis(500), events.next()).await {
                read += 1;
            }
            assert!((1..most).contains(&read), "{read} of {most}");
        }
        bus.publish("a", Bytes::from_static(b"later")).await.unwrap();
        assert_eq!(timeout(LONG, long.next()).await.unwrap().unwrap(), "later", "there is room again");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn stream_of_an_earlier_version_is_narrowed() {
        let Some(server) = NatsServer::start() else { return };
        let options = server.options();
        let namespace = options.namespace.clone();
        let client = async_nats::connect(&options.servers[0]).await.unwrap();
        let context = async_nats::jetstream::new(client);
        let subjects = vec![format!("shelly.{namespace}.>")];
        let config = Config { name: format!("shelly-{namespace}"), subjects, ..Config::default() };
        context.create_stream(config).await.unwrap();
        let journals = crate::ClusterJournals::connect(options.clone()).unwrap();
        let options_of_store = SessionStoreOptions::default();
        let store = SessionStore::with_journals(Arc::new(journals), "/none", options_of_store);
        drop(store.create(NewSession { id: Some("s".into()), ..NewSession::default() }).unwrap());
        // The queue is a stream of its own, and both share one connection.
        let cluster = Cluster::new(options);
        cluster.connect().await.unwrap();
        cluster.runs().submit(RunSpec::new("a", "s", None)).await.unwrap();
        assert_eq!(cluster.journals().names().unwrap(), ["s"]);
        let sizes = cluster.sizes().await.unwrap();
        let queue = sizes.iter().find(|size| size.name == format!("shelly-{namespace}-queue")).unwrap();
        assert_eq!(queue.messages, 1);
        let stream = context.get_stream(format!("shelly-{namespace}")).await.unwrap();
        assert!(!stream.cached_info().config.subjects.contains(&format!("shelly.{namespace}.>")));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn unreadable_reservations_stop_no_worker_without_limits() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        let garbage = |handles: crate::connection::ClusterHandles| async move {
            let counters = &handles.run_streams().await?.counters;
            counters.put("runs", Bytes::from_static(b"garbage")).await.map_err(ClusterCallError::failed)
        };
        cluster.shared.call("test", "the server", garbage).await.unwrap();
        let none = NamespaceLimits::default();
        let worker = WorkerIdentity { id: "w".into(), labels: BTreeSet::new(), limits: none };
        runs.submit(RunSpec::new("a", "s", Some("do it".into()))).await.unwrap();
        runs.cancel("a").await.unwrap();
        assert!(runs.take(&worker, Duration::ZERO).await.unwrap().is_none(), "its message is answered");
        runs.submit(RunSpec::new("b", "s", Some("do it".into()))).await.unwrap();
        let taken = runs.take(&worker, LONG).await.unwrap().expect("a run");
        taken.finish(QueuedRunEnd::new(RunEndState::Completed)).await.unwrap();
        runs.submit(RunSpec::new("c", "s", Some("do it".into()))).await.unwrap();
        let limited = WorkerIdentity { limits: NamespaceLimits { runs: Some(9), ..none }, ..worker };
        let refused = runs.take(&limited, Duration::ZERO).await.unwrap_err();
        assert!(refused.to_string().contains("the reservations of the namespace"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn number_beyond_all_entries_hides_no_run() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let entry_alone = |handles: crate::connection::ClusterHandles| async move {
            let streams = handles.run_streams().await?;
            let number = Bytes::from(u64::MAX.to_string());
            streams.counters.put("repaired", number).await.map_err(ClusterCallError::failed)?;
            // Its submitter died before it had put the message.
            let value = StoredRun::new(RunSpec::new("a", "s", Some("do it".into()))).stamped("0a".into());
            handles.create(&streams.entries, "a", &Bytes::from(value)).await?;
            handles.repair_queue().await
        };
        cluster.shared.call("test", "the server", entry_alone).await.unwrap();
        let depths = cluster.runs().depths().await.unwrap();
        assert_eq!(depths.iter().map(|queue| queue.waiting).sum::<u64>(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn full_queue_refuses_a_run_and_forgets_it() {
        let Some(server) = NatsServer::start() else { return };
        let options = server.options();
        let name = format!("shelly-{}-queue", options.namespace);
        let cluster = Cluster::new(options);
        let runs = cluster.runs();
        runs.submit(RunSpec::new("a", "s", None)).await.unwrap();
        // The true bound would take minutes to meet.
        let narrow = |handles: crate::connection::ClusterHandles| async move {
            let stream = handles.context.get_stream(&name).await.map_err(ClusterCallError::failed)?;
            let config = stream.cached_info().config.clone();
            let most = config.max_messages;
            let narrower = Config { max_messages: 1, ..config };
            handles.context.update_stream(narrower).await.map_err(ClusterCallError::failed)?;
            Ok(most)
        };
        let most = cluster.shared.call("test", "the server", narrow).await.unwrap();
        assert_eq!(most, i64::try_from(limits::CLUSTER_QUEUED_RUNS).unwrap());
        assert!(matches!(runs.submit(RunSpec::new("b", "s", None)).await, Err(ClusterError::Refused { .. })));
        assert!(runs.entry("b").await.unwrap().is_none(), "it does not begin when there is room");
        assert!(runs.submit(RunSpec::new("a", "s", None)).await.is_ok(), "one that is queued is known");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_without_room_holds_up_no_repair() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        cluster.runs().submit(RunSpec::new("a", "s", None)).await.unwrap();
        let repair = |handles: crate::connection::ClusterHandles| async move {
            let streams = handles.run_streams().await?;
            let name = format!("shelly-{}-queue", handles.options.namespace);
            let stream = handles.context.get_stream(&name).await.map_err(ClusterCallError::failed)?;
            let config = stream.cached_info().config.clone();
            let narrower = Config { max_messages: 1, ..config.clone() };
            handles.context.update_stream(narrower).await.map_err(ClusterCallError::failed)?;
            // The submitters died before they had put the messages.
            for id in ["b", "c"] {
                let value = StoredRun::new(RunSpec::new(id, "s", None)).stamped("0a".into());
                handles.create(&streams.entries, id, &Bytes::from(value)).await?;
            }
            handles.repair_queue().await?;
            let looked = handles.leader_value(&streams.counters, "repaired").await?;
            handles.context.update_stream(config).await.map_err(ClusterCallError::failed)?;
            handles.repair_queue().await?;
            Ok((looked, handles.leader_value(&streams.counters, "without_room").await?))
        };
        let (looked, left) = cluster.shared.call("test", "the server", repair).await.unwrap();
        assert_eq!(looked.map(|(value, _)| value), Some(Bytes::from("3")), "it goes on with the entries behind them");
        assert_eq!(left.map(|(value, _)| value), Some(Bytes::new()), "they are tried again");
        let depths = cluster.runs().depths().await.unwrap();
        assert_eq!(depths.iter().map(|queue| queue.waiting).sum::<u64>(), 3);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn runs_of_a_dead_worker_are_waited_for_at_the_same_time() {
        const RUNS: usize = 4;
        let Some(server) = NatsServer::start() else { return };
        let runs = server.cluster(Duration::from_secs(4)).runs();
        let of =
            |id: &str| WorkerIdentity { id: id.into(), labels: BTreeSet::new(), limits: NamespaceLimits::default() };
        for n in 0..RUNS {
            runs.submit(RunSpec::new(format!("r{n}"), "s", None)).await.unwrap();
            // Dropped as if its worker had died.
            drop(runs.take(&of("w"), LONG).await.unwrap().expect("a run"));
        }
        // None of them is taken before all are found: each waits on its own.
        let (mut left, began) = (Vec::new(), Instant::now());
        while left.len() < RUNS {
            match runs.next_offer(&of("v")).await.unwrap() {
                Some(RunOffer::Left(run)) => left.push(run),
                Some(RunOffer::Taken(run)) => panic!("{run:?} is taken without a wait"),
                None => sleep(limits::CLUSTER_RETRY_PAUSE).await,
            }
            assert!(began.elapsed() < LONG, "{left:?}");
        }
        let other = left.pop().expect("a run");
        let (wanted, abandoned) = (CancellationToken::new(), CancellationToken::new());
        let taken = join_all(left.into_iter().map(|run| run.take(&wanted))).await;
        let deaths: Vec<_> =
            taken.iter().map(|run| run.as_ref().unwrap().as_ref().map(|run| run.entry().deaths)).collect();
        assert_eq!(deaths, vec![Some(1); RUNS - 1]);
        // One that nobody wants any more is offered to others at once, and is no death.
        let id = other.id().to_owned();
        abandoned.cancel();
        assert!(other.take(&abandoned).await.unwrap().is_none());
        let other = loop {
            match runs.next_offer(&of("u")).await.unwrap() {
                Some(RunOffer::Left(run)) => break run,
                other => assert!(other.is_none() && began.elapsed() < LONG, "{other:?}"),
            }
        };
        assert_eq!((other.id(), runs.entry(&id).await.unwrap().unwrap().deaths), (&*id, 0));
        // One that was cancelled meanwhile has ended.
        runs.cancel(&id).await.unwrap();
        assert!(other.take(&wanted).await.unwrap().is_none());
        assert_eq!(runs.ended(&id).await.unwrap().state, RunEndState::Cancelled);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lease_of_a_namespace_is_that_of_its_first_host() {
        let Some(server) = NatsServer::start() else { return };
        let first = server.cluster(LONG);
        first.connect().await.unwrap();
        let later = Cluster::new(ClusterOptions { lease: LONG / 2, ..first.options().clone() });
        assert_eq!(later.lease().await, Ok(LONG));
    }
}
