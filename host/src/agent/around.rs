//! What stands around tool calls, outermost first.

use std::sync::Arc;

use super::{
    calls::make,
    delegate::Instance,
    middleware::{acted, failed},
};
use crate::{
    chat::{Content, ToolCall},
    error::{Fault, OnFailure},
    tool::{CallDecision, CallVerdict, Dispatched, Target, ToolBox, ToolCx, ToolMiddleware},
};

/// Makes a call as far as all of them allow it; and whether it counts for the budget. A call that no tool gets goes round
/// them: nothing is made.
pub(super) async fn call(
    me: &Arc<Instance>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
) -> (Dispatched, bool) {
    let Some((target, mut wanted)) = tools.target(call) else { return make(me, tools, cx, call).await };
    let mut passed = Vec::new();
    let mut answered = None;
    for middleware in around {
        let name = middleware.name();
        let CallDecision { verdict, arguments, state } = match decide(&**middleware, cx, &wanted, &target).await {
            Ok(decision) => decision,
            Err(denied) => return (tools.refuse(cx, call, &denied).await, false),
        };
        match verdict {
            CallVerdict::Allow => {}
            CallVerdict::Answer(content) => {
                acted(&cx.run, name, "answer").await;
                answered = Some((tools.answer(cx, call, content).await, false));
                break;
            }
            CallVerdict::Deny(why) => {
                acted(&cx.run, name, "deny").await;
                return (tools.refuse(cx, call, &Fault::Denied { message: why }).await, false);
            }
            CallVerdict::Ask { .. } => {
                acted(&cx.run, name, "deny").await;
                let message = format!("`{name}` wants a person to allow it, and nobody can be asked: go on without it");
                return (tools.refuse(cx, call, &Fault::Denied { message }).await, false);
            }
        }
        if let Some(arguments) = arguments {
            acted(&cx.run, name, "change-arguments").await;
            wanted.to_mut().arguments = arguments;
        }
        passed.push((middleware, state));
    }
    let (mut dispatched, counted) = match answered {
        Some(answered) => answered,
        None => make(me, tools, cx, &wanted).await,
    };
    for (middleware, state) in passed.into_iter().rev() {
        look_at(&**middleware, tools, cx, &wanted, &mut dispatched, state).await;
    }
    (dispatched, counted)
}

/// What one decides; one that fails lets the call pass, or the call is denied.
async fn decide(
    middleware: &dyn ToolMiddleware,
    cx: &ToolCx,
    call: &ToolCall,
    target: &Target,
) -> Result<CallDecision, Fault> {
    match middleware.before(&cx.run, call, target).await {
        Ok(decision) => Ok(decision),
        Err(fault) => {
            let (name, then) = (middleware.name(), middleware.on_failure());
            failed(&cx.run, name, then, &fault).await;
            match then {
                OnFailure::Skip => Ok(CallDecision { verdict: CallVerdict::Allow, arguments: None, state: Vec::new() }),
                OnFailure::Stop => {
                    Err(Fault::Denied { message: format!("`{name}`, which looks at every call, failed: {fault}") })
                }
            }
        }
    }
}

/// Lets one change what a call came to; where it fails, nobody is shown what it has not seen, or it stays as it is.
async fn look_at(
    middleware: &dyn ToolMiddleware,
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    dispatched: &mut Dispatched,
    state: Vec<u8>,
) {
    let result = &dispatched.result;
    let fault = result.is_error.then(|| Fault::other(result.text()));
    let outcome = fault.as_ref().map_or(Ok(&result.content[..]), Err);
    let (name, then) = (middleware.name(), middleware.on_failure());
    match middleware.after(&cx.run, call, outcome, state).await {
        Ok(None) => {}
        Ok(Some(content)) => {
            acted(&cx.run, name, "replace-result").await;
            dispatched.result = tools.result(call, content, result.is_error);
        }
        Err(fault) => {
            failed(&cx.run, name, then, &fault).await;
            if then == OnFailure::Stop {
                let text =
                    format!("The call was made, but its result is withheld: `{name}`, which looks at it, failed.");
                dispatched.result = tools.result(call, vec![Content::Text(text)], true);
            }
        }
    }
}
