//! Sessions on a real server, which `tests/cluster/nats-server.sh` gets. Where it is not there, each test says so and does
//! nothing.

#[cfg(test)]
mod tests {
    use std::{
        path::PathBuf,
        sync::Arc,
        thread,
        time::{Duration, Instant},
    };

    use async_nats::HeaderMap;
    use bytes::Bytes;
    use shelly_core::agent::journal::Recorder;
    use shelly_session::{
        JournalStorage, NewSession, SessionError, SessionOpenOptions, SessionStore, SessionStoreOptions,
        storage_contract::{StorageFixture, failed_checks},
    };

    use crate::{
        ClusterJournals, ClusterOptions,
        connection::ClusterCallError,
        nats_server::{NatsServer, record},
    };

    /// A namespace of its own.
    struct Namespace {
        server: Arc<NatsServer>,
        options: ClusterOptions,
    }

    impl Namespace {
        fn new(server: &Arc<NatsServer>) -> Self {
            Self { server: Arc::clone(server), options: server.options() }
        }

        fn connect(&self) -> ClusterJournals {
            ClusterJournals::connect(self.options.clone()).unwrap_or_else(|error| panic!("{}", error.report()))
        }

        fn store(&self) -> SessionStore {
            store(self.connect())
        }
    }

    impl StorageFixture for Namespace {
        fn storage(&self) -> Arc<dyn JournalStorage> {
            Arc::new(self.connect())
        }

        fn revoke_lease(&self, id: &str) -> bool {
            self.connect().revoke_lease(id).unwrap()
        }

        fn set_failing(&self, is_failing: bool) -> bool {
            match is_failing {
                true => self.server.kill(),
                false => self.server.run(),
            }
            true
        }
    }

    fn store(journals: ClusterJournals) -> SessionStore {
        SessionStore::with_journals(Arc::new(journals), "/none", SessionStoreOptions::default())
    }

    fn named(id: &str) -> NewSession {
        NewSession { id: Some(id.into()), ..NewSession::default() }
    }

