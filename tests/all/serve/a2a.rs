//! The option `--a2a`: clients of the Agent2Agent protocol, over JSON-RPC and over HTTP+JSON.

use super::*;

const VERSION: &str = "a2a-version: 1.0\r\n";

/// The program as a server of agents, with a model that replies so.
fn served(place: &Place, agent: &str, reply: impl Fn(&str) -> String + Send + Sync + 'static) -> HttpServed {
    place.file("shelly.yaml", ModelServer::start(reply).config(agent));
    HttpServed::start(place, &["--a2a"])
}

/// A message with this id and text.
fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

impl HttpServed {
    /// Sends a request of JSON-RPC to the agent.
    fn rpc(&self, method: &str, params: &Value) -> Value {
        let request = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
        let answer = self.post_with("/a2a/helper", VERSION, &request);
        assert_eq!(answer.status, 200, "{answer:?}");
        let answer = answer.json();
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!("1")), "{answer}");
        answer
    }

    fn result(&self, method: &str, params: &Value) -> Value {
        let answer = self.rpc(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    fn error(&self, method: &str, params: &Value) -> i64 {
        let answer = self.rpc(method, params);
        assert!(answer.get("result").is_none(), "{answer}");
        answer["error"]["code"].as_i64().unwrap()
    }

    /// Sends a request whose answer is a stream. Returns its items once it has ended.
    fn stream(&self, path: &str, body: &Value) -> Vec<Value> {
        let answer = self.post_with(path, VERSION, body);
        assert_eq!(answer.header("content-type"), Some("text/event-stream"), "{answer:?}");
        let data = answer.body.lines().filter_map(|line| line.trim_end().strip_prefix("data: "));
        data.map(|data| serde_json::from_str(data).unwrap()).collect()
    }

    /// Waits until the task is in this state.
    fn in_state(&self, task: &Value, state: &str) -> Value {
        let begun = Instant::now();
        loop {
            let task = self.result("GetTask", &json!({"id": task}));
            if task["status"]["state"] == state {
                return task;
            }
            assert!(begun.elapsed() < PATIENCE, "{task}");
            thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn task_is_given_and_answered() {
    let place = Place::new();
    let served = served(&place, "", |asked| says(if asked.contains("and three") { "Five." } else { "Four." }));
    let sent = json!({"message": message("m1", "What is two and two?")});
    let task = served.result("SendMessage", &sent)["task"].clone();
    assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{task}");
    assert_eq!(task["artifacts"], json!([{"artifactId": "answer", "name": "answer", "parts": [{"text": "Four."}]}]));
    assert_eq!(task["history"][0]["parts"][0]["text"], "What is two and two?");
    assert_eq!(served.result("SendMessage", &sent)["task"]["id"], task["id"], "a repeated message begins nothing");
    assert_eq!(served.result("GetTask", &json!({"id": task["id"]}))["artifacts"], task["artifacts"]);
    // The context is a session, which a further task continues.
    let session = served.get(&format!("/api/v1/sessions/{}", task["contextId"].as_str().unwrap()));
    assert_eq!(session.json()["messages"][1]["text"], "Four.", "{session:?}");
    let mut more = message("m2", "and three?");
    more["contextId"] = task["contextId"].clone();
    let second = served.result("SendMessage", &json!({"message": more}))["task"].clone();
    assert_eq!(
        (&second["contextId"], &second["artifacts"][0]["parts"][0]["text"]),
        (&task["contextId"], &json!("Five."))
    );
    let listed = served.result("ListTasks", &json!({"contextId": task["contextId"]}));
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["id"]), (&json!(2), &second["id"]), "{listed}");
    // What a context cannot be is refused, and no other one is chosen.
    for wrong in ["last", "a/b"] {
        let mut message = message(&format!("m-{wrong}"), "hi");
        message["contextId"] = json!(wrong);
        assert_eq!(served.error("SendMessage", &json!({"message": message})), -32602, "{wrong}");
    }
    let mut late = message("m3", "hi");
    late["taskId"] = task["id"].clone();
    assert_eq!(served.error("SendMessage", &json!({"message": late})), -32004);
    assert_eq!(served.error("GetTask", &json!({"id": "run-none"})), -32001);
    assert_eq!(served.error("CancelTask", &json!({"id": task["id"]})), -32002);
    assert_eq!(served.error("SubscribeToTask", &json!({"id": task["id"]})), -32004);
    assert_eq!(served.error("GetExtendedAgentCard", &json!({})), -32004);
    assert_eq!(served.error("CreateTaskPushNotificationConfig", &json!({"url": "http://localhost:1"})), -32003);
    let hook =
        json!({"message": message("m4", "hi"), "configuration": {"taskPushNotificationConfig": {"url": "http://x"}}});
    assert_eq!(served.error("SendMessage", &hook), -32003);
    assert_eq!(served.error("message/send", &sent), -32601, "that is a name of version 0.3");
    assert_eq!(served.error("SendMessage", &json!({"message": {"messageId": "m5"}})), -32602);
}

/// The state that an item of a stream says.
fn state(item: &Value) -> &Value {
    let of_update = &item["statusUpdate"]["status"]["state"];
    if of_update.is_null() { &item["task"]["status"]["state"] } else { of_update }
}

#[test]
fn updates_of_a_task_are_streamed() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let served = served(&place, "", {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Four.")
        }
    });
    let params = json!({"message": message("m1", "What is two and two?")});
    let request = json!({"jsonrpc": "2.0", "id": 5, "method": "SendStreamingMessage", "params": params});
    let items = thread::scope(|scope| {
        scope.spawn(|| {
            served.wait_for("/healthz", |_| served.get("/metrics").body.contains("shelly_event_streams 1\n"));
            gate.open();
        });
        served.stream("/a2a/helper", &request)
    });
    assert!(items.iter().all(|item| item["id"] == 5 && item["jsonrpc"] == "2.0"), "{items:?}");
    let results: Vec<_> = items.iter().map(|item| item["result"].clone()).collect();
    let task = &results[0]["task"];
    assert!(task["id"].is_string() && task["contextId"].is_string(), "the task comes first: {results:?}");
    let (last, answer) = (&results[results.len() - 1]["statusUpdate"], &results[results.len() - 2]["artifactUpdate"]);
    assert_eq!((&last["taskId"], &last["status"]["state"]), (&task["id"], &json!("TASK_STATE_COMPLETED")));
    assert_eq!(answer["artifact"]["parts"], json!([{"text": "Four."}]), "{results:?}");
    assert_eq!((&answer["lastChunk"], &answer["contextId"]), (&json!(true), &task["contextId"]));
    // The other binding has the items alone.
    let items = served.stream("/a2a/helper/message:stream", &json!({"message": message("m2", "And now?")}));
    assert!(items[0]["task"]["id"].is_string(), "{items:?}");
    assert_eq!(state(items.last().unwrap()), "TASK_STATE_COMPLETED", "{items:?}");
}

