//! The everyday plugins in their sandboxes: their answers, and how a call ends that asks for too much.

mod cases;

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use serde_json::{Value, json};
use shelly_host::{
    capability::{FileAccess, Grant},
    chat::ToolCall,
    event::RunCx,
    plugin::{FolderMount, Limits, Plugin, PluginEngine, PluginPackage, PluginSettings, PluginTool, resolved},
    tool::{ToolBox, ToolCx},
};

use crate::support::Place;

/// A shipped plugin, with all that it wants.
struct Shipped {
    tools: ToolBox,
    /// The folder that it reads.
    place: Place,
}

impl Shipped {
    async fn new(id: &str) -> Self {
        Self::with(id, true).await
    }

    /// With or without a folder to read.
    async fn with(id: &str, has_files: bool) -> Self {
        let package = PluginPackage::read(&Path::new(crate::PLUGIN_ROOT).join(id)).unwrap();
        let place = Place::new();
        let folder = resolved(&place.path());
        let mut grant = Grant::all_of(&package.manifest.wants, folder.clone());
        if !has_files {
            grant.files = Default::default();
        }
        let mounts = grant.files.iter().map(|(path, _)| FolderMount { path: path.into(), name: ".".into() }).collect();
        assert!(grant.files.iter().all(|(_, access)| access == FileAccess::Read), "they only read");
        // What goes on for ever is given up soon.
        let limits = Limits { tool_time: Duration::from_secs(5), ..Limits::default() };
        let settings = PluginSettings {
            grant,
            mounts,
            limits,
            ..PluginSettings::new("helper", format!("agents.helper.plugins.{id}"))
        };
        let plugin = Arc::new(Plugin::load(engine(), &Arc::new(package), &settings).await.unwrap());
        let mut tools = ToolBox::new();
        PluginTool::all(&plugin).for_each(|tool| tools.register(tool).unwrap());
        Self { tools, place }
    }

    async fn call(&self, name: &str, arguments: Value) -> Result<String, String> {
        let run = RunCx::new("helper");
        let cx = ToolCx::new(run);
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.to_string(), meta: vec![] };
        let result = self.tools.dispatch(&cx, &call).await.result;
        match result.is_error {
            true => Err(result.text()),
            false => Ok(result.text()),
        }
    }

    /// The answer, which is there.
    async fn says(&self, name: &str, arguments: Value) -> String {
        let shown = arguments.to_string();
        self.call(name, arguments).await.unwrap_or_else(|error| panic!("{name} {shown}: {error}"))
    }

    async fn says_json(&self, name: &str, arguments: Value) -> Value {
        serde_json::from_str(&self.says(name, arguments).await).unwrap()
    }

    /// Asserts that the call fails with this message, and that the next call works.
    async fn fails(&self, name: &str, arguments: Value, says: &str) {
        let shown: String = arguments.to_string().chars().take(80).collect();
        let told = self.call(name, arguments).await.expect_err(&shown);
        assert!(told.contains(says), "{name} {shown}: {told}");
    }
}

fn engine() -> &'static Arc<PluginEngine> {
    static ENGINE: OnceLock<Arc<PluginEngine>> = OnceLock::new();
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
    ENGINE.get_or_init(|| Arc::new(PluginEngine::new(Some(cache)).unwrap()))
}

pub async fn calculator() {
    let guest = Shipped::new("calculator").await;
    let says = async |expression: &str| guest.says("calculate", json!({ "expression": expression })).await;
    assert_eq!(says("2^100").await, "1267650600228229401496703205376");
    assert_eq!(says("5 feet 3 inches to cm").await, "160.02 cm");
    assert_eq!(says(&["1"; 250].join("+")).await, "250", "as many as are taken");
    let nested = format!("{}1{}", "(".repeat(64), ")".repeat(64));
    assert_eq!(says(&nested).await, "1", "as deep as is taken");
    for (expression, says) in [
        ("9^9^9^9".to_owned(), "takes too long"),
        ("(".repeat(4_000), "nested brackets"),
        ("-".repeat(4_000), "numbers, names and signs"),
        (["2"; 250].join("^"), ""),
    ] {
        guest.fails("calculate", json!({ "expression": expression }), says).await;
    }
    assert_eq!(says("1 + 1").await, "2");
}

