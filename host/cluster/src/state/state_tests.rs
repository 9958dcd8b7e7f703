//! Shared state on a real server. Where it is not there, each test says so and does nothing.

#[cfg(test)]
mod tests {
    use std::{
        sync::Arc,
        time::{Duration, Instant},
    };

    use bytes::Bytes;
    use shelly_core::{
        bucket::{
            BucketError, StateBucket,
            bucket_contract::{BucketFixture, failed_bucket_checks},
        },
        kv::{
            BucketKvBackend, KvBackend, KvError, KvPrecondition,
            kv_contract::{KV_CHECK_QUOTA, KvFixture, failed_kv_checks},
        },
        state::{
            Blackboard, BucketNotes, NoteStore, TaskBoard,
            board_contract::{BoardFixture, failed_board_checks},
            note_contract::{NoteFixture, failed_note_checks},
        },
    };

    use crate::{
        ClusterBucket, ClusterBucketKind, ClusterJournals, ClusterOptions, connection::ClusterCallError,
        nats_server::NatsServer,
    };

    /// A namespace of its own.
    struct SharedNamespace {
        options: ClusterOptions,
        // The server lives as long as its namespaces.
        _server: Arc<NatsServer>,
    }

    impl SharedNamespace {
        fn new(server: &Arc<NatsServer>) -> Self {
            let options = ClusterOptions { retry: Duration::from_secs(5), ..server.options() };
            Self { options, _server: Arc::clone(server) }
        }

        /// Opens a bucket as another host does.
        fn open(&self, kind: ClusterBucketKind) -> ClusterBucket {
            ClusterBucket::new(&ClusterJournals::new(self.options.clone()), kind)
        }
    }

    impl BucketFixture for SharedNamespace {
        fn bucket(&self) -> Arc<dyn StateBucket> {
            Arc::new(self.open(ClusterBucketKind::Boards))
        }
    }

    impl KvFixture for SharedNamespace {
        fn store(&self) -> Box<dyn KvBackend> {
            let bucket = Arc::new(self.open(ClusterBucketKind::Kv));
            Box::new(BucketKvBackend::new(bucket, "plugin.p".into(), KV_CHECK_QUOTA))
        }
    }

    impl NoteFixture for SharedNamespace {
        fn notes(&self) -> NoteStore {
            NoteStore::with_storage(Arc::new(BucketNotes::new(Arc::new(self.open(ClusterBucketKind::Notes)))))
        }
    }

    impl BoardFixture for SharedNamespace {
        fn tasks(&self) -> TaskBoard {
            let board = TaskBoard::new();
            board.share(self.bucket(), "session.s.tasks".into(), None).unwrap();
            board
        }

        fn blackboard(&self) -> Blackboard {
            let board = Blackboard::new();
            board.share(self.bucket(), "session.s.blackboard.team".into()).unwrap();
            board
        }
    }

    /// Each board has a connection of its own, as on a host of its own.
    #[tokio::test(flavor = "multi_thread")]
    async fn boards_in_a_cluster_pass_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        assert_eq!(failed_board_checks(|| Box::new(SharedNamespace::new(&server))), []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shared_board_follows_after_the_server_was_away() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = SharedNamespace::new(&server);
        let (one, other) = (namespace.blackboard(), namespace.blackboard());
        one.set("a", &1).unwrap();
        server.kill();
        server.run();
        one.set("a", &2).unwrap();
        let began = Instant::now();
        while other.revision() < 2 {
            assert!(began.elapsed() < Duration::from_secs(60), "the change does not arrive");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(other.get("a").unwrap().value.get(), "2");
    }

    #[test]
    fn cluster_bucket_passes_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        assert_eq!(failed_bucket_checks(|| Box::new(SharedNamespace::new(&server))), []);
    }

