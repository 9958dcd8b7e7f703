use std::{
    collections::HashSet,
    sync::{Arc, Barrier, Mutex},
    time::Duration,
};

use futures_util::{FutureExt, poll};
use serde_json::json;
use tokio::time::Instant;

use super::{
    TaskActor::{Agent, Host},
    TaskStatus::{Canceled, Completed, Failed, InProgress, Pending},
    *,
};
use crate::limits;

fn new(title: &str, blocked_by: &[&str]) -> NewTask {
    let blocked_by = blocked_by.iter().map(|id| (*id).into()).collect();
    NewTask { title: title.into(), blocked_by, ..NewTask::default() }
}

fn metadata(facts: serde_json::Value) -> TaskMetadata {
    serde_json::from_value(facts).unwrap()
}

/// A board of `lead` with one task per list of dependencies.
fn board(tasks: &[&[&str]]) -> TaskBoard {
    let board = TaskBoard::new();
    for (n, blocked_by) in tasks.iter().enumerate() {
        board.create(new(&format!("title {}", n + 1), blocked_by), Agent("lead")).unwrap();
    }
    board
}

/// A board whose only task has this status; `worker` claimed it where needed.
fn board_at(status: TaskStatus) -> TaskBoard {
    let board = board(&[&[]]);
    if status != Pending {
        board.claim("task-1", "worker").unwrap();
        board.set_status("task-1", status, Host).unwrap();
    }
    board
}

#[test]
fn new_task_is_pending_with_the_next_id() {
    let board = board(&[&[], &["task-1", "task-1"]]);
    let task = board.get("task-2").unwrap();
    assert_eq!(
        serde_json::to_value(&task).unwrap(),
        json!({"id": "task-2", "title": "title 2", "description": "", "status": "pending", "assignee": null,
            "blocked_by": ["task-1"], "metadata": {}, "created_by": "lead"})
    );
    assert_eq!(board.create(new("t", &[]), Host).unwrap().created_by, None);
    for id in ["task-4", "task-02", "task-", "", "x"] {
        assert_eq!(board.get(id), Err(TaskError::Unknown { id: id.into() }));
    }
    for status in TaskStatus::ALL {
        assert_eq!(serde_json::to_value(status).unwrap(), json!(status.as_str()));
    }
}

#[test]
fn task_beyond_a_limit_is_refused_without_change() {
    let long = |bytes: usize| "é".repeat(bytes / 2);
    let many: Vec<_> = (0..=limits::TASK_DEPENDENCIES).map(|_| "task-1".to_owned()).collect();
    let facts = |count: usize| metadata((0..count).map(|n| (n.to_string(), json!(n))).collect());
    for (task, error) in [
        (new("", &[]), "the title has 0 characters; use 1 to 200"),
        (new(" \n", &[]), "has 0 characters"),
        (new(&"é".repeat(limits::TASK_TITLE_CHARS + 1), &[]), "has 201 characters"),
        (NewTask { description: long(limits::TASK_DESCRIPTION_BYTES + 2), ..new("t", &[]) }, "has 16386 bytes"),
        (NewTask { metadata: facts(limits::TASK_METADATA_KEYS + 1), ..new("t", &[]) }, "33 facts"),
        (
            NewTask { metadata: metadata(json!({"k": long(limits::TASK_METADATA_BYTES)})), ..new("t", &[]) },
            "8200 bytes",
        ),
        (NewTask { blocked_by: many, ..new("t", &[]) }, "the task has 65 dependencies, the maximum is 64"),
        (new("t", &["task-1", "task-9"]), "there is no task `task-9`"),
    ] {
        let board = board(&[&[]]);
        let before = (board.revision(), board.get("task-1"));
        let told = board.create(task.clone(), Host).unwrap_err().to_string();
        assert!(told.contains(error), "{told}");
        let update = TaskUpdate {
            title: Some(task.title),
            description: Some(task.description),
            status: None,
            blocked_by: Some(task.blocked_by),
            metadata: task.metadata,
        };
        assert_eq!(board.update("task-1", update, Host).unwrap_err().to_string(), told);
        assert_eq!((board.revision(), board.get("task-1")), before);
    }
    let fits = NewTask {
        title: "é".repeat(limits::TASK_TITLE_CHARS),
        description: long(limits::TASK_DESCRIPTION_BYTES),
        blocked_by: vec![],
        metadata: facts(limits::TASK_METADATA_KEYS),
    };
    board(&[]).create(fits, Host).unwrap();
    let full = board(&vec![&[][..]; limits::TASKS]);
    assert_eq!(full.create(new("t", &[]), Host), Err(TaskError::Full));
}

