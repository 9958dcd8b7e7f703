//! Handles the requests of one client.
#![expect(deprecated, reason = "clients of earlier revisions read the log")]

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use rmcp::{
    ErrorData, Peer, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CompleteRequestParams, CompleteResult, CompletionInfo,
        ContentBlock, CustomRequest, CustomResult, ErrorCode, GetPromptRequestParams, GetPromptResponse,
        GetPromptResult, Implementation, JsonObject, ListPromptsResult, ListResourceTemplatesResult,
        ListResourcesResult, ListToolsResult, LoggingLevel, PaginatedRequestParams, Prompt, PromptArgument,
        PromptMessage, ProtocolVersion, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, Reference,
        Resource, ResourceContents, ResourceTemplate, Role, ServerCapabilities, ServerConfig, SetLevelRequestParams,
        SubscriptionFilter, Tool,
    },
    service::{NotificationContext, RequestContext, SubscriptionContext, SubscriptionSink},
};
use serde_json::Value;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::{
    argument_completion,
    call_notifier::CallNotifier,
    client_call_slots::ClientCallSlots,
    results,
    served_call::{ElicitationMode, ServedCall, ServedCallOutcome},
    server_setup::{McpCatalog, McpPrompt, McpResource, McpResourceProvider},
    server_state::McpServerState,
};
use shelly_core::{
    chat::ToolSpec,
    error::{Fault, cut},
    event::{PropagatedSpan, TRACEPARENT, TRACESTATE},
    limits,
};

/// The state of one client.
pub(super) struct McpServerHandler {
    server: Arc<McpServerState>,
    slots: ClientCallSlots,
    /// The minimum level of the log entries that the client wants.
    level: Mutex<Option<LoggingLevel>>,
    is_watching: AtomicBool,
    /// Cancelled when the client is gone.
    gone: CancellationToken,
    _gone: DropGuard,
}

/// The only argument of a prompt.
const TASK: &str = "task";

impl McpServerHandler {
    pub fn new(server: Arc<McpServerState>, gone: CancellationToken) -> Self {
        let (slots, level, is_watching) = (ClientCallSlots::new(), Mutex::default(), AtomicBool::new(false));
        let guard = gone.clone().drop_guard();
        Self { server, slots, level, is_watching, gone, _gone: guard }
    }

    fn catalog(&self) -> Arc<McpCatalog> {
        Arc::clone(&self.server.served.shelf.borrow())
    }

    fn resources(&self) -> Result<&Arc<dyn McpResourceProvider>, ErrorData> {
        let none = || ErrorData::new(ErrorCode::METHOD_NOT_FOUND, "this server has no resources", None);
        self.server.served.archive.as_ref().ok_or_else(none)
    }

    /// Returns the notifier for a call of this client.
    fn notes(&self, context: &RequestContext<RoleServer>) -> CallNotifier {
        let level = *self.level.lock().unwrap_or_else(PoisonError::into_inner);
        CallNotifier {
            peer: context.peer.clone(),
            mark: context.meta.get_progress_token(),
            level: context.meta.log_level().or(level),
            events: self.server.served.events.clone(),
            caller: Arc::clone(&self.server.served.caller),
            sent: Default::default(),
        }
    }

    /// Makes a call, or resumes one that was parked for an answer.
    async fn call(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let arguments =
            request.arguments.map_or_else(|| "{}".to_owned(), |arguments| Value::Object(arguments).to_string());
        // Checked first: the call would fail anyway, and many may be queued.
        if arguments.len() > limits::ARGUMENT_BYTES {
            let (has, most) = (arguments.len(), limits::ARGUMENT_BYTES);
            let message = format!("the arguments have {has} bytes, the maximum is {most}");
            return Ok(refused(&Fault::TooLarge { message }).into());
        }
        let (made, asks) = ((request.name.into_owned(), arguments), asks(context));
        let waited = match request.request_state {
            Some(state) => {
                let resumed = self.server.parked.resume(&state, &made, request.input_responses);
                Some(resumed.map_err(|fault| ErrorData::invalid_params(fault.to_string(), None))?)
            }
            None if self.catalog().tools.iter().any(|tool| tool.name == made.0) => None,
            None => {
                let what = format!("unknown tool: {}", cut(&made.0, limits::NAME_SHOWN_CHARS));
                return Err(ErrorData::invalid_params(what, None));
            }
        };
        let permit = match self.slots.take(&self.server.permits).await {
            Ok(permit) => permit,
            Err(fault) => return Ok(refused(&fault).into()),
        };
        let mut call = match waited {
            Some(mut call) => {
                call.go_on(permit);
                call
            }
            None => {
                let caller = Arc::clone(&self.server.served.caller);
                let run = (self.server.next_run(), outer_span(context));
                ServedCall::begin(run, caller, made.clone(), asks, permit)
            }
        };
        match call.drive(&mut self.notes(context), asks).await {
            ServedCallOutcome::Done(result) => Ok(results::result(result).into()),
            ServedCallOutcome::Asks(question) => match self.server.parked.park(call, question, made) {
                Ok(waits) => Ok(CallToolResponse::InputRequired(waits)),
                Err(fault) => Ok(refused(&fault).into()),
            },
        }
    }
}

