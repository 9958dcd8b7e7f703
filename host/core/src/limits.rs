//! Every limit of the host, with its unit and its reason.
//!
//! Input from guests, models, servers and files is untrusted: one of these limits bounds it on entry.

use std::time::Duration;

// ---- agent loop

/// The default maximum of turns in one run.
pub const MAX_ITERATIONS: u32 = 50;
/// The largest maximum of turns that a config can set: a loop without end is a bill without end.
pub const MAX_ITERATIONS_CEILING: u32 = 10_000;
/// The number of tool calls of one reply that run concurrently; the others wait. More would only queue at the plugin pool.
pub const PARALLEL_TOOL_CALLS: usize = 16;
/// The number of tool calls in one reply that are executed; calls beyond it are answered with an error.
pub const CALLS_PER_REPLY: usize = 128;
/// The maximum bytes of one conversation, including media. A message that exceeds it is refused, and the next turn does not
/// begin.
pub const CHAT_BYTES: usize = 256 << 20;
/// The maximum number of parts of one tool result.
pub const RESULT_PIECES: usize = 256;
/// The maximum characters of one tool result that a model is shown: about 8,000 tokens.
pub const TOOL_RESULT_CHARS: usize = 32_000;
/// The fraction (one in this number) of a model's known context window that one tool result may take: a quarter leaves room
/// for the prompt, the tools, the history and a reply.
pub const RESULT_WINDOW_PART: u64 = 4;
/// The fraction (one in this number) of the context window that the results of one reply may take together, in equal shares:
/// the other half stays free.
pub const RESULTS_WINDOW_PART: u64 = 2;
/// The bytes of a tool result that are shown however small the context window is: a shorter excerpt is useless.
pub const LEAST_RESULT_BYTES: usize = 1_000;

/// The time to search for the shortest diff of two texts; afterwards a longer one is used.
pub const DIFF_TIME: Duration = Duration::from_millis(500);

/// The maximum characters of a truncated result that are kept for the model to page through. Tool middleware processes all
/// of them, and a model never pages through more than a quarter of a million tokens.
pub const KEPT_RESULT_CHARS: usize = 1_000_000;

/// The maximum bytes of kept results in one conversation; the oldest are removed first.
pub const KEPT_RESULTS_BYTES: usize = 32 << 20;
/// The maximum number of config errors that are reported at once: further ones mostly have the same cause.
pub const CONFIG_MISTAKES: usize = 50;
/// The maximum bytes of one task given on the command line, in a file or on standard input.
pub const TASK_BYTES: usize = 1 << 20;
/// The maximum bytes of standard input that are sent to the model besides a task: like a task, they are held in memory and
/// sent whole.
pub const STDIN_BYTES: usize = 1 << 20;
/// The time to wait for the first byte of a pipe on standard input: parent processes often leave a pipe open that never
/// carries data.
pub const STDIN_WAIT: Duration = Duration::from_secs(3);
/// The maximum number of consecutive questions of one effect to a model.
pub const ASKS_IN_A_ROW: u32 = 8;
/// The maximum number of further attempts that one middleware may request for a run or a request to a model. With delays
/// that double from one second on, eight outlast a vendor's short outage; a budget ends a run that repeats itself earlier.
pub const MIDDLEWARE_RETRIES: u32 = 8;
/// The longest delay that a middleware may request before another attempt.
pub const MIDDLEWARE_DELAY: Duration = Duration::from_secs(60);
/// The maximum total of such delays before one reply, and before one answer of a run: equal to the time that a request waits
/// for a busy server. Further attempts follow without a delay.
pub const MIDDLEWARE_WAITING: Duration = Duration::from_secs(120);

/// The maximum number of requests to models for one reply, those of all middleware together: nested attempts multiply.
pub const REQUESTS_PER_REPLY: u32 = 32;
/// The number of events queued for a slow reader before the run waits for it.
pub const EVENT_QUEUE: usize = 1_024;

/// The maximum bytes of a task in an event.
pub const TASK_SHOWN_BYTES: usize = 500;
/// The maximum characters of a tool call's failure reason in an event: enough for an error with its path.
pub const FAILURE_SHOWN_CHARS: usize = 500;
/// The maximum characters of a member's reply in an event: a paragraph. The session holds all of it.
pub const REPLY_SHOWN_CHARS: usize = 1_000;

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
pub const HAND_OVERS: u32 = 3;
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

// ---- reflections on failures

/// The maximum bytes of one reflection on a failure; the rest is cut.
pub const REFLECTION_BYTES: usize = 12 << 10;
/// The maximum number of reflections in an agent's prompt.
pub const REFLECTIONS_TOLD: usize = 5;
/// The maximum bytes of all reflections in an agent's prompt.
pub const REFLECTIONS_BYTES: usize = 32 << 10;
/// The number of reflections that are kept, and searched for a task; the oldest are removed.
pub const REFLECTIONS_KEPT: usize = 200;
/// The minimum bytes of a word that is searched for.
pub const REFLECTION_WORD_BYTES: usize = 4;
/// The maximum number of reflections written in one second; more simultaneous failures teach nothing new.
pub const REFLECTIONS_A_SECOND: usize = 100;

// ---- files from the user

/// The maximum bytes of a config file.
pub const CONFIG_BYTES: u64 = 1 << 20;
/// The maximum bytes of a `plugin.toml`.
pub const MANIFEST_BYTES: u64 = 64 << 10;
/// The maximum bytes of a component file. The largest known (the Python runtime in a component) has 19 MB.
pub const COMPONENT_BYTES: u64 = 256 << 20;
/// The maximum number of core modules in a component, including nested components. A Python runtime has about thirty.
pub const COMPONENT_MODULES: usize = 256;
/// The maximum number of components in a component, at all levels. The time to read them grows with the square of their
/// number: 99,000 empty ones keep a core busy for minutes. The largest known component has about fifty.
pub const COMPONENT_COMPONENTS: usize = 1_000;
/// The maximum nesting depth of components, including the outermost, and a module in the innermost. Each tool that composes
/// components adds one or two levels.
pub const COMPONENT_DEPTH: usize = 16;
/// The maximum number of instances that one instance of a component creates, including those of nested components: 700 bytes
/// can request a billion. The largest known component creates about a hundred.
pub const COMPONENT_INSTANCES: usize = 4_096;
/// The maximum bytes of a component that are neither code nor data nor custom sections: types, imports, exports, tables,
/// aliases. A validator allocates up to a hundred bytes for each byte. The largest known component has about 400 KB.
pub const COMPONENT_STRUCTURE_BYTES: usize = 4 << 20;
/// The maximum number of items in the element segments of a component, all its modules together: equal to the largest number
/// of table elements.
pub const COMPONENT_ELEMENTS: usize = PLUGIN_TABLE_ELEMENTS_CEILING;
/// The maximum number of those items that are expressions rather than function indices: the compiler allocates 2.5 kilobytes
/// for each. Compilers for real languages emit none.
pub const COMPONENT_ELEMENT_EXPRESSIONS: usize = 50_000;
/// The maximum number of functions of a component, all its modules together. A Python or JavaScript runtime has about
/// 30,000; compiling this many takes seconds.
pub const COMPONENT_FUNCTIONS: usize = 100_000;
/// The maximum bytes of code of a component, all its modules together: the code is compiled with the host's memory and time.
/// The largest known component has 15 MB.
pub const COMPONENT_CODE_BYTES: usize = 64 << 20;
/// The maximum bytes of one function: the cost of compiling grows faster than the function. The largest function of an
/// interpreter has about 300 KB.
pub const FUNCTION_BYTES: usize = 1 << 20;
/// The maximum number of parameters and results of a function type together. The standard allows 1,000 of each; compilers
/// for real languages pass more than about twenty in memory.
pub const SIGNATURE_VALUES: usize = 256;
/// The maximum number of locals of one function, including its parameters. The standard allows 50,000; the largest known
/// functions have about 3,000.
pub const FUNCTION_LOCALS: usize = 10_000;
/// The maximum nesting depth of blocks in one function: the time to compile grows with the square. A large `switch` has one
/// block for each of its cases.
pub const FUNCTION_BLOCK_DEPTH: usize = 10_000;
/// The maximum nesting depth of loops in one function: the time to compile grows with the third power. Handwritten code has
/// ten levels.
pub const FUNCTION_LOOP_DEPTH: usize = 500;
/// The maximum product of loop nesting depth and locals of one function: where all locals are used in the innermost loop,
/// the compiler allocates a kilobyte for each pair. The main loop of an interpreter has 3,000 locals and ten nested loops.
pub const FUNCTION_NESTED_LOOP_LOCALS: usize = 1 << 17;
/// The maximum product of loops and locals of one function: where all locals are used after all loops, the compiler
/// allocates a hundred bytes for each pair. The main loop of an interpreter contains a hundred loops.
pub const FUNCTION_LOOP_LOCALS: usize = 1 << 20;
/// The maximum product of blocks, including loops, and locals of one function: where all locals are used after all blocks,
/// the compiler allocates some bytes for each pair. The main loop of an interpreter has about 10,000 blocks.
pub const FUNCTION_BLOCK_LOCALS: usize = 1 << 27;
/// The maximum number of values that the blocks, branches and calls of one function move, each counted at every occurrence.
/// The compiler allocates up to a kilobyte for each. The largest function of an interpreter moves about 50,000.
pub const FUNCTION_VALUES: usize = 1 << 18;
/// The maximum memory of the process that validates and compiles one component, in bytes. A component of 17 MB takes 500 MB.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;
/// The address space of that process beyond its memory, in bytes: the program itself, and what the allocator reserves for
/// each thread (128 MiB) without using it.
pub const COMPILE_ADDRESS_SPACE_BYTES: u64 = 3 << 30;
/// The number of open files of that process: standard input, output and error. No other file can be opened.
pub const COMPILE_OPEN_FILES: u64 = 3;
/// The maximum CPU time of validating and compiling one component, all threads together. A component of 17 MB takes 25 s; a
/// slow machine may take four times as long.
pub const COMPILE_CPU_TIME: Duration = Duration::from_secs(120);
/// The maximum wall time of validating and compiling one component: a busy machine grants it half a processor.
pub const COMPILE_WALL_TIME: Duration = Duration::from_secs(240);
/// The number of concurrent compile processes; others wait. Each may take [`COMPILE_MEMORY_BYTES`], 4 GiB in total.
pub const COMPILE_CHILDREN: usize = 2;
/// The number of threads of a compile process besides the main thread: more threads hardly shorten the compilation, and each
/// reserves address space.
pub const COMPILE_THREADS: usize = 8;
/// The maximum bytes of the compiled code of one component, and of all compiled code that waits to be loaded. A component of
/// 17 MB compiles to 50 MB.
pub const COMPILED_BYTES: usize = 512 << 20;
/// The maximum bytes of the error message of a compile process.
pub const COMPILE_MESSAGE_BYTES: usize = 64 << 10;
/// The maximum characters of that message, where it comes from the compiler.
pub const COMPILE_MESSAGE_CHARS: usize = 2_000;
/// The maximum bytes of a compile process's standard error that are kept for the log.
pub const COMPILE_COMPLAINT_BYTES: usize = 16 << 10;
/// The maximum number of plugin folders in one plugin directory.
pub const PLUGINS_PER_DIRECTORY: usize = 1_024;

