//! Toolboxes through `shelly-host mcp`: the client's user is shown changes, and opens folders.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::*;
use crate::serving::Served;

/// Served to a client whose person can be asked.
fn served(place: &Place) -> Served {
    let with = ["--config", "shelly.yaml", "--plugins", crate::PLUGIN_ROOT];
    Served::greeted(place, &with, json!({"elicitation": {}}))
}

/// Returns the question and the result of a call that asks once.
fn asked(served: &mut Served, tool: &str, arguments: Value, says: &str) -> (String, Value) {
    let call = served.begin("tools/call", json!({"name": tool, "arguments": arguments}));
    let question = served.told_of("elicitation/create");
    let answer = json!({"action": "accept", "content": {"answer": says}});
    served.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": answer}));
    let message = question["params"]["message"].as_str().unwrap_or_else(|| panic!("{question}")).to_owned();
    let answer = served.answer(call);
    (message, answer.get("result").unwrap_or_else(|| panic!("{answer}")).clone())
}

fn text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}

/// A project with a folder beside it, and its config.
fn project(config: &str) -> (Place, TempDir) {
    let (place, beside) = (Place::new(), TempDir::new().unwrap());
    place.file("shelly.yaml", config);
    place.file("notes.txt", "inside\n");
    place.file(".shelly/local/notes/a.md", "x");
    fs::write(beside.path().join("data.txt"), "outside\n").unwrap();
    (place, beside)
}

const ALL: &str = "agents: [{name: ada, toolboxes: [filesystem, search, everyday]}]\n";

#[test]
fn mcp_client_approves_changes_and_opens_folders() {
    let (place, beside) = project(ALL);
    let data = beside.path().canonicalize().unwrap().join("data.txt");
    let mut client = served(&place);
    let tools = client.tools();
    for tool in ["fs_read", "fs_edit", "search_content", "json_query", "sql_query", "calculate"] {
        assert!(tools.iter().any(|name| name == tool), "{tool}: {tools:?}");
    }
    assert_eq!(text(&client.call("fs_read", json!({"path": "notes.txt"}))), "inside\n");
    assert_eq!(text(&client.call("calculate", json!({"expression": "2^64"}))), "18446744073709551616");

    // A change is made once the person has seen it.
    let edit = json!({"path": "notes.txt", "old_text": "inside", "new_text": "changed"});
    for (answer, is_made) in [("no", false), ("yes", true)] {
        let (message, result) = asked(&mut client, "fs_edit", edit.clone(), answer);
        assert!(message.contains("-inside\n+changed"), "{message}");
        assert_eq!(result["isError"], !is_made, "{result}");
        let holds = fs::read_to_string(place.path().join("notes.txt")).unwrap();
        assert_eq!(holds == "changed\n", is_made, "{holds}");
    }

    // What lies beside the project is opened by the same person, for this agent as long as the server runs.
    let read = json!({ "path": data });
    let (message, result) = asked(&mut client, "fs_read", read.clone(), "no");
    assert!(message.contains(&format!("read the folder `{}`", data.parent().unwrap().display())), "{message}");
    assert!(result["isError"] == true && text(&result).contains("did not grant the folder"), "{result}");
    let (_, result) = asked(&mut client, "fs_read", read.clone(), "yes");
    assert_eq!(text(&result), "outside\n");
    assert_eq!(text(&client.call("fs_read", read.clone())), "outside\n");
    let found = client.call("search_content", json!({"pattern": "out", "directory": data.parent()}));
    assert!(text(&found).contains("1: outside"), "what is open to one toolbox is to the other: {found}");
    assert_eq!(client.end().0, 0);

    // Another server asks anew, and where no person can be asked the answer is no.
    let mut other = served(&place);
    assert_eq!(text(&asked(&mut other, "fs_read", read.clone(), "yes").1), "outside\n");
    let with = ["--config", "shelly.yaml", "--plugins", crate::PLUGIN_ROOT];
    let mut nobody = Served::greeted(&place, &with, json!({}));
    let result = nobody.call("fs_read", read);
    assert!(result["isError"] == true && text(&result).contains("did not grant the folder"), "{result}");
}

