use std::sync::Arc;

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;
use crate::tool_names::{COMMON, ToolNames};
use shelly_core::{
    chat::{PropertyNames, ToolHints, ToolSpec},
    error::Fault,
    limits,
};

const SCHEMA: &str = r#"{"type":"object","properties":{"path":{"type":"string"},"count":{"type":"integer"},
    "deep":{"type":"boolean"},"tags":{"type":"array","items":{}},"maybe":{"anyOf":[{"type":"string"},{"type":"null"}]}}}"#;

fn names() -> ToolNames {
    let tool = |name: &str| ToolSpec {
        name: name.into(),
        description: String::new(),
        input_schema: Arc::from(RawValue::from_string(SCHEMA.into()).unwrap()),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    };
    ToolNames::of(&COMMON, &["read", "list", "fs.read", "git__log", "git__show", "hub__show"].map(tool))
}

/// Filters a text in these pieces and returns the text that passes, and the calls.
fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, Vec<(String, String)>) {
    let names = names();
    let (mut printed, mut text) = (PrintedCallFilter::new(&names), String::new());
    for piece in pieces {
        text += &printed.take(piece).unwrap();
    }
    let rest = printed.finish();
    (text + &rest.text, rest.calls.into_iter().map(|call| (call.name, call.arguments)).collect())
}

