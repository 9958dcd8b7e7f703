use serde_json::json;
use shelly_host::model::StopReason;

use super::{made::*, *};

async fn stage(params: Value) -> Stage {
    let mut stage = Stage::of(crate::plugin::COMPACT, params).await;
    stage.moment = full(stage.moment, 0.8);
    stage
}

impl Stage {
    /// The question that it asks, as text.
    async fn question(&mut self, chat: &Chat) -> String {
        match self.step(chat).await.unwrap().action {
            EffectAction::AskModel(ask) => {
                let system = ask.request.messages.iter().next().unwrap().message.role;
                assert_eq!((ask.model, system, ask.request.messages.len()), (None, Role::System, 2));
                ask.request.messages.last().unwrap().message.text_content()
            }
            EffectAction::Edits(edits) => panic!("it does not ask: {edits:?}"),
        }
    }

    /// Returns the effect's edits after this reply with a summary.
    async fn told(&mut self, chat: &Chat, reply: Result<Completion, Fault>) -> Vec<EffectEdit> {
        self.moment.reply = Some(reply);
        self.edits(chat).await
    }
}

/// A call whose result the model has not read: it stays.
const UNREAD: Turn<'static> = Turn::Calls(&[("read", "{}", "what nobody has read", false)]);

fn work() -> Chat {
    let (arguments, long) = (format!("{{\"a\":\"{}\"}}", "x".repeat(900)), "ä".repeat(3_000));
    let turns = [
        Turn::Says("Hello."),
        Turn::Asked("Fix `src/a.rs`."),
        Turn::Calls(&[("read", &arguments, &long, false), ("run", "{}", "no such file", true)]),
        Turn::Calls(&[("read", "{}", "fine", false)]),
        UNREAD,
    ];
    chat("Hi.", &turns)
}

#[tokio::test]
async fn compact_replaces_read_messages_and_keeps_the_open_task() {
    let (chat, mut stage) = (work(), stage(json!({})).await);
    let question = stage.question(&chat).await;
    for part in [
        "Goal:",
        "Completed work:",
        "Files:",
        "Decisions:",
        "Errors:",
        "State:",
        "Next steps:",
        "person: Hi.\nassistant: Hello.\nperson: Fix `src/a.rs`.\n",
        "error of call c2-1: no such file\n",
        "result of call c3-0: fine\n",
    ] {
        assert!(question.contains(part), "{part}: {question}");
    }
    assert!(!question.contains(&"x".repeat(200)) && !question.contains(&"ä".repeat(501)), "{question}");
    assert!(!question.contains("Be helpful."), "the system prompt is not told");
    assert!(!question.contains("what nobody has read"), "it is told before it was read: {question}");

    let edits = stage.told(&chat, Ok(completion("Goal: fix it."))).await;
    assert!(matches!(&edits[..], [EffectEdit::Replace(_)]), "{edits:?}");
    make(&chat, edits);
    let snapshot = chat.snapshot();
    let [system, summary, _, _] = &snapshot.iter().collect::<Vec<_>>()[..] else { panic!("{:?}", lines(&chat)) };
    assert_eq!(results(&chat), ["what nobody has read"]);
    assert_eq!(system.message.text_content(), "Be helpful.");
    let text = summary.message.text_content();
    assert!(summary.note && summary.message.role == Role::User && summary.message.sender == "compact", "{summary:?}");
    assert!(text.contains("Goal: fix it.") && text.ends_with("\n\nFix `src/a.rs`.") && !text.contains("Hi."), "{text}");
}

#[tokio::test]
async fn compact_folds_the_previous_summary_and_keeps_the_task() {
    let (chat, mut stage) = (work(), stage(json!({})).await);
    stage.question(&chat).await;
    let edits = stage.told(&chat, Ok(completion("First summary."))).await;
    make(&chat, edits);
    let more = "more ".repeat(100);
    let call = [("read", "{}", more.as_str(), false)];
    Turn::Calls(&call).add(&chat, 7);
    UNREAD.add(&chat, 8);
    // It is as full as before: nothing until it has grown by a tenth.
    let step = stage.step(&chat).await.unwrap();
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    assert_eq!(step.wake.unwrap().request_tokens, Some(881));
    stage.moment.request_tokens = 881;
    let question = stage.question(&chat).await;
    assert!(question.contains("summary of earlier messages: ") && question.contains("First summary."), "{question}");
    let edits = stage.told(&chat, Ok(completion("Second summary."))).await;
    make(&chat, edits);
    let all = lines(&chat).join("\n");
    assert!(all.contains("Second summary.") && all.contains("Fix `src/a.rs`.") && !all.contains("First"), "{all}");
    assert_eq!((chat.snapshot().len(), results(&chat)), (4, vec!["what nobody has read".to_owned()]));
    // Once it is answered, the task is told in the summary alone.
    let turns = [Turn::Says("Fixed."), Turn::Asked("Thanks. Now test it."), Turn::Calls(&call), UNREAD];
    turns.iter().enumerate().for_each(|(turn, said)| said.add(&chat, 20 + turn));
    stage.state.clear();
    stage.question(&chat).await;
    let edits = stage.told(&chat, Ok(completion("Third summary."))).await;
    make(&chat, edits);
    let all = lines(&chat).join("\n");
    assert!(all.contains("Third") && all.contains("Now test it.") && !all.contains("src/a.rs"), "{all}");
}

