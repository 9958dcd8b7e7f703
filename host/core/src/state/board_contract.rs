//! The contract of boards that several agents or hosts share: checks that local and shared boards pass.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use tokio::{runtime::Handle, task::block_in_place};

use super::{
    Blackboard, BlackboardError, NewTask, Task, TaskActor, TaskBoard, TaskError, TaskFilter, TaskStatus, TaskUpdate,
};
use crate::{limits, tool::ToolCallId};

/// Empty boards.
pub trait BoardFixture: Send + Sync {
    /// Returns the task board as another host would open it.
    fn tasks(&self) -> TaskBoard;

    /// Returns the blackboard as another host would open it.
    fn blackboard(&self) -> Blackboard;
}

/// The checks that can fail.
type BoardCheck = (&'static str, fn(&dyn BoardFixture) -> Result<(), String>);

const CHECKS: [BoardCheck; 7] = [
    ("task_is_claimed_once", task_is_claimed_once),
    ("racing_tasks_have_ids_of_their_own", racing_tasks_have_ids_of_their_own),
    ("changes_of_tasks_arrive", changes_of_tasks_arrive),
    ("blackboard_is_swapped_once", blackboard_is_swapped_once),
    ("changes_of_the_blackboard_arrive", changes_of_the_blackboard_arrive),
    ("refreshed_boards_have_all_changes", refreshed_boards_have_all_changes),
    ("bounds_are_held", bounds_are_held),
];

/// The number of hosts that race.
const HOSTS: usize = 4;

/// Runs all checks, each on boards of its own, and returns the failed ones with the reasons. Blocks, in a task of a tokio
/// runtime with several threads.
pub fn failed_board_checks(new_fixture: impl Fn() -> Box<dyn BoardFixture>) -> Vec<(&'static str, String)> {
    CHECKS.iter().filter_map(|(name, check)| Some((*name, check(&*new_fixture()).err()?))).collect()
}

/// Returns an error with both values if they differ.
fn same<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    match found == expected {
        true => Ok(()),
        false => Err(format!("{what}: {found:?}, not {expected:?}")),
    }
}

/// Waits until a change of another host has arrived.
fn until(what: &str, arrived: impl Fn() -> bool) -> Result<(), String> {
    let began = Instant::now();
    while !arrived() {
        if began.elapsed() > limits::CONTRACT_WAIT {
            return Err(format!("{what} does not arrive"));
        }
        thread::sleep(limits::CONTRACT_PAUSE);
    }
    Ok(())
}

/// Waits on this thread.
fn now<R>(future: impl Future<Output = R>) -> R {
    block_in_place(|| Handle::current().block_on(future))
}

fn new_task(title: &str) -> NewTask {
    NewTask { title: title.into(), ..NewTask::default() }
}

fn text(error: TaskError) -> String {
    error.to_string()
}

fn task_is_claimed_once(fixture: &dyn BoardFixture) -> Result<(), String> {
    const TASKS: usize = 8;
    let lead = fixture.tasks();
    for n in 0..TASKS {
        lead.create(new_task(&n.to_string()), TaskActor::Agent("lead")).map_err(text)?;
    }
    let hosts: Vec<_> = (0..HOSTS).map(|_| fixture.tasks()).collect();
    let claims = AtomicUsize::new(0);
    let claim_all = |host: usize, board: &TaskBoard| {
        for n in 1..=TASKS {
            match board.claim(&format!("task-{n}"), &format!("agent-{host}")) {
                Ok(_) => {
                    claims.fetch_add(1, Ordering::SeqCst);
                }
                Err(TaskError::Taken { .. }) => {}
                Err(error) => return Some(error),
            }
        }
        None
    };
    let claim_all = &claim_all;
    let failed: Vec<TaskError> = thread::scope(|scope| {
        let racing: Vec<_> =
            hosts.iter().enumerate().map(|(host, board)| scope.spawn(move || claim_all(host, board))).collect();
        racing.into_iter().filter_map(|host| host.join().ok().flatten()).collect()
    });
    same("failures", failed, vec![])?;
    same("claims", claims.load(Ordering::SeqCst), TASKS)?;
    // A repeated claim changes nothing.
    let board = &hosts[0];
    board.create(new_task("again"), TaskActor::Host).map_err(text)?;
    let id = format!("task-{}", TASKS + 1);
    board.claim(&id, "ann").map_err(text)?;
    same("claimed again", board.claim(&id, "ann").map_err(text)?.taken_from, None)?;
    same("claimed by another", matches!(hosts[1].claim(&id, "bob"), Err(TaskError::Taken { .. })), true)?;
    same("taken over", hosts[0].claim_for(&id, "cid", "ann").map_err(text)?.taken_from.is_some(), true)
}

