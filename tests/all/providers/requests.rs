//! The cases of requests: what of a request reaches the vendor.

use std::sync::Arc;

use serde_json::{Value, json};
use shelly_host::{
    chat::{self, Chat, Media, Message, Part, Role, ThinkingPart, ToolCall, ToolResult, ToolResultContent},
    model::{CompletionRequest, ToolChoice},
};

use super::{
    Asked, Choice, Item, KEY, Said, Turn, Vendor, ask, question,
    server::{Answer, Server},
    text, tool,
};

async fn asked<V: Vendor>(chat: &Chat) -> Asked {
    V::asked(&V::sent(&CompletionRequest::new(chat.snapshot(), Arc::new([tool("read")]))).await)
}

fn image(name: Option<&str>, source: chat::MediaData) -> Part {
    Part::Media(Media { media_type: "image/png".into(), name: name.map(Into::into), source })
}

fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: name.into(), arguments: arguments.into(), meta: vec![] })
}

fn reply(chat: &Chat, parts: Vec<Part>, results: Vec<ToolResult>) {
    chat.reply(Message { sender: "ada".into(), role: Role::Assistant, parts, meta: vec![] }).answer(results);
}

fn good(id: &str, text: &str) -> ToolResult {
    ToolResult { call_id: id.into(), content: vec![ToolResultContent::Text(text.into())], is_error: false }
}

fn thought(opaque: Option<&str>) -> Part {
    Part::Thinking(ThinkingPart { text: "Secretly.".into(), opaque: opaque.map(Into::into) })
}