pub async fn date_time() {
    let guest = Shipped::new("date-time").await;
    let now = guest.says_json("time_now", json!({"zone": "Asia/Tokyo"})).await;
    let seconds = now["unix_seconds"].as_u64().unwrap();
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(here.abs_diff(seconds) < 60 && now["time"].as_str().unwrap().ends_with("+09:00[Asia/Tokyo]"), "{now}");
    let converted =
        guest.says_json("time_convert", json!({"time": "2026-07-01T09:00", "from": "America/New_York", "to": "UTC"}));
    assert_eq!(converted.await["time"], "2026-07-01T13:00:00+00:00[UTC]");
    let added = guest.says_json("time_add", json!({"time": "2026-01-31", "duration": "1 month"})).await;
    assert_eq!((&added["time"], &added["weekday"]), (&json!("2026-02-28T00:00:00+00:00[UTC]"), &json!("Saturday")));
    let between =
        guest.says_json("time_difference", json!({"from": "2026-01-01", "to": "2026-03-01", "largest_unit": "days"}));
    assert_eq!(between.await["days"], 59);
    assert_eq!(guest.says("time_format", json!({"time": "@0", "format": "%Y/%m/%d"})).await, "1970/01/01");
    let parsed = guest.says_json("time_parse", json!({"text": "01.03.2026", "format": "%d.%m.%Y"})).await;
    assert_eq!(parsed["weekday"], "Sunday");
    guest.fails("time_convert", json!({"time": "now", "to": "Nowhere"}), "unknown time zone `Nowhere`").await;
    guest.fails("time_add", json!({"time": "now", "duration": "9".repeat(100_000)}), "`duration`").await;
    guest.fails("time_format", json!({"time": "now", "format": "%999999999Y"}), "more than 4 digits").await;
}

pub async fn json_query() {
    let guest = Shipped::new("json-query").await;
    guest.place.file("data/goods.yaml", "goods:\n  - {name: pen, price: 2}\n  - {name: bag, price: 30}\n");
    let args = json!({"path": "data/goods.yaml", "filter": ".goods[] | select(.price > 10) | .name", "output": "raw"});
    assert_eq!(guest.says("json_query", args).await, "bag\n");
    let text = |filter: &str| json!({"text": "null", "filter": filter});
    for (filter, says) in [
        ("range(1e9)", "narrow the filter"),
        ("def f: f; f", "timed out after 5 s"),
        ("last(range(1e12))", "timed out after 5 s"),
        ("[range(1e9)]", "of memory"),
        ("def f: 1 + f; f", ""),
        ("[limit(3000000; repeat(\"(\"))] | add | test(.)", ""),
        ("(\"a\" * 30) | test(\"(a*)*(a*)*(a*)*b\")", "narrow"),
    ] {
        // The last one is quick: the engine of regular expressions takes no more time for such patterns.
        match says {
            "narrow" => assert_eq!(guest.says("json_query", text(filter)).await, "false\n"),
            says => guest.fails("json_query", text(filter), says).await,
        }
    }
    let deep = json!({"text": "[".repeat(500_000), "filter": "."});
    guest.fails("json_query", deep, "more than 200 nested lists").await;
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for format in ["json", "yaml"] {
        let args = json!({"text": deep, "filter": "[..] | length", "format": format});
        assert_eq!(guest.says("json_query", args).await, "200\n", "as deep as is taken");
    }
    // Each list is ten of the one before: ten to the ninth when it is written.
    let laughs: String =
        (1..10).map(|n| format!("a{n}: &a{n} [{}]\n", vec![format!("*a{}", n - 1); 10].join(","))).collect();
    let args = json!({"text": format!("a0: &a0 ha\n{laughs}"), "filter": ".a9", "format": "yaml"});
    guest.fails("json_query", args, "narrow the filter").await;
    // It can do without files, and then finds none.
    let guest = Shipped::with("json-query", false).await;
    assert_eq!(guest.says("json_query", json!({"text": "{\"a\": [1, 2]}", "filter": ".a | add"})).await, "3\n");
    guest.fails("json_query", json!({"path": "a.json", "filter": "."}), "no folder was granted").await;
}

