//! The parts of the API that need no connection.

use std::{collections::BTreeSet, sync::Arc};

use serde_json::{Value, json};

use super::{
    idempotency::IdempotencyKeys,
    openapi_document::openapi_document,
    problem::Problem,
    request_bodies::{AnswerBody, NewRunBody, parse_json},
    routes::ROUTES,
};
use crate::{
    approval::{OpenQuestionAnswer, Verdict},
    error::{ErrorKind, Report, RequestObstacle},
    limits,
    serve::hosted_runs::{
        QuestionReply, RunHostError, RunTarget,
        testing::{SilentHost, request},
    },
    session::SessionError,
    task::AttachedFile,
};

fn as_json(problem: &Problem) -> Value {
    json!(problem)
}

#[test]
fn description_has_each_route_and_no_other() {
    let document = openapi_document();
    let paths = document["paths"].as_object().unwrap();
    let described: BTreeSet<_> = paths
        .iter()
        .flat_map(|(path, methods)| {
            let methods = methods.as_object().unwrap().keys();
            methods.map(|method| (method.to_uppercase(), path.clone())).collect::<Vec<_>>()
        })
        .collect();
    let routes: BTreeSet<_> = ROUTES.iter().map(|route| (route.method.to_owned(), route.path.to_owned())).collect();
    assert_eq!(described, routes);
    assert_eq!(routes.len(), ROUTES.len(), "no two routes have one method and path");
    for route in &ROUTES {
        let operation = &document["paths"][route.path][route.method.to_lowercase()];
        assert_eq!(operation["security"] == json!([]), route.is_public, "{}", route.path);
        let braces = route.path.matches('{').count();
        let in_path = operation["parameters"].as_array().unwrap().iter().filter(|one| one["in"] == "path");
        assert_eq!(in_path.count(), braces, "{}", route.path);
    }
    // Each reference leads somewhere.
    let text = document.to_string();
    let references: BTreeSet<_> =
        text.split("\"#/components/schemas/").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert!(references.len() > 10, "{references:?}");
    for name in references {
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[test]
fn description_has_the_statuses_of_what_is_done_already() {
    let document = openapi_document();
    for (path, method, first, other) in [
        ("/api/v1/runs", "post", "201", "200"),
        ("/api/v1/runs/{run}/cancel", "post", "202", "200"),
        ("/api/v1/triggers/{trigger}/fire", "post", "202", "200"),
        ("/hooks/{trigger}", "post", "202", "200"),
        ("/healthz", "get", "200", "503"),
    ] {
        let responses = &document["paths"][path][method]["responses"];
        assert!(responses[first]["content"]["application/json"]["schema"].is_object(), "{path}");
        assert_eq!(responses[other]["content"], responses[first]["content"], "{path}");
    }
}

#[test]
fn body_that_starts_no_run_is_refused() {
    let request = |body: Value| parse_json::<NewRunBody>(body.to_string().as_bytes())?.into_request();
    let image = "iVBORw0KGgo=";
    let (text, path) = ("x".repeat(limits::TASK_BYTES + 1), "../../etc/passwd");
    for (body, says) in [
        (json!({}), "there is no task"),
        (json!({"task": " "}), "the task is empty"),
        (json!({"task": text}), "the task has more than 1048576 bytes"),
        (json!({"tsak": "hi"}), "the body cannot be used"),
        (json!({"task": "hi", "budget": {"usd": 0}}), "the body cannot be used"),
        (json!({"task": "hi", "files": [{"name": "a"}]}), "cannot attach `a`"),
        (json!({"task": "hi", "files": [{"name": "a", "text": "a", "base64": ""}]}), "cannot attach `a`"),
        (json!({"task": "hi", "files": [{"name": "a", "base64": "%"}]}), "cannot attach `a`"),
        (json!({"task": "hi", "files": [{"name": "a", "text": "a\0b"}]}), "cannot attach `a`"),
        (
            json!({"task": "hi", "files": vec![json!({"name": "a", "text": ""}); limits::TASK_ATTACHMENTS + 1]}),
            "101 attached files",
        ),
        (json!({"session": "s", "files": [{"name": "a", "text": ""}]}), "files or a schema without a task"),
        (json!({"task": "hi", "schema": 7}), "the schema of the answer cannot be used"),
    ] {
        let problem = as_json(&request(body).unwrap_err());
        assert!(problem["title"].as_str().unwrap().starts_with(says), "{problem}");
        assert!(problem["status"].as_u64().unwrap() >= 400, "{problem}");
    }
    let files = json!([{"name": path, "text": "so"}, {"name": "i", "base64": image}]);
    let wanted = request(json!({"task": "hi", "files": files, "session": "s", "budget": {"tokens": 5}})).unwrap();
    assert_eq!((wanted.target, wanted.budget.tokens), (RunTarget::Named("s".into()), Some(5)));
    let input = wanted.input.unwrap();
    // The name is a text for the model, and no path of this machine.
    let [AttachedFile::Text { name, text }, AttachedFile::Media(media)] = &input.attachments[..] else {
        panic!("{input:?}")
    };
    assert_eq!((&**name, &**text, &*media.media_type), (path, "so", "image/png"));
    assert!(request(json!({"session": "s"})).unwrap().input.is_none());
}

#[test]
fn answer_body_is_one_answer() {
    let reply = |body: Value| parse_json::<AnswerBody>(body.to_string().as_bytes())?.into_reply();
    let long = "x".repeat(limits::ANSWER_BYTES + 1);
    for wrong in [
        json!({}),
        json!({"decline": false}),
        json!({"verdict": "maybe"}),
        json!({"verdict": "yes", "text": "so"}),
        json!({"verdict": "yes", "message": "so"}),
        json!({"text": "so", "message": "so"}),
        json!({"verdict": "no", "message": long}),
        json!({"chosen": "a"}),
        json!({"decline": true, "verdict": "no"}),
    ] {
        assert_eq!(as_json(&reply(wrong.clone()).unwrap_err())["code"], "bad_request", "{wrong}");
    }
    let words = Some("ask first".to_owned());
    for (body, expected) in [
        (json!({"verdict": "trust"}), QuestionReply::Verdict(Verdict::Trust, None)),
        (json!({"verdict": "no", "message": "ask first"}), QuestionReply::Verdict(Verdict::No, words)),
        (json!({"text": "so"}), QuestionReply::Answer(OpenQuestionAnswer::Text("so".into()))),
        (json!({"chosen": ["a"]}), QuestionReply::Answer(OpenQuestionAnswer::Chosen(vec!["a".into()]))),
        (json!({"decline": true}), QuestionReply::Decline),
    ] {
        assert_eq!(reply(body).unwrap(), expected);
    }
}

#[test]
fn refusal_has_the_status_of_its_cause() {
    let plain = |kind| Report::new(kind, "no");
    let with = |obstacle| plain(ErrorKind::Usage).obstacle(obstacle);
    for (report, status, code) in [
        (plain(ErrorKind::Usage), 422, "unprocessable"),
        (plain(ErrorKind::Run), 500, "internal"),
        (plain(ErrorKind::Bug), 500, "internal"),
        (plain(ErrorKind::Plugin), 500, "plugin"),
        (plain(ErrorKind::Provider), 502, "provider"),
        (with(RequestObstacle::InUse), 409, "conflict"),
        (with(RequestObstacle::Full), 507, "full"),
        (with(RequestObstacle::Unavailable), 503, "unavailable"),
        (with(RequestObstacle::Setup), 500, "internal"),
        (SessionError::InUse { id: "s".into() }.report(), 409, "conflict"),
        (SessionError::TooMany { there: 2, most: 1 }.report(), 507, "full"),
    ] {
        let problem = as_json(&Box::<Problem>::from(RunHostError::NotBegun(report)));
        assert_eq!((&problem["status"], &problem["code"]), (&json!(status), &json!(code)), "{problem}");
    }
    let later = Problem::refusal(&with(RequestObstacle::Unavailable)).response(|_| Vec::new());
    assert_eq!(later.headers()["retry-after"], "5");
}

#[tokio::test]
async fn idempotency_key_stands_for_one_body_and_run() {
    let silent = SilentHost::new(2).await;
    let (host, keys) = (&silent.host, IdempotencyKeys::default());
    let (run, is_new) = keys.begin(("k", b"one"), host, || host.begin(request("one"))).unwrap();
    assert!(is_new);
    let found = keys.find(("k", b"one"), host).unwrap().unwrap();
    assert!(Arc::ptr_eq(&run, &found) && keys.find(("j", b"one"), host).unwrap().is_none());
    assert_eq!(as_json(&keys.find(("k", b"two"), host).err().unwrap())["code"], "conflict");
    let (again, is_new) = keys.begin(("k", b"one"), host, || panic!("it has begun")).unwrap();
    assert!(!is_new && Arc::ptr_eq(&run, &again));
    let other = keys.begin(("k", b"two"), host, || panic!("it has begun")).err().unwrap();
    assert_eq!(as_json(&other)["code"], "conflict");
    for wrong in ["", "é", "a\nb", &"x".repeat(limits::SERVE_KEY_BYTES + 1)] {
        let refused = keys.begin((wrong, b"one"), host, || panic!("it is no key")).err().unwrap();
        assert_eq!(as_json(&refused)["code"], "bad_request", "{wrong:?}");
    }
    // The oldest keys are forgotten.
    for n in 0..limits::SERVE_KEYS {
        keys.begin((&n.to_string(), b"one"), host, || Ok(Arc::clone(&run))).unwrap();
    }
    assert_eq!(keys.len(), limits::SERVE_KEYS);
    let (second, is_new) = keys.begin(("k", b"two"), host, || host.begin(request("two"))).unwrap();
    assert!(is_new && !Arc::ptr_eq(&run, &second));
    let busy = keys.begin(("l", b"three"), host, || host.begin(request("three"))).err().unwrap();
    assert_eq!(as_json(&busy)["status"], 429);
    let response = busy.response(|_| Vec::new());
    assert_eq!(response.headers()["retry-after"], "5");
}
