//! Options of a resumed session: they are those that it was begun with, and a session of somebody else chooses none.

use std::{fs, path::Path};

use shelly_host::{
    session::{DiskStorage, LaunchOptions, NewSession, SessionStore, SessionStoreOptions},
    trust::UserKey,
};

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::{Place, Ran},
};

/// A project whose sessions lie elsewhere than where its person is: below `deep`, with two models and plugins beside it.
fn place(server: &Server) -> Place {
    let place = Place::new();
    let model = |name: &str| {
        format!(
            "  - {{name: {name}, kind: openai, base_url: 'http://127.0.0.1:{}/v1', model: {name}-1, api_key: x}}\n",
            server.port
        )
    };
    place.file(
        "deep/c.yaml",
        format!(
            "providers:\n{}{}agents: [{{name: helper, plugins: {{count-text: }}}}]\n",
            model("small"),
            model("large")
        ),
    );
    std::os::unix::fs::symlink(PLUGIN_ROOT, place.path().join("plugs")).unwrap();
    place
}

fn server() -> Server {
    Server::start(|_| answer("200 OK", FOUR))
}

const BEGIN: [&str; 8] = ["run", "--config", "deep/c.yaml", "--plugins", "plugs", "--model", "large", "go"];

fn fine(ran: Ran) -> Ran {
    assert_eq!(ran.code, 0, "{}", ran.shown());
    ran
}

fn last_model(server: &Server) -> String {
    let asked = server.asked.lock().unwrap();
    let body: serde_json::Value =
        serde_json::from_str(asked.last().unwrap().split_once("\r\n\r\n").unwrap().1).unwrap();
    assert_eq!(body["tools"].as_array().map_or(0, Vec::len), 2, "both tools of its plugin are there: {body}");
    body["model"].as_str().unwrap().to_owned()
}

#[test]
fn resumed_session_keeps_config_plugins_and_model() {
    let server = server();
    let place = place(&server);
    fine(place.run(&BEGIN));
    let again = fine(place.run(&["session", "resume", "last", "Once more."]));
    let says = "options stored in the session: --config deep/c.yaml --plugins plugs --model large\n";
    assert!(again.stderr.contains(says), "{}", again.shown());
    assert_eq!(last_model(&server), "large-1");
    // What is named wins; a model is one of its config.
    let named = fine(place.run(&["session", "resume", "last", "And more.", "--model", "small"]));
    assert!(
        named.stderr.contains("stored in the session: --config deep/c.yaml --plugins plugs\n"),
        "{}",
        named.shown()
    );
    assert_eq!(last_model(&server), "small-1");
    let named = fine(place.run(&["session", "resume", "last", "And more.", "--config", "deep/c.yaml"]));
    assert!(named.stderr.contains("stored in the session: --plugins plugs\n"), "{}", named.shown());
    // By its name too, and by a run that goes on with it.
    let store = SessionStore::new(
        std::sync::Arc::new(DiskStorage),
        place.path().join("deep/.shelly/local/sessions"),
        SessionStoreOptions::default(),
    );
    let id = store.list(1).unwrap().remove(0).id;
    let by_name = fine(place.run(&["session", "resume", &id[..id.len() - 2], "Again."]));
    assert!(by_name.stderr.contains(says), "{}", by_name.shown());
    let session = fine(place.run(&["run", "--config", "deep/c.yaml", "--session", &id, "Again."]));
    assert!(session.stderr.contains("stored in the session: --plugins plugs\n"), "{}", session.shown());
    // What is shown says so, and a copy has it too.
    let show = fine(place.run(&["session", "show", "last"]));
    assert!(show.stdout.contains("options  --config c.yaml --plugins"), "{}", show.shown());
    assert!(show.stderr.contains("using the sessions of --config deep/c.yaml"), "{}", show.shown());
    fine(place.run(&["session", "fork", "last"]));
    let fork = fine(place.run(&["session", "resume", "last", "Again."]));
    assert!(fork.stderr.contains(says), "{}", fork.shown());
}

