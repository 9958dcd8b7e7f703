use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    approval::{ApprovalBroker, OpenQuestion, OpenQuestionAnswer, QuestionOption},
    chat::ToolHints,
    error::Fault,
    limits,
    tool::{self, Tool, ToolConcurrency, ToolOutput},
};

/// The arguments. Vendors that insist on every key send null for what is left out.
#[derive(Deserialize, JsonSchema)]
struct AskUserArgs {
    /// The question, in complete sentences.
    question: String,
    /// The topic, in one or two words.
    header: Option<String>,
    /// The choices, with unique labels. Omit for an answer in the person's own words.
    options: Option<Vec<AskUserOption>>,
    /// `true` if several options may be chosen.
    #[serde(alias = "multiSelect")]
    multi_select: Option<bool>,
    /// The maximum number of choices, if multi_select is true.
    #[serde(alias = "maxSelections")]
    max_selections: Option<usize>,
}

#[derive(Deserialize, JsonSchema)]
struct AskUserOption {
    /// The choice in a few words.
    label: String,
    /// The consequence of this choice.
    description: Option<String>,
}

/// The answer as the model reads it.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum AskUserAnswer {
    /// The person's own words.
    Answer(String),
    /// The labels of the chosen options.
    Chosen(Vec<String>),
}

/// Creates the tool `ask_user`: an agent asks a person, and waits for the answer up to [`limits::QUESTION_TIME`].
pub fn ask_user(broker: ApprovalBroker) -> impl Tool {
    let description = "Asks the person you work for, and waits for the answer. Ask only what you cannot find out yourself \
                       and what affects your next steps. The person may also answer in other words than the options.";
    let ask = move |cx: tool::ToolCx, args: AskUserArgs| {
        let broker = broker.clone();
        async move {
            // A person may take hours, in which other agents work.
            let answer = cx.run.wait_for_others(broker.ask(&cx.run, args.into())).await?.ok_or_else(|| {
                Fault::other(
                    "no person can be asked: decide yourself and state your assumption, or report what you need to know",
                )
            })?;
            ToolOutput::json(&match answer {
                OpenQuestionAnswer::Text(text) => AskUserAnswer::Answer(text),
                OpenQuestionAnswer::Chosen(labels) => AskUserAnswer::Chosen(labels),
            })
        }
    };
    // The broker's own time limit expires first.
    tool::function("ask_user", description, ask)
        .with_time_limit(limits::QUESTION_TIME + limits::TOOL_TIME)
        .with_hints(ToolHints { read_only: true, ..ToolHints::default() })
        .with_concurrency(ToolConcurrency::Independent)
}

impl From<AskUserArgs> for OpenQuestion {
    fn from(args: AskUserArgs) -> Self {
        let choice = |offered: AskUserOption| QuestionOption {
            label: offered.label,
            description: offered.description.unwrap_or_default(),
        };
        Self {
            text: args.question,
            header: args.header.unwrap_or_default(),
            options: args.options.unwrap_or_default().into_iter().map(choice).collect(),
            multi_select: args.multi_select.unwrap_or_default(),
            max_selections: args.max_selections,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;
    use crate::{
        approval::{HeadlessPolicy, QuestionKind, TrustedSubjects},
        chat::ToolCall,
        event::{RunCaller, RunCallerState, RunCx},
        tool::{ToolBox, ToolCx},
    };

    /// Counts the waits of an agent.
    #[derive(Default)]
    struct WaitCounter(AtomicUsize);

    impl RunCallerState for WaitCounter {
        fn begin_wait(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }

        fn end_wait(&self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    async fn call(broker: &ApprovalBroker, arguments: &str) -> (bool, String) {
        call_in(RunCx::new("a"), broker, arguments).await
    }

    async fn call_in(run: RunCx, broker: &ApprovalBroker, arguments: &str) -> (bool, String) {
        let mut tools = ToolBox::new();
        tools.register(Arc::new(ask_user(broker.clone()))).unwrap();
        let cx = ToolCx::new(run);
        let call = ToolCall { id: "c".into(), name: "ask_user".into(), arguments: arguments.into(), meta: vec![] };
        let result = tools.dispatch(&cx, &call).await.result;
        (result.is_error, result.text())
    }

    #[tokio::test]
    async fn ask_user_returns_the_persons_answer() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let mut inbox = broker.attend().unwrap();
        let chosen =
            |labels: &[&str]| Some(OpenQuestionAnswer::Chosen(labels.iter().map(|label| (*label).into()).collect()));
        for (arguments, answer, shown) in [
            (r#"{"question":"why?"}"#, Some(OpenQuestionAnswer::Text("so".into())), r#"{"answer":"so"}"#),
            (
                r#"{"question":"q","options":[{"label":"a"},{"label":"b","description":"B"}]}"#,
                chosen(&["b"]),
                r#"{"chosen":["b"]}"#,
            ),
            (
                r#"{"question":"q","multiSelect":true,"maxSelections":2,"options":[{"label":"a"},{"label":"b"}]}"#,
                chosen(&["b", "a"]),
                r#"{"chosen":["a","b"]}"#,
            ),
            (
                r#"{"question":"q","header":null,"options":null,"multi_select":null,"max_selections":null}"#,
                None,
                "the person declined to answer",
            ),
        ] {
            let person = async {
                let asked = inbox.next().await.unwrap();
                assert!(matches!(&asked.question.kind, QuestionKind::Open(_)));
                match answer {
                    Some(answer) => inbox.answer(asked.id, answer).unwrap(),
                    None => inbox.decline(asked.id).unwrap(),
                }
            };
            let ((is_error, text), ()) = tokio::join!(call(&broker, arguments), person);
            assert!(text.starts_with(shown) && is_error != shown.starts_with('{'), "{arguments}: {text}");
        }
    }

    #[tokio::test]
    async fn agent_that_asks_a_person_holds_no_permit() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (mut inbox, waits) = (broker.attend().unwrap(), Arc::<WaitCounter>::default());
        let run = RunCx { caller: RunCaller::new(Arc::downgrade(&waits)), ..RunCx::new("a") };
        let person = async {
            let asked = inbox.next().await.unwrap();
            assert_eq!(waits.0.load(Ordering::Relaxed), 1);
            inbox.answer(asked.id, OpenQuestionAnswer::Text("so".into())).unwrap();
        };
        let ((is_error, text), ()) = tokio::join!(call_in(run, &broker, r#"{"question":"why?"}"#), person);
        assert!(!is_error && waits.0.load(Ordering::Relaxed) == 0, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn ask_user_without_an_answer_says_what_to_do() {
        let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
        for (arguments, shown) in [
            (r#"{"question":"why?"}"#, "no person can be asked: decide yourself"),
            (r#"{"question":" "}"#, "the question is empty"),
            (r#"{"header":"h"}"#, "the arguments do not match the schema: missing field `question`"),
        ] {
            let (is_error, text) = call(&broker, arguments).await;
            assert!(is_error && text.starts_with(shown), "{arguments}: {text}");
        }
        let _away = broker.attend().unwrap();
        let (is_error, text) = call(&broker, r#"{"question":"why?"}"#).await;
        assert!(is_error && text == "no answer within 12 hours", "{text}");
    }
}