#[test]
fn task_list_is_filtered_in_order_of_creation() {
    let board = board(&[&[], &[], &["task-2"], &[], &["task-1"], &[], &[], &[], &[], &[]]);
    board.claim("task-1", "ann").unwrap();
    board.claim("task-4", "bob").unwrap();
    board.set_status("task-1", Completed, Host).unwrap();
    let only = |status, assignee: Option<&str>, blocked| {
        let filter = TaskFilter { status, assignee: assignee.map(Into::into), blocked };
        board.list(&filter).iter().map(|task| task.id["task-".len()..].to_owned()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(only(None, None, None), "1 2 3 4 5 6 7 8 9 10");
    assert_eq!(only(Some(Completed), None, None), "1");
    assert_eq!(only(None, Some("bob"), None), "4");
    assert_eq!(only(None, None, Some(true)), "3");
    assert_eq!(only(Some(Pending), None, Some(false)), "2 5 6 7 8 9 10");
    assert_eq!(only(Some(Failed), None, None), "");
    assert_eq!(only(Some(Completed), Some("bob"), None), "");
}

#[test]
fn task_status_transitions_are_restricted() {
    for (from, allowed) in [
        (Pending, vec![Pending, Canceled]),
        (InProgress, vec![Pending, InProgress, Completed, Failed, Canceled]),
        (Completed, vec![Pending, Completed]),
        (Failed, vec![Pending, Failed]),
        (Canceled, vec![Pending, Canceled]),
    ] {
        for to in TaskStatus::ALL {
            for by in [Host, Agent("lead"), Agent("worker")] {
                if from == Pending && by == Agent("worker") {
                    continue;
                }
                let board = board_at(from);
                let changed = board.set_status("task-1", to, by);
                assert_eq!(changed.is_ok(), allowed.contains(&to), "{from:?} to {to:?}: {changed:?}");
                let task = board.get("task-1").unwrap();
                assert_eq!(task.status, if changed.is_ok() { to } else { from });
                let assigned = !matches!((from, task.status), (_, Pending) | (Pending, Canceled));
                assert_eq!(task.assignee.is_some(), assigned, "{from:?} to {to:?}");
            }
        }
        let canceled = board_at(from).cancel("task-1", Agent("lead"));
        assert_eq!(canceled.is_ok(), !from.is_terminal(), "{canceled:?}");
    }
    let told = board_at(Pending).set_status("task-1", Completed, Host).unwrap_err().to_string();
    assert_eq!(told, "`task-1` is pending and cannot become completed; claim it first");
    let told = board_at(Failed).set_status("task-1", Completed, Host).unwrap_err().to_string();
    assert!(told.starts_with("`task-1` is already failed; its creator"), "{told}");
}

#[test]
fn task_is_changed_only_by_creator_assignee_and_host() {
    let changes = [
        TaskUpdate { status: Some(InProgress), ..TaskUpdate::default() },
        TaskUpdate { title: Some("mine".into()), ..TaskUpdate::default() },
        TaskUpdate { metadata: metadata(json!({"k": 1})), ..TaskUpdate::default() },
        TaskUpdate { description: Some("mine".into()), ..TaskUpdate::default() },
    ];
    for update in changes {
        for (by, may) in [(Host, true), (Agent("lead"), true), (Agent("worker"), true), (Agent("other"), false)] {
            let changed = board_at(InProgress).update("task-1", update.clone(), by);
            assert_eq!(changed.is_ok(), may, "{by:?}: {changed:?}");
        }
    }
    let told = board_at(InProgress).cancel("task-1", Agent("other")).unwrap_err().to_string();
    assert_eq!(told, "`task-1` can be changed only by its creator (lead) and its assignee (worker)");
    // An unassigned task of the host belongs to no agent, not even to one without a name.
    let board = TaskBoard::new();
    board.create(new("t", &[]), Host).unwrap();
    let told = board.cancel("task-1", Agent("")).unwrap_err().to_string();
    assert!(told.contains("(nobody but the host)"), "{told}");
}

#[test]
fn an_update_is_partial_and_merges_metadata() {
    let board = board(&[&[]]);
    let facts = |facts| TaskUpdate { metadata: metadata(facts), ..TaskUpdate::default() };
    board.update("task-1", facts(json!({"a": 1, "b": [2]})), Host).unwrap();
    board.update("task-1", facts(json!({"a": null, "c": "3", "none": null})), Host).unwrap();
    let update = TaskUpdate { description: Some("more".into()), ..TaskUpdate::default() };
    let report = board.update("task-1", update, Agent("lead")).unwrap();
    assert_eq!((report.status, report.previous, report.by.as_deref()), (Pending, Pending, Some("lead")));
    let task = board.get("task-1").unwrap();
    assert_eq!((task.title.as_str(), task.description.as_str()), ("title 1", "more"));
    assert_eq!(task.metadata, metadata(json!({"b": [2], "c": "3"})));

    let board = board_at(Completed);
    board.update("task-1", facts(json!({"result": "late"})), Agent("worker")).unwrap();
    let update = TaskUpdate { title: Some("x".into()), ..TaskUpdate::default() };
    assert!(matches!(board.update("task-1", update.clone(), Host), Err(TaskError::Finished { .. })));
    board.update("task-1", TaskUpdate { status: Some(Pending), ..update }, Agent("worker")).unwrap();
    assert_eq!(board.get("task-1").unwrap().title, "x");
}

#[test]
fn task_dependency_cycles_are_refused() {
    let wait_for = |ids: &[&str]| TaskUpdate {
        blocked_by: Some(ids.iter().map(|id| (*id).into()).collect()),
        ..TaskUpdate::default()
    };
    for (id, on, path) in [
        ("task-1", "task-1", "task-1 → task-1"),
        ("task-1", "task-2", "task-1 → task-2 → task-1"),
        ("task-1", "task-4", "task-1 → task-4 → task-3 → task-2 → task-1"),
    ] {
        let board = board(&[&[], &["task-1"], &["task-2"], &["task-3"], &[]]);
        let told = board.update(id, wait_for(&["task-5", on]), Host).unwrap_err().to_string();
        assert_eq!(told, format!("circular dependency of tasks: {path}"));
        assert_eq!(board.get(id).unwrap().blocked_by, Vec::<String>::new());
    }
    let board = board(&[&[], &["task-1"], &["task-2"], &["task-2", "task-3"]]);
    board.update("task-2", wait_for(&[]), Host).unwrap();
    board.update("task-1", wait_for(&["task-4"]), Host).unwrap();
    let told = board_at(InProgress).update("task-1", wait_for(&[]), Host).unwrap_err().to_string();
    assert_eq!(told, "`task-1` is in_progress; its dependencies can change only while it is pending");
}

#[test]
fn claim_is_exclusive_and_lists_completed_dependencies() {
    let board = board(&[&[], &["task-1"]]);
    let told = board.claim("task-2", "ann").unwrap_err().to_string();
    assert_eq!(told, "`task-2` cannot be started: it waits for task-1, which is pending");
    board.claim("task-1", "ann").unwrap();
    assert_eq!(board.claim("task-1", "ann").unwrap().task.assignee.as_deref(), Some("ann"), "again changes nothing");
    assert_eq!(
        board.claim("task-1", "bob").unwrap_err().to_string(),
        "`task-1` is already assigned to ann; take another task, or wait for this one"
    );
    let report = board.set_status("task-1", Completed, Agent("ann")).unwrap();
    assert_eq!(
        serde_json::to_value(&report).unwrap(),
        json!({"id": "task-1", "status": "completed", "previous": "in_progress", "assignee": "ann", "by": "ann",
            "unblocked": ["task-2"], "stuck": []})
    );
    let assignment = serde_json::to_value(board.claim("task-2", "bob").unwrap()).unwrap();
    assert_eq!(assignment["builds_on"], json!([{"id": "task-1", "title": "title 1"}]));
    assert_eq!((&assignment["status"], &assignment["taken_from"]), (&json!("in_progress"), &json!(null)));
    assert!(matches!(board.claim("task-1", "ann"), Err(TaskError::Finished { status: Completed, .. })));
    assert!(matches!(board.claim("task-9", "ann"), Err(TaskError::Unknown { .. })));
}

#[test]
fn claim_for_takes_over_only_from_the_named_agent() {
    let board = board(&[&[], &[], &["task-2"]]);
    assert_eq!(board.claim_for("task-1", "child", "lead").unwrap().taken_from, None);
    assert!(matches!(board.claim_for("task-1", "rival", "lead"), Err(TaskError::Taken { by, .. }) if by == "child"));
    assert_eq!(board.claim_for("task-1", "peer", "child").unwrap().taken_from.as_deref(), Some("child"));
    assert_eq!(board.claim_for("task-1", "peer", "child").unwrap().taken_from, None);
    assert!(matches!(board.claim_for("task-3", "child", "lead"), Err(TaskError::Blocked { .. })));
    board.cancel("task-1", Host).unwrap();
    assert!(matches!(board.claim_for("task-1", "peer", "peer"), Err(TaskError::Finished { .. })));
}

#[test]
fn one_of_many_concurrent_claims_wins() {
    let (board, start) = (board(&[&[]]), Barrier::new(8));
    let winners: Vec<_> = std::thread::scope(|scope| {
        let (board, start) = (&board, &start);
        let claim = |n: usize| {
            start.wait();
            board.claim("task-1", &format!("agent-{n}")).ok()
        };
        let threads: Vec<_> = (0..8).map(|n| scope.spawn(move || claim(n))).collect();
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(winners.len(), 1);
    assert_eq!(board.get("task-1").unwrap().assignee, winners[0].task.assignee);
}

#[test]
fn task_blocked_by_a_failed_one_says_why() {
    let board = board(&[&[], &["task-1"], &["task-2"], &[]]);
    board.claim("task-1", "ann").unwrap();
    assert_eq!(board.why_blocked("task-3").unwrap()[0].dead_end, None);
    let report = board.set_status("task-1", Failed, Agent("ann")).unwrap();
    assert_eq!((report.unblocked, report.stuck), (vec![], vec!["task-2".to_owned()]));
    let blocker = |id: &str, status| vec![TaskBlocker { id: id.into(), status, dead_end: Some("task-1".into()) }];
    assert_eq!(board.why_blocked("task-2").unwrap(), blocker("task-1", Failed));
    assert_eq!(board.why_blocked("task-3").unwrap(), blocker("task-2", Pending));
    assert_eq!(board.why_blocked("task-4").unwrap(), []);
    assert_eq!(
        board.claim("task-2", "bob").unwrap_err().to_string(),
        "`task-2` cannot be started: it waits for task-1, which is failed; reopen task-1, or remove the dependency"
    );
    assert_eq!(
        board.claim("task-3", "bob").unwrap_err().to_string(),
        "`task-3` cannot be started: it waits for task-2, which is pending and waits for task-1, which failed or was \
         canceled; reopen task-1"
    );
    board.set_status("task-1", Pending, Agent("ann")).unwrap();
    assert_eq!(board.why_blocked("task-3").unwrap()[0].dead_end, None, "reopened, it can still be done");
}

#[tokio::test(start_paused = true)]
async fn task_watch_ends_with_any_final_status() {
    for end in [Completed, Failed, Canceled] {
        let board = board(&[&[], &[]]);
        board.claim("task-1", "ann").unwrap();
        let mut watch = Box::pin(board.watch("task-1"));
        assert!(poll!(&mut watch).is_pending());
        board.cancel("task-2", Host).unwrap();
        tokio::time::advance(Duration::from_secs(3600)).await;
        assert!(poll!(&mut watch).is_pending(), "with an assignee it has all the time");
        board.set_status("task-1", end, Agent("ann")).unwrap();
        assert_eq!(watch.await.unwrap().status, end);
        assert_eq!(board.watch("task-1").now_or_never().unwrap().unwrap().status, end);
    }
    assert!(matches!(board(&[]).watch("task-1").await, Err(TaskError::Unknown { .. })));
}

#[tokio::test(start_paused = true)]
async fn task_watch_gives_up_on_an_unclaimed_task() {
    let board = board(&[&[], &["task-1"]]);
    // Time before the wait does not count.
    tokio::time::advance(limits::TASK_UNCLAIMED * 2).await;
    let started = Instant::now();
    let told = board.watch("task-2").await.unwrap_err().to_string();
    assert_eq!(started.elapsed(), limits::TASK_UNCLAIMED);
    assert_eq!(
        told,
        "nobody claimed `task-2` for 15 seconds (it waits for task-1, which is pending); claim it, delegate it, or \
         wait again later"
    );

    let nearly = limits::TASK_UNCLAIMED - Duration::from_secs(1);
    let mut watch = Box::pin(board.watch("task-1"));
    assert!(poll!(&mut watch).is_pending());
    tokio::time::advance(nearly).await;
    // A task that is claimed and given back between two checks restarts the clock.
    board.claim("task-1", "ann").unwrap();
    board.set_status("task-1", Pending, Agent("ann")).unwrap();
    assert!(poll!(&mut watch).is_pending());
    tokio::time::advance(nearly).await;
    assert!(poll!(&mut watch).is_pending());
    let back = Instant::now();
    assert!(matches!(watch.await, Err(TaskError::Unclaimed { .. })));
    assert_eq!(back.elapsed(), Duration::from_secs(1));
}

#[tokio::test]
async fn assignee_is_notified_of_cancellation() {
    let board = board(&[&[], &[]]);
    board.claim("task-1", "ann").unwrap();
    let mut canceled = Box::pin(board.canceled("task-1"));
    assert!(poll!(&mut canceled).is_pending());
    board.cancel("task-2", Host).unwrap();
    assert!(poll!(&mut canceled).is_pending());
    board.cancel("task-1", Agent("lead")).unwrap();
    assert!(board.canceled("task-1").now_or_never().is_some(), "it is canceled already");
    board.set_status("task-1", Pending, Agent("lead")).unwrap();
    canceled.await.unwrap();
    assert!(board.canceled("task-1").now_or_never().is_none(), "reopened it is not");
    assert!(matches!(board.canceled("task-9").await, Err(TaskError::Unknown { .. })));
}

#[tokio::test]
async fn task_board_changes_can_be_awaited() {
    let board = board(&[&[]]);
    let mut seen = HashSet::from([board.revision()]);
    let changes: [&dyn Fn(); 3] = [
        &|| drop(board.create(new("t", &[]), Host).unwrap()),
        &|| drop(board.claim("task-1", "ann").unwrap()),
        &|| drop(board.set_status("task-1", Completed, Host).unwrap()),
    ];
    for change in changes {
        let before = board.revision();
        let mut changed = Box::pin(board.changed(before));
        assert!(poll!(&mut changed).is_pending());
        board.claim("task-9", "ann").unwrap_err();
        assert!(poll!(&mut changed).is_pending());
        change();
        assert!(seen.insert(changed.await));
    }
}

/// Returns a board and records all changes that it reports.
fn told(board: &TaskBoard) -> Arc<Mutex<Vec<Task>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    board.on_change(Arc::new(move |task: &Task, _| hook.lock().unwrap().push(task.clone())));
    told
}

#[test]
fn task_board_hook_gets_each_change_once_in_order() {
    let (board, facts) =
        (TaskBoard::new(), TaskUpdate { metadata: metadata(json!({"k": 1})), ..TaskUpdate::default() });
    let told = told(&board);
    let changes: [(&str, &dyn Fn()); 11] = [
        ("task-1 pending", &|| drop(board.create(new("t", &[]), Agent("lead")))),
        ("", &|| drop(board.create(new("", &[]), Host))),
        ("task-2 pending", &|| drop(board.create(new("t", &["task-1"]), Host))),
        ("", &|| drop(board.claim("task-2", "ann"))),
        ("task-1 in_progress", &|| drop(board.claim("task-1", "ann").unwrap())),
        ("", &|| drop(board.claim("task-1", "ann").unwrap())),
        ("", &|| drop(board.update("task-1", TaskUpdate::default(), Host).unwrap())),
        ("task-1 in_progress", &|| drop(board.update("task-1", facts.clone(), Host).unwrap())),
        ("", &|| drop(board.update("task-1", facts.clone(), Agent("eve")))),
        ("task-1 completed", &|| drop(board.set_status("task-1", Completed, Agent("ann")).unwrap())),
        ("task-2 canceled", &|| drop(board.cancel("task-2", Host).unwrap())),
    ];
    for (n, (expected, change)) in changes.into_iter().enumerate() {
        change();
        let told: Vec<_> = std::mem::take(&mut *told.lock().unwrap());
        let words: Vec<_> = told.iter().map(|task| format!("{} {}", task.id, task.status.as_str())).collect();
        assert_eq!(words.join(", "), expected, "{n}");
        assert!(told.iter().all(|task| board.get(&task.id).as_ref() == Ok(task)));
    }
}

#[test]
fn task_board_restores_from_any_prefix_of_changes() {
    let board = TaskBoard::new();
    let told = told(&board);
    let all = |board: &TaskBoard| board.list(&TaskFilter::default());
    let mut states = vec![all(&board)];
    let waits = |ids: &[&str]| TaskUpdate {
        blocked_by: Some(ids.iter().map(|id| (*id).into()).collect()),
        ..TaskUpdate::default()
    };
    let changes: [&dyn Fn(); 8] = [
        &|| drop(board.create(new("one", &[]), Agent("lead")).unwrap()),
        &|| drop(board.create(new("two", &["task-1"]), Agent("lead")).unwrap()),
        &|| drop(board.update("task-2", waits(&[]), Host).unwrap()),
        &|| drop(board.update("task-1", waits(&["task-2"]), Host).unwrap()),
        &|| drop(board.claim("task-2", "ann").unwrap()),
        &|| drop(board.set_status("task-2", Failed, Agent("ann")).unwrap()),
        &|| drop(board.cancel("task-1", Agent("lead")).unwrap()),
        &|| drop(board.set_status("task-1", Pending, Agent("lead")).unwrap()),
    ];
    for change in changes {
        change();
        states.push(all(&board));
    }
    let told = told.lock().unwrap().clone();
    assert_eq!(told.len(), states.len() - 1);
    for (end, state) in states.into_iter().enumerate() {
        let restored = TaskBoard::new();
        restored.create(new("what was there before", &[]), Host).unwrap();
        let hook = self::told(&restored);
        let text = serde_json::to_string(&told[..end]).unwrap();
        restored.restore(serde_json::from_str::<Vec<Task>>(&text).unwrap()).unwrap();
        assert_eq!(all(&restored), state, "after {end}");
        assert!(hook.lock().unwrap().is_empty(), "what is written down is not told again");
        restored.create(new("three", &[]), Host).unwrap();
        assert_eq!(hook.lock().unwrap().len(), 1);
        if let Some(task) = state.iter().find(|task| task.status == InProgress) {
            assert_eq!(restored.claim(&task.id, "ann").unwrap().task, *task);
            assert!(matches!(restored.claim(&task.id, "bob"), Err(TaskError::Taken { .. })));
        }
    }
}

#[test]
fn invalid_task_board_changes_are_refused_by_task() {
    let task = |n: usize, blocked_by: &[&str]| Task {
        id: format!("task-{n}"),
        title: "t".into(),
        description: String::new(),
        status: Pending,
        assignee: None,
        blocked_by: blocked_by.iter().map(|id| (*id).into()).collect(),
        metadata: TaskMetadata::new(),
        created_by: None,
    };
    let at = |status, assignee: Option<&str>| Task { status, assignee: assignee.map(Into::into), ..task(1, &[]) };
    let many: Vec<_> = (0..=limits::TASK_DEPENDENCIES).map(|_| "task-1").collect();
    for (changes, refused) in [
        (vec![task(2, &[])], "cannot restore task `task-2`: expected `task-1`"),
        (vec![task(1, &[]), Task { id: "x".repeat(1_000), ..task(1, &[]) }], "expected `task-2`"),
        (vec![Task { title: " ".into(), ..task(1, &[]) }], "cannot restore task `task-1`: the title has 0 characters"),
        (vec![Task { description: "x".repeat(limits::TASK_DESCRIPTION_BYTES + 1), ..task(1, &[]) }], "16385 bytes"),
        (vec![at(Pending, Some("ann"))], "cannot restore task `task-1`: pending with an assignee"),
        (vec![at(InProgress, None)], "in_progress without an assignee"),
        (vec![at(Completed, None)], "completed without an assignee"),
        (vec![task(1, &["task-2"])], "cannot restore task `task-1`: there is no task `task-2`"),
        (vec![task(1, &many)], "the task has 65 dependencies, the maximum is 64"),
        (vec![task(1, &["task-1"])], "circular dependency of tasks: task-1 → task-1"),
        (
            vec![task(1, &["task-3"]), task(2, &["task-1"]), task(3, &[]), task(3, &["task-2"])],
            "cannot restore task `task-1`: circular dependency of tasks: task-1 → task-3 → task-2 → task-1",
        ),
        ((1..=limits::TASKS + 1).map(|n| task(n, &[])).collect(), "cannot restore task `task-1025`: the board has"),
    ] {
        let board = board(&[&[]]);
        let error = board.restore(changes).unwrap_err().to_string();
        assert!(error.contains(refused) && error.chars().count() < 400, "{error}");
        assert_eq!(board.list(&TaskFilter::default()).len(), 1, "nothing has changed: {error}");
    }
    let board = TaskBoard::new();
    board.restore([at(Canceled, None), at(Canceled, Some("ann")), task(2, &["task-1", "task-1"])]).unwrap();
    assert_eq!(board.list(&TaskFilter::default()).len(), 2);
}

#[test]
fn task_metadata_depth_is_limited() {
    for (levels, is_kept) in [(0, true), (limits::TASK_METADATA_DEPTH, true), (limits::TASK_METADATA_DEPTH + 1, false)]
    {
        let nested =
            (0..levels).fold(json!(1), |inner, n| if n % 2 == 0 { json!([inner]) } else { json!({"k": inner}) });
        let board = TaskBoard::new();
        let task = NewTask { metadata: metadata(json!({"k": nested})), ..new("t", &[]) };
        let made = board.create(task, Host);
        assert_eq!(made.is_ok(), is_kept, "{levels}");
        assert!(is_kept || made == Err(TaskError::TooDeep));
    }
}

#[tokio::test(start_paused = true)]
async fn watch_of_a_restored_task_starts_anew() {
    let before = board(&[&[]]);
    let tasks = before.list(&TaskFilter::default());
    tokio::time::advance(limits::TASK_UNCLAIMED * 2).await;
    let board = TaskBoard::new();
    let mut waiting = Box::pin(board.changed(board.revision()));
    assert!(poll!(&mut waiting).is_pending());
    board.restore(tasks).unwrap();
    waiting.await;
    let started = Instant::now();
    assert!(matches!(board.watch("task-1").await, Err(TaskError::Unclaimed { .. })));
    assert_eq!(started.elapsed(), limits::TASK_UNCLAIMED);
}
