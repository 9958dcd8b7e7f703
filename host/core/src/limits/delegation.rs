//! Limits of delegation, teams and coordinators, and of grants in the middle of a run.

use std::time::Duration;

use super::CHAT_BYTES;

// ---- delegation and teams

/// The maximum number of tasks in one call of `delegate`. All of them are worked on at once.
pub const TASKS_PER_DELEGATION: usize = 1_024;
/// The largest depth of delegation, and of agents that call each other as tools, that a config can set: each level can
/// multiply the agents by [`TASKS_PER_DELEGATION`].
pub const DELEGATION_DEPTH_CEILING: u32 = 16;
/// The default number of agents of one run that work at once; others wait for a permit. An agent that waits for others needs
/// none. More would only wait for their models.
pub const WORKING_AGENTS: usize = 128;
/// The largest number of agents working at once that a config can set.
pub const WORKING_AGENTS_CEILING: usize = 1_024;
/// The default number of agents in one run, or in all runs of one session, from beginning to end: those of the largest team,
/// or of one complete `delegate`. An agent takes about 300 KB.
pub const AGENTS_PER_RUN: usize = 1_024;
/// The largest number of agents in one run that a config can set.
pub const AGENTS_PER_RUN_CEILING: usize = 10_000;
/// The default maximum bytes of all conversations of one run together: two of the largest, or half a megabyte for each of
/// [`AGENTS_PER_RUN`].
pub const CHATS_PER_RUN_BYTES: usize = 2 * CHAT_BYTES;
/// The smallest limit for all conversations that a config can set, in bytes: room for one useful conversation.
pub const CHATS_PER_RUN_LEAST: usize = 1 << 20;
/// The largest limit for all conversations that a config can set, in bytes: no machine holds more.
pub const CHATS_PER_RUN_CEILING: usize = 64 << 30;
/// The maximum number of members of one team.
pub const TEAM_MEMBERS: usize = 1_024;
/// The maximum depth to which agents and teams of a config refer to each other as members and tools: equal to the depth of
/// delegation.
pub const NEED_DEPTH: usize = 16;
/// The maximum number of steps in one run of a team: equal to the largest number of agents in a run.
pub const TEAM_STEPS: u32 = 10_000;
/// The maximum number of retries of a failed team member in one step.
pub const MEMBER_RETRIES: u32 = 8;
/// The maximum characters of a task that a coordinator assigns to a member.
pub const ASSIGNMENT_CHARS: usize = 32_000;
/// The maximum characters of a coordinator's reasons in an event.
pub const REASONING_CHARS: usize = 2_000;
/// The default number of messages of the shared conversation that a model coordinator is shown.
pub const COORDINATOR_WINDOW: u32 = 20;
/// The largest value of [`COORDINATOR_WINDOW`] that a config can set.
pub const COORDINATOR_WINDOW_CEILING: u32 = 1_000;
/// The maximum characters of one message that a model coordinator is shown.
pub const COORDINATOR_MESSAGE_CHARS: usize = 4_000;
/// The maximum characters of the running summary that a model coordinator writes for itself.
pub const COORDINATOR_SUMMARY_CHARS: usize = 8_000;
/// The maximum characters of all messages in one request of a model coordinator: a long window shows less of each message.
/// About 100,000 tokens.
pub const COORDINATOR_CHARS: usize = 400_000;
/// The maximum characters of one member's description for a model coordinator.
pub const COORDINATOR_DESCRIPTION_CHARS: usize = 500;
/// The maximum characters of all members' descriptions for a model coordinator: many members share them equally.
pub const COORDINATOR_DESCRIPTIONS_CHARS: usize = 100_000;
/// The maximum characters of a past assignment and of its reasons that a model coordinator is shown again.
pub const COORDINATOR_SAID_CHARS: usize = 300;
/// The maximum bytes of all past decisions that a model coordinator is shown again; the oldest are forgotten. They are part
/// of its state, like the summary.
pub const COORDINATOR_SAID_BYTES: usize = 8 << 10;
/// The maximum number of member names in the schema of a model coordinator's reply, as OpenAI accepts in a strict schema.
/// For a larger team any name matches the schema and is checked when the reply is read.
pub const COORDINATOR_ENUM_NAMES: usize = 250;
/// The maximum characters of all names in that schema; see [`COORDINATOR_ENUM_NAMES`].
pub const COORDINATOR_ENUM_CHARS: usize = 7_500;
/// The bytes at the end of a model coordinator's reply in which a decision is searched for: each brace in them may begin
/// one.
pub const COORDINATOR_REPLY_BYTES: usize = 64 << 10;
/// The maximum characters of an unusable reply that are shown to the model coordinator with the error.
pub const COORDINATOR_WRONG_CHARS: usize = 1_000;
/// The maximum characters that one lookup tool of a model coordinator returns.
pub const COORDINATOR_LOOKUP_CHARS: usize = 16_000;
/// The number of older messages on one page of a lookup.
pub const COORDINATOR_PAGE: usize = 20;
/// The maximum memory of the regular expression that ends a team's rounds, in bytes. Nobody writes a larger one by hand.
pub const UNTIL_PATTERN_BYTES: usize = 1 << 20;
/// The default number of times that a task may be handed over.
pub const HANDOFFS: u32 = 3;
/// The wall time of one `delegate`, of a call of an agent as a tool, and of an agent that waits for an answer: a bound for
/// what budgets do not bound.
pub const DELEGATION_TIME: Duration = Duration::from_secs(24 * 3_600);
/// The maximum characters of the context that an agent gives with a task.
pub const DELEGATION_CONTEXT_CHARS: usize = 16_000;
/// The maximum characters of an agent's answer to the parent run.
pub const DELEGATION_ANSWER_CHARS: usize = 2_000;
/// The maximum characters of all answers to one `delegate` together; many tasks share them equally.
pub const DELEGATION_RESULT_CHARS: usize = 128_000;
/// The maximum bytes of the word from the task in the instance name of the agent that works on it.
pub const SLUG_BYTES: usize = 12;
/// The maximum number of messages queued for one agent.
pub const INBOX_MESSAGES: usize = 64;
/// The time within which a message to a run is recorded: a part of a second, if the session can be written. Whoever sends it
/// from another host waits somewhat longer for the answer.
pub const INBOX_RECORD_TIME: Duration = Duration::from_secs(3);
/// The pause between two looks for the beginning of the run, with which the first messages are recorded.
pub const INBOX_RECORD_PAUSE: Duration = Duration::from_millis(10);

// ---- missing capabilities and agents that start each other

/// The maximum bytes of a path or URL that a tool reports as a missing capability.
pub const NEED_BYTES: usize = 8 << 10;
/// The maximum number of missing capabilities that one call may report, one after the other: two paths and the servers to
/// which they lead, and some more. Each is a question to a person and repeats the whole call.
pub const NEEDS_PER_CALL: usize = 4;
/// The maximum number of folders and servers granted to one agent in the middle of a run, each under the tool's name for it.
/// More indicate a mistake in the config, or an agent that asks its way through a machine.
pub const OPENED: usize = 64;
/// The maximum number of cached builds of each configured agent, one for each ceiling under which it was built; beyond it
/// all are dropped and built again. A handful is usual, but there can be as many as chains of agents that start each other,
/// and each holds plugins.
pub const OUTFITS_KEPT: usize = 64;