#[test]
fn answer_is_streamed_in_pieces() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let served = served(&place, "", {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            streams(&[json!({"content": "Fo"}), json!({"content": "ur."})], "stop")
        }
    });
    let items = thread::scope(|scope| {
        scope.spawn(|| {
            served.wait_for("/healthz", |_| served.get("/metrics").body.contains("shelly_event_streams 1\n"));
            gate.open();
        });
        served.stream("/a2a/helper/message:stream", &json!({"message": message("m1", "What is two and two?")}))
    });
    let updates = items.iter().map(|item| &item["artifactUpdate"]).filter(|update| !update.is_null());
    let pieces: Vec<_> = updates
        .map(|update| {
            assert_eq!(update["artifact"]["artifactId"], "answer", "{update}");
            let is = |field: &str| update[field] == true;
            (update["artifact"]["parts"][0]["text"].as_str().unwrap(), is("append"), is("lastChunk"))
        })
        .collect();
    assert_eq!(pieces, [("Fo", false, false), ("ur.", true, false), ("Four.", false, true)], "{items:?}");
}

#[test]
fn question_is_answered_by_a_message_to_the_task() {
    let place = Place::new();
    let options = json!([{"label": "red"}, {"label": "blue"}]);
    let asks = json!({"question": "Which colour?", "options": options});
    let served = served(&place, "", move |asked| match asked.contains("\"tool\"") {
        false => calls("ask_user", &asks),
        true => says(if asked.contains("blue") && asked.contains("chosen") { "Blue it is." } else { "What?" }),
    });
    let task = served.result("SendMessage", &json!({"message": message("m1", "Paint it.")}))["task"].clone();
    let status = &task["status"];
    assert_eq!(status["state"], "TASK_STATE_INPUT_REQUIRED", "the answer comes although the task is not over: {task}");
    assert_eq!(status["message"]["role"], "ROLE_AGENT");
    assert!(status["message"]["parts"][0]["text"].as_str().unwrap().starts_with("Which colour?\n- red"), "{status}");
    assert_eq!(status["message"]["parts"][1]["data"]["options"], json!(["red", "blue"]));
    let mut answer = message("m2", "blue");
    answer["taskId"] = task["id"].clone();
    answer["metadata"] = json!({"questionId": 99});
    assert_eq!(served.error("SendMessage", &json!({"message": answer})), -32602, "that question was never asked");
    answer["metadata"] = status["message"]["metadata"].clone();
    let done = served.result("SendMessage", &json!({"message": answer}))["task"].clone();
    assert_eq!(done["artifacts"][0]["parts"][0]["text"], "Blue it is.", "{done}");
    let said: Vec<_> = done["history"].as_array().unwrap().iter().map(|one| one["role"].as_str().unwrap()).collect();
    assert_eq!(said, ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"], "{done}");
    assert_eq!(
        served.result("SendMessage", &json!({"message": answer}))["task"]["id"],
        task["id"],
        "it was taken before"
    );
    // A stream ends with the question.
    let request = json!({"message": message("m3", "Paint it again.")});
    let items = served.stream("/a2a/helper/message:stream", &request);
    assert_eq!(state(items.last().unwrap()), "TASK_STATE_INPUT_REQUIRED", "{items:?}");
}

#[test]
fn permission_is_given_by_yes_and_never_for_later() {
    let place = Place::new();
    let served = served(&place, "toolboxes: [exec]", move |asked| match asked.contains("\"tool\"") {
        false => calls("exec_run", &json!({"command": "pwd"})),
        true => says(if asked.contains("use the notes instead") { "I was told." } else { "Done." }),
    });
    for (n, (wrong, answer, text)) in [
        ("maybe", "no: use the notes instead", "I was told."),
        ("trust", "No.", "Done."),
        ("yes, always", "yes", "Done."),
    ]
    .into_iter()
    .enumerate()
    {
        let task =
            served.result("SendMessage", &json!({"message": message(&format!("a{n}"), "Where?")}))["task"].clone();
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
        let question = task["status"]["message"]["parts"][0]["text"].as_str().unwrap();
        assert!(question.starts_with("May the agent run the program `pwd`?"), "{question}");
        let mut reply = message(&format!("b{n}"), wrong);
        reply["taskId"] = task["id"].clone();
        assert_eq!(served.error("SendMessage", &json!({"message": reply})), -32602, "{wrong}");
        reply["parts"][0]["text"] = json!(answer);
        let done = served.result("SendMessage", &json!({"message": reply}))["task"].clone();
        assert_eq!(done["artifacts"][0]["parts"][0]["text"], text, "{answer}: {done}");
    }
}

#[test]
fn task_at_work_is_watched_and_cancelled() {
    let (gate, place) = (ReplyGate::default(), Place::new());
    let served = served(&place, "", {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            says("Too late.")
        }
    });
    let sent = json!({"message": message("m1", "Wait."), "configuration": {"returnImmediately": true}});
    let task = served.result("SendMessage", &sent)["task"].clone();
    served.in_state(&task["id"], "TASK_STATE_WORKING");
    let cancelled = served.result("CancelTask", &json!({"id": task["id"]}));
    assert_eq!(cancelled["status"]["state"], "TASK_STATE_CANCELED", "{cancelled}");
    gate.open();
    // A budget in the metadata bounds the run.
    let budget = json!({"urn:shelly-host:a2a:budget:v1": {"tokens": 1}});
    let bounded = json!({"message": message("m2", "Wait."), "metadata": budget});
    let failed = served.result("SendMessage", &bounded)["task"].clone();
    assert_eq!(failed["status"]["state"], "TASK_STATE_FAILED", "{failed}");
    assert!(failed["status"]["message"]["parts"][0]["text"].as_str().unwrap().contains("budget"), "{failed}");
    let wrong = json!({"message": message("m3", "hi"), "metadata": {"urn:shelly-host:a2a:budget:v1": {"tokens": 0}}});
    assert_eq!(served.error("SendMessage", &wrong), -32602);
}

