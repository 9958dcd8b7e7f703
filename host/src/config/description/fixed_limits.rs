//! The limits of the host that no key changes.

use crate::{
    config::effective_setting::{EffectiveSetting, is, map, shown},
    limits,
};

/// Shows the fixed limits, and the times that apply if `limits` sets none.
pub(super) fn house() -> EffectiveSetting {
    map([
        ("max_iterations", is(&limits::MAX_ITERATIONS_CEILING).noted("also used for 0")),
        ("max_delegation_depth", is(&limits::DELEGATION_DEPTH_CEILING)),
        ("tasks_per_delegation", is(&limits::TASKS_PER_DELEGATION)),
        ("delegation_time", is(&shown(limits::DELEGATION_TIME))),
        ("working_agents", is(&limits::WORKING_AGENTS_CEILING).noted("the maximum for `runs.working_agents`")),
        ("agents", is(&limits::AGENTS_PER_RUN_CEILING).noted("the maximum for `runs.agents`")),
        ("waiting_messages", is(&limits::INBOX_MESSAGES).noted("for one agent")),
        ("tool_calls_per_reply", is(&limits::CALLS_PER_REPLY)),
        ("tool_calls_at_once", is(&limits::PARALLEL_TOOL_CALLS).noted("of one reply")),
        ("tool_time", is(&shown(limits::TOOL_TIME))),
        ("tool_result_chars", is(&limits::TOOL_RESULT_CHARS)),
        ("question_time", is(&shown(limits::QUESTION_TIME)).noted("for an answer of a person")),
        ("open_questions", is(&limits::OPEN_QUESTIONS)),
        ("completion_time", is(&shown(limits::COMPLETION_TIME))),
        ("completion_retries", is(&limits::HTTP_RETRIES)),
        ("reply_bytes", is(&limits::REPLY_BYTES)),
        ("chat_bytes", is(&limits::CHAT_BYTES).noted("of one conversation")),
        ("plugin_calls", is(&limits::PLUGIN_CALLS).noted("at once, in the whole process")),
        ("plugin_step_time", is(&shown(limits::STEP_TIME)).noted("of an effect or a middleware")),
        ("plugin_kv_bytes", is(&limits::KV_STORE_BYTES).noted("of one store, keys and values")),
        ("plugin_kv_keys", is(&limits::KV_STORE_KEYS).noted("of one store")),
        ("programs", is(&limits::PROCESSES).noted("running at once")),
        ("program_time", is(&shown(limits::PROCESS_TIME_CEILING)).noted("the maximum for one run of a program")),
        (
            "program_output_bytes",
            is(&limits::PROCESS_OUTPUT_BYTES).noted("of its standard output, and of its standard error"),
        ),
        ("event_queue", is(&limits::EVENT_QUEUE)),
        ("budget_time", is(&shown(limits::BUDGET_TIME)).noted("the maximum for a budget")),
        ("budget_usd", is(&limits::MONEY_DOLLARS).noted("the maximum for a budget")),
        ("config_bytes", is(&limits::CONFIG_BYTES)),
    ])
}