// ---- file changes that tools propose

/// The maximum number of changes that one result may propose.
pub const CHANGES_PER_RESULT: usize = 1_000;
/// The maximum bytes of a proposed file.
pub const CHANGED_FILE_BYTES: usize = 8 << 20;
/// The maximum bytes of the path of a change, as in operating systems.
pub const CHANGED_PATH_BYTES: usize = 4_096;
/// The maximum number of files and folders that the changes of one result may remove, move, copy or replace: each is
/// examined twice, and no tool needs more.
pub const CHANGED_ENTRIES: usize = 10_000;
/// The maximum bytes that the changes of one result may remove, move, copy or replace: they are read to verify that they
/// match what was shown.
pub const CHANGED_TREE_BYTES: u64 = 256 << 20;
/// The maximum nesting depth of folders that are removed, moved or copied.
pub const CHANGED_DEPTH: u32 = 64;
/// The maximum bytes of previous contents kept to undo one result, and of all files that it overwrites, which are held in
/// memory.
pub const CHANGE_UNDO_BYTES: u64 = 64 << 20;
/// The maximum bytes of previous contents kept for one session.
pub const SESSION_UNDO_BYTES: u64 = 256 << 20;
/// The maximum number of results of one session whose changes are kept; nobody examines more.
pub const SESSION_UNDO_RECORDS: usize = 4_096;
/// The maximum bytes of the record of one result that changed files: one line for each of its files and folders.
pub const CHANGE_RECORD_BYTES: u64 = 64 << 20;
/// The maximum bytes of a file whose changes are shown line by line.
pub const DIFF_BYTES: usize = 1 << 20;
/// The maximum bytes of all files of one result whose changes are shown line by line, since comparing takes time.
pub const DIFFS_BYTES: usize = 8 << 20;
/// The maximum characters of all diffs of one result that a person is shown: about 300 lines.
pub const DIFF_CHARS: usize = 16_000;
/// The maximum characters of one diff line that are shown.
pub const DIFF_LINE_CHARS: usize = 500;
/// The maximum time to apply the changes of one result, without the time of the question: enough for a slow disk to read and
/// write [`CHANGED_TREE_BYTES`] a few times.
pub const CHANGE_TIME: Duration = Duration::from_secs(10 * 60);
/// The maximum number of diff lines shown before an undo.
pub const UNDO_LINES: usize = 500;
/// The maximum characters of a change's path that a person is shown: of longer paths the beginning and the end.
/// [`CHANGES_SHOWN`] lines with two such paths, and as many warnings, leave room for diffs.
pub const PATH_SHOWN_CHARS: usize = 160;
/// The maximum number of changes of one result that are shown on a line each, and of listed entries of a folder.
pub const CHANGES_SHOWN: usize = 50;

// ---- one plugin call

/// The default linear memory of one instance in bytes, all its memories together.
pub const PLUGIN_MEMORY_BYTES: usize = 128 << 20;
/// The largest memory that a config can give a plugin, in bytes: the size of a pool slot (address space, not memory).
pub const PLUGIN_MEMORY_CEILING: usize = 1 << 30;
/// The default number of elements of all tables of one instance together. A Python runtime needs about 12,000.
pub const PLUGIN_TABLE_ELEMENTS: usize = 100_000;
/// The default number of core instances in one component. Three are usual; languages with their own runtime need about
/// twenty.
pub const PLUGIN_CORE_INSTANCES: usize = 64;
/// The maximum number of linear memories in one component.
pub const PLUGIN_MEMORIES: u32 = 8;
/// The maximum number of tables in one component.
pub const PLUGIN_TABLES: u32 = 16;
/// The default stack of one guest in bytes. A deeper recursion ends the call.
pub const PLUGIN_STACK_BYTES: usize = 512 << 10;
/// The number of concurrent plugin calls in the whole process; the others wait.
pub const PLUGIN_CALLS: u32 = 256;
/// The bytes of a pool slot that stay mapped between two calls: those that a small guest touches first. Measured: 128 KiB
/// saves 40 % of a small call, 1 MiB makes it slower.
pub const POOL_KEEP_RESIDENT_BYTES: usize = 128 << 10;
/// The interval at which a busy guest is made to yield.
pub const EPOCH_TICK: Duration = Duration::from_millis(5);
/// The wall time of instantiating a plugin at load, and of `specs`.
pub const PROBE_TIME: Duration = Duration::from_secs(5);
/// The default wall time of a tool call.
pub const TOOL_TIME: Duration = Duration::from_secs(60);
/// The default wall time of a pure step: an effect's `eval`, a middleware's `before` or `after`.
pub const STEP_TIME: Duration = Duration::from_secs(1);
/// The default wall time of a completion by a provider plugin.
pub const COMPLETION_TIME: Duration = Duration::from_secs(600);
/// The time that one call may wait for a slow reader of its log, progress and deltas before it counts as the guest's own:
/// the call holds a permit meanwhile.
pub const READER_WAIT: Duration = Duration::from_secs(600);
/// The maximum bytes of values that one call passes to or receives from a guest through one function, strings and lists
/// together.
pub const HOSTCALL_BYTES: usize = 32 << 20;
/// The number of files that one plugin of one agent may be opening at once; one more waits. An open that never returns
/// blocks one of the host's 512 threads for blocking operations.
pub const OPENING_FILES: usize = 16;
/// The time that an open waits for its turn before it is refused. Normally an open takes microseconds, on a busy disk some
/// milliseconds.
pub const OPENING_WAIT: Duration = Duration::from_secs(5);
/// The time after which an open of a dropped call counts as ended, so that dropped calls do not permanently use up a
/// plugin's opens.
pub const OPENING_LAPSE: Duration = Duration::from_secs(60);
/// The maximum bytes that one read of a file returns to a guest, as in wasmtime-wasi.
pub const READ_BYTES: usize = 64 << 10;
/// The maximum number of entries of a folder that a guest lists, including `.` and `..`: they are read at once into the
/// host's memory, about 100 bytes each plus the name. Each counts as a call of an imported function.
pub const FOLDER_ENTRIES: usize = 20_000;
/// The maximum number of entries of all listings that one instance holds at once; one more listing is refused. A recursive
/// walk holds one listing per level.
pub const LISTED_ENTRIES: usize = 2 * FOLDER_ENTRIES;
/// The maximum number of handles (open files, streams) of one instance.
pub const PLUGIN_HANDLES: usize = 256;

/// The time by which the clock of a call without the `clock` grant advances at each reading: a busy wait of one second ends
/// after a thousand readings.
pub const FROZEN_STEP: Duration = Duration::from_millis(1);

// ---- plugin output

/// The maximum bytes of one log entry; the rest is cut.
pub const LOG_ENTRY_BYTES: usize = 4 << 10;
/// The maximum bytes that a guest may write to its standard output or error at once: they are held in memory until they are
/// split into lines.
pub const STDOUT_WRITE_BYTES: usize = 64 << 10;
/// The number of log entries shown of a plugin that failed when it was tried: the last ones, which tell why.
pub const PROBE_LOG_ENTRIES: usize = 3;
/// The default number of log entries of one call; later ones are dropped and counted.
pub const LOG_ENTRIES: u32 = 1_000;
/// The shortest interval between two progress reports of one call; of those in between, the newest is kept.
pub const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// The maximum number of tools of one plugin.
pub const TOOLS_PER_PLUGIN: usize = 128;
/// The maximum bytes of a tool's description.
pub const TOOL_DESCRIPTION_BYTES: usize = 8 << 10;
/// The maximum bytes of a tool's schema.
pub const TOOL_SCHEMA_BYTES: usize = 64 << 10;
/// The maximum nesting depth of a tool's schema. Vendors accept much less.
pub const TOOL_SCHEMA_DEPTH: usize = 32;
/// The last second that a four-digit date can name, after 1970.
pub const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);
/// The maximum bytes that `specs` returns.
pub const SPECS_BYTES: usize = 512 << 10;
/// The maximum bytes of a tool's result.
pub const RESULT_BYTES: usize = 16 << 20;
/// The maximum bytes of one image, document or sound.
pub const MEDIA_BYTES: usize = 8 << 20;
/// The maximum bytes of the media type, of the file name and of the address of a medium.
pub const MEDIA_NAME_BYTES: usize = 2 << 10;
/// The maximum bytes of the arguments of a tool call.
pub const ARGUMENT_BYTES: usize = 1 << 20;
/// The maximum bytes of the state that a pure step may keep. A config can only lower it: the state is recorded in every
/// turn.
pub const STATE_BYTES: usize = 64 << 10;
/// The maximum bytes of a note that an effect adds to the chat.
pub const NOTE_BYTES: usize = 16 << 10;
/// The maximum bytes of all notes that an effect adds in one step: about 30,000 tokens, which the model reads again in every
/// turn.
pub const NOTES_PER_STEP_BYTES: usize = 8 * NOTE_BYTES;
/// The maximum number of edits in one answer of an effect.
pub const EDITS_PER_STEP: usize = 1_024;
/// The maximum bytes of an error text.
pub const ERROR_BYTES: usize = 4 << 10;
/// The maximum bytes of one delta that a provider passes to its sink.
pub const DELTA_BYTES: usize = 64 << 10;
/// The maximum number of pairs in a `meta`.
pub const META_PAIRS: usize = 32;
/// The maximum bytes of a `meta`.
pub const META_BYTES: usize = 4 << 10;
/// The maximum bytes of the messages that one `chat.read` returns.
pub const CHAT_READ_BYTES: usize = 1 << 20;
/// The maximum number of entries that one `chat.entries` returns.
pub const CHAT_ENTRIES: usize = 1_024;
/// The maximum bytes that one `random.bytes` returns.
pub const RANDOM_BYTES: u32 = 64 << 10;

