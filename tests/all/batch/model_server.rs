//! A server that plays the model for many tasks at once.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::{Receiver, sync_channel},
    },
    thread,
};

use serde_json::{Value, json};

use crate::{
    bad_input::{answer, request},
    support::Place,
};

/// The reply of the server to a request.
pub enum Says {
    Text(String),
    /// A refusal with this status.
    Status(&'static str),
    /// Nothing, until the client goes away.
    Silence,
}

/// A model server that answers many requests at once, and forgets none of them.
pub struct ModelServer {
    port: u16,
    pub asked: Arc<Mutex<Vec<Value>>>,
    /// The most requests that were open at once.
    pub most: Arc<AtomicUsize>,
    /// Receives a message when a request gets no answer.
    pub silent: Receiver<()>,
}

impl ModelServer {
    pub fn start(says: impl Fn(&str, usize) -> Says + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (asked, most, open) = <(Arc<Mutex<Vec<Value>>>, Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
        let (tell_silent, silent) = sync_channel(100);
        let (server, says) = (Self { port, asked: asked.clone(), most: most.clone(), silent }, Arc::new(says));
        thread::spawn(move || {
            for mut connection in listener.incoming().flatten() {
                let (asked, most, open) = (asked.clone(), most.clone(), open.clone());
                let (says, tell_silent) = (says.clone(), tell_silent.clone());
                thread::spawn(move || {
                    let request = request(&mut connection);
                    most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    let (head, body) = request.split_once("\r\n\r\n").unwrap();
                    let mut body: Value = serde_json::from_str(body).unwrap_or_default();
                    body["path"] = head.split(' ').nth(1).unwrap().into();
                    let task = task_of(&body);
                    let before = {
                        let mut asked = asked.lock().unwrap();
                        asked.push(body);
                        asked.iter().filter(|body| task_of(body) == task).count() - 1
                    };
                    let said = says(&task, before);
                    // A client may begin its next request before it is told of the end of this one.
                    open.fetch_sub(1, Ordering::SeqCst);
                    reply(&mut connection, said, || {
                        let _ = tell_silent.send(());
                    });
                });
            }
        });
        server
    }

    /// The requests with this text in their newest task.
    pub fn asked(&self, task: &str) -> Vec<Value> {
        self.asked.lock().unwrap().iter().filter(|body| task_of(body).contains(task)).cloned().collect()
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// A place with a config that names this server.
    pub fn place(&self) -> Place {
        let place = Place::new();
        self.configure(&place, "price: {input: 1, output: 1}", "");
        place
    }

    pub fn configure(&self, place: &Place, model: &str, agent: &str) {
        place.file(
            "shelly.yaml",
            format!(
                "providers: [{{name: local, kind: openai, base_url: 'http://127.0.0.1:{}/v1', model: m, retries: 0, {model}}}]\n\
                 agents: [{{name: helper, effects: [], {agent}}}, {{name: other, effects: []}}]\n",
                self.port
            ),
        );
    }
}

fn reply(connection: &mut TcpStream, said: Says, tell_silent: impl FnOnce()) {
    let reply = match said {
        Says::Text(text) => {
            let choice = json!({"message": {"content": text}, "finish_reason": "stop"});
            let usage = json!({"prompt_tokens": 900_000, "completion_tokens": 100_000});
            answer("200 OK", &json!({"choices": [choice], "usage": usage}).to_string())
        }
        Says::Status(status) => answer(status, "{\"error\": {\"message\": \"no luck\"}}"),
        Says::Silence => {
            tell_silent();
            let _ = connection.read(&mut [0]);
            return;
        }
    };
    let _ = connection.write_all(reply.as_bytes());
}

/// The first message of a user, without what the host adds.
pub fn task_of(body: &Value) -> String {
    let messages = body["messages"].as_array().into_iter().flatten();
    let first = messages.filter(|message| message["role"] == "user").map(|message| text_of(&message["content"])).next();
    first.unwrap_or_default()
}

pub fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
        _ => String::new(),
    }
}
