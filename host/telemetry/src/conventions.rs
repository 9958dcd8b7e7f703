//! The names of spans, attributes and metrics: those of OpenTelemetry's semantic conventions at one version, and the host's
//! own, which begin with `shelly.`.

/// The version of the semantic conventions that exported data follows: the last one that defines the names for generative AI
/// in the repository of all conventions. Later ones define them elsewhere, without a version so far.
pub const SEMANTIC_CONVENTIONS: &str = "1.41.0";

pub(crate) const SCHEMA_URL: &str = "https://opentelemetry.io/schemas/1.41.0";

pub(crate) const ERROR_TYPE: &str = "error.type";
pub(crate) const SERVICE_INSTANCE_ID: &str = "service.instance.id";
pub(crate) const SERVICE_NAME: &str = "service.name";
pub(crate) const SERVICE_VERSION: &str = "service.version";
pub(crate) const SDK_LANGUAGE: &str = "telemetry.sdk.language";
pub(crate) const SDK_NAME: &str = "telemetry.sdk.name";
pub(crate) const SDK_VERSION: &str = "telemetry.sdk.version";
/// The label of the series that is shared by all beyond the bound; its value is `true`.
pub(crate) const METRIC_OVERFLOW: &str = "otel.metric.overflow";

pub(crate) const OPERATION_NAME: &str = "gen_ai.operation.name";
pub(crate) const PROVIDER_NAME: &str = "gen_ai.provider.name";
pub(crate) const AGENT_NAME: &str = "gen_ai.agent.name";
pub(crate) const CONVERSATION_ID: &str = "gen_ai.conversation.id";
pub(crate) const REQUEST_MODEL: &str = "gen_ai.request.model";
pub(crate) const RESPONSE_MODEL: &str = "gen_ai.response.model";
pub(crate) const FINISH_REASONS: &str = "gen_ai.response.finish_reasons";
pub(crate) const TIME_TO_FIRST_CHUNK: &str = "gen_ai.response.time_to_first_chunk";
pub(crate) const INPUT_TOKENS: &str = "gen_ai.usage.input_tokens";
pub(crate) const OUTPUT_TOKENS: &str = "gen_ai.usage.output_tokens";
pub(crate) const CACHE_READ_TOKENS: &str = "gen_ai.usage.cache_read.input_tokens";
pub(crate) const CACHE_WRITE_TOKENS: &str = "gen_ai.usage.cache_creation.input_tokens";
pub(crate) const TOKEN_TYPE: &str = "gen_ai.token.type";
pub(crate) const TOOL_NAME: &str = "gen_ai.tool.name";
pub(crate) const TOOL_TYPE: &str = "gen_ai.tool.type";
pub(crate) const TOOL_CALL_ID: &str = "gen_ai.tool.call.id";
pub(crate) const TOOL_ARGUMENTS: &str = "gen_ai.tool.call.arguments";
pub(crate) const TOOL_RESULT: &str = "gen_ai.tool.call.result";
pub(crate) const INPUT_MESSAGES: &str = "gen_ai.input.messages";
pub(crate) const OUTPUT_MESSAGES: &str = "gen_ai.output.messages";

pub(crate) const INVOKE_AGENT: &str = "invoke_agent";
pub(crate) const CHAT: &str = "chat";
pub(crate) const EXECUTE_TOOL: &str = "execute_tool";

/// The value of [`ERROR_TYPE`], and of labels, for what has no name of its own.
pub(crate) const OTHER: &str = "_OTHER";

pub(crate) const COST_USD: &str = "shelly.cost.usd";
pub(crate) const RUN_ID: &str = "shelly.run.id";
pub(crate) const RUN_DEPTH: &str = "shelly.run.depth";
pub(crate) const RUN_ITERATIONS: &str = "shelly.run.iterations";
pub(crate) const ITERATION: &str = "shelly.iteration";
pub(crate) const TOOL_ORIGIN: &str = "shelly.tool.origin";
pub(crate) const TOOL_RESULT_BYTES: &str = "shelly.tool.result.bytes";
pub(crate) const PLUGIN_NAME: &str = "shelly.plugin.name";
pub(crate) const PLUGIN_FUNCTION: &str = "shelly.plugin.function";
pub(crate) const PLUGIN_OUTCOME: &str = "shelly.plugin.outcome";
pub(crate) const PLUGIN_CPU_SECONDS: &str = "shelly.plugin.cpu_seconds";
pub(crate) const PLUGIN_MEMORY_BYTES: &str = "shelly.plugin.memory_bytes";
pub(crate) const PLUGIN_HOST_CALLS: &str = "shelly.plugin.host_calls";
pub(crate) const DENIAL_KIND: &str = "shelly.denial.kind";
pub(crate) const SIGNAL: &str = "shelly.signal";
