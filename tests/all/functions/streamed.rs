//! Streams and futures of components: a model passes and gets lists and values.

use std::time::Duration;

use serde_json::{Value, json};
use shelly_host::{
    chat::{ToolCall, ToolResultContent},
    event::RunCx,
    limits,
    plugin::Limits,
    tool::{ToolBox, ToolCx, ToolOutput},
};

use super::{call, fails, packed, told, tools_of};

/// A component that writes and reads streams and futures.
///
/// `count` streams the numbers below its argument; `lines` streams so many texts of 64 KiB; `silent` never writes; `same`
/// returns the stream that it gets; `sum` adds up what it reads; `answer` returns a future text; `both` returns two of so many
/// bytes; `wait` returns the value of a future; `broken` drops the writable end of its future before it has written.
const STREAMS: &str = r#"(component
    (core module $memories (memory (export "memory") 18))
    (core instance $memories (instantiate $memories))
    (alias core export $memories "memory" (core memory $memory))
    (type $numbers (stream u32))
    (type $texts (stream string))
    (type $text (future string))
    (type $both (tuple $text $text))
    (type $number (future u32))
    (core func $numbers-new (canon stream.new $numbers))
    (core func $numbers-write (canon stream.write $numbers async (memory $memory)))
    (core func $numbers-read (canon stream.read $numbers async (memory $memory)))
    (core func $numbers-end (canon stream.drop-writable $numbers))
    (core func $numbers-close (canon stream.drop-readable $numbers))
    (core func $texts-new (canon stream.new $texts))
    (core func $texts-write (canon stream.write $texts async (memory $memory)))
    (core func $texts-end (canon stream.drop-writable $texts))
    (core func $text-new (canon future.new $text))
    (core func $text-write (canon future.write $text async (memory $memory)))
    (core func $text-end (canon future.drop-writable $text))
    (core func $number-read (canon future.read $number async (memory $memory)))
    (core func $number-close (canon future.drop-readable $number))
    (core func $return-numbers (canon task.return (result $numbers)))
    (core func $return-texts (canon task.return (result $texts)))
    (core func $return-text (canon task.return (result $text)))
    (core func $return-both (canon task.return (result $both)))
    (core func $return-number (canon task.return (result u32)))
    (core func $set-new (canon waitable-set.new))
    (core func $join (canon waitable.join))
    (core instance $host
        (export "memory" (memory $memory))
        (export "numbers-new" (func $numbers-new))
        (export "numbers-write" (func $numbers-write))
        (export "numbers-read" (func $numbers-read))
        (export "numbers-end" (func $numbers-end))
        (export "numbers-close" (func $numbers-close))
        (export "texts-new" (func $texts-new))
        (export "texts-write" (func $texts-write))
        (export "texts-end" (func $texts-end))
        (export "text-new" (func $text-new))
        (export "text-write" (func $text-write))
        (export "text-end" (func $text-end))
        (export "number-read" (func $number-read))
        (export "number-close" (func $number-close))
        (export "return-numbers" (func $return-numbers))
        (export "return-texts" (func $return-texts))
        (export "return-text" (func $return-text))
        (export "return-both" (func $return-both))
        (export "return-number" (func $return-number))
        (export "set-new" (func $set-new))
        (export "join" (func $join)))
    (core module $m
        (import "host" "memory" (memory 2))
        (import "host" "numbers-new" (func $numbers-new (result i64)))
        (import "host" "numbers-write" (func $numbers-write (param i32 i32 i32) (result i32)))
        (import "host" "numbers-read" (func $numbers-read (param i32 i32 i32) (result i32)))
        (import "host" "numbers-end" (func $numbers-end (param i32)))
        (import "host" "numbers-close" (func $numbers-close (param i32)))
        (import "host" "texts-new" (func $texts-new (result i64)))
        (import "host" "texts-write" (func $texts-write (param i32 i32 i32) (result i32)))
        (import "host" "texts-end" (func $texts-end (param i32)))
        (import "host" "text-new" (func $text-new (result i64)))
        (import "host" "text-write" (func $text-write (param i32 i32) (result i32)))
        (import "host" "text-end" (func $text-end (param i32)))
        (import "host" "number-read" (func $number-read (param i32 i32) (result i32)))
        (import "host" "number-close" (func $number-close (param i32)))
        (import "host" "return-numbers" (func $return-numbers (param i32)))
        (import "host" "return-texts" (func $return-texts (param i32)))
        (import "host" "return-text" (func $return-text (param i32)))
        (import "host" "return-both" (func $return-both (param i32 i32)))
        (import "host" "return-number" (func $return-number (param i32)))
        (import "host" "set-new" (func $set-new (result i32)))
        (import "host" "join" (func $join (param i32 i32)))
        (data (i32.const 65528) "later")
        (global $end (mut i32) (i32.const 0))
        (global $other (mut i32) (i32.const 0))
        (global $set (mut i32) (i32.const 0))
        (global $next (mut i32) (i32.const 0))
        (global $left (mut i32) (i32.const 0))
        (global $total (mut i32) (i32.const 0))
        ;; Keeps the end with which the task works, and waits for it from now on.
        (func $begin (param $end i32)
            (global.set $end (local.get $end))
            (global.set $set (call $set-new))
            (call $join (local.get $end) (global.get $set)))
        (func $wait (result i32) (i32.or (i32.const 2) (i32.shl (global.get $set) (i32.const 4))))
        ;; Counts the elements that were written. None are left if nobody reads them.
        (func $wrote (param $code i32) (local $count i32)
            (local.set $count (i32.shr_u (local.get $code) (i32.const 4)))
            (global.set $next (i32.add (global.get $next) (local.get $count)))
            (global.set $left (i32.sub (global.get $left) (local.get $count)))
            (if (i32.eq (i32.and (local.get $code) (i32.const 15)) (i32.const 1))
                (then (global.set $left (i32.const 0)))))
        (func $chunk (result i32)
            (select (i32.const 1000) (global.get $left) (i32.gt_u (global.get $left) (i32.const 1000))))
        (func $numbers-pump (result i32) (local $at i32) (local $code i32)
            (loop $more
                (if (i32.eqz (global.get $left))
                    (then (call $numbers-end (global.get $end)) (return (i32.const 0))))
                (local.set $at (i32.const 0))
                (loop $fill
                    (i32.store
                        (i32.mul (local.get $at) (i32.const 4))
                        (i32.add (global.get $next) (local.get $at)))
                    (local.set $at (i32.add (local.get $at) (i32.const 1)))
                    (br_if $fill (i32.lt_u (local.get $at) (call $chunk))))
                (local.set $code (call $numbers-write (global.get $end) (i32.const 0) (call $chunk)))
                (if (i32.eq (local.get $code) (i32.const -1)) (then (return (call $wait))))
                (call $wrote (local.get $code))
                (br $more))
            (unreachable))
        (func (export "count") (param $upto i32) (result i32) (local $ends i64)
            (local.set $ends (call $numbers-new))
            (global.set $next (i32.const 0))
            (global.set $left (local.get $upto))
            (call $return-numbers (i32.wrap_i64 (local.get $ends)))
            (call $begin (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
            (call $numbers-pump))
        (func (export "count-callback") (param i32 i32 i32) (result i32)
            (call $wrote (local.get 2))
            (call $numbers-pump))
        (func $texts-pump (result i32) (local $code i32)
            (loop $more
                (if (i32.eqz (global.get $left))
                    (then (call $texts-end (global.get $end)) (return (i32.const 0))))
                (i32.store (i32.const 0) (i32.const 65536))
                (i32.store (i32.const 4) (i32.const 65536))
                (local.set $code (call $texts-write (global.get $end) (i32.const 0) (i32.const 1)))
                (if (i32.eq (local.get $code) (i32.const -1)) (then (return (call $wait))))
                (call $wrote (local.get $code))
                (br $more))
            (unreachable))
        (func (export "lines") (param $count i32) (result i32) (local $ends i64)
            (memory.fill (i32.const 65536) (i32.const 122) (i32.const 65536))
            (local.set $ends (call $texts-new))
            (global.set $left (local.get $count))
            (call $return-texts (i32.wrap_i64 (local.get $ends)))
            (call $begin (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
            (call $texts-pump))
        (func (export "lines-callback") (param i32 i32 i32) (result i32)
            (call $wrote (local.get 2))
            (call $texts-pump))
        ;; The writable end stays open, and nothing is ever written.
        (func (export "silent") (result i32)
            (call $return-numbers (i32.wrap_i64 (call $numbers-new)))
            (i32.const 0))
        (func (export "same") (param $stream i32) (result i32)
            (local.get $stream))
        (func $pull (result i32) (local $code i32)
            (loop $more
                (local.set $code (call $numbers-read (global.get $end) (i32.const 0) (i32.const 1000)))
                (if (i32.eq (local.get $code) (i32.const -1)) (then (return (call $wait))))
                (br_if $more (i32.eqz (call $got (local.get $code)))))
            (i32.const 0))
        ;; Adds up the elements that were read. Returns 1 after the last ones.
        (func $got (param $code i32) (result i32) (local $at i32)
            (block $none
                (br_if $none (i32.eqz (i32.shr_u (local.get $code) (i32.const 4))))
                (loop $add
                    (global.set $total
                        (i32.add (global.get $total) (i32.load (i32.mul (local.get $at) (i32.const 4)))))
                    (local.set $at (i32.add (local.get $at) (i32.const 1)))
                    (br_if $add (i32.lt_u (local.get $at) (i32.shr_u (local.get $code) (i32.const 4))))))
            (if (i32.ne (i32.and (local.get $code) (i32.const 15)) (i32.const 1)) (then (return (i32.const 0))))
            (call $numbers-close (global.get $end))
            (call $return-number (global.get $total))
            (i32.const 1))
        (func (export "sum") (param $stream i32) (result i32)
            (global.set $total (i32.const 0))
            (call $begin (local.get $stream))
            (call $pull))
        (func (export "sum-callback") (param i32 i32 i32) (result i32)
            (if (call $got (local.get 2)) (then (return (i32.const 0))))
            (call $pull))
        (func (export "answer") (result i32) (local $ends i64)
            (local.set $ends (call $text-new))
            (i32.store (i32.const 0) (i32.const 65528))
            (i32.store (i32.const 4) (i32.const 5))
            (call $return-text (i32.wrap_i64 (local.get $ends)))
            (call $begin (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
            (if (i32.eq (call $text-write (global.get $end) (i32.const 0)) (i32.const -1))
                (then (return (call $wait))))
            (call $text-end (global.get $end))
            (i32.const 0))
        (func (export "answer-callback") (param i32 i32 i32) (result i32)
            (call $text-end (global.get $end))
            (i32.const 0))
        ;; Writes the same text to both of its futures.
        (func (export "both") (param $bytes i32) (result i32) (local $one i64) (local $two i64)
            (memory.fill (i32.const 65536) (i32.const 122) (local.get $bytes))
            (i32.store (i32.const 0) (i32.const 65536))
            (i32.store (i32.const 4) (local.get $bytes))
            (local.set $one (call $text-new))
            (local.set $two (call $text-new))
            (call $return-both (i32.wrap_i64 (local.get $one)) (i32.wrap_i64 (local.get $two)))
            (call $begin (i32.wrap_i64 (i64.shr_u (local.get $one) (i64.const 32))))
            (global.set $other (i32.wrap_i64 (i64.shr_u (local.get $two) (i64.const 32))))
            (call $join (global.get $other) (global.get $set))
            (global.set $left (i32.const 2))
            (if (i32.ne (call $text-write (global.get $end) (i32.const 0)) (i32.const -1))
                (then (global.set $left (i32.sub (global.get $left) (i32.const 1)))))
            (if (i32.ne (call $text-write (global.get $other) (i32.const 0)) (i32.const -1))
                (then (global.set $left (i32.sub (global.get $left) (i32.const 1)))))
            (call $both-end))
        (func $both-end (result i32)
            (if (global.get $left) (then (return (call $wait))))
            (call $text-end (global.get $end))
            (call $text-end (global.get $other))
            (i32.const 0))
        (func (export "both-callback") (param i32 i32 i32) (result i32)
            (global.set $left (i32.sub (global.get $left) (i32.const 1)))
            (call $both-end))
        (func (export "broken") (result i32) (local $ends i64)
            (local.set $ends (call $text-new))
            (call $return-text (i32.wrap_i64 (local.get $ends)))
            (call $text-end (i32.wrap_i64 (i64.shr_u (local.get $ends) (i64.const 32))))
            (i32.const 0))
        (func $value (result i32)
            (call $number-close (global.get $end))
            (call $return-number (i32.load (i32.const 0)))
            (i32.const 0))
        (func (export "wait") (param $future i32) (result i32)
            (call $begin (local.get $future))
            (if (i32.eq (call $number-read (local.get $future) (i32.const 0)) (i32.const -1))
                (then (return (call $wait))))
            (call $value))
        (func (export "wait-callback") (param i32 i32 i32) (result i32)
            (call $value))
        (func (export "none") (param i32 i32 i32) (result i32) (unreachable)))
    (core instance $i (instantiate $m (with "host" (instance $host))))
    (func (export "count") async (param "upto" u32) (result $numbers)
        (canon lift (core func $i "count") async (callback (core func $i "count-callback"))))
    (func (export "lines") async (param "count" u32) (result $texts)
        (canon lift (core func $i "lines") async (callback (core func $i "lines-callback"))))
    (func (export "silent") async (result $numbers)
        (canon lift (core func $i "silent") async (callback (core func $i "none"))))
    (func (export "same") (param "it" $numbers) (result $numbers) (canon lift (core func $i "same")))
    (func (export "sum") async (param "of" $numbers) (result u32)
        (canon lift (core func $i "sum") async (callback (core func $i "sum-callback"))))
    (func (export "answer") async (result $text)
        (canon lift (core func $i "answer") async (callback (core func $i "answer-callback"))))
    (func (export "both") async (param "bytes" u32) (result $both)
        (canon lift (core func $i "both") async (callback (core func $i "both-callback"))))
    (func (export "broken") async (result $text)
        (canon lift (core func $i "broken") async (callback (core func $i "none"))))
    (func (export "wait") async (param "it" $number) (result u32)
        (canon lift (core func $i "wait") async (callback (core func $i "wait-callback"))))
)"#;

async fn tools(manifest: &str, limits: Limits) -> ToolBox {
    let component = wat::parse_str(STREAMS).unwrap_or_else(|error| panic!("{error}"));
    let (_place, package) = packed(manifest, &component);
    let package = package.unwrap_or_else(|error| panic!("{}", told(&error)));
    assert!(package.offer.left_out.is_empty(), "{:?}", package.offer.left_out);
    tools_of(package, limits).await
}

/// Returns the result of a call as it is before it is cut for a model.
async fn whole_result(tools: &ToolBox, name: &str, arguments: Value) -> Vec<ToolResultContent> {
    let tool = tools.iter().find(|tool| tool.spec().name == name).unwrap();
    let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
    match tool.call(&ToolCx::new(RunCx::new("helper")), &call).await.unwrap() {
        ToolOutput::Reply(content) => content,
        other => panic!("{name}: {other:?}"),
    }
}

#[tokio::test]
async fn streams_and_futures_pass_in_both_directions() {
    // With an instance for each call, and with one for all.
    for manifest in ["", "instance = \"run\""] {
        let (tools, run) = (tools(manifest, Limits::default()).await, RunCx::new("helper"));
        let many: Vec<u32> = (0..5_000).collect();
        for (name, arguments, expected) in [
            ("count", json!({"upto": 0}), json!([])),
            ("count", json!({"upto": 3}), json!([0, 1, 2])),
            ("count", json!({"upto": 5_000}), json!(many)),
            ("same", json!({"it": [7, 8]}), json!([7, 8])),
            ("same", json!({"it": []}), json!([])),
            ("sum", json!({"of": []}), json!(0)),
            ("sum", json!({"of": many}), json!(many.iter().sum::<u32>())),
            ("wait", json!({"it": 41}), json!(41)),
        ] {
            let result = call(&tools, &run, name, arguments.clone()).await;
            assert_eq!(serde_json::from_str::<Value>(&result).unwrap(), expected, "{manifest} {name}");
        }
        assert_eq!(call(&tools, &run, "answer", json!({})).await, "later");
    }
}

#[tokio::test]
async fn stream_is_described_as_list_and_future_as_value() {
    let tools = tools("", Limits::default()).await;
    let spec = |name: &str| tools.iter().find(|tool| tool.spec().name == name).unwrap().spec().clone();
    assert!(
        spec("count").description.contains("count: func(upto: u32) -> stream<u32>"),
        "{}",
        spec("count").description
    );
    assert!(spec("answer").description.contains("answer: func() -> future<string>"));
    let schema = |name: &str| serde_json::from_str::<Value>(spec(name).input_schema.get()).unwrap();
    let number = json!({"type": "integer", "minimum": 0, "maximum": u32::MAX});
    assert_eq!(schema("sum")["properties"]["of"], json!({"type": "array", "items": number}));
    assert_eq!(schema("wait")["properties"]["it"], number);
    let run = RunCx::new("helper");
    let said = fails(&tools, &run, "sum", json!({"of": [1, "x"]})).await;
    assert!(said.starts_with("of[1]: expected a whole number from 0 to 4294967295 (u32)"), "{said}");
    let said = fails(&tools, &run, "wait", json!({"it": [1]})).await;
    assert!(said.starts_with("it: expected a whole number"), "{said}");
}

#[tokio::test]
async fn stream_without_end_is_cut_at_its_limits() {
    let tools = tools("", Limits::default()).await;
    let notice = "(a stream of the result had more than 65536 elements or 1 MiB of text; only its beginning was read)";
    let notice = ToolResultContent::Text(notice.into());
    let most = u32::try_from(limits::STREAM_ELEMENTS).unwrap();
    let all = ToolResultContent::Json(json!((0..most).collect::<Vec<_>>()).to_string());
    assert_eq!(whole_result(&tools, "count", json!({ "upto": most })).await, std::slice::from_ref(&all));
    assert_eq!(whole_result(&tools, "count", json!({"upto": u32::MAX})).await, [notice.clone(), all]);
    // Texts of 64 KiB.
    let texts = limits::STREAM_TEXT_BYTES / (64 << 10);
    let all = ToolResultContent::Json(json!(vec!["z".repeat(64 << 10); texts]).to_string());
    assert_eq!(whole_result(&tools, "lines", json!({ "count": texts })).await, std::slice::from_ref(&all));
    assert_eq!(whole_result(&tools, "lines", json!({"count": texts + 1})).await, [notice, all]);
}

#[tokio::test]
async fn texts_of_futures_are_bounded_together() {
    let (tools, run) = (tools("", Limits::default()).await, RunCx::new("helper"));
    let half = limits::STREAM_TEXT_BYTES / 2;
    let all = ToolResultContent::Json(json!(["z".repeat(half), "z".repeat(half)]).to_string());
    assert_eq!(whole_result(&tools, "both", json!({ "bytes": half })).await, [all]);
    let said = fails(&tools, &run, "both", json!({"bytes": limits::STREAM_TEXT_BYTES})).await;
    let why = "the futures of the result carry more than 1048576 bytes of text";
    assert!(said.starts_with("plugin `plain` crashed: ") && said.contains(why), "{said}");
    assert_eq!(call(&tools, &run, "answer", json!({})).await, "later");
}

#[tokio::test]
async fn stream_that_never_ends_hits_the_time_limit() {
    let limits = Limits { tool_time: Duration::from_millis(300), ..Limits::default() };
    let (tools, run) = (tools("", limits).await, RunCx::new("helper"));
    let said = fails(&tools, &run, "silent", json!({})).await;
    assert!(said.starts_with("plugin `plain` timed out after"), "{said}");
    let said = fails(&tools, &run, "broken", json!({})).await;
    assert!(said.starts_with("plugin `plain` crashed: "), "{said}");
    assert_eq!(call(&tools, &run, "count", json!({"upto": 1})).await, "[0]");
}
