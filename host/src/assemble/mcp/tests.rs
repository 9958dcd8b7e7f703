use std::sync::Arc;

use serde_json::json;

use super::server_requests::BrokerElicitor;
use crate::{
    approval::{ApprovalBroker, ApprovalInbox, HeadlessPolicy, OpenQuestionAnswer, QuestionKind, TrustedSubjects},
    assemble::App,
    config::Config,
    error::Fault,
    event::RunCx,
    limits,
    mcp::{ElicitationRequest, ElicitationResult, Elicitor, ServerRequestOrigin},
};

fn broker() -> (ApprovalBroker, ApprovalInbox) {
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let inbox = broker.attend().unwrap();
    (broker, inbox)
}

fn asked() -> ServerRequestOrigin {
    ServerRequestOrigin { server: "t".into(), run: RunCx::new("ada"), call: "1".into() }
}

fn form(properties: serde_json::Value, required: &[&str]) -> ElicitationRequest {
    let schema = json!({"type": "object", "properties": properties, "required": required});
    ElicitationRequest { message: "Who are you?".into(), schema: serde_json::value::to_raw_value(&schema).unwrap() }
}

/// Returns the result of a form whose questions get these answers in order, and the questions.
async fn elicited(
    form: ElicitationRequest,
    answers: &[OpenQuestionAnswer],
) -> (Result<ElicitationResult, Fault>, Vec<String>) {
    let (broker, mut inbox) = broker();
    let asking = tokio::spawn(async move { BrokerElicitor(broker).elicit(&asked(), form).await });
    let mut questions = Vec::new();
    for answer in answers {
        let asked = inbox.next().await.unwrap();
        let QuestionKind::Open(question) = &asked.question.kind else { panic!("{asked:?}") };
        let options: Vec<_> = question.options.iter().map(|choice| choice.label.as_str()).collect();
        questions.push(format!("{} [{}]", question.text, options.join("|")));
        inbox.answer(asked.id, answer.clone()).unwrap();
    }
    (asking.await.unwrap(), questions)
}

fn says(text: &str) -> OpenQuestionAnswer {
    OpenQuestionAnswer::Text(text.into())
}

fn chooses(labels: &[&str]) -> OpenQuestionAnswer {
    OpenQuestionAnswer::Chosen(labels.iter().map(|label| (*label).to_owned()).collect())
}

#[tokio::test]
async fn each_field_of_a_form_is_a_question() {
    for (field, is_required, answers, expected) in [
        (json!({"type": "string"}), true, vec![says("Ada")], Some(json!("Ada"))),
        (json!({"type": "string", "minLength": 3}), true, vec![says("A"), says("Ada")], Some(json!("Ada"))),
        (json!({"type": "string"}), false, vec![chooses(&["(leave empty)"])], None),
        (json!({"type": "integer", "minimum": 1}), true, vec![says("0"), says("7")], Some(json!(7))),
        (json!({"type": "number", "maximum": 2}), true, vec![says("1.5")], Some(json!(1.5))),
        (json!({"type": "boolean"}), true, vec![chooses(&["yes"])], Some(json!(true))),
        (json!({"type": "boolean"}), true, vec![says("false")], Some(json!(false))),
        (json!({"type": "string", "enum": ["a", "b"]}), true, vec![chooses(&["b"])], Some(json!("b"))),
        (
            json!({"type": "string", "enum": ["a", "b"], "enumNames": ["An A", "A b"]}),
            true,
            vec![chooses(&["A b"])],
            Some(json!("b")),
        ),
        (
            json!({"type": "string", "oneOf": [{"const": "x", "title": "An x"}]}),
            true,
            vec![says("x")],
            Some(json!("x")),
        ),
        (
            json!({"type": "array", "items": {"enum": ["a", "b", "c"]}}),
            true,
            vec![chooses(&["a", "c"])],
            Some(json!(["a", "c"])),
        ),
        (
            json!({"type": "array", "items": {"anyOf": [{"const": "x", "title": "An x"}, {"const": "y"}]}}),
            true,
            vec![says("An x, y")],
            Some(json!(["x", "y"])),
        ),
    ] {
        let required: &[&str] = if is_required { &["f"] } else { &[] };
        let (came, questions) = elicited(form(json!({"f": field}), required), &answers).await;
        let expected = expected.map(|value| ("f".to_owned(), value)).into_iter().collect();
        assert_eq!(came, Ok(ElicitationResult::Accept(expected)), "{field}: {questions:?}");
        assert!(questions[0].starts_with("The MCP server `t` asks: Who are you?\nf"), "{questions:?}");
    }
    let fields = json!({"a": {"type": "string", "title": "Name", "description": "Your own"}, "b": {"type": "boolean"}});
    let (came, questions) = elicited(form(fields, &["a", "b"]), &[says("Ada"), chooses(&["no"])]).await;
    let filled = [("a".to_owned(), json!("Ada")), ("b".to_owned(), json!(false))];
    assert_eq!(came, Ok(ElicitationResult::Accept(filled.into())));
    assert!(questions[0].ends_with("\nName: Your own []") && questions[1].ends_with("\nb [yes|no]"), "{questions:?}");
}

