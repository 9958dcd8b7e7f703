use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{
    fixture::{ContentFixture, FaultFixture, RunFixture},
    record::{TrialRecord, TrialWatcher, recorded},
};
use crate::{
    change::{ChangeApplier, ChangeSummary},
    chat::{ToolCall, ToolResult, ToolResultContent},
    config::unknown,
    error::{ErrorKind, Fault, Report},
    event::RunCx,
    limits,
    plugin::{Plugin, PluginTool},
    tool::{ChangeProposalPart, Tool, ToolBox, ToolCx, ToolOutput, WrappedTool},
};

/// The outcome of one tool call.
#[derive(Debug)]
pub struct ToolTrial {
    /// The result as a model reads it, with all that the host keeps of it. File changes count as made.
    pub result: ToolResult,
    /// The failure, if the result is one.
    pub fault: Option<Fault>,
    /// The proposed file changes. Nothing was changed.
    pub proposal: Option<ProposedChanges>,
    /// The log and the figures.
    pub record: TrialRecord,
}

/// File changes that a tool proposes.
#[derive(Debug, Clone)]
pub struct ProposedChanges {
    /// A summary of each change.
    pub changes: Vec<ChangeSummary>,
    /// The description for people, with unified diffs, bounded.
    pub description: String,
}

impl ToolTrial {
    /// Returns the number of characters that a model with a large window reads before it has to ask for the rest; `None` if it
    /// reads everything.
    pub fn shown_chars(&self) -> Option<usize> {
        let chars = self.result.text().chars().count();
        (chars > limits::TOOL_RESULT_CHARS).then_some(limits::TOOL_RESULT_CHARS)
    }

    /// Returns the outcome as JSON: `result`, `error`, `proposal`, and the record.
    pub fn to_json(&self) -> Value {
        let mut json = json!(self.record);
        let content: Vec<_> = self.result.content.iter().map(listed).collect();
        json["result"] = json!({ "is_error": self.result.is_error, "content": content });
        json["error"] = json!(self.fault.as_ref().map(FaultFixture::from));
        json["proposal"] = json!(self.proposal.as_ref().map(|proposal| {
            let changes: Vec<_> = proposal.changes.iter().map(change_json).collect();
            json!({ "changes": changes, "diff": proposal.description })
        }));
        json
    }
}

/// Returns a piece of content as JSON. Of media only the type and the size are listed.
fn listed(content: &ToolResultContent) -> Value {
    match content {
        ToolResultContent::Media(media) => {
            json!({ "media": { "media_type": media.media_type, "name": media.name, "bytes": media.bytes() } })
        }
        content => json!(ContentFixture::from(content)),
    }
}

fn change_json(change: &ChangeSummary) -> Value {
    let (added, removed) = change.lines.unzip();
    json!({ "act": change.act, "path": change.path, "to": change.to, "added": added, "removed": removed })
}

/// Calls one tool of a plugin. Proposed file changes are compared with the files and not made.
///
/// # Errors
///
/// A [`Report`] if the plugin has no such tool, or the arguments are not a JSON object. A failure of the tool is part of the
/// outcome.
pub async fn call_tool(
    plugin: &Arc<Plugin>,
    name: &str,
    arguments: &str,
    watch: &mut TrialWatcher<'_>,
) -> Result<ToolTrial, Report> {
    check_arguments(arguments)?;
    let tools: Vec<_> = PluginTool::all(plugin).collect();
    let Some(tool) = tools.iter().find(|tool| tool.spec().name == name) else {
        let names = tools.iter().map(|tool| tool.spec().name.as_str());
        return Err(unknown("tool", name, names).cause(format!("looked up in plugin `{}`", plugin.id())));
    };
    let observed =
        Arc::new(ObservedTool { tool: Arc::clone(tool), plugin: Arc::clone(plugin), seen: Mutex::default() });
    let mut toolbox = ToolBox::new();
    toolbox.register(Arc::clone(&observed) as Arc<dyn Tool>).map_err(|conflict| {
        // There is no other tool in it.
        Report::new(ErrorKind::Bug, conflict.to_string())
    })?;
    let call = ToolCall { id: "call-1".into(), name: name.into(), arguments: arguments.into(), meta: Vec::new() };
    let work = async |cx: RunCx| toolbox.dispatch(&ToolCx::new(cx), &call).await.result;
    let (result, record) = recorded(&RunFixture::default(), watch, work).await;
    let seen = observed.take_observation();
    // What the host refuses before the tool, or ends after it, has no fault of the tool.
    let fault = seen.fault.or_else(|| result.is_error.then(|| Fault::other(result.text())));
    Ok(ToolTrial { fault, proposal: seen.proposal, result, record })
}