#[test]
fn operations_have_paths_of_their_own() {
    let place = Place::new();
    let served = served(&place, "", |_| says("Four."));
    let known = format!("{}{VERSION}content-type: application/a2a+json\r\n", served.known());
    let body = json!({"message": message("m1", "What is two and two?")}).to_string();
    let sent = served.send("POST", "/a2a/helper/message:send", &known, &body);
    assert_eq!((sent.status, sent.header("content-type")), (200, Some("application/a2a+json")), "{sent:?}");
    let task = sent.json()["task"].clone();
    let id = task["id"].as_str().unwrap();
    let get = |path: &str| served.send("GET", &format!("/a2a/helper/{path}"), &known, "");
    assert_eq!(get(&format!("tasks/{id}?historyLength=0")).json()["status"], task["status"]);
    let listed = get("tasks?pageSize=1&includeArtifacts=true&status=TASK_STATE_COMPLETED").json();
    assert_eq!((&listed["totalSize"], &listed["tasks"][0]["artifacts"]), (&json!(1), &task["artifacts"]), "{listed}");
    for (method, path, status, reason) in [
        ("GET", "tasks/run-none", 404, "TASK_NOT_FOUND"),
        ("POST", &*format!("tasks/{id}:cancel"), 400, "TASK_NOT_CANCELABLE"),
        ("GET", &*format!("tasks/{id}:subscribe"), 400, "UNSUPPORTED_OPERATION"),
        ("GET", &*format!("tasks/{id}/pushNotificationConfigs"), 400, "PUSH_NOTIFICATION_NOT_SUPPORTED"),
        ("GET", "extendedAgentCard", 400, "UNSUPPORTED_OPERATION"),
    ] {
        let refused = served.send(method, &format!("/a2a/helper/{path}"), &known, "");
        let error = refused.json()["error"].clone();
        assert_eq!((refused.status, &error["code"]), (status, &json!(status)), "{path}: {refused:?}");
        assert_eq!(
            (&error["details"][0]["reason"], &error["details"][0]["domain"]),
            (&json!(reason), &json!("a2a-protocol.org"))
        );
    }
    assert_eq!(get("tasks?pageSize=many").status, 400);
    assert_eq!(get("nothing").status, 404);
    // Another version gets the error of the protocol, in both bindings.
    for headers in ["", "a2a-version: 0.3\r\n", "a2a-version: 1.1\r\n"] {
        let path = format!("/a2a/helper/tasks/{id}");
        let refused = served.send("GET", &path, &format!("{}{headers}", served.known()), "");
        assert_eq!(
            (refused.status, &refused.json()["error"]["details"][0]["reason"]),
            (400, &json!("VERSION_NOT_SUPPORTED"))
        );
        let request = json!({"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": {"id": id}});
        let refused = served.post_with("/a2a/helper", headers, &request).json();
        assert_eq!((&refused["error"]["code"], &refused["id"]), (&json!(-32009), &json!(1)), "{headers}");
    }
    let by_query = served.send("GET", &format!("/a2a/helper/tasks/{id}?A2A-Version=1.0"), &served.known(), "");
    assert_eq!(by_query.status, 200, "{by_query:?}");
}