// ---- models over HTTP

/// The maximum bytes of one reply of a model: text, thinking and arguments together.
pub const REPLY_BYTES: usize = 16 << 20;
/// The bytes of a reply that may resemble printed tool calls without being any; the rest counts as text, so that a reply
/// that resembles a call everywhere is not parsed over and over.
pub const PRINTED_DOUBT_BYTES: usize = 1 << 20;
/// The maximum nesting depth of printed arguments that are not JSON; JSON has the parser's bound.
pub const PRINTED_DEPTH: usize = 64;
/// The bytes of the line before a printed call in which a word that marks an example is searched for.
pub const PRINTED_LINE_BYTES: usize = 512;
/// The maximum bytes of the header before a gpt-oss message, which names its recipient and format.
pub const PRINTED_HEADER_BYTES: usize = 512;
/// The maximum number of tool calls of one reply that are assembled: more than an agent executes, so that it can report the
/// excess.
pub const CALLS_IN_REPLY: usize = 8 * CALLS_PER_REPLY;
/// The maximum bytes of a word from a model server that is kept: the name of a model, an unknown stop reason.
pub const REPLY_WORD_BYTES: usize = 256;
/// The maximum bytes of one event in a stream of a model server.
pub const STREAM_EVENT_BYTES: usize = 8 << 20;
/// The maximum bytes of one event stream of a server. Each delta comes in an event of about 300 bytes: the longest replies,
/// of about 130,000 tokens, take 40 MB.
pub const STREAM_BYTES: usize = 256 << 20;
/// The maximum consecutive bytes of a stream without progress: comments, empty and unknown events, deltas without content.
/// At the end some protocols repeat the whole reply in several events. Reading this many takes some seconds at most.
pub const STREAM_IDLE_BYTES: usize = 2 * REPLY_BYTES;
/// The time for which the stream of a reply may continue without progress. Servers send keep-alive events while a model
/// thinks silently. A longer silence that a config allows also applies here.
pub const STREAM_IDLE_EVENTS_TIME: Duration = Duration::from_secs(300);
/// The bytes of an error body that are read to explain the error.
pub const ERROR_BODY_BYTES: usize = 4 << 10;
/// The time of one connection attempt, from the name lookup to the end of the TLS handshake, with or without a proxy. A
/// reachable server answers within one second; a packet that is lost twice takes three more.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// The time that an agent waits for its model before a person is notified; then after twice that time, and so on. A
/// reachable server begins within seconds, one that loads a model does not.
pub const MODEL_QUIET_TOLD: Duration = Duration::from_secs(10);
/// The default maximum silence in the middle of a reply.
pub const STREAM_IDLE_TIME: Duration = Duration::from_secs(120);
/// The default number of retries for transient failures.
pub const HTTP_RETRIES: usize = 3;
/// The longest completion time, and the longest silence, that a config can set.
pub const COMPLETION_TIME_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// The token limit of the reply to a request that only checks whether a model answers: room for a short thought.
pub const PROBE_TOKENS: u32 = 256;
/// The delay before the second attempt where the server names none; it doubles for each further one.
pub const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// The maximum number of retries of a reply that broke off in the middle, if the model's own `retries` allow as many. Each
/// of them is charged.
pub const BROKEN_REPLIES: usize = 2;
/// The maximum number of tools that one run omits because the model's vendor refuses their schemas. Each costs a request; a
/// server that refuses more refuses everything.
pub const REFUSED_TOOLS: usize = 8;
/// The longest `Retry-After` that is obeyed; a longer one is reported.
pub const RETRY_AFTER_CEILING: Duration = Duration::from_secs(60);
/// The time that a cancelled run has to report its end, if its reader does not continue to read, and that a run waits for
/// the end of the children that it stops.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// The time to find out whether a local model server is running.
pub const DISCOVERY_TIME: Duration = Duration::from_millis(500);

// ---- compile cache

/// The maximum bytes of all compiled components in the cache; beyond it the oldest are removed.
pub const CACHE_BYTES: u64 = 1 << 30;
/// The maximum number of files in the cache, including those that mark a component as valid; beyond it the oldest are
/// removed. Several times the plugins of one directory.
pub const CACHE_ENTRIES: usize = 8 * PLUGINS_PER_DIRECTORY;

// ---- money and budgets

/// The largest amount that a budget or a price can name, in whole dollars. A larger one is a typing error.
pub const MONEY_DOLLARS: u64 = 1_000_000;
/// The longest wall time that a budget can name: 30 days, beyond any run.
pub const BUDGET_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// The reply limit that every model supports. While a budget has room for this many tokens, a request without a limit is
/// left to the model's default: models with shorter replies would refuse a higher limit.
pub const REPLY_TOKENS_OF_ANY_MODEL: u64 = 4_096;
/// The maximum bytes of one price list.
pub const PRICE_LIST_BYTES: usize = 1 << 20;
/// The maximum number of models in all price lists together. All vendors together have some hundreds.
pub const PRICES: usize = 4_096;
/// The maximum number of agents with their own row in a ledger; the usage of further ones is added to one common row.
pub const LEDGER_AGENTS: usize = 1_024;

// ---- shared state: blackboards, tasks, notes

/// The maximum bytes of a key on a blackboard.
pub const BLACKBOARD_KEY_BYTES: usize = 128;
/// The maximum bytes of a value on a blackboard as JSON: slightly below [`TOOL_RESULT_CHARS`], so that a model that reads it
/// sees all of it.
pub const BLACKBOARD_VALUE_BYTES: usize = 31_000;
/// The maximum number of keys on one blackboard.
pub const BLACKBOARD_KEYS: usize = 1_024;
/// The maximum bytes of all keys and values on one blackboard.
pub const BLACKBOARD_BYTES: usize = 8 << 20;
/// The maximum number of existing keys named in the error for a missing key.
pub const BLACKBOARD_KEYS_SHOWN: usize = 20;
/// The maximum bytes of a blackboard's namespace: with a suffix it is the name of a tool.
pub const NAMESPACE_BYTES: usize = 32;
/// The longest time that a tool call waits for a blackboard or a task, and the default.
pub const SHARED_WAIT: Duration = Duration::from_secs(300);
/// The additional time of such a call to report that nothing came.
pub const SHARED_WAIT_GRACE: Duration = Duration::from_secs(5);
/// The maximum number of tasks on one board; none is ever removed.
pub const TASKS: usize = 1_024;
/// The maximum number of tasks in one listing for a model.
pub const TASKS_LISTED: usize = 100;
/// The maximum characters of a task's title, which is shown in lists.
pub const TASK_TITLE_CHARS: usize = 200;
/// The maximum bytes of a task's description.
pub const TASK_DESCRIPTION_BYTES: usize = 16 << 10;
/// The maximum number of dependencies of one task.
pub const TASK_DEPENDENCIES: usize = 64;
/// The maximum number of facts in the metadata of a task.
pub const TASK_METADATA_KEYS: usize = 32;
/// The maximum bytes of all metadata of a task as JSON.
pub const TASK_METADATA_BYTES: usize = 8 << 10;
/// The maximum nesting depth of a task's metadata: any document that contains it must stay below the parser's depth of 127.
pub const TASK_METADATA_DEPTH: usize = 64;
/// The time that a watched task may be without an assignee: long enough for an agent to start, and short enough not to wait
/// for one that never will.
pub const TASK_UNCLAIMED: Duration = Duration::from_secs(15);
/// The maximum bytes of the name of a note.
pub const NOTES_NAME_BYTES: usize = 64;
/// The maximum bytes of one note: a model that reads it sees all of it.
pub const NOTES_FILE_BYTES: usize = TOOL_RESULT_CHARS;
/// The maximum number of notes in one folder.
pub const NOTES_FILES: usize = 256;
/// The maximum characters of a note's first line in a list.
pub const NOTES_LINE_CHARS: usize = 80;
/// The maximum characters of an invalid name in an error message.
pub const NAME_SHOWN_CHARS: usize = 100;

// ---- questions to a person

/// The maximum number of open questions to a person; a further one waits. More than a person can review.
pub const OPEN_QUESTIONS: usize = 64;
/// The time that a question waits for its answer, including the wait for its turn: a person may be away for a night.
pub const QUESTION_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// The maximum bytes of a question's text: what still fits on one or two screens.
pub const QUESTION_BYTES: usize = 8 << 10;
/// The maximum bytes of a question's header, of an option's label and of a permission's subject.
pub const QUESTION_LABEL_BYTES: usize = 256;
/// The maximum bytes of an option's description.
pub const OPTION_DESCRIPTION_BYTES: usize = 1 << 10;
/// The maximum number of options of one question.
pub const QUESTION_OPTIONS: usize = 32;
/// The maximum characters of the details of a permission question; the rest is cut, and the cut is shown.
pub const PERMISSION_DETAIL_CHARS: usize = 4_000;
/// The maximum characters of the details of a question about file changes: [`DIFF_CHARS`] of diffs, and the lines that name
/// each change.
pub const CHANGE_DETAIL_CHARS: usize = 40_000;
/// The maximum characters of a question in an event.
pub const QUESTION_SUMMARY_CHARS: usize = 200;
/// The maximum bytes of an answer in a person's own words.
pub const ANSWER_BYTES: usize = 16 << 10;
/// The maximum number of permanently trusted subjects. A list that nobody can review protects nothing.
pub const TRUSTED_SUBJECTS: usize = 1_024;
/// The maximum number of events held back while a person is asked at the terminal; beyond it the run waits for the person.
pub const HELD_EVENTS: usize = 1_024;
// ---- skills and project context