/// Returns the result of a call that was refused or not finished.
fn refused(fault: &Fault) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(fault.to_string())])
}

/// Returns the span of the client to which a request belongs: that in its metadata, or else that in the headers of HTTP.
fn outer_span(context: &RequestContext<RoleServer>) -> Option<PropagatedSpan> {
    let of_request = PropagatedSpan::parse(context.meta.get_traceparent(), context.meta.get_tracestate());
    let of_head = || {
        let head = context.extensions.get::<::http::request::Parts>()?;
        let value = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok());
        PropagatedSpan::parse(value(TRACEPARENT), value(TRACESTATE))
    };
    of_request.or_else(of_head)
}

/// Returns the way in which the client of this request can ask a person.
fn asks(context: &RequestContext<RoleServer>) -> ElicitationMode {
    let elicitation = context.client_capabilities().and_then(|capabilities| capabilities.elicitation);
    // A client that declares neither forms nor URLs supports forms, as before there were URLs.
    let has_forms = elicitation.is_some_and(|how| how.form.is_some() || how.url.is_none());
    match has_forms {
        false => ElicitationMode::Never,
        true if is_stateless(context) => ElicitationMode::Between,
        true => ElicitationMode::Meanwhile,
    }
}

fn is_stateless(context: &RequestContext<RoleServer>) -> bool {
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Converts a fault to a protocol error.
fn error(fault: Fault) -> ErrorData {
    let message = fault.to_string();
    match fault {
        Fault::Invalid { .. } | Fault::TooLarge { .. } => ErrorData::invalid_params(message, None),
        Fault::NotFound { .. } => ErrorData::resource_not_found(message, None),
        _ => ErrorData::internal_error(message, None),
    }
}

/// Returns a cursor, name or URI from a client unless it is longer than any of this server's.
fn of_length(what: &str, text: String) -> Result<String, ErrorData> {
    let most = limits::MCP_SERVE_NAME_BYTES;
    if text.len() > most {
        return Err(ErrorData::invalid_params(format!("{what} has more than {most} bytes"), None));
    }
    Ok(text)
}

fn unknown_prompt(name: &str) -> ErrorData {
    ErrorData::invalid_params(format!("unknown prompt: {}", cut(name, limits::NAME_SHOWN_CHARS)), None)
}

fn no_method(name: &str) -> ErrorData {
    ErrorData::new(ErrorCode::METHOD_NOT_FOUND, format!("unknown method `{name}`"), None)
}

/// Rejects a cursor: a list of one page has no other page.
fn only_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("invalid cursor", None)),
    }
}

/// Watches the catalog for changes.
struct CatalogWatcher {
    catalog: watch::Receiver<Arc<McpCatalog>>,
    before: Arc<McpCatalog>,
}

impl CatalogWatcher {
    fn of(server: &McpServerState) -> Self {
        let mut catalog = server.served.shelf.clone();
        let before = Arc::clone(&catalog.borrow_and_update());
        Self { catalog, before }
    }

    /// Waits for the next change. Returns whether the tools changed, and whether the prompts did.
    async fn next(&mut self) -> (bool, bool) {
        if self.catalog.changed().await.is_err() {
            // The sender is gone: nothing changes any more.
            std::future::pending().await
        }
        let now = Arc::clone(&self.catalog.borrow_and_update());
        let before = std::mem::replace(&mut self.before, Arc::clone(&now));
        (!same_tools(&before.tools, &now.tools), before.prompts != now.prompts)
    }
}

