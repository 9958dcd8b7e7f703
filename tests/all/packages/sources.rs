//! Plugins from web servers and indexes, and projects that have everything.

use std::fs;

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use super::{CONFIG, FUNCTION, FUNCTIONS, check, fine, put_dice, refused};
use crate::{
    egress::server::{Answer, Server},
    support::Place,
};

/// A web server for the files of a folder. It runs until it is dropped.
pub struct WebServer {
    server: Server,
    _runtime: Runtime,
}

impl WebServer {
    pub fn of(place: &Place) -> Self {
        let (runtime, root) = (Runtime::new().unwrap(), place.path());
        let server = runtime.block_on(Server::start(move |heard| {
            match fs::read(root.join(heard.path().trim_start_matches('/'))) {
                Ok(bytes) => Answer::of("200 OK", bytes),
                Err(_) => Answer::of("404 Not Found", ""),
            }
        }));
        Self { server, _runtime: runtime }
    }

    pub fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.server.url)
    }
}

#[test]
fn plugin_is_installed_from_a_web_server() {
    let (author, place) = (Place::new(), Place::new());
    put_dice(&author, "1.0.0", "", FUNCTION);
    let web = WebServer::of(&author);
    place.file("shelly.yaml", CONFIG);
    let source = web.url("plugins/dice/plugin.toml");
    let installed = fine(place.run(&["plugin", "install", &source]));
    assert!(installed.stdout.starts_with("installed    `dice` 1.0.0"), "{}", installed.shown());
    fine(check(&place));
    let alone = fine(place.run(&["plugin", "install", &web.url("plugins/dice/c.wasm")]));
    assert!(alone.stdout.starts_with("installed    `c` ("), "{}", alone.shown());
    // What the server has now is another plugin than the locked one.
    put_dice(&author, "1.0.0", "", FUNCTIONS);
    fs::remove_dir_all(place.path().join(".shelly")).unwrap();
    refused(&place.run(&["plugin", "install"]), 3, &["has another plugin than [DIR]/shelly.lock names"]);
    let missing = place.run(&["plugin", "install", &web.url("none/plugin.toml")]);
    refused(&missing, 1, &["there is no http://127.0.0.1:", "check the address"]);
    refused(&place.run(&["plugin", "install", "http://a.example/c.wasm"]), 2, &["cause: it begins with http://"]);
}

#[test]
fn plugin_is_found_and_installed_by_the_index_of_the_person() {
    let (author, place) = (Place::new(), Place::new());
    put_dice(&author, "1.0.0", "", FUNCTION);
    let web = WebServer::of(&author);
    let source = web.url("plugins/dice/plugin.toml");
    let more = (0..60).map(|at| json!({"id": format!("p{at}"), "source": source, "description": "one of many"}));
    let dice = json!({"id": "dice", "description": "Rolls dice\u{1b}[2J.", "source": source});
    let plugins: Vec<_> = [dice].into_iter().chain(more).collect();
    let index = json!({ "plugins": plugins }).to_string();
    author.file("index.json", &index);
    place.file("home/.config/shelly-host/config.yaml", format!("plugin_index: '{}'\n", web.url("index.json")));
    let run = |arguments: &[&str]| {
        place.ran(place.command(arguments).env("HOME", place.path().join("home")).output().unwrap())
    };
    let found = fine(run(&["plugin", "search", "rolls"]));
    assert!(found.stdout.starts_with(&format!("dice  {source}  Rolls dice")), "{}", found.shown());
    assert!(!found.stdout.contains('\u{1b}'), "{}", found.shown());
    let many = fine(run(&["plugin", "search", "many", "--output", "json"]));
    assert_eq!(serde_json::from_str::<Value>(&many.stdout).unwrap().as_array().unwrap().len(), 50);
    assert!(fine(run(&["plugin", "search", "many"])).stdout.ends_with("there are more; give more words\n"));
    let other = run(&["plugin", "install", "p7"]);
    refused(&other, 3, &["as the plugin `p7`, but it is the plugin `dice`", "nothing was installed"]);
    assert!(!place.path().join("shelly.lock").exists(), "{}", other.shown());
    fine(run(&["plugin", "install", "dice"]));
    assert!(fs::read_to_string(place.path().join("shelly.lock")).unwrap().contains(&source));
    refused(
        &run(&["plugin", "install", "dices"]),
        2,
        &["there is no plugin `dices` in the index", "did you mean `dice`?"],
    );

    // An index on the command line counts before it, and a project has none.
    place.file("own.json", r#"{"plugins": [{"id": "mine", "source": "../mine"}]}"#);
    let mine = run(&["plugin", "install", "mine", "--index", "own.json"]);
    refused(&mine, 2, &["cause: an index names URLs and artifacts of registries"]);
    let none = fine(run(&["plugin", "search", "cards", "--index", "own.json"]));
    assert_eq!(none.stdout, "no plugin has all of these words\n");
    place.file("shelly.yaml", "plugin_index: own.json\n");
    refused(&run(&["plugin", "search"]), 2, &["`plugin_index` is a setting of a person, not of a project"]);
}

#[test]
fn vendored_project_needs_neither_network_nor_person() {
    let (author, place) = (Place::new(), Place::new());
    let home = author.path().join("home");
    let run = |arguments: &[&str]| place.ran(place.command(arguments).env("HOME", &home).output().unwrap());
    put_dice(&author, "1.0.0", "", FUNCTION);
    author.plugin("cards", "kinds = [\"functions\"]\n", FUNCTION);
    let web = WebServer::of(&author);
    for id in ["dice", "cards"] {
        fine(run(&["plugin", "install", &web.url(&format!("plugins/{id}/plugin.toml")), "--user"]));
    }
    place.file("c.yaml", CONFIG);
    let vendored = fine(run(&["plugin", "vendor", "--config", "c.yaml"]));
    assert_eq!(vendored.stdout, "copied       `dice` 1.0.0\nin store     `dice` 1.0.0\n");
    drop(web);
    drop(author);
    fine(place.run(&["config", "check", "--load", "--trust", "--config", "c.yaml"]));
    fine(place.run(&["plugin", "install", "--config", "c.yaml"]));
    let lock = fs::read_to_string(place.path().join("shelly.lock")).unwrap();
    assert!(lock.contains("\"dice\"") && !lock.contains("\"cards\""), "only what the config names: {lock}");
}