/// The maximum bytes of one `SKILL.md`. About 16,000 tokens: longer procedures belong in separate files, read on demand.
pub const SKILL_BYTES: u64 = 64 << 10;
/// The maximum number of skills in one directory. Each costs a line of the system prompt.
pub const SKILLS: usize = 256;
/// The maximum characters of a skill's name: a model must reproduce it exactly.
pub const SKILL_NAME_CHARS: usize = 64;
/// The maximum characters of a skill's description. Other tools accept 1,024.
pub const SKILL_DESCRIPTION_CHARS: usize = 2_048;
/// The maximum bytes of all skills of one directory in the system prompt: those without a description.
pub const INLINE_SKILLS_BYTES: usize = 128 << 10;
/// The maximum characters of a project's context in the system prompt, including its frame and the index. About 8,000
/// tokens, sent with every request.
pub const CONTEXT_CHARS: usize = 32_000;
/// The default number of bytes read of one file of a project's context; the rest is cut.
pub const CONTEXT_FILE_BYTES: u64 = 512 << 10;
/// The largest number of bytes read of such a file that a config can set: each file is held in memory before it is cut to
/// [`CONTEXT_CHARS`].
pub const CONTEXT_FILE_CEILING: u64 = 16 << 20;
/// The maximum number of files of one folder in a project's context: the first by name.
pub const CONTEXT_FILES: usize = 64;
/// The maximum bytes of a permissions file.
pub const PERMISSIONS_BYTES: u64 = 1 << 20;
/// The maximum number of files and folders examined for a project's index. Ten times the size of most repositories.
pub const INDEX_ENTRIES: usize = 200_000;
/// The maximum depth of folders examined for a project's index.
pub const INDEX_DEPTH: usize = 16;
/// The time for a project's index: a slow disk must not keep an agent from starting.
pub const INDEX_TIME: Duration = Duration::from_secs(2);
/// The maximum characters of a project's index. About 2,000 tokens.
pub const INDEX_CHARS: usize = 8_000;
/// The maximum number of subfolders of one folder named in a project's index: the first by name.
pub const INDEX_FOLDERS_NAMED: usize = 48;
/// The maximum bytes of one `.gitignore` read for a project's index; a longer one is not used.
pub const IGNORE_FILE_BYTES: u64 = 64 << 10;
/// The bytes read of the small files that describe a git repository's state, and of the end of its log.
pub const GIT_FILE_BYTES: u64 = 64 << 10;

// ---- error messages about the config

/// The maximum number of existing names listed in the error for an unknown name.
pub const NAMES_SHOWN: usize = 50;

// ---- recorded nondeterministic inputs of a plugin call

/// The maximum number of recorded clock readings of one call; later ones are omitted and the record is marked as cut.
pub const GIVEN_CLOCK_READINGS: usize = 1_024;
/// The maximum number of recorded random bytes of one call; later ones are omitted and the record is marked as cut. Equal to
/// one maximum [`RANDOM_BYTES`].
pub const GIVEN_RANDOM_BYTES: usize = 64 << 10;

// ---- sessions on disk

/// The maximum number of sessions of one project. Listing them stays quick, and nobody can tell more apart.
pub const SESSIONS: usize = 100_000;
/// The maximum bytes of all sessions of one project; beyond it no session is created, and a person is asked to remove some.
pub const SESSIONS_BYTES: u64 = 8 << 30;
/// The maximum delay between a write to a session and its sync, if no caller waits for it: thus a call that follows a reply
/// at once waits for one sync, not two.
pub const SESSION_SYNC_DELAY: Duration = Duration::from_millis(5);
/// The maximum bytes of one session, including attachments: what an endless run may fill before it ends.
pub const SESSION_BYTES: u64 = 2 << 30;
/// The maximum bytes of one line of a journal: the largest record is a rewritten conversation of small messages.
pub const SESSION_LINE_BYTES: usize = 64 << 20;
/// The maximum bytes of one record as JSON, including attachments: a whole conversation with its media as base64.
pub const SESSION_RECORD_BYTES: usize = 2 * CHAT_BYTES;
/// The maximum bytes that wait for the disk. A disk that is further behind will not catch up.
pub const SESSION_PENDING_BYTES: usize = 64 << 20;
/// The bytes of a line beyond which its long strings become attachments.
pub const SESSION_INLINE_LINE_BYTES: usize = 16 << 10;
/// The bytes beyond which a string of a long line becomes an attachment.
pub const SESSION_INLINE_STRING_BYTES: usize = 4 << 10;
/// The bytes beyond which a system prompt becomes an attachment in any line: a thousand agents share one.
pub const SESSION_INLINE_PROMPT_BYTES: usize = 1 << 10;
/// The maximum bytes of a header; a longer one is not read.
pub const SESSION_HEADER_BYTES: usize = 256 << 10;
/// The maximum bytes of the command line's paths and names in a header; longer ones must be given again on resume.
pub const SESSION_OPTIONS_BYTES: usize = 32 << 10;
/// The maximum number of folders for which the configs of earlier sessions are remembered; the oldest are removed.
pub const SESSION_FOLDERS: usize = 256;
/// The maximum number of remembered configs per folder; the oldest are removed.
pub const SESSION_FOLDER_CONFIGS: usize = 8;
/// The maximum bytes of the file that holds them; a larger one is not read.
pub const SESSION_FOLDERS_BYTES: u64 = 8 << 20;
/// The bytes at the end of a journal that are read to determine how its last run ended.
pub const SESSION_TAIL_BYTES: usize = 64 << 10;
/// The maximum characters of a session's title.
pub const SESSION_TITLE_CHARS: usize = 200;
/// The maximum characters of a task from an earlier session in an agent's prompt.
pub const RECALLED_TASK_CHARS: usize = 2_000;
/// The maximum characters of an answer from an earlier session in an agent's prompt.
pub const RECALLED_ANSWER_CHARS: usize = 8_000;
/// The maximum characters of an earlier session in an agent's prompt: the newest entries. About 5,000 tokens.
pub const RECALLED_CHARS: usize = 20_000;
/// The maximum bytes of a session's name.
pub const SESSION_NAME_BYTES: usize = 64;
/// The minimum bytes of a credential that is searched for in written text; shorter ones would match text that is no secret.
pub const SESSION_SECRET_BYTES: usize = 8;
/// The characters before and after a match in the excerpt that is shown.
pub const SESSION_EXCERPT_CHARS: usize = 80;
/// The maximum characters of a searched text.
pub const SESSION_SEARCH_CHARS: usize = 1_000;
/// The maximum number of files in one session that are counted. More attachments do not fit into [`SESSION_BYTES`].
pub const SESSION_FILES: usize = 2_500_000;
/// The number of attempts to lock a session: a process that lists sessions holds each lock briefly.
pub const SESSION_LOCK_TRIES: u32 = 5;
/// The pause between two attempts to lock a session.
pub const SESSION_LOCK_PAUSE: Duration = Duration::from_millis(10);
/// The maximum nesting depth of folders in a removed session: a session has one level, and foreign content seldom more. Each
/// level takes stack space.
pub const SESSION_FOLDERS_DEEP: u32 = 32;
/// The maximum number of unreadable sessions named in the warning of a search; the rest is counted.
pub const SESSIONS_LEFT_OUT_SHOWN: usize = 5;
/// The age at which an incompletely created session, as a crash leaves it, is removed.
pub const SESSION_LEFTOVER_AGE: Duration = Duration::from_secs(3_600);

// ---- display of sessions

/// The maximum characters of a call's arguments in `session show`; the rest is cut. One or two lines of a terminal.
pub const SESSION_CALL_CHARS: usize = 200;
/// The maximum characters of a call's result in `session show`; the rest is cut. Half a screen.
pub const SESSION_RESULT_CHARS: usize = 1_000;
/// The maximum characters of a journal line's description in a list of lines.
pub const SESSION_STEP_CHARS: usize = 100;

// ---- configurable plugin limits: defaults and ceilings

/// The longest wall time that a config can give a call.
pub const PLUGIN_TIME_CEILING: Duration = Duration::from_secs(3_600);
/// The default CPU time of one call. Half of a tool's wall time: more indicates an endless loop.
pub const PLUGIN_CPU_TIME: Duration = Duration::from_secs(30);
/// The longest CPU time that a config can give a call: equal to the longest wall time.
pub const PLUGIN_CPU_CEILING: Duration = PLUGIN_TIME_CEILING;
/// The largest number of table elements that a config can give one instance: the size of a pool slot (address space, not
/// memory).
pub const PLUGIN_TABLE_ELEMENTS_CEILING: usize = 1_000_000;
/// The largest number of core instances that a config can give one component. Ten times the need of the largest known ones.
pub const PLUGIN_CORE_INSTANCES_CEILING: usize = 256;
/// The largest stack that a config can give guests, in bytes. A thread's usual stack: each active call reserves this much
/// address space.
pub const PLUGIN_STACK_CEILING: usize = 8 << 20;
/// The stack of one call beyond the guest's own, in bytes: for the host functions that the guest calls.
pub const PLUGIN_HOST_STACK_BYTES: usize = 1536 << 10;
/// The default bytes of strings and lists that one call receives: its input, and the results of imported functions. Half of
/// its memory.
pub const PLUGIN_INPUT_BYTES: usize = 64 << 20;
/// The default bytes of strings and lists that one call returns: its result, and the arguments of imported functions.
pub const PLUGIN_OUTPUT_BYTES: usize = 64 << 20;
/// The largest number of bytes in each direction that a config can allow one call: the size of the largest memory.
pub const PLUGIN_CROSSING_CEILING: usize = PLUGIN_MEMORY_CEILING;
/// The largest number of log entries that a config can give one call. Nobody reads more.
pub const LOG_ENTRIES_CEILING: u32 = 100_000;
/// The default bytes of all log entries of one call, each cut to [`LOG_ENTRY_BYTES`]; later ones are dropped and counted.
pub const LOG_BYTES: usize = 1 << 20;
/// The largest number of log bytes that a config can give one call.
pub const LOG_BYTES_CEILING: usize = 64 << 20;
/// The default number of calls of imported functions per second, of all calls of one plugin of one agent together. A cheap
/// function called this often takes about a hundredth of a core. Calls that are answered from the system's memory within the
/// call's own CPU time, such as most file reads, do not count.
pub const HOST_CALLS_PER_SECOND: u32 = 50_000;
/// The largest number of such calls per second that a config can allow: a higher one would slow down nothing.
pub const HOST_CALLS_PER_SECOND_CEILING: u32 = 10_000_000;
/// The time whose allowance of such calls may be used at once after a pause.
pub const HOST_CALLS_AT_ONCE: Duration = Duration::from_secs(1);
/// The maximum quarters of all call permits that the calls of one component take, however many agents have it, and of all
/// guest memory that one component or one agent holds: others find free ones.
pub const PLUGIN_QUARTERS_OF_ONE: u32 = 3;
/// The default number of concurrent calls of one plugin of one agent; others wait. A third of the permits for computing
/// calls, so that one plugin alone cannot hold all of them.
pub const PLUGIN_CONCURRENCY: u32 = 64;
/// The time that a call waits for its permits (its plugin's, and one among all calls), and a new instance for its memory.
/// Twice a tool's wall time.
pub const PLUGIN_PLACE_WAIT: Duration = Duration::from_secs(120);
/// The bytes of guest memory and tables of all plugins together, where neither the machine nor its cgroup reports its
/// memory.
pub const GUEST_MEMORY_BYTES: usize = 2 << 30;
/// The fraction (one in this number) of the memory of the machine or its cgroup that guests may hold together by default:
/// the other half is for the host, the programs that it runs and everything else.
pub const GUEST_MEMORY_PART: u64 = 2;
/// The smallest guest memory of all plugins together that a config can set, in bytes: room for a few small instances.
pub const GUEST_MEMORY_LEAST: usize = 16 << 20;
/// The largest guest memory that a config can set, in bytes: beyond any machine, so that sums do not overflow.
pub const GUEST_MEMORY_CEILING: usize = 1 << 40;
/// The fraction (one in this number) of the guest memory that new calls leave to active ones, which release their memory
/// when they are done.
pub const GUEST_MEMORY_RESERVE_PART: usize = 8;
/// The time that an active call waits for more guest memory. Its present memory is unavailable to others meanwhile.
pub const GUEST_MEMORY_WAIT: Duration = Duration::from_secs(10);
/// The bytes read at once of a kernel file that reports memory: each such file is smaller.
pub const KERNEL_FILE_BYTES: usize = 8 << 10;
/// The maximum number of nested control groups searched for a memory limit; the kernel allows about as many.
pub const CONTROL_GROUP_DEPTH: usize = 64;
/// The bytes of a page of linear memory, the unit in which guest memory is reserved.
pub const WASM_PAGE_BYTES: usize = 64 << 10;
/// The bytes of a table element in the host.
pub const TABLE_ELEMENT_BYTES: usize = size_of::<usize>();
/// The time that a computing call waits in a queue in which no turn ends, before it continues without one: the holder of the
/// turn is not being polled then.
pub const PLUGIN_TURN_WAIT: Duration = Duration::from_secs(1);
// ---- component functions as tools

