use std::iter;

use super::*;
use crate::component::Anatomy;

/// A component with these fields that exports one function and has one core module of `module`.
fn component(fields: &str, module: &str) -> String {
    format!(
        "(component
           {fields}
           (core module $m (func (export \"f\")) {module})
           (core instance $i (instantiate $m))
           (func $f (canon lift (core func $i \"f\")))
           (export \"f\" (func $f)))"
    )
}

fn read(text: &str) -> Result<Anatomy, ComponentError> {
    let bytes = wat::parse_str(text).unwrap_or_else(|error| panic!("{error}\n{}", &text[..text.len().min(2_000)]));
    Anatomy::read(&bytes)
}

/// Nested components each of which instantiates the one before it twice: 2 to the power of `doublings` in all.
fn doubled(doublings: usize, innermost: &str) -> String {
    let more = (1..=doublings).map(|at| {
        let before = at - 1;
        format!(
            "(component $c{at}
               (alias outer 1 $c{before} (component $inner))
               (instance (instantiate $inner)) (instance (instantiate $inner)))"
        )
    });
    let all: String = iter::once(format!("(component $c0 {innermost})")).chain(more).collect();
    format!("{all} (instance (instantiate $c{doublings}))")
}

fn nested(depth: usize, innermost: &str) -> String {
    "(component ".repeat(depth) + innermost + &")".repeat(depth)
}

fn values(count: usize) -> String {
    "i32 ".repeat(count)
}

/// A function with unreachable code, in which the stack holds any values.
fn unreachable(body: &str) -> String {
    format!("(func $g unreachable {body} unreachable)")
}

#[test]
fn component_is_accepted_up_to_each_complexity_limit() {
    const CORE: &str = "(core module $e) (core instance (instantiate $e))";
    let instances = |count: usize| format!("(core module $e) {}", "(core instance (instantiate $e))".repeat(count));
    let wide = |params: usize, results: usize| {
        format!("(type $w (func (param {}) (result {})))", values(params), values(results))
    };
    // A small function with blocks of 200 values each way would not be examined.
    let moved = |body: &str| format!("{} {}", wide(200, 56), unreachable(body));
    let blocks = |count: usize| format!("{} {}", "block (type $w) unreachable ".repeat(count), "end ".repeat(count));
    let loops = |count: usize| "loop (type $w) unreachable end unreachable ".repeat(count);
    let calls = |count: usize| "call_indirect (type $w) unreachable ".repeat(count);
    let branches = |count: usize| format!("block (type $w) unreachable br_table {} 0 end", "0 ".repeat(count));
    let elements = |count: usize| format!("(table 1 funcref) (elem func {})", "0 ".repeat(count));
    let expressions = |count: usize| format!("(table 1 funcref) (elem funcref {})", "(ref.func 0) ".repeat(count));
    let nests = |what: &str, depth: usize, locals: usize| {
        format!("(func (local {}) {} {})", values(locals), what.repeat(depth), "end ".repeat(depth))
    };
    let follow = |what: &str, count: usize, locals: usize| {
        format!("(func (local {}) {})", values(locals), format!("{what} end ").repeat(count))
    };
    for (name, fewer, more, says) in [
        (
            "modules",
            component(&"(core module)".repeat(limits::COMPONENT_MODULES - 1), ""),
            component(&"(core module)".repeat(limits::COMPONENT_MODULES), ""),
            "257 core modules, the maximum is 256",
        ),
        (
            "modules in components",
            component(&nested(2, "(core module)").repeat(100), ""),
            component(&nested(2, "(core module)").repeat(300), ""),
            "257 core modules",
        ),
        (
            "components",
            component(&"(component)".repeat(limits::COMPONENT_COMPONENTS - 1), ""),
            component(&nested(2, &"(component)".repeat(500)).repeat(2), ""),
            "1001 components, the maximum is 1000",
        ),
        (
            "depth",
            component(&nested(limits::COMPONENT_DEPTH - 1, ""), ""),
            component(&nested(limits::COMPONENT_DEPTH, ""), ""),
            "17 nested components, the maximum is 16",
        ),
        (
            "core instances",
            component(&instances(limits::PLUGIN_CORE_INSTANCES_CEILING - 1), ""),
            component(&instances(limits::PLUGIN_CORE_INSTANCES_CEILING), ""),
            "257 core instances, including those of nested components, the maximum is 256",
        ),
        (
            "multiplied core instances",
            component(&doubled(7, CORE), ""),
            component(&doubled(30, CORE), ""),
            "core instances, including those of nested components, the maximum is 256",
        ),
        (
            "multiplied instances",
            component(&doubled(10, "(instance)"), ""),
            component(&doubled(40, "(instance)"), ""),
            "instances, including those of nested components, the maximum is 4096",
        ),
        (
            "instances of what is exported",
            component(
                "(component $c (core module $e)) (export $d \"d\" (component $c)) (instance (instantiate $d))",
                "",
            ),
            component(
                &format!(
                    "(component $c {}) (export $d \"d\" (component $c)) (instance (instantiate $d))",
                    doubled(30, CORE)
                ),
                "",
            ),
            "core instances",
        ),
        (
            "structure",
            component(&format!("(type (func (param \"{}\" u8)))", "x".repeat(50_000)).repeat(80), ""),
            component(&format!("(type (func (param \"{}\" u8)))", "x".repeat(50_000)).repeat(90), ""),
            "bytes in sections other than code and data, the maximum is 4194304",
        ),
        (
            "elements",
            component("", &elements(limits::COMPONENT_ELEMENTS)),
            component("", &elements(limits::COMPONENT_ELEMENTS + 1)),
            "1000001 items in element segments, the maximum is 1000000",
        ),
        (
            "expressions of elements",
            component("", &expressions(limits::COMPONENT_ELEMENT_EXPRESSIONS)),
            component("", &expressions(limits::COMPONENT_ELEMENT_EXPRESSIONS + 1)),
            "50001 expressions in element segments, the maximum is 50000",
        ),
        (
            "nested blocks",
            component("", &nests("block ", limits::FUNCTION_BLOCK_DEPTH, 0)),
            component("", &nests("block ", limits::FUNCTION_BLOCK_DEPTH + 1, 0)),
            "10001 nested blocks in one function, the maximum is 10000",
        ),
        (
            "nested loops",
            component("", &nests("loop ", limits::FUNCTION_LOOP_DEPTH, 0)),
            component("", &nests("loop ", limits::FUNCTION_LOOP_DEPTH + 1, 0)),
            "501 nested loops in one function, the maximum is 500",
        ),
        (
            "locals in nested loops",
            component("", &nests("loop ", 131, 1_000)),
            component("", &nests("loop ", 132, 1_000)),
            "132000 nested loops times locals in one function, the maximum is 131072",
        ),
        (
            "locals of loops",
            component("", &follow("loop", 1_048, 1_000)),
            component("", &follow("loop", 1_049, 1_000)),
            "1049000 loops times locals in one function, the maximum is 1048576",
        ),
        (
            "locals of blocks",
            component("", &follow("block", 13_421, 10_000)),
            component("", &follow("block", 13_422, 10_000)),
            "134220000 blocks times locals in one function, the maximum is 134217728",
        ),
        (
            "a wide function",
            component("", &wide(limits::SIGNATURE_VALUES - 1, 1)),
            component("", &wide(limits::SIGNATURE_VALUES, 1)),
            "257 values in one function type, the maximum is 256",
        ),
        (
            "locals",
            component("", &format!("(func (param i32) (local {}))", values(limits::FUNCTION_LOCALS - 1))),
            component("", &format!("(func (param i32) (local {}))", values(limits::FUNCTION_LOCALS))),
            "10001 locals in one function, the maximum is 10000",
        ),
        (
            "values of blocks",
            component("", &moved(&blocks(500))),
            component("", &moved(&blocks(1_000))),
            "values moved by one function, the maximum is 262144",
        ),
        (
            "values of loops",
            component("", &moved(&loops(500))),
            component("", &moved(&loops(1_000))),
            "values moved by one function",
        ),
        (
            "values of calls",
            component("", &format!("(table 1 funcref) {}", moved(&calls(1_000)))),
            component("", &format!("(table 1 funcref) {}", moved(&calls(1_100)))),
            "values moved by one function",
        ),
        (
            "values of branches",
            component("", &moved(&branches(4_000))),
            component("", &moved(&branches(5_000))),
            "values moved by one function",
        ),
    ] {
        assert!(read(&fewer).is_ok(), "{name}: {:?}", read(&fewer));
        let refused = read(&more).unwrap_err().to_string();
        assert!(
            refused.starts_with("the component is too complex to compile: ") && refused.contains(says),
            "{name}: {refused}"
        );
    }
}

#[test]
fn component_with_parametric_parts_is_refused() {
    for fields in [
        "(import \"c\" (component))",
        "(component (import \"c\" (component)))",
        "(component (import \"m\" (core module)))",
        "(component $c (component $d) (export \"d\" (component $d)))
         (instance $e (instantiate $c)) (alias export $e \"d\" (component $f)) (instance (instantiate $f))",
        "(component $c (core module $d) (export \"d\" (core module $d)))
         (instance $e (instantiate $c)) (alias export $e \"d\" (core module $f)) (core instance (instantiate $f))",
    ] {
        assert_eq!(read(&component(fields, "")).unwrap_err(), ComponentError::Parametric, "{fields}");
    }
}