#[tokio::test]
async fn compact_without_a_summary_keeps_the_chat_or_stops_the_run() {
    let failures = [
        (Err(Fault::other("the line is dead")), "the line is dead"),
        (Ok(Completion { stop: StopReason::Refusal, ..completion("No.") }), "the model declined to summarise"),
        (Ok(completion(" \n")), "the model returned no summary"),
    ];
    for (reply, why) in failures {
        let (chat, mut goes_on) = (work(), stage(json!({})).await);
        goes_on.question(&chat).await;
        assert!(goes_on.told(&chat, reply.clone()).await.is_empty());
        let step = goes_on.step(&chat).await.unwrap();
        assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()), "it asks at once again");
        assert_eq!(step.wake.unwrap().request_tokens, Some(881));
        goes_on.moment.request_tokens = 881;
        goes_on.question(&chat).await;

        let mut stops = stage(json!({"on_error": "stop"})).await;
        stops.question(&chat).await;
        let edits = stops.told(&chat, reply).await;
        let [EffectEdit::Stop { code, message }] = &edits[..] else { panic!("{edits:?}") };
        assert!(code == "compaction" && message.contains(why), "{message}");
    }
}

#[tokio::test]
async fn compact_keeps_the_configured_newest_messages() {
    for (keep, expected) in [(0, 4), (2, 4), (3, 6)] {
        let (chat, mut stage) = (work(), stage(json!({"keep_recent": keep})).await);
        stage.question(&chat).await;
        let edits = stage.told(&chat, Ok(completion("Summary."))).await;
        make(&chat, edits);
        assert_eq!(chat.snapshot().len(), expected, "keep {keep}: {:?}", lines(&chat));
    }
    // What would go is too little to be worth it.
    for keep in [5, 7, 99] {
        assert!(stage(json!({"keep_recent": keep})).await.edits(&work()).await.is_empty(), "keep {keep}");
    }
}

#[tokio::test]
async fn compact_keeps_messages_that_arrive_during_the_summary() {
    let (chat, mut stage) = (work(), stage(json!({})).await);
    stage.question(&chat).await;
    chat.append(Message::user("One more thing.")).unwrap();
    let edits = stage.told(&chat, Ok(completion("Summary."))).await;
    make(&chat, edits);
    let all = lines(&chat);
    assert!(all.len() == 5 && all[4] == "u One more thing." && all[1].contains("Fix `src/a.rs`."), "{all:?}");
}

#[tokio::test]
async fn compact_asks_on_any_turn_only_if_there_is_text_to_summarise() {
    let mut stage = stage(json!({})).await;
    stage.moment.iteration = 0;
    stage.question(&work()).await;
    let mut stage = self::stage(json!({})).await;
    let step = stage.step(&chat("A task that fills everything.", &[])).await.unwrap();
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    assert_eq!(step.wake.unwrap().request_tokens, Some(881));
    stage.moment = full(stage.moment, 0.79);
    stage.moment.last_usage = Some(Usage { input_tokens: 700, ..Usage::default() });
    let step = stage.step(&work()).await.unwrap();
    assert!(matches!(step.action, EffectAction::Edits(edits) if edits.is_empty()));
    assert!(step.wake.is_some());
}

#[tokio::test]
async fn compact_prompt_fits_the_window_and_notes_omissions() {
    let texts: Vec<_> = (0..400).map(|at| format!("saying {at} {}", "ö".repeat(200))).collect();
    let turns: Vec<_> = texts.iter().map(|text| Turn::Says(text)).collect();
    let chat = chat(&"Do it. ".repeat(5_000), &turns);
    let mut stage = stage(json!({})).await;
    (stage.moment.context_window, stage.moment.request_tokens) = (Some(10_000), 60_000);
    let question = stage.question(&chat).await;
    assert!(question.len() < 22_000, "{} bytes", question.len());
    assert!(question.contains("messages are left out here]") && question.contains("saying 399 "), "{question}");
    let edits = stage.told(&chat, Ok(completion(&"long ".repeat(50_000)))).await;
    make(&chat, edits);
    let bytes = chat.snapshot().bytes();
    assert!(bytes < 20_000, "{bytes} bytes");
}

#[tokio::test]
async fn senseless_params_are_named() {
    for (params, expected) in [
        (json!({"threshold": -1}), "`threshold` is -1"),
        (json!({"model": " "}), "`model` is empty"),
        (json!({"on_error": "retry"}), "`on_error`"),
        (json!({"keep": 9}), "unknown field `keep`"),
    ] {
        let error = stage(params).await.step(&chat("x", &[])).await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}
