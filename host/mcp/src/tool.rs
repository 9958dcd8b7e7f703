//! Tools of MCP servers as tools of an agent.

use std::{convert::Infallible, sync::Arc, time::Duration};

use async_trait::async_trait;
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, ErrorData, InputRequiredResult,
    RequestParamsMeta, ServerResult,
};
use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    McpClient, PinStatus, Pins, ServerTool,
    call_context::{McpCallCx, McpCallExtension, McpCallProgress},
    call_output,
    client::{McpClientInner, McpConnectionHandle},
    client_request::{McpRequestError, fault_of},
};
use shelly_core::{
    chat::{ToolCall, ToolSpec},
    error::{Fault, cut, seconds},
    event::Event,
    limits,
    tool::{ConcurrencyDomain, Tool, ToolConcurrency, ToolCx, ToolOutput},
};

/// The tools of a server, by approval.
pub struct McpToolOffer {
    /// The approved tools, ready to be called.
    pub tools: Vec<Arc<McpTool>>,
    /// The tools that are not approved as they are now.
    pub blocked: Vec<BlockedMcpTool>,
}

/// A tool that is not approved as it is now.
#[derive(Debug, Clone)]
pub struct BlockedMcpTool {
    /// The tool, with the digest to approve.
    pub tool: Arc<ServerTool>,
    /// The reason: the tool is new or has changed.
    pub state: PinStatus,
}

impl McpClient {
    /// Returns the tools that `pins` approves as they are now, and those that are blocked until they are approved.
    pub fn offer(self: &Arc<Self>, pins: &Pins) -> McpToolOffer {
        McpToolOffer::of(self, pins)
    }
}

impl McpToolOffer {
    fn of(client: &Arc<McpClient>, pins: &Pins) -> Self {
        let (mut tools, mut blocked) = (Vec::new(), Vec::new());
        for tool in &client.listing().tools {
            match pins.state(&tool.name, &tool.digest) {
                PinStatus::Unchanged => tools.push(Arc::new(McpTool::new(client, tool))),
                state => blocked.push(BlockedMcpTool { tool: Arc::clone(tool), state }),
            }
        }
        Self { tools, blocked }
    }
}

/// One approved tool of a server. Its calls are refused if it has changed since the approval.
pub struct McpTool {
    /// Keeps the connection alive.
    client: Arc<McpClient>,
    tool: Arc<ServerTool>,
    origin: String,
}

impl McpTool {
    fn new(client: &Arc<McpClient>, tool: &Arc<ServerTool>) -> Self {
        let origin = format!("mcp:{}", client.name());
        Self { client: Arc::clone(client), tool: Arc::clone(tool), origin }
    }

    /// Returns the tool as its server lists it.
    pub fn as_listed(&self) -> &ServerTool {
        &self.tool
    }
}

#[async_trait]
impl Tool for McpTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.tool.spec
    }

    fn origin(&self) -> &str {
        &self.origin
    }

    /// Puts all tools of one server into one domain, since the server may keep state, and those of a server on this machine
    /// into that of files too.
    fn concurrency(&self) -> ToolConcurrency {
        let own = ConcurrencyDomain::named(self.origin());
        let domains: Arc<[ConcurrencyDomain]> = match self.client.shared.config.target.is_here() {
            true => [own, ConcurrencyDomain::Files].into(),
            false => [own].into(),
        };
        ToolConcurrency::touching(self.tool.spec.hints, domains)
    }

    fn time_limit(&self) -> Duration {
        let shared = &self.client.shared;
        // `call` enforces the limit of the call itself, which stands still while a person or a model answers the server.
        let asks = if shared.broker.asks_people_or_models() { limits::MCP_ASKS_PER_CALL } else { 0 };
        shared.config.call_time + limits::MCP_CALL_GRACE + limits::QUESTION_TIME * asks
    }

    fn result_chars(&self) -> usize {
        self.client.shared.config.output_chars
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let shared = &self.client.shared;
        let (limit, open) = (shared.config.call_time, shared.broker.open.subscribe());
        let name = &self.tool.spec.name;
        let late = || Fault::Timeout { message: format!("`{name}` took longer than {}", seconds(limit)) };
        in_time(limit, open, shared.call(&self.tool, cx, call)).await.unwrap_or_else(|| Err(late()))
    }
}