#[test]
fn card_says_where_agents_are() {
    let place = Place::new();
    let model = ModelServer::start(|_| says("Four."));
    place.file("shelly.yaml", format!("{}teams: [{{name: desk, members: [helper]}}]\n", model.config("")));
    let served = HttpServed::start(&place, &["--a2a"]);
    // Nobody knows the token before he has read the card.
    let anybody = "host: localhost\r\n";
    let card = served.send("GET", "/.well-known/agent-card.json", anybody, "");
    assert_eq!((card.status, card.header("content-type")), (200, Some("application/json")), "{card:?}");
    let tag = card.header("etag").unwrap().to_owned();
    let again = served.send("GET", "/.well-known/agent-card.json", &format!("{anybody}if-none-match: {tag}\r\n"), "");
    assert_eq!((again.status, &*again.body), (304, ""));
    let card = card.json();
    assert_eq!((&card["name"], &card["skills"][0]["description"]), (&json!("helper"), &json!("Helps.")), "{card}");
    assert_eq!(card["supportedInterfaces"][0]["url"], "http://localhost/a2a/helper");
    assert_eq!((&card["skills"][1]["id"], &card["skills"][1]["tags"]), (&json!("desk"), &json!(["team"])), "{card}");
    let of_team = "http://localhost/a2a/desk/.well-known/agent-card.json";
    assert!(card["skills"][1]["description"].as_str().unwrap().ends_with(of_team), "{card}");
    let team = served.send("GET", "/a2a/desk/.well-known/agent-card.json", anybody, "").json();
    assert_eq!((&team["name"], team["skills"].as_array().unwrap().len()), (&json!("desk"), 1), "{team}");
    // Everything else needs the token, and an agent that is there.
    assert_eq!(served.send("POST", "/a2a/helper", anybody, "{}").status, 401);
    assert_eq!(served.send("GET", "/a2a/helper/tasks", anybody, "").status, 401);
    assert_eq!(served.send("GET", "/.well-known/agent-card.json", "host: rebound.example\r\n", "").status, 403);
    assert_eq!(served.send("POST", "/.well-known/agent-card.json", &served.known(), "").status, 405);
    assert_eq!(served.get("/a2a/helper").status, 405);
    assert_eq!(served.post_with("/a2a/nobody", VERSION, &json!({})).status, 404);
    let known = format!("{}content-type: text/plain\r\n", served.known());
    assert_eq!(served.send("POST", "/a2a/helper", &known, "{}").status, 415);
    assert_eq!(served.post("/a2a/helper", &json!([])).json()["error"]["code"], -32600);
    let url = "https://agents.example.com/shelly";
    let behind = HttpServed::start(&place, &["--a2a", "--a2a-url", url]);
    let card = behind.send("GET", "/.well-known/agent-card.json", anybody, "").json();
    assert_eq!(card["supportedInterfaces"][0]["url"], format!("{url}/a2a/helper"));
    // Without the option there is nothing of it.
    let plain = HttpServed::start(&place, &[]);
    assert_eq!(plain.get("/.well-known/agent-card.json").status, 404);
}
