//! Puts the questions of a conversation to the person behind the editor, one at a time.

use serde_json::{Value, json};

use super::{
    calls_in_progress::CallsInProgress,
    diff_content::diff_content,
    editor_connection::EditorConnection,
    session_update::{agent_text, call_text, call_update, with_members},
    tool_display::{kind_of, one_line},
};
use crate::{
    approval::{
        ApprovalInbox, InboxQuestion, OpenQuestion, OpenQuestionAnswer, PermissionSubject, Question, QuestionKind,
        QuestionOption, Verdict,
    },
    event::FileDifference,
    limits,
    session::Secrets,
};

/// The ids of the options of a permission.
const ALLOW_ONCE: &str = "allow_once";
const ALLOW_ALWAYS: &str = "allow_always";
const REJECT_ONCE: &str = "reject_once";

/// The beginning of the id of an option of an open question; its number follows.
const CHOICE: &str = "choice-";

/// The only field of a form.
const ANSWER: &str = "answer";

/// Puts the questions of one conversation to the editor.
pub(super) struct EditorQuestions {
    pub connection: EditorConnection,
    pub session: String,
    pub in_progress: CallsInProgress,
    /// Returns the credentials that are known by now, which an editor is not sent.
    pub secrets: Box<dyn Fn() -> Secrets + Send + Sync>,
    /// `true` if the editor has forms in which a person answers in words.
    pub has_forms: bool,
}

/// The person's answer; `None` if there is none.
#[derive(Debug, PartialEq, Eq)]
enum EditorAnswer {
    Verdict(Verdict),
    Open(OpenQuestionAnswer),
    None,
}

impl EditorQuestions {
    /// Asks until no agent can ask any more. A question that is withdrawn is withdrawn in the editor, too.
    pub async fn attend(self, mut inbox: ApprovalInbox) {
        while let Some(asked) = inbox.next().await {
            // The editor shows the call before it is asked about it.
            self.in_progress.wait_for_question(asked.id, limits::ACP_QUESTION_ORDER_TIME).await;
            let answer = tokio::select! {
                biased;
                () = inbox.closed(asked.id) => continue,
                answer = self.ask(&asked) => answer,
            };
            give(&inbox, &asked, answer);
        }
    }

    /// Returns a text without credentials.
    fn clean(&self, text: &str) -> String {
        (self.secrets)().clean_text(text)
    }

    async fn ask(&self, asked: &InboxQuestion) -> EditorAnswer {
        let question = &asked.question;
        match &question.kind {
            QuestionKind::Permission { subject, detail } => {
                self.ask_permission(asked.id, question, subject, detail).await
            }
            QuestionKind::Open(open) if self.has_forms => self.ask_in_form(question, open).await,
            QuestionKind::Open(open) if !open.options.is_empty() && !open.multi_select => {
                self.ask_for_choice(asked.id, question, open).await
            }
            QuestionKind::Open(open) => {
                let text = format!("\n\n{}\n\n(answer with your next message)\n\n", open_text(question, open));
                self.connection.update(&self.session, agent_text(&self.clean(&text))).await;
                EditorAnswer::None
            }
        }
    }

    async fn ask_permission(
        &self,
        id: u64,
        question: &Question,
        subject: &PermissionSubject,
        detail: &str,
    ) -> EditorAnswer {
        let tool = match subject {
            PermissionSubject::Tool { name, .. } | PermissionSubject::Change { name, .. } => Some(&**name),
            _ => None,
        };
        let about = self.clean(&format!("The agent `{}` wants to {subject}:", question.from));
        let mut content = vec![call_text(&about)];
        let mut locations = Vec::new();
        for difference in question.changes.iter().take(limits::ACP_CALL_DIFFS) {
            let text = self.clean(&difference.text);
            let (diffs, at) = diff_content(&FileDifference { path: difference.path.clone(), text });
            content.extend(diffs);
            locations.push(at);
        }
        // The warnings about a change, and the details of everything else, are in words.
        let words = match question.changes.is_empty() {
            true => detail,
            false => detail.split_once("\n\n--- ").map_or(detail, |(head, _)| head),
        };
        content.push(call_text(&self.clean(words)));
        let fields = with_members(json!({ "content": content }), places(locations));
        let kind = tool.map_or("execute", kind_of);
        let options = permission_options(subject);
        let answer = self.request_permission(id, question, tool, (&one_line(&about), kind, fields), options).await;
        EditorAnswer::Verdict(match answer.as_deref() {
            Some(ALLOW_ONCE) => Verdict::Yes,
            Some(ALLOW_ALWAYS) if !is_asked_each_time(subject) => Verdict::Trust,
            _ => Verdict::No,
        })
    }

