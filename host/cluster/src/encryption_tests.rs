//! Encrypted namespaces on a real server. Where it is not there, each test says so and does nothing.

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fmt::Write as _, path::PathBuf, sync::Arc, time::Duration};

    use async_nats::{HeaderMap, jetstream::message::StreamMessage};
    use bytes::Bytes;
    use futures_util::FutureExt;
    use shelly_core::{agent::journal::Recorder, digest::Sha256Digest, limits};
    use shelly_session::{
        JournalAttachment, NewSession, PrunePolicy, SessionError, SessionOpenOptions, SessionStore, SessionStoreOptions,
    };

    use crate::{
        Cluster, ClusterEncryption, ClusterError, ClusterJournals, ClusterOptions, NamespaceLimits, QueuedRunEnd,
        RunCommand, RunEndState, RunReply, RunSpec, SealError, WorkerIdentity,
        connection::{ClusterCallError, ClusterHandles, random_token},
        encryption::{ContentSeals, SealKind, SealPlace},
        nats_server::{self, NatsServer, record},
        run_bus::{command_subject, seal_command},
    };

    const LONG: Duration = Duration::from_secs(60);

    /// A text that no server is to have.
    const SECRET: &str = "the-quick-brown-fox";

    fn store(options: &ClusterOptions) -> SessionStore {
        let journals = ClusterJournals::connect(options.clone()).unwrap_or_else(|error| panic!("{}", error.report()));
        SessionStore::with_journals(Arc::new(journals), "/none", SessionStoreOptions::default())
    }

    /// Creates a session with these records, each in a message of its own.
    async fn write(options: &ClusterOptions, id: &str, texts: &[&str]) {
        let new = NewSession { id: Some(id.into()), agent: SECRET.into(), ..NewSession::default() };
        let session = store(options).create(new).unwrap();
        for text in texts {
            session.kept(session.write(1, &record(text))).await.unwrap();
        }
        session.close().await.unwrap();
    }

    /// Reads a session; an error is the words for it.
    fn read(options: &ClusterOptions, id: &str) -> Result<usize, String> {
        let journal = store(options).read(id).map_err(|error| error.report().to_string())?;
        let lines: Result<Vec<_>, SessionError> = journal.collect();
        lines.map(|lines| lines.len()).map_err(|error| error.report().to_string())
    }

    /// Runs a task with the handles of a connection to this namespace.
    async fn with<T, F>(options: &ClusterOptions, task: impl FnOnce(ClusterHandles) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        nats_server::with(&Cluster::new(options.clone()), task).await
    }

    /// Returns the messages of a session's journal as the server has them.
    async fn messages(options: &ClusterOptions, id: &'static str) -> Vec<StreamMessage> {
        with(options, |handles| async move {
            let token = handles.session_token(id).await?.unwrap_or_default();
            let (subject, mut from, mut all) = (handles.journal_subject(id, &token), 1, Vec::new());
            while let Ok(message) = handles.stream.get_first_raw_message_by_subject(&subject, from).await {
                from = message.sequence + 1;
                all.push(message);
            }
            Ok(all)
        })
        .await
    }

    /// Replaces the messages of a session's journal.
    async fn replace(options: &ClusterOptions, id: &'static str, messages: Vec<(HeaderMap, Bytes)>) {
        with(options, |handles| async move {
            let token = handles.session_token(id).await?.unwrap_or_default();
            let subject = handles.journal_subject(id, &token);
            handles.purge(&subject).await?;
            for (headers, payload) in messages {
                // A server writes without the conditions of a host.
                let mut kept = HeaderMap::new();
                for name in ["Shelly-End", "Shelly-Writer", "Shelly-Written", "Shelly-After"] {
                    if let Some(value) = headers.get(name) {
                        kept.insert(name, value.as_str());
                    }
                }
                let sent = handles.context.publish_with_headers(subject.clone(), kept, payload).await;
                sent.map_err(ClusterCallError::failed)?.await.map_err(ClusterCallError::failed)?;
            }
            Ok(())
        })
        .await;
    }

    /// Returns everything that the streams of a namespace hold, as text.
    async fn everything(options: &ClusterOptions) -> String {
        with(options, |handles| async move {
            let name = format!("shelly-{}", handles.options.namespace);
            let buckets = ["sessions", "leases", "runs", "counters", "kv"].map(|part| format!("KV_{name}-{part}"));
            let streams = [name.clone(), format!("{name}-queue"), format!("OBJ_{name}-objects")];
            let mut all = String::new();
            for stream in streams.into_iter().chain(buckets) {
                let Ok(stream) = handles.context.get_stream(&stream).await else { continue };
                for sequence in 1..=stream.cached_info().state.last_sequence {
                    let Ok(message) = stream.get_raw_message(sequence).await else { continue };
                    let payload = String::from_utf8_lossy(&message.payload);
                    let _ = writeln!(all, "{} {:?} {payload}", message.subject, message.headers);
                }
            }
            Ok(all)
        })
        .await
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn server_never_has_the_plain_text() {
        let Some(server) = NatsServer::start() else { return };
        for is_encrypted in [false, true] {
            let plain = server.options();
            let options = if is_encrypted { server.encrypted(plain, &["a"]) } else { plain };
            write(&options, "s", &[SECRET]).await;
            let digest = Sha256Digest::of(SECRET);
            with(&options, move |handles| async move {
                let token = handles.session_token("s").await?.unwrap_or_default();
                let attachment = || JournalAttachment { digest, bytes: SECRET.as_bytes().to_vec() };
                let of = ("s", &*token);
                assert_eq!(handles.store_attachment(of, &random_token()?, attachment()).await?, SECRET.len() as u64);
                assert_eq!(handles.store_attachment(of, &random_token()?, attachment()).await?, 0, "it is there");
                let read = handles.read_attachment(of, &digest).await?;
                assert_eq!(read.unwrap(), SECRET.as_bytes());
                assert_eq!(handles.list_attachments(of, 9).await?, [(digest, SECRET.len() as u64)]);
                Ok(())
            })
            .await;
            let cluster = Cluster::new(options.clone());
            let stored = cluster.objects().put(Bytes::from_static(SECRET.as_bytes())).await.unwrap();
            assert_eq!(cluster.objects().get(&stored, SECRET.len() as u64).await.unwrap(), SECRET.as_bytes());
            assert!(cluster.objects().contains(&stored).await.unwrap());
            let runs = cluster.runs();
            let spec = RunSpec { submitter: SECRET.into(), ..RunSpec::new("a", "s", Some(SECRET.into())) };
            runs.submit(spec.clone()).await.unwrap();
            runs.submit(spec).await.unwrap();
            let worker = WorkerIdentity { id: "w".into(), labels: BTreeSet::new(), limits: NamespaceLimits::default() };
            let run = runs.take(&worker, LONG).await.unwrap().unwrap();
            assert_eq!(run.entry().spec.task.as_deref(), Some(SECRET));
            assert!(everything(&options).await.contains("queue.normal.-.a"), "the queue needs that");
            let ending = QueuedRunEnd { answer: Some(SECRET.into()), ..QueuedRunEnd::new(RunEndState::Completed) };
            run.finish(ending).await.unwrap();
            assert_eq!(runs.ended("a").await.unwrap().answer.as_deref(), Some(SECRET));
            assert_eq!(runs.list(9).await.unwrap().len(), 1);
            let everything = everything(&options).await;
            assert_eq!(everything.contains(SECRET), !is_encrypted, "{everything}");
            assert_eq!(everything.contains(&digest.hex()), !is_encrypted, "{everything}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn moved_changed_and_missing_messages_are_refused() {
        let Some(server) = NatsServer::start() else { return };
        let options = server.encrypted(server.options(), &["a"]);
        for id in ["s", "t"] {
            write(&options, id, &["one", "two", "six"]).await;
        }
        let parts = |messages: Vec<StreamMessage>| -> Vec<_> {
            messages.into_iter().map(|message| (message.headers, message.payload)).collect()
        };
        let (own, other) = (parts(messages(&options, "s").await), parts(messages(&options, "t").await));
        assert!(own.len() > 3, "each record is a message");
        let whole = read(&options, "s").unwrap();
        let mut changed = own.clone();
        let mut bytes = changed[2].1.to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        changed[2].1 = bytes.into();
        // As long as each other, so only their order is wrong.
        let (mut swapped, mut without) = (own.clone(), own.clone());
        swapped.swap(1, 2);
        without.remove(1);
        for (what, messages, why) in [
            ("another session's", other, "moved from another place"),
            ("changed", changed, "it was changed"),
            ("swapped", swapped, "a message is missing"),
            ("without the second", without, "a message is missing"),
        ] {
            replace(&options, "s", messages).await;
            let refused = read(&options, "s").unwrap_err();
            assert!(refused.contains(why), "{what}: {refused}");
            let opened = store(&options).open("s", SessionOpenOptions::default());
            assert!(opened.is_err(), "{what}: it is not written");
        }
        replace(&options, "s", own.clone()).await;
        assert_eq!(read(&options, "s"), Ok(whole));
        // What a server can do: give an older state.
        replace(&options, "s", own[..own.len() - 1].to_vec()).await;
        assert!(read(&options, "s").unwrap() < whole);
        // The entry of another session.
        with(&options, |handles| async move {
            let (value, _) = handles.value(&handles.entries, "t").await?.unwrap_or_default();
            handles.entries.put("s", value).await.map_err(ClusterCallError::failed)
        })
        .await;
        let refused = read(&options, "s").unwrap_err();
        assert!(refused.contains("the entry of session s does not open"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn keys_are_rotated_and_wrong_ones_are_named() {
        let Some(server) = NatsServer::start() else { return };
        let plain = server.options();
        let host = |keys: &[&str]| server.encrypted(plain.clone(), keys);
        write(&host(&["old"]), "s", &["one"]).await;
        let before = read(&host(&["old"]), "s").unwrap();
        let rotated = host(&["new", "old"]);
        let opened = store(&rotated).open("s", SessionOpenOptions::default()).unwrap();
        opened.session.kept(opened.session.write(1, &record("two"))).await.unwrap();
        opened.session.close().await.unwrap();
        drop(opened);
        assert!(read(&rotated, "s").unwrap() > before);
        for keys in [&["new"][..], &["old"], &["other"]] {
            let refused = read(&host(keys), "s").unwrap_err();
            assert!(refused.contains("which this host does not have"), "{keys:?}: {refused}");
        }
        let refused = read(&plain, "s").unwrap_err();
        assert!(refused.contains("is encrypted with the key"), "{refused}");
        assert!(store(&plain).list(9).unwrap().iter().all(|summary| summary.content.is_err()), "it is listed");
        // Its age is not known here, so it would be the oldest of all.
        let all = PrunePolicy { older_than: Some(Duration::ZERO), unfinished: true, ..PrunePolicy::default() };
        assert_eq!(store(&plain).prune(&all).unwrap().removed, []);
        assert_eq!(store(&rotated).prune(&all).unwrap().removed.len(), 1);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn plain_content_is_refused_unless_it_is_accepted() {
        let Some(server) = NatsServer::start() else { return };
        let plain = server.options();
        write(&plain, "s", &["one"]).await;
        Cluster::new(plain.clone()).runs().submit(RunSpec::new("a", "s", None)).await.unwrap();
        let strict = server.encrypted(plain.clone(), &["a"]);
        let refused = read(&strict, "s").unwrap_err();
        assert!(refused.contains("is not encrypted, although this host has a key"), "{refused}");
        let refused = Cluster::new(strict.clone()).runs().entry("a").await.unwrap_err();
        assert!(matches!(refused, ClusterError::Sealed(SealError::Plain { .. })), "{refused}");
        let encryption =
            strict.encryption.clone().map(|encryption| ClusterEncryption { accept_plain: true, ..encryption });
        let accepting = ClusterOptions { encryption, ..plain.clone() };
        assert!(Cluster::new(accepting.clone()).runs().entry("a").await.unwrap().is_some());
        let opened = store(&accepting).open("s", SessionOpenOptions::default()).unwrap();
        opened.session.kept(opened.session.write(1, &record("another-secret"))).await.unwrap();
        opened.session.close().await.unwrap();
        drop(opened);
        assert!(!everything(&plain).await.contains("another-secret"), "the rest is encrypted");
        assert!(read(&accepting, "s").is_ok() && read(&strict, "s").is_err() && read(&plain, "s").is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn commands_without_the_key_are_not_done() {
        let Some(server) = NatsServer::start() else { return };
        let plain = server.options();
        let cluster = Cluster::new(server.encrypted(plain.clone(), &["a"]));
        let bus = cluster.bus();
        let service = bus.serve("a", |_| async { RunReply::Done }.boxed()).await.unwrap();
        assert_eq!(bus.ask("a", &RunCommand::Cancel).await, Ok(RunReply::Done));
        let foreign = Cluster::new(plain);
        let refused = foreign.bus().ask("a", &RunCommand::Cancel).await.unwrap_err();
        assert!(
            matches!(refused, ClusterError::Sealed(SealError::NoKey { .. })),
            "it cannot read the refusal: {refused}"
        );
        // A command that the server has seen is not done a second time.
        let (command, _) =
            with(
                cluster.options(),
                |handles| async move { Ok(seal_command(&handles.seals, "a", &RunCommand::Cancel)?) },
            )
            .await;
        let subject = command_subject(&cluster.options().namespace, "a");
        let replies = with(cluster.options(), |handles| async move {
            let mut replies = Vec::new();
            for _ in 0..2 {
                let sent = handles.context.client().request(subject.clone(), command.clone()).await;
                let reply = sent.map_err(ClusterCallError::failed)?.payload;
                let tag = ContentSeals::tag_of(&command);
                let place = SealPlace { kind: SealKind::Reply, name: "a", position: &tag };
                let opened = handles.seals.open(place, &reply)?;
                replies.push(String::from_utf8_lossy(&opened).into_owned());
            }
            Ok(replies)
        })
        .await;
        assert!(replies[0].contains("done") && replies[1].contains("received before"), "{replies:?}");
        drop(service);
    }

    #[test]
    fn key_file_that_is_missing_is_named() {
        let Some(server) = NatsServer::start() else { return };
        let key = PathBuf::from("/none/content.key");
        let encryption = ClusterEncryption { key, old_keys: Vec::new(), accept_plain: false };
        let options = ClusterOptions { encryption: Some(encryption), ..server.options() };
        let refused = ClusterJournals::connect(options).unwrap_err().report().to_string();
        assert!(refused.contains("/none/content.key"), "{refused}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn unused_objects_are_removed_when_they_are_old() {
        let Some(server) = NatsServer::start() else { return };
        for keys in [&[][..], &["a"]] {
            let plain = server.options();
            let options = if keys.is_empty() { plain } else { server.encrypted(plain, keys) };
            let cluster = Cluster::new(options.clone());
            let (objects, runs) = (cluster.objects(), cluster.runs());
            let mut digests = Vec::new();
            for bytes in ["used", "unused", "stored again"] {
                digests.push(objects.put(Bytes::from(bytes)).await.unwrap());
            }
            runs.submit(RunSpec { bundle: Some(digests[0]), ..RunSpec::new("a", "s", None) }).await.unwrap();
            let named = runs.objects().await.unwrap();
            assert_eq!((named.bundles.len(), named.files.len(), named.unreadable.total()), (1, 0, 0));
            let pruned = objects.remove_unused(named.bundles.clone(), Duration::ZERO).await.unwrap();
            assert_eq!((pruned.removed, pruned.kept), (0, 3), "none is older than {:?}", limits::CLUSTER_OBJECT_KEPT);
            // The age is that of the bound otherwise.
            let used = Arc::new(named.bundles);
            let prune = |most| {
                let used = Arc::clone(&used);
                with(&options, move |handles| async move { handles.prune_objects(&used, Duration::ZERO, most).await })
            };
            let pruned = prune(2).await;
            assert_eq!((pruned.removed, pruned.kept), (1, 1), "no more than two are looked at");
            let pruned = prune(limits::CLUSTER_OBJECTS_LISTED).await;
            assert_eq!((pruned.removed, pruned.kept), (1, 1));
            assert!(objects.contains(&digests[0]).await.unwrap() && !objects.contains(&digests[1]).await.unwrap());
            assert_eq!(objects.get(&digests[0], 99).await.unwrap(), "used");
            assert!(matches!(objects.get(&digests[1], 99).await, Err(ClusterError::NotFound { .. })));
            assert!(objects.is_stored(&digests[0]).await.unwrap() && !objects.is_stored(&digests[1]).await.unwrap());
            assert_eq!(objects.put(Bytes::from("stored again")).await.unwrap(), digests[2]);
            assert_eq!(objects.get(&digests[2], 99).await.unwrap(), "stored again");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn entries_of_later_versions_are_counted_and_left() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        write(cluster.options(), "fine", &[]).await;
        cluster.runs().submit(RunSpec::new("fine", "s", None)).await.unwrap();
        let later = |handles: ClusterHandles| async move {
            let value = Bytes::from_static(br#"{"version":2,"another":"form"}"#);
            let runs = &handles.run_streams().await?.entries;
            for (store, key) in [(runs, "new"), (handles.workers().await?, "new"), (&handles.entries, "new")] {
                store.put(key, value.clone()).await.map_err(ClusterCallError::failed)?;
            }
            // And a message of the queue that says more than an id.
            let subject = format!("{}normal.-.new", handles.queue_prefix());
            let sent = handles.context.publish(subject, value).await.map_err(ClusterCallError::failed)?;
            sent.await.map_err(ClusterCallError::failed)
        };
        cluster.shared.call("test", "the server", later).await.unwrap();
        let newer = cluster.newer_entries().await.unwrap();
        assert_eq!((newer.runs, newer.workers, newer.sessions), (1, 1, 1));
        let worker = WorkerIdentity { id: "w".into(), labels: BTreeSet::new(), limits: NamespaceLimits::default() };
        let run = cluster.runs().take(&worker, LONG).await.unwrap().unwrap();
        assert_eq!(run.id(), "fine");
        assert!(cluster.runs().take(&worker, Duration::ZERO).await.unwrap().is_none());
        assert_eq!(cluster.runs().depths().await.unwrap()[0].taken, 2, "the later message is offered again");
        assert_eq!(cluster.runs().list(9).await.unwrap().len(), 1);
        assert!(cluster.workers().list().await.unwrap().is_empty());
        let sessions = store(cluster.options());
        assert_eq!(sessions.list(9).unwrap().len(), 2);
        assert!(sessions.open("new", SessionOpenOptions::default()).is_err());
        assert_eq!(cluster.runs().objects().await.unwrap().unreadable.newer, 1);
        assert_eq!(cluster.newer_entries().await.unwrap(), newer, "nothing was changed");
    }
}