#[tokio::test]
async fn invalid_form_or_second_wrong_answer_ends_elicitation() {
    let number = || json!({"f": {"type": "integer"}});
    let (came, questions) = elicited(form(number(), &["f"]), &[says("x"), says("y")]).await;
    assert_eq!(came, Ok(ElicitationResult::Cancel));
    assert!(questions[1].contains("(the answer must be a whole number)"), "{questions:?}");
    for (answer, expected) in
        [("yes", ElicitationResult::Accept(Default::default())), ("no", ElicitationResult::Decline)]
    {
        assert_eq!(elicited(form(json!({}), &[]), &[chooses(&[answer])]).await.0, Ok(expected));
    }
    let many: serde_json::Map<_, _> =
        (0..=limits::MCP_FORM_FIELDS).map(|at| (format!("f{at}"), json!({"type": "string"}))).collect();
    for wrong in [json!({"f": {"type": "object"}}), json!({"f": {}}), json!({"f": 1}), json!(many)] {
        assert!(elicited(form(wrong.clone(), &[]), &[]).await.0.is_err(), "{wrong}");
    }
    // No person is present.
    let nobody = BrokerElicitor(ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()));
    assert_eq!(nobody.elicit(&asked(), form(number(), &["f"])).await, Ok(ElicitationResult::Cancel));
    // The person declines.
    let (broker, mut inbox) = broker();
    let asking = tokio::spawn(async move { BrokerElicitor(broker).elicit(&asked(), form(number(), &["f"])).await });
    let question = inbox.next().await.unwrap();
    inbox.decline(question.id).unwrap();
    assert_eq!(asking.await.unwrap(), Ok(ElicitationResult::Decline));
}

#[test]
fn environment_values_given_to_mcp_servers_are_secret() {
    let folder = tempfile::tempdir().unwrap();
    let text = "mcp_servers:\n\
                - {name: p, command: x, env: {DB: 'postgres://u:${DB_PASS}@db', AT: '${HOME}/x', PLAIN: plain-text}}\n\
                - {name: w, url: 'https://${W_HOST}/s/${W_KEY}/mcp', headers: {authorization: 'Bearer ${W_TOKEN}'}}\n";
    let config = Config::parse(text, folder.path().into()).unwrap_or_else(|report| panic!("{report}"));
    let environment = |name: &str| Some(if name == "HOME" { "/home/ada".into() } else { format!("value-of-{name}") });
    let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
    let app = App::new(config, &[], None, Arc::new(environment), broker).unwrap();
    let secrets: Vec<_> = app.secrets_of_servers().iter().map(|(_, secret)| secret.expose().to_owned()).collect();
    for name in ["DB_PASS", "W_KEY", "W_TOKEN"] {
        assert!(secrets.contains(&format!("value-of-{name}")), "{name}: {secrets:?}");
    }
    for plain in ["/home/ada", "value-of-W_HOST", "plain-text"] {
        assert!(!secrets.iter().any(|secret| secret == plain), "{plain}: {secrets:?}");
    }
}

#[tokio::test]
async fn nested_mcp_servers_are_bounded() {
    let folder = tempfile::tempdir().unwrap();
    for (nested, says) in
        [(limits::MCP_NESTED - 1, "cannot start the MCP server"), (limits::MCP_NESTED, "shelly-host is nested 3 deep")]
    {
        let config = Config::parse("mcp_servers: [{name: p, command: /no/such}]", folder.path().into()).unwrap();
        let environment = move |name: &str| (name == super::server_target::NESTED).then(|| nested.to_string());
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let app = App::new(config, &[], None, Arc::new(environment), broker).unwrap();
        let report = app.server("p").await.err().unwrap();
        assert!(report.to_string().contains(says) && report.hint.is_some(), "{nested}: {report}");
    }
}