fn same_tools(one: &[Arc<ToolSpec>], two: &[Arc<ToolSpec>]) -> bool {
    let same = |one: &ToolSpec, two: &ToolSpec| {
        one.name == two.name
            && one.description == two.description
            && one.hints == two.hints
            && one.input_schema.get() == two.input_schema.get()
    };
    one.len() == two.len() && one.iter().zip(two).all(|(one, two)| same(one, two))
}

/// Notifies a client of all changes until it is gone.
async fn tell_all(mut changes: CatalogWatcher, peer: Peer<RoleServer>) {
    loop {
        let (tools, prompts) = changes.next().await;
        if tools && peer.notify_tool_list_changed().await.is_err()
            || prompts && peer.notify_prompt_list_changed().await.is_err()
        {
            return;
        }
    }
}

/// Notifies a subscriber of the changes that it subscribed to.
async fn tell(mut changes: CatalogWatcher, sink: SubscriptionSink) {
    loop {
        let (tools, prompts) = changes.next().await;
        let wants = |wish: Option<bool>| wish == Some(true);
        if tools && wants(sink.accepted().tools_list_changed) && sink.notify_tool_list_changed().await.is_err()
            || prompts
                && wants(sink.accepted().prompts_list_changed)
                && sink.notify_prompt_list_changed().await.is_err()
        {
            return;
        }
    }
}

