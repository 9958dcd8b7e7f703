//! Reservations on a real server, when workers die or come late.

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        time::{Duration, Instant},
    };

    use shelly_core::{capability::Budget, limits};
    use tokio::time::sleep;

    use crate::{
        Cluster, NamespaceLimits, QueuedRunEnd, RunEndState, RunQueue, RunSpec, TakenRun, WorkerIdentity,
        connection::ClusterHandles,
        namespace_counters::ReservationOutcome,
        nats_server::{NatsServer, with},
    };

    /// Longer than any test lasts in which no lease is to end.
    const LONG: Duration = Duration::from_secs(60);
    const SHORT: Duration = Duration::from_secs(1);
    const NOW: Duration = Duration::ZERO;

    fn spec(id: &str) -> RunSpec {
        RunSpec::new(id, format!("session-{id}"), Some("do it".into()))
    }

    /// Returns the limits of a namespace that has room for each test.
    fn room() -> NamespaceLimits {
        NamespaceLimits { runs: Some(limits::CLUSTER_RESERVATIONS as u64), ..NamespaceLimits::default() }
    }

    fn worker(id: &str) -> WorkerIdentity {
        WorkerIdentity { id: id.into(), labels: BTreeSet::new(), limits: room() }
    }

    async fn take(runs: &RunQueue, name: &str) -> TakenRun {
        runs.take(&worker(name), LONG).await.unwrap().expect("a run within a minute")
    }

    /// Returns the number of runs that have reserved a part of the limits.
    async fn reserved(cluster: &Cluster) -> u64 {
        cluster.counters().reserved().await.unwrap().runs
    }

    /// Reserves a part for a run, as a worker does that does not know yet that the run has ended.
    async fn reserve(cluster: &Cluster, id: String) {
        let task = |handles: ClusterHandles| async move {
            handles.reserve(&id, None, ("w", "0a"), &Budget::default(), &room()).await
        };
        assert_eq!(with(cluster, task).await, ReservationOutcome::Reserved);
    }

    /// Waits until the look for what others have left behind is over that began with a request for a run. The next one begins
    /// some time later.
    async fn end_look(cluster: &Cluster) {
        let look = |handles: ClusterHandles| async move {
            drop(handles.run_streams().await?.repaired.lock().await);
            Ok(())
        };
        with(cluster, look).await;
    }

    async fn remove_ended(cluster: &Cluster) {
        with(cluster, |handles| async move { handles.remove_ended_reservations().await }).await;
    }

    /// Lets a worker look at the queues until a run has ended.
    async fn ended_by_takers(runs: &RunQueue, id: &str) -> RunEndState {
        let began = Instant::now();
        loop {
            assert!(runs.take(&worker("cleaner"), NOW).await.unwrap().is_none(), "nothing is to be done");
            if let Some(ending) = runs.entry(id).await.unwrap().expect("an entry").ending() {
                return ending.state;
            }
            assert!(began.elapsed() < LONG, "nobody ends it");
            sleep(SHORT / 10).await;
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn run_that_ends_after_its_worker_died_reserves_nothing() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(SHORT);
        let runs = cluster.runs();
        runs.submit(spec("a")).await.unwrap();
        let run = take(&runs, "w").await;
        assert!(runs.cancel("a").await.unwrap().cancel_requested);
        // Its worker dies before it stops.
        drop(run);
        assert_eq!(reserved(&cluster).await, 1);
        assert_eq!(ended_by_takers(&runs, "a").await, RunEndState::Cancelled);
        assert_eq!(reserved(&cluster).await, 0);
        runs.submit(spec("b")).await.unwrap();
        for _ in 0..limits::CLUSTER_RUN_DEATHS {
            drop(take(&runs, "w").await);
        }
        assert_eq!(ended_by_takers(&runs, "b").await, RunEndState::Poisoned);
        assert_eq!(reserved(&cluster).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn reservation_after_the_end_of_its_run_is_removed() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        runs.submit(spec("ended")).await.unwrap();
        take(&runs, "w").await.finish(QueuedRunEnd::new(RunEndState::Completed)).await.unwrap();
        runs.submit(spec("works")).await.unwrap();
        let works = take(&runs, "w").await;
        end_look(&cluster).await;
        assert_eq!(reserved(&cluster).await, 1);
        for id in ["ended", "removed", "no id"] {
            reserve(&cluster, id.to_owned()).await;
        }
        assert_eq!(reserved(&cluster).await, 4);
        remove_ended(&cluster).await;
        assert_eq!(reserved(&cluster).await, 1, "that of the run at work stays");
        // Another worker reserves a part for it in between.
        reserve(&cluster, "works".to_owned()).await;
        works.finish(QueuedRunEnd::new(RunEndState::Completed)).await.unwrap();
        assert_eq!(reserved(&cluster).await, 0);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn next_look_at_reservations_begins_after_the_last_one() {
        let Some(server) = NatsServer::start() else { return };
        let cluster = server.cluster(LONG);
        let runs = cluster.runs();
        // The first ones by their ids are at work, so that they stay.
        runs.submit(spec("a")).await.unwrap();
        let _works = take(&runs, "w").await;
        end_look(&cluster).await;
        for n in 0..limits::CLUSTER_RESERVATIONS_CHECKED {
            reserve(&cluster, format!("b{n}")).await;
        }
        remove_ended(&cluster).await;
        assert_eq!(reserved(&cluster).await, 2, "one look has an end");
        remove_ended(&cluster).await;
        assert_eq!(reserved(&cluster).await, 1);
        // It begins anew.
        reserve(&cluster, "0".to_owned()).await;
        remove_ended(&cluster).await;
        assert_eq!(reserved(&cluster).await, 1);
    }
}
