//! Questions of agents, answered over HTTP.

use super::*;

/// Returns the only open question, once it is there.
fn question(served: &HttpServed) -> Value {
    let open = served.wait_for("/api/v1/questions", |open| !open["questions"].as_array().unwrap().is_empty());
    open["questions"][0].clone()
}

#[test]
fn open_question_is_answered_over_http() {
    let place = Place::new();
    let options = json!([{"label": "red"}, {"label": "blue", "description": "like the sky"}]);
    let asks = json!({"question": "Which colour?", "options": options});
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("ask_user", &asks),
        true => says(if asked.contains("blue") && asked.contains("chosen") { "Blue it is." } else { "What?" }),
    });
    place.file("shelly.yaml", model.config(""));
    let served = HttpServed::start(&place, &[]);
    let run = served.run(&json!({"task": "Paint it."}));
    let question = question(&served);
    assert_eq!((&question["kind"], &question["text"]), (&json!("open"), &json!("Which colour?")), "{question}");
    assert_eq!((&question["run"], &question["agent"]), (&json!(run), &json!("helper")), "{question}");
    assert_eq!(question["options"][1], json!({"label": "blue", "description": "like the sky"}));
    assert!(question["expires"].as_str() > question["asked"].as_str(), "{question}");
    let id = &question["id"];
    assert_eq!(served.get(&format!("/api/v1/runs/{run}")).json()["questions"], json!([id]));
    assert_eq!(served.get("/api/v1/questions?run=other").json()["questions"], json!([]));
    let path = format!("/api/v1/questions/{id}");
    for wrong in [json!({"verdict": "yes"}), json!({"chosen": ["green"]}), json!({"text": ""}), json!({})] {
        assert_eq!(served.post(&path, &wrong).status, 400, "{wrong}");
    }
    assert_eq!(served.post("/api/v1/questions/99", &json!({"text": "so"})).status, 404);
    assert_eq!(served.post("/api/v1/questions/x", &json!({"text": "so"})).status, 404);
    assert_eq!(served.post(&path, &json!({"chosen": ["blue"]})).status, 200);
    let ended = served.ended(&run);
    assert_eq!(ended["result"]["text"], "Blue it is.", "{ended}");
    assert_eq!(served.post(&path, &json!({"chosen": ["blue"]})).status, 404, "it is answered");
    let events = served.watch(&format!("/api/v1/runs/{run}/events"), "").rest();
    let asked = events.iter().find(|event| is_run_event(event, "question_asked")).unwrap();
    assert_eq!(asked.data["id"], *id);
    let answered = events.iter().find(|event| is_run_event(event, "question_answered")).unwrap();
    assert_eq!((&answered.data["outcome"], &answered.data["by"]), (&json!("answered"), &json!("person")));
}

#[test]
fn permission_is_decided_over_http() {
    let place = Place::new();
    let model = ModelServer::start(move |asked| match asked.contains("\"tool\"") {
        false => calls("exec_run", &json!({"command": "pwd"})),
        true => says(if asked.contains("use the notes instead") { "I was told." } else { "Done." }),
    });
    place.file("shelly.yaml", model.config("toolboxes: [exec]"));
    let served = HttpServed::start(&place, &[]);
    for (answer, text) in [
        (json!({"verdict": "no", "message": "use the notes instead"}), "I was told."),
        (json!({"decline": true}), "Done."),
        (json!({"verdict": "yes"}), "Done."),
    ] {
        let run = served.run(&json!({"task": "Where are we?"}));
        let question = question(&served);
        assert_eq!((&question["kind"], &question["action"]), (&json!("permission"), &json!("run the program `pwd`")));
        assert_eq!(question["subject"], json!({"kind": "program", "name": "pwd"}), "{question}");
        assert!(question["detail"].as_str().unwrap().contains("pwd"), "{question}");
        let path = format!("/api/v1/questions/{}", question["id"]);
        assert_eq!(served.post(&path, &json!({"text": "so"})).status, 400, "it wants a verdict");
        assert_eq!(served.post(&path, &answer).status, 200, "{answer}");
        let ended = served.ended(&run);
        assert_eq!(ended["result"]["text"], text, "{answer}: {ended}");
    }
}