impl ServerHandler for McpServerHandler {
    fn get_info(&self) -> ServerConfig {
        let served = &self.server.served;
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions();
        let capabilities = match served.archive {
            Some(_) => capabilities.enable_resources().build(),
            None => capabilities.build(),
        };
        let us = Implementation::new(&*served.name, env!("CARGO_PKG_VERSION"));
        let info = ServerConfig::new(capabilities).with_server_info(us);
        match served.instructions.is_empty() {
            true => info,
            false => info.with_instructions(&*served.instructions),
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        only_page(request)?;
        Ok(ListToolsResult::with_all_items(self.catalog().tools.iter().map(|tool| results::tool(tool)).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.catalog().tools.iter().find(|tool| tool.name == name).map(|tool| results::tool(tool))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        // The response to a cancelled call is not read; what matters is that the call ends here.
        let taken_back = || ErrorData::internal_error("the call was cancelled", None);
        tokio::select! {
            biased;
            () = context.ct.cancelled() => Err(taken_back()),
            () = self.gone.cancelled() => Err(taken_back()),
            response = self.call(request, &context) => response,
        }
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        only_page(request)?;
        let task =
            || PromptArgument::new(TASK).with_description("The task to do with this prompt.").with_required(false);
        let prompt = |prompt: &McpPrompt| {
            let description = Some(&prompt.description).filter(|description| !description.is_empty());
            Prompt::new(&prompt.name, description, Some(vec![task()]))
        };
        Ok(ListPromptsResult::with_all_items(self.catalog().prompts.iter().map(prompt).collect()))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let (name, catalog) = (of_length("the name", request.name)?, self.catalog());
        let prompt = catalog.prompts.iter().find(|prompt| prompt.name == name);
        let prompt = prompt.ok_or_else(|| unknown_prompt(&name))?;
        let mut messages = vec![PromptMessage::new_text(Role::User, &prompt.text)];
        messages.extend(task_of(request.arguments)?.map(|task| PromptMessage::new_text(Role::User, task)));
        let got = GetPromptResult::new(messages);
        let got = if prompt.description.is_empty() { got } else { got.with_description(&prompt.description) };
        Ok(got.into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let after = request.and_then(|request| request.cursor);
        let after = after.map(|after| of_length("the cursor", after)).transpose()?;
        let (page, has_more) = self.resources()?.list(after).await.map_err(error)?;
        let last = page.last().map(|last| last.uri.clone()).filter(|_| has_more);
        let resource = |there: McpResource| {
            Resource::new(there.uri, there.name).with_description(there.description).with_size(there.size)
        };
        let mut listed = ListResourcesResult::with_all_items(page.into_iter().map(resource).collect());
        listed.next_cursor = last;
        Ok(listed)
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        only_page(request)?;
        let (uri, what) = self.resources()?.template();
        let template = ResourceTemplate::new(uri, what);
        Ok(ListResourceTemplatesResult::with_all_items(vec![template]))
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let values = match request.r#ref {
            Reference::Prompt(prompt) => {
                let name = of_length("the name", prompt.name)?;
                let is_there = self.catalog().prompts.iter().any(|there| there.name == name);
                // The values of a task are unknown.
                is_there.then(Vec::new).ok_or_else(|| unknown_prompt(&name))?
            }
            Reference::Resource(resource) => {
                let resources = self.resources()?;
                let (template, _) = resources.template();
                if resource.uri != template {
                    let what = format!("unknown template: {}", cut(&resource.uri, limits::NAME_SHOWN_CHARS));
                    return Err(ErrorData::invalid_params(what, None));
                }
                let (page, _) = resources.list(None).await.map_err(error)?;
                let given = request.context.and_then(|context| context.arguments).unwrap_or_default();
                argument_completion::values(template, &page, &request.argument, &given)
            }
            _ => {
                return Err(ErrorData::invalid_params(
                    "only arguments of prompts and resources can be completed",
                    None,
                ));
            }
        };
        let completion = CompletionInfo::new(values).map_err(|why| ErrorData::internal_error(why, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let uri = of_length("the URI", request.uri)?;
        let content = self.resources()?.read(uri.clone()).await.map_err(error)?;
        let content = content.ok_or_else(|| {
            let about = Some(serde_json::json!({"uri": uri}));
            ErrorData::resource_not_found(format!("there is no resource {uri}"), about)
        })?;
        let contents = match str::from_utf8(&content.bytes) {
            Ok(text) if content.media_type.starts_with("text/") => ResourceContents::text(text, uri),
            _ => ResourceContents::blob(STANDARD.encode(&content.bytes), uri),
        };
        Ok(ReadResourceResult::new(vec![contents.with_mime_type(content.media_type)]).into())
    }

    async fn set_level(
        &self,
        request: SetLevelRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        if is_stateless(&context) {
            return Err(no_method("logging/setLevel"));
        }
        *self.level.lock().unwrap_or_else(PoisonError::into_inner) = Some(request.level);
        Ok(())
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.is_watching.swap(true, Ordering::Relaxed) {
            return;
        }
        let (changes, gone) = (CatalogWatcher::of(&self.server), self.gone.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = gone.cancelled() => {}
                () = tell_all(changes, context.peer) => {}
            }
        });
    }

    fn accepted_subscription_filter(&self, _: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().prompts_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = context.cancelled() => {}
            () = self.gone.cancelled() => {}
            () = tell(CatalogWatcher::of(&self.server), context.sink().clone()) => {}
        }
        Ok(())
    }

    async fn on_custom_request(
        &self,
        request: CustomRequest,
        context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let shown = cut(&request.method, limits::NAME_SHOWN_CHARS);
        let has_gone = is_stateless(&context) && GONE.contains(&&*request.method);
        // `rmcp` hands on a known method only if it could not parse the params.
        match KNOWN.contains(&&*request.method) && !has_gone {
            true => Err(ErrorData::invalid_params(format!("invalid params of `{shown}`"), None)),
            false => Err(no_method(&shown)),
        }
    }
}

/// Methods of which `rmcp` parses the params.
const KNOWN: [&str; 7] = [
    "initialize",
    "tools/call",
    "prompts/get",
    "resources/read",
    "logging/setLevel",
    "completion/complete",
    "subscriptions/listen",
];

/// Methods that the newest revision no longer has.
const GONE: [&str; 2] = ["initialize", "logging/setLevel"];

fn task_of(arguments: Option<JsonObject>) -> Result<Option<String>, ErrorData> {
    let Some(mut arguments) = arguments else { return Ok(None) };
    match arguments.remove(TASK) {
        None => Ok(None),
        Some(Value::String(task)) if task.len() <= limits::TASK_BYTES => {
            Ok(Some(task).filter(|task| !task.trim().is_empty()))
        }
        Some(_) => {
            let most = limits::TASK_BYTES;
            Err(ErrorData::invalid_params(
                format!("the argument `{TASK}` must be a text of at most {most} bytes"),
                None,
            ))
        }
    }
}
