//! Tests of the coordinator's state.

use super::*;

#[tokio::test]
async fn model_coordinator_state_is_bounded() {
    // Quotes take two bytes in JSON, and two more as JSON in JSON; the other characters take four.
    for bad in ["\"", "\\", "\u{1}", "\u{10ffff}", "\n"] {
        let mut team = Team::new(ModelCoordinatorOptions { window: 50, summary: true, ..with_tools() });
        team.shared = vec![Message::user("m"); 60];
        let bad = bad.repeat(10_000);
        let assign = serde_json::json!({ "assignments": [{ "member": "ann", "task": bad }, { "member": "bob", "task": bad }], "reasoning": bad });
        let assign = assign.to_string();
        let unknown = serde_json::json!({ "assignments": [{ "member": bad }] }).to_string();
        let replies = (0..40).flat_map(|_| [calls(&[("assign_task", &unknown)]), calls(&[("assign_task", &assign)])]);
        let told = team.play([says(&bad)].into_iter().chain(replies)).await;
        assert!(told.starts_with("ask, ask, ask, ann+bob, ask, ask, ann+bob"), "{told}");
        assert!(told.ends_with("ann+bob, ask"), "{told}");
        assert!(team.largest < limits::STATE_BYTES, "{bad:.1}: {}", team.largest);
        if bad.chars().all(char::is_control) {
            continue;
        }
        assert!(team.largest > 20_000, "{bad:.1}: {}", team.largest);
        let again = team.user();
        let said = again.lines().filter(|line| line.starts_with("You decided")).map(str::len).sum::<usize>();
        assert!((2_000..limits::COORDINATOR_SAID_BYTES + 1_000).contains(&said), "{said}");
    }
}

#[tokio::test]
async fn rejected_reply_is_shown_shortened() {
    let mut team = Team::new(ModelCoordinatorOptions::default());
    team.play([says(&"ß".repeat(50_000))]).await;
    assert_eq!(team.user().matches('ß').count(), limits::COORDINATOR_WRONG_CHARS);
}

#[tokio::test]
async fn a_memory_that_is_none_is_an_error() {
    let members = profiles("ann");
    for state in ["x", "[1]", "{\"said\":3}", "{\"asking\":{\"asked\":\"x\"}}", &"[".repeat(10_000)] {
        let fault = ModelCoordinator::default().next(&cx(), &moment(&members), state.into()).await.unwrap_err();
        assert!(fault.to_string().starts_with("cannot read the state of the coordinator: "), "{fault}");
    }
}

#[tokio::test]
async fn lost_coordinator_reply_is_requested_again() {
    let (members, coordinator) = (profiles("ann bob"), ModelCoordinator::default());
    let first = coordinator.next(&cx(), &moment(&members), vec![]).await.unwrap();
    let again = coordinator.next(&cx(), &moment(&members), first.state).await.unwrap();
    assert!(matches!(again.action, CoordinatorAction::Ask(_)));
    // An answer without a question is ignored.
    let unasked = CoordinatorInput { reply: Some(says(BOB)), ..moment(&members) };
    assert!(matches!(coordinator.next(&cx(), &unasked, vec![]).await.unwrap().action, CoordinatorAction::Ask(_)));
}