/// The maximum number of functions that a component of kind `functions` may export: each is read and named. A model is
/// offered at most [`TOOLS_PER_PLUGIN`] of them.
pub const EXPORTED_FUNCTIONS: usize = 1_024;
/// The maximum nesting depth of the types of a function's parameters and results. Its schema is several times as deep, and
/// [`TOOL_SCHEMA_DEPTH`] applies first.
pub const VALUE_DEPTH: usize = 16;
/// The maximum number of types and case names of one function, each counted at every occurrence: types that contain others
/// twice grow exponentially in a few lines.
pub const VALUE_TYPES: usize = 1_000;
/// The maximum bytes of a function's WIT in its description; the rest is cut.
pub const SIGNATURE_BYTES: usize = 4 << 10;
/// The maximum bytes of a component's documentation of its functions; more is not read.
pub const PACKAGE_DOCS_BYTES: usize = 256 << 10;
/// The maximum number of handles of one component that a model may hold in one run: more than it can tell apart.
pub const FUNCTION_HANDLES: usize = 256;
/// The maximum number of plugin instances kept for runs in the whole process, in addition to [`PLUGIN_CALLS`]; a further one
/// waits.
pub const KEPT_INSTANCES: u32 = 64;
/// The time without a call after which an instance kept for a run is dropped, since it holds memory.
pub const KEPT_IDLE: Duration = Duration::from_secs(10 * 60);

// ---- key-value stores of plugins

/// The maximum bytes of a key, as in the contract.
pub const KV_KEY_BYTES: usize = 512;
/// The maximum bytes of a value, as in the contract: what one call can easily pass.
pub const KV_VALUE_BYTES: usize = 1 << 20;
/// The maximum bytes of all keys and values of one store, as in the contract. A store's file has up to twice as many plus
/// [`KV_WASTE_BYTES`].
pub const KV_STORE_BYTES: u64 = 64 << 20;
/// The maximum number of keys of one store: each takes about a hundred bytes of the host's memory while the store is in use.
pub const KV_STORE_KEYS: usize = 65_536;
/// The maximum number of keys that one `kv.keys` returns, as in the contract.
pub const KV_KEYS_LISTED: usize = 1_000;
/// The maximum bytes of keys and values of all in-memory stores together, including [`KV_ENTRY_BYTES`] for each key: a
/// thousand active agents have one each.
pub const KV_MEMORY_BYTES: usize = 512 << 20;
/// The bytes that an entry takes in addition to its key and value.
pub const KV_ENTRY_BYTES: usize = 128;
/// The bytes of overwritten and removed records that a file may hold beyond the size of the live ones, before it is
/// rewritten.
pub const KV_WASTE_BYTES: u64 = 4 << 20;
/// The time to wait for another process that uses the same store: it holds the lock for one operation at a time.
pub const KV_LOCK_TIME: Duration = Duration::from_secs(5);
/// The pause between two attempts to lock a store.
pub const KV_LOCK_PAUSE: Duration = Duration::from_millis(1);
/// The maximum bytes of an agent's or plugin's name in a file name; a longer one is replaced by its SHA-256.
pub const KV_FILE_NAME_BYTES: usize = 100;
/// The maximum bytes of a store's file; a larger one was not written by this program, and is not read. Twice the live
/// content, including [`KV_RECORD_BYTES`] for each key, plus the permitted waste and one more record.
pub const KV_FILE_BYTES: u64 = 2 * (KV_STORE_BYTES + (KV_STORE_KEYS * KV_RECORD_BYTES) as u64)
    + KV_WASTE_BYTES
    + (KV_RECORD_BYTES + KV_KEY_BYTES + KV_VALUE_BYTES) as u64;
/// The bytes of a record in a file in addition to its key and value.
pub const KV_RECORD_BYTES: usize = 22;
/// The maximum number of distinct warnings about one unusable store. A process that changes the file repeatedly could cause
/// new ones forever.
pub const KV_WARNINGS: u32 = 8;
// ---- trust

/// The maximum bytes of the file that records what a person trusts; when it is full, the oldest answers are removed.
pub const TRUST_STORE_BYTES: u64 = 16 << 20;
/// The maximum number of projects in it.
pub const TRUST_PROJECTS: usize = 1_000;
/// The maximum bytes recorded for one project without its MCP servers, as JSON: some thousand lines.
pub const TRUST_PROJECT_BYTES: usize = 256 << 10;
/// The maximum number of MCP servers of a project whose approvals are recorded; the oldest are removed.
pub const TRUST_SERVERS: usize = 64;
/// The maximum bytes recorded for them, as JSON: ten servers with the maximum number of tools.
pub const TRUST_SERVERS_BYTES: usize = 1 << 20;
/// The maximum number of versions of a project's instruction files that are remembered as seen by a person; the oldest are
/// removed. Several for each file that a project can have.
pub const INSTRUCTIONS_SEEN: usize = 2_048;
/// The maximum bytes of their texts, which are kept to show changes: several times a project's context.
pub const INSTRUCTIONS_SEEN_BYTES: usize = 1 << 20;
/// The maximum bytes of the file that holds them: each byte of a text takes at most six in JSON, and each version has a name
/// and a digest.
pub const INSTRUCTIONS_FILE_BYTES: u64 = 16 << 20;
/// The maximum number of changed lines of instruction files shown in one question; the rest is counted.
pub const INSTRUCTIONS_LINES: usize = 200;
/// The bytes of the key that identifies a person's sessions: equal to the digest's.
pub const OWN_KEY_BYTES: usize = 32;
/// The maximum bytes of the key's file: hexadecimal digits and a line end.
pub const OWN_KEY_FILE_BYTES: u64 = 128;
/// The maximum number of subjects in one trust question; nobody would read more.
pub const FACTS_SHOWN: usize = 200;
/// The maximum characters of one subject: some lines of a terminal. A longer one could hide its end.
pub const FACT_CHARS: usize = 500;
/// The maximum number of a project's subjects named in a refusal; the rest is counted.
pub const FACTS_TOLD: usize = 5;

// ---- conformance suite

