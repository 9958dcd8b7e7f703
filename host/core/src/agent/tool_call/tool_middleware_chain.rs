//! The middleware chain around tool calls, outermost first.

use std::sync::Arc;

use super::counted_call::make;
use crate::{
    agent::{
        context::RunState,
        middleware::{acted_on, unless_failed},
    },
    chat::{ToolCall, ToolResultContent},
    error::Fault,
    event::MiddlewareAction,
    tool::{DispatchOutcome, ToolBox, ToolCallDecision, ToolCallVerdict, ToolCx, ToolMiddleware, ToolTarget, kept},
};

/// Makes a call through the middleware around calls, and returns whether it counts for the budget. `is_again`: the
/// call had begun when the host was interrupted.
pub(crate) async fn call_through(
    me: &Arc<RunState>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    is_again: bool,
) -> (DispatchOutcome, bool) {
    match around {
        [] => make(me, tools, cx, call, is_again).await,
        around => Box::pin(call_through_chain(me, around, tools, cx, call, is_again)).await,
    }
}

/// Makes a call if all middleware allows it. Also returns whether the call counts for the budget. A call that reaches no
/// tool bypasses the middleware. `is_again`: the call had begun when the host was interrupted.
async fn call_through_chain(
    me: &Arc<RunState>,
    around: &[Arc<dyn ToolMiddleware>],
    tools: &ToolBox,
    cx: &ToolCx,
    call: &ToolCall,
    is_again: bool,
) -> (DispatchOutcome, bool) {
    let Some((target, mut wanted)) = tools.target(call) else { return make(me, tools, cx, call, is_again).await };
    let mut passed = Vec::new();
    let mut answered = None;
    for middleware in around {
        let name = middleware.name();
        let ToolCallDecision { verdict, arguments, state } = match decide(&**middleware, cx, &wanted, &target).await {
            Ok(decision) => decision,
            Err(denied) => return (DispatchOutcome::refused(call, &denied), false),
        };
        match verdict {
            ToolCallVerdict::Allow => {}
            ToolCallVerdict::Answer(content) => {
                acted_on(&cx.run, name, MiddlewareAction::Answer, &call.name, None).await;
                answered = Some((DispatchOutcome::answered(call, content), false));
                break;
            }
            ToolCallVerdict::Deny(why) => return denied(cx, call, name, why).await,
            ToolCallVerdict::Ask { .. } => {
                let why = format!(
                    "middleware `{name}` requires the approval of a person, and no person can be asked here; continue \
                     without this call"
                );
                return denied(cx, call, name, why).await;
            }
        }
        if let Some(arguments) = arguments {
            acted_on(&cx.run, name, MiddlewareAction::ChangeArguments, &call.name, None).await;
            wanted.to_mut().arguments = arguments;
        }
        passed.push((middleware, state));
    }
    let (mut dispatched, counted) = match answered {
        Some(answered) => answered,
        None => make(me, tools, cx, &wanted, is_again).await,
    };
    for (middleware, state) in passed.into_iter().rev() {
        look_at(&**middleware, cx, &wanted, &mut dispatched, state).await;
    }
    (dispatched, counted)
}

/// Returns the result of a call that the middleware `by` denies.
async fn denied(cx: &ToolCx, call: &ToolCall, by: &str, why: String) -> (DispatchOutcome, bool) {
    acted_on(&cx.run, by, MiddlewareAction::Deny, &call.name, Some(&why)).await;
    (DispatchOutcome::refused(call, &Fault::Denied { message: why }), false)
}

/// Returns the decision of a middleware. If it fails, `on_failure` decides whether the call passes or is denied.
async fn decide(
    middleware: &dyn ToolMiddleware,
    cx: &ToolCx,
    call: &ToolCall,
    target: &ToolTarget,
) -> Result<ToolCallDecision, Fault> {
    let name = middleware.name();
    let decision = middleware.before(&cx.run, call, target).await;
    let decision = unless_failed(&cx.run, name, middleware.on_failure(), decision).await;
    let pass = || ToolCallDecision { verdict: ToolCallVerdict::Allow, arguments: None, state: Vec::new() };
    let denied =
        |fault| Fault::Denied { message: format!("the call was denied because middleware `{name}` failed: {fault}") };
    decision.map(|decision| decision.unwrap_or_else(pass)).map_err(denied)
}

/// Lets a middleware change the result of a call. If it fails, `on_failure` decides whether the result stays or is
/// withheld.
async fn look_at(
    middleware: &dyn ToolMiddleware,
    cx: &ToolCx,
    call: &ToolCall,
    dispatched: &mut DispatchOutcome,
    state: Vec<u8>,
) {
    let result = &dispatched.result;
    let fault = result.is_error.then(|| Fault::other(result.text()));
    let outcome = fault.as_ref().map_or(Ok(&result.content[..]), Err);
    let name = middleware.name();
    let changed = middleware.after(&cx.run, call, outcome, state).await;
    match unless_failed(&cx.run, name, middleware.on_failure(), changed).await {
        Ok(None | Some(None)) => {}
        Ok(Some(Some(content))) => {
            acted_on(&cx.run, name, MiddlewareAction::ReplaceResult, &call.name, None).await;
            dispatched.result = kept(call, content, result.is_error);
        }
        Err(_) => {
            let text = format!("The call was made, but its result is withheld because middleware `{name}` failed.");
            dispatched.result = kept(call, vec![ToolResultContent::Text(text)], true);
        }
    }
}
