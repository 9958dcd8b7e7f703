//! Guests that only tests use: they do what the tests assume.

use super::*;

macro_rules! assert_test_exists {
    ($name:ident) => {
        #[expect(unused_imports, reason = "that it is there is the check")]
        use self::$name as _;
    };
}
foreach_guest!(assert_test_exists);

fn run(config: &str) -> Ran {
    let place = Place::new();
    place.file("shelly.yaml", config);
    place.run(&["run", "--plugins", crate::GUEST_ROOT, "hello"])
}

#[tokio::test]
async fn probe_http() {
    crate::egress::fetches("probe-http").await;
}

#[tokio::test]
async fn probe_wasi_http() {
    crate::egress::fetches("probe-wasi-http").await;
}

#[tokio::test]
async fn probe_team() {
    crate::teams::probe_team().await;
}

#[test]
fn plain_types() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call, tool: greet, arguments: {name: Ada}}}]\n\
         agents: [{name: a, plugins: {plain-types: }}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("greet done"), "{}", ran.shown());
}

#[test]
fn plain_counters() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call, tool: many, arguments: {count: 3}}}]\n\
         agents: [{name: a, plugins: {plain-counters: }}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("many done"), "{}", ran.shown());
}

#[test]
fn probe_wasi() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call, tool: print, arguments: {text: heard, times: 3}}}]\n\
         agents: [{name: a, plugins: {probe-wasi: }}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("print done"), "{}", ran.shown());
    assert!(ran.stderr.contains("heard") && !ran.stdout.contains("heard"), "{}", ran.shown());
}

#[test]
fn probe() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call, tool: echo, arguments: {text: pong}}}]\n\
         agents: [{name: a, plugins: {probe: {files: [{path: .}], clock: true, random: true}}}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("echo done"), "{}", ran.shown());
}

#[test]
fn probe_hooks() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks}]\n\
         agents: [{name: a, plugins: {probe-hooks: {params: {effect: note, middleware: replace, text: done}, \
         powers: [note]}}}]\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.shown());
    assert!(ran.stderr.contains("probe-hooks edits the chat: note"), "{}", ran.shown());
}

#[test]
fn probe_changes() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, params: {provider: tool-call, \
         tool: propose, arguments: {changes: [{path: new.txt, write: new}]}}}]\n\
         agents: [{name: a, plugins: {probe-changes: {files: [{path: ., as: .}], powers: [propose-files], \
         changes: apply}}}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("create new.txt +1 -0"), "{}", ran.shown());
}

#[test]
fn probe_kv() {
    let ran = run("providers: [{name: p, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call, tool: kv_put, arguments: {key: k, value: v}}}]\n\
         agents: [{name: a, plugins: {probe-kv: {kv: run}}}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("kv_put done"), "{}", ran.shown());
}

#[test]
fn probe_process() {
    let ran = run("programs: {greet: {command: /bin/echo, args: [[hello]]}}\n\
         providers: [{name: p, kind: plugin, plugin: probe-hooks, \
         params: {provider: tool-call, tool: run_program, arguments: {program: greet, args: [hello]}}}]\n\
         agents: [{name: a, plugins: {probe-process: {programs: [greet]}}}]\n");
    assert!(ran.code == 0 && ran.stderr.contains("run_program done"), "{}", ran.shown());
}

#[test]
fn probe_mcp() {
    let calls = |tool: &str, params: &str| {
        let ran = run(&format!(
            "providers: [{{name: p, kind: plugin, plugin: probe-hooks, params: {{provider: tool-call, tool: {tool}}}}}]\n\
             agents: [{{name: a, plugins: {{probe-mcp: {{clock: true, {params}}}}}}}]\n"
        ));
        assert!(ran.code == 0, "{}", ran.shown());
        ran.stderr
    };
    assert!(calls("test_multiple_content_types", "").contains("test_multiple_content_types done"));
    assert!(calls("test_error_handling", "").contains("test_error_handling failed"));
    assert!(calls("test_elicitation", "params: {tools: [test_elicitation]}").contains("test_elicitation done"));
}
