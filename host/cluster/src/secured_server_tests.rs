//! Servers with TLS and accounts, and servers that are silent.

#[cfg(test)]
mod tests {
    use std::{
        fs,
        net::TcpListener,
        path::{Path, PathBuf},
        sync::{Arc, mpsc},
        time::{Duration, Instant},
    };

    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
    use nkeys::KeyPair;
    use serde_json::{Value, json};
    use shelly_core::{bucket::StateBucket, limits};
    use shelly_session::{JournalStorage, NewSession, SessionStore, SessionStoreOptions};

    use crate::{
        Cluster, ClusterBucket, ClusterBucketKind, ClusterError, ClusterJournals, ClusterOptions, RunSpec,
        nats_server::NatsServer,
    };

    /// Writes the certificate of a new authority into a folder, and one that it signed for this machine, with its key.
    /// Returns the paths of the three.
    fn certificates(folder: &Path, name: &str) -> [PathBuf; 3] {
        let mut params = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority = rcgen::CertifiedIssuer::self_signed(params, rcgen::KeyPair::generate().unwrap()).unwrap();
        let params = rcgen::CertificateParams::new(["localhost", "127.0.0.1"].map(str::to_owned)).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = params.signed_by(&key, &authority).unwrap();
        let paths = ["authority.pem", "pem", "key"].map(|end| folder.join(format!("{name}.{end}")));
        for (path, text) in paths.iter().zip([authority.pem(), signed.pem(), key.serialize_pem()]) {
            fs::write(path, text).unwrap();
        }
        paths
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn server_with_tls_is_used_if_its_authority_is_named() {
        let tls = |folder: &Path| {
            let [_, certificate, key] = certificates(folder, "server");
            format!("tls {{ cert_file: {certificate:?}, key_file: {key:?} }}\n")
        };
        let Some(server) = NatsServer::start_with(tls) else { return };
        let [other, ..] = certificates(server.folder(), "other");
        let options = |authority: &Path| ClusterOptions {
            servers: vec![format!("tls://127.0.0.1:{}", server.port())],
            root_certificates: Some(authority.to_owned()),
            ..server.options()
        };
        let cluster = Cluster::new(options(&server.folder().join("server.authority.pem")));
        cluster.runs().submit(RunSpec::new("a", "s", None)).await.unwrap();
        assert!(cluster.runs().entry("a").await.unwrap().is_some());
        let lacking = Cluster::new(options(&server.folder().join("none.pem"))).connect().await.unwrap_err();
        assert!(lacking.to_string().contains("none.pem cannot be used"), "{lacking}");
        let refused = Cluster::new(options(&other)).connect().await.unwrap_err();
        assert!(
            matches!(&refused, ClusterError::Unreachable { servers, .. } if servers.contains("tls://")),
            "{refused}"
        );
    }

    /// An operator with one account for each name, each of which may use JetStream.
    struct TestOperator {
        operator: KeyPair,
        accounts: Vec<KeyPair>,
    }

    impl TestOperator {
        fn new(accounts: usize) -> Self {
            // The last one is that of the server itself.
            Self {
                operator: KeyPair::new_operator(),
                accounts: (0..=accounts).map(|_| KeyPair::new_account()).collect(),
            }
        }

        /// Returns the lines of the server's config.
        fn config(&self) -> String {
            let (system, others) = self.accounts.split_last().unwrap();
            let operator = json!({ "type": "operator", "version": 2, "system_account": system.public_key() });
            let operator = token(&self.operator, &self.operator, operator);
            let account = |account: &KeyPair, storage: i64| {
                let limits = json!({
                    "subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "wildcards": true, "conn": -1,
                    "leaf": -1, "mem_storage": storage, "disk_storage": storage, "streams": storage, "consumer": storage,
                });
                let claims = json!({ "type": "account", "version": 2, "limits": limits });
                format!("    {}: {}\n", account.public_key(), token(&self.operator, account, claims))
            };
            let others: String = others.iter().map(|other| account(other, -1)).collect();
            format!(
                "max_control_line: 32KB\noperator: {operator}\nsystem_account: {}\nresolver: MEMORY\nresolver_preload: {{\n{}{others}}}\n",
                system.public_key(),
                account(system, 0),
            )
        }

        /// Writes the credentials file of a new user of an account, and returns its path.
        fn user(&self, account: usize, folder: &Path, name: &str, (publish, subscribe): (Value, Value)) -> PathBuf {
            let user = KeyPair::new_user();
            let claims = json!({
                "type": "user", "version": 2, "pub": publish, "sub": subscribe, "subs": -1, "data": -1, "payload": -1,
            });
            let token = token(&self.accounts[account], &user, claims);
            let path = folder.join(format!("{name}.creds"));
            let (line, seed) = ("-----", user.seed().unwrap());
            let text = format!(
                "{line}BEGIN NATS USER JWT{line}\n{token}\n{line}-END NATS USER JWT{line}-\n\n\
                 {line}BEGIN USER NKEY SEED{line}\n{seed}\n{line}-END USER NKEY SEED{line}-\n"
            );
            fs::write(&path, text).unwrap();
            path
        }
    }

    /// Returns a JWT about a key, signed by another key.
    fn token(issuer: &KeyPair, subject: &KeyPair, claims: Value) -> String {
        let encoded = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let (header, id) = (json!({ "typ": "JWT", "alg": "ed25519-nkey" }), subject.public_key());
        let body = json!({
            "jti": id, "iat": 1_600_000_000, "iss": issuer.public_key(), "name": id, "sub": id, "nats": claims,
        });
        let signed = format!("{}.{}", encoded(&header), encoded(&body));
        let signature = URL_SAFE_NO_PAD.encode(issuer.sign(signed.as_bytes()).unwrap());
        format!("{signed}.{signature}")
    }

    /// Returns the permissions for one namespace, as `docs/cluster.md` lists them: what may be published, and subscribed.
    fn permissions(namespace: &str) -> (Value, Value) {
        let page = include_str!("../../../docs/cluster.md");
        let list = |title: &str| {
            let (_, rest) = page.split_once(title).expect("the title of the list");
            let (list, _) = rest.split_once("\n```\n").expect("the end of the list");
            list.lines().map(|line| line.replace("team-a", namespace)).collect::<Vec<String>>()
        };
        let streams = list("# streams\n");
        let for_each_stream = |line: String| match line.contains("STREAM_NAME") {
            true => streams.iter().map(|stream| line.replace("STREAM_NAME", stream)).collect(),
            false => vec![line],
        };
        let publish: Vec<String> = list("# publish\n").into_iter().flat_map(for_each_stream).collect();
        (json!({ "allow": publish }), json!({ "allow": list("# subscribe\n") }))
    }

    fn sessions(journals: ClusterJournals) -> SessionStore {
        SessionStore::with_journals(Arc::new(journals), "/none", SessionStoreOptions::default())
    }

    fn named(id: &str) -> NewSession {
        NewSession { id: Some(id.into()), ..NewSession::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn two_accounts_see_nothing_of_one_another() {
        let operator = TestOperator::new(2);
        let Some(server) = NatsServer::start_with(|_| operator.config()) else { return };
        let anyone = || (json!({}), json!({}));
        let namespace = server.options();
        let cluster = |account: usize| {
            let credentials = operator.user(account, server.folder(), &account.to_string(), anyone());
            Cluster::new(ClusterOptions { credentials: Some(credentials), ..namespace.clone() })
        };
        let (one, other) = (cluster(0), cluster(1));
        drop(sessions(one.journals()).create(named("s")).unwrap());
        one.runs().submit(RunSpec::new("a", "s", None)).await.unwrap();
        // The namespace has the same name in both accounts.
        assert!(other.journals().names().unwrap().is_empty());
        assert!(other.runs().list(9).await.unwrap().is_empty());
        assert!(one.runs().entry("a").await.unwrap().is_some());
        let refused = Cluster::new(namespace).connect().await.unwrap_err();
        assert!(matches!(refused, ClusterError::Unreachable { .. }), "without credentials: {refused}");
    }

    /// Does everything with each bucket of shared state.
    fn use_buckets(cluster: &Cluster) {
        use ClusterBucketKind::{Boards, Kv, Notes, Rates};
        for kind in [Kv, Notes, Boards, Rates] {
            let bucket = ClusterBucket::new(&cluster.journals(), kind);
            let (sender, told) = mpsc::channel();
            let _watch = bucket.watch("a.b", Arc::new(move || sender.send(()).unwrap_or_default())).unwrap();
            told.recv_timeout(limits::CLUSTER_CALL).expect("the watch begins");
            let revision = bucket.write("a.b", None, Some(&vec![7; limits::CLUSTER_MESSAGE_BYTES + 1])).unwrap();
            assert_eq!(bucket.keys("a").unwrap(), ["a.b"], "{kind:?}");
            assert_eq!(bucket.get("a.b").unwrap().map(|entry| Some(entry.revision)), Some(revision));
            assert!(bucket.write("a.b", revision, None).unwrap().is_some());
            assert_eq!(bucket.get("a.b"), Ok(None));
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn documented_permissions_allow_one_namespace_alone() {
        let operator = TestOperator::new(1);
        let Some(server) = NatsServer::start_with(|_| operator.config()) else { return };
        let options = |user: &str, namespace: &str| ClusterOptions {
            credentials: Some(operator.user(0, server.folder(), user, permissions(user))),
            namespace: namespace.into(),
            retry: Duration::ZERO,
            ..server.options()
        };
        let own = Cluster::new(options("blue", "blue"));
        drop(sessions(own.journals()).create(named("s")).unwrap());
        assert_eq!(own.journals().names().unwrap(), ["s"]);
        drop(sessions(own.journals()).open("s", Default::default()).unwrap());
        own.runs().submit(RunSpec::new("a", "s", None)).await.unwrap();
        let worker = crate::WorkerIdentity { id: "w".into(), labels: Default::default(), limits: Default::default() };
        let run = own.runs().take(&worker, limits::CLUSTER_CONNECT).await.unwrap().unwrap();
        assert!(own.bus().ask("a", &crate::RunCommand::Cancel).await.is_err());
        run.finish(crate::QueuedRunEnd::new(crate::RunEndState::Completed)).await.unwrap();
        assert_eq!(own.runs().ended("a").await.unwrap().state, crate::RunEndState::Completed);
        let digest = own.objects().put(bytes::Bytes::from_static(b"bundle")).await.unwrap();
        assert_eq!(own.objects().get(&digest, 9).await.unwrap(), "bundle");
        assert!(own.workers().list().await.unwrap().is_empty());
        use_buckets(&own);
        // The other namespace is there, and this user cannot reach it.
        Cluster::new(options("green", "green")).connect().await.unwrap();
        let refused = Cluster::new(options("blue", "green")).connect().await.unwrap_err();
        assert!(matches!(refused, ClusterError::Unreachable { .. }), "{refused}");
    }

    #[test]
    fn server_that_says_nothing_is_given_up() {
        // It accepts connections, and never greets.
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let options = ClusterOptions::new(format!("nats://{}", listener.local_addr().unwrap()), "t");
        let began = Instant::now();
        ClusterJournals::connect(options).unwrap_err();
        let waited = began.elapsed();
        assert!(waited >= limits::CLUSTER_CONNECT && waited < limits::CLUSTER_CONNECT * 4, "{waited:?}");
    }

    #[test]
    fn call_that_is_not_answered_is_given_up() {
        let Some(server) = NatsServer::start() else { return };
        let journals = ClusterJournals::connect(ClusterOptions { retry: Duration::ZERO, ..server.options() }).unwrap();
        assert!(journals.names().unwrap().is_empty());
        server.set_stopped(true);
        let began = Instant::now();
        let refused = journals.names();
        let waited = began.elapsed();
        server.set_stopped(false);
        refused.unwrap_err();
        assert!(waited >= limits::CLUSTER_CALL && waited < limits::CLUSTER_CALL * 4, "{waited:?}");
    }
}