/// Everything that a conversation usually has.
fn conversation() -> Chat {
    let chat = Chat::new();
    chat.append(Message::text(Role::System, "", "Be brief.")).unwrap();
    let mut user = Message::user("Look:");
    user.parts.push(image(None, chat::MediaData::Bytes([1, 2, 3].as_slice().into())));
    chat.append(user).unwrap();
    let parts = vec![
        thought(None),
        Part::Text("I look.".into()),
        call("c1", "read", r#"{"path":"a"}"#),
        call("c2", "read", r#"{"path":"b"}"#),
    ];
    reply(&chat, parts, vec![good("c1", "It says ä."), ToolResult::error("c2", "it is not there")]);
    chat.reply(Message::text(Role::Assistant, "ada", "One is there."));
    chat.append(Message::user("Thanks.")).unwrap();
    chat
}

fn items(by_model: bool, items: impl Into<Vec<Item>>) -> Turn {
    Turn { by_model, items: items.into() }
}

fn said(text: &str) -> Item {
    Item::Text(text.into())
}

fn called(name: &str, arguments: Value) -> Item {
    Item::Call { name: name.into(), arguments }
}

pub async fn a_conversation_goes_out<V: Vendor>() {
    let asked = asked::<V>(&conversation()).await;
    assert_eq!((asked.model.as_str(), asked.system.as_str()), ("m-1", "Be brief."));
    let result = |of, text: &str, is_error| Item::Result { of, text: text.into(), is_error };
    let expected = [
        items(false, [said("Look:"), Item::Image("data:image/png;base64,AQID".into())]),
        items(true, [said("I look."), called("read", json!({"path": "a"})), called("read", json!({"path": "b"}))]),
        items(false, [result(0, "It says ä.", false), result(1, "it is not there", true)]),
        items(true, [said("One is there.")]),
        items(false, [said("Thanks.")]),
    ];
    assert_eq!(asked.turns, expected);
    assert_eq!(asked.tools.len(), 1);
}

pub async fn the_key_goes_out_once<V: Vendor>() {
    let server = Server::start(|_, _| Answer::stream(V::stream(&Said::of([text("Hi.")])))).await;
    ask::<V>(&server, &question("Hi")).await.result.unwrap();
    let sent = server.seen().remove(0);
    assert_eq!(V::key(&sent), Some(KEY));
    let shown = sent.headers.iter().filter(|(_, value)| value.contains(KEY)).count();
    assert_eq!(shown, 1, "{:?}", sent.headers);
    assert!(!sent.path.contains(KEY) && !sent.body.to_string().contains(KEY));
    assert_eq!(V::asked(&sent).turns, [items(false, [said("Hi")])]);
}

pub async fn tools_are_offered_as_asked<V: Vendor>() {
    for (choice, expected) in [
        (ToolChoice::Auto, Choice::Auto),
        (ToolChoice::Never, Choice::Never),
        (ToolChoice::Required, Choice::Required),
        (ToolChoice::Tool("read".into()), Choice::Tool("read".into())),
    ] {
        let mut request = question("Hi");
        request.tools = ["read", "list"].map(tool).into();
        request.tool_choice = choice.clone();
        request.max_output_tokens = Some(77);
        let asked = V::asked(&V::sent(&request).await);
        assert_eq!((asked.choice, asked.max_tokens), (expected, Some(77)));
        if choice == ToolChoice::Never && !V::LISTS_WHAT_MAY_NOT_BE_CALLED {
            assert_eq!(asked.tools, []);
            continue;
        }
        let names: Vec<_> = asked.tools.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["read", "list"]);
        let (_, schema) = &asked.tools[0];
        assert_eq!(schema["properties"]["path"]["type"].as_str().unwrap().to_lowercase(), "string", "{schema}");
        assert_eq!(schema["required"], json!(["path"]));
    }
}

/// Odd conversations: nothing goes out that the vendor refuses, and nothing of what was said is lost.
pub async fn what_a_chat_may_hold_is_never_refused<V: Vendor>() {
    let begin = || {
        let chat = Chat::new();
        chat.append(Message::user("Hi")).unwrap();
        chat
    };
    let texts = |asked: &Asked| {
        let texts = asked.turns.iter().flat_map(|turn| &turn.items);
        texts
            .filter_map(|item| if let Item::Text(text) = item { Some(text.clone()) } else { None })
            .collect::<Vec<_>>()
            .concat()
    };

    let nothing_but_a_reply = Chat::new();
    nothing_but_a_reply.reply(Message::text(Role::Assistant, "ada", "First!"));
    assert!(texts(&asked::<V>(&nothing_but_a_reply).await).contains("First!"));

    let in_a_row = begin();
    in_a_row.append(Message::note("watcher", "Mind the gap.")).unwrap();
    in_a_row.append(Message::user("Well?")).unwrap();
    let said = texts(&asked::<V>(&in_a_row).await);
    assert!(["Hi", "Mind the gap.", "Well?"].iter().all(|text| said.contains(text)), "{said}");

    for parts in [
        vec![],
        vec![Part::Text(String::new())],
        vec![Part::Text(" \n".into())],
        vec![thought(None)],
        vec![thought(Some("elsewhere.signature:abc")), Part::Text("Well.".into())],
        vec![Part::Text("Well. ".into()), thought(Some("elsewhere.signature:abc"))],
    ] {
        let chat = begin();
        reply(&chat, parts.clone(), vec![]);
        chat.append(Message::user("And?")).unwrap();
        let sent = V::sent(&CompletionRequest::new(chat.snapshot(), Arc::new([]))).await;
        assert!(!String::from_utf8(sent.bytes).unwrap().contains("elsewhere."), "{parts:?}");
        let said = texts(&asked::<V>(&chat).await);
        assert!(said.starts_with("Hi") && said.ends_with("And?"), "{parts:?}: {said}");
        let last = begin();
        reply(&last, parts, vec![]);
        asked::<V>(&last).await;
    }

    for arguments in ["", " ", "{\"path\":", "[1]", "null", "\"a\""] {
        let chat = begin();
        reply(&chat, vec![call("c1", "read", arguments)], vec![good("c1", "")]);
        let asked = asked::<V>(&chat).await;
        let Item::Call { arguments: sent, .. } = &asked.turns[1].items[0] else { panic!("{asked:?}") };
        assert!(sent.is_object(), "{arguments}: {sent}");
        assert!(matches!(asked.turns[2].items[..], [Item::Result { of: 0, is_error: false, .. }]), "{asked:?}");
    }

    // Calls that were never answered, of a tool that is gone, with ids that another vendor gave.
    let chat = begin();
    drop(chat.reply(Message {
        sender: "ada".into(),
        role: Role::Assistant,
        parts: vec![call("call:1/ä", "gone.tool", "{}"), call("", "", "{}")],
        meta: vec![],
    }));
    let asked_of_gone = asked::<V>(&chat).await;
    assert_eq!(asked_of_gone.turns[1].items.len(), 2, "{asked_of_gone:?}");
    assert_eq!(asked_of_gone.turns[2].items.len(), 2, "{asked_of_gone:?}");

    // Media of every kind: shown or told of.
    let chat = begin();
    let mut user = Message::user("See");
    user.parts.push(image(Some("cat.png"), chat::MediaData::Url("https://example.com/cat.png".into())));
    for (media_type, bytes) in
        [("audio/wav", &[0][..]), ("application/pdf", b"%PDF"), ("text/plain", b"words"), ("x", b"")]
    {
        let source = chat::MediaData::Bytes(bytes.into());
        user.parts.push(Part::Media(Media { media_type: media_type.into(), name: Some("a".into()), source }));
    }
    chat.append(user).unwrap();
    assert!(texts(&asked::<V>(&chat).await).contains("See"));
}

pub async fn the_same_chat_is_the_same_bytes<V: Vendor>() {
    let chat = conversation();
    let request = |chat: &Chat| CompletionRequest::new(chat.snapshot(), ["read", "list", "fs.read"].map(tool).into());
    let before = V::sent(&request(&chat)).await.bytes;
    assert_eq!(V::sent(&request(&conversation())).await.bytes, before);
    let turns = asked::<V>(&chat).await.turns;
    chat.reply(Message::text(Role::Assistant, "ada", "Welcome."));
    chat.append(Message::user("One more.")).unwrap();
    let longer = asked::<V>(&chat).await.turns;
    assert_eq!(longer[..turns.len()], turns, "what was sent stays what it was");
}