fn racing_tasks_have_ids_of_their_own(fixture: &dyn BoardFixture) -> Result<(), String> {
    let hosts: Vec<_> = (0..HOSTS).map(|_| fixture.tasks()).collect();
    let create = |board: &TaskBoard| {
        (0..5).map(|n| board.create(new_task(&n.to_string()), TaskActor::Host)).collect::<Result<Vec<_>, _>>()
    };
    let create = &create;
    let mut ids = Vec::new();
    thread::scope(|scope| {
        let racing: Vec<_> = hosts.iter().map(|board| scope.spawn(move || create(board))).collect();
        for host in racing {
            let created = host.join().map_err(|_| "a host panicked")?.map_err(text)?;
            ids.extend(created.into_iter().map(|task| task.id));
        }
        Ok::<_, String>(())
    })?;
    ids.sort();
    ids.dedup();
    same("ids", ids.len(), 5 * HOSTS)?;
    until("a task", || hosts.iter().all(|board| board.list(&TaskFilter::default()).len() == 5 * HOSTS))
}

fn changes_of_tasks_arrive(fixture: &dyn BoardFixture) -> Result<(), String> {
    let (one, other) = (fixture.tasks(), fixture.tasks());
    let told = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&told);
    other.on_change(Arc::new(move |_: &Task, _: Option<&ToolCallId>| {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    one.create(new_task("dig"), TaskActor::Agent("ann")).map_err(text)?;
    until("a new task", || other.get("task-1").is_ok())?;
    one.claim("task-1", "ann").map_err(text)?;
    let metadata = [("depth".to_owned(), 2.into())].into();
    let update = TaskUpdate { status: Some(TaskStatus::Completed), metadata, ..TaskUpdate::default() };
    one.update("task-1", update, TaskActor::Agent("ann")).map_err(text)?;
    until("the end", || other.get("task-1").is_ok_and(|task| task.status == TaskStatus::Completed))?;
    same("its metadata", other.get("task-1").map_err(text)?.metadata, one.get("task-1").map_err(text)?.metadata)?;
    until("the callback", || told.load(Ordering::SeqCst) >= 2)?;
    same(
        "a task that has ended",
        matches!(other.cancel("task-1", TaskActor::Host), Err(TaskError::Finished { .. })),
        true,
    )
}

fn blackboard_is_swapped_once(fixture: &dyn BoardFixture) -> Result<(), String> {
    const CHANGES: u64 = 5;
    let hosts: Vec<_> = (0..HOSTS).map(|_| fixture.blackboard()).collect();
    let count = |board: &Blackboard| {
        let mut done = 0;
        while done < CHANGES {
            let there = board.get("n");
            let next = there.as_ref().and_then(|entry| entry.parse::<u64>().ok()).unwrap_or(0) + 1;
            match board.compare_and_swap("n", there.map(|entry| entry.revision), &next) {
                Ok(_) => done += 1,
                Err(BlackboardError::Conflict { .. }) => {}
                Err(error) => return Some(error),
            }
        }
        None
    };
    let count = &count;
    let failed: Vec<BlackboardError> = thread::scope(|scope| {
        let racing: Vec<_> = hosts.iter().map(|board| scope.spawn(move || count(board))).collect();
        racing.into_iter().filter_map(|host| host.join().ok().flatten()).collect()
    });
    same("failures", failed, vec![])?;
    let expected = CHANGES * HOSTS as u64;
    until("the last value", || {
        hosts.iter().all(|board| board.get("n").and_then(|entry| entry.parse::<u64>().ok()) == Some(expected))
    })?;
    same("revision", hosts[0].revision(), expected)
}

fn changes_of_the_blackboard_arrive(fixture: &dyn BoardFixture) -> Result<(), String> {
    let (one, other) = (fixture.blackboard(), fixture.blackboard());
    let text = |error: BlackboardError| error.to_string();
    for (key, value) in [("a", 1), ("b", 2), ("a", 3)] {
        one.set(key, &value).map_err(text)?;
    }
    same("deleted", one.delete("b"), true)?;
    until("the deletion", || other.revision() == 4)?;
    same("keys", other.keys(), vec!["a".to_owned()])?;
    same("value", other.get("a").map(|entry| (entry.revision, entry.value.get().to_owned())), Some((3, "3".into())))?;
    same("next revision", other.set("c", &4).map_err(text)?, 5)?;
    same("deleted twice", other.delete("b"), false)?;
    until("the answer", || one.get("c").is_some())
}

/// An agent that heard from another of what it has done must find it on the boards.
fn refreshed_boards_have_all_changes(fixture: &dyn BoardFixture) -> Result<(), String> {
    const CHANGES: usize = 10;
    let (one, other) = (fixture.tasks(), fixture.tasks());
    let (key, same_key) = (fixture.blackboard(), fixture.blackboard());
    for n in 1..=CHANGES {
        one.create(new_task("dig"), TaskActor::Host).map_err(text)?;
        now(other.refresh()).map_err(text)?;
        same("tasks", other.list(&TaskFilter::default()).len(), n)?;
        key.set("n", &n).map_err(|error| error.to_string())?;
        now(same_key.refresh()).map_err(|error| error.to_string())?;
        same("value", same_key.get("n").and_then(|entry| entry.parse().ok()), Some(n))?;
    }
    Ok(())
}

fn bounds_are_held(fixture: &dyn BoardFixture) -> Result<(), String> {
    let (board, tasks) = (fixture.blackboard(), fixture.tasks());
    let large = "x".repeat(limits::BLACKBOARD_VALUE_BYTES);
    same("large value", matches!(board.set("k", &large), Err(BlackboardError::TooLarge { .. })), true)?;
    same("bad key", matches!(board.set("", &1), Err(BlackboardError::Key { .. })), true)?;
    let long = "t".repeat(limits::TASK_TITLE_CHARS + 1);
    let created = tasks.create(new_task(&long), TaskActor::Host);
    same("long title", matches!(created, Err(TaskError::Title { .. })), true)?;
    same("nothing is there", (board.keys().len(), tasks.list(&TaskFilter::default()).len()), (0, 0))
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::{
        bucket::{MemoryBucket, StateBucket},
        state::BlackboardChange,
    };

    /// Boards of one host.
    #[derive(Default)]
    struct LocalBoards(TaskBoard, Blackboard);

    impl BoardFixture for LocalBoards {
        fn tasks(&self) -> TaskBoard {
            self.0.clone()
        }

        fn blackboard(&self) -> Blackboard {
            self.1.clone()
        }
    }

    impl BoardFixture for MemoryBucket {
        fn tasks(&self) -> TaskBoard {
            let board = TaskBoard::new();
            board.share(Arc::new(self.clone()), "session.s.tasks".into(), None).unwrap();
            board
        }

        fn blackboard(&self) -> Blackboard {
            let board = Blackboard::new();
            board.share(Arc::new(self.clone()), "session.s.blackboard".into()).unwrap();
            board
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn local_and_shared_boards_pass_all_checks() {
        assert_eq!(failed_board_checks(|| Box::new(LocalBoards::default())), []);
        assert_eq!(failed_board_checks(|| Box::new(MemoryBucket::new())), []);
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn agents_of_one_name_on_two_hosts_are_two() {
        let bucket = MemoryBucket::new();
        let [one, other] = ["s1", "s2"].map(|session| {
            let board = TaskBoard::new();
            board.share(Arc::new(bucket.clone()), "t".into(), Some(session.into())).unwrap();
            board
        });
        one.create(new_task("dig"), TaskActor::Host).unwrap();
        assert_eq!(one.claim("task-1", "coder").unwrap().task.assignee.as_deref(), Some("coder@s1"));
        let refused = other.claim("task-1", "coder").unwrap_err();
        assert_eq!(refused, TaskError::Taken { id: "task-1".into(), by: "coder@s1".into() });
        assert!(one.is_assigned_to("task-1", "coder") && !other.is_assigned_to("task-1", "coder"));
        for (name, count) in [("coder", 1), ("coder@s1", 1), ("coder@s2", 0)] {
            let filter = TaskFilter { assignee: Some(name.into()), ..TaskFilter::default() };
            assert_eq!(one.list(&filter).len(), count, "{name}");
        }
        let refused = other.set_status("task-1", TaskStatus::Failed, TaskActor::Agent("coder")).unwrap_err();
        assert!(matches!(refused, TaskError::NotYours { .. }), "{refused}");
        one.set_status("task-1", TaskStatus::Completed, TaskActor::Agent("coder")).unwrap();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn callback_of_a_shared_board_can_restore_it() {
        let bucket = MemoryBucket::new();
        let (one, other) = (bucket.blackboard(), bucket.blackboard());
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&told);
        other.on_change(Arc::new(move |change: &BlackboardChange, _: Option<&ToolCallId>| {
            list.lock().unwrap().push(change.clone())
        }));
        for n in 0..20 {
            one.set(&format!("k{}", n % 3), &n).unwrap();
            one.delete("k1");
        }
        until("the last change", || other.revision() == one.revision()).unwrap();
        other.set("mine", &0).unwrap();
        let restored = Blackboard::new();
        restored.restore(told.lock().unwrap().clone()).unwrap();
        assert_eq!((restored.keys(), restored.revision()), (other.keys(), other.revision()));

        let (one, other) = (bucket.tasks(), bucket.tasks());
        let told = Arc::new(Mutex::new(Vec::new()));
        let list = Arc::clone(&told);
        other.on_change(Arc::new(move |task: &Task, _: Option<&ToolCallId>| list.lock().unwrap().push(task.clone())));
        for n in 1..5 {
            one.create(new_task("t"), TaskActor::Host).unwrap();
            one.claim(&format!("task-{n}"), "ann").unwrap();
        }
        other.create(new_task("last"), TaskActor::Host).unwrap();
        let restored = TaskBoard::new();
        restored.restore(told.lock().unwrap().clone()).unwrap();
        let all = TaskFilter::default();
        assert_eq!(restored.list(&all), other.list(&all));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn garbage_in_the_bucket_is_no_board() {
        let deep = format!(r#"{{"version":1,"revision":9,"entries":{{"a":[1,"{}"]}}}}"#, "[".repeat(200));
        for (document, why) in [
            ("", "EOF"),
            ("[]", "invalid length"),
            (r#"{"version":2,"tasks":[],"revision":0,"entries":{}}"#, "newer shelly-host"),
            (r#"{"version":1,"tasks":[{}],"revision":1,"entries":{"a":[2,"1"]}}"#, ""),
            (r#"{"version":1,"revision":18446744073709551615,"entries":{}}"#, ""),
            (&deep, ""),
        ] {
            let bucket = MemoryBucket::new();
            bucket.write("t", None, Some(document.as_bytes())).unwrap();
            let bucket: Arc<dyn StateBucket> = Arc::new(bucket);
            let refused = Blackboard::new().share(Arc::clone(&bucket), "t".into()).unwrap_err().to_string();
            assert!(refused.contains("is damaged") && refused.contains(why), "{document}: {refused}");
            let refused = TaskBoard::new().share(bucket, "t".into(), None).unwrap_err().to_string();
            assert!(refused.contains("is damaged") && refused.contains(why), "{document}: {refused}");
        }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn shared_board_without_its_server_changes_nothing() {
        let bucket = MemoryBucket::new();
        let (tasks, board) = (bucket.tasks(), bucket.blackboard());
        board.set("a", &1).unwrap();
        bucket.set_away(true);
        let refused = tasks.create(new_task("t"), TaskActor::Host).unwrap_err().to_string();
        assert!(refused.starts_with("the shared board cannot be used: the cluster does not answer"), "{refused}");
        assert!(matches!(board.set("a", &2), Err(BlackboardError::Cluster { .. })));
        assert!(!board.delete("a") && board.revision() == 1, "what is there can be read");
        bucket.set_away(false);
        assert_eq!(board.set("a", &2), Ok(2));
    }
}
