use serde_json::json;

use super::{made::*, *};

async fn stage(params: Value) -> Stage {
    let mut stage = Stage::of(crate::plugin::TRIM_TOOL_RESULTS, params).await;
    stage.moment.phase = EffectPhase::AfterModel;
    stage
}

#[tokio::test]
async fn trim_cuts_read_results_once_except_newest_and_errors() {
    let long = "ä".repeat(1_000);
    let turns = [
        Turn::Calls(&[("read", "{}", &long, false), ("read", "{}", &long, true)]),
        Turn::Calls(&[("read", "{}", "short", false)]),
        Turn::Calls(&[("read", "{}", &long, false)]),
        Turn::Calls(&[("read", "{}", &long, false)]),
        Turn::Says("Done."),
    ];
    let chat = chat("Read all.", &turns);
    let mut stage = stage(json!({"max_result_length": 300, "preserve_recent": 1})).await;
    make(&chat, stage.edits(&chat).await);
    let cut = format!("{}\n[700 more characters were here; call the tool again if you need them]", "ä".repeat(300));
    assert_eq!(results(&chat), [&cut, &long, "short", &cut, &long]);
    assert!(stage.edits(&chat).await.is_empty(), "nothing is cut twice");
    // What it remembers is gone: it looks at everything again, and nothing is cut twice then either.
    stage.state.clear();
    assert!(stage.edits(&chat).await.is_empty());
    // A turn later another one is old.
    chat.append(Message::user("And again.")).unwrap();
    Turn::Calls(&[("read", "{}", &long, false)]).add(&chat, 9);
    make(&chat, stage.edits(&chat).await);
    assert_eq!(results(&chat), [&cut, &long, "short", &cut, &cut, &long]);
}

#[tokio::test]
async fn trim_leaves_few_results_and_other_phases_unchanged() {
    let long = "x".repeat(5_000);
    let call = [("read", "{}", long.as_str(), false)];
    let chat = chat("Read.", &[Turn::Calls(&call), Turn::Calls(&call), Turn::Calls(&call), Turn::Calls(&call)]);
    for preserve in [0, -7, 4] {
        let mut stage = stage(json!({"preserve_recent": preserve})).await;
        assert!(stage.edits(&chat).await.is_empty(), "preserve {preserve}");
    }
    let mut stage = stage(json!({"preserve_recent": 1})).await;
    assert_eq!(stage.edits(&chat).await.len(), 3);
    stage.moment.phase = EffectPhase::BeforeModel;
    stage.state.clear();
    assert!(stage.edits(&chat).await.is_empty());
}

#[tokio::test]
async fn trim_keeps_media_and_cuts_long_texts_together() {
    let chat = chat("Look.", &[Turn::Calls(&[("look", "{}", "x", false)]), Turn::Calls(&[("look", "{}", "x", false)])]);
    let picture = ToolResultContent::Media(shelly_host::chat::Media {
        media_type: "image/png".into(),
        name: None,
        source: shelly_host::chat::MediaData::Bytes(vec![1, 2, 3].into()),
    });
    let pieces =
        vec![ToolResultContent::Text("a".repeat(400)), picture.clone(), ToolResultContent::Text("b".repeat(800))];
    chat.replace_result("c0-0", pieces).unwrap();
    make(&chat, stage(json!({"preserve_recent": 1})).await.edits(&chat).await);
    let snapshot = chat.snapshot();
    let content = &snapshot.iter().nth(3).unwrap().message.tool_results().next().unwrap().content;
    assert_eq!((content.len(), &content[1]), (3, &picture));
    assert!(
        matches!(&content[2], ToolResultContent::Text(text) if text.starts_with(&format!("{}\n[700 more", "b".repeat(100))))
    );
}

#[tokio::test]
async fn senseless_params_are_named() {
    for (params, expected) in [
        (json!({"max_result_length": 0}), "`max_result_length` is 0"),
        (json!({"max_result_length": -1}), "`max_result_length`"),
        (json!({"max_length": 9}), "unknown field `max_length`"),
    ] {
        let error = stage(params).await.step(&chat("x", &[])).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