/// The maximum number of attacks in one suite.
pub const CONFORMANCE_ATTACKS: usize = 1_000;
/// The maximum bytes of one `attack.toml`.
pub const CONFORMANCE_FILE_BYTES: u64 = 64 << 10;
/// The maximum bytes of the component of one attack, and of its source text with all repetitions.
pub const CONFORMANCE_COMPONENT_BYTES: u64 = 16 << 20;
/// The maximum bytes of all components of one suite.
pub const CONFORMANCE_SUITE_BYTES: u64 = 256 << 20;
/// The maximum bytes of the sentence that describes an attack.
pub const CONFORMANCE_SENTENCE_BYTES: usize = 500;
/// The maximum number of calls of one attack.
pub const CONFORMANCE_CALLS: u32 = 16;
/// The number of concurrent attacks: a few wait while others keep the cores busy.
pub const CONFORMANCE_AT_ONCE: usize = 8;
/// The wall time, or CPU time, of a call of an attack that tries to run forever.
pub const CONFORMANCE_HASTY_TIME: Duration = Duration::from_millis(300);
/// The wall time of a call of any other attack: enough on a busy machine, so that the call ends for the intended reason.
pub const CONFORMANCE_CALL_TIME: Duration = Duration::from_secs(10);
/// The time beyond its limit that a call may take before it counts as an escape: the machine may be busy.
pub const CONFORMANCE_SLACK: Duration = Duration::from_secs(5);
/// The CPU time beyond its limit that a call may take before it counts as an escape: the limit is checked between the steps
/// of a call.
pub const CONFORMANCE_CPU_SLACK: Duration = Duration::from_millis(500);
/// The wall time of loading an attack and of all its calls; a longer one counts as an escape.
pub const CONFORMANCE_RUN_TIME: Duration = Duration::from_secs(40);
/// The default wall time of a host that runs an attack in a separate process: refusing or compiling the largest allowed
/// component takes a tenth of it, and the machine may be busy.
pub const CONFORMANCE_HOST_TIME: Duration = Duration::from_secs(20);
/// The default number of bytes by which such a host may grow: reading and validating the largest allowed structure takes
/// half of them.
pub const CONFORMANCE_HOST_MEMORY_BYTES: u64 = 256 << 20;
/// The largest growth in bytes that an attack can allow its host: a small machine that runs the suite has this much left.
pub const CONFORMANCE_HOST_MEMORY_CEILING_BYTES: u64 = 4 << 30;
/// The number of concurrent processes with such hosts: together they may take twice the memory of one.
pub const CONFORMANCE_HOSTS: usize = 2;
/// The interval between two readings of such a process's memory: at a gigabyte per second it grows by 10 MB.
pub const CONFORMANCE_LOOK: Duration = Duration::from_millis(10);
/// The maximum bytes read of such a process's output: two lines, each with some sentences.
pub const CONFORMANCE_OUTPUT_BYTES: u64 = 256 << 10;
/// The pause between two swaps of a path with a link, while an attack opens that path: equal to the interval of its calls.
pub const CONFORMANCE_SWAP_PAUSE: Duration = Duration::from_micros(20);
/// The maximum characters shown of an attack's result.
pub const CONFORMANCE_DETAIL_CHARS: usize = 300;
/// The number of tool calls and of agent runs by which the host's speed is measured; the median counts.
pub const CONFORMANCE_ROUNDS: usize = 200;
/// The factor by which a call may be slower after the suite; other processes may keep the machine busy.
pub const CONFORMANCE_SLOWER: u32 = 5;
/// The time that a call may take after the suite, however quick it was before.
pub const CONFORMANCE_QUICK: Duration = Duration::from_millis(1);
/// The bytes by which the process may have grown after the suite: pages that the allocator keeps, mostly from compiling.
pub const CONFORMANCE_GROWTH_BYTES: u64 = 128 << 20;
/// The time in which the process must return to its size before the suite.
pub const CONFORMANCE_SETTLING: Duration = Duration::from_secs(5);
/// The time that a thread of the runtime's blocking pool is kept after its work, and the interval between two readings of
/// the process.
pub const CONFORMANCE_PAUSE: Duration = Duration::from_millis(100);

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

// ---- outgoing HTTP: retries, rates, proxies, secrets

/// The largest number of retries of a request that a config can set: more only keep a busy server busy.
pub const HTTP_RETRIES_CEILING: usize = 10;
/// The default maximum total of delays between the attempts of one request: two long ones that a server asks for.
pub const RETRY_WAITING: Duration = Duration::from_secs(120);
/// The largest total of delays between the attempts of one request that a config can set.
pub const RETRY_WAITING_CEILING: Duration = Duration::from_secs(600);
/// The longest delay that doubling reaches: a server that is still unavailable then has a longer outage.
pub const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The largest number of requests or tokens that is accepted as a server's limit. No account has more.
pub const RATE_CEILING: u64 = 1_000_000_000_000;
/// The longest time that is accepted for the reset of a server's limit: accounts are counted by the month at most.
pub const RATE_RESET_CEILING: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// The maximum bytes of one header that reports a server's limit. A date has about 30.
pub const RATE_HEADER_BYTES: usize = 64;
/// The maximum bytes shown of a header of a server.
pub const SHOWN_HEADER_BYTES: usize = 64;
/// The maximum bytes of the URL of a proxy, including user and password.
pub const PROXY_URL_BYTES: usize = 2 << 10;
/// The maximum number of servers that are contacted without the proxy.
pub const PROXY_EXCEPTIONS: usize = 256;
/// The maximum bytes of one such entry: a domain name has at most 253.
pub const PROXY_EXCEPTION_BYTES: usize = 256;
/// The maximum bytes of the source of a secret, and of a secret. The longest tokens have about 4 KiB.
pub const SECRET_BYTES: u64 = 64 << 10;
/// The wall time of a command that prints a secret: a person may have to unlock it.
pub const SECRET_COMMAND_TIME: Duration = Duration::from_secs(60);
/// The interval between two checks whether a program has ended, once its output is complete.
pub const PROCESS_PAUSE: Duration = Duration::from_millis(10);
/// The time to wait for the error output of such a command, once it has ended.
pub const SECRET_COMMAND_GRACE: Duration = Duration::from_millis(500);
/// The maximum bytes shown of such a command's error output.
pub const SECRET_COMMAND_ERROR_BYTES: usize = 1 << 10;
/// The maximum number of words of such a command, including the program.
pub const SECRET_COMMAND_WORDS: usize = 64;
/// The maximum number of cached secrets from files and commands, each of which is read once.
pub const SECRETS_KEPT: usize = 256;

// ---- Anthropic

/// The token limit of a reply where neither request nor config sets one: the API requires a limit. Room for a whole file in
/// the arguments of a call, and within the maximum of every current model.
pub const ANTHROPIC_REPLY_TOKENS: u32 = 8_192;
/// The maximum number of content blocks of one reply. Citations split a text into many; each costs memory even if it is
/// empty.
pub const ANTHROPIC_REPLY_BLOCKS: usize = 4_096;

// ---- the Responses API

/// The maximum number of items of one reply: messages, reasoning, calls and others. Twice the number of calls.
pub const RESPONSES_ITEMS: usize = 2 * CALLS_IN_REPLY;
/// The smallest token limit of a reply that OpenAI accepts.
pub const RESPONSES_LEAST_TOKENS: u32 = 16;
/// The maximum bytes of a call id that OpenAI accepts.
pub const RESPONSES_CALL_ID_BYTES: usize = 64;

// ---- schemas adapted for a vendor

/// The maximum nesting depth of schemas; deeper content is left open. Twice that of a plugin's tool, since references are
/// expanded.
pub const SCHEMA_DEPTH: usize = 2 * TOOL_SCHEMA_DEPTH;
/// The maximum nesting depth of expanded references; a schema that needs more tells a model nothing.
pub const SCHEMA_REFS: usize = 16;
/// The bytes beyond which no further reference is expanded: a few references can name each other without end.
pub const SCHEMA_INLINED_BYTES: usize = 4 * TOOL_SCHEMA_BYTES;

// ---- batched requests

/// The default time that the first request of a batch waits for others.
pub const BATCH_WINDOW: Duration = Duration::from_millis(500);
/// The longest batch window that a config can set: it is added to every turn of an agent.
pub const BATCH_WINDOW_CEILING: Duration = Duration::from_secs(60);
/// The default delay before a vendor is first asked for the state of a batch.
pub const BATCH_POLL: Duration = Duration::from_secs(5);
/// The longest delay between two such polls: the end of a batch must be noticed in time.
pub const BATCH_POLL_CEILING: Duration = Duration::from_secs(60);
/// The maximum number of consecutive polls that may fail with a transient error; the submitted requests are already charged.
pub const BATCH_POLL_FAILURES: u32 = 3;
/// The default time from the submission of a batch until its requests are sent directly instead.
pub const BATCH_TIME: Duration = Duration::from_secs(3_600);
/// The longest batch time that a config can set: vendors give up after it.
pub const BATCH_TIME_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// The default number of requests in one batch.
pub const BATCH_SIZE: usize = 100;
/// The largest batch size that a config can set: each request may hold a whole conversation, and all are in memory at once.
pub const BATCH_SIZE_CEILING: usize = 1_000;
/// The time in which an abandoned batch must be cancelled.
pub const BATCH_CANCEL_TIME: Duration = Duration::from_secs(10);

// ---- configured rate limits

/// The window of a rate limit: vendors count by the minute.
pub const RATE_LIMIT_WINDOW: Duration = Duration::from_secs(60);
/// The time resolution of a rate limit: starts within one tick are stored as one. This bounds the stored values and delays
/// the return of capacity by at most one tick.
pub const RATE_LIMIT_TICK: Duration = Duration::from_millis(100);
/// The largest value of a rate limit, and the largest count of one reply: beyond any vendor's limits, and far from overflow.
pub const RATE_LIMIT_CEILING: u64 = 1_000_000_000_000;
/// The estimated tokens of a reply before there was one. A tool call has about a hundred, an answer somewhat more.
pub const RATE_LIMIT_FIRST_REPLY: u64 = 500;
/// The time that a request waits for its rate limit before a person is notified.
pub const RATE_LIMIT_TOLD: Duration = Duration::from_secs(5);
/// The time that a request waits for its rate limit before it fails: enough for a thousand queued agents at twenty requests
/// per minute.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_secs(3_600);

// ---- replies and requests of models, continued

/// The bytes that each delta of a reply counts in addition to its text: about its memory overhead. A server may alternate
/// between single letters of text and of thinking.
pub const REPLY_PIECE_BYTES: usize = 64;
/// The maximum bytes of a call id in Chat Completions: OpenAI refuses longer ones, and other servers produce them.
pub const CHAT_CALL_ID_BYTES: usize = 40;

// ---- batches at vendors

/// The maximum bytes of all requests of a batch: below the limits of OpenAI (200 MB) and Anthropic (256 MB), since a batch
/// is in memory twice.
pub const BATCH_BYTES: usize = 100 << 20;
/// The maximum bytes of all requests of a batch for Gemini: 20 MB, including the frame.
pub const GEMINI_BATCH_BYTES: usize = 19_000_000;
/// The maximum bytes of all results of a batch: enough for the largest number of requests with about 64,000 tokens each.
/// More is not read.
pub const BATCH_RESULTS_BYTES: usize = 256 << 20;
/// The time in which a vendor must report the state of a batch: it is asked again anyway.
pub const BATCH_POLL_TIME: Duration = Duration::from_secs(120);
/// The time in which a file of a batch must be deleted: results wait for it, and the vendor deletes remaining files
/// eventually.
pub const BATCH_DELETE_TIME: Duration = Duration::from_secs(5);

// ---- media that plugins read from a conversation

/// The maximum bytes of one read of an attachment: equal to those of the messages in one read.
pub const ATTACHMENT_READ_BYTES: usize = 1 << 20;

// ---- MCP client

