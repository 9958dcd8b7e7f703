//! Runs on a real server, while wall clocks say something else: those of hosts, and that of the server.

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        time::{Duration, Instant, SystemTime},
    };

    use async_nats::jetstream::{
        consumer::{FromConsumer, PullConsumer, pull},
        stream::Config,
    };
    use futures_util::StreamExt;
    use shelly_core::limits;
    use shelly_session::JournalStorage;
    use tokio::time::sleep;

    use crate::{
        NamespaceLimits, QueuedRunEnd, RunEndState, RunQueue, RunSpec, TakenRun, WorkerIdentity,
        cluster_lease::TakenLease,
        connection::{ClusterCallError, ClusterHandles},
        nats_server::{NatsServer, with},
        run_streams::NAME_SEPARATOR,
        taken_run::run_lease_key,
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

    /// Lets leases stay that nobody renews, as those from before the clock of the server jumped back.
    async fn keep_leases(handles: ClusterHandles) -> Result<(), ClusterCallError> {
        let config = handles.leases.stream.cached_info().config.clone();
        let config = Config { max_age: LONG * 60, ..config };
        handles.context.update_stream(config).await.map(drop).map_err(ClusterCallError::failed)
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
        let entry = runs.entry("a").await.unwrap().expect("an entry");
        assert_eq!((entry.declines, entry.refusals(), entry.attempts()), (1, 1, 0));
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
        with(&cluster, keep_leases).await;
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

    #[tokio::test(flavor = "multi_thread")]
    async fn session_whose_lease_stays_is_not_in_use() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(SHORT);
        with(&cluster, keep_leases).await;
        let journals = cluster.journals();
        let take = |handles: ClusterHandles| async move { Ok(TakenLease::take(&handles, "s").await?.is_some()) };
        let began = Instant::now();
        assert!(with(&cluster, take).await, "nobody renews it");
        while journals.is_taken("s") {
            assert!(began.elapsed() < LONG, "it keeps others from the session");
            sleep(SHORT / 20).await;
        }
        assert!(began.elapsed() >= SHORT, "its time was not over");
        assert!(with(&cluster, take).await, "another host takes it");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn declined_run_is_not_taken_for_a_forgotten_one() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        runs.submit(spec()).await.unwrap();
        let revision = |handles: ClusterHandles| async move { handles.lease_revision(&run_lease_key("a")).await };
        assert_eq!(with(&cluster, revision).await, 0, "it was not offered");
        assert!(!take(&runs, "w").await.decline("no trust").await.unwrap());
        let held = |handles: ClusterHandles| async move { handles.is_lease_held(&run_lease_key("a")).await };
        assert!(!with(&cluster, held).await);
        assert_ne!(with(&cluster, revision).await, 0, "whoever looks sees that it was offered");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn next_look_at_offers_begins_after_the_last_one() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        let of_gpu = || RunSpec { labels: ["gpu".to_owned()].into(), ..spec() };
        runs.submit(of_gpu()).await.unwrap();
        let most = limits::CLUSTER_OFFERS_WATCHED;
        for n in 0..most {
            runs.submit(RunSpec { id: format!("b{n}"), ..spec() }).await.unwrap();
        }
        let look = |handles: ClusterHandles| async move {
            handles.offer_forgotten(LONG).await?;
            Ok(handles.run_streams().await?.offers.lock().unwrap().first())
        };
        let offer_all = move |handles: ClusterHandles| async move {
            let mut offered = 0_usize;
            for name in [of_gpu(), spec()].map(|spec| spec.queue_name().text(NAME_SEPARATOR)) {
                let queue = &handles.run_streams().await?.queue;
                let consumer: PullConsumer = queue.get_consumer(&name).await.map_err(ClusterCallError::failed)?;
                let fetch = consumer.fetch().max_messages(most).messages();
                let mut batch = fetch.await.map_err(ClusterCallError::failed)?;
                while let Some(Ok(_)) = batch.next().await {
                    offered += 1;
                }
            }
            Ok(offered)
        };
        assert_eq!(with(&cluster, offer_all).await, most + 1);
        // The first look sees the oldest ones, whichever queue they are in, and the second one the last run.
        assert_eq!((with(&cluster, look).await, with(&cluster, look).await), (most as u64 + 1, 0));
    }
}
