use std::{sync::Arc, time::Duration};

use async_trait::async_trait;

use crate::{
    approval::{ApprovalBroker, PermissionSubject, Verdict},
    chat::ToolCall,
    error::{Fault, seconds},
    event::AnsweredBy,
    limits,
    tool::{Tool, ToolCx, ToolOutput, WrappedTool},
};

/// A tool whose every call, shown with its arguments, must be approved.
pub struct ConfirmedTool {
    tool: Arc<dyn Tool>,
    broker: ApprovalBroker,
    agent: String,
    digest: String,
}

impl ConfirmedTool {
    /// Wraps the tool of this agent; `broker` is asked before each call. `digest` is that of the plugin that provides the
    /// tool, empty for a tool of the host: an answer to trust the tool applies to this digest alone.
    pub fn new(
        tool: Arc<dyn Tool>,
        broker: ApprovalBroker,
        agent: impl Into<String>,
        digest: impl Into<String>,
    ) -> Self {
        Self { tool, broker, agent: agent.into(), digest: digest.into() }
    }
}

#[async_trait]
impl WrappedTool for ConfirmedTool {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    /// The tool's own limit, preceded by [`limits::QUESTION_TIME`].
    fn time_limit(&self) -> Duration {
        limits::QUESTION_TIME + self.tool.time_limit()
    }

    /// The call has no effect while the question is open.
    fn begins_itself(&self) -> bool {
        true
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let name = &self.spec().name;
        let subject = PermissionSubject::Tool {
            agent: self.agent.clone(),
            origin: self.origin().into(),
            name: name.clone(),
            digest: self.digest.clone(),
        };
        let ruling = self.broker.permit(&cx.run, subject, &call.arguments).await?;
        if ruling.verdict == Verdict::No {
            return Err(declined(name, ruling.by));
        }
        cx.begin(&*self.tool).await?;
        // The time that the person took does not count for the tool.
        let limit = self.tool.time_limit();
        match tokio::time::timeout(limit, self.tool.call(cx, call)).await {
            Ok(outcome) => outcome,
            Err(_) => Err(Fault::Timeout { message: format!("the call took longer than {}", seconds(limit)) }),
        }
    }
}

/// Returns the error that a model reads when a call of this tool is declined.
pub(super) fn declined(tool: &str, by: AnsweredBy) -> Fault {
    let message = match by {
        AnsweredBy::Person => format!(
            "the person declined this call of `{tool}`: do not try to achieve the same in another way; continue without it, \
             or explain why you need it"
        ),
        AnsweredBy::Policy | AnsweredBy::Trust => format!(
            "a call of `{tool}` needs a person's consent, and no person can be asked: continue without it, or report what \
             you could not do"
        ),
    };
    Fault::Denied { message }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use schemars::JsonSchema;
    use serde::Deserialize;

    use super::*;
    use crate::{
        approval::{HeadlessPolicy, QuestionKind, TrustedSubjects},
        event::RunCx,
        tool::{self, CallStartHook, ToolBox},
    };

    #[derive(Deserialize, JsonSchema)]
    struct Args {
        hang: bool,
    }

    /// Returns a toolbox with one confirmed tool, and the number of its runs.
    fn tools(broker: &ApprovalBroker) -> (ToolBox, Arc<AtomicUsize>) {
        let ran = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&ran);
        let tool = tool::function("wipe", "Wipes.", move |_, args: Args| {
            count.fetch_add(1, Ordering::Relaxed);
            async move {
                if args.hang {
                    std::future::pending::<()>().await;
                }
                Ok("wiped")
            }
        });
        let mut tools = ToolBox::new();
        tools.register(Arc::new(ConfirmedTool::new(Arc::new(tool), broker.clone(), "a", ""))).unwrap();
        (tools, ran)
    }

    async fn call(tools: &ToolBox, hang: bool) -> (bool, String) {
        call_told(tools, hang, CallStartHook::default()).await
    }

    async fn call_told(tools: &ToolBox, hang: bool, begin: CallStartHook) -> (bool, String) {
        let cx = ToolCx { begin, ..ToolCx::new(RunCx::new("a")) };
        let arguments = format!(r#"{{"hang":{hang}}}"#);
        let call = ToolCall { id: "c".into(), name: "wipe".into(), arguments, meta: vec![] };
        let result = tools.dispatch(&cx, &call).await.result;
        (result.is_error, result.text())
    }

    #[tokio::test]
    async fn confirmed_tool_runs_only_when_allowed() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (tools, ran) = tools(&broker);
        let (is_error, text) = call(&tools, false).await;
        assert!(is_error && text.contains("no person can be asked"), "{text}");
        let mut inbox = broker.attend().unwrap();
        for (verdict, runs) in [(Verdict::No, 0), (Verdict::Yes, 1), (Verdict::Trust, 2)] {
            let person = async {
                let asked = inbox.next().await.unwrap();
                let QuestionKind::Permission { subject, detail } = &asked.question.kind else { panic!("{asked:?}") };
                assert_eq!(subject.to_string(), "call the tool `wipe` of `host`");
                assert_eq!(detail, r#"{"hang":false}"#);
                inbox.decide(asked.id, verdict).unwrap();
            };
            let ((is_error, text), ()) = tokio::join!(call(&tools, false), person);
            assert_eq!(ran.load(Ordering::Relaxed), runs);
            assert!(is_error == (verdict == Verdict::No), "{verdict:?}: {text}");
            assert!(!is_error || text.starts_with("the person declined this call of `wipe`"), "{text}");
        }
        // No further question.
        assert_eq!(call(&tools, false).await, (false, "wiped".into()));
    }

    #[tokio::test]
    async fn confirmed_call_begins_after_approval() {
        let broker = ApprovalBroker::new(HeadlessPolicy::Never, TrustedSubjects::default());
        let (tools, ran) = tools(&broker);
        let mut inbox = broker.attend().unwrap();
        for (verdict, fails, begins, runs) in
            [(Verdict::No, false, 0, 0), (Verdict::Yes, true, 1, 0), (Verdict::Yes, false, 1, 1)]
        {
            let told = Arc::new(AtomicUsize::new(0));
            let count = Arc::clone(&told);
            let begin = CallStartHook::new(move || {
                count.fetch_add(1, Ordering::Relaxed);
                Box::pin(async move { if fails { Err(Fault::other("the disk is full")) } else { Ok(()) } })
            });
            let person = async {
                let asked = inbox.next().await.unwrap();
                assert_eq!(told.load(Ordering::Relaxed), 0, "nothing has begun while the question is open");
                inbox.decide(asked.id, verdict).unwrap();
            };
            let ((is_error, text), ()) = tokio::join!(call_told(&tools, false, begin), person);
            assert_eq!((told.load(Ordering::Relaxed), ran.load(Ordering::Relaxed)), (begins, runs), "{text}");
            assert_eq!(is_error, runs == 0);
            assert!(!fails || text == "the disk is full", "{text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn confirmed_tool_time_limit_excludes_the_question() {
        let broker = ApprovalBroker::new(HeadlessPolicy::All, TrustedSubjects::default());
        let (tools, _) = tools(&broker);
        let (is_error, text) = call(&tools, true).await;
        assert!(is_error && text == "the call took longer than 60 seconds", "{text}");
        let mut inbox = broker.attend().unwrap();
        let person = async {
            let asked = inbox.next().await.unwrap();
            tokio::time::sleep(limits::TOOL_TIME * 3).await;
            inbox.decide(asked.id, Verdict::Yes).unwrap();
        };
        let ((is_error, text), ()) = tokio::join!(call(&tools, false), person);
        assert!(!is_error, "{text}");
    }
}