    #[test]
    fn cluster_storage_passes_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        let failed = failed_checks(|| {
            let mut namespace = Namespace::new(&server);
            // A check waits for a server that it has killed.
            namespace.options.retry = Duration::from_secs(2);
            Box::new(namespace)
        });
        assert_eq!(failed, []);
    }

    #[test]
    fn encrypted_cluster_storage_passes_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        let failed = failed_checks(|| {
            let mut namespace = Namespace::new(&server);
            namespace.options = server.encrypted(namespace.options, &["new", "old"]);
            namespace.options.retry = Duration::from_secs(2);
            Box::new(namespace)
        });
        assert_eq!(failed, []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_survives_a_server_that_is_killed() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = Namespace::new(&server);
        let session = namespace.store().create(named("a.b")).unwrap();
        for n in 0..40 {
            let position = session.write(1, &record(&n.to_string()));
            if n == 20 {
                server.kill();
                let server = Arc::clone(&server);
                thread::spawn(move || {
                    thread::sleep(Duration::from_millis(300));
                    server.run();
                });
            }
            session.kept(position).await.unwrap();
        }
        session.close().await.unwrap();
        drop(session);
        let opened = namespace.store().open("a.b", SessionOpenOptions::default()).unwrap();
        let expected: Vec<_> = (0..40).map(|n| (1, record(&n.to_string()))).collect();
        assert_eq!(opened.records, expected, "each record once, in order");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lease_is_refreshed_until_its_host_dies() {
        let Some(server) = NatsServer::start() else { return };
        let mut namespace = Namespace::new(&server);
        namespace.options.lease = Duration::from_secs(1);
        let session = namespace.store().create(named("s")).unwrap();
        let other = namespace.store();
        let began = Instant::now();
        while began.elapsed() < namespace.options.lease * 3 {
            assert!(other.is_in_use("s"), "after {:?}", began.elapsed());
            thread::sleep(Duration::from_millis(100));
        }
        session.close().await.unwrap();
        drop(session);
        // Nobody refreshes or releases this one, as if its host had died.
        std::mem::forget(namespace.connect().take("s").unwrap());
        assert!(matches!(other.open("s", SessionOpenOptions::default()), Err(SessionError::InUse { .. })));
        let opened = loop {
            match other.open("s", SessionOpenOptions::default()) {
                Err(SessionError::InUse { .. }) => thread::sleep(Duration::from_millis(100)),
                opened => break opened.unwrap(),
            }
            assert!(began.elapsed() < Duration::from_secs(30), "the lease does not end");
        };
        opened.session.kept(opened.session.write(1, &record("more"))).await.unwrap();
    }

    #[test]
    fn hosts_keep_to_the_lease_of_the_namespace() {
        let Some(server) = NatsServer::start() else { return };
        let mut namespace = Namespace::new(&server);
        let lease_with = |namespace: &Namespace| namespace.connect().connection().unwrap().handles().options.lease;
        namespace.options.lease = Duration::from_secs(3);
        assert_eq!(lease_with(&namespace), Duration::from_secs(3));
        namespace.options.lease = Duration::from_secs(30);
        assert_eq!(lease_with(&namespace), Duration::from_secs(3), "a host with another config");
    }

    #[test]
    fn garbage_on_the_server_is_an_error_and_no_panic() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = Namespace::new(&server);
        let journals = namespace.connect();
        let store = store(journals.clone());
        drop(store.create(named("s")).unwrap());
        drop(store.create(named("fine")).unwrap());
        let subject = {
            let id = "s";
            let token = journals.token_of(id);
            journals.publish_as(&format!("shelly.{}.session.{id}.{token}", namespace.options.namespace))
        };
        for (end, payload) in [
            (None, "no header"),
            (Some("x"), "no number"),
            (Some("1"), "longer than what is before"),
            (Some("18446744073709551615"), "far away"),
            (Some("100000"), "a gap"),
        ] {
            subject(end, payload.into());
            let read = store.read("s").and_then(|journal| journal.collect::<Result<Vec<_>, _>>());
            assert!(
                matches!(read, Err(SessionError::Damaged { .. } | SessionError::Storage { .. })),
                "{payload}: {read:?}"
            );
            journals.remove_last("s");
        }
        for value in ["", "{}", "\u{0}", &"x".repeat(600 << 10)] {
            journals.put_entry("s", Bytes::from(value.to_owned()));
            assert!(store.read("s").is_err() && store.open("s", SessionOpenOptions::default()).is_err());
            let list = store.list(9).unwrap();
            assert_eq!(list.iter().filter(|summary| summary.content.is_ok()).count(), 1, "the other one is listed");
            assert_eq!(list.len(), 2);
        }
        assert_eq!(store.read("fine").unwrap().count(), 0);
        assert!(store.remove("s").unwrap().is_some(), "what cannot be read can be removed");
        assert_eq!(store.list(9).unwrap().len(), 1);
    }

    #[test]
    fn wildcards_in_subjects_remove_no_session() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = Namespace::new(&server);
        let journals = namespace.connect();
        let store = store(journals.clone());
        drop(store.create(named("s")).unwrap());
        let token = journals.token_of("s");
        // The server stores what is published there, and says so.
        for subject in ["*.*".to_owned(), format!("*.{token}"), "s.*".into(), "s.>".into(), "a.b".into()] {
            let publish = journals.publish_as(&format!("shelly.{}.session.{subject}", namespace.options.namespace));
            // Its time is long ago, so that it is an old leftover.
            publish(Some("2"), Bytes::from_static(b"x\n"));
        }
        // Neither is a message that is none of a journal, nor a key that no session can have, in the way of others.
        let publish = journals.publish_as(&format!("shelly.{}.session.old.0a", namespace.options.namespace));
        publish(None, Bytes::from_static(b"no header"));
        let publish = journals.publish_as(&format!("$KV.shelly-{}-sessions.*", namespace.options.namespace));
        publish(None, Bytes::from_static(b"{}"));
        assert!(journals.remove_leftovers().unwrap().is_empty());
        assert_eq!(journals.names().unwrap(), ["s"]);
        assert_eq!((store.list(9).unwrap().len(), store.read("s").unwrap().count()), (1, 0));
    }

    #[test]
    fn server_that_is_not_there_is_named() {
        let Some(server) = NatsServer::start() else { return };
        let options = server.options();
        server.kill();
        let refused = ClusterJournals::connect(options.clone()).unwrap_err();
        assert!(refused.report().to_string().contains(&options.servers[0]), "{}", refused.report());
        let wrong = ClusterOptions { namespace: "a.b".into(), ..options };
        let refused = ClusterJournals::connect(wrong).unwrap_err();
        assert!(refused.report().to_string().contains("the namespace must have"), "{}", refused.report());
    }

    impl ClusterJournals {
        fn token_of(&self, id: &'static str) -> String {
            let token = self
                .connection()
                .unwrap()
                .wait("read", PathBuf::new, |handles| async move { handles.session_token(id).await });
            token.unwrap().unwrap()
        }

        /// Returns a function that publishes a message of any kind.
        fn publish_as<'a>(&'a self, subject: &str) -> impl Fn(Option<&'static str>, Bytes) + use<'a> {
            let subject = subject.to_owned();
            move |end, payload| {
                let subject = subject.clone();
                let published = self.connection().unwrap().wait("write", PathBuf::new, |handles| async move {
                    let mut headers = HeaderMap::new();
                    headers.insert("Shelly-Written", "0");
                    if let Some(end) = end {
                        headers.insert("Shelly-End", end);
                    }
                    let sent = handles.context.publish_with_headers(subject, headers, payload).await;
                    sent.map_err(ClusterCallError::failed)?.await.map_err(ClusterCallError::failed)
                });
                published.unwrap();
            }
        }

        /// Removes the last message of a journal.
        fn remove_last(&self, id: &'static str) {
            let removed = self.connection().unwrap().wait("remove", PathBuf::new, |handles| async move {
                let token = handles.session_token(id).await?.unwrap_or_default();
                let subject = handles.journal_subject(id, &token);
                let last =
                    handles.stream.get_last_raw_message_by_subject(&subject).await.map_err(ClusterCallError::failed)?;
                handles.stream.delete_message(last.sequence).await.map_err(ClusterCallError::failed)
            });
            assert!(removed.unwrap());
        }

        /// Replaces the entry of a session.
        fn put_entry(&self, id: &'static str, value: Bytes) {
            let put = self.connection().unwrap().wait("write", PathBuf::new, |handles| async move {
                handles.entries.put(id, value).await.map_err(ClusterCallError::failed)
            });
            put.unwrap();
        }
    }
}
