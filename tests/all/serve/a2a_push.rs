//! Push notifications of A2A: updates of tasks that the server sends by itself.

use std::{io::Write as _, net::TcpListener, sync::mpsc};

use super::*;

const VERSION: &str = "a2a-version: 1.0\r\n";

/// A server that takes updates, and answers each with this status.
struct UpdateReceiver {
    url: String,
    came: mpsc::Receiver<String>,
}

impl UpdateReceiver {
    fn start(statuses: &'static [&'static str]) -> Self {
        Self::with(statuses, |_| {})
    }

    /// `before` is called with each update before it is answered.
    fn with(statuses: &'static [&'static str], before: impl Fn(&str) + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (sender, came) = mpsc::channel();
        thread::spawn(move || {
            let mut statuses = statuses.iter().cycle();
            for mut connection in listener.incoming().flatten() {
                let update = request(&mut connection);
                let _ = sender.send(update.clone());
                before(&update);
                let _ = connection.write_all(answer(statuses.next().unwrap(), "{}").as_bytes());
            }
        });
        Self { url, came }
    }

    /// Returns the next update: its head in lower case, and its body.
    fn next(&self) -> (String, Value) {
        let came = self.came.recv_timeout(PATIENCE).unwrap();
        let (head, body) = came.split_once("\r\n\r\n").unwrap();
        (head.to_lowercase(), serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {came}")))
    }
}

fn rpc(served: &HttpServed, method: &str, params: &Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": "1", "method": method, "params": params});
    served.post_with("/a2a/helper", VERSION, &request).json()
}

fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

#[test]
fn updates_are_sent_to_a_permitted_address() {
    let (place, receiver) = (Place::new(), UpdateReceiver::start(&["200 OK"]));
    let model = ModelServer::start(|asked| match asked.contains("\"tool\"") {
        false => calls("ask_user", &json!({"question": "Which two?"})),
        true => says("Four."),
    });
    place.file("shelly.yaml", model.config(""));
    let hooks = format!("{}/hooks", receiver.url);
    let served = HttpServed::start(&place, &["--a2a", "--a2a-push", &hooks]);
    let card = served.send("GET", "/.well-known/agent-card.json", "host: localhost\r\n", "").json();
    assert_eq!(card["capabilities"]["pushNotifications"], true, "{card}");
    let url = format!("{hooks}/one");
    let proof = json!({"scheme": "Bearer", "credentials": "b-12345678"});
    let config = json!({"url": url, "token": "t-12345678", "authentication": proof});
    let configuration = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
    let sent = json!({"message": message("m1", "Add."), "configuration": configuration});
    let task = rpc(&served, "SendMessage", &sent)["result"]["task"].clone();
    let state = |update: &Value| update["statusUpdate"]["status"]["state"].as_str().unwrap_or_default().to_owned();
    // The question comes, and after its answer the rest, in order.
    let asked = loop {
        let (head, update) = receiver.next();
        assert!(
            head.starts_with("post /hooks/one ") && head.contains("x-a2a-notification-token: t-12345678"),
            "{head}"
        );
        assert!(head.contains("authorization: bearer b-12345678"), "{head}");
        assert!(head.contains("content-type: application/a2a+json"), "{head}");
        let of_task = update["task"]["status"]["state"].as_str().unwrap_or_default();
        if state(&update) == "TASK_STATE_INPUT_REQUIRED" || of_task == "TASK_STATE_INPUT_REQUIRED" {
            break update;
        }
    };
    assert!(asked.to_string().contains("Which two?"), "{asked}");
    let listed = rpc(&served, "ListTaskPushNotificationConfigs", &json!({"taskId": task["id"]}));
    let there = &listed["result"]["configs"][0];
    assert_eq!((&there["url"], &there["taskId"]), (&json!(url), &task["id"]), "{listed}");
    assert!(!listed.to_string().contains("12345678"), "what proves the sender is not shown: {listed}");
    let mut reply = message("m2", "Two and two.");
    reply["taskId"] = task["id"].clone();
    rpc(&served, "SendMessage", &json!({"message": reply, "configuration": {"returnImmediately": true}}));
    let mut updates = Vec::new();
    while updates.last().is_none_or(|last| state(last) != "TASK_STATE_COMPLETED") {
        updates.push(receiver.next().1);
    }
    let answer = &updates[updates.len() - 2]["artifactUpdate"];
    assert_eq!((&answer["artifact"]["parts"], &answer["lastChunk"]), (&json!([{"text": "Four."}]), &json!(true)));
    // The config can be read and deleted, over HTTP+JSON too.
    let path = format!("/a2a/helper/tasks/{}/pushNotificationConfigs", task["id"].as_str().unwrap());
    let known = format!("{}{VERSION}", served.known());
    let id = there["id"].as_str().unwrap();
    assert_eq!(served.send("GET", &format!("{path}/{id}"), &known, "").json()["url"], json!(url));
    assert_eq!(served.send("DELETE", &format!("{path}/{id}"), &known, "").status, 200);
    assert_eq!(served.send("GET", &format!("{path}/{id}"), &known, "").status, 404);
}

