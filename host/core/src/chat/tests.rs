use std::collections::HashSet;

use super::*;
use crate::limits;

fn call(id: &str) -> Part {
    Part::ToolCall(ToolCall { id: id.into(), name: "t".into(), arguments: "{}".into(), meta: vec![] })
}

fn reply(ids: &[&str]) -> Message {
    Message { sender: "a".into(), role: Role::Assistant, parts: ids.iter().map(|id| call(id)).collect(), meta: vec![] }
}

fn shape(chat: &Chat) -> String {
    let line = |entry: &ChatEntry| match entry.message.role {
        Role::Tool => entry
            .message
            .tool_results()
            .map(|r| format!("={}{}", r.call_id, if r.is_error { "!" } else { "" }))
            .collect(),
        Role::Assistant => entry.message.tool_calls().map(|c| format!("?{}", c.id)).collect::<String>(),
        Role::System => "S".into(),
        Role::User => "U".into(),
    };
    chat.snapshot().iter().map(line).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_dropped_guard_answers_every_call() {
    let chat = Chat::new();
    drop(chat.reply(reply(&["x", "y"])));
    assert_eq!(shape(&chat), "?x?y =x! =y!");
}

#[test]
fn notes_wait_until_after_the_results() {
    let chat = Chat::new();
    let open = chat.reply(reply(&["x"]));
    chat.note("effect", "hm");
    assert_eq!(shape(&chat), "?x");
    open.answer(vec![ToolResult { call_id: "x".into(), content: vec![], is_error: false }]);
    assert_eq!(shape(&chat), "?x =x U");
}

#[test]
fn chat_orders_results_by_call_and_fills_missing_ones() {
    let chat = Chat::new();
    let open = chat.reply(reply(&["x", "y", "z"]));
    let result = |id: &str| ToolResult { call_id: id.into(), content: vec![], is_error: false };
    open.answer(vec![result("z"), result("x"), result("unasked")]);
    assert_eq!(shape(&chat), "?x?y?z =x =y! =z");
}

#[test]
fn duplicate_call_ids_are_replaced() {
    let chat = Chat::new();
    drop(chat.reply(reply(&["x", "", "x"])));
    drop(chat.reply(reply(&["x"])));
    let ids: Vec<_> =
        chat.snapshot().iter().flat_map(|e| e.message.tool_calls().map(|c| c.id.clone()).collect::<Vec<_>>()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 4, "{ids:?}");
}

#[test]
fn replacement_keeps_groups_whole_and_counts_tokens() {
    let chat = Chat::new();
    chat.append(Message::text(Role::System, "", "be good")).unwrap();
    chat.append(Message::user("go")).unwrap();
    drop(chat.reply(reply(&["x"])));
    chat.append(Message::user("more")).unwrap();
    let replace = |first, last, messages| chat.replace(MessageReplacement { first, last, messages });
    assert_eq!(replace(1, 2, vec![]), Err(ChatEditError::CutsGroup(3)));
    assert_eq!(replace(3, 4, vec![]), Err(ChatEditError::CutsGroup(3)));
    assert_eq!(replace(4, 1, vec![]), Err(ChatEditError::Backwards(4, 1)));
    assert_eq!(replace(9, 9, vec![]), Err(ChatEditError::NoMessage(9)));
    assert!(matches!(replace(1, 1, vec![reply(&["q"])]), Err(ChatEditError::Unpaired(_))));
    assert_eq!(replace(1, 1, vec![Message::text(Role::System, "", "no")]), Err(ChatEditError::MisplacedSystem));
    replace(1, 3, vec![Message::user("summary")]).unwrap();
    assert_eq!(shape(&chat), "S U U");
    let snapshot = chat.snapshot();
    assert_eq!(snapshot.tokens(), snapshot.iter().map(|e| u64::from(e.tokens)).sum::<u64>());
    assert_eq!(snapshot.bytes(), snapshot.iter().map(|e| e.message.bytes()).sum::<usize>());
    assert_eq!(snapshot.find(4), Some(2));
}

#[test]
fn a_snapshot_does_not_change() {
    let chat = Chat::new();
    chat.append(Message::user("one")).unwrap();
    let before = chat.snapshot();
    chat.append(Message::user("two")).unwrap();
    assert_eq!((before.len(), chat.snapshot().len()), (1, 2));
    assert_eq!(before.range(0, 9).count(), 1);
    assert_eq!(before.range(5, 2).count(), 0);
}

#[test]
fn open_calls_cannot_be_removed_by_an_edit() {
    let chat = Chat::new();
    let open = chat.reply(reply(&["x"]));
    assert_eq!(
        chat.replace(MessageReplacement { first: 0, last: 0, messages: vec![] }),
        Err(ChatEditError::CutsGroup(0))
    );
    drop(open);
    chat.replace(MessageReplacement { first: 0, last: 1, messages: vec![] }).unwrap();
    assert!(chat.snapshot().is_empty());
}

#[test]
fn replacement_calls_need_unused_ids() {
    let chat = Chat::new();
    drop(chat.reply(reply(&["x"])));
    drop(chat.reply(reply(&["y"])));
    let pair = |id: &str| vec![reply(&[id]), Message::results(vec![ToolResult::error(id, "no")])];
    let replace = |messages| chat.replace(MessageReplacement { first: 2, last: 3, messages });
    assert!(matches!(replace(pair("x")), Err(ChatEditError::Unpaired(_))), "x stays in the chat");
    assert!(matches!(replace([pair("z"), pair("z")].concat()), Err(ChatEditError::Unpaired(_))));
    replace(pair("y")).unwrap();
    assert_eq!(shape(&chat), "?x =x! ?y =y!");
    assert!(chat.snapshot().last().unwrap().note, "neither a person nor a model wrote it");
}

#[test]
fn conversation_size_is_limited() {
    let chat = Chat::new();
    let open = chat.reply(reply(&["x", "y"]));
    let media = |id: &str| {
        let source = MediaData::Bytes(vec![0; limits::CHAT_BYTES / 2 + 1].into());
        let media = Media { media_type: "image/png".into(), name: None, source };
        ToolResult { call_id: id.into(), content: vec![ToolResultContent::Media(media)], is_error: false }
    };
    open.answer(vec![media("x"), media("y")]);
    assert_eq!(shape(&chat), "?x?y =x =y!");
    assert!(chat.snapshot().bytes() <= limits::CHAT_BYTES);
}

#[test]
fn edit_beyond_the_conversation_limit_is_refused() {
    let chat = Chat::new();
    let media = |part: usize| {
        let source = MediaData::Bytes(vec![0; limits::CHAT_BYTES / part].into());
        Media { media_type: "image/png".into(), name: None, source }
    };
    let picture = |part: usize| ToolResultContent::Media(media(part));
    let user = |part: usize| Message { parts: vec![Part::Media(media(part))], ..Message::text(Role::User, "", "") };
    chat.append(user(2)).unwrap();
    drop(chat.reply(reply(&["x"])));
    let before = chat.snapshot();
    let id = before.iter().next().unwrap().id;
    let replacement = |messages| MessageReplacement { first: id, last: id, messages };
    for (edit, made) in [
        ("append", chat.append(user(2))),
        ("replace a result", chat.replace_result("x", vec![picture(2)])),
        ("replace", chat.replace(replacement(vec![user(2), user(2)]))),
    ] {
        assert_eq!(made, Err(ChatEditError::Full), "{edit}");
    }
    chat.note("effect", "x".repeat(limits::CHAT_BYTES / 2));
    assert_eq!(chat.snapshot().revision(), before.revision(), "nothing was changed");
    chat.replace_result("x", vec![picture(3)]).unwrap();
    chat.replace(replacement(vec![user(4), user(3)])).unwrap();
    assert!(chat.snapshot().bytes() <= limits::CHAT_BYTES);
}

#[test]
fn a_result_can_be_replaced() {
    let chat = Chat::new();
    drop(chat.reply(reply(&["x"])));
    chat.replace_result("x", vec![ToolResultContent::Text("short".into())]).unwrap();
    let snapshot = chat.snapshot();
    let entry = snapshot.last().unwrap();
    assert!(entry.edited);
    assert_eq!(entry.message.tool_results().next().unwrap().text(), "short");
    assert_eq!(chat.replace_result("y", vec![]), Err(ChatEditError::NoResult("y".into())));
}

#[test]
fn entries_are_found_by_position_sender_and_id() {
    let chat = Chat::new();
    assert_eq!(chat.snapshot().system_prompt(), None);
    chat.append(Message::text(Role::System, "ada", "Be exact.")).unwrap();
    for (sender, text) in [("ada", "1"), ("bob", "2"), ("ada", "3")] {
        chat.append(Message::text(Role::User, sender, text)).unwrap();
    }
    let seen = chat.snapshot();
    let texts = |entries: &mut dyn Iterator<Item = &ChatEntry>| {
        entries.map(|entry| entry.message.text_content()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(seen.system_prompt().as_deref(), Some("Be exact."));
    for (since, left) in [(0, "Be exact. 1 2 3"), (2, "2 3"), (4, ""), (99, "")] {
        assert_eq!(texts(&mut seen.since(since)), left);
    }
    assert_eq!(texts(&mut seen.range(1, 3)), "1 2");
    assert_eq!(texts(&mut seen.range(3, 1)), "");
    assert_eq!(texts(&mut seen.by_sender("ada")), "Be exact. 1 3");
    assert_eq!(texts(&mut seen.by_sender("eve")), "");
    let last = seen.last().unwrap().id;
    chat.replace(MessageReplacement { first: 1, last: 2, messages: vec![Message::user("1 and 2")] }).unwrap();
    chat.append(Message::user("4")).unwrap();
    assert_eq!(texts(&mut chat.snapshot().newer_than(Some(last))), "1 and 2 4", "though it is shorter than it was");
    assert_eq!(chat.snapshot().newer_than(None).count(), 4);
    assert_eq!(texts(&mut seen.since(0)), "Be exact. 1 2 3", "what was seen stands still");
}

#[tokio::test]
async fn chat_waiters_survive_a_replacement() {
    let chat = Chat::new();
    for text in ["1", "2", "3"] {
        chat.append(Message::user(text)).unwrap();
    }
    assert_eq!(chat.wait(2).await.len(), 3, "at once");
    let seen = chat.snapshot().revision();
    let waiting = || {
        let chat = chat.clone();
        tokio::spawn(async move { chat.changed(seen).await.len() })
    };
    let (first, second) = (waiting(), waiting());
    tokio::task::yield_now().await;
    chat.replace(MessageReplacement { first: 0, last: 2, messages: vec![Message::user("all")] }).unwrap();
    assert_eq!((first.await.unwrap(), second.await.unwrap()), (1, 1));
    let longer = tokio::spawn({
        let chat = chat.clone();
        async move { chat.wait(2).await.len() }
    });
    tokio::task::yield_now().await;
    for text in ["4", "5"] {
        chat.append(Message::user(text)).unwrap();
    }
    assert_eq!(longer.await.unwrap(), 3);
    let seen = chat.snapshot().revision();
    drop(chat.reply(reply(&["x"])));
    assert!(chat.snapshot().revision() > seen);
    let open = chat.reply(reply(&["y"]));
    let before = chat.snapshot().revision();
    open.abandon("because");
    assert!(chat.changed(before).await.len() > 3);
}

#[test]
fn next_reply_closes_open_calls() {
    let chat = Chat::new();
    let first = chat.reply(reply(&["x", "y"]));
    chat.note("effect", "hm");
    let second = chat.reply(reply(&["z"]));
    assert_eq!(shape(&chat), "?x?y =x! =y! U ?z");
    assert_eq!(chat.snapshot().check(), Err(ChatEditError::Unpaired("call `z` has no result".into())));
    // A guard that is closed too late answers no call.
    first.answer(vec![ToolResult { call_id: "z".into(), content: vec![], is_error: false }]);
    drop(chat.reply(reply(&[])));
    assert_eq!(shape(&chat), "?x?y =x! =y! U ?z =z!");
    second.abandon("because");
    assert_eq!(shape(&chat), "?x?y =x! =y! U ?z =z!");
    assert_eq!(chat.snapshot().check(), Ok(()));
}

#[test]
fn message_content_depends_on_its_role() {
    let text = |role, text: &str| Message::text(role, "", text);
    let with = |role, parts| Message { parts, ..text(role, "") };
    let thought = Part::Thinking(ThinkingPart { text: "hm".into(), opaque: None });
    let result = || Part::ToolResult(ToolResult::error("x", "no"));
    for (message, nothing) in [
        (text(Role::User, "hi"), false),
        (text(Role::User, " \n"), true),
        (with(Role::User, vec![]), true),
        (with(Role::User, vec![call("x")]), true),
        (with(Role::Assistant, vec![thought.clone()]), true),
        (with(Role::Assistant, vec![thought, call("x")]), false),
        (with(Role::Assistant, vec![result()]), true),
        (text(Role::Tool, "a result"), true),
        (with(Role::Tool, vec![result()]), false),
    ] {
        assert_eq!(message.says_nothing(), nothing, "{message:?}");
    }
}

#[test]
fn message_that_vendors_refuse_is_not_added() {
    let chat = Chat::new();
    let text = |role, text: &str| Message::text(role, "", text);
    assert_eq!(chat.append(text(Role::Assistant, "I begin.")), Err(ChatEditError::NoUserFirst));
    chat.append(text(Role::System, "be good")).unwrap();
    assert_eq!(chat.append(text(Role::Assistant, "I begin.")), Err(ChatEditError::NoUserFirst));
    chat.append(text(Role::User, "go")).unwrap();
    for silent in [text(Role::User, " "), text(Role::Assistant, ""), text(Role::Tool, "a result")] {
        assert_eq!(chat.append(silent), Err(ChatEditError::Empty));
    }
    chat.note("effect", "");
    let results = Part::ToolResult(ToolResult::error("x", "no"));
    drop(chat.reply(Message { parts: vec![results.clone()], ..text(Role::Assistant, "") }));
    drop(chat.reply(text(Role::Assistant, " ")));
    assert_eq!(shape(&chat), "S U", "a reply that says nothing is left out");
    drop(chat.reply(Message { parts: vec![results, call("x")], ..text(Role::User, "") }));
    assert_eq!(shape(&chat), "S U ?x =x!", "a reply is an assistant's, and has no results");

    let replace = |first, last, messages| chat.replace(MessageReplacement { first, last, messages });
    assert_eq!(replace(1, 1, vec![]), Err(ChatEditError::NoUserFirst));
    assert_eq!(replace(0, 1, vec![text(Role::Assistant, "short")]), Err(ChatEditError::NoUserFirst));
    assert_eq!(replace(1, 1, vec![text(Role::User, "")]), Err(ChatEditError::Empty));
    assert_eq!(replace(1, 1, vec![text(Role::User, "?"), text(Role::Tool, "!")]), Err(ChatEditError::Empty));
    let nameless = vec![reply(&[""]), Message::results(vec![ToolResult::error("", "no")])];
    assert_eq!(replace(2, 3, nameless), Err(ChatEditError::Unpaired("a call has no id".into())));
    replace(1, 3, vec![]).unwrap();
    assert_eq!(shape(&chat), "S");
}

#[test]
fn message_digest_follows_its_content() {
    let digests = |chat: &Chat| chat.snapshot().iter().map(|entry| *entry.digest()).collect::<Vec<_>>();
    let chat = Chat::new();
    chat.append(Message::user("a")).unwrap();
    chat.append(Message::user("a")).unwrap();
    chat.append(Message::user("b")).unwrap();
    chat.reply(reply(&["x"])).answer(vec![ToolResult::error("x", "long")]);
    let before = digests(&chat);
    assert_eq!(before[0], before[1]);
    assert_ne!(before[0], before[2]);
    assert_eq!(digests(&chat), before);
    chat.replace_result("x", vec![ToolResultContent::Text("short".into())]).unwrap();
    let after = digests(&chat);
    assert_eq!(after[..4], before[..4]);
    assert_ne!(after[4], before[4]);
}
