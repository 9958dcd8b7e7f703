//! Functions of components that use the async ABI: they are tools like others, within the same limits.

use std::time::Duration;

use serde_json::json;
use shelly_host::{event::RunCx, limits, plugin::Limits};

use super::{call, fails, packed, told, tools_of};

/// A component with async functions. `later` gives way to others as often as its caller says and returns a number then;
/// `stuck` waits for nothing; `sets` makes so many waitable sets.
const ASYNC: &str = r#"(component
    (core func $return (canon task.return (result u32)))
    (core func $new-set (canon waitable-set.new))
    (core instance $host (export "return" (func $return)) (export "new-set" (func $new-set)))
    (core module $m
        (import "host" "return" (func $return (param i32)))
        (import "host" "new-set" (func $new-set (result i32)))
        (global $answer (mut i32) (i32.const 0))
        (global $left (mut i32) (i32.const 0))
        (func (export "add") (param i32 i32) (result i32)
            (call $return (i32.add (local.get 0) (local.get 1)))
            (i32.const 0))
        (func (export "later") (param i32 i32) (result i32)
            (global.set $answer (local.get 0))
            (global.set $left (local.get 1))
            (i32.const 1))
        (func (export "callback") (param i32 i32 i32) (result i32)
            (if (i32.eqz (global.get $left))
                (then (call $return (global.get $answer)) (return (i32.const 0))))
            (global.set $left (i32.sub (global.get $left) (i32.const 1)))
            (i32.const 1))
        (func (export "stuck") (result i32)
            (i32.or (i32.const 2) (i32.shl (call $new-set) (i32.const 4))))
        (func (export "sets") (param i32) (result i32) (local $made i32)
            (loop $more
                (drop (call $new-set))
                (local.set $made (i32.add (local.get $made) (i32.const 1)))
                (br_if $more (i32.lt_u (local.get $made) (local.get 0))))
            (local.get $made))
        (func (export "listen") (param i32)))
    (core instance $i (instantiate $m (with "host" (instance $host))))
    (func (export "add") async (param "a" u32) (param "b" u32) (result u32)
        (canon lift (core func $i "add") async (callback (core func $i "callback"))))
    (func (export "later") async (param "answer" u32) (param "times" u32) (result u32)
        (canon lift (core func $i "later") async (callback (core func $i "callback"))))
    (func (export "stuck") async (result u32)
        (canon lift (core func $i "stuck") async (callback (core func $i "callback"))))
    (func (export "sets") (param "count" u32) (result u32) (canon lift (core func $i "sets")))
    (func (export "listen") (param "it" (stream (list u8))) (canon lift (core func $i "listen")))
)"#;

fn component() -> Vec<u8> {
    wat::parse_str(ASYNC).unwrap_or_else(|error| panic!("{error}"))
}

#[tokio::test]
async fn async_function_returns_its_value() {
    // With an instance for each call, and with one for all.
    for manifest in ["", "instance = \"run\""] {
        let (_place, package) = packed(manifest, &component());
        let package = package.unwrap_or_else(|error| panic!("{}", told(&error)));
        let why = "the engine passes the elements of a `stream` only as a number, `bool`, `char` or `string`";
        assert_eq!(package.offer.left_out, [("listen".to_owned(), why.to_owned())]);
        let (tools, run) = (tools_of(package, Limits::default()).await, RunCx::new("helper"));
        let mut names: Vec<_> = tools.names().collect();
        names.sort_unstable();
        assert_eq!(names, ["add", "later", "sets", "stuck"]);
        for _ in 0..2 {
            assert_eq!(call(&tools, &run, "add", json!({"a": 2, "b": 40})).await, "42");
            assert_eq!(call(&tools, &run, "later", json!({"answer": 7, "times": 100})).await, "7");
            assert_eq!(call(&tools, &run, "later", json!({"answer": u32::MAX, "times": 0})).await, "4294967295");
        }
    }
}

#[tokio::test]
async fn async_function_ends_at_its_time_limit() {
    let (_place, package) = packed("", &component());
    let limits = Limits { tool_time: Duration::from_millis(300), ..Limits::default() };
    let (tools, run) = (tools_of(package.unwrap(), limits).await, RunCx::new("helper"));
    let said = fails(&tools, &run, "later", json!({"answer": 7, "times": u32::MAX})).await;
    assert!(said.starts_with("plugin `plain` timed out after"), "{said}");
    assert_eq!(call(&tools, &run, "add", json!({"a": 2, "b": 40})).await, "42");
}

#[tokio::test]
async fn async_function_that_waits_for_nothing_is_reported() {
    let (_place, package) = packed("", &component());
    let (tools, run) = (tools_of(package.unwrap(), Limits::default()).await, RunCx::new("helper"));
    let said = fails(&tools, &run, "stuck", json!({})).await;
    assert!(said.starts_with("plugin `plain` crashed: ") && said.contains("deadlock"), "{said}");
}

#[tokio::test]
async fn async_table_of_one_instance_is_bounded() {
    let (_place, package) = packed("", &component());
    let (tools, run) = (tools_of(package.unwrap(), Limits::default()).await, RunCx::new("helper"));
    // Some entries are of the call itself.
    let most = limits::ASYNC_TABLE_ENTRIES - 100;
    assert_eq!(call(&tools, &run, "sets", json!({"count": most})).await, most.to_string());
    let said = fails(&tools, &run, "sets", json!({"count": limits::ASYNC_TABLE_ENTRIES + 1})).await;
    assert!(said.starts_with("plugin `plain` crashed: "), "{said}");
}
