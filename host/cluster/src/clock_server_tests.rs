//! Runs on a real server, while wall clocks say something else: those of hosts, and that of the server.

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        time::{Duration, SystemTime},
    };

    use async_nats::jetstream::{
        consumer::{FromConsumer, pull},
        stream::Config,
    };
    use shelly_core::limits;

    use crate::{
        Cluster, NamespaceLimits, QueuedRunEnd, RunEndState, RunQueue, RunSpec, TakenRun, WorkerIdentity,
        connection::{ClusterCallError, ClusterHandles},
        nats_server::NatsServer,
        run_streams::NAME_SEPARATOR,
    };

    /// Longer than any test lasts in which no lease is to end.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::ZERO;

    fn spec() -> RunSpec {
        RunSpec::new("a", "session-a", Some("do it".into()))
    }

    fn worker(id: &str) -> WorkerIdentity {
        WorkerIdentity { id: id.into(), labels: BTreeSet::new(), limits: NamespaceLimits::default() }
    }

    async fn take(runs: &RunQueue, name: &str) -> TakenRun {
        runs.take(&worker(name), LONG).await.unwrap().expect("a run within a minute")
    }

    /// Runs a task with the handles of the connection.
    async fn with<T, F>(cluster: &Cluster, task: impl FnOnce(ClusterHandles) -> F) -> T
    where
        T: Send + 'static,
        F: Future<Output = Result<T, ClusterCallError>> + Send + 'static,
    {
        cluster.shared.call("test", "the server", task).await.unwrap()
    }

    /// Takes the run that another worker has, which is silent from now on, and ends it.
    async fn assert_it_is_taken_over(runs: &RunQueue) {
        let second = take(runs, "v").await;
        assert_eq!((second.attempt(), second.entry().deaths), (2, 1));
        second.finish(QueuedRunEnd::new(RunEndState::Completed)).await.unwrap();
        assert!(runs.take(&worker("v"), NOW).await.unwrap().is_none(), "it has ended");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_that_nobody_accepts_ends_as_refused() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        runs.submit(spec()).await.unwrap();
        let declined = |declines: u32| {
            move |handles: ClusterHandles| async move {
                let (mut stored, revision) = handles.stored_run("a").await?.expect("an entry");
                // A host whose clock is ahead believes that this was long ago.
                (stored.entry.declined, stored.entry.declines) = (Some(SystemTime::UNIX_EPOCH), declines);
                handles.store_run(&mut stored, revision).await
            }
        };
        with(&cluster, declined(0)).await.unwrap();
        assert!(!take(&runs, "w").await.decline("no trust").await.unwrap(), "it was declined once");
        assert_eq!(runs.entry("a").await.unwrap().expect("an entry").declines, 1);
        with(&cluster, declined(limits::CLUSTER_DECLINE_OFFERS)).await.unwrap();
        assert!(take(&runs, "w").await.decline("no trust").await.unwrap());
        let ending = runs.ended("a").await.unwrap();
        assert_eq!((ending.state, &ending.error.unwrap()["detail"]), (RunEndState::Refused, &"no trust".into()));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn lease_that_the_server_does_not_end_is_ended() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(SHORT);
        let runs = cluster.runs();
        // As it is for leases from before the clock of the server jumped back.
        let keep = |handles: ClusterHandles| async move {
            let config = handles.leases.stream.cached_info().config.clone();
            let config = Config { max_age: LONG * 60, ..config };
            handles.context.update_stream(config).await.map(drop).map_err(ClusterCallError::failed)
        };
        with(&cluster, keep).await;
        runs.submit(spec()).await.unwrap();
        let mut first = take(&runs, "w").await;
        assert!(runs.take(&worker("v"), SHORT * 3).await.unwrap().is_none(), "it is at work");
        first.heartbeat = None;
        assert_it_is_taken_over(&runs).await;
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_that_the_server_does_not_offer_again_is_offered() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(SHORT);
        let runs = cluster.runs();
        runs.submit(spec()).await.unwrap();
        // As it is for runs that were offered before the clock of the server jumped back.
        let keep = |handles: ClusterHandles| async move {
            let queue = &handles.run_streams().await?.queue;
            let name = spec().queue_name().text(NAME_SEPARATOR);
            let info = queue.consumer_info(&name).await.map_err(ClusterCallError::failed)?;
            let config = pull::Config::try_from_consumer_config(info.config).map_err(ClusterCallError::failed)?;
            let config = pull::Config { ack_wait: LONG * 60, ..config };
            queue.update_consumer(config).await.map(drop).map_err(ClusterCallError::failed)
        };
        with(&cluster, keep).await;
        let mut first = take(&runs, "w").await;
        let offer = |handles: ClusterHandles| async move { handles.offer_forgotten(NOW).await };
        with(&cluster, offer).await;
        assert!(runs.take(&worker("v"), SHORT).await.unwrap().is_none(), "it is at work");
        first.heartbeat = None;
        assert!(runs.take(&worker("v"), SHORT * 3).await.unwrap().is_none(), "the server does not offer it");
        with(&cluster, offer).await;
        assert_it_is_taken_over(&runs).await;
    }
}
