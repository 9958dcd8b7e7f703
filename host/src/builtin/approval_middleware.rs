use std::sync::Arc;

use async_trait::async_trait;

use crate::{
    approval::{ApprovalBroker, PermissionSubject, Verdict},
    chat::{ToolCall, ToolResultContent},
    error::{Fault, OnFailure, cut},
    event::{AnsweredBy, RunCx},
    limits,
    tool::{ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget},
};

/// A tool middleware whose questions are put to a person.
pub struct ApprovalMiddleware {
    inner: Arc<dyn ToolMiddleware>,
    broker: ApprovalBroker,
    agent: String,
    digest: String,
}

impl ApprovalMiddleware {
    /// Wraps the middleware of this agent; questions go to `broker`. `digest` is that of the plugin with its params, empty for
    /// a middleware of the host: an answer to trust the topic applies to this digest alone.
    pub fn new(
        inner: Arc<dyn ToolMiddleware>,
        broker: ApprovalBroker,
        agent: impl Into<String>,
        digest: impl Into<String>,
    ) -> Self {
        Self { inner, broker, agent: agent.into(), digest: digest.into() }
    }

    async fn ask(&self, cx: &RunCx, call: &ToolCall, text: &str, topic: String) -> Result<ToolCallVerdict, Fault> {
        let subject = PermissionSubject::Topic {
            agent: self.agent.clone(),
            origin: self.inner.name().into(),
            topic,
            digest: self.digest.clone(),
        };
        // The call remains visible however long the text is.
        let text = cut(text, limits::PERMISSION_DETAIL_CHARS / 2);
        let detail = format!("{text}\n{} {}", call.name, call.arguments);
        let ruling = self.broker.permit(cx, subject, &detail).await?;
        if ruling.verdict != Verdict::No {
            return Ok(ToolCallVerdict::Allow);
        }
        let (rule, name) = (self.inner.name(), &call.name);
        Ok(ToolCallVerdict::Deny(match ruling.by {
            AnsweredBy::Person => format!(
                "the person declined this call of `{name}` when `{rule}` asked: do not try to achieve the same in another way; \
                 continue without it, or explain why you need it"
            ),
            AnsweredBy::Policy | AnsweredBy::Trust => format!(
                "`{rule}` requires a person's consent to this call of `{name}`, and no person can be asked: continue without \
                 it, or report what you could not do"
            ),
        }))
    }
}

#[async_trait]
impl ToolMiddleware for ApprovalMiddleware {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn on_failure(&self) -> OnFailure {
        self.inner.on_failure()
    }

    async fn before(&self, cx: &RunCx, call: &ToolCall, target: &ToolTarget) -> Result<ToolCallDecision, Fault> {
        let decision = self.inner.before(cx, call, target).await?;
        let verdict = match decision.verdict {
            ToolCallVerdict::Ask { text, topic } => {
                // Shows the call with the changed arguments, not those that the model wrote.
                let changed = decision.arguments.clone().map(|arguments| ToolCall { arguments, ..call.clone() });
                self.ask(cx, changed.as_ref().unwrap_or(call), &text, topic).await?
            }
            other => other,
        };
        Ok(ToolCallDecision { verdict, ..decision })
    }

    async fn after(
        &self,
        cx: &RunCx,
        call: &ToolCall,
        outcome: Result<&[ToolResultContent], &Fault>,
        state: Vec<u8>,
    ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
        self.inner.after(cx, call, outcome, state).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        approval::{HeadlessPolicy, QuestionKind, TrustedSubjects},
        chat::ToolHints,
    };

    /// A middleware that asks about everything.
    #[derive(Default)]
    struct Careful {
        text: Option<String>,
    }

    #[async_trait]
    impl ToolMiddleware for Careful {
        fn name(&self) -> &str {
            "careful"
        }

        async fn before(&self, _: &RunCx, call: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
            let verdict = ToolCallVerdict::Ask {
                text: self.text.clone().unwrap_or_else(|| "It spends money.".into()),
                topic: call.name.clone(),
            };
            Ok(ToolCallDecision { verdict, arguments: Some(r#"{"amount":1}"#.into()), state: vec![7] })
        }
    }

    async fn decided(broker: &ApprovalBroker, tool: &str) -> ToolCallDecision {
        decided_by(Careful::default(), broker, tool).await
    }

    async fn decided_by(careful: Careful, broker: &ApprovalBroker, tool: &str) -> ToolCallDecision {
        let asking = ApprovalMiddleware::new(Arc::new(careful), broker.clone(), "ada", "d");
        let call = ToolCall { id: "c".into(), name: tool.into(), arguments: r#"{"amount":9}"#.into(), meta: vec![] };
        let target = ToolTarget { origin: "host".into(), hints: ToolHints::default() };
        asking.before(&RunCx::new("ada"), &call, &target).await.unwrap()
    }

    #[tokio::test]
    async fn asked_person_decides_a_middleware_question() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let ToolCallVerdict::Deny(why) = decided(&broker, "pay").await.verdict else { panic!("nobody was there") };
        assert!(why.contains("`careful` requires a person's consent to this call of `pay`"), "{why}");
        let mut inbox = broker.attend().unwrap();
        for (answer, allowed) in [(Verdict::No, false), (Verdict::Yes, true), (Verdict::Trust, true)] {
            let person = async {
                let asked = inbox.next().await.unwrap();
                let QuestionKind::Permission { subject, detail } = &asked.question.kind else { panic!("{asked:?}") };
                assert_eq!(subject.to_string(), "do what `careful` asks about: `pay`");
                assert_eq!(detail, "It spends money.\npay {\"amount\":1}");
                inbox.decide(asked.id, answer).unwrap();
            };
            let (decision, ()) = tokio::join!(decided(&broker, "pay"), person);
            assert_eq!(decision.verdict == ToolCallVerdict::Allow, allowed, "{answer:?}: {decision:?}");
            assert_eq!((decision.arguments.as_deref(), decision.state), (Some(r#"{"amount":1}"#), vec![7]));
        }
        // No further question about this topic.
        assert_eq!(decided(&broker, "pay").await.verdict, ToolCallVerdict::Allow);
    }

    #[tokio::test]
    async fn long_middleware_text_does_not_hide_the_call() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let mut inbox = broker.attend().unwrap();
        let long = Careful { text: Some("é".repeat(limits::QUESTION_BYTES / 2)) };
        let person = async {
            let asked = inbox.next().await.unwrap();
            let QuestionKind::Permission { detail, .. } = &asked.question.kind else { panic!("{asked:?}") };
            assert!(detail.ends_with("\npay {\"amount\":1}"), "{detail}");
            inbox.decide(asked.id, Verdict::No).unwrap();
        };
        tokio::join!(decided_by(long, &broker, "pay"), person);
    }
}
