use std::{
    collections::HashSet,
    sync::{Barrier, Mutex},
};

use futures_util::{FutureExt, poll};
use serde_json::{Value, json};

use super::*;

fn value(entry: Option<BlackboardEntry>) -> Option<Value> {
    entry.map(|entry| entry.parse().unwrap())
}

#[test]
fn blackboard_value_stays_until_replaced_or_deleted() {
    let board = Blackboard::new();
    assert_eq!(value(board.get("a")), None);
    let mut mine = json!({"list": [1, 2]});
    assert_eq!(board.set("b", &mine), Ok(1));
    mine["list"] = json!([]);
    let mut read: Value = board.get("b").unwrap().parse().unwrap();
    assert_eq!(read, json!({"list": [1, 2]}), "a copy goes in");
    read["list"] = json!("changed");
    assert_eq!(value(board.get("b")), Some(json!({"list": [1, 2]})), "a copy comes out");
    assert_eq!(board.clone().set("a", "x"), Ok(2), "a clone is the same board");
    assert_eq!(board.keys(), ["a", "b"]);
    let before = board.snapshot();
    assert!(board.delete("b") && !board.delete("b"));
    assert_eq!(board.keys(), ["a"]);
    assert_eq!(before.len(), 2);
    assert_eq!(board.set("b", &1), Ok(4), "the deletion took a revision");
    let raw = RawValue::from_string(r#"{"z": 1.0, "a": 123456789012345678901234567890}"#.into()).unwrap();
    board.set("raw", &*raw).unwrap();
    assert_eq!(board.get("raw").unwrap().value.get(), raw.get(), "kept as it was written");
}

#[test]
fn invalid_blackboard_keys_and_values_are_refused() {
    let deep = RawValue::from_string(format!("{}{}", "[".repeat(200), "]".repeat(200))).unwrap();
    let half = RawValue::from_string(r#""\ud800""#.into()).unwrap();
    let large = "x".repeat(limits::BLACKBOARD_VALUE_BYTES - 1);
    for (key, value, error) in [
        (String::new(), json!(1), "invalid key ``; use 1 to 128 bytes"),
        ("k".repeat(limits::BLACKBOARD_KEY_BYTES + 1), json!(1), "invalid key"),
        ("a\nb".into(), json!(1), "invalid key `a\\nb`"),
        ("k".into(), json!(large), "has 31001 bytes, the maximum is 31000"),
    ] {
        let board = Blackboard::new();
        let told = board.set(&key, &value).unwrap_err().to_string();
        assert!(told.contains(error), "{told}");
        assert_eq!(board.compare_and_swap(&key, None, &value).unwrap_err().to_string(), told);
        assert!(board.keys().is_empty());
    }
    for (value, error) in [(deep, "recursion limit"), (half, "hex escape")] {
        let told = Blackboard::new().set("k", &*value).unwrap_err().to_string();
        assert!(told.starts_with("cannot store the value for `k`") && told.contains(error), "{told}");
    }
}

#[test]
fn full_blackboard_accepts_only_what_fits() {
    let board = Blackboard::new();
    for n in 0..limits::BLACKBOARD_KEYS {
        board.set(&n.to_string(), &n).unwrap();
    }
    assert_eq!(board.set("one more", &0), Err(BlackboardError::TooManyKeys));
    board.set("0", "over what is there").unwrap();

    let board = Blackboard::new();
    let large = "x".repeat(limits::BLACKBOARD_VALUE_BYTES - 2);
    let fit = limits::BLACKBOARD_BYTES / (limits::BLACKBOARD_VALUE_BYTES + 4);
    for n in 0..fit {
        board.set(&format!("{n:04}"), &large).unwrap();
    }
    assert!(matches!(board.set("more", &large), Err(BlackboardError::Full { .. })));
    board.set("0000", &large).unwrap();
    assert!(board.delete("0001"), "what is freed can be used");
    board.set("more", &large).unwrap();
}

#[test]
fn restored_changes_leave_out_only_so_many_revisions() {
    let change = |revision| BlackboardChange { key: "a".into(), revision, value: Some("1".into()) };
    let (board, last) = (Blackboard::new(), limits::BLACKBOARD_SKIPPED + 1);
    board.restore([change(last)]).unwrap();
    assert_eq!(board.revision(), last);
    let refused = board.restore([change(last + 1)]).unwrap_err();
    assert!(refused.to_string().contains("expected revision 1"), "{refused}");
    assert_eq!(board.revision(), last, "nothing has changed");
}

#[test]
fn compare_and_swap_requires_the_expected_revision() {
    let board = Blackboard::new();
    let conflict = |expected, found| Err(BlackboardError::Conflict { key: "k".into(), expected, found });
    assert_eq!(board.compare_and_swap("k", Some(1), &0), conflict(Some(1), None));
    assert_eq!(board.compare_and_swap("k", None, &0), Ok(1));
    assert_eq!(board.compare_and_swap("k", None, &0), conflict(None, Some(1)));
    assert_eq!(board.compare_and_swap("k", Some(1), &0), Ok(2));
    let told = board.compare_and_swap("k", Some(1), &0).unwrap_err().to_string();
    assert_eq!(told, "`k` is at revision 2, expected revision 1; read it again and retry");
    board.delete("k");
    assert_eq!(board.compare_and_swap("k", Some(2), &0), conflict(Some(2), None));
    assert_eq!(board.compare_and_swap("k", None, &0), Ok(4), "no revision comes twice");
}

#[test]
fn concurrent_compare_and_swap_loses_no_increment() {
    let (board, start) = (Blackboard::new(), Barrier::new(4));
    board.set("count", &0).unwrap();
    let revisions: Vec<u64> = std::thread::scope(|scope| {
        let count = || {
            start.wait();
            let mut revisions = Vec::new();
            while revisions.len() < 100 {
                let entry = board.get("count").unwrap();
                let next = entry.parse::<u64>().unwrap() + 1;
                revisions.extend(board.compare_and_swap("count", Some(entry.revision), &next));
            }
            revisions
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(count)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(value(board.get("count")), Some(json!(400)));
    assert_eq!(revisions.iter().collect::<HashSet<_>>().len(), 400);
}

#[tokio::test]
async fn blackboard_watch_returns_the_value() {
    let board = Blackboard::new();
    let mut watch = Box::pin(board.watch("k"));
    assert!(poll!(&mut watch).is_pending());
    board.set("other", &0).unwrap();
    assert!(poll!(&mut watch).is_pending());
    board.set("k", "here").unwrap();
    assert_eq!(watch.await.parse::<String>().unwrap(), "here");
    assert!(board.watch("k").now_or_never().is_some(), "what is there is not waited for");
}

#[tokio::test]
async fn blackboard_changed_reports_new_value_or_deletion() {
    let board = Blackboard::new();
    let mut first = Box::pin(board.changed("k", 0));
    assert!(poll!(&mut first).is_pending());
    let revision = board.set("k", &1).unwrap();
    assert_eq!(first.await.unwrap().revision, revision);
    let mut second = Box::pin(board.changed("k", revision));
    assert!(poll!(&mut second).is_pending());
    board.set("other", &1).unwrap();
    assert!(poll!(&mut second).is_pending());
    board.delete("k");
    assert!(second.await.is_none());
    let revision = board.set("k", &2).unwrap();
    assert_eq!(board.changed("k", 1).await.unwrap().revision, revision);
}

/// Records all changes that a blackboard reports.
fn told(board: &Blackboard) -> Arc<Mutex<Vec<BlackboardChange>>> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let hook = Arc::clone(&told);
    board.on_change(Arc::new(move |change: &BlackboardChange, _: Option<&ToolCallId>| {
        hook.lock().unwrap().push(change.clone())
    }));
    told
}

#[test]
fn blackboard_restores_from_any_prefix_of_changes() {
    let board = Blackboard::new();
    let told = told(&board);
    let shown = |board: &Blackboard| {
        let snapshot = board.snapshot().into_iter();
        snapshot.map(|(key, entry)| (key, entry.revision, entry.value.get().to_owned())).collect::<Vec<_>>()
    };
    let mut states = vec![shown(&board)];
    let changes: [&dyn Fn() -> bool; 8] = [
        &|| board.set("a", &json!({"z": 1.0, "é": [null]})).is_ok(),
        &|| board.set("", &1).is_ok(),
        &|| board.compare_and_swap("a", Some(1), "two").is_ok(),
        &|| board.compare_and_swap("a", Some(1), "three").is_ok(),
        &|| board.set("b", "two").is_ok(),
        &|| board.set("b", "two").is_ok(),
        &|| board.delete("a"),
        &|| board.delete("a"),
    ];
    for change in changes {
        let before = told.lock().unwrap().len();
        let changed = change();
        assert_eq!(told.lock().unwrap().len() - before, usize::from(changed), "told once, if it was changed");
        if changed {
            states.push(shown(&board));
        }
    }
    let told = told.lock().unwrap().clone();
    for (end, state) in states.into_iter().enumerate() {
        let restored = Blackboard::new();
        restored.set("what was there before", &0).unwrap();
        let hook = self::told(&restored);
        let text = serde_json::to_string(&told[..end]).unwrap();
        restored.restore(serde_json::from_str::<Vec<BlackboardChange>>(&text).unwrap()).unwrap();
        assert_eq!(shown(&restored), state, "after {end}");
        assert!(hook.lock().unwrap().is_empty(), "what is written down is not told again");
        assert_eq!(restored.set("next", &0), Ok(end as u64 + 1), "revisions go on");
        assert_eq!(hook.lock().unwrap().len(), 1);
    }
}

#[test]
fn invalid_blackboard_changes_are_refused_by_revision() {
    let change = |revision, key: &str, value: Option<&str>| BlackboardChange {
        key: key.into(),
        revision,
        value: value.map(Into::into),
    };
    let large = format!("\"{}\"", "x".repeat(limits::BLACKBOARD_VALUE_BYTES));
    let full = (0..=limits::BLACKBOARD_KEYS).map(|n| change(n as u64 + 1, &n.to_string(), Some("0")));
    for (changes, refused) in [
        (vec![change(0, "k", Some("1"))], "cannot restore revision 0 of the blackboard, `k`: expected revision 1"),
        (vec![change(u64::MAX, "k", Some("1"))], "expected revision 1"),
        (vec![change(1, "k", Some("1")), change(1, "k", Some("1"))], "expected revision 2"),
        (vec![change(1, "k", Some("1,"))], "the value is not JSON: trailing characters"),
        (vec![change(1, "k", Some(&"[".repeat(200)))], "the value is not JSON"),
        (vec![change(1, "k", Some(r#""\ud800""#))], "cannot store the value for `k`"),
        (vec![change(1, "k", Some(&large))], "the maximum is 31000"),
        (vec![change(1, "a\nb", Some("1"))], "invalid key `a\\nb`"),
        (vec![change(1, "k", None)], "the key to delete does not exist"),
        (
            full.collect(),
            "cannot restore revision 1025 of the blackboard, `1024`: the blackboard has reached its maximum of \
             1024 keys",
        ),
    ] {
        let board = Blackboard::new();
        board.set("there", &1).unwrap();
        let error = board.restore(changes).unwrap_err().to_string();
        assert!(error.contains(refused), "{error}");
        assert_eq!(board.keys(), ["there"], "nothing has changed: {error}");
    }
}