    /// Asks for one of the options of an open question.
    async fn ask_for_choice(&self, id: u64, question: &Question, open: &OpenQuestion) -> EditorAnswer {
        let text = self.clean(&open_text(question, open));
        let choice = |(at, QuestionOption { label, .. }): (usize, &QuestionOption)| {
            let id = format!("{CHOICE}{at}");
            json!({"optionId": id, "name": self.clean(label), "kind": ALLOW_ONCE})
        };
        let none = json!({"optionId": REJECT_ONCE, "name": "None of these", "kind": REJECT_ONCE});
        let options = open.options.iter().enumerate().map(choice).chain([none]).collect();
        let fields = json!({"content": [call_text(&text)]});
        let answer = self.request_permission(id, question, None, (&one_line(&text), "other", fields), options).await;
        let chosen = answer.as_deref().and_then(|answer| answer.strip_prefix(CHOICE)?.parse::<usize>().ok());
        match chosen.and_then(|at| open.options.get(at)) {
            Some(option) => EditorAnswer::Open(OpenQuestionAnswer::Chosen(vec![option.label.clone()])),
            None => EditorAnswer::None,
        }
    }

    /// Requests a permission for the call that the question is about, or for one that stands for the question. Returns
    /// the id of the option that the person has chosen.
    async fn request_permission(
        &self,
        id: u64,
        question: &Question,
        tool: Option<&str>,
        (title, kind, fields): (&str, &str, Value),
        options: Vec<Value>,
    ) -> Option<String> {
        let known = self.in_progress.find(&question.from, tool).filter(|_| tool.is_some());
        let call = match &known {
            Some(call) => json!({"toolCallId": call.id}),
            None => json!({"toolCallId": format!("question/{id}"), "title": title, "kind": kind, "status": "pending"}),
        };
        let params = json!({"sessionId": self.session, "toolCall": with_members(call, fields), "options": options});
        let answer = self.connection.request("session/request_permission", &params).await;
        let is_offered = |chosen: &String| options.iter().any(|option| option["optionId"] == **chosen);
        let chosen = answer.ok().and_then(|answer| {
            let outcome = answer.get("outcome")?;
            let is_selected = outcome.get("outcome")?.as_str()? == "selected";
            is_selected.then(|| outcome.get("optionId")?.as_str().map(str::to_owned)).flatten().filter(is_offered)
        });
        if known.is_none() {
            let is_allowed = chosen.as_deref().is_some_and(|chosen| chosen != REJECT_ONCE);
            let status = if is_allowed { "completed" } else { "failed" };
            let ended = call_update(&format!("question/{id}"), json!({ "status": status }));
            self.connection.update(&self.session, ended).await;
        }
        chosen
    }

