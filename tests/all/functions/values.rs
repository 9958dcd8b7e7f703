//! Values at the edges of their types, through components that return their argument: the engine lowers and lifts them.

use serde_json::{Value, json};
use shelly_host::{
    chat::{ToolCall, ToolResultContent},
    event::RunCx,
    plugin::Limits,
    tool::{ToolBox, ToolCx, ToolOutput},
};

use super::{
    call,
    chance::{arguments, same_as},
    packed, told, tools_of,
};

/// Returns the tools of a component with a function `same` that returns its argument of this type.
async fn echo(defined: &str, of: &str) -> ToolBox {
    let (_place, package) = packed("", &same_as(defined, of));
    tools_of(package.unwrap_or_else(|error| panic!("{}", told(&error))), Limits::default()).await
}

/// Asserts that a component returns each of these values as it was written.
async fn assert_same(tools: &ToolBox, of: &str, values: &Value) {
    let run = RunCx::new("helper");
    for value in values.as_array().unwrap() {
        let back = call(tools, &run, "same", arguments(value)).await;
        // As texts: `-0.0` and `0.0` are equal as numbers. The test's own writer of JSON puts a plus before exponents.
        assert_eq!(back, format!("[{value},0]").replace("e+", "e"), "{of}");
    }
}

#[tokio::test]
async fn extreme_function_values_round_trip() {
    for (of, values) in [
        ("u64", json!([0, 9_007_199_254_740_992_u64, "9007199254740993", "18446744073709551615"])),
        ("s64", json!([-9_007_199_254_740_992_i64, "-9223372036854775808", "9223372036854775807"])),
        ("f32", json!([-0.0, 1e-45, 3.4028235e38, 0.1, "NaN", "Infinity", "-Infinity"])),
        ("f64", json!([-0.0, 5e-324, f64::MAX, 0.1, "NaN", "Infinity", "-Infinity"])),
        ("char", json!(["\0", "\u{7f}", "\u{d7ff}", "\u{e000}", "\u{fffe}", "\u{10ffff}", "\""])),
        ("string", json!(["", "a\0b\u{1b}[31m\r\n", "\u{202e}\u{feff}\u{10ffff}"])),
        ("(list u8)", json!(["", "AA==", "/+8="])),
        ("(option (option bool))", json!([null, {"some": null}, {"some": true}])),
        (
            "(option (option (option u8)))",
            json!([null, {"some": null}, {"some": {"some": null}}, {"some": {"some": 1}}]),
        ),
        ("(list (option (list string)))", json!([[null, [], [""]]])),
        ("(result)", json!([{"ok": null}, {"error": null}])),
        ("(result u8)", json!([{"ok": 255}, {"error": null}])),
        ("(result (error string))", json!([{"ok": null}, {"error": ""}])),
        ("(result (option u8) (error char))", json!([{"ok": null}, {"ok": 1}, {"error": "e"}])),
        ("(map string u8)", json!([{}, {"": 0, "\0": 255}])),
        ("(map s64 (list string))", json!([[], [["-9223372036854775808", []], [0, ["x"]]]])),
        ("(map bool (map char f64))", json!([[[false, []], [true, [["\u{10ffff}", "NaN"]]]]])),
    ] {
        assert_same(&echo("", of).await, of, &values).await;
    }
}

/// The definition of a type that must have a name, and that name.
fn named(form: &str) -> (String, &'static str) {
    (format!("(type $made {form}) (export $named \"named\" (type $made))\n"), "$named")
}

/// A type of so many names in text, such as `(flags "n0" "n1")`.
fn of_names(kind: &str, count: usize) -> String {
    let names: String = (0..count).map(|at| format!(" \"n{at}\"")).collect();
    format!("({kind}{names})")
}

#[tokio::test]
async fn flags_and_cases_of_every_size_round_trip() {
    // The sizes at which the engine takes more bytes for a value.
    for count in [1, 8, 9, 16, 17, 32] {
        let (defined, of) = named(&of_names("flags", count));
        let all: Vec<_> = (0..count).map(|at| format!("n{at}")).collect();
        let values = json!([[], [all[0]], [all[count - 1]], all]);
        assert_same(&echo(&defined, of).await, &defined, &values).await;
    }
    for count in [1, 256, 257] {
        let (defined, of) = named(&of_names("enum", count));
        let values = json!(["n0", format!("n{}", count - 1)]);
        assert_same(&echo(&defined, of).await, &defined, &values).await;
        let cases: String = (1..count).map(|at| format!(" (case \"n{at}\")")).collect();
        let (defined, of) = named(&format!("(variant (case \"n0\" u64){cases})"));
        let mut values = vec![json!({"n0": "18446744073709551615"})];
        values.extend((count > 1).then(|| json!(format!("n{}", count - 1))));
        assert_same(&echo(&defined, of).await, &defined, &values.into()).await;
    }
}

#[test]
fn flags_of_an_invalid_number_are_refused() {
    for (count, says) in [
        (0, "invalid component: flags must have at least one entry"),
        (33, "invalid component: cannot have more than 32 flags"),
        (64, "invalid component: cannot have more than 32 flags"),
        (65, "invalid component: cannot have more than 32 flags"),
    ] {
        let (defined, of) = named(&of_names("flags", count));
        let (_place, package) = packed("", &same_as(&defined, of));
        let said = told(&package.unwrap_err());
        assert!(said.contains(says), "{count}: {said}");
    }
}

#[tokio::test]
async fn string_of_a_megabyte_crosses_in_both_directions() {
    let tools = echo("", "string").await;
    // Of one to four bytes each.
    let text = "x\u{e9}\u{fffe}\u{1f600}".repeat(100_000);
    assert_eq!(text.len(), 1_000_000);
    let tool = tools.iter().find(|tool| tool.spec().name == "same").unwrap();
    let json = arguments(&text.as_str().into()).to_string();
    let call = ToolCall { id: "c".into(), name: "same".into(), arguments: json, meta: vec![] };
    // Called without the toolbox, which cuts long results for the model.
    let output = tool.call(&ToolCx::new(RunCx::new("helper")), &call).await.unwrap();
    let json = match output {
        ToolOutput::Reply(content) => match content.as_slice() {
            [ToolResultContent::Json(json)] => json.clone(),
            other => panic!("{} pieces", other.len()),
        },
        other => panic!("{other:?}"),
    };
    assert!(serde_json::from_str::<(String, u8)>(&json).unwrap() == (text, 0), "it has {} bytes", json.len());
}