#[test]
fn permanently_opened_folder_becomes_an_mcp_root_at_once() {
    let config = format!(
        "mcp_servers: [{{name: t, command: '{}', args: [tools.json], roots: [docs]}}]\n\
         agents: [{{name: ada, toolboxes: [filesystem, t]}}]\n",
        env!("CARGO_BIN_EXE_shelly-mcp-server")
    );
    let (place, beside) = project(&config);
    let tool = |name: &str| json!({"name": name, "description": "Does.", "inputSchema": {"type": "object"}});
    place.file("tools.json", json!([tool("roots"), tool("changes")]).to_string());
    place.file("docs/a.txt", "");
    let once = TempDir::new().unwrap();
    fs::write(once.path().join("data.txt"), "outside\n").unwrap();
    let folder = |of: &TempDir| of.path().canonicalize().unwrap();
    let uri = |of: &TempDir| format!("file://{}", folder(of).display());
    let mut client = served(&place);
    let roots = |client: &mut Served| text(&client.call("t__roots", json!({}))).to_owned();
    let before = roots(&mut client);
    assert!(before.contains("/docs\"") && !before.contains(&uri(&beside)), "{before}");
    let read = |of: &TempDir| json!({"path": folder(of).join("data.txt")});
    assert_eq!(text(&asked(&mut client, "fs_read", read(&once), "yes").1), "outside\n");
    assert_eq!(text(&asked(&mut client, "fs_read", read(&beside), "trust").1), "outside\n");
    // It is told that they have changed, in its own time, and what they are when it asks.
    let since = Instant::now();
    while text(&client.call("t__changes", json!({}))) == "0" {
        assert!(since.elapsed() < Duration::from_secs(30), "it was never told");
    }
    let after = roots(&mut client);
    assert!(after.contains(&uri(&beside)) && after.contains("/docs\""), "{after}");
    assert!(!after.contains(&uri(&once)), "what holds for this run alone is no root: {after}");
    assert_eq!(text(&client.call("t__changes", json!({}))), "1", "it was told once");
    assert_eq!(client.end().0, 0);
    assert!(roots(&mut served(&place)).contains(&uri(&beside)), "it was kept");
}

#[test]
fn concurrent_processes_keep_all_trust_entries() {
    const EACH: usize = 12;
    let (place, beside) = project("agents: [{name: ada, toolboxes: [filesystem]}]\n");
    let root = beside.path().canonicalize().unwrap();
    let folder = |who: usize, at: usize| root.join(format!("{who}-{at}"));
    for (who, at) in (0..2).flat_map(|who| (0..EACH).map(move |at| (who, at))) {
        fs::create_dir(folder(who, at)).unwrap();
        fs::write(folder(who, at).join("x"), "opened").unwrap();
    }
    let mut clients = [served(&place), served(&place)];
    std::thread::scope(|scope| {
        for (who, client) in clients.iter_mut().enumerate() {
            scope.spawn(move || {
                for at in 0..EACH {
                    let path = folder(who, at).join("x");
                    assert_eq!(text(&asked(client, "fs_read", json!({ "path": path }), "trust").1), "opened");
                }
            });
        }
    });
    let permissions = fs::read_to_string(place.path().join(".shelly/local/permissions.json")).unwrap();
    let permissions: Value = serde_json::from_str(&permissions).unwrap();
    let kept: BTreeSet<_> = permissions["fs_directories"].as_array().unwrap().iter().map(Value::as_str).collect();
    assert_eq!(kept.len(), 2 * EACH, "{permissions}");
    // All of them are this person's own: none is asked about as somebody else's, and a later program may read them.
    let check = place.run(&["config", "check"]);
    assert!(!check.stdout.contains("may be read and changed"), "{}", check.shown());
    let mut later = served(&place);
    for at in 0..EACH {
        for who in 0..2 {
            assert_eq!(text(&later.call("fs_read", json!({"path": folder(who, at).join("x")}))), "opened");
        }
    }
}