    async fn ask_in_form(&self, question: &Question, open: &OpenQuestion) -> EditorAnswer {
        let labels: Vec<_> = open.options.iter().map(|option| &option.label).collect();
        let field = match (labels.is_empty(), open.multi_select) {
            (true, _) => json!({"type": "string"}),
            (false, false) => json!({"type": "string", "enum": labels}),
            (false, true) => {
                let (items, most) = (json!({"type": "string", "enum": labels}), open.most_selections());
                json!({"type": "array", "items": items, "minItems": 1, "maxItems": most})
            }
        };
        let schema = json!({"type": "object", "properties": {ANSWER: field}, "required": [ANSWER]});
        let message = self.clean(&open_text(question, open));
        let params = json!({"sessionId": self.session, "mode": "form", "message": message, "requestedSchema": schema});
        let filled = self.connection.request("elicitation/create", &params).await;
        filled.map_or(EditorAnswer::None, |filled| form_answer(open, &filled))
    }
}

/// Reads the answer to a form.
fn form_answer(open: &OpenQuestion, filled: &Value) -> EditorAnswer {
    let is_accepted = filled.get("action").and_then(Value::as_str) == Some("accept");
    let answer = filled.get("content").and_then(|content| content.get(ANSWER)).filter(|_| is_accepted);
    match answer {
        Some(Value::String(text)) if open.options.iter().any(|option| option.label == *text) => {
            EditorAnswer::Open(OpenQuestionAnswer::Chosen(vec![text.clone()]))
        }
        Some(Value::String(text)) => EditorAnswer::Open(OpenQuestionAnswer::Text(text.clone())),
        Some(Value::Array(chosen)) => {
            let labels = chosen.iter().map(|label| label.as_str().map(str::to_owned)).collect::<Option<Vec<_>>>();
            labels.map_or(EditorAnswer::None, |labels| EditorAnswer::Open(OpenQuestionAnswer::Chosen(labels)))
        }
        _ => EditorAnswer::None,
    }
}

/// Passes the answer to the inbox. A question without a usable answer is declined: nobody would answer it any more.
fn give(inbox: &ApprovalInbox, asked: &InboxQuestion, answer: EditorAnswer) {
    let given = match answer {
        EditorAnswer::Verdict(verdict) => inbox.decide(asked.id, verdict),
        EditorAnswer::Open(answer) => inbox.answer(asked.id, answer),
        EditorAnswer::None => inbox.decline(asked.id),
    };
    // A decision of trust that could not be stored is an answer already.
    if given.is_err() {
        let _ = inbox.decline(asked.id);
    }
}

/// Returns the options of a permission in words.
fn permission_options(subject: &PermissionSubject) -> Vec<Value> {
    let (once, always) = match subject {
        PermissionSubject::Change { .. } => ("Allow", "Allow all changes of this tool in this session"),
        PermissionSubject::Folder { .. } | PermissionSubject::Server { .. } => {
            ("Allow in this session", "Allow from now on")
        }
        PermissionSubject::Program { .. } => ("Allow once", "Allow this program with any arguments from now on"),
        PermissionSubject::GitReading => ("Allow in this session", "Allow from now on"),
        PermissionSubject::Tool { .. } | PermissionSubject::Topic { .. } => ("Allow once", "Allow from now on"),
    };
    let option = |id: &str, name: &str| json!({"optionId": id, "name": name, "kind": id});
    let always = (!is_asked_each_time(subject)).then(|| option(ALLOW_ALWAYS, always));
    [option(ALLOW_ONCE, once)].into_iter().chain(always).chain([option(REJECT_ONCE, "Reject")]).collect()
}

/// Returns `true` for a change that is asked about even if its tool is trusted.
fn is_asked_each_time(subject: &PermissionSubject) -> bool {
    matches!(subject, PermissionSubject::Change { always_asked: true, .. })
}

fn open_text(question: &Question, open: &OpenQuestion) -> String {
    let options = open.options.iter().map(|QuestionOption { label, description }| match description.is_empty() {
        true => format!("\n- {label}"),
        false => format!("\n- {label}: {description}"),
    });
    format!("The agent `{}` asks: {}{}", question.from, open.text, options.collect::<String>())
}

fn places(locations: Vec<Value>) -> Value {
    match locations.is_empty() {
        true => json!({}),
        false => json!({ "locations": locations }),
    }
}

#[cfg(test)]
mod tests;