/// Waits for work, at most for `limit`; the time in which `open` is not zero does not count.
async fn in_time<T>(limit: Duration, mut open: watch::Receiver<usize>, work: impl Future<Output = T>) -> Option<T> {
    let (mut left, mut work) = (limit, Box::pin(work));
    loop {
        let (stands_still, began) = (*open.borrow_and_update() > 0, Instant::now());
        tokio::select! {
            biased;
            done = &mut work => return Some(done),
            Ok(()) = open.changed() => {}
            () = sleep(left), if !stands_still => return None,
        }
        if !stands_still {
            left = left.saturating_sub(began.elapsed());
        }
    }
}

impl McpClientInner {
    async fn call(&self, tool: &ServerTool, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let arguments = serde_json::from_str(&call.arguments)
            .map_err(|error| Fault::invalid(format!("the arguments are not a JSON object: {error}")))?;
        if let Some(number) = inexact_integer(&call.arguments) {
            let number = cut(number, limits::NAME_SHOWN_CHARS);
            return Err(Fault::invalid(format!(
                "the integer {number} has more than 64 bits and would reach the server as another number; pass it as \
                 a text if the tool accepts one"
            )));
        }
        let params = CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments);
        let closed = |_| Fault::other("the connection to the server is closed");
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let hints = tool.spec.hints;
        let mut repeats = if hints.idempotent || hints.read_only { limits::MCP_CALL_REPEATS } else { 0 };
        loop {
            let session = self.session().await?;
            self.check(tool)?;
            match self.call_over(&session, &params, cx, call).await {
                Ok(output) => return Ok(output),
                Err(McpRequestError::Fault(fault)) => return Err(fault),
                Err(McpRequestError::Lost(_)) if repeats > 0 => repeats -= 1,
                Err(McpRequestError::Lost(ended)) => {
                    let server = &self.config.name;
                    let message = format!(
                        "the connection to the MCP server `{server}` was lost during the call: {ended}; it is not \
                         known whether the call took effect: check before you repeat it"
                    );
                    return Err(Fault::Unavailable { message, after: None });
                }
            }
        }
    }

    /// Fails unless the tool is still the one that was approved.
    fn check(&self, tool: &ServerTool) -> Result<(), Fault> {
        let (listing, server, name) = (self.listing.borrow(), &self.config.name, &tool.spec.name);
        match listing.find(&tool.name) {
            Some(now) if now.digest == tool.digest => Ok(()),
            Some(_) => {
                let message = format!(
                    "`{name}` is blocked: the MCP server `{server}` has changed its definition since it was approved; \
                     continue without it until a person approves it again"
                );
                Err(Fault::Denied { message })
            }
            None => {
                let message = format!("the MCP server `{server}` no longer has `{name}`; continue without it");
                Err(Fault::NotFound { message })
            }
        }
    }

    /// Makes one call over one connection, and answers the requests that the server makes for it.
    async fn call_over(
        &self,
        session: &McpConnectionHandle,
        params: &CallToolRequestParams,
        cx: &ToolCx,
        call: &ToolCall,
    ) -> Result<ToolOutput, McpRequestError> {
        let made_for = McpCallCx::new(cx.run.clone(), call.id.clone());
        let _over = made_for.over.clone().drop_guard();
        let mut params = params.clone();
        let step = cx.run.events.step_span();
        if let Some(span) = step.and_then(|step| step.span_for(self.config.span_destination())) {
            params.set_traceparent(&span.context.to_string());
            if let Some(state) = &span.state {
                params.set_tracestate(state);
            }
        }
        for _ in 0..=limits::MCP_ROUNDS {
            let wanted = match session.request(&made_for, params.clone()).await? {
                ServerResult::CallToolResult(result) => return Ok(call_output::output(result)),
                // A result without content is parsed as one of several other kinds.
                ServerResult::EmptyResult(_) | ServerResult::TaskAckResult(_) => {
                    return Ok(call_output::output(CallToolResult::default()));
                }
                ServerResult::CustomResult(other) => {
                    return call_output::unknown_output(other.0).map_err(McpRequestError::Fault);
                }
                ServerResult::InputRequiredResult(wanted) => wanted,
                _ => {
                    return Err(McpRequestError::Fault(Fault::other(
                        "the server's answer is not the result of a call",
                    )));
                }
            };
            self.answer(&made_for, wanted, &mut params)
                .await
                .map_err(|error| McpRequestError::Fault(fault_of(&error)))?;
        }
        let most = limits::MCP_ROUNDS;
        Err(McpRequestError::Fault(Fault::other(format!("the server requested input more than {most} times"))))
    }

    /// Answers the requests that a server makes before it goes on, one after the other.
    async fn answer(
        &self,
        made_for: &Arc<McpCallCx>,
        wanted: InputRequiredResult,
        params: &mut CallToolRequestParams,
    ) -> Result<(), ErrorData> {
        let mut responses = std::collections::BTreeMap::new();
        for (key, request) in wanted.input_requests.unwrap_or_default() {
            if responses.len() as u32 >= limits::MCP_ASKS_PER_CALL {
                return Err(ErrorData::invalid_request("the server requests too much input at once", None));
            }
            responses.insert(key, self.broker.answer(made_for, request).await?);
        }
        if responses.is_empty() {
            sleep(limits::PROGRESS_PAUSE).await;
        }
        params.input_responses = Some(responses).filter(|responses| !responses.is_empty());
        params.request_state = wanted.request_state;
        Ok(())
    }
}

