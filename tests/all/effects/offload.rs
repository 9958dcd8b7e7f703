use serde_json::json;
use shelly_host::{
    plugin::PluginTool,
    tool::{ToolBox, ToolCx},
};

use super::{made::*, *};

/// The effect and its tool, which share a store.
struct Both {
    stage: Stage,
    tools: ToolBox,
}

impl Both {
    async fn of(params: Value) -> Self {
        let mut stage = Stage::of(crate::plugin::OFFLOAD, json!({})).await;
        let plugin = plugin(crate::plugin::OFFLOAD, params).await;
        stage.effect = PluginEffect::new(&plugin).unwrap();
        stage.moment = EffectInput { phase: EffectPhase::AfterModel, ..full(stage.moment, 0.5) };
        let mut tools = ToolBox::new();
        PluginTool::all(&plugin).for_each(|tool| tools.register(tool).unwrap());
        Self { stage, tools }
    }

    async fn recall(&self, arguments: Value) -> (String, bool) {
        let (run, chat) = (self.stage.cx.clone(), ChatSnapshot::default());
        let cx = ToolCx { chat, ..ToolCx::new(run) };
        let call = ToolCall { id: "r".into(), name: "recall".into(), arguments: arguments.to_string(), meta: vec![] };
        let result = self.tools.dispatch(&cx, &call).await.result;
        (result.text(), result.is_error)
    }
}

fn placeholder(id: &str, count: &str, text: &str) -> String {
    let preview: String = text.chars().take(200).collect();
    format!("[recall {{\"id\":\"{id}\"}} returns this result of `read`: {count} characters. It begins:]\n{preview}…")
}

fn small() -> Value {
    json!({"min_result_len": 500, "recent_window": 2})
}

#[tokio::test]
async fn offload_replaces_large_results_and_recall_returns_them() {
    let (long, short) = ("äb".repeat(5_000), "x".repeat(499));
    let turns = [
        Turn::Calls(&[("read", "{}", &long, false), ("read", "{}", &short, false), ("read", "{}", &long, true)]),
        Turn::Calls(&[("read", "{}", &long, false)]),
        Turn::Says("Well."),
    ];
    let (chat, mut both) = (chat("Read all.", &turns), Both::of(small()).await);
    make(&chat, both.stage.edits(&chat).await);
    let first = placeholder("c0-0", "10,000", &long);
    assert_eq!(results(&chat), [&*first, &*short, &*long, &*long], "errors and the newest stay");
    assert!(both.stage.edits(&chat).await.is_empty());
    both.stage.state.clear();
    assert!(both.stage.edits(&chat).await.is_empty(), "nothing is taken out twice");

    let (mut whole, mut offset) = (String::new(), 0);
    for (end, next) in
        [("4,000", "; continue with \"offset\":4000"), ("8,000", "; continue with \"offset\":8000"), ("10,000", "")]
    {
        let (said, is_error) = both.recall(json!({"id": "c0-0", "offset": offset})).await;
        let (head, page) = said.split_once('\n').unwrap();
        assert!(!is_error && head.ends_with(&format!(" to {end} of 10,000{next}]")), "{head}");
        whole += page;
        offset += 4_000;
    }
    assert_eq!(whole, long);
}

#[tokio::test]
async fn recalled_page_is_hidden_later_and_not_stored_again() {
    let (long, mut both) = ("y".repeat(3_000), Both::of(small()).await);
    let chat =
        chat("Read.", &[Turn::Calls(&[("read", "{}", &long, false)]), Turn::Says("Well."), Turn::Asked("Again.")]);
    make(&chat, both.stage.edits(&chat).await);
    let (page, _) = both.recall(json!({"id": "c0-0"})).await;
    Turn::Calls(&[("recall", "{\"id\":\"c0-0\"}", &page, false)]).add(&chat, 4);
    Turn::Says("Now I see.").add(&chat, 5);
    assert!(both.stage.edits(&chat).await.is_empty(), "not at once");
    Turn::Asked("And?").add(&chat, 6);
    Turn::Says("That is all.").add(&chat, 7);
    make(&chat, both.stage.edits(&chat).await);
    let hidden = "[recalled {\"id\":\"c0-0\",\"offset\":0}: characters 0 to 3,000 of 3,000]\n[The text is hidden again to save room.]";
    assert_eq!(results(&chat)[1], hidden);
}

