//! The command `shelly-host mcp`: the program as a server with real plugins, for our own client and for others.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Stdio},
    sync::Arc,
};

use serde_json::{Value, json};
use shelly_host::{
    chat::ToolCall,
    event::RunCx,
    mcp::{McpClient, McpClientFeatures, McpStdioTarget, McpTarget, Pins, ServerConfig},
    net::Secret,
    tool::{ToolBox, ToolCx},
};

use crate::{
    bad_input::{FOUR, Server, answer},
    support::Place,
};

/// The program, and a client that speaks to it line by line. Whatever it writes to standard output must be a message.
pub struct Served {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    told: Vec<Value>,
    last: u64,
}

impl Served {
    fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut command = place.command(&[&["mcp"], arguments].concat());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, stdin, stdout, told: Vec::new(), last: 0 }
    }

    /// With a client that can do this.
    pub fn greeted(place: &Place, arguments: &[&str], capabilities: Value) -> Self {
        let mut served = Self::start(place, arguments);
        let us = json!({"name": "client", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": us});
        let greeting = served.ask("initialize", params);
        assert_eq!(greeting["result"]["serverInfo"]["name"], "shelly-host", "{greeting}");
        served.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        served
    }

    pub fn say(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().unwrap(), "{message}").unwrap();
    }

    fn next(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.stdout.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert_eq!(message["jsonrpc"], "2.0", "{message}");
        Some(message)
    }

    pub fn begin(&mut self, method: &str, params: Value) -> u64 {
        self.last += 1;
        self.say(&json!({"jsonrpc": "2.0", "id": self.last, "method": method, "params": params}));
        self.last
    }

    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let Some(message) = self.next() else { panic!("it has ended: {}", self.rest().1) };
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
            self.told.push(message);
        }
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.answer(id)
    }

    pub fn call(&mut self, name: &str, arguments: Value) -> Value {
        let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "p"}});
        let answer = self.ask("tools/call", params);
        answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone()
    }

    pub fn tools(&mut self) -> Vec<String> {
        let list = self.ask("tools/list", json!({}));
        let tools = list["result"]["tools"].as_array().unwrap();
        tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// Waits for a message of this method.
    pub fn told_of(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.told.iter().position(|told| told["method"] == method) {
                return self.told.remove(at);
            }
            let message = self.next().unwrap();
            self.told.push(message);
        }
    }

    /// Hangs up. The exit code, and what was said on standard error.
    pub fn end(mut self) -> (i32, String) {
        drop(self.stdin.take());
        while self.next().is_some() {}
        self.rest()
    }

    fn rest(&mut self) -> (i32, String) {
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (self.child.wait().unwrap().code().unwrap_or(-1), said)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Copies a plugin that comes with the host into a place.
fn lend(place: &Place, id: &str) {
    let from = Path::new(crate::PLUGIN_ROOT).join(id);
    let to = place.path().join("plugins").join(id);
    fs::create_dir_all(&to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), to.join(file.file_name())).unwrap();
    }
}