/// The maximum bytes of a server's name in a config: it begins the names of its tools, which have 64.
pub const MCP_SERVER_NAME_BYTES: usize = 24;
/// The maximum number of tools of one server. The largest known has about 150; 512 fill most of a model's context window.
pub const MCP_TOOLS: usize = 512;
/// The maximum number of processes of this program that start each other as MCP servers: a served config that starts itself
/// would never end.
pub const MCP_NESTED: u32 = 3;
/// The maximum bytes of a tool's name on its server, as the protocol recommends: approved names are recorded with a
/// project's other approvals, and longer ones would not fit.
pub const MCP_TOOL_NAME_BYTES: usize = 128;
/// The maximum number of pages of one list. A server that returns one tool per page has more, and no reason for it.
pub const MCP_PAGES: usize = 64;
/// The maximum bytes of a server's page cursor.
pub const MCP_CURSOR_BYTES: usize = 4 << 10;
/// The time to start a server and complete the handshake: `npx` may have to download the server first.
pub const MCP_CONNECT_TIME: Duration = Duration::from_secs(60);
/// The time for all pages of a list.
pub const MCP_LIST_TIME: Duration = Duration::from_secs(30);
/// The maximum bytes of one message of a server: the largest medium as base64, with its frame.
pub const MCP_MESSAGE_BYTES: usize = RESULT_BYTES;
/// The maximum number of values in one message, lists and objects counted with their content: each takes about a hundred
/// bytes while the message is parsed, although it may be only two bytes long.
pub const MCP_MESSAGE_VALUES: usize = 250_000;
/// The maximum nesting depth in one message: the parser's limit is 127. A server's list of tools is read without deeper
/// content, any other answer is refused.
pub const MCP_MESSAGE_DEPTH: usize = 120;
/// The bytes of an endless message, or of blank lines before a message, that are skipped before the server is given up.
pub const MCP_SKIPPED_BYTES: usize = 4 * MCP_MESSAGE_BYTES;
/// The bytes at either end of an oversized message in which its id is searched for.
pub const MCP_ID_BYTES: usize = 256;
/// The maximum number of consecutive lines that are no messages: some servers print greetings and logs there.
pub const MCP_GARBAGE_LINES: u32 = 1_000;
/// The maximum number of unsolicited messages, including garbage, in one [`MCP_UNASKED_WINDOW`]. A thousand calls that each
/// report progress ten times per second send this many.
pub const MCP_UNASKED_MESSAGES: u32 = 10_000;
/// The window of [`MCP_UNASKED_MESSAGES`].
pub const MCP_UNASKED_WINDOW: Duration = Duration::from_secs(1);
/// The number of concurrent requests of a server that are answered; further ones are not.
pub const MCP_SERVER_REQUESTS: usize = 64;
/// The time in which a server must take a message from its pipe.
pub const MCP_WRITE_TIME: Duration = Duration::from_secs(30);
/// The bytes buffered between a server's pipe and its reader.
pub const MCP_PIPE_BYTES: usize = 64 << 10;
/// The number of concurrent calls of one server; others wait.
pub const MCP_CALLS: usize = 1_024;
/// The maximum number of abandoned calls whose cancellation is still to be sent to the server.
pub const MCP_CANCELLATIONS: usize = 1_024;
/// The number of times that a repeatable call is repeated after its connection broke.
pub const MCP_CALL_REPEATS: u32 = 1;
/// The maximum number of rounds in which a server may request more input before it answers a call.
pub const MCP_ROUNDS: u32 = 10;
/// The time of a call beyond the server's own: for a permit, the connection and the error report.
pub const MCP_CALL_GRACE: Duration = Duration::from_secs(5);
/// The maximum number of consecutive attempts to reconnect to a server before it is given up, until one of its tools is
/// called.
pub const MCP_RECONNECTS: u32 = 8;
/// The minimum duration of a connection whose end does not count as another consecutive failure.
pub const MCP_STEADY_TIME: Duration = Duration::from_secs(60);
/// The delay before a changed list is requested: a server that changes ten tools sends ten notifications.
pub const MCP_RELIST_PAUSE: Duration = Duration::from_millis(500);
/// The time that a server has to end once its pipe is closed.
pub const MCP_CLOSE_TIME: Duration = Duration::from_secs(2);
/// The number of lines of a server's standard error that are kept to explain its end: the last ones.
pub const MCP_STDERR_LINES: usize = 10;
/// The maximum bytes of one such line; the rest is cut.
pub const MCP_STDERR_LINE_BYTES: usize = 500;
/// The maximum number of lines of one process's standard error that are logged; later ones are read and dropped.
pub const MCP_STDERR_LOGGED: u32 = LOG_ENTRIES;
/// The maximum number of questions of a server, to the model or to a person, during one call.
pub const MCP_ASKS_PER_CALL: u32 = 8;
/// The maximum number of such questions of one server per minute, over all calls.
pub const MCP_ASKS_PER_MINUTE: u32 = 60;
/// The window of [`MCP_ASKS_PER_MINUTE`].
pub const MCP_ASK_WINDOW: Duration = Duration::from_secs(60);
/// The maximum bytes of one such question, including media.
pub const MCP_ASK_BYTES: usize = 4 << 20;
/// The largest number of characters of a result for a model that a config can set: with four bytes each, one whole message.
pub const MCP_OUTPUT_CHARS_CEILING: usize = RESULT_BYTES / 4;
/// The maximum number of fields of one form that a server has a person fill in: each is a question.
pub const MCP_FORM_FIELDS: usize = 16;
/// The maximum number of folders that a server is told.
pub const MCP_ROOTS: usize = 256;
/// The number of concurrent requests to one HTTP server that wait for the beginning of their answer.
pub const MCP_HTTP_REQUESTS: usize = 64;
/// The maximum number of consecutive attempts to resume a stream of such a server.
pub const MCP_STREAM_RETRIES: usize = 8;
/// The longest duration, and the longest silence, of a stream of such a server: most are silent until something changes.
pub const MCP_STREAM_TIME: Duration = COMPLETION_TIME_CEILING;
/// The maximum bytes of such a server's session id, and of the event id from which a stream is resumed.
pub const MCP_SESSION_ID_BYTES: usize = 1 << 10;

// ---- HTTP requests of plugins

/// The maximum bytes of one URL, as servers commonly accept.
pub const EGRESS_URL_BYTES: usize = 8 << 10;
/// The maximum bytes of a URL in messages and events.
pub const EGRESS_SHOWN_URL_BYTES: usize = 500;
/// The maximum number of redirects that one request follows: browsers follow twenty, and ten already suggest a loop.
pub const EGRESS_HOPS: u32 = 10;
/// The maximum number of headers of one request.
pub const EGRESS_REQUEST_HEADERS: usize = 64;
/// The maximum bytes of all headers of one request, names and values: more than servers commonly accept.
pub const EGRESS_REQUEST_HEADER_BYTES: usize = 64 << 10;
/// The maximum bytes of one credential: servers refuse longer headers.
pub const EGRESS_CREDENTIAL_BYTES: usize = 8 << 10;
/// The bytes of a response line that are held back while they may contain a credential: no encoding of the longest
/// credential is longer. JSON in JSON takes seven bytes for one.
pub const EGRESS_HELD_BYTES: usize = 7 * EGRESS_CREDENTIAL_BYTES;
/// The number of credential sets of one HTTP client for which a search is cached: one for each kind of server that it
/// contacts.
pub const EGRESS_SEARCHES: usize = 64;
/// The maximum number of headers of one response. Real ones have about thirty.
pub const EGRESS_RESPONSE_HEADERS: usize = 256;
/// The maximum bytes of all headers of one response, names and values.
pub const EGRESS_RESPONSE_HEADER_BYTES: usize = 256 << 10;
/// The window in which the requests of a plugin are counted.
pub const EGRESS_RATE_WINDOW: Duration = Duration::from_secs(60);
/// The default number of requests of one plugin of an agent per minute, including redirects.
pub const EGRESS_REQUESTS_PER_MINUTE: u32 = 600;
/// The largest number of requests per minute that a config can allow: a thousand per second.
pub const EGRESS_REQUESTS_PER_MINUTE_CEILING: u32 = 60_000;
/// The default number of concurrent requests and open bodies of one plugin of an agent: one for each of its calls. A model
/// that every agent uses holds one open for each reply.
pub const EGRESS_CONCURRENCY: u32 = PLUGIN_CONCURRENCY;
/// The largest number of concurrent requests that a config can allow.
pub const EGRESS_CONCURRENCY_CEILING: u32 = 256;
/// The number of concurrent requests and open bodies of all plugins together: each holds a socket, and a process commonly
/// has 1,024 of them.
pub const EGRESS_CONCURRENCY_OF_ALL: usize = 512;
/// The default maximum bytes of the body of one request.
pub const EGRESS_REQUEST_BYTES: u64 = 16 << 20;
/// The largest request body that a config can allow, in bytes.
pub const EGRESS_REQUEST_BYTES_CEILING: u64 = 1 << 30;
/// The default maximum bytes of the body of one response, decoded.
pub const EGRESS_RESPONSE_BYTES: u64 = 64 << 20;
/// The largest response body that a config can allow, in bytes.
pub const EGRESS_RESPONSE_BYTES_CEILING: u64 = 4 << 30;
/// The bytes of a body that are passed on at once, in both directions: this much is in memory while it waits for its reader.
pub const EGRESS_CHUNK_BYTES: usize = 64 << 10;
/// The bytes of a body that a server may send over HTTP/2 before they are read.
pub const EGRESS_WINDOW_BYTES: u32 = 256 << 10;
/// The bytes that one connection may deliver without a response or a part of a body, such as interim responses (1xx) and
/// HTTP/2 frames without content: the headers of a response, the read-ahead of its body and the HTTP/2 window together are
/// less than half of it.
pub const EGRESS_IDLE_BYTES: u64 = 2 << 20;
/// The bytes of framing allowed for each part of a body: the heads of a TLS record and of an HTTP/2 frame are 31 together.
pub const EGRESS_FRAME_BYTES: u64 = 64;
/// The maximum time from the sending of a request to the end of its response, whatever the plugin asks for: no call lives
/// longer.
pub const EGRESS_TIME: Duration = Duration::from_secs(3_600);
/// The number of concurrent name lookups for all plugins. Each takes a thread until it is answered, even if it was
/// abandoned.
pub const EGRESS_LOOKUPS: usize = 32;
/// The number of idle connections to one server that are kept for each plugin of an agent.
pub const EGRESS_IDLE_CONNECTIONS: usize = 4;
/// The time that an idle connection is kept.
pub const EGRESS_IDLE_TIME: Duration = Duration::from_secs(30);
/// The time after which a silent connection is probed, so that a dead one is noticed.
pub const EGRESS_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The maximum number of HTTP clients of one plugin of an agent, one for each set of allowed addresses; beyond it all are
/// created again. One or two are usual.
pub const EGRESS_CLIENTS: usize = 16;