/// Filters a text in one piece and at every split, with the same result.
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
        // Without a fence or marks.
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
        // With marks.
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
        // After text that looked like a call.
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
fn text_without_calls_is_unchanged() {
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
        "{\"name\":\"read\",\"arguments\":{}]",
        // Cut off.
        "{\"name\":\"read\",\"arguments\":{}",
        "<tool_call>{\"name\":\"read\"",
        "<tool_call>{\"name\":\"read\"}</tool",
        "<tool_ca",
        "```json\n{\"name\":\"read\",\"arguments\":{}}\n",
        // A tool that is not offered.
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
fn forms_of_each_family_are_calls() {
    let read = ("read", r#"{"path":"a"}"#);
    let list = ("list", r#"{"count":2}"#);
    for (text, before, calls) in [
        // Several calls, and separators between them.
        (r#"{"name":"read","arguments":{"path":"a"}} {"name":"list","arguments":{"count":2}}"#, "", vec![read, list]),
        (
            "{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}},\n{\"name\":\"list\",\"arguments\":{\"count\":2}}",
            "",
            vec![read, list],
        ),
        (
            "```json\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```\n\n```json\n{\"name\":\"list\",\"arguments\":{\"count\":2}}\n```",
            "",
            vec![read, list],
        ),
        (
            "```json\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n{\"name\":\"list\",\"arguments\":{\"count\":2}}\n```",
            "",
            vec![read, list],
        ),
        ("I read it now.\n\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}", "I read it now.\n\n", vec![read]),
        ("I read it:\n```json\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```", "I read it:\n", vec![read]),
        (
            "Here is\n```rust\nfn main() {}\n```\nNow I look.\n```json\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```\n",
            "Here is\n```rust\nfn main() {}\n```\nNow I look.\n",
            vec![read],
        ),
        (
            r#"{"tool_calls":[{"name":"read","arguments":{"path":"a"}},{"type":"function","function":{"name":"list","arguments":"{\"count\":2}"}}]}"#,
            "",
            vec![read, list],
        ),
        (r#"{"tool_call":{"name":"list"}}"#, "", vec![("list", "")]),
        (r#"{"name":"read","arguments":{"path":"a",},}"#, "", vec![read]),
        (r#"[{"name":"read","arguments":{"path":"a"}},]"#, "", vec![read]),
        ("{'name': 'read', 'arguments': {'path': 'a'}}", "", vec![read]),
        (r#"{"tool_name":"read","parameters":{"path":"a"}}"#, "", vec![read]),
        // Inexact names.
        (r#"{"name":"log","arguments":{}}"#, "", vec![("git__log", "{}")]),
        (r#"{"name":"git.log","arguments":{}}"#, "", vec![("git__log", "{}")]),
        (r#"{"name":"git/show","arguments":{}}"#, "", vec![("git__show", "{}")]),
        (r#"{"name":"functions.read","arguments":{"path":"a"}}"#, "", vec![read]),
        // Qwen3-Coder.
        ("<tool_call>\n<function=read>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>", "", vec![read]),
        (
            "Sure.\n<function=read>\n<parameter=path>\nlet a = \"<b>\";\n  c\n</parameter>\n<parameter=count>\n7\n</parameter>\n<parameter=deep>\nTrue\n</parameter>\n<parameter=tags>\n[\"x\", 'y',]\n</parameter>\n<parameter=maybe>null</parameter>\n<parameter=new>1.5</parameter>\n</function>\n</tool_call>",
            "Sure.\n",
            vec![(
                "read",
                r#"{"path":"let a = \"<b>\";\n  c","count":7,"deep":true,"tags":["x","y"],"maybe":null,"new":1.5}"#,
            )],
        ),
        ("<tool_call>\n<function=list>\n</function>\n</tool_call>", "", vec![("list", "{}")]),
        ("<function=read>\n<parameter=path>\n42\n</parameter>\n</function>", "", vec![("read", r#"{"path":"42"}"#)]),
        (
            "<function=read><parameter=path>a<parameter=count>2</function>",
            "",
            vec![("read", r#"{"path":"a","count":2}"#)],
        ),
        // Mistral.
        (r#"[TOOL_CALLS]read[ARGS]{"path":"a"}"#, "", vec![read]),
        (r#"[TOOL_CALLS]read[ARGS]{"path":"a"}[TOOL_CALLS]list[ARGS]{"count":2}</s>"#, "", vec![read, list]),
        (r#"Well. [TOOL_CALLS]read[CALL_ID]a1b2c3d4e[ARGS]{"path":"a"}"#, "Well. ", vec![read]),
        (r#"[TOOL_CALLS]read{"path":"a"}"#, "", vec![read]),
        (r#"read[ARGS]{"path":"a"}"#, "", vec![read]),
        // GLM.
        (
            "<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n<arg_key>count</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
            "",
            vec![("read", r#"{"path":"a","count":2}"#)],
        ),
        (
            "<tool_call>read<arg_key>path</arg_key><arg_value>a</arg_value></tool_call><tool_call>list</tool_call>",
            "",
            vec![read, ("list", "{}")],
        ),
        ("read\n{\"path\":\"a\"}", "", vec![read]),
        // DeepSeek.
        (
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read\n```json\n{\"path\":\"a\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>",
            "",
            vec![read],
        ),
        (
            "I look.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{\"path\":\"a\"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>list<｜tool▁sep｜>{\"count\":2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            "I look.",
            vec![read, list],
        ),
        ("<|tool_calls_begin|><|tool_call_begin|>read<|tool_sep|>{\"path\":\"a\"}<|tool_call_end|>", "", vec![read]),
        (
            "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read\">\n<｜DSML｜parameter name=\"path\" string=\"true\">1</｜DSML｜parameter>\n<｜DSML｜parameter name=\"x\" string=\"false\">[1]</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "",
            vec![("read", r#"{"path":"1","x":[1]}"#)],
        ),
        // Gemma.
        (
            "<start_function_call>call:read{path:<escape>a \"b\", {c}<escape>,count:2,deep:true}<end_function_call>",
            "",
            vec![("read", r#"{"path":"a \"b\", {c}","count":2,"deep":true}"#)],
        ),
        ("<|tool_call>call:read{path:<|\"|>a<|\"|>}<tool_call|>", "", vec![read]),
        ("```tool_code\nprint(read(path=\"a\"))\n```", "", vec![read]),
        ("```tool_code\n[read(path='a'), list(count=2)]\n```", "", vec![read, list]),
        // Llama.
        (r#"[read(path="a"), list(count=2)]"#, "", vec![read, list]),
        (r#"<|python_start|>[read(path="a")]<|python_end|>"#, "", vec![read]),
        (
            r#"read(path="a", tags=["x", {'k': None}], deep=False,)"#,
            "",
            vec![("read", r#"{"path":"a","tags":["x",{"k":null}],"deep":false}"#)],
        ),
        ("<function=read>{\"path\":\"a\"}</function><|eot_id|>", "", vec![read]),
        // Harmony.
        (
            "<|channel|>commentary to=functions.read <|constrain|>json<|message|>{\"path\":\"a\"}<|call|>",
            "",
            vec![read],
        ),
        (
            "<|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>{\"path\":\"a\"}<|call|>",
            "",
            vec![read],
        ),
        ("<|start|>assistant to=functions.read<|channel|>commentary json<|message|>{\"path\":\"a\"}", "", vec![read]),
        (
            "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary to=functions.read <|constrain|>json<|message|>{\"path\":\"a\"}<|call|>",
            "<|channel|>analysis<|message|>Hm.<|end|>",
            vec![read],
        ),
        ("commentary to=functions.read json{\"path\":\"a\"}", "", vec![read]),
        // Kimi, MiniMax, Phi, Command.
        (
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0<|tool_call_argument_begin|>{\"path\":\"a\"}<|tool_call_end|><|tool_calls_section_end|>",
            "",
            vec![read],
        ),
        (
            "<minimax:tool_call>\n<invoke name=\"read\">\n<parameter name=\"path\">a</parameter>\n</invoke>\n</minimax:tool_call>",
            "",
            vec![read],
        ),
        ("<|tool_call|>[{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}]<|/tool_call|>", "", vec![read]),
        (
            "<|START_ACTION|>[{\"tool_call_id\":\"0\",\"tool_name\":\"read\",\"parameters\":{\"path\":\"a\"}}]<|END_ACTION|>",
            "",
            vec![read],
        ),
        ("<tools>\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n</tools>", "", vec![read]),
    ] {
        let calls: Vec<_> =
            calls.into_iter().map(|(name, arguments)| (name.to_owned(), arguments.to_owned())).collect();
        assert_eq!(recovered(text), (before.into(), calls), "{text}");
    }
}

#[test]
fn quoted_or_explained_call_stays_text() {
    for text in [
        "For example:\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}",
        "A call has this format:\n\n```json\n{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\n```",
        "Sure: {\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}",
        "{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}\nThis reads a.",
        "[TOOL_CALLS]read[ARGS]{\"path\":\"a\"} is what Mistral writes.",
        "<tool_call>\n<function=read>\n</function>\n</tool_call>\nis the form.",
        "```tool_code\nprint(rm(path=\"a\"))\n```",
        "```python\nimport os\nread(path=\"a\")\n```",
        "```\n$ git log\n```",
        "read the file first",
        "read(path) is a function",
        "[read, list]",
        "list: one, two",
        "commentary to the text",
        "to be or not to be",
        "<|channel|>final<|message|>Done.",
        "{\"tool_calls\":[]}",
        "{\"tool_calls\":7}",
        "{\"name\":\"show\",\"arguments\":{}}",
        "{\"city\":\"Paris\",\"temperature\":21}",
        "```json\n{\"name\":\"Ada\",\"arguments\":\"for and against\"}\n```",
        "a < b and <i>c</i> [d]",
    ] {
        assert_eq!(recovered(text), (text.into(), vec![]), "{text}");
    }
}

fn doubt(text: &str) -> Option<String> {
    let names = names();
    let mut printed = PrintedCallFilter::new(&names);
    printed.take(text).unwrap();
    printed.finish().doubt
}

#[test]
fn near_miss_call_gives_a_doubt() {
    for (text, why) in [
        ("{\"name\":\"rm\",\"arguments\":{}}", "unknown tool `rm`"),
        ("{\"name\":\"show\",\"arguments\":{}}", "unknown tool `show`"),
        ("<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>", "unknown tool `rm`"),
        ("I do it.\n<function=rm><parameter=a>1</parameter></function>", "unknown tool `rm`"),
        ("[TOOL_CALLS]rm[ARGS]{}", "unknown tool `rm`"),
        ("{\"name\":\"read\",\"arguments\":{\"path\":\"a", "it is incomplete"),
        ("<tool_call>\n{\"name\":\"read\",\"argum", "it is incomplete"),
        ("<function=read>\n<parameter=path>\na", "it is incomplete"),
        ("```json\n{\"name\":\"read\",\"arguments\":{}}\n", "it is incomplete"),
        (
            "<tool_call>{\"name\":\"read\",\"arguments\":7}</tool_call>",
            "it is not a JSON object with `name` and `arguments`",
        ),
    ] {
        assert_eq!(doubt(text).as_deref(), Some(why), "{text}");
    }
    for text in [
        "",
        "Four.",
        "{\"answer\":4}",
        "{\"name\":\"Ada\",\"age\":36}",
        "<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>\nis how it is done.",
        "For example:\n<tool_call>{\"name\":\"rm\",\"arguments\":{}}</tool_call>",
        "[TOOL_CALLS] are made like this.",
        "<function=rm> is a tag.",
        "[1, 2, 3]",
        "```\nfn main() {}\n```",
        "<html></html>",
        "{\"name\":\"read\",\"arguments\":{}}",
    ] {
        assert_eq!(doubt(text), None, "{text}");
    }
}

#[test]
fn bounds_of_forms_that_are_no_json() {
    let deep =
        |depth: usize| format!("[TOOL_CALLS]read[ARGS]{{'a':{}1{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert_eq!(of_pieces([deep(limits::PRINTED_DEPTH - 1).as_str()]).1.len(), 1);
    assert_eq!(of_pieces([deep(limits::PRINTED_DEPTH + 1).as_str()]).1.len(), 0);
    let header = |bytes: usize| format!("<|channel|>commentary{} to=functions.read<|message|>{{}}", " ".repeat(bytes));
    assert_eq!(of_pieces([header(limits::PRINTED_HEADER_BYTES - 40).as_str()]).1.len(), 1);
    assert_eq!(of_pieces([header(limits::PRINTED_HEADER_BYTES).as_str()]).1.len(), 0);
    // Only the beginning of a line is searched for a word that announces an example.
    let line =
        |bytes: usize| format!("{}for example:\n{{\"name\":\"read\",\"arguments\":{{}}}}", "x ".repeat(bytes / 2));
    assert_eq!(of_pieces([line(0).as_str()]).1.len(), 0);
    assert_eq!(of_pieces([line(limits::PRINTED_LINE_BYTES).as_str()]).1.len(), 1);
    // After enough rejected candidates, the rest of the text passes.
    let lure = format!(
        "<tool_call>{{\"name\":\"read\",\"arguments\":{{\"a\":\"{}\n",
        "x".repeat(limits::PRINTED_DOUBT_BYTES / 2)
    );
    let call = "<tool_call>{\"name\":\"read\",\"arguments\":{}}</tool_call>";
    assert_eq!(of_pieces([format!("{lure}{call}").as_str()]).1.len(), 1);
    let text = format!("{lure}{lure}{lure}{call}");
    assert_eq!(of_pieces([text.as_str()]), (text.clone(), vec![]));
}

proptest! {
    /// The result does not depend on the cuts, no text is lost, and no part of a call is shown.
    #[test]
    fn printed_call_result_does_not_depend_on_cuts(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..12),
        cuts in prop::collection::vec(0..400usize, 0..20),
    ) {
        let text = pieces.concat();
        let whole = of_pieces([text.as_str()]);
        let mut cuts: Vec<_> = cuts.into_iter().filter(|cut| text.is_char_boundary(*cut)).collect();
        cuts.extend([0, text.len()]);
        cuts.sort_unstable();
        let cut = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]);
        prop_assert_eq!(&of_pieces(cut), &whole);
        prop_assert!(text.starts_with(&whole.0));
        prop_assert_eq!(whole.1.is_empty(), whole.0 == text);
    }
}

/// Parts of calls, whole calls, and prose.
const PIECES: [&str; 44] = [
    "{\"name\":\"read\",\"arguments\":{\"path\":\"a\"}}",
    "{\"name\":\"",
    "read",
    "list",
    "git__log",
    "\"",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\n",
    " ",
    "```",
    "```json\n",
    "\n```\n",
    "<tool_call>",
    "</tool_call>",
    "<function=read>",
    "</function>",
    "<parameter=path>",
    "</parameter>",
    "[TOOL_CALLS]",
    "[ARGS]",
    "<arg_key>path</arg_key>",
    "<arg_value>",
    "</arg_value>",
    "<｜tool▁calls▁begin｜>",
    "<｜tool▁sep｜>",
    "<start_function_call>",
    "call:read{path:<escape>",
    "<escape>}",
    "<|channel|>",
    "commentary to=functions.read ",
    "<|message|>",
    "<|call|>",
    "(path=\"a\")",
    "Well.",
    "For example:\n",
    "世",
    "\\",
    "'",
    "{\"tool_calls\":[",
];

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
        ("Well\n<tools", "Well\n"),
        ("Well\n<toolkit", "Well\n<toolkit"),
        ("read", ""),
        ("reading", "reading"),
        ("a < b", "a < b"),
        ("I look.<｜tool", "I look."),
        ("{\"tool_calls\":[{\"name\"", ""),
        ("```rust\nfn", "```rust\nfn"),
        ("<function=rm>", "<function=rm>"),
    ] {
        assert_eq!(PrintedCallFilter::new(&names).take(text).unwrap(), shown, "{text}");
    }
}

#[test]
fn interruption_releases_held_text() {
    let names = names();
    let mut printed = PrintedCallFilter::new(&names);
    assert_eq!(printed.take("{\"name\":").unwrap(), "");
    assert_eq!(printed.interrupt(), "{\"name\":");
    assert_eq!(printed.take("{\"name\":").unwrap(), "{\"name\":");
    assert_eq!(printed.finish(), PrintedTextRemainder::default());
    // Leading white space alone does not begin a call.
    let mut printed = PrintedCallFilter::new(&names);
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
    // A deeply nested object is passed on unchanged.
    let nested = format!("{{\"a\":{}{}}}", "[".repeat(1 << 16), "]".repeat(1 << 16));
    let (text, calls) = of_pieces([format!("{{\"name\":\"read\",\"arguments\":{nested}}}").as_str()]);
    assert_eq!((text.as_str(), calls.len()), ("", 1));
    let names = names();
    let mut printed = PrintedCallFilter::new(&names);
    assert_eq!(printed.take("{\"name\":\"").unwrap(), "");
    let piece = "x".repeat(1 << 20);
    let failed = (0..17).find_map(|_| printed.take(&piece).err());
    assert!(matches!(failed, Some(Fault::TooLarge { .. })), "{failed:?}");
}
