use serde_json::json;

use super::{made::*, *};

async fn stage(params: Value) -> Stage {
    let mut stage = Stage::of(crate::plugin::SLIDING_WINDOW, params).await;
    stage.moment = full(stage.moment, 0.7);
    stage
}

fn small() -> Value {
    json!({"recent_zone": 2, "medium_zone": 2, "trim_length": 100})
}

/// The task, and so many calls with long results; the second of each is an error.
fn work(calls: usize) -> Chat {
    let long = "ä".repeat(1_000);
    let both = [("read", "{}", long.as_str(), false), ("run", "{}", long.as_str(), true)];
    let turns: Vec<_> = (0..calls).map(|_| Turn::Calls(&both)).collect();
    chat("Fix `src/a.rs`.", &turns)
}

/// Has it summarise, and makes its edits. What it asked for.
async fn fold(stage: &mut Stage, chat: &Chat, summary: Result<Completion, Fault>) -> String {
    let EffectAction::AskModel(ask) = stage.step(chat).await.unwrap().action else { panic!("it does not ask") };
    stage.moment.reply = Some(summary);
    let edits = stage.edits(chat).await;
    make(chat, edits);
    ask.request.messages.last().unwrap().message.text_content()
}

#[tokio::test]
async fn sliding_window_shortens_each_zone_by_its_rule() {
    let (chat, mut stage) = (work(4), stage(small()).await);
    let question = fold(&mut stage, &chat, Ok(completion("They were read."))).await;
    assert!(question.contains("person: Fix `src/a.rs`.") && question.contains("c1-1") && !question.contains("c2-0"));
    let (long, cut) = ("ä".repeat(1_000), "ä".repeat(100));
    let cut = format!("{cut}\n[900 more characters were here; call the tool again if you need them]");
    // Two messages each would cut a reply from its results: each zone is a whole group.
    assert_eq!(results(&chat), [&*cut, &*long, &*long, &*long]);
    let all = lines(&chat);
    assert_eq!((all.len(), all.iter().filter(|line| line.contains("They were read.")).count()), (8, 1), "{all:?}");
    assert!(all[1].starts_with("u ") && all[1].ends_with("Fix `src/a.rs`."), "{all:?}");
}

#[tokio::test]
async fn sliding_window_keeps_one_running_summary() {
    let (chat, mut stage) = (work(4), stage(small()).await);
    fold(&mut stage, &chat, Ok(completion("First summary."))).await;
    // As full as before: no summary until it has grown by a tenth.
    Turn::Calls(&[("read", "{}", "more", false)]).add(&chat, 10);
    assert_eq!(stage.edits(&chat).await.len(), 1, "the medium zone is trimmed all the same");
    Turn::Calls(&[("read", "{}", "more", false)]).add(&chat, 11);
    stage.moment.request_tokens = 771;
    let question = fold(&mut stage, &chat, Ok(completion("Second summary."))).await;
    assert!(question.contains("summary of earlier messages: ") && question.contains("First summary."), "{question}");
    let all = lines(&chat).join("\n");
    assert!(all.contains("Second summary.") && !all.contains("First summary."), "{all}");
    assert_eq!(all.matches("Fix `src/a.rs`.").count(), 1, "{all}");
}

#[tokio::test]
async fn sliding_window_without_a_summary_folds_nothing() {
    let (chat, mut stage) = (work(4), stage(small()).await);
    let before = chat.snapshot().len();
    fold(&mut stage, &chat, Err(Fault::other("the line is dead"))).await;
    assert_eq!(chat.snapshot().len(), before);
    let long = "ä".repeat(1_000);
    assert_eq!(results(&chat).iter().filter(|text| **text == long).count(), 7, "one is trimmed");
    assert!(stage.edits(&chat).await.is_empty(), "it asks at once again");
    stage.moment.request_tokens = 771;
    fold(&mut stage, &chat, Ok(completion("A summary."))).await;
    assert!(chat.snapshot().len() < before);
}

#[tokio::test]
async fn sliding_window_leaves_a_small_chat_unchanged() {
    for (calls, params, share, edits) in [
        (4, small(), 0.69, 0),
        (1, small(), 1.0, 0),
        (4, json!({}), 1.0, 0),
        (2, json!({"recent_zone": 1, "medium_zone": 9}), 1.0, 1),
    ] {
        let mut stage = stage(params.clone()).await;
        stage.moment = full(stage.moment, share);
        assert_eq!(stage.edits(&work(calls)).await.len(), edits, "{calls} calls, {params}, {share}");
    }
    assert!(stage(small()).await.edits(&Chat::new()).await.is_empty());
    let system_alone = Chat::new();
    system_alone.set_system_prompt("helper", "x".repeat(9_000));
    assert!(stage(small()).await.edits(&system_alone).await.is_empty());
}

#[tokio::test]
async fn senseless_params_are_named() {
    for (params, expected) in [
        (json!({"threshold": 7}), "`threshold` is 7"),
        (json!({"recent_zone": 0}), "`recent_zone` is 0"),
        (json!({"trim_length": 0}), "`trim_length` is 0"),
        (json!({"zone": 9}), "unknown field `zone`"),
    ] {
        let error = stage(params).await.step(&work(1)).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
