//! Routes questions of agents to the person behind the MCP client whose call is running.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use futures_util::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use serde_json::{Value, json, value::to_raw_value};

use crate::{
    approval::{
        ApprovalInbox, InboxQuestion, OpenQuestion, OpenQuestionAnswer, PermissionSubject, QuestionKind, Verdict,
    },
    error::{Fault, acts_on_terminal},
    event::RunCx,
    mcp::{self, ElicitationRequest, ElicitationResult, Elicitor},
};

/// The elicitors of running calls, by run.
#[derive(Clone, Default)]
pub(super) struct ElicitorRegistry(Arc<Mutex<ElicitorsByRun>>);

type ElicitorsByRun = HashMap<Arc<str>, Arc<dyn Elicitor>>;

/// Keeps the elicitor of a run registered until it is dropped.
pub(super) struct ElicitorGuard {
    elicitors: ElicitorRegistry,
    run: Arc<str>,
}

impl ElicitorRegistry {
    /// Registers the elicitor of a run, if the client has one.
    pub fn enter(&self, run: &Arc<str>, person: Option<Arc<dyn Elicitor>>) -> ElicitorGuard {
        if let Some(person) = person {
            self.all().insert(Arc::clone(run), person);
        }
        ElicitorGuard { elicitors: self.clone(), run: Arc::clone(run) }
    }

    /// Routes each question to its elicitor until no agent can ask any more. Without an elicitor the answer is no.
    pub async fn attend(self, mut inbox: ApprovalInbox) {
        let mut asking =
            FuturesUnordered::<BoxFuture<'static, (InboxQuestion, Result<ElicitationResult, Fault>)>>::new();
        loop {
            tokio::select! {
                asked = inbox.next() => {
                    let Some(asked) = asked else { return };
                    let person = self.all().get(&asked.question.run).cloned();
                    asking.push(async move {
                        let answer = ask(person, &asked).await;
                        (asked, answer)
                    }.boxed());
                }
                Some((asked, answer)) = asking.next() => give(&inbox, &asked, answer),
            }
        }
    }

    fn all(&self) -> MutexGuard<'_, ElicitorsByRun> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ElicitorGuard {
    fn drop(&mut self) {
        self.elicitors.all().remove(&self.run);
    }
}

async fn ask(person: Option<Arc<dyn Elicitor>>, asked: &InboxQuestion) -> Result<ElicitationResult, Fault> {
    let person = person.ok_or_else(|| Fault::other("the client cannot ask its user"))?;
    let question = &asked.question;
    let run = RunCx::new(Arc::clone(&question.from)).with_run(Arc::clone(&question.run));
    let by = mcp::ServerRequestOrigin { server: Arc::clone(&question.from), run, call: String::new() };
    let form = form(&question.from, &question.kind)?;
    person.elicit(&by, form).await
}

/// Passes the answer to the inbox if it fits the question.
fn give(inbox: &ApprovalInbox, asked: &InboxQuestion, answer: Result<ElicitationResult, Fault>) {
    let filled = match answer {
        Ok(ElicitationResult::Accept(filled)) => filled.get(ANSWER).cloned(),
        Ok(ElicitationResult::Decline | ElicitationResult::Cancel) | Err(_) => None,
    };
    let given = match (&asked.question.kind, filled) {
        (QuestionKind::Permission { .. }, filled) => {
            let verdict = match filled.as_ref().and_then(Value::as_str) {
                Some(YES) => Verdict::Yes,
                Some(TRUST) => Verdict::Trust,
                _ => Verdict::No,
            };
            inbox.decide(asked.id, verdict)
        }
        (QuestionKind::Open(open), Some(filled)) => match read(open, filled) {
            Some(answer) => inbox.answer(asked.id, answer),
            None => inbox.decline(asked.id),
        },
        (QuestionKind::Open(_), None) => inbox.decline(asked.id),
    };
    // An invalid answer leaves the question open, and nobody would answer it any more, so it is declined. A decision of
    // trust that could not be stored is already an answer.
    if given.is_err() {
        let _ = inbox.decline(asked.id);
    }
}