    #[test]
    fn encrypted_bucket_passes_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        let failed = failed_bucket_checks(|| {
            let mut namespace = SharedNamespace::new(&server);
            namespace.options = server.encrypted(namespace.options, &["a"]);
            Box::new(namespace)
        });
        assert_eq!(failed, []);
    }

    #[test]
    fn value_that_was_moved_or_is_plain_is_damaged() {
        let Some(server) = NatsServer::start() else { return };
        let mut namespace = SharedNamespace::new(&server);
        namespace.options = server.encrypted(namespace.options, &["a"]);
        let bucket = namespace.open(ClusterBucketKind::Kv);
        for key in ["a.b", "a.c"] {
            bucket.write(key, None, Some(key.as_bytes())).unwrap();
        }
        let moved = bucket.raw("a.b");
        assert!(!moved.windows(3).any(|part| part == b"a.b"));
        bucket.put_raw("a.c", moved);
        let refused = bucket.get("a.c").unwrap_err();
        assert!(matches!(refused, BucketError::Damaged { .. }), "{refused}");
        assert!(refused.to_string().contains("moved from another place"), "{refused}");
        let plain = SharedNamespace {
            options: ClusterOptions { encryption: None, ..namespace.options.clone() },
            _server: server.clone(),
        };
        let plain = plain.open(ClusterBucketKind::Kv);
        plain.write("a.d", None, Some(b"plain")).unwrap();
        let refused = bucket.get("a.d").unwrap_err();
        assert!(refused.to_string().contains("is not encrypted"), "{refused}");
        let refused = plain.get("a.b").unwrap_err();
        assert!(matches!(refused, BucketError::Unavailable { .. }), "it is not replaced: {refused}");
    }

    #[test]
    fn kv_store_in_a_cluster_passes_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        assert_eq!(failed_kv_checks(|| Box::new(SharedNamespace::new(&server))), []);
    }

    #[test]
    fn notes_in_a_cluster_pass_all_checks() {
        let Some(server) = NatsServer::start() else { return };
        assert_eq!(failed_note_checks(|| Box::new(SharedNamespace::new(&server))), []);
    }

    #[test]
    fn garbage_in_a_bucket_is_named_and_can_be_replaced() {
        let Some(server) = NatsServer::start() else { return };
        let bucket = SharedNamespace::new(&server).open(ClusterBucketKind::Kv);
        bucket.write("a.fine", None, Some(b"fine")).unwrap();
        for garbage in ["", "{}", "1w", "x", &"x".repeat(700 << 10)] {
            bucket.put_raw("a.b", Bytes::from(garbage.to_owned()));
            let refused = bucket.get("a.b").unwrap_err();
            assert!(matches!(refused, BucketError::Damaged { .. }), "{refused}");
        }
        let missing = r#"1p0123456789abcdef01234567{"parts":2,"bytes":9,"sha256":""}"#;
        let revision = bucket.put_raw("a.b", Bytes::from_static(missing.as_bytes()));
        assert!(bucket.get("a.b").unwrap_err().to_string().contains("parts of it are missing"));
        assert_eq!(bucket.keys("a").unwrap(), ["a.b", "a.fine"]);
        assert!(bucket.write("a.b", Some(revision), Some(b"new")).unwrap().is_some());
        assert_eq!(bucket.get("a.b").unwrap().unwrap().value, b"new");
        assert_eq!(bucket.get("=parts.a").unwrap_err().to_string(), "the key `=parts.a` is not one of a bucket");
        // The plugin that has such an entry mends it.
        bucket.put_raw("plugin.p.key.k", Bytes::from_static(b"{}"));
        let mut store = BucketKvBackend::new(Arc::new(bucket), "plugin.p".into(), KV_CHECK_QUOTA);
        assert!(matches!(store.get("k"), Err(KvError::Cluster { .. })));
        assert!(store.write("k", KvPrecondition::Anything, Some(b"new")).unwrap());
        assert_eq!(store.get("k").unwrap().unwrap().value, b"new");
    }

    #[test]
    fn value_of_a_later_version_is_left_alone() {
        let Some(server) = NatsServer::start() else { return };
        let bucket = SharedNamespace::new(&server).open(ClusterBucketKind::Kv);
        let later = Bytes::from_static(b"2 in another form");
        bucket.put_raw("plugin.p.key.k", later.clone());
        let refused = bucket.get("plugin.p.key.k").unwrap_err();
        assert!(matches!(&refused, BucketError::Unavailable { reason } if reason.contains("newer")), "{refused}");
        let mut store = BucketKvBackend::new(Arc::new(bucket.clone()), "plugin.p".into(), KV_CHECK_QUOTA);
        assert!(store.get("k").is_err() && store.write("k", KvPrecondition::Anything, Some(b"new")).is_err());
        assert_eq!(bucket.raw("plugin.p.key.k"), later);
    }

    #[test]
    fn replaced_large_value_leaves_no_parts() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = SharedNamespace::new(&server);
        let bucket = namespace.open(ClusterBucketKind::Boards);
        let large = vec![7; 2 << 20];
        let first = bucket.write("a.b", None, Some(&large)).unwrap();
        assert!(bucket.raw_keys() > 4, "a value of 2 MiB has parts");
        assert_eq!(bucket.write("a.b", None, Some(&large)), Ok(None));
        // Another host that has read the value removes its parts with it.
        let other = namespace.open(ClusterBucketKind::Boards);
        assert_eq!(other.get("a.b").unwrap().unwrap().value, large);
        assert!(other.write("a.b", first, Some(b"small")).unwrap().is_some());
        assert_eq!(bucket.raw_keys(), 1);
        let small = bucket.get("a.b").unwrap().unwrap().revision;
        assert!(bucket.write("a.b", Some(small), None).unwrap().is_some());
        assert_eq!(bucket.raw_keys(), 0, "a removal leaves nothing");
    }

    #[test]
    fn removed_session_takes_its_values_along() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = SharedNamespace::new(&server);
        let bucket = namespace.open(ClusterBucketKind::Kv);
        for key in ["session.s=2e1.a.p.key.k", "session.s.a.p.key.k", "plugin.p.key.k"] {
            bucket.write(key, None, Some(b"")).unwrap();
        }
        bucket.purge_session("s.1");
        assert_eq!(bucket.keys("session").unwrap(), ["session.s.a.p.key.k"]);
        assert_eq!(bucket.keys("plugin").unwrap().len(), 1);
    }

    #[test]
    fn rates_do_not_wait_for_a_server_that_is_away() {
        let Some(server) = NatsServer::start() else { return };
        let namespace = SharedNamespace::new(&server);
        let bucket = namespace.open(ClusterBucketKind::Rates);
        assert_eq!(bucket.get("provider.p"), Ok(None));
        server.kill();
        let began = Instant::now();
        assert!(matches!(bucket.get("provider.p"), Err(BucketError::Unavailable { .. })));
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    }

    impl ClusterBucket {
        /// Writes any bytes, and returns the revision.
        fn put_raw(&self, key: &'static str, value: Bytes) -> u64 {
            let put = self.on(|_, store| async move { Ok(store.put(key, value).await.unwrap()) });
            put.unwrap()
        }

        /// Returns the bytes that the server has under a key.
        fn raw(&self, key: &'static str) -> Bytes {
            let read = self.on(|_, store| async move { Ok(store.get(key).await.unwrap().unwrap()) });
            read.unwrap()
        }

        /// Returns the number of all subjects of the bucket that have a message.
        fn raw_keys(&self) -> u64 {
            let count =
                self.on(|_, store| async move { Ok(store.stream.get_info().await.unwrap().state.subjects_count) });
            count.unwrap()
        }

        fn purge_session(&self, id: &'static str) {
            let purged = self.on(|handles, _| async move {
                let purged = super::super::purge_session_state(&handles, id).await;
                Ok(purged.map_err(|error: ClusterCallError| format!("{error:?}")))
            });
            assert_eq!(purged.unwrap(), Ok(()));
        }
    }
}