/// Checks that the arguments are a JSON object of a size that a tool is passed.
fn check_arguments(arguments: &str) -> Result<(), Report> {
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    let most = limits::ARGUMENT_BYTES;
    if arguments.len() > most {
        return Err(usage(format!("the arguments have {} bytes, the maximum is {most}", arguments.len())));
    }
    match serde_json::from_str::<Value>(arguments) {
        Ok(Value::Object(_)) => Ok(()),
        Ok(_) => Err(usage("the arguments are not a JSON object".into()).hint("write them as '{\"name\": …}'")),
        Err(error) => {
            let (line, column) = (error.line(), error.column());
            let text = error.to_string();
            let cause = text.split(" at line ").next().unwrap_or_default().to_owned();
            Err(usage(format!("the arguments are not JSON (line {line}, column {column})"))
                .cause(cause)
                .hint("put the arguments in single quotes, and names and texts in them in double quotes"))
        }
    }
}

/// The facts about a call that its result does not have.
#[derive(Debug, Default)]
struct CallObservation {
    fault: Option<Fault>,
    proposal: Option<ProposedChanges>,
}

/// A tool whose failures and proposed file changes are noted. A model may read all that the host keeps of its results.
struct ObservedTool {
    tool: Arc<dyn Tool>,
    plugin: Arc<Plugin>,
    seen: Mutex<CallObservation>,
}

impl ObservedTool {
    fn take_observation(&self) -> CallObservation {
        std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn note(&self, note: impl FnOnce(&mut CallObservation)) {
        note(&mut self.seen.lock().unwrap_or_else(PoisonError::into_inner));
    }

    async fn output(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        match self.tool.call(cx, call).await? {
            ToolOutput::Propose(parts) => self.plan(parts).await,
            ToolOutput::Needs(need) => {
                let how = self.plugin.settings().granted_by(&need.grant_line());
                Err(Fault::Denied { message: format!("{need} is not granted; grant it with {how}") })
            }
            output => Ok(output),
        }
    }

    /// Compares the proposed changes with the files.
    async fn plan(&self, parts: Vec<ChangeProposalPart>) -> Result<ToolOutput, Fault> {
        let changes = ChangeProposalPart::changes(&parts);
        // Reading the files blocks.
        let planned = tokio::task::spawn_blocking(move || ChangeApplier::default().plan(&changes)).await;
        let plan = match planned {
            Ok(plan) => plan?,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        let proposal = ProposedChanges { changes: plan.summaries().collect(), description: plan.proposed() };
        self.note(|seen| seen.proposal = Some(proposal));
        Ok(ToolOutput::Reply(ChangeProposalPart::made(parts, &plan)))
    }
}

#[async_trait]
impl WrappedTool for ObservedTool {
    fn inner(&self) -> &dyn Tool {
        &*self.tool
    }

    fn result_chars(&self) -> usize {
        limits::KEPT_RESULT_CHARS
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let output = self.output(cx, call).await;
        if let Err(fault) = &output {
            self.note(|seen| seen.fault = Some(fault.clone()));
        }
        output
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_no_json_object_are_refused_with_place() {
        assert_eq!(check_arguments(r#"{"a": [1]}"#), Ok(()));
        for (arguments, says, hint) in [
            ("{\n\"a\": }", "the arguments are not JSON (line 2, column 6)", "double quotes"),
            ("{'a': 1}", "the arguments are not JSON (line 1, column 2)", "double quotes"),
            ("", "the arguments are not JSON (line 1, column 0)", "double quotes"),
            ("[1]", "the arguments are not a JSON object", "{\"name\": …}"),
        ] {
            let report = check_arguments(arguments).unwrap_err();
            let told = report.hint.clone().unwrap_or_default();
            assert!(report.message == says && told.contains(hint), "{arguments}: {report} ({told})");
        }
        let longest = format!("{{\"a\": \"{}\"}}", "x".repeat(limits::ARGUMENT_BYTES - 9));
        assert_eq!((longest.len(), check_arguments(&longest)), (limits::ARGUMENT_BYTES, Ok(())));
        let refused = check_arguments(&format!("{longest} ")).unwrap_err();
        assert_eq!(refused.message, "the arguments have 1048577 bytes, the maximum is 1048576");
    }
}