/// The name of the only field of each form.
const ANSWER: &str = "answer";
const YES: &str = "yes";
const TRUST: &str = "trust";
const NO: &str = "no";

fn read(question: &OpenQuestion, filled: Value) -> Option<OpenQuestionAnswer> {
    match filled {
        Value::String(text) if question.options.iter().any(|option| option.label == text) => {
            Some(OpenQuestionAnswer::Chosen(vec![text]))
        }
        Value::String(text) => Some(OpenQuestionAnswer::Text(text)),
        Value::Array(chosen) => {
            let labels = chosen.into_iter().map(|label| label.as_str().map(str::to_owned));
            Some(OpenQuestionAnswer::Chosen(labels.collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// Turns a question into a form.
fn form(from: &str, kind: &QuestionKind) -> Result<ElicitationRequest, Fault> {
    let (message, field) = match kind {
        QuestionKind::Permission { subject, detail } => {
            let what = match subject {
                PermissionSubject::Tool { .. } => " with these arguments",
                PermissionSubject::Topic { .. } => " for this reason",
                PermissionSubject::Folder { .. } | PermissionSubject::Server { .. } => ", which a tool needs",
                PermissionSubject::Change { .. } | PermissionSubject::Program { .. } => "",
                PermissionSubject::GitReading => " for these commands",
            };
            let message = format!("The agent `{from}` wants to {subject}{what}:\n\n{detail}");
            let (once, trust) = match subject {
                PermissionSubject::Change { .. } => {
                    ("Yes, once", "Yes, and all changes that this tool proposes while the server runs")
                }
                PermissionSubject::Folder { .. } | PermissionSubject::Server { .. } => {
                    ("Yes, while the server runs", "Yes, from now on")
                }
                PermissionSubject::Program { .. } => ("Yes, once", "Yes, this program with any arguments from now on"),
                PermissionSubject::GitReading => ("Yes, in this session", "Yes, from now on"),
                PermissionSubject::Tool { .. } | PermissionSubject::Topic { .. } => ("Yes, once", "Yes, from now on"),
            };
            let words = [once, trust, "No"];
            (message, json!({"type": "string", "title": "Allow?", "enum": [YES, TRUST, NO], "enumNames": words}))
        }
        QuestionKind::Open(open) => {
            let options = open.options.iter().filter(|option| !option.description.is_empty());
            let options = options.map(|option| format!("\n- {}: {}", option.label, option.description));
            let message = format!("The agent `{from}` asks: {}{}", open.text, options.collect::<String>());
            let labels: Vec<_> = open.options.iter().map(|option| &option.label).collect();
            let field = match (open.options.is_empty(), open.multi_select) {
                (true, _) => json!({"type": "string"}),
                (false, false) => json!({"type": "string", "enum": labels}),
                (false, true) => {
                    let most = open.most_selections();
                    json!({"type": "array", "items": {"type": "string", "enum": labels}, "minItems": 1, "maxItems": most})
                }
            };
            (message, field)
        }
    };
    let schema = json!({"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]});
    let schema = to_raw_value(&schema).map_err(|error| Fault::other(error.to_string()))?;
    Ok(ElicitationRequest { message: shown(&message), schema })
}

/// Escapes characters of an untrusted text that act on a terminal.
fn shown(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut shown, c| {
        match c != '\n' && acts_on_terminal(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
        shown
    })
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::approval::{ApprovalBroker, HeadlessPolicy, QuestionOption, TrustedSubjects};

    /// Answers each form with this result.
    struct Says(Result<ElicitationResult, Fault>);

    #[async_trait]
    impl Elicitor for Says {
        async fn elicit(
            &self,
            _: &mcp::ServerRequestOrigin,
            form: ElicitationRequest,
        ) -> Result<ElicitationResult, Fault> {
            assert!(!form.message.contains('\u{1b}') && form.message.contains("`ada`"), "{}", form.message);
            serde_json::from_str::<rmcp_form::Form>(form.schema.get()).unwrap();
            self.0.clone()
        }
    }

    /// The keywords that clients accept in the schema of a form.
    mod rmcp_form {
        #[derive(serde::Deserialize)]
        pub struct Form {
            #[serde(rename = "type")]
            _kind: String,
            #[expect(dead_code, reason = "it must be there")]
            properties: std::collections::BTreeMap<String, serde_json::Value>,
        }
    }

    fn filled(answer: Value) -> Result<ElicitationResult, Fault> {
        Ok(ElicitationResult::Accept([(ANSWER.to_owned(), answer)].into()))
    }

    #[tokio::test]
    async fn permission_is_decided_by_elicitor_of_the_call() {
        let subject = |name: &str| PermissionSubject::Tool {
            agent: "ada".into(),
            origin: "p".into(),
            name: name.into(),
            digest: String::new(),
        };
        for (n, (says, verdict)) in [
            (Some(filled(json!("yes"))), Verdict::Yes),
            (Some(filled(json!("trust"))), Verdict::Trust),
            (Some(filled(json!("no"))), Verdict::No),
            (Some(filled(json!("whatever"))), Verdict::No),
            (Some(filled(json!(true))), Verdict::No),
            (Some(Ok(ElicitationResult::Accept([].into()))), Verdict::No),
            (Some(Ok(ElicitationResult::Decline)), Verdict::No),
            (Some(Ok(ElicitationResult::Cancel)), Verdict::No),
            (Some(Err(Fault::other("gone"))), Verdict::No),
            (None, Verdict::No),
        ]
        .into_iter()
        .enumerate()
        {
            let (broker, elicitors) =
                (ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default()), ElicitorRegistry::default());
            let attending = tokio::spawn(elicitors.clone().attend(broker.attend().unwrap()));
            let cx = RunCx::new("ada").with_run(format!("mcp-{n}"));
            let there = elicitors.enter(&cx.run, says.map(|says| Arc::new(Says(says)) as _));
            let ruling = broker.permit(&cx, subject("t"), "{\"a\": \"\u{1b}[2J\"}").await.unwrap();
            assert_eq!(ruling.verdict, verdict, "{n}");
            let again = broker.permit(&RunCx::new("bob").with_run("other"), subject("t"), "").await.unwrap();
            assert_eq!(again.verdict == Verdict::No, verdict != Verdict::Trust, "{n}");
            drop(there);
            assert!(elicitors.all().is_empty());
            drop(broker);
            attending.await.unwrap();
        }
    }

    #[tokio::test]
    async fn questions_are_answered_in_words_or_by_choosing() {
        let options = |labels: &[&str]| -> Vec<_> {
            let choice = |label: &&str| QuestionOption { label: (*label).into(), description: "so".into() };
            labels.iter().map(choice).collect()
        };
        let chosen =
            |labels: &[&str]| OpenQuestionAnswer::Chosen(labels.iter().map(|label| (*label).to_owned()).collect());
        for (labels, multi_select, says, answer) in [
            (&[][..], false, filled(json!("blue")), Some(OpenQuestionAnswer::Text("blue".into()))),
            (&["a", "b"], false, filled(json!("b")), Some(chosen(&["b"]))),
            (&["a", "b"], false, filled(json!("neither")), Some(OpenQuestionAnswer::Text("neither".into()))),
            (&["a", "b", "c"], true, filled(json!(["c", "a"])), Some(chosen(&["a", "c"]))),
            (&["a", "b"], true, filled(json!(["x"])), None),
            (&["a", "b"], true, filled(json!([1])), None),
            (&[], false, filled(json!(7)), None),
            (&[], false, filled(json!("")), None),
            (&[], false, Ok(ElicitationResult::Decline), None),
        ] {
            let (broker, elicitors) =
                (ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default()), ElicitorRegistry::default());
            let _attending = tokio_util::task::AbortOnDropHandle::new(tokio::spawn(
                elicitors.clone().attend(broker.attend().unwrap()),
            ));
            let cx = RunCx::new("ada").with_run("mcp-1");
            let _there = elicitors.enter(&cx.run, Some(Arc::new(Says(says.clone()))));
            let question =
                OpenQuestion { text: "which?".into(), options: options(labels), multi_select, ..Default::default() };
            let answered = broker.ask(&cx, question).await;
            assert_eq!(answered.ok().flatten(), answer, "{says:?}");
        }
    }
}