pub async fn encode() {
    let guest = Shipped::new("encode").await;
    guest.place.file("large.bin", vec![b'a'; 3 << 20]);
    let hashed = guest.says_json("hash", json!({"path": "large.bin"})).await;
    assert_eq!(hashed["bytes"], 3 << 20);
    assert_eq!(hashed["hex"], "6f850bc94ae6f7de14297c01616c36d712d22864497b28a63b81d776b035e656");
    let of_text = guest.says_json("hash", json!({"text": "abc", "algorithm": "blake3"})).await;
    assert_eq!(of_text["hex"], "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85");
    assert_eq!(guest.says("encode", json!({"text": "ü", "encoding": "base64"})).await, "w7w=");
    assert_eq!(guest.says("decode", json!({"text": "%C3%BC", "encoding": "percent"})).await, "ü");
    guest.fails("decode", json!({"text": "!", "encoding": "hex"}), "at byte 0").await;
    let guest = Shipped::with("encode", false).await;
    assert_eq!(guest.says("encode", json!({"text": "a", "encoding": "hex"})).await, "61");
    guest.fails("hash", json!({"path": "large.bin"}), "no folder was granted").await;
}

pub async fn ids() {
    let guest = Shipped::new("ids").await;
    let made = guest.says("uuid", json!({"count": 800})).await;
    let mut ids: Vec<_> = made.lines().collect();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == 800 && ids.iter().all(|id| id.len() == 36 && &id[14..15] == "4"), "{made}");
    let ordered = guest.says("uuid", json!({"version": 7})).await;
    let millis = u64::from_str_radix(&ordered.replace('-', "")[..12], 16).unwrap();
    let here = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_millis() as u64;
    assert!(here.abs_diff(millis) < 60_000, "{ordered}");
    guest.fails("uuid", json!({"count": 1001}), "use 1 to 1000").await;
}

pub async fn compare() {
    let guest = Shipped::new("compare").await;
    let patch = guest.says("text_diff", json!({"a": "one\ntwo\n", "b": "one\n2\n"})).await;
    assert!(patch.contains("-two\n+2\n"), "{patch}");
    assert_eq!(guest.says("apply_patch", json!({"text": "one\ntwo\n", "patch": patch})).await, "one\n2\n");
    let merged =
        guest.says_json("text_merge", json!({"base": "a\nb\nc\n", "ours": "A\nb\nc\n", "theirs": "a\nb\nC\n"})).await;
    assert_eq!(merged, json!({"conflicts": 0, "text": "A\nb\nC\n"}));
    guest.fails("apply_patch", json!({"text": "other\n", "patch": patch}), "#1 of 1").await;
    guest.fails("text_diff", json!({"a": "", "b": "\n".repeat(20_001)}), "20001 lines").await;
    // The most that differs: it ends, in time or with what it came to.
    let (a, b): (Vec<_>, Vec<_>) = (0..20_000).map(|n| (format!("{n}"), format!("{}", n * 7_919 % 20_000))).unzip();
    if let Err(told) = guest.call("text_diff", json!({"a": a.join("\n"), "b": b.join("\n")})).await {
        assert!(told.contains("timed out after 5 s"), "{told}");
    }
    assert!(guest.says("text_diff", json!({"a": "x", "b": "x"})).await.contains("identical"));
}

pub async fn convert() {
    let guest = Shipped::new("convert").await;
    let html = guest.says("markdown_to_html", json!({"markdown": "# A\n\n|a|\n|-|\n|1|"})).await;
    assert!(html.starts_with("<h1>A</h1>") && html.contains("<td>1</td>"), "{html}");
    assert_eq!(guest.says("html_to_markdown", json!({ "html": html })).await.lines().next(), Some("# A"));
    assert_eq!(guest.says("html_to_text", json!({"html": "<p>a <a href=x>b</a><script>c</script>"})).await, "a b");
    // As deep as is taken.
    assert_eq!(guest.says("html_to_text", json!({"html": format!("{}x", "<div>".repeat(250))})).await, "x");
    assert!(
        guest.says("html_to_markdown", json!({"html": format!("{}x", "<ul><li>".repeat(120))})).await.contains('x')
    );
    for html in ["<div>".repeat(5_000), "<b>".repeat(5_000)] {
        guest.fails("html_to_markdown", json!({ "html": html }), "nested elements").await;
    }
    for markdown in ["> ".repeat(100_000), "[".repeat(200_000), "*a_ ".repeat(100_000), "- ".repeat(100_000)] {
        assert!(!guest.says("markdown_to_html", json!({ "markdown": markdown })).await.is_empty());
    }
}