#[test]
fn address_that_is_not_permitted_is_refused() {
    let (place, receiver) = (Place::new(), UpdateReceiver::start(&["200 OK"]));
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let served = HttpServed::start(&place, &["--a2a", "--a2a-push", "https://hooks.example.com"]);
    let configuration = json!({"taskPushNotificationConfig": {"url": receiver.url}});
    let sent = json!({"message": message("m1", "Add."), "configuration": configuration});
    let refused = rpc(&served, "SendMessage", &sent);
    assert_eq!(refused["error"]["code"], -32602, "{refused}");
    assert!(refused["error"]["message"].as_str().unwrap().contains("permits no push notifications"), "{refused}");
    let listed = rpc(&served, "ListTasks", &json!({}));
    assert_eq!(listed["result"]["totalSize"], 0, "the message had no effect: {listed}");
    assert!(receiver.came.try_recv().is_err());
    let wrong = place.run(&["serve", "--a2a", "--a2a-push", "http://hooks.example.com"]);
    assert!(wrong.code != 0 && wrong.stderr.contains("https://hooks.example.com"), "{}", wrong.shown());
}

#[test]
fn address_that_comes_during_the_last_update_is_told() {
    let (place, gate) = (Place::new(), ReplyGate::default());
    // The last update waits for its answer, so its sender is still at work.
    let first = UpdateReceiver::with(&["200 OK"], {
        let gate = gate.clone();
        move |update| {
            if update.contains("TASK_STATE_COMPLETED") {
                gate.wait();
            }
        }
    });
    let late = UpdateReceiver::start(&["200 OK"]);
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let served = HttpServed::start(&place, &["--a2a", "--a2a-push", &first.url, "--a2a-push", &late.url]);
    let configuration = json!({"taskPushNotificationConfig": {"url": first.url}});
    let sent = rpc(&served, "SendMessage", &json!({"message": message("m1", "Add."), "configuration": configuration}));
    while !first.next().1.to_string().contains("TASK_STATE_COMPLETED") {}
    let config = json!({"taskId": sent["result"]["task"]["id"], "url": late.url});
    let added = rpc(&served, "CreateTaskPushNotificationConfig", &config);
    assert_eq!(added["result"]["url"], late.url, "{added}");
    gate.open();
    let told = late.next().1;
    assert_eq!(told["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{told}");
    assert_eq!(told["task"]["artifacts"][0]["parts"], json!([{"text": "Four."}]), "{told}");
    assert!(first.came.try_recv().is_err(), "the first one was told already");
}

#[test]
fn update_that_is_not_taken_is_sent_again() {
    let (place, receiver) = (Place::new(), UpdateReceiver::start(&["503 Busy", "200 OK"]));
    place.file("shelly.yaml", ModelServer::start(|_| says("Four.")).config(""));
    let served = HttpServed::start(&place, &["--a2a", "--a2a-push", &receiver.url]);
    let configuration = json!({"taskPushNotificationConfig": {"url": receiver.url}});
    rpc(&served, "SendMessage", &json!({"message": message("m1", "Add."), "configuration": configuration}));
    let (first, second) = (receiver.next().1, receiver.next().1);
    assert_eq!(first, second);
}