impl McpConnectionHandle {
    /// Sends a call and waits for its answer. Dropping the future notifies the server of the cancellation.
    async fn request(
        &self,
        made_for: &Arc<McpCallCx>,
        params: CallToolRequestParams,
    ) -> Result<ServerResult, McpRequestError> {
        let mut request = CallToolRequest::new(params);
        request.extensions.insert(McpCallExtension(Arc::clone(made_for)));
        let answer = tokio::select! {
            biased;
            answer = self.exchange(ClientRequest::CallToolRequest(request)) => answer,
            never = tell_progress(made_for) => match never {},
        };
        tell_last(made_for).await;
        answer
    }
}

/// Emits the progress of a call, at intervals, as long as the call goes on. Never returns.
async fn tell_progress(call: &McpCallCx) -> Infallible {
    let mut reports = call.progress.subscribe();
    // A report that came before the subscription counts as new.
    if call.progress.borrow().is_some() {
        reports.mark_changed();
    }
    while call.run.events.is_watched() && reports.changed().await.is_ok() {
        let report = call.progress.send_replace(None);
        reports.mark_unchanged();
        tell(call, report).await;
        sleep(limits::PROGRESS_PAUSE).await;
    }
    std::future::pending().await
}

/// Emits the last progress report unless it was emitted before.
async fn tell_last(call: &McpCallCx) {
    let report = call.progress.send_replace(None);
    tell(call, report).await;
}

async fn tell(call: &McpCallCx, report: Option<McpCallProgress>) {
    if let Some(McpCallProgress { done, total, message }) = report {
        let (agent, call_id) = (Arc::clone(&call.run.agent), call.call.clone());
        call.run.events.emit(Event::ToolProgress { agent, call: call_id, done, total, message }).await;
    }
}

/// Returns the first integer in a JSON text that has more than 64 bits: it would be parsed as a floating-point number and
/// lose digits.
fn inexact_integer(json: &str) -> Option<&str> {
    let (mut in_string, mut rest) = (false, json);
    while let Some(at) = rest.find(|c: char| c == '"' || !in_string && (c == '-' || c.is_ascii_digit()) || c == '\\') {
        rest = &rest[at..];
        let length = match rest.as_bytes()[0] {
            b'"' => {
                in_string = !in_string;
                1
            }
            // A backslash stands in a string; the character that it escapes ends no string.
            b'\\' => 1 + rest[1..].chars().next().map_or(0, char::len_utf8),
            _ => {
                let is_of_number = |c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'e' | 'E');
                let number = &rest[..rest.find(|c| !is_of_number(c)).unwrap_or(rest.len())];
                let is_integer = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
                if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return Some(number);
                }
                number.len()
            }
        };
        rest = &rest[length..];
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_that_would_change_are_found() {
        for (json, found) in [
            (r#"{"a":18446744073709551615,"b":-9223372036854775808}"#, None),
            (r#"{"a":18446744073709551616}"#, Some("18446744073709551616")),
            (r#"{"a":[1,{"b":-9223372036854775809}]}"#, Some("-9223372036854775809")),
            (r#"{"a":"99999999999999999999","99999999999999999999":1}"#, None),
            (r#"{"a\"":"\\","b":99999999999999999999}"#, Some("99999999999999999999")),
            (r#"{"a":1e300,"b":99999999999999999999.5}"#, None),
            ("{}", None),
        ] {
            assert_eq!(inexact_integer(json), found, "{json}");
        }
    }
}