pub async fn tables() {
    let guest = Shipped::new("tables").await;
    let rows: String = (0..7_000).map(|n| format!("{n},{},{}\n", n % 7, n * 2)).collect();
    guest.place.file("data/t.csv", format!("id,kind,price\n{rows}"));
    guest.place.file("data/kinds.jsonl", "{\"kind\": 3, \"name\": \"three\"}\n");
    let conditions = json!([{"column": "kind", "op": "=", "value": "3"}]);
    let read = guest.says_json("csv_read", json!({"path": "data/t.csv", "where": conditions, "limit": 1})).await;
    assert_eq!((&read["rows"], &read["fitting_rows"]), (&json!([["3", "3", "6"]]), &json!(1_000)));
    let tables = json!([{"name": "t", "path": "data/t.csv"}, {"name": "kinds", "path": "data/kinds.jsonl"}]);
    let ask = |query: &str| json!({"query": query, "tables": tables});
    let joined = ask("SELECT k.name, count(*), sum(price) FROM t JOIN kinds k ON k.kind = t.kind GROUP BY 1");
    assert_eq!(guest.says_json("sql_query", joined).await["rows"], json!([["three", 1_000, 6_999_000]]));
    guest.fails("sql_query", ask("DROP TABLE t"), "only SELECT").await;
    guest.fails("sql_query", ask("SELECT 1 FROM absent"), "no such table").await;
    guest.fails("csv_read", json!({"path": "../t.csv"}), "").await;
    let small = |query: &str| json!({"query": query, "tables": [{"name": "kinds", "path": "data/kinds.jsonl"}]});
    for (query, says) in [
        ("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n".to_owned(), ""),
        ("SELECT hex(zeroblob(1000000000))".to_owned(), ""),
        (format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000)), "100 nested brackets"),
        (format!("SELECT {}", vec!["1"; 8_000].join("-")), ""),
        (format!("SELECT {} 1", "not ".repeat(3_000)), ""),
        ("SELECT load_extension('x')".to_owned(), "`query`"),
        ("SELECT readfile('/etc/passwd')".to_owned(), "`query`"),
    ] {
        guest.fails("sql_query", small(&query), says).await;
    }
    // A file as `sqlite3` writes it.
    guest.place.file("data/real.db", include_bytes!("everyday/sqlite.db"));
    let of_file = |query: &str| json!({"query": query, "database": "data/real.db"});
    let asked = guest.says_json(
        "sql_query",
        of_file("SELECT city, total(amount) FROM sales JOIN cities USING (city_id) GROUP BY city ORDER BY 1"),
    );
    assert_eq!(asked.await["rows"], json!([["Bern", 30.0], ["Köln", 12.5]]));
    guest.fails("sql_query", of_file("DELETE FROM sales"), "only SELECT").await;
    guest
        .fails("sql_query", json!({"query": "SELECT 1", "database": "data/t.csv"}), "not a readable SQLite database")
        .await;
    assert_eq!(guest.says_json("sql_query", small("SELECT name FROM kinds")).await["rows"], json!([["three"]]));
}

#[test]
fn everyday_toolbox_has_every_tool_and_reads_project_files() {
    let place = Place::new();
    place.file("data.json", "{\"a\": 7}");
    let call = |tool: &str, arguments: &str| {
        place.file(
            "shelly.yaml",
            format!(
                "providers: [{{name: p, kind: plugin, plugin: probe-hooks, \
                 params: {{provider: tool-call, tool: {tool}, arguments: {arguments}}}}}]\n\
                 agents: [{{name: a, toolboxes: [everyday]}}]\n"
            ),
        );
        place.run(&["run", "--plugins", crate::PLUGIN_ROOT, "--plugins", crate::GUEST_ROOT, "hello"])
    };
    for (tool, arguments) in [
        ("json_query", "{path: data.json, filter: .a}"),
        ("sql_query", "{query: SELECT a FROM t, tables: [{name: t, path: data.json}]}"),
        ("hash", "{path: data.json}"),
        ("time_now", "{}"),
        ("calculate", "{expression: 1 + 1}"),
        ("encode", "{text: a, encoding: hex}"),
        ("text_diff", "{a: x, b: y}"),
        ("html_to_text", "{html: x}"),
    ] {
        let ran = call(tool, arguments);
        assert!(ran.code == 0 && ran.stderr.contains(&format!("{tool} done")), "{tool}: {}", ran.shown());
    }
    let ran = call("json_query", "{path: ../data.json, filter: .a}");
    assert!(ran.stderr.contains("json_query failed"), "{}", ran.shown());
}