// ---- HTTP permissions in a config

/// The maximum number of entries in one list of HTTP permissions of a config, a `plugin.toml` or a credential: a person
/// reads them.
pub const HTTP_ENTRIES: usize = 64;
/// The maximum number of methods, and of networks, of one such entry.
pub const HTTP_ENTRY_WORDS: usize = 16;
/// The maximum number of rules to which one such list expands, with each method and each network separate: each is compared
/// with every other one, and with those of every ceiling.
pub const HTTP_RULES: usize = 256;
/// The maximum bytes of the scheme word before a credential.
pub const AUTH_SCHEME_BYTES: usize = 64;

// ---- MCP server

/// The number of concurrent calls of one client: equal to those of one reply of a model.
pub const MCP_SERVE_CALLS: usize = PARALLEL_TOOL_CALLS;
/// The maximum number of queued calls of one client; further ones are refused. Clients send up to a thousand at once.
pub const MCP_SERVE_CALLS_WAITING: usize = 1_024;
/// The number of concurrent calls of all clients: each HTTP request without a session counts as a separate client.
pub const MCP_SERVE_CALLS_OF_ALL: usize = 64;
/// The maximum number of messages that a client over pipes has not read; its input is not read until it has.
pub const MCP_SERVE_UNREAD: usize = 64;
/// The maximum number of progress notifications, and of log lines, of one call per second; further ones are dropped.
pub const MCP_SERVE_TOLD_PER_SECOND: u32 = 20;
/// The window of [`MCP_SERVE_TOLD_PER_SECOND`].
pub const MCP_SERVE_TOLD_WINDOW: Duration = Duration::from_secs(1);
/// The maximum characters of a progress message.
pub const MCP_SERVE_TOLD_CHARS: usize = 200;
/// The time that active calls have to end after their client has closed its pipe: a script that pipes in a few lines reads
/// the results.
pub const MCP_SERVE_CLOSE_TIME: Duration = CANCEL_GRACE;
/// The maximum number of calls that wait for a person's answer between two requests of their client, as in protocol version
/// 2026-07-28.
pub const MCP_SERVE_PARKED: usize = 16;
/// The time that such a call waits.
pub const MCP_SERVE_PARK_TIME: Duration = Duration::from_secs(10 * 60);
/// The wall time of an agent that is called as a tool; its own budget bounds it earlier.
pub const MCP_SERVE_AGENT_TIME: Duration = QUESTION_TIME;
/// The number of resources on one page of a list.
pub const MCP_SERVE_PAGE: usize = 100;
/// The number of sessions, the newest ones, whose attachments are listed.
pub const MCP_SERVE_SESSIONS: usize = 100;
/// The maximum bytes of an attachment that is served; a larger one is not listed. Its base64 fits into a message that
/// clients accept.
pub const MCP_SERVE_RESOURCE_BYTES: usize = MEDIA_BYTES;
/// The maximum bytes of the name of a resource, a prompt or a page: none of this host has more.
pub const MCP_SERVE_NAME_BYTES: usize = 1 << 10;
/// The interval at which the folders of plugins and skills are checked for changes.
pub const MCP_SERVE_LOOK: Duration = Duration::from_secs(1);
/// The interval between two checks of changed files that are not served yet: a person may have approved them.
pub const MCP_SERVE_LOOK_AGAIN: Duration = Duration::from_secs(5);
/// The maximum bytes of one HTTP request's body: arguments, and the answer to a question with them.
pub const MCP_SERVE_BODY_BYTES: usize = 4 * ARGUMENT_BYTES;
/// The time in which the head of an HTTP request must arrive, and then its body.
pub const MCP_SERVE_REQUEST_TIME: Duration = Duration::from_secs(30);
/// The maximum bytes of the head of an HTTP request.
pub const MCP_SERVE_HEAD_BYTES: usize = 64 << 10;
/// The number of concurrent HTTP connections. For one more, the oldest connection that waits for a request is closed; while
/// all are active, it waits.
pub const MCP_SERVE_CONNECTIONS: usize = 128;
/// The number of HTTP connections that are kept for their next request; beyond it each ends with its answer, so that idle
/// ones never take up all connections.
pub const MCP_SERVE_CONNECTIONS_KEPT: usize = MCP_SERVE_CONNECTIONS * 3 / 4;
/// The pause after a connection could not be accepted: too many files are open, and some will be closed.
pub const MCP_SERVE_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The number of concurrent HTTP sessions. For one more, the least recently used session without a running request is ended;
/// while all are active, it is refused.
pub const MCP_SERVE_HTTP_SESSIONS: usize = 64;
/// The time without any message after which an HTTP session ends.
pub const MCP_SERVE_IDLE_TIME: Duration = Duration::from_secs(30 * 60);
/// The interval at which a silent stream sends a keep-alive.
pub const MCP_SERVE_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The time after which a client resumes a broken stream.
pub const MCP_SERVE_RETRY: Duration = Duration::from_secs(3);
/// The minimum bytes of a bearer token that a person chooses: a shorter one can be guessed.
pub const MCP_SERVE_TOKEN_BYTES: usize = 16;

// ---- OAuth of the MCP client

/// The maximum time from the sending of one request of a login to the end of its answer.
pub const OAUTH_TIME: Duration = Duration::from_secs(30);
/// The maximum number of requests of one login, or one renewal of a token: a server that names twenty authorization servers
/// names none.
pub const OAUTH_REQUESTS: u32 = 32;
/// The maximum number of redirects that the registration of a client follows.
pub const OAUTH_HOPS: u32 = 4;
/// The maximum bytes of an answer. The largest known metadata has about ten thousand.
pub const OAUTH_BODY_BYTES: usize = 256 << 10;
/// The maximum bytes of a server's authentication challenge: the common limit of a header.
pub const OAUTH_CHALLENGE_BYTES: usize = 8 << 10;
/// The maximum bytes of a URL of a login.
pub const OAUTH_URL_BYTES: usize = 8 << 10;
/// The maximum bytes of a token, a client's id or its secret: servers refuse longer headers.
pub const OAUTH_TOKEN_BYTES: usize = 16 << 10;
/// The maximum number of scopes requested in one login.
pub const OAUTH_SCOPES: usize = 128;
/// The maximum bytes of one scope.
pub const OAUTH_SCOPE_BYTES: usize = 256;
/// The maximum bytes of a file that records one login.
pub const OAUTH_FILE_BYTES: u64 = 256 << 10;
/// The time in which another process that renews tokens is done: all its requests would have to take this long.
pub const OAUTH_LOCK_TIME: Duration = Duration::from_secs(120);
/// The time before its end at which a token is renewed, or half of its life if that is shorter: it must not expire in
/// transit.
pub const OAUTH_EARLY: Duration = Duration::from_secs(30);
/// The time in which a person logs in: some have to look for their telephone first.
pub const OAUTH_LOGIN_TIME: Duration = Duration::from_secs(600);
/// The maximum bytes of the head of the request with which a browser returns from a login.
pub const OAUTH_CALLBACK_BYTES: usize = 32 << 10;
/// The maximum number of connections, of browsers and others on this machine, that are open at once during a login.
pub const OAUTH_CALLBACK_CONNECTIONS: usize = 16;
/// The time in which such a connection has to send its request.
pub const OAUTH_CALLBACK_TIME: Duration = Duration::from_secs(10);

// ---- programs run for agents

/// The number of concurrent programs of agents, their plugins and git together; others wait. Each has two or three pipes.
pub const PROCESSES: usize = 16;
/// The time that a program waits for its turn.
pub const PROCESS_PLACE_WAIT: Duration = Duration::from_secs(120);
/// The default wall time of a program: most builds and tests end within it.
pub const PROCESS_TIME: Duration = Duration::from_secs(120);
/// The longest wall time of a program.
pub const PROCESS_TIME_CEILING: Duration = PLUGIN_TIME_CEILING;
/// The bytes kept of a program's standard output, and of its standard error, as in the contract.
pub const PROCESS_OUTPUT_BYTES: usize = 1 << 20;
/// The bytes read from a pipe at once: the capacity of a pipe.
pub const PROCESS_PART_BYTES: usize = 64 << 10;
/// The first interval between two checks whether a program has ended; it doubles up to [`PROCESS_PAUSE`].
pub const PROCESS_FIRST_PAUSE: Duration = Duration::from_millis(1);
/// The time in which the remaining output is read from the pipes of an ended program.
pub const PROCESS_GRACE: Duration = Duration::from_millis(500);
/// The maximum number of scans for remaining descendants of a program: one that spawns faster than its processes are killed
/// cannot be caught.
pub const PROCESS_LOOKS: u32 = 16;
/// The maximum number of programs that a config can name.
pub const PROGRAMS: usize = 256;
/// The maximum number of argument patterns of one program, and of its environment variables.
pub const PROGRAM_LISTS: usize = 64;
/// The maximum number of words of one such pattern.
pub const PROGRAM_WORDS: usize = 64;
/// The maximum bytes of a program's name in a config: it appears in schemas and questions.
pub const PROGRAM_NAME_BYTES: usize = 64;
/// The maximum characters of a program's standard input shown in a question.
pub const PROGRAM_STDIN_SHOWN_CHARS: usize = 1_000;
/// The maximum characters of a command with its arguments in a question: all of it is shown, so a longer one is refused.
pub const COMMAND_SHOWN_CHARS: usize = 2_400;
/// The wall time of one git command. None of them uses the network.
pub const GIT_TIME: Duration = Duration::from_secs(60);
/// The maximum number of commits that one `git_log` shows. More than a model can read.
pub const GIT_COMMITS: u32 = 1_000;
/// The maximum number of files and folders in one git command.
pub const GIT_PATHS: usize = 256;
/// The maximum bytes of the name of a branch or a revision, including a path in it.
pub const GIT_NAME_BYTES: usize = 512;
/// The maximum bytes of a file that links a folder to its repository or back: a word and a path.
pub const GIT_LINK_BYTES: u64 = 8 << 10;
/// The maximum characters of the list of files in a question about a commit.
pub const GIT_LIST_SHOWN_CHARS: usize = 1_200;
/// The maximum number of runs for which a person's permission to read the repository is remembered; beyond it all are asked
/// again.
pub const GIT_RUNS: usize = 1_024;