#[tokio::test]
async fn own_mcp_client_can_use_the_served_program() {
    let place = Place::new();
    lend(&place, "count-text");
    let command = place.command(&["mcp", "--plugins", "plugins"]);
    let environment =
        command.get_envs().filter_map(|(name, value)| Some((name.to_str()?.to_owned(), Secret::new(value?.to_str()?))));
    let program = McpStdioTarget {
        program: command.get_program().to_str().unwrap().into(),
        arguments: command.get_args().map(|argument| argument.to_str().unwrap().into()).collect(),
        environment: environment.collect(),
        folder: place.path(),
    };
    let client =
        McpClient::connect(ServerConfig::new("own", McpTarget::Program(program)), McpClientFeatures::default())
            .await
            .unwrap();
    let names = |client: &Arc<McpClient>| {
        let mut names: Vec<_> = client.listing().tools.iter().map(|tool| tool.name.clone()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&client), ["count_text", "longest_lines"]);
    let mut tools = ToolBox::new();
    client.offer(&Pins::of(&client.listing())).tools.into_iter().for_each(|tool| tools.register(tool).unwrap());
    let cx = ToolCx::new(RunCx::new("ada"));
    let arguments = r#"{"text": "one two three"}"#.to_owned();
    let call = ToolCall { id: "c".into(), name: "own__count_text".into(), arguments, meta: vec![] };
    let counted = tools.dispatch(&cx, &call).await.result;
    assert!(!counted.is_error && counted.text().contains(r#""words":3"#), "{}", counted.text());

    // What appears, and what goes, is told.
    let mut changes = client.changes();
    changes.mark_unchanged();
    fs::remove_dir_all(place.path().join("plugins/count-text")).unwrap();
    changes.changed().await.unwrap();
    assert_eq!(names(&client), [] as [&str; 0]);
    let gone = tools.dispatch(&cx, &call).await.result;
    assert!(gone.is_error, "{}", gone.text());
    lend(&place, "count-text");
    changes.changed().await.unwrap();
    assert_eq!(names(&client), ["count_text", "longest_lines"]);
    client.close().await;
}

/// A config with an agent that counts, on a model that is no model.
const HELPER: &str = "providers: [{name: offline, kind: plugin, plugin: offline-model}]\n\
                      agents: [{name: helper, description: Counts., plugins: {count-text: }}]\n";

#[test]
fn cancelled_mcp_call_stops_the_guest() {
    let place = Place::new();
    // While it works no other call of it gets a place.
    place.file(
        "shelly.yaml",
        "agents: [{name: a, plugins: {probe: {clock: true, random: true, files: [{path: ., mode: read}], limits: {concurrency: 1, time: 50s, cpu: 50s}}}}]\n",
    );
    let mut served = Served::greeted(&place, &["--config", "shelly.yaml", "--plugins", crate::GUEST_ROOT], json!({}));
    assert_eq!(served.call("echo", json!({"text": "a"}))["content"][0]["text"], "a");
    let spins = served.begin("tools/call", json!({"name": "spin", "arguments": {}}));
    let waits = served.begin("tools/call", json!({"name": "echo", "arguments": {"text": "b"}}));
    served.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": spins}}));
    assert_eq!(served.answer(waits)["result"]["content"][0]["text"], "b");
    // What a guest does wrong is a result, and the next call is served.
    let crashed = served.call("panic", json!({}));
    assert_eq!(crashed["isError"], true, "{crashed}");
    let wrong = served.call("echo", json!({"txt": 1}));
    assert_eq!(wrong["isError"], true, "{wrong}");
    let progress = served.call("progress", json!({"n": 3}));
    assert_eq!(progress["isError"], false, "{progress}");
    assert_eq!(served.told_of("notifications/progress")["params"]["progressToken"], "p");
    // Who hangs up takes the guest along, and the program ends in good manners.
    served.begin("tools/call", json!({"name": "spin", "arguments": {}}));
    let (code, said) = served.end();
    assert_eq!(code, 0, "{said}");
}

#[test]
fn new_skill_is_served_only_after_trust() {
    let place = Place::untrusted();
    place.file("shelly.yaml", format!("{HELPER}entry_agent: helper\n"));
    let skill = |name: &str| {
        let text = format!("---\nname: {name}\ndescription: When.\n---\nSo.\n");
        place.file(&format!(".shelly/skills/{name}/SKILL.md"), text);
    };
    skill("flight");
    let with = ["--config", "shelly.yaml", "--plugins", crate::PLUGIN_ROOT, "--agent", "helper", "--model", "offline"];
    let mut served = Served::greeted(&place, &with, json!({}));
    let prompts = |served: &mut Served| {
        let listed = served.ask("prompts/list", json!({}));
        let names = listed["result"]["prompts"].as_array().unwrap().iter().map(|prompt| prompt["name"].to_string());
        names.collect::<Vec<_>>()
    };
    assert_eq!(prompts(&mut served), ["\"flight\""]);
    skill("song");
    skill("dance");
    let trust = ["config", "trust", "--config", "shelly.yaml", "--plugins", crate::PLUGIN_ROOT];
    let ran = place.run(&trust);
    assert!(ran.code == 2 && ran.stdout.contains("`.shelly/skills/song/SKILL.md`"), "{}", ran.shown());
    assert_eq!(prompts(&mut served), ["\"flight\""]);
    let ran = place.run(&[&trust[..], &["--yes"]].concat());
    assert_eq!(ran.code, 0, "{}", ran.shown());
    served.told_of("notifications/prompts/list_changed");
    assert_eq!(prompts(&mut served), ["\"dance\"", "\"flight\"", "\"song\""]);
    assert_eq!(served.end().0, 0);
}

/// A client gets no credential that the journal does not have either.
#[test]
fn api_key_printed_by_a_model_reaches_no_mcp_client() {
    let key = "sk-never-shown-42";
    let server = Server::start(move |_| answer("200 OK", &FOUR.replace("Four.", &format!("The word is {key}."))));
    let place = Place::new();
    place.file("shelly.yaml", server.config(&format!("api_key: '{key}'")));
    let mut served = Served::greeted(&place, &["--config", "shelly.yaml"], json!({}));
    let answered = served.call("agent_helper", json!({"task": "What is the word?"}));
    let text = answered["content"][0]["text"].as_str().unwrap();
    assert_eq!(text, "The word is [secret providers.local.api_key].", "{answered}");
    let (code, said) = served.end();
    assert!(code == 0 && !said.contains(key), "{said}");
}

#[test]
fn agents_skills_and_attachments_are_served() {
    let place = Place::new();
    let long = "Count every word. ".repeat(200);
    place.file(
        "shelly.yaml",
        format!("{HELPER}entry_agent: helper\n").replace("Counts.", &format!("Counts., instructions: '{long}'")),
    );
    place.file(".shelly/skills/flight/SKILL.md", "---\nname: flight\ndescription: When to fly.\n---\nFlap.\n");
    let with = ["--config", "shelly.yaml", "--plugins", crate::PLUGIN_ROOT, "--agent", "helper", "--trust"];
    let mut served = Served::greeted(&place, &[&with[..], &["--model", "offline"]].concat(), json!({}));
    assert_eq!(served.tools(), ["count_text", "longest_lines", "load_skill", "agent_helper"]);
    let none = served.ask("resources/list", json!({}));
    assert_eq!(none["result"]["resources"], json!([]));
    let task = json!({"task": "How many words are in \"one two three\"?", "context": "It is a text."});
    let answered = served.call("agent_helper", task.clone());
    assert!(
        answered["isError"] == false && answered["content"][0]["text"].as_str().unwrap().contains('3'),
        "{answered}"
    );
    let told: Vec<_> = served.told.iter().filter_map(|told| told["params"]["message"].as_str()).collect();
    assert!(told.contains(&"helper: turn 1") && told.contains(&"helper calls count_text"), "{told:?}");
    let wrong = served.call("agent_helper", json!({"task": " "}));
    assert_eq!(
        (&wrong["isError"], &wrong["content"][0]["text"]),
        (&json!(true), &json!("the task is empty; describe what to do in `task`"))
    );

    let prompts = served.ask("prompts/get", json!({"name": "flight", "arguments": {"task": "Fly."}}));
    let text = prompts["result"]["messages"][0]["content"]["text"].as_str().unwrap();
    assert!(text.starts_with("Flap.") && text.contains(".shelly/skills/flight"), "{prompts}");
    place.file(".shelly/skills/song/SKILL.md", "---\nname: song\ndescription: When to sing.\n---\nTweet.\n");
    served.told_of("notifications/prompts/list_changed");
    let prompts = served.ask("prompts/list", json!({}));
    assert_eq!(prompts["result"]["prompts"].as_array().unwrap().len(), 2);

    let listed = served.ask("resources/list", json!({}));
    let resources = listed["result"]["resources"].as_array().unwrap();
    let uris: Vec<_> = resources.iter().map(|resource| resource["uri"].clone()).collect();
    let texts: Vec<_> = uris.iter().map(|uri| served.ask("resources/read", json!({"uri": uri}))).collect();
    let said =
        |read: &Value| read["result"]["contents"][0]["text"].as_str().is_some_and(|text| text.contains(&long[..100]));
    assert!(texts.iter().any(said), "{listed} {texts:?}");
    assert_eq!(served.end().0, 0);
    let sessions = || {
        let listed = place.run(&["session", "list", "--output", "json"]);
        serde_json::from_str::<Value>(&listed.stdout).unwrap()["sessions"].as_array().unwrap().len()
    };
    assert_eq!(sessions(), 1, "it was written down");

    // A session that somebody else has made is not shown.
    let marks = fs::read_dir(place.path().join(".shelly/local/sessions")).unwrap();
    let marks = marks.map(|session| session.unwrap().path().join("mark")).filter(|mark| mark.exists());
    assert_eq!(marks.map(|mark| fs::remove_file(mark).unwrap()).count(), 1);
    let mut served = Served::greeted(&place, &[&with[..], &["--no-session"]].concat(), json!({}));
    assert_eq!(served.ask("resources/list", json!({}))["result"]["resources"], json!([]));
    let read = served.ask("resources/read", json!({"uri": uris[0]}));
    assert_eq!(read["error"]["code"], -32002, "{read}");
    assert_eq!(served.call("agent_helper", task)["isError"], false);
    assert_eq!(served.end().0, 0);
    assert_eq!(sessions(), 1, "nothing was written down");
}

#[test]
fn mcp_call_is_approved_by_the_client_or_a_flag() {
    let place = Place::new();
    place.file("shelly.yaml", "agents: [{name: a, plugins: {count-text: {confirm: true}}}]\n");
    let with = ["--config", "shelly.yaml", "--plugins", crate::PLUGIN_ROOT];
    let text = json!({"text": "a b"});
    for (more, is_allowed) in [
        (&[][..], false),
        (&["--approve", "never"], false),
        (&["--approve", "granted"], false),
        (&["--approve", "all"], true),
    ] {
        let mut served = Served::greeted(&place, &[&with[..], more].concat(), json!({}));
        let result = served.call("count_text", text.clone());
        assert_eq!(result["isError"], !is_allowed, "{more:?}: {result}");
        let (code, said) = served.end();
        assert!(code == 0 && said.contains("count_text"), "{said}");
    }
    let mut served = Served::greeted(&place, &with, json!({"elicitation": {}}));
    for (answer, is_allowed) in [
        (json!({"action": "accept", "content": {"answer": "yes"}}), true),
        (json!({"action": "accept", "content": {"answer": "no"}}), false),
        (json!({"action": "decline"}), false),
        (json!({"action": "accept", "content": {"answer": "trust"}}), true),
    ] {
        let id = served.begin("tools/call", json!({"name": "count_text", "arguments": text}));
        let asked = served.told_of("elicitation/create");
        let message = asked["params"]["message"].as_str().unwrap();
        assert!(message.contains("call the tool `count_text` of `count-text`") && message.contains("a b"), "{message}");
        served.say(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": answer}));
        let result = served.answer(id);
        assert_eq!(result["result"]["isError"], !is_allowed, "{answer}: {result}");
    }
    // What is trusted is not asked about again.
    assert_eq!(served.call("count_text", text)["isError"], false);
    assert!(served.told.iter().all(|told| told["method"] != "elicitation/create"));
}

#[test]
fn untrusted_project_is_not_served() {
    let place = Place::untrusted();
    lend(&place, "count-text");
    place.file("shelly.yaml", "plugin_dirs: [plugins]\nagents: [{name: a, plugins: {count-text: }}]\n");
    let refused = place.run(&["mcp"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.shown());
    assert!(refused.stderr.contains("shelly-host config trust"), "{}", refused.shown());
    let mut served = Served::greeted(&place, &["--trust"], json!({}));
    assert_eq!(served.tools(), ["count_text", "longest_lines"]);
    drop(served);
    assert_eq!(place.run(&["config", "trust", "--yes"]).code, 0);
    let mut served = Served::greeted(&place, &[], json!({}));
    assert_eq!(served.tools(), ["count_text", "longest_lines"]);
    // Another component is another plugin, and nobody has said yes to it.
    let mut component = fs::read(place.path().join("plugins/count-text/count_text.wasm")).unwrap_or_default();
    component.extend_from_slice(&[0, 2, 1, b'x']);
    place.file("plugins/count-text/count_text.wasm", component);
    std::thread::sleep(4 * shelly_host::limits::MCP_SERVE_LOOK);
    assert_eq!(served.call("count_text", json!({"text": "a"}))["isError"], false, "what was trusted goes on");
    let (code, said) = served.end();
    assert!(code == 0 && said.contains("the changes are not served: the files of this project have changed"), "{said}");
}

/// Returns the server's answer to one request.
fn post(address: &str, headers: &str, body: &Value) -> String {
    let body = body.to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nconnection: close\r\ncontent-type: application/json\r\n\
                accept: application/json, text/event-stream\r\n";
    write!(stream, "{head}content-length: {}\r\n{headers}\r\n{body}", body.len()).unwrap();
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn mcp_over_http_requires_the_token() {
    let place = Place::new();
    lend(&place, "count-text");
    let plugins = ["--plugins", "plugins"];
    for (more, says) in [
        (&["--http", "0.0.0.0:0"][..], "others can reach"),
        (
            &["--http", "0.0.0.0:0", "--token-env", "NO_SUCH"],
            "the environment variable `NO_SUCH`, which --token-env names, is not set",
        ),
        (&["--http", "127.0.0.1:0", "--allow-host", "a b"], "invalid host name `a b`"),
        (&["--http", "127.0.0.1:0", "--allow-origin", "example.com"], "invalid origin `example.com`"),
        (&["--http", "8321"], "write it as 127.0.0.1:8321, or :8321 for short"),
        (&["--token-env", "X"], "--http"),
    ] {
        let ran = place.run(&[&["mcp"], &plugins[..], more].concat());
        assert!(ran.code == 2 && ran.stdout.is_empty() && ran.stderr.contains(says), "{}", ran.shown());
    }
    let token = "0123456789abcdef";
    let more = [
        "--http",
        "0.0.0.0:0",
        "--token-env",
        "THE_TOKEN",
        "--allow-host",
        "tools.example",
        "--allow-origin",
        "https://app.example",
        "--verbose",
    ];
    let mut command = place.command(&[&["mcp"], &plugins[..], &more].concat());
    let mut child = command.env("THE_TOKEN", token).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stderr = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    stderr.read_line(&mut line).unwrap();
    let address = line.strip_prefix("serving at http://").and_then(|rest| rest.strip_suffix("/mcp\n"));
    let address = address.unwrap_or_else(|| panic!("{line}")).replace("0.0.0.0", "127.0.0.1");
    let params =
        json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let known = format!("authorization: Bearer {token}\r\n");
    for (headers, expected) in [
        (format!("host: tools.example\r\n{known}"), "HTTP/1.1 200"),
        (format!("host: tools.example\r\norigin: https://app.example\r\n{known}"), "HTTP/1.1 200"),
        (format!("host: tools.example\r\norigin: https://other.example\r\n{known}"), "HTTP/1.1 403"),
        (format!("host: other.example\r\n{known}"), "HTTP/1.1 403"),
        ("host: tools.example\r\n".into(), "HTTP/1.1 401"),
        ("host: tools.example\r\nauthorization: Bearer 0123456789abcdee\r\n".into(), "HTTP/1.1 401"),
    ] {
        let answer = post(&address, &headers, &hello);
        assert!(answer.starts_with(expected), "{headers}{answer}");
    }
    let about = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": "count_text", "arguments": {"text": "a b c"}, "_meta": about});
    let call = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params});
    let own =
        "host: localhost\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: count_text\r\n";
    let answer = post(&address, &format!("{own}{known}"), &call);
    assert!(answer.contains(r#""words":3"#), "{answer}");
    child.kill().unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.stdout.is_empty());
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("count-text tool.call: ok") && !said.contains(token), "{said}");
}
