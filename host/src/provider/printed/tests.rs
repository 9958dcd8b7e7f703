use std::sync::Arc;

use serde_json::value::RawValue;

use super::*;
use crate::{
    chat::{ToolHints, ToolSpec},
    provider::names::COMMON,
};

fn names() -> Names {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: Arc::from(RawValue::from_string("{}".into()).unwrap()),
        hints: ToolHints::default(),
    };
    Names::of(&COMMON, &["read", "list", "fs.read"].map(tool))
}

/// What a text in these pieces comes to: the text that is let through, and the calls.
fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, Vec<(String, String)>) {
    let names = names();
    let (mut printed, mut text) = (Printed::new(&names), String::new());
    for piece in pieces {
        text += &printed.take(piece).unwrap();
    }
    let rest = printed.finish();
    (text + &rest.text, rest.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
}

/// The same, in one piece and at every split.
#[track_caller]
fn recovered(text: &str) -> (String, Vec<(String, String)>) {
    let whole = of_pieces([text]);
    for (at, _) in text.char_indices() {
        assert_eq!(of_pieces([&text[..at], &text[at..]]), whole, "{text} split at {at}");
    }
    let each: Vec<_> = text.split("").collect();
    assert_eq!(of_pieces(each), whole, "{text} character by character");
    whole
}

#[test]
fn calls_are_found_in_every_form() {
    let read = ("read", r#"{"path":"a"}"#);
    for (text, before, calls) in [
        // Bare.
        (r#"{"name":"read","arguments":{"path":"a"}}"#, "", vec![read]),
        (" \n{\"name\": \"read\", \"parameters\": {\"path\":\"a\"}}\n ", "", vec![read]),
        (r#"{"type":"function","id":"x","function":{"name":"read","arguments":{"path":"a"}}}"#, "", vec![read]),
        (r#"{"function":"read","arguments":{"path":"a"}}"#, "", vec![read]),
        (r#"{"tool":"read","args":{"path":"a"}}"#, "", vec![read]),
        (r#"{"tool":"read","input":{"path":"a"}}"#, "", vec![read]),
        (r#"{"name":"read","arguments":"{\"path\":\"a\"}"}"#, "", vec![read]),
        (r#"{"name":"fs_read_4074bc02","arguments":{}}"#, "", vec![("fs_read_4074bc02", "{}")]),
        (r#"{"name":"fs.read","arguments":{}}"#, "", vec![("fs.read", "{}")]),
        (
            r#"[{"name":"read","arguments":{"path":"a"}}, {"arguments":{"x":["]",{"a":null}]},"name":"list"}]"#,
            "",
            vec![read, ("list", r#"{"x":["]",{"a":null}]}"#)],
        ),
        // In a fence.
        ("```json\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```\n", "", vec![read]),
        ("```\n[{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}]```", "", vec![read]),
        ("```tool_call\r\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\r\n```", "", vec![read]),
        // Behind marks.
        ("<tool_call>\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n</tool_call>", "", vec![read]),
        ("<tool_call>{\"name\":\"list\"}</tool_call>", "", vec![("list", "")]),
        ("<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}", "", vec![read]),
        (
            "I look — at both.\n<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}</tool_call>\n<tool_call>{\"name\":\"list\",\"arguments\":{}}</tool_call>",
            "I look — at both.\n",
            vec![read, ("list", "{}")],
        ),
        ("Well.\n  <function=read>{\"path\":\"a\"}</function>", "Well.\n  ", vec![read]),
        ("<function=read>{\"path\":\"a\"}</function><function=list>{}</function>", "", vec![read, ("list", "{}")]),
        ("<|python_tag|>{\"name\":\"read\",\"parameters\":{\"path\":\"a\"}}", "", vec![read]),
        ("[TOOL_CALLS][{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}]", "", vec![read]),
        ("Yes:\n[TOOL_CALLS] [{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}]", "Yes:\n", vec![read]),
        // After what looked like one.
        (
            "<tool_call>oops\n<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}</tool_call>",
            "<tool_call>oops\n",
            vec![read],
        ),
        (
            "```js\nlet a;\n```\n<tool_call>{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}</tool_call>",
            "```js\nlet a;\n```\n",
            vec![read],
        ),
    ] {
        let calls: Vec<_> = calls.into_iter().map(|(name, arguments)| (name.into(), arguments.into())).collect();
        assert_eq!(recovered(text), (before.into(), calls), "{text}");
    }
}

#[test]
fn whatever_else_stays_text() {
    for text in [
        "",
        " \n ",
        "Four.",
        "{}",
        "[]",
        "[1, 2]",
        "{\"answer\": 4}",
        "{\"name\":\"Ada\",\"age\":36}",
        "{\"name\":\"read\"}",
        "{\"name\":\"read\",\"arguments\":[1]}",
        "{\"name\":\"read\",\"arguments\":\"a\"}",
        "{\"name\":\"read\",\"arguments\":{\"path\":}}",
        "{\"name\":\"read\",\"name\":\"list\",\"arguments\":{}}",
        "{\"name\":\"read\",\"tool\":\"list\",\"arguments\":{}}",
        "{\"name\":\"read\",\"arguments\":{},\"args\":{}}",
        "{\"name\":\"read\",\"arguments\":{\"a\":\"line\nbreak\"}}",
        "{\"function\":{\"function\":{\"name\":\"read\",\"arguments\":{}}}}",
        "{\"name\":\"read\",\"arguments\":{}} as I said",
        "{\"name\":\"read\",\"arguments\":{}} {\"name\":\"read\",\"arguments\":{}}",
        "{\"name\":\"read\",\"arguments\":{}]",
        // Cut.
        "{\"name\":\"read\",\"arguments\":{}",
        "<tool_call>{\"name\":\"read\"",
        "<tool_call>{\"name\":\"read\"}</tool",
        "<tool_ca",
        "```json\n{\"name\":\"read\",\"arguments\":{}}\n",
        // No tool that was offered.
        "{\"name\":\"rm\",\"arguments\":{}}",
        "[{\"name\":\"read\",\"arguments\":{}},{\"name\":\"rm\",\"arguments\":{}}]",
        "<function=rm>{}</function>",
        "<tool_call>{\"name\":\"\",\"arguments\":{}}</tool_call>",
        // Quoted or explained.
        "Like so: {\"name\":\"read\",\"arguments\":{}}",
        "Write <tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>",
        "<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>\nis how it is done.",
        "Like so:\n```json\n{\"name\":\"read\",\"arguments\":{}}\n```",
        "```json\n{\"name\":\"read\",\"arguments\":{}}\n```\nThat was it.",
        "Like so:\n```\n<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>\n```",
        "Like so:\n```\n<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>",
        "```\nfn main\n<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>",
        "`{\"name\":\"read\",\"arguments\":{}}`",
        "<html>\n<b>[x]</b>",
        "[TOOL_CALLS] are made like this",
        "— 世界\n<世界>",
    ] {
        assert_eq!(recovered(text), (text.into(), vec![]), "{text}");
    }
}

#[test]
fn text_is_shown_as_soon_as_it_cannot_become_a_call() {
    let names = names();
    for (text, shown) in [
        ("Well", "Well"),
        ("  Well", "  Well"),
        ("  ", ""),
        ("{\"name\":\"Ada\",", ""),
        ("{\"name\":\"Ada\",\"age\"", "{\"name\":\"Ada\",\"age\""),
        ("{{", "{{"),
        ("[1", "[1"),
        ("Well\n<tool", "Well\n"),
        ("Well\n<tools", "Well\n<tools"),
        ("```rust\nfn", "```rust\nfn"),
        ("<function=rm>", "<function=rm>"),
    ] {
        assert_eq!(Printed::new(&names).take(text).unwrap(), shown, "{text}");
    }
}

#[test]
fn something_between_makes_text_of_what_was_held() {
    let names = names();
    let mut printed = Printed::new(&names);
    assert_eq!(printed.take("{\"name\":").unwrap(), "");
    assert_eq!(printed.interrupt(), "{\"name\":");
    assert_eq!(printed.take("{\"name\":").unwrap(), "{\"name\":");
    assert_eq!(printed.finish(), Rest::default());
    // White space before all text is not the beginning of anything.
    let mut printed = Printed::new(&names);
    assert_eq!((printed.take("\n").unwrap(), printed.interrupt()), (String::new(), "\n".into()));
    printed.take("{\"name\":\"read\",\"arguments\":{}}").unwrap();
    assert_eq!(printed.finish().calls.len(), 1);
}

#[test]
fn hostile_texts_are_bounded_and_looked_at_once() {
    let deep = "[".repeat(1 << 20);
    let many = |one: &str| one.repeat(limits::CALLS_IN_REPLY + 1);
    for text in [
        "{".repeat(1 << 20),
        deep.clone(),
        format!("{{\"name\":{deep}"),
        format!("{{\"name\":\"read\",\"arguments\":{{\"a\":{deep}{}}}}}x", "]".repeat(1 << 20)),
        format!("[{}]", "{},".repeat(1 << 19)),
        "\n<tool_call>".repeat(1 << 16),
        "\n<".repeat(1 << 19),
        "```\n".repeat(1 << 18),
        " ".repeat(1 << 20),
        many("<tool_call>{\"name\":\"read\"}</tool_call>"),
        format!("<function={}", "x".repeat(1 << 20)),
    ] {
        let pieces = text.as_bytes().chunks(7).map(|piece| str::from_utf8(piece).unwrap());
        let (shown, calls) = of_pieces(pieces);
        assert!(shown == text && calls.is_empty(), "{}", &text[..40]);
    }
    // As deep as a reply may be, the object is handed on as it stands.
    let nested = format!("{{\"a\":{}{}}}", "[".repeat(1 << 16), "]".repeat(1 << 16));
    let (text, calls) = of_pieces([format!("{{\"name\":\"read\",\"arguments\":{nested}}}").as_str()]);
    assert_eq!((text.as_str(), calls.len()), ("", 1));
    let names = names();
    let mut printed = Printed::new(&names);
    assert_eq!(printed.take("{\"name\":\"").unwrap(), "");
    let piece = "x".repeat(1 << 20);
    let failed = (0..17).find_map(|_| printed.take(&piece).err());
    assert!(matches!(failed, Some(Fault::TooLarge { .. })), "{failed:?}");
}