#[tokio::test]
async fn invalid_recall_error_explains_valid_arguments() {
    let (long, mut both) = ("z".repeat(600), Both::of(json!({"min_result_len": 500, "recent_window": 0})).await);
    let chat = chat("Read.", &[Turn::Calls(&[("read", "{}", &long, false)])]);
    make(&chat, both.stage.edits(&chat).await);
    for (arguments, expected) in [
        (json!({"id": "c9"}), "no result is stored under `c9`"),
        (json!({"id": ""}), "no result is stored"),
        (json!({"id": "x".repeat(9_000)}), "no result is stored"),
        (json!({"id": "c0-0", "offset": 600}), "the result has 600 characters"),
        (json!({"id": "c0-0", "max": 0}), "use 1 to 16000"),
        (json!({"id": "c0-0", "max": 16_001}), "use 1 to 16000"),
        (json!({"id": "c0-0", "at": 1}), "unknown field `at`"),
        (json!({}), "missing field `id`"),
    ] {
        let (said, is_error) = both.recall(arguments).await;
        assert!(is_error && said.contains(expected), "{said}");
    }
    assert!(both.recall(json!({"id": "c0-0", "max": 16_000, "offset": 599})).await.0.ends_with("\nz"));
}

#[tokio::test]
async fn offloaded_texts_of_different_sessions_do_not_collide() {
    let (mut both, params) = (Both::of(json!({"recent_window": 0})).await, ["a", "b", "a"]);
    for (letter, id) in params.iter().zip(["c0-0", "c0-0~2", "c0-0"]) {
        let long = letter.repeat(2_500);
        let chat = chat("Read.", &[Turn::Calls(&[("read", "{}", &long, false)])]);
        both.stage.state.clear();
        make(&chat, both.stage.edits(&chat).await);
        assert_eq!(results(&chat), [placeholder(id, "2,500", &long)]);
        assert!(both.recall(json!({"id": id})).await.0.ends_with(&long));
    }
}

#[tokio::test]
async fn offload_with_a_full_store_leaves_results_in_place() {
    // Larger results than the host lets through, so that it is full soon.
    let mut both = Both::of(json!({"recent_window": 0})).await;
    let (mut taken, mut slept) = (0, false);
    for turn in 0..9 {
        let long = format!("{turn}{}", "x".repeat(8 << 20));
        let chat = chat("Read.", &[]);
        Turn::Calls(&[("read", "{}", &long, false)]).add(&chat, turn);
        both.stage.state.clear();
        let step = both.stage.step(&chat).await.unwrap();
        slept = step.wake == Some(Default::default());
        let EffectAction::Edits(edits) = step.action else { panic!("it asks") };
        taken += edits.len();
        if slept {
            assert!(edits.is_empty());
            break;
        }
    }
    assert!(slept && taken > 0, "{taken} were taken out");
    assert!(both.recall(json!({"id": format!("c{taken}-0")})).await.1, "half of one is kept");
    assert!(!both.recall(json!({"id": "c0-0"})).await.1);
}

#[tokio::test]
async fn offload_sleeps_below_its_threshold() {
    let long = "x".repeat(5_000);
    let chat = chat("Read.", &[Turn::Calls(&[("read", "{}", &long, false)]), Turn::Says("Well.")]);
    let mut both = Both::of(small()).await;
    both.stage.moment = full(both.stage.moment, 0.49);
    let step = both.stage.step(&chat).await.unwrap();
    assert_eq!(step.wake.unwrap().request_tokens, Some(500));
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    // By default the last six messages stay, the newest result among them.
    assert!(Both::of(json!({})).await.stage.edits(&chat).await.is_empty());
}

#[tokio::test]
async fn senseless_params_are_named() {
    for (params, expected) in [
        (json!({"threshold": 0}), "`threshold` is 0"),
        (json!({"min_result_len": 499}), "`min_result_len` is 499"),
        (json!({"recent_window": -2}), "`recent_window`"),
        (json!({"window": 9}), "unknown field `window`"),
    ] {
        let error = Both::of(params).await.stage.step(&chat("x", &[])).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