#[test]
fn empty_session_list_names_searched_and_other_folders() {
    let server = server();
    let place = place(&server);
    let before = place.run(&["session", "list"]);
    let looked = "there is no session in ./.shelly/local/sessions; start a session with `shelly-host run`\n";
    assert_eq!((before.code, &*before.stderr), (0, looked), "{}", before.shown());
    fine(place.run(&BEGIN));
    let list = place.run(&["session", "list"]);
    let others =
        "sessions started here with the config of another folder: shelly-host session list --config deep/c.yaml\n";
    assert_eq!(list.stderr, format!("{looked}{others}"));
    let there = fine(place.run(&["session", "list", "--config", "deep/c.yaml"]));
    assert!(there.stdout.contains("helper"), "{}", there.shown());
    let found = fine(place.run(&["session", "search", "nothing of it"]));
    assert!(found.stderr.contains("no match in the sessions in ./.shelly/local/sessions"), "{}", found.shown());
    // The newest of both places is the last one; what removes looks here alone.
    place.file("shelly.yaml", server.config("api_key: x"));
    fine(place.run(&["run", "here", "--session", "here"]));
    assert!(place.run(&["session", "show", "last"]).stdout.contains("session  here\n"));
    fine(place.run(&BEGIN));
    assert!(!place.run(&["session", "show", "last"]).stdout.contains("session  here\n"));
    assert!(fine(place.run(&["session", "rm", "last"])).stdout.contains("here"));
}

/// A session that came with the project, though all is as this program writes it.
#[test]
fn foreign_session_cannot_choose_paths() {
    let server = server();
    let place = place(&server);
    place.file("evil/c.yaml", server.config("api_key: evil"));
    place.file("shelly.yaml", server.config("api_key: x"));
    let options = LaunchOptions {
        config: Some("evil/c.yaml".into()),
        plugins: vec!["evil/plugins".into()],
        model: Some("evil".into()),
    };
    let theirs = |key: Option<UserKey>| {
        let options = SessionStoreOptions {
            own: key.unwrap_or_default(),
            root: Some(place.path()),
            ..SessionStoreOptions::default()
        };
        SessionStore::new(std::sync::Arc::new(DiskStorage), place.path().join(".shelly/local/sessions"), options)
    };
    let new =
        NewSession { id: Some("s".into()), agent: "helper".into(), options: options.clone(), ..NewSession::default() };
    fs::create_dir_all(place.path().join(".shelly/local")).unwrap();
    drop(theirs(Some(UserKey::new(Some(place.path().join("theirs.key"))))).create(new).unwrap());
    let resume = |words: &[&str]| place.run(&[&["session", "resume", "s", "go"][..], words].concat());
    let left_out = "was not made here by you, so its stored options are ignored: --config evil/c.yaml";
    // Nor once the person has said that it may go on.
    for is_adopted in [false, true] {
        if is_adopted {
            let mine = theirs(Some(place.own_key()));
            mine.accept(&mine.review("s").unwrap()).unwrap();
        }
        let ran = resume(&[]);
        assert_eq!(ran.code, 0, "{}", ran.shown());
        assert!(ran.stderr.contains(left_out), "{}", ran.shown());
        assert!(!server.asked.lock().unwrap().iter().any(|asked| asked.contains("Bearer evil")), "{is_adopted}");
    }
    // In a folder whose config was named before, sessions of somebody else are not even found by their name.
    fine(place.run(&BEGIN));
    let deep = place.path().join("deep/.shelly/local/sessions");
    copy_session(&place.path().join(".shelly/local/sessions/s"), &deep.join("other"));
    let ran = place.run(&["session", "resume", "other", "go"]);
    assert!(ran.code == 2 && ran.stderr.contains("there is no session `other`"), "{}", ran.shown());
}

fn copy_session(from: &Path, to: &Path) {
    crate::support::copy(from, to, &[]);
}
