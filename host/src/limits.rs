//! Every bound in the house, with its unit and its reason.
//!
//! Whatever a guest, a model, a server or a file says is untrusted: it is bounded on entry by one of these.

use std::time::Duration;

// ---- the agent's loop

/// Turns of one run when the config names none, and the ceiling for what it may name.
pub const MAX_ITERATIONS: u32 = 50;
/// The most turns that a config can ask for: a loop without end is a bill without end.
pub const MAX_ITERATIONS_CEILING: u32 = 10_000;
/// Tool calls of one reply that run side by side; the others wait. More would only queue at the plugin pool.
pub const PARALLEL_TOOL_CALLS: usize = 16;
/// Tool calls that one reply may hold; those beyond it are answered with an error.
pub const CALLS_PER_REPLY: usize = 128;
/// Bytes of one conversation, pictures and all. What is over it is refused, and the next turn is not begun.
pub const CHAT_BYTES: usize = 256 << 20;
/// Pieces of one tool result.
pub const RESULT_PIECES: usize = 256;
/// Characters of one tool result that a model is shown. The predecessor's figure: about 8,000 tokens.
pub const TOOL_RESULT_CHARS: usize = 32_000;
/// The part of a model's window, where that is known, that one tool result may take: a quarter leaves room for the prompt, the
/// tools, what was said before and a reply.
pub const RESULT_WINDOW_PART: u64 = 4;
/// The part of the window that the results of one reply may take together, in equal shares: as much again is left.
pub const RESULTS_WINDOW_PART: u64 = 2;
/// Bytes of a tool result that are shown however small the model's window is: less says nothing.
pub const LEAST_RESULT_BYTES: usize = 1_000;

/// Time to look for the shortest difference of two texts; afterwards a longer one is taken.
pub const DIFF_TIME: Duration = Duration::from_millis(500);

/// Characters of a result that was cut for the model, kept beside the conversation for it to read on: what stands around calls
/// looks at all of it, and beyond a quarter of a million tokens nobody pages.
pub const KEPT_RESULT_CHARS: usize = 1_000_000;

/// Bytes of such results that a conversation keeps; the oldest go first.
pub const KEPT_RESULTS_BYTES: usize = 32 << 20;
/// Mistakes of a config that are told at once: what is wrong is most often wrong in one way.
pub const CONFIG_MISTAKES: usize = 50;
/// Bytes of one task given on the command line, in a file or on standard input.
pub const TASK_BYTES: usize = 1 << 20;
/// Bytes of standard input that go to the model beside a task: as a task, it is held in memory and sent whole.
pub const STDIN_BYTES: usize = 1 << 20;
/// How long the first byte of a pipe on standard input is waited for: programs that start others often leave one open in
/// which nothing ever comes.
pub const STDIN_WAIT: Duration = Duration::from_secs(3);
/// Questions to a model that one effect may ask in a row.
pub const ASKS_IN_A_ROW: u32 = 8;
/// Times that one middleware, around a run or around a request to a model, may ask for another attempt: with pauses that
/// double from a second on, eight outlast a vendor's bad minutes, and a budget ends a run that repeats itself before.
pub const MIDDLEWARE_RETRIES: u32 = 8;
/// The longest pause that a middleware may ask for before another attempt.
pub const MIDDLEWARE_DELAY: Duration = Duration::from_secs(60);
/// All such pauses before one reply together, and before one answer of a run: as long as a request waits for a server that
/// is busy. Further attempts follow without a pause.
pub const MIDDLEWARE_WAITING: Duration = Duration::from_secs(120);

/// Requests to models for one reply, those of all middlewares together: attempts of one within attempts of another multiply.
pub const REQUESTS_PER_REPLY: u32 = 32;
/// Events waiting for a slow reader before the run waits for it.
pub const EVENT_QUEUE: usize = 1_024;

/// Bytes of a task that an event shows.
pub const TASK_SHOWN_BYTES: usize = 500;
/// Characters of the reason for which a tool call failed that an event shows: enough for an error with its path.
pub const FAILURE_SHOWN_CHARS: usize = 500;
/// Characters of a member's reply that an event shows: a paragraph; all of it is in the session.
pub const REPLY_SHOWN_CHARS: usize = 1_000;

// ---- agents that delegate

/// Tasks in one call of `delegate`. All of them are worked on at once.
pub const TASKS_PER_DELEGATION: usize = 1_024;
/// How deep a config can let agents delegate, and how deep agents can call each other as tools: each level can multiply the
/// agents by [`TASKS_PER_DELEGATION`].
pub const DELEGATION_DEPTH_CEILING: u32 = 16;
/// Agents of one run that work at once where the config says nothing; others wait for a place. One that waits for others needs
/// none. More only wait for their models.
pub const WORKING_AGENTS: usize = 128;
/// The most that a config can let work at once.
pub const WORKING_AGENTS_CEILING: usize = 1_024;
/// Agents that may work in one run, or in the runs of one session, from its beginning to its end where the config says nothing:
/// those of the largest team, or of one whole `delegate`. An agent takes some 300 KB.
pub const AGENTS_PER_RUN: usize = 1_024;
/// The most that a config can let work in one run.
pub const AGENTS_PER_RUN_CEILING: usize = 10_000;
/// Bytes of all conversations of one run together where the config says nothing: two of the largest, or half a megabyte for each of
/// [`AGENTS_PER_RUN`].
pub const CHATS_PER_RUN_BYTES: usize = 2 * CHAT_BYTES;
/// The least bytes of all conversations that a config can name: room for one that does something.
pub const CHATS_PER_RUN_LEAST: usize = 1 << 20;
/// The most that a config can name: beyond it no machine holds them.
pub const CHATS_PER_RUN_CEILING: usize = 64 << 30;
/// Members of one team.
pub const TEAM_MEMBERS: usize = 1_024;
/// How deep the agents and teams of a config may need each other, as members and as tools: as deep as agents delegate.
pub const NEED_DEPTH: usize = 16;
/// Steps of one run of a team: as many as agents may work in a crew.
pub const TEAM_STEPS: u32 = 10_000;
/// How often a member of a team that failed may be asked again in one step.
pub const MEMBER_RETRIES: u32 = 8;
/// Characters of a task that a coordinator gives a member.
pub const ASSIGNMENT_CHARS: usize = 32_000;
/// Characters of what a coordinator says of its reasons, in an event.
pub const REASONING_CHARS: usize = 2_000;
/// Messages of the shared conversation that a model that coordinates is shown: where the config does not say, and at most.
pub const COORDINATOR_WINDOW: u32 = 20;
/// See [`COORDINATOR_WINDOW`].
pub const COORDINATOR_WINDOW_CEILING: u32 = 1_000;
/// Characters of one message that a model that coordinates is shown.
pub const COORDINATOR_MESSAGE_CHARS: usize = 4_000;
/// Characters of the running summary that a model that coordinates writes for itself.
pub const COORDINATOR_SUMMARY_CHARS: usize = 8_000;
/// Characters of all messages that one request of it shows: a long window shows less of each. About 100,000 tokens.
pub const COORDINATOR_CHARS: usize = 400_000;
/// Characters of what it is told of what one member is good for.
pub const COORDINATOR_DESCRIPTION_CHARS: usize = 500;
/// Characters of what it is told so of all members: many share them equally.
pub const COORDINATOR_DESCRIPTIONS_CHARS: usize = 100_000;
/// Characters of a task that it gave, and of its reasons, that it is told again later.
pub const COORDINATOR_SAID_CHARS: usize = 300;
/// Bytes of all that it decided which it is told again; the oldest are forgotten. It stands in its state beside the summary.
pub const COORDINATOR_SAID_BYTES: usize = 8 << 10;
/// Names of members that the schema of its reply lists, and characters of all of them: what OpenAI takes in a strict schema.
/// Of a larger team any name fits the schema, and is checked when it is read.
pub const COORDINATOR_ENUM_NAMES: usize = 250;
/// See [`COORDINATOR_ENUM_NAMES`].
pub const COORDINATOR_ENUM_CHARS: usize = 7_500;
/// Bytes at the end of its reply in which a decision is looked for: each brace in them may be the beginning of one.
pub const COORDINATOR_REPLY_BYTES: usize = 64 << 10;
/// Characters of an answer of it that could not be used, shown to it beside what is wrong with it.
pub const COORDINATOR_WRONG_CHARS: usize = 1_000;
/// Characters of what it looks up in one call of its tools.
pub const COORDINATOR_LOOKUP_CHARS: usize = 16_000;
/// Older messages on one page that it looks up.
pub const COORDINATOR_PAGE: usize = 20;
/// Bytes of memory of a regular expression that ends a team's rounds. Nobody writes a larger one by hand.
pub const UNTIL_PATTERN_BYTES: usize = 1 << 20;
/// How often a task may be handed over where the agent that delegated it says nothing of that. The predecessor's figure.
pub const HAND_OVERS: u32 = 3;
/// Wall time of one `delegate`, of a call of an agent as a tool, and of an agent that waits for an answer: a bound for what budgets leave open.
pub const DELEGATION_TIME: Duration = Duration::from_secs(24 * 3_600);
/// Characters of the context that an agent gives with a task. The predecessor's figure.
pub const DELEGATION_CONTEXT_CHARS: usize = 16_000;
/// Characters of what one agent answers to the one that delegated to it. The predecessor's figure.
pub const DELEGATION_ANSWER_CHARS: usize = 2_000;
/// Characters of the answers to one `delegate` all together; many tasks share them equally.
pub const DELEGATION_RESULT_CHARS: usize = 128_000;
/// Bytes of the word of a task in the name of the agent that works on it. The predecessor's figure.
pub const SLUG_BYTES: usize = 12;
/// Messages that wait for one agent.
pub const INBOX_MESSAGES: usize = 64;

// ---- what is learned from failures

/// Bytes of one reflection on a failure; the rest is cut.
pub const REFLECTION_BYTES: usize = 12 << 10;
/// Reflections that an agent is told of. The predecessor's figure.
pub const REFLECTIONS_TOLD: usize = 5;
/// Bytes of all reflections that an agent is told of. The predecessor's figure.
pub const REFLECTIONS_BYTES: usize = 32 << 10;
/// Reflections that are kept, and looked into for a task; the oldest go.
pub const REFLECTIONS_KEPT: usize = 200;
/// Bytes of a word that is worth looking for. The predecessor's figure.
pub const REFLECTION_WORD_BYTES: usize = 4;
/// Reflections that are written down in one second; so many failures at once teach nothing more.
pub const REFLECTIONS_A_SECOND: usize = 100;

// ---- files that a person gives us

/// Bytes of a config file.
pub const CONFIG_BYTES: u64 = 1 << 20;
/// Bytes of a `plugin.toml`.
pub const MANIFEST_BYTES: u64 = 64 << 10;
/// Bytes of a component file. The largest known (Python's runtime in a component) has 19 MB.
pub const COMPONENT_BYTES: u64 = 256 << 20;
/// Core modules in a component, those of the components in it included. A Python runtime has some thirty.
pub const COMPONENT_MODULES: usize = 256;
/// Components in a component, those in one another included. Reading them takes time that grows with the square of their
/// number: 99,000 empty ones keep a core busy for minutes. The largest known has some fifty.
pub const COMPONENT_COMPONENTS: usize = 1_000;
/// Components in one another, the outermost included, and a module in the innermost. Each tool that composes components adds
/// one or two.
pub const COMPONENT_DEPTH: usize = 16;
/// Instances that one instance of a component makes, those that its components make included: 700 bytes can ask for a
/// billion. The largest known makes some hundred.
pub const COMPONENT_INSTANCES: usize = 4_096;
/// Bytes of a component that are neither code nor data nor custom sections: types, imports, exports, tables, aliases. A
/// validator keeps up to a hundred bytes for each. The largest known has some 400 KB.
pub const COMPONENT_STRUCTURE_BYTES: usize = 4 << 20;
/// Items in the element segments of a component, all its modules together: as many as its tables can have elements.
pub const COMPONENT_ELEMENTS: usize = PLUGIN_TABLE_ELEMENTS_CEILING;
/// Items among them that are expressions and not indices of functions: the compiler keeps two and a half kilobytes for each.
/// Compilers for real languages write none.
pub const COMPONENT_ELEMENT_EXPRESSIONS: usize = 50_000;
/// Functions of a component, all its modules together. A Python or JavaScript runtime has some 30,000; so many take the
/// compiler seconds.
pub const COMPONENT_FUNCTIONS: usize = 100_000;
/// Bytes of the code of a component, all its modules together: what is compiled, in the host's own memory and time. The
/// largest known has 15 MB.
pub const COMPONENT_CODE_BYTES: usize = 64 << 20;
/// Bytes of one function: what compiling it takes grows faster than it does. The largest of an interpreter has some 300 KB.
pub const FUNCTION_BYTES: usize = 1 << 20;
/// Values that a function type takes and gives together. The standard allows 1,000 of each; compilers for real languages pass
/// what is beyond some twenty in memory.
pub const SIGNATURE_VALUES: usize = 256;
/// Locals of one function, its parameters included. The standard allows 50,000; the largest known have some 3,000.
pub const FUNCTION_LOCALS: usize = 10_000;
/// Blocks in one another in one function: compiling them takes time that grows with the square. A large `switch` has one block
/// for each of its cases.
pub const FUNCTION_BLOCK_DEPTH: usize = 10_000;
/// Loops in one another in one function: compiling them takes time that grows with the third power. What people write has ten.
pub const FUNCTION_LOOP_DEPTH: usize = 500;
/// Loops in one another times the locals of their function: where all locals are used in the innermost, the compiler keeps a
/// kilobyte for each pair. The main loop of an interpreter has 3,000 locals, and ten loops in one another.
pub const FUNCTION_NESTED_LOOP_LOCALS: usize = 1 << 17;
/// Loops of one function times its locals: where all locals are used after all loops, the compiler keeps a hundred bytes for
/// each pair. The main loop of an interpreter has a hundred loops in it.
pub const FUNCTION_LOOP_LOCALS: usize = 1 << 20;
/// Blocks of one function, loops included, times its locals: where all locals are used after all blocks, the compiler keeps
/// some bytes for each pair. The main loop of an interpreter has some 10,000 blocks.
pub const FUNCTION_BLOCK_LOCALS: usize = 1 << 27;
/// Values that the blocks, branches and calls of one function move, each counted wherever it stands. The compiler keeps up to a
/// kilobyte for each. The largest function of an interpreter moves some 50,000.
pub const FUNCTION_VALUES: usize = 1 << 18;
/// Memory of the process that validates and compiles one component, in bytes. A component of 17 MB takes 500 MB.
pub const COMPILE_MEMORY_BYTES: u64 = 2 << 30;
/// Address space of that process beyond its memory, in bytes: the program itself, and what the allocator reserves for each
/// thread (128 MiB) and does not use.
pub const COMPILE_ADDRESS_SPACE_BYTES: u64 = 3 << 30;
/// Files that are open in that process: standard input, output and error. No other can be opened.
pub const COMPILE_OPEN_FILES: u64 = 3;
/// Time on processors that validating and compiling one component takes, all threads together. A component of 17 MB takes 25 s;
/// a slow machine may take four times as long.
pub const COMPILE_CPU_TIME: Duration = Duration::from_secs(120);
/// Wall time of the same: a machine that is busy gives it half a processor.
pub const COMPILE_WALL_TIME: Duration = Duration::from_secs(240);
/// Processes that compile at once; others wait. Each may take [`COMPILE_MEMORY_BYTES`], which makes 4 GiB.
pub const COMPILE_CHILDREN: usize = 2;
/// Threads of a process that compiles, beside the one that began: more compile little faster, and each reserves address space.
pub const COMPILE_THREADS: usize = 8;
/// Bytes of the code that a component is compiled to, and of all code that waits to be loaded. A component of 17 MB compiles to
/// 50 MB.
pub const COMPILED_BYTES: usize = 512 << 20;
/// Bytes of why a component is refused, as the process that compiles tells it.
pub const COMPILE_MESSAGE_BYTES: usize = 64 << 10;
/// Characters of the same, where the compiler says it.
pub const COMPILE_MESSAGE_CHARS: usize = 2_000;
/// Bytes of what that process writes to its standard error that are kept, for the log.
pub const COMPILE_COMPLAINT_BYTES: usize = 16 << 10;
/// Plugin folders in one plugin directory.
pub const PLUGINS_PER_DIRECTORY: usize = 1_024;

// ---- changes of files that tools propose

/// Changes that one result may propose.
pub const CHANGES_PER_RESULT: usize = 1_000;
/// Bytes that a proposed file may have.
pub const CHANGED_FILE_BYTES: usize = 8 << 20;
/// Bytes of the path of a change: what systems take.
pub const CHANGED_PATH_BYTES: usize = 4_096;
/// Files and folders that the changes of one result may remove, move, copy or replace: each is looked at twice, and more are
/// no tool's work.
pub const CHANGED_ENTRIES: usize = 10_000;
/// Bytes of all that the changes of one result may remove, move, copy or replace: they are read to know that they are what was
/// shown.
pub const CHANGED_TREE_BYTES: u64 = 256 << 20;
/// Folders in each other of what is removed, moved or copied.
pub const CHANGED_DEPTH: u32 = 64;
/// Bytes of what was there before that are kept for one result, so that it can be undone; and of all files that it writes anew,
/// which are held in memory.
pub const CHANGE_UNDO_BYTES: u64 = 64 << 20;
/// Bytes that are kept so for one session.
pub const SESSION_UNDO_BYTES: u64 = 256 << 20;
/// Results of one session whose changes are kept; nobody looks through more.
pub const SESSION_UNDO_RECORDS: usize = 4_096;
/// Bytes of what is written down of one result that changed files: of each of its files and folders a line.
pub const CHANGE_RECORD_BYTES: u64 = 64 << 20;
/// Bytes of a file whose changes are shown line by line.
pub const DIFF_BYTES: usize = 1 << 20;
/// Bytes of all files of one result whose changes are shown so: comparing takes time.
pub const DIFFS_BYTES: usize = 8 << 20;
/// Characters of all differences of one result that a person is shown: some 300 lines.
pub const DIFF_CHARS: usize = 16_000;
/// Characters of one line of a difference that are shown.
pub const DIFF_LINE_CHARS: usize = 500;
/// Time that making the changes of one result may take beside the question: as much as it takes a slow disk to read and write
/// [`CHANGED_TREE_BYTES`] a few times.
pub const CHANGE_TIME: Duration = Duration::from_secs(10 * 60);
/// Lines of differences that are shown of what is to be undone.
pub const UNDO_LINES: usize = 500;
/// Characters of the path of a change that a person is shown: of longer ones how they begin and how they end.
/// [`CHANGES_SHOWN`] lines of two such, and as many of what is remarkable, leave room for differences.
pub const PATH_SHOWN_CHARS: usize = 160;
/// Changes of one result that are shown in a line each, and entries of a folder.
pub const CHANGES_SHOWN: usize = 50;

// ---- one call of a plugin

/// Linear memory of one instance, all its memories together.
pub const PLUGIN_MEMORY_BYTES: usize = 128 << 20;
/// The most memory that a config can give a plugin: the size of a slot in the pool (address space, not memory).
pub const PLUGIN_MEMORY_CEILING: usize = 1 << 30;
/// Elements of all tables of one instance together. A Python runtime needs some 12,000.
pub const PLUGIN_TABLE_ELEMENTS: usize = 100_000;
/// Core instances in one component. Three is usual; languages with a runtime of their own need about twenty.
pub const PLUGIN_CORE_INSTANCES: usize = 64;
/// Linear memories in one component.
pub const PLUGIN_MEMORIES: u32 = 8;
/// Tables in one component.
pub const PLUGIN_TABLES: u32 = 16;
/// Stack of one guest, in bytes. A deeper recursion ends the call.
pub const PLUGIN_STACK_BYTES: usize = 512 << 10;
/// Calls of plugins that are under way at once in the whole process; the others wait.
pub const PLUGIN_CALLS: u32 = 256;
/// Memory of a slot in the pool that stays mapped between two calls: what a small guest touches first. Measured:
/// 128 KiB saves 40 % of a small call, 1 MiB makes it slower.
pub const POOL_KEEP_RESIDENT_BYTES: usize = 128 << 10;
/// How often a busy guest is made to yield.
pub const EPOCH_TICK: Duration = Duration::from_millis(5);
/// Wall time of instantiating a plugin at load, and of `specs`.
pub const PROBE_TIME: Duration = Duration::from_secs(5);
/// Wall time of a tool call.
pub const TOOL_TIME: Duration = Duration::from_secs(60);
/// Wall time of a pure step: an effect's `eval`, a middleware's `before` or `after`.
pub const STEP_TIME: Duration = Duration::from_secs(1);
/// Wall time of a completion by a provider plugin.
pub const COMPLETION_TIME: Duration = Duration::from_secs(600);
/// Time that one call may wait for a slow reader of its log, progress and pieces before it counts as the guest's own: the
/// call holds a place among all calls.
pub const READER_WAIT: Duration = Duration::from_secs(600);
/// Bytes of values that one call hands to a guest or gets from it through one function, strings and lists together.
pub const HOSTCALL_BYTES: usize = 32 << 20;
/// Files that one plugin of one agent is opening at once; one more waits. What never opens holds a thread of the host, which
/// has 512 for such things.
pub const OPENING_FILES: usize = 16;
/// Time that an open waits for its turn before it is refused: as a rule one takes microseconds, on a busy disk some
/// milliseconds.
pub const OPENING_WAIT: Duration = Duration::from_secs(5);
/// Time after which an open whose call was dropped in the middle counts as ended, so that many dropped calls do not take its
/// files from a plugin for good.
pub const OPENING_LAPSE: Duration = Duration::from_secs(60);
/// Bytes of a file that a guest is given by one read, as wasmtime-wasi has it.
pub const READ_BYTES: usize = 64 << 10;
/// Entries of a folder that a guest lists, `.` and `..` among them: they are read at once into the host's memory, some 100
/// bytes each and a name. Each counts as a call of an imported function.
pub const FOLDER_ENTRIES: usize = 20_000;
/// Entries of all folders whose listings one instance holds at once; one more listing is refused. Who walks through folders
/// holds one a level.
pub const LISTED_ENTRIES: usize = 2 * FOLDER_ENTRIES;
/// Handles (open files, streams) that one instance may hold.
pub const PLUGIN_HANDLES: usize = 256;

/// What the clock of a call goes on by with each reading that was not granted `clock`: who waits by looking has waited a
/// second after a thousand readings.
pub const FROZEN_STEP: Duration = Duration::from_millis(1);

// ---- what a plugin says

/// Bytes of one log entry; the rest is cut.
pub const LOG_ENTRY_BYTES: usize = 4 << 10;
/// Bytes that a guest may write to its standard output or error at once: they are in memory until they are cut into lines.
pub const STDOUT_WRITE_BYTES: usize = 64 << 10;
/// Log entries that are shown of a plugin that failed when it was tried: the last ones, which tell why.
pub const PROBE_LOG_ENTRIES: usize = 3;
/// Log entries of one call; what comes after them is dropped and counted.
pub const LOG_ENTRIES: u32 = 1_000;
/// Shortest pause between two progress reports of one call; of those in between the newest wins.
pub const PROGRESS_PAUSE: Duration = Duration::from_millis(100);
/// Tools of one plugin.
pub const TOOLS_PER_PLUGIN: usize = 128;
/// Bytes of a tool's description.
pub const TOOL_DESCRIPTION_BYTES: usize = 8 << 10;
/// Bytes of a tool's schema.
pub const TOOL_SCHEMA_BYTES: usize = 64 << 10;
/// Lists and objects within each other in a tool's schema. What vendors take ends well before it.
pub const TOOL_SCHEMA_DEPTH: usize = 32;
/// The last second that a date of four digits can name, after 1970.
pub const LAST_DATE: Duration = Duration::from_secs(253_402_300_799);
/// Bytes of all that `specs` returns.
pub const SPECS_BYTES: usize = 512 << 10;
/// Bytes of a tool's result.
pub const RESULT_BYTES: usize = 16 << 20;
/// Bytes of one image, document or sound.
pub const MEDIA_BYTES: usize = 8 << 20;
/// Bytes of what names it or leads to it: its type, its file name, its address.
pub const MEDIA_NAME_BYTES: usize = 2 << 10;
/// Bytes of the arguments of a tool call.
pub const ARGUMENT_BYTES: usize = 1 << 20;
/// Bytes of the state that a pure step may keep. A config can only lower it: it is written down in every turn.
pub const STATE_BYTES: usize = 64 << 10;
/// Bytes of a note that an effect adds to the chat.
pub const NOTE_BYTES: usize = 16 << 10;
/// Bytes of all notes that an effect adds in one step: some 30,000 tokens, which the model reads again in every turn.
pub const NOTES_PER_STEP_BYTES: usize = 8 * NOTE_BYTES;
/// Edits in one answer of an effect.
pub const EDITS_PER_STEP: usize = 1_024;
/// Bytes of an error text.
pub const ERROR_BYTES: usize = 4 << 10;
/// Bytes of one piece that a provider hands to its sink.
pub const DELTA_BYTES: usize = 64 << 10;
/// Pairs in a `meta`.
pub const META_PAIRS: usize = 32;
/// Bytes of a `meta`.
pub const META_BYTES: usize = 4 << 10;
/// Bytes of the messages that one `chat.read` hands over.
pub const CHAT_READ_BYTES: usize = 1 << 20;
/// Entries that one `chat.entries` hands over.
pub const CHAT_ENTRIES: usize = 1_024;
/// Bytes of one `random.bytes`.
pub const RANDOM_BYTES: u32 = 64 << 10;

// ---- models over HTTP

/// Bytes of one reply of a model, text, thoughts and arguments together.
pub const REPLY_BYTES: usize = 16 << 20;
/// Bytes of a reply that looked like printed calls and were none: the rest of it is text, so that one that looks like a call
/// everywhere is not read over and over.
pub const PRINTED_DOUBT_BYTES: usize = 1 << 20;
/// Lists and objects within each other in arguments that are printed as no JSON; JSON has the parser's bound.
pub const PRINTED_DEPTH: usize = 64;
/// Bytes of the line before a printed call in which a word for an example is looked for.
pub const PRINTED_LINE_BYTES: usize = 512;
/// Bytes of what gpt-oss says of a message before the message: to whom, and in what.
pub const PRINTED_HEADER_BYTES: usize = 512;
/// Tool calls of one reply that are put together: more than an agent answers, so that it can say so.
pub const CALLS_IN_REPLY: usize = 8 * CALLS_PER_REPLY;
/// Bytes of a word of a model's server that is kept: the name of a model, an unknown reason to stop.
pub const REPLY_WORD_BYTES: usize = 256;
/// Bytes of one event in a stream of a model's server.
pub const STREAM_EVENT_BYTES: usize = 8 << 20;
/// Bytes of one stream of events of a server, whatever they are. Each piece of a reply comes in an event of some 300 bytes: the
/// longest replies, of some 130,000 tokens, take 40 MB.
pub const STREAM_BYTES: usize = 256 << 20;
/// Bytes of a stream that lead to nothing, in a row: comments, empty events, events that nobody knows, pieces without content.
/// At its end some wires repeat the whole reply, in several events. Reading so many takes some seconds at most.
pub const STREAM_IDLE_BYTES: usize = 2 * REPLY_BYTES;
/// Time for which the stream of a model's reply may go on without moving it on. Servers send such pings while a model thinks
/// without a word. A longer silence that a config allows counts here too.
pub const STREAM_IDLE_EVENTS_TIME: Duration = Duration::from_secs(300);
/// Bytes of an error body that are read to explain it.
pub const ERROR_BODY_BYTES: usize = 4 << 10;
/// Time of one attempt to connect, from the search for the address to the end of the TLS handshake, whether through a proxy or
/// not. A server that is there answers within one second; a packet that is lost twice takes three more.
pub const CONNECT_TIME: Duration = Duration::from_secs(10);
/// How long an agent waits for its model before a person is told that it does; then after twice as long, and so on. A server
/// that is there begins within seconds, one that loads a model does not.
pub const MODEL_QUIET_TOLD: Duration = Duration::from_secs(10);
/// Longest silence in the middle of a reply.
pub const STREAM_IDLE_TIME: Duration = Duration::from_secs(120);
/// Attempts after the first, for failures that may pass.
pub const HTTP_RETRIES: usize = 3;
/// The longest time for a completion, and the longest silence, that a config can ask for.
pub const COMPLETION_TIME_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// Tokens of the reply to a question that only sees whether a model answers: room for a short thought.
pub const PROBE_TOKENS: u32 = 256;
/// The pause before the second attempt where the server names none; doubled for each further one.
pub const FIRST_RETRY_PAUSE: Duration = Duration::from_millis(500);
/// How often a reply that broke off in its middle is asked for again, if the model's own `retries` allow as many. Each of
/// them is paid for.
pub const BROKEN_REPLIES: usize = 2;
/// Tools that one run leaves out because the model's vendor refuses their schemas. Each costs a request; so many are a
/// server that refuses whatever it is sent.
pub const REFUSED_TOOLS: usize = 8;
/// The longest `Retry-After` that is waited for; a longer one is reported.
pub const RETRY_AFTER_CEILING: Duration = Duration::from_secs(60);
/// Time that a cancelled run has to say so, if whoever reads it does not read on.
pub const CANCEL_GRACE: Duration = Duration::from_secs(2);
/// Time to find out whether a local model server is there.
pub const DISCOVERY_TIME: Duration = Duration::from_millis(500);

// ---- on disk

/// Bytes of all compiled components in the cache; beyond it the oldest go.
pub const CACHE_BYTES: u64 = 1 << 30;
/// Files in the cache, those that say that a component is valid among them; beyond it the oldest go. As many as one
/// directory of plugins holds, several times over.
pub const CACHE_ENTRIES: usize = 8 * PLUGINS_PER_DIRECTORY;

// ---- money and budgets

/// Whole dollars of the largest amount that a budget or a price can name. More is a slip of the pen.
pub const MONEY_DOLLARS: u64 = 1_000_000;
/// The longest wall time that a budget can name: 30 days, beyond any run.
pub const BUDGET_TIME: Duration = Duration::from_secs(30 * 24 * 60 * 60);
/// Tokens of a reply that every model can be asked for. While a budget has room for so many, a request that names no
/// longest reply is left to the model's default: a higher figure would be refused by models with shorter replies.
pub const REPLY_TOKENS_OF_ANY_MODEL: u64 = 4_096;
/// Bytes of one price list.
pub const PRICE_LIST_BYTES: usize = 1 << 20;
/// Models in all price lists together. Every vendor's models together are some hundreds.
pub const PRICES: usize = 4_096;
/// Agents that a ledger keeps apart; what further ones use is in one row.
pub const LEDGER_AGENTS: usize = 1_024;

// ---- what agents share: blackboards, tasks, notes

/// Bytes of a key on a blackboard.
pub const BLACKBOARD_KEY_BYTES: usize = 128;
/// Bytes of a value on a blackboard, as JSON: a little below [`TOOL_RESULT_CHARS`], so that a model that reads it sees all
/// of it.
pub const BLACKBOARD_VALUE_BYTES: usize = 31_000;
/// Keys on one blackboard.
pub const BLACKBOARD_KEYS: usize = 1_024;
/// Bytes of all keys and values on one blackboard.
pub const BLACKBOARD_BYTES: usize = 8 << 20;
/// Keys that are named to whoever asks for one that is not there.
pub const BLACKBOARD_KEYS_SHOWN: usize = 20;
/// Bytes of the namespace of a blackboard: with what is added to it, it is the name of a tool.
pub const NAMESPACE_BYTES: usize = 32;
/// The longest that a tool call waits for a blackboard or a task, and how long it waits where the model names no time.
pub const SHARED_WAIT: Duration = Duration::from_secs(300);
/// Time that such a call has beyond that to say that nothing came.
pub const SHARED_WAIT_GRACE: Duration = Duration::from_secs(5);
/// Tasks on one board; none is ever removed.
pub const TASKS: usize = 1_024;
/// Tasks that one listing shows a model.
pub const TASKS_LISTED: usize = 100;
/// Characters of a task's title: it is shown in lists.
pub const TASK_TITLE_CHARS: usize = 200;
/// Bytes of a task's description.
pub const TASK_DESCRIPTION_BYTES: usize = 16 << 10;
/// Tasks that one task may wait for.
pub const TASK_DEPENDENCIES: usize = 64;
/// Facts in the metadata of a task.
pub const TASK_METADATA_KEYS: usize = 32;
/// Bytes of all metadata of a task, as JSON.
pub const TASK_METADATA_BYTES: usize = 8 << 10;
/// Lists and objects within each other in the metadata of a task: whatever it is written into can be read again, which
/// ends at 127.
pub const TASK_METADATA_DEPTH: usize = 64;
/// Time that a task which somebody waits for may be without an assignee: long enough for an agent to start, and too short
/// to wait for one that never will.
pub const TASK_UNCLAIMED: Duration = Duration::from_secs(15);
/// Bytes of the name of a note.
pub const NOTES_NAME_BYTES: usize = 64;
/// Bytes of one note: a model that reads it sees all of it.
pub const NOTES_FILE_BYTES: usize = TOOL_RESULT_CHARS;
/// Notes in one folder.
pub const NOTES_FILES: usize = 256;
/// Characters of a note's first line in a list.
pub const NOTES_LINE_CHARS: usize = 80;
/// Characters of a wrong name that the error repeats.
pub const NAME_SHOWN_CHARS: usize = 100;

// ---- questions to a person

/// Questions that wait for a person at once; whoever has one more waits for a place. More than a person can look over.
pub const OPEN_QUESTIONS: usize = 64;
/// Time that a question waits for its answer, with its wait for a place: a person may be away for a night.
pub const QUESTION_TIME: Duration = Duration::from_secs(12 * 60 * 60);
/// Bytes of a question's text: what still fits on a screen or two.
pub const QUESTION_BYTES: usize = 8 << 10;
/// Bytes of a question's header, of an option's label and of what a permission names.
pub const QUESTION_LABEL_BYTES: usize = 256;
/// Bytes of an option's description.
pub const OPTION_DESCRIPTION_BYTES: usize = 1 << 10;
/// Options of one question.
pub const QUESTION_OPTIONS: usize = 32;
/// Characters of the details of a permission that a person is shown; the rest is cut, and the cut is told.
pub const PERMISSION_DETAIL_CHARS: usize = 4_000;
/// The same of changes of files: what [`DIFF_CHARS`] leaves of them, and the lines that name each.
pub const CHANGE_DETAIL_CHARS: usize = 40_000;
/// Characters of a question in an event.
pub const QUESTION_SUMMARY_CHARS: usize = 200;
/// Bytes of an answer in a person's own words.
pub const ANSWER_BYTES: usize = 16 << 10;
/// Things that are trusted from now on. A list that nobody can look over any more protects nothing.
pub const TRUSTED_SUBJECTS: usize = 1_024;
/// Events that are held back while a person is being asked at the terminal; beyond it the run waits for the person.
pub const HELD_EVENTS: usize = 1_024;
// ---- skills and the project's folder

/// Bytes of one `SKILL.md`. About 16,000 tokens: longer procedures belong into files beside it, read on demand.
pub const SKILL_BYTES: u64 = 64 << 10;
/// Skills in one directory. Each costs a line of the system prompt.
pub const SKILLS: usize = 256;
/// Characters of a skill's name: a model must write it without a mistake.
pub const SKILL_NAME_CHARS: usize = 64;
/// Characters of a skill's description. Other tools take 1,024.
pub const SKILL_DESCRIPTION_CHARS: usize = 2_048;
/// Bytes of all skills of one directory that stand in the system prompt: those without a description.
pub const INLINE_SKILLS_BYTES: usize = 128 << 10;
/// Characters of a project's context in the system prompt, its frame and the index too. About 8,000 tokens, sent with every request.
pub const CONTEXT_CHARS: usize = 32_000;
/// Bytes that are read of one file of a project's context where the config says nothing else; the rest is cut.
pub const CONTEXT_FILE_BYTES: u64 = 512 << 10;
/// The most bytes of such a file that a config can have read: each is held in memory before it is cut to [`CONTEXT_CHARS`].
pub const CONTEXT_FILE_CEILING: u64 = 16 << 20;
/// Files of one folder that are read into a project's context: the first by name.
pub const CONTEXT_FILES: usize = 64;
/// Bytes of a permissions file.
pub const PERMISSIONS_BYTES: u64 = 1 << 20;
/// Files and folders that are looked at for a project's index. Ten times what most repositories have.
pub const INDEX_ENTRIES: usize = 200_000;
/// Folders below one another that a project's index looks into.
pub const INDEX_DEPTH: usize = 16;
/// Time for a project's index: a slow disk must not keep an agent from starting.
pub const INDEX_TIME: Duration = Duration::from_secs(2);
/// Characters of a project's index. About 2,000 tokens.
pub const INDEX_CHARS: usize = 8_000;
/// Folders of one folder that a project's index names: the first by name.
pub const INDEX_FOLDERS_NAMED: usize = 48;
/// Bytes of one `.gitignore` that are read for a project's index; a longer one is not used.
pub const IGNORE_FILE_BYTES: u64 = 64 << 10;
/// Bytes of the small files that tell where a git repository stands, and of the end of its log.
pub const GIT_FILE_BYTES: u64 = 64 << 10;

// ---- what a person is told of a config

/// Names of what there is that are told to whoever names what there is not.
pub const NAMES_SHOWN: usize = 50;

// ---- what is told of a call of a plugin, so that it can be understood later

/// Readings of clocks in one call that are told; later ones are left out, and that is told.
pub const GIVEN_CLOCK_READINGS: usize = 1_024;
/// Random bytes of one call that are told; later ones are left out, and that is told. As many as one
/// [`RANDOM_BYTES`] gives.
pub const GIVEN_RANDOM_BYTES: usize = 64 << 10;

// ---- sessions on disk

/// Sessions of one project. Listing them stays quick, and nobody can tell more apart.
pub const SESSIONS: usize = 100_000;
/// Bytes of all sessions of one project; beyond it no further one is made, and a person is asked to remove some.
pub const SESSIONS_BYTES: u64 = 8 << 30;
/// How long what was written to a session may wait until the disk is told to keep it, if nobody waits for that: so a call
/// that follows a reply at once waits for the disk once, and not for the reply first.
pub const SESSION_SYNC_DELAY: Duration = Duration::from_millis(5);
/// Bytes of one session, attachments and all: what a run without end may fill before it ends.
pub const SESSION_BYTES: u64 = 2 << 30;
/// Bytes of one line of a journal: the largest record is a conversation of small messages that was rewritten.
pub const SESSION_LINE_BYTES: usize = 64 << 20;
/// Bytes of one record as JSON, attachments and all: a whole conversation, its pictures as base64.
pub const SESSION_RECORD_BYTES: usize = 2 * CHAT_BYTES;
/// Bytes that wait for the disk. A disk that is so far behind will not catch up.
pub const SESSION_PENDING_BYTES: usize = 64 << 20;
/// Bytes of a line beyond which its long strings become attachments.
pub const SESSION_INLINE_LINE_BYTES: usize = 16 << 10;
/// Bytes of a string that becomes an attachment, in a line that is too long.
pub const SESSION_INLINE_STRING_BYTES: usize = 4 << 10;
/// Bytes of a system prompt that becomes an attachment in any line: a thousand agents share one.
pub const SESSION_INLINE_PROMPT_BYTES: usize = 1 << 10;
/// Bytes of a header; what is longer is not read.
pub const SESSION_HEADER_BYTES: usize = 256 << 10;
/// Bytes of the paths and names of the command line that a header keeps; longer ones are given again on resume.
pub const SESSION_OPTIONS_BYTES: usize = 32 << 10;
/// Folders for which it is kept which configs sessions were begun with there; the oldest go.
pub const SESSION_FOLDERS: usize = 256;
/// Configs kept for one such folder; the oldest go.
pub const SESSION_FOLDER_CONFIGS: usize = 8;
/// Bytes of the file in which they stand; a larger one is not read.
pub const SESSION_FOLDERS_BYTES: u64 = 8 << 20;
/// Bytes of the end of a journal that are read to tell how its last run ended.
pub const SESSION_TAIL_BYTES: usize = 64 << 10;
/// Characters of a session's title.
pub const SESSION_TITLE_CHARS: usize = 200;
/// Characters of a task of an earlier session that an agent is told.
pub const RECALLED_TASK_CHARS: usize = 2_000;
/// Characters of an answer of an earlier session that an agent is told.
pub const RECALLED_ANSWER_CHARS: usize = 8_000;
/// Characters of all that an agent is told of an earlier session: the newest. About 5,000 tokens.
pub const RECALLED_CHARS: usize = 20_000;
/// Bytes of a session's name.
pub const SESSION_NAME_BYTES: usize = 64;
/// Bytes of a credential that is looked for in what is written; shorter ones would be found in what is no secret.
pub const SESSION_SECRET_BYTES: usize = 8;
/// Characters before and after what was found, in the excerpt that is shown.
pub const SESSION_EXCERPT_CHARS: usize = 80;
/// Characters of a text that is searched for.
pub const SESSION_SEARCH_CHARS: usize = 1_000;
/// Files in one session that are counted. More attachments do not fit into [`SESSION_BYTES`].
pub const SESSION_FILES: usize = 2_500_000;
/// How often it is tried again to take a session for oneself, and the pause between: whoever lists sessions holds each for
/// a moment.
pub const SESSION_LOCK_TRIES: u32 = 5;
/// See [`SESSION_LOCK_TRIES`].
pub const SESSION_LOCK_PAUSE: Duration = Duration::from_millis(10);
/// Folders below one another in a session that is removed: a session has one, and what is foreign in it seldom more. Each
/// takes a piece of the stack.
pub const SESSION_FOLDERS_DEEP: u32 = 32;
/// Names of sessions that could not be read, in the warning of a search; the rest is counted.
pub const SESSIONS_LEFT_OUT_SHOWN: usize = 5;
/// Age of a session that was not made to its end, as a crash leaves it, before it is removed.
pub const SESSION_LEFTOVER_AGE: Duration = Duration::from_secs(3_600);

// ---- what is shown of sessions

/// Characters of a call's arguments that `session show` shows; the rest is cut. One or two lines of a terminal.
pub const SESSION_CALL_CHARS: usize = 200;
/// Characters of a call's result that `session show` shows; the rest is cut. Half a screen.
pub const SESSION_RESULT_CHARS: usize = 1_000;
/// Characters of what a line of a journal says, in a list of its lines.
pub const SESSION_STEP_CHARS: usize = 100;

// ---- what a config can set for plugins: what holds if it says nothing, and the most that it can say

/// The longest wall time that a config can give a call. What takes longer is no call any more.
pub const PLUGIN_TIME_CEILING: Duration = Duration::from_secs(3_600);
/// Time on the processor of one call. Half of what a tool may take in all: more is a loop without end.
pub const PLUGIN_CPU_TIME: Duration = Duration::from_secs(30);
/// The most time on the processor that a config can give a call: all of the longest wall time.
pub const PLUGIN_CPU_CEILING: Duration = PLUGIN_TIME_CEILING;
/// The most elements of tables that a config can give one instance: the size of a slot in the pool (address space, not
/// memory).
pub const PLUGIN_TABLE_ELEMENTS_CEILING: usize = 1_000_000;
/// The most core instances that a config can give one component. Ten times what the largest known need.
pub const PLUGIN_CORE_INSTANCES_CEILING: usize = 256;
/// The most stack that a config can give guests, in bytes. A thread's usual stack: each call under way reserves so much
/// address space.
pub const PLUGIN_STACK_CEILING: usize = 8 << 20;
/// Stack of one call beyond the guest's own, in bytes: for the functions of the host that the guest calls.
pub const PLUGIN_HOST_STACK_BYTES: usize = 1536 << 10;
/// Bytes of texts and lists that one call is handed: its input, and what functions that it imports return. As much as half
/// of its memory.
pub const PLUGIN_INPUT_BYTES: usize = 64 << 20;
/// Bytes of texts and lists that one call hands over: its result, and what it calls imported functions with.
pub const PLUGIN_OUTPUT_BYTES: usize = 64 << 20;
/// The most bytes that a config can let cross in one call, each way: what fits into the largest memory.
pub const PLUGIN_CROSSING_CEILING: usize = PLUGIN_MEMORY_CEILING;
/// The most log entries that a config can give one call. A person reads no more.
pub const LOG_ENTRIES_CEILING: u32 = 100_000;
/// Bytes of all log entries of one call, each cut to [`LOG_ENTRY_BYTES`]; what comes after them is dropped and counted.
pub const LOG_BYTES: usize = 1 << 20;
/// The most bytes of log that a config can give one call.
pub const LOG_BYTES_CEILING: usize = 64 << 20;
/// Calls of imported functions a second, of all calls of one plugin of one agent together. A cheap function called so often
/// takes about a hundredth of a core. Calls that are answered from the system's memory on the call's own time on the
/// processor, as most of reading files, are not among them.
pub const HOST_CALLS_PER_SECOND: u32 = 50_000;
/// The most calls of imported functions a second that a config can allow: beyond it nothing is slowed down any more.
pub const HOST_CALLS_PER_SECOND_CEILING: u32 = 10_000_000;
/// So much of what is allowed in a time may come at once, if nothing came before.
pub const HOST_CALLS_AT_ONCE: Duration = Duration::from_secs(1);
/// Quarters of all places that the calls of one component take at most, however many agents have it: others find some.
pub const PLUGIN_QUARTERS_OF_ONE: u32 = 3;
/// Calls of one plugin of one agent under way at once; others wait. A third of the places for calls that compute, so that
/// one plugin alone cannot hold all of them.
pub const PLUGIN_CONCURRENCY: u32 = 64;
/// How long a call waits for a place: its plugin's, and one among all calls. Twice what a tool may take.
pub const PLUGIN_PLACE_WAIT: Duration = Duration::from_secs(120);
/// Bytes of guest memory and tables of all plugins together, where neither the machine nor its cgroup says how much there is.
pub const GUEST_MEMORY_BYTES: usize = 2 << 30;
/// The part of the memory of the machine, or of its cgroup, that guests may hold together where the config says nothing: the
/// other half is for the host, the programs that it runs and everything else.
pub const GUEST_MEMORY_PART: u64 = 2;
/// The least guest memory of all plugins together that a config can name: room for a few small instances.
pub const GUEST_MEMORY_LEAST: usize = 16 << 20;
/// The most that a config can name: beyond any machine, so that sums of it do not overflow.
pub const GUEST_MEMORY_CEILING: usize = 1 << 40;
/// The part of the guest memory that new calls leave to running ones, which give back what they hold when they are done.
pub const GUEST_MEMORY_RESERVE_PART: usize = 8;
/// Time that a running call waits for more guest memory. The memory that it holds is kept from others meanwhile.
pub const GUEST_MEMORY_WAIT: Duration = Duration::from_secs(10);
/// Bytes that are read, at once, of a file in which the kernel says how much memory there is: each such file has less.
pub const KERNEL_FILE_BYTES: usize = 8 << 10;
/// Control groups above each other that are looked at for a bound on memory; the kernel allows about as many.
pub const CONTROL_GROUP_DEPTH: usize = 64;
/// Bytes of a page of linear memory, in which guest memory is reserved.
pub const WASM_PAGE_BYTES: usize = 64 << 10;
/// Bytes of a table's element in the host.
pub const TABLE_ELEMENT_BYTES: usize = size_of::<usize>();
/// How long a call that computes waits in a line in which no turn ends, before it goes on without one: whoever has the turn
/// then is not driven.
pub const PLUGIN_TURN_WAIT: Duration = Duration::from_secs(1);
// ---- functions of components as tools

/// Functions that a component of kind `functions` may export: each is read and named. A model is offered
/// [`TOOLS_PER_PLUGIN`] of them at most.
pub const EXPORTED_FUNCTIONS: usize = 1_024;
/// Types within each other in what a function takes and gives. Its schema is some times as deep, and
/// [`TOOL_SCHEMA_DEPTH`] ends it before this does.
pub const VALUE_DEPTH: usize = 16;
/// Types, and names of cases, of one function, each as often as it occurs: types that are made of others twice grow beyond
/// all bounds in a few lines.
pub const VALUE_TYPES: usize = 1_000;
/// Bytes of the WIT of one function in its description; the rest is cut.
pub const SIGNATURE_BYTES: usize = 4 << 10;
/// Bytes of what a component says of its functions; more is not read.
pub const PACKAGE_DOCS_BYTES: usize = 256 << 10;
/// Handles of one component that a model may hold in one run: more than it can keep apart.
pub const FUNCTION_HANDLES: usize = 256;
/// Instances of plugins that are kept for a run in the whole process, beside [`PLUGIN_CALLS`]; who needs one more waits.
pub const KEPT_INSTANCES: u32 = 64;
/// Time without a call after which an instance that is kept for a run is dropped: it holds memory.
pub const KEPT_IDLE: Duration = Duration::from_secs(10 * 60);

// ---- key-value stores of plugins

/// Bytes of a key, as the contract says.
pub const KV_KEY_BYTES: usize = 512;
/// Bytes of a value, as the contract says: what one call can hand over with ease.
pub const KV_VALUE_BYTES: usize = 1 << 20;
/// Bytes of all keys and values of one store, as the contract says. The file of one on disk has up to twice as many and
/// [`KV_WASTE_BYTES`].
pub const KV_STORE_BYTES: u64 = 64 << 20;
/// Keys of one store: each takes some hundred bytes of the host's memory while the store is in use.
pub const KV_STORE_KEYS: usize = 65_536;
/// Keys that one `kv.keys` hands over, as the contract says.
pub const KV_KEYS_LISTED: usize = 1_000;
/// Bytes of keys and values of all stores in memory together, [`KV_ENTRY_BYTES`] for each key among them: a thousand agents
/// at work have one each.
pub const KV_MEMORY_BYTES: usize = 512 << 20;
/// Bytes that a key takes beside itself and its value.
pub const KV_ENTRY_BYTES: usize = 128;
/// Bytes of what is overwritten and removed that a file may hold beyond as much as is in use, before it is written anew.
pub const KV_WASTE_BYTES: u64 = 4 << 20;
/// Time that one waits for another process that uses the same store: it does so for one operation at a time.
pub const KV_LOCK_TIME: Duration = Duration::from_secs(5);
/// How often one looks whether it has ended.
pub const KV_LOCK_PAUSE: Duration = Duration::from_millis(1);
/// Bytes of the name of an agent or a plugin in the name of a file; longer ones are told apart by their SHA-256.
pub const KV_FILE_NAME_BYTES: usize = 100;
/// Bytes of the file of a store; a larger one was not written by this program, and is not read. Twice what may be in use,
/// [`KV_RECORD_BYTES`] for each key among it, what may be out of date, and one more record.
pub const KV_FILE_BYTES: u64 = 2 * (KV_STORE_BYTES + (KV_STORE_KEYS * KV_RECORD_BYTES) as u64)
    + KV_WASTE_BYTES
    + (KV_RECORD_BYTES + KV_KEY_BYTES + KV_VALUE_BYTES) as u64;
/// Bytes of a record in a file beside its key and value.
pub const KV_RECORD_BYTES: usize = 22;
/// Warnings that are told of one store that cannot be used, each of another reason. Whoever changes the file again and again
/// could make it say something new for ever.
pub const KV_WARNINGS: u32 = 8;
// ---- what a person trusts

/// Bytes of the file that keeps what a person trusts; where it is full, the oldest answers go.
pub const TRUST_STORE_BYTES: u64 = 16 << 20;
/// Projects that it knows.
pub const TRUST_PROJECTS: usize = 1_000;
/// Bytes of what is kept of one project beside its MCP servers, as JSON: some thousand lines.
pub const TRUST_PROJECT_BYTES: usize = 256 << 10;
/// MCP servers of a project of which is kept what was approved; the oldest go.
pub const TRUST_SERVERS: usize = 64;
/// Bytes of what is kept of them, as JSON: ten servers with as many tools as one can have.
pub const TRUST_SERVERS_BYTES: usize = 1 << 20;
/// Versions of instruction files of one project that a person has seen and that are known again; the oldest go. Some for each
/// file that a project can have.
pub const INSTRUCTIONS_SEEN: usize = 2_048;
/// Bytes of their texts that are kept, to show what has changed: as much as a model is told of a project, some times over.
pub const INSTRUCTIONS_SEEN_BYTES: usize = 1 << 20;
/// Bytes of the file in which they are kept: each byte of a text is six at most in JSON, and each version has a name and a digest.
pub const INSTRUCTIONS_FILE_BYTES: u64 = 16 << 20;
/// Lines of what has changed in instruction files that a person is shown in one question; of more the rest is counted.
pub const INSTRUCTIONS_LINES: usize = 200;
/// Bytes of the key by which the sessions of a person are known: as many as the digest under it has.
pub const OWN_KEY_BYTES: usize = 32;
/// Bytes of its file: hexadecimal digits and the end of a line.
pub const OWN_KEY_FILE_BYTES: u64 = 128;
/// Things that a person is asked to trust at once; of more nobody would read the last.
pub const FACTS_SHOWN: usize = 200;
/// Characters of one of them: some lines of a terminal. What is longer could hide its end.
pub const FACT_CHARS: usize = 500;
/// Things of a project that a refusal names; the rest is counted.
pub const FACTS_TOLD: usize = 5;

// ---- the hostile suite

/// Attacks of one suite.
pub const CONFORMANCE_ATTACKS: usize = 1_000;
/// Bytes of one `attack.toml`.
pub const CONFORMANCE_FILE_BYTES: u64 = 64 << 10;
/// Bytes of the component of one attack, and of the text that it is made of with all repetitions.
pub const CONFORMANCE_COMPONENT_BYTES: u64 = 16 << 20;
/// Bytes of all components of one suite.
pub const CONFORMANCE_SUITE_BYTES: u64 = 256 << 20;
/// Bytes of the sentence that says what an attack tries.
pub const CONFORMANCE_SENTENCE_BYTES: usize = 500;
/// Calls of one attack.
pub const CONFORMANCE_CALLS: u32 = 16;
/// Attacks that run at once: a few wait while others keep the cores busy.
pub const CONFORMANCE_AT_ONCE: usize = 8;
/// Wall time of a call of an attack that tries to last for ever, or its time on the processor.
pub const CONFORMANCE_HASTY_TIME: Duration = Duration::from_millis(300);
/// Wall time of a call of any other attack: enough on a busy machine, so that it ends for the reason that it should.
pub const CONFORMANCE_CALL_TIME: Duration = Duration::from_secs(10);
/// Time beyond its own that a call may have taken before that counts as an escape: the machine may be busy.
pub const CONFORMANCE_SLACK: Duration = Duration::from_secs(5);
/// Time on the processor beyond its own that a call may have taken before that counts as an escape: it is looked at between
/// the steps of a call.
pub const CONFORMANCE_CPU_SLACK: Duration = Duration::from_millis(500);
/// Wall time of loading an attack and of all its calls; what takes longer has escaped.
pub const CONFORMANCE_RUN_TIME: Duration = Duration::from_secs(40);
/// Wall time of a host that plays an attack in a process of its own, where the attack names no other: the host refuses or
/// compiles what is allowed in a tenth of it, and the machine may be busy.
pub const CONFORMANCE_HOST_TIME: Duration = Duration::from_secs(20);
/// Bytes by which such a host may grow, where the attack names no others: reading and validating the largest structure that is
/// allowed takes half of them.
pub const CONFORMANCE_HOST_MEMORY_BYTES: u64 = 256 << 20;
/// The most bytes by which an attack can let its host grow: so much is left on a small machine that runs the suite.
pub const CONFORMANCE_HOST_MEMORY_CEILING_BYTES: u64 = 4 << 30;
/// Processes with hosts that play an attack alone, at once: together they may take twice the memory of one.
pub const CONFORMANCE_HOSTS: usize = 2;
/// Pause between two looks at the memory of such a process: at a gigabyte a second it grows by 10 MB.
pub const CONFORMANCE_LOOK: Duration = Duration::from_millis(10);
/// Bytes that are read of what such a process writes: two lines, each with some sentences.
pub const CONFORMANCE_OUTPUT_BYTES: u64 = 256 << 10;
/// Pause between two exchanges of a path with a link, while an attack opens that path: as many as it makes calls.
pub const CONFORMANCE_SWAP_PAUSE: Duration = Duration::from_micros(20);
/// Characters that are shown of what an attack came to.
pub const CONFORMANCE_DETAIL_CHARS: usize = 300;
/// Calls of a tool and runs of an agent by which is measured how quick the host is; the median counts.
pub const CONFORMANCE_ROUNDS: usize = 200;
/// How often slower a call may be after the suite; others may keep the machine busy.
pub const CONFORMANCE_SLOWER: u32 = 5;
/// What a call may take after the suite, however quick it was before.
pub const CONFORMANCE_QUICK: Duration = Duration::from_millis(1);
/// Bytes by which the process may have grown after the suite: pages that the allocator keeps, most of them from compiling.
pub const CONFORMANCE_GROWTH_BYTES: u64 = 128 << 20;
/// Time in which the process must be as small after the suite as before.
pub const CONFORMANCE_SETTLING: Duration = Duration::from_secs(5);
/// How long a thread that the runtime has lent is kept after its work, and the pause between two looks at the process.
pub const CONFORMANCE_PAUSE: Duration = Duration::from_millis(100);

// ---- agents that start each other

/// Bytes in which a tool says what it lacks: a path or a URL.
pub const NEED_BYTES: usize = 8 << 10;
/// What one call may turn out to lack, one after the other: two places and the servers that they lead to, and some more. Each
/// is a question to a person and the whole call again.
pub const NEEDS_PER_CALL: usize = 4;
/// Folders and servers that are opened to one agent while it works, each by the name that a tool has for it. More are a
/// mistake in the config, or an agent that asks its way through a machine.
pub const OPENED: usize = 64;
/// Agents that are kept of each one in the config, one for each ceiling that it was made under; beyond it all are forgotten
/// and made anew. A handful is usual, but there can be as many as chains of agents that start each other, and each holds
/// plugins of its own.
pub const OUTFITS_KEPT: usize = 64;

// ---- the way out

/// The most attempts after the first that a request can have: more only keep a busy server busy.
pub const HTTP_RETRIES_CEILING: usize = 10;
/// All pauses between the attempts of one request together: two long ones that a server asks for.
pub const RETRY_WAITING: Duration = Duration::from_secs(120);
/// The most that the pauses between the attempts of one request can be given together.
pub const RETRY_WAITING_CEILING: Duration = Duration::from_secs(600);
/// Where the doubling of pauses ends: by then a server's bad moment is a bad hour.
pub const RETRY_PAUSE: Duration = Duration::from_secs(30);
/// The largest number of requests or tokens that is believed of a server's limit. No account has so many.
pub const RATE_CEILING: u64 = 1_000_000_000_000;
/// The longest time that is believed of the reset of a server's limit: accounts are counted by the month at most.
pub const RATE_RESET_CEILING: Duration = Duration::from_secs(31 * 24 * 60 * 60);
/// Bytes of one header that tells of a server's limit. A date has some 30.
pub const RATE_HEADER_BYTES: usize = 64;
/// Bytes that are shown of a header of a server.
pub const SHOWN_HEADER_BYTES: usize = 64;
/// Bytes of the URL of a proxy, with user and password.
pub const PROXY_URL_BYTES: usize = 2 << 10;
/// Servers that are asked without the proxy.
pub const PROXY_EXCEPTIONS: usize = 256;
/// Bytes of one of them: a name of the domain name system has 253.
pub const PROXY_EXCEPTION_BYTES: usize = 256;
/// Bytes of what a secret is read from, and of a secret. Tokens of the longest kind have some 4 KiB.
pub const SECRET_BYTES: u64 = 64 << 10;
/// Wall time of a command that prints a secret: a person may have to unlock it.
pub const SECRET_COMMAND_TIME: Duration = Duration::from_secs(60);
/// Pause between two looks at whether a program has ended, once it has said all.
pub const PROCESS_PAUSE: Duration = Duration::from_millis(10);
/// Time that is waited for what such a command said of its failure, once it has ended.
pub const SECRET_COMMAND_GRACE: Duration = Duration::from_millis(500);
/// Bytes that are shown of what such a command says of its failure.
pub const SECRET_COMMAND_ERROR_BYTES: usize = 1 << 10;
/// Words of such a command, the program among them.
pub const SECRET_COMMAND_WORDS: usize = 64;
/// Secrets from files and commands that are kept, so that they are read once.
pub const SECRETS_KEPT: usize = 256;
/// Bytes of one message over a WebSocket, in either direction: as many as a reply may have.
pub const WEBSOCKET_MESSAGE_BYTES: usize = REPLY_BYTES;
/// Time to end a WebSocket in good manners; after it the connection is closed.
pub const WEBSOCKET_CLOSE_TIME: Duration = Duration::from_secs(2);

// ---- Anthropic

/// Tokens of the longest reply where neither request nor config bounds it: the API wants a bound. Room for a whole file in
/// the arguments of a call, and no more than every current model can write.
pub const ANTHROPIC_REPLY_TOKENS: u32 = 8_192;
/// Content blocks of one reply. Citations cut a text into many; each costs memory even if it is empty.
pub const ANTHROPIC_REPLY_BLOCKS: usize = 4_096;

// ---- the Responses API

/// Items of one reply: messages, thoughts, calls and what else there may be. Twice as many as it may have calls.
pub const RESPONSES_ITEMS: usize = 2 * CALLS_IN_REPLY;
/// Tokens of the shortest bound of a reply that OpenAI takes.
pub const RESPONSES_LEAST_TOKENS: u32 = 16;
/// Bytes of the longest id of a call that OpenAI takes.
pub const RESPONSES_CALL_ID_BYTES: usize = 64;

// ---- schemas that are written anew for a vendor

/// Schemas within each other; what is inside deeper ones is left open. Twice what a plugin's tool can have, since references
/// are written out.
pub const SCHEMA_DEPTH: usize = 2 * TOOL_SCHEMA_DEPTH;
/// References that are written out within each other; a schema that needs more says nothing to a model anyway.
pub const SCHEMA_REFS: usize = 16;
/// Bytes beyond which no further reference is written out: a few of them can name each other without end.
pub const SCHEMA_INLINED_BYTES: usize = 4 * TOOL_SCHEMA_BYTES;

// ---- requests in batches

/// How long the first request of a batch waits for others. The predecessor's figure.
pub const BATCH_WINDOW: Duration = Duration::from_millis(500);
/// The most that a config can let it wait: it is added to every turn of an agent.
pub const BATCH_WINDOW_CEILING: Duration = Duration::from_secs(60);
/// The pause before a vendor is asked for the first time how far a batch is. The predecessor's figure.
pub const BATCH_POLL: Duration = Duration::from_secs(5);
/// The longest pause between two such questions: a batch of minutes need not wait longer for its end to be noticed.
pub const BATCH_POLL_CEILING: Duration = Duration::from_secs(60);
/// Such questions in a row that may fail for a reason that may pass; what was handed over is paid for.
pub const BATCH_POLL_FAILURES: u32 = 3;
/// From the handing over of a batch until its requests are sent directly instead. The predecessor's figure.
pub const BATCH_TIME: Duration = Duration::from_secs(3_600);
/// The most that a config can make of it: vendors give up after so long.
pub const BATCH_TIME_CEILING: Duration = Duration::from_secs(24 * 3_600);
/// Requests of one batch. The predecessor's figure.
pub const BATCH_SIZE: usize = 100;
/// The most that a config can put into one: each may hold a whole conversation, and all are in memory at once.
pub const BATCH_SIZE_CEILING: usize = 1_000;
/// Time in which a batch that nobody waits for any more must be cancelled. The predecessor's figure.
pub const BATCH_CANCEL_TIME: Duration = Duration::from_secs(10);

// ---- rate limits that a config sets

/// The time that a rate limit is for: vendors count by the minute.
pub const RATE_LIMIT_WINDOW: Duration = Duration::from_secs(60);
/// What began within so much of one moment is kept as one: so few figures need be kept, and a place comes back so much later
/// at most.
pub const RATE_LIMIT_TICK: Duration = Duration::from_millis(100);
/// The most that a rate limit can name, and that one reply counts for: beyond what any vendor allows, and far from where sums
/// end.
pub const RATE_LIMIT_CEILING: u64 = 1_000_000_000_000;
/// Tokens that a reply is thought to have before there was one. A call of a tool has some hundred, an answer some more.
pub const RATE_LIMIT_FIRST_REPLY: u64 = 500;
/// Time that a request waits for its rate limit before somebody is told.
pub const RATE_LIMIT_TOLD: Duration = Duration::from_secs(5);
/// Time that it waits before it fails: with a thousand agents before it, a limit of twenty a minute is kept.
pub const RATE_LIMIT_WAIT: Duration = Duration::from_secs(3_600);

// ---- replies and requests of models, further

/// Bytes that each piece of a reply counts for beside its words: about what it takes to keep one. A server may send a letter
/// of text and a letter of a thought in turns.
pub const REPLY_PIECE_BYTES: usize = 64;
/// Bytes of the longest id of a call in Chat Completions: OpenAI refuses longer ones, and other servers give them.
pub const CHAT_CALL_ID_BYTES: usize = 40;

// ---- batches at vendors

/// Bytes of all requests of a batch: below what OpenAI (200 MB) and Anthropic (256 MB) take, for it is in memory twice.
pub const BATCH_BYTES: usize = 100 << 20;
/// Bytes of all requests of a batch that Gemini takes: 20 MB, with what stands around them.
pub const GEMINI_BATCH_BYTES: usize = 19_000_000;
/// Bytes of all results of a batch, for the most requests that it can have with some 64,000 tokens each. What comes after it
/// is not read.
pub const BATCH_RESULTS_BYTES: usize = 256 << 20;
/// Time in which a vendor must say how far a batch is: it is asked again anyway.
pub const BATCH_POLL_TIME: Duration = Duration::from_secs(120);
/// Time in which a file of a batch must be deleted: results wait for it, and what is left there the vendor deletes some day.
pub const BATCH_DELETE_TIME: Duration = Duration::from_secs(5);

// ---- what plugins read of a conversation's media

/// Bytes of one read of an attachment: as much as a message that is read may have.
pub const ATTACHMENT_READ_BYTES: usize = 1 << 20;

// ---- MCP servers that we are a client of

/// Bytes of the name that a config gives a server: it begins the names of its tools, which have 64.
pub const MCP_SERVER_NAME_BYTES: usize = 24;
/// Tools of one server. The largest known has some 150; so many fill most of a model's context.
pub const MCP_TOOLS: usize = 512;
/// How many of this program may start each other as MCP servers: one that serves the config that starts it would never end.
pub const MCP_NESTED: u32 = 3;
/// Bytes of a tool's name as its server has it, as many as the protocol recommends: those that are approved are kept with
/// what else is trusted of a project, and with longer ones there would be no room.
pub const MCP_TOOL_NAME_BYTES: usize = 128;
/// Pages of one list. A server that gives one tool a page has more, and no reason to.
pub const MCP_PAGES: usize = 64;
/// Bytes of the mark by which a server knows its next page.
pub const MCP_CURSOR_BYTES: usize = 4 << 10;
/// Time to start a server and shake hands: what `npx` starts it may have to download first.
pub const MCP_CONNECT_TIME: Duration = Duration::from_secs(60);
/// Time for all pages of a list.
pub const MCP_LIST_TIME: Duration = Duration::from_secs(30);
/// Bytes of one message of a server: the largest medium as base64, and what stands around it.
pub const MCP_MESSAGE_BYTES: usize = RESULT_BYTES;
/// Values in one message, lists and objects counted with what is in them: each takes some hundred bytes while the message is
/// read, though it may have only two.
pub const MCP_MESSAGE_VALUES: usize = 250_000;
/// Lists and objects within each other in one message: what the parser reads ends at 127. A server's list of tools is read
/// without what is deeper, any other answer is refused.
pub const MCP_MESSAGE_DEPTH: usize = 120;
/// Bytes of a message without end, or of blank lines before a message, that are skipped before its server is given up.
pub const MCP_SKIPPED_BYTES: usize = 4 * MCP_MESSAGE_BYTES;
/// Bytes at either end of a message that is too long in which its id is looked for.
pub const MCP_ID_BYTES: usize = 256;
/// Lines in a row that are no messages: some servers print their greetings and their log there.
pub const MCP_GARBAGE_LINES: u32 = 1_000;
/// Messages that nobody asked for, garbage among them, in one [`MCP_UNASKED_WINDOW`]. A thousand calls that each report their
/// progress ten times a second have as many.
pub const MCP_UNASKED_MESSAGES: u32 = 10_000;
/// See [`MCP_UNASKED_MESSAGES`].
pub const MCP_UNASKED_WINDOW: Duration = Duration::from_secs(1);
/// Requests of a server that are answered at once; further ones are not.
pub const MCP_SERVER_REQUESTS: usize = 64;
/// Time in which a server must take a message from its pipe.
pub const MCP_WRITE_TIME: Duration = Duration::from_secs(30);
/// Bytes between a server's pipe and whoever reads it.
pub const MCP_PIPE_BYTES: usize = 64 << 10;
/// Calls of one server that are under way at once; others wait.
pub const MCP_CALLS: usize = 1_024;
/// Calls given up whose server must still be told so.
pub const MCP_CANCELLATIONS: usize = 1_024;
/// How often a call that may be repeated is made again after its connection broke.
pub const MCP_CALL_REPEATS: u32 = 1;
/// Rounds in which a server may want to know more before it answers a call.
pub const MCP_ROUNDS: u32 = 10;
/// Time that a call has beyond its own for all that is not the server's: a place, the connection, saying that it failed.
pub const MCP_CALL_GRACE: Duration = Duration::from_secs(5);
/// Attempts in a row to reach a server again before it is given up, until somebody calls one of its tools.
pub const MCP_RECONNECTS: u32 = 8;
/// Time that a connection must have held for its end not to count as another failure in a row.
pub const MCP_STEADY_TIME: Duration = Duration::from_secs(60);
/// The pause before a list that has changed is asked for: a server that changes ten tools says so ten times.
pub const MCP_RELIST_PAUSE: Duration = Duration::from_millis(500);
/// Time that a server has to end in good manners once its pipe is closed.
pub const MCP_CLOSE_TIME: Duration = Duration::from_secs(2);
/// Lines of what a server wrote to its standard error that are kept to explain its end: the last ones.
pub const MCP_STDERR_LINES: usize = 10;
/// Bytes of one of them; the rest is cut.
pub const MCP_STDERR_LINE_BYTES: usize = 500;
/// Lines of one process's standard error that are written to the log; what comes after them is read and dropped.
pub const MCP_STDERR_LOGGED: u32 = LOG_ENTRIES;
/// Questions to the model or to a person that one call may make its server ask.
pub const MCP_ASKS_PER_CALL: u32 = 8;
/// Such questions of one server in a minute, whatever its calls.
pub const MCP_ASKS_PER_MINUTE: u32 = 60;
/// See [`MCP_ASKS_PER_MINUTE`].
pub const MCP_ASK_WINDOW: Duration = Duration::from_secs(60);
/// Bytes of one such question, pictures and all.
pub const MCP_ASK_BYTES: usize = 4 << 20;
/// The most characters of a result that a config can let a model be shown: with four bytes each, one whole message.
pub const MCP_OUTPUT_CHARS_CEILING: usize = RESULT_BYTES / 4;
/// Fields of one form that a server has a person fill in: each is a question.
pub const MCP_FORM_FIELDS: usize = 16;
/// Folders that a server is told of.
pub const MCP_ROOTS: usize = 256;
/// Requests to one server on the web that wait for the beginning of their answer at once.
pub const MCP_HTTP_REQUESTS: usize = 64;
/// Attempts in a row to take up a stream of such a server again.
pub const MCP_STREAM_RETRIES: usize = 8;
/// The longest that a stream of such a server is kept, and that it may be silent: most say nothing until something changes.
pub const MCP_STREAM_TIME: Duration = COMPLETION_TIME_CEILING;
/// Bytes of the name that such a server gives a session, and of the mark by which a stream is taken up again.
pub const MCP_SESSION_ID_BYTES: usize = 1 << 10;

// ---- the way out of plugins

/// Bytes of one URL: what servers commonly take.
pub const EGRESS_URL_BYTES: usize = 8 << 10;
/// Bytes that are shown of a URL, in messages and events.
pub const EGRESS_SHOWN_URL_BYTES: usize = 500;
/// Redirects that one request follows: browsers follow twenty, and who needs ten is being led in circles.
pub const EGRESS_HOPS: u32 = 10;
/// Headers of one request.
pub const EGRESS_REQUEST_HEADERS: usize = 64;
/// Bytes of all headers of one request, names and values: more than servers commonly take.
pub const EGRESS_REQUEST_HEADER_BYTES: usize = 64 << 10;
/// Bytes of one credential: beyond it servers refuse the header.
pub const EGRESS_CREDENTIAL_BYTES: usize = 8 << 10;
/// Bytes of a line of a response that are held back while a credential may come in them, whatever they are: no way of writing the
/// longest credential is longer. JSON in JSON takes seven bytes for one.
pub const EGRESS_HELD_BYTES: usize = 7 * EGRESS_CREDENTIAL_BYTES;
/// Sets of credentials of one way out for which a search is kept ready: one for each kind of server that it talks to.
pub const EGRESS_SEARCHES: usize = 64;
/// Headers of one response. Real ones have some thirty.
pub const EGRESS_RESPONSE_HEADERS: usize = 256;
/// Bytes of all headers of one response, names and values.
pub const EGRESS_RESPONSE_HEADER_BYTES: usize = 256 << 10;
/// Time in which the requests of a plugin are counted.
pub const EGRESS_RATE_WINDOW: Duration = Duration::from_secs(60);
/// Requests of one plugin of an agent in a minute, redirects counted, when the config names none.
pub const EGRESS_REQUESTS_PER_MINUTE: u32 = 600;
/// The most that a config can allow: a thousand a second.
pub const EGRESS_REQUESTS_PER_MINUTE_CEILING: u32 = 60_000;
/// Requests and open bodies of one plugin of an agent at once, when the config names none: one for each of its calls. A
/// model that every agent asks holds one open for as long as it speaks.
pub const EGRESS_CONCURRENCY: u32 = PLUGIN_CONCURRENCY;
/// The most that a config can allow.
pub const EGRESS_CONCURRENCY_CEILING: u32 = 256;
/// Requests and open bodies of all plugins together: each holds a socket, and a process commonly has 1,024 of them.
pub const EGRESS_CONCURRENCY_OF_ALL: usize = 512;
/// Bytes of the body of one request, when the config names none.
pub const EGRESS_REQUEST_BYTES: u64 = 16 << 20;
/// The most that a config can allow.
pub const EGRESS_REQUEST_BYTES_CEILING: u64 = 1 << 30;
/// Bytes of the body of one response, decoded, when the config names none.
pub const EGRESS_RESPONSE_BYTES: u64 = 64 << 20;
/// The most that a config can allow.
pub const EGRESS_RESPONSE_BYTES_CEILING: u64 = 4 << 30;
/// Bytes of a body that are handed on at once, in both directions: as much as is in memory of what waits for its reader.
pub const EGRESS_CHUNK_BYTES: usize = 64 << 10;
/// Bytes of a body that a server may send over HTTP/2 before they are read.
pub const EGRESS_WINDOW_BYTES: u32 = 256 << 10;
/// Bytes that one connection may deliver while no response and no piece of a body comes of them, such as interim responses (1xx)
/// and frames of HTTP/2 without content: the headers of a response, what is read ahead of its body and what the window of HTTP/2
/// lets a server send are less than half of it together.
pub const EGRESS_IDLE_BYTES: u64 = 2 << 20;
/// Bytes of framing that each piece of a body is allowed: the heads of a record of TLS and of a frame of HTTP/2 are 31.
pub const EGRESS_FRAME_BYTES: u64 = 64;
/// From the sending of a request to the end of its response, whatever the plugin asks for: no call lives so long.
pub const EGRESS_TIME: Duration = Duration::from_secs(3_600);
/// Names that are looked up at once for all plugins. Each takes a thread until it is answered, also if nobody waits any more.
pub const EGRESS_LOOKUPS: usize = 32;
/// Connections to one server that are kept for the next request, for each plugin of an agent.
pub const EGRESS_IDLE_CONNECTIONS: usize = 4;
/// Time that such a connection is kept.
pub const EGRESS_IDLE_TIME: Duration = Duration::from_secs(30);
/// Time after which a silent connection is probed, so that a network that has forgotten it is noticed.
pub const EGRESS_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Clients of one plugin of an agent, one for each set of addresses that its requests may reach; beyond it all are made anew.
/// One or two are usual.
pub const EGRESS_CLIENTS: usize = 16;

// ---- what a config says of the way out

/// Places in one list of HTTP requests, of a config, of a `plugin.toml` or of a credential: a person reads them.
pub const HTTP_ENTRIES: usize = 64;
/// Methods, and networks, of one such place.
pub const HTTP_ENTRY_WORDS: usize = 16;
/// Rules that one such list comes to with each method and each network by itself: each is compared with every other one, and
/// with those of every ceiling.
pub const HTTP_RULES: usize = 256;
/// Bytes of the word before a credential.
pub const AUTH_SCHEME_BYTES: usize = 64;

// ---- clients that we are an MCP server of

/// Calls of one client that run at once: as many as one reply of a model may make.
pub const MCP_SERVE_CALLS: usize = PARALLEL_TOOL_CALLS;
/// Calls of one client that wait for their turn; further ones are refused. A thousand at once are made.
pub const MCP_SERVE_CALLS_WAITING: usize = 1_024;
/// Calls of all clients that run at once: those over HTTP without a session are one client's each.
pub const MCP_SERVE_CALLS_OF_ALL: usize = 64;
/// Messages that a client over pipes has not taken; nothing more of it is read before it has.
pub const MCP_SERVE_UNREAD: usize = 64;
/// Notifications of the progress of one call, and lines of its log, in a second each; those beyond are left out.
pub const MCP_SERVE_TOLD_PER_SECOND: u32 = 20;
/// See [`MCP_SERVE_TOLD_PER_SECOND`].
pub const MCP_SERVE_TOLD_WINDOW: Duration = Duration::from_secs(1);
/// Characters of a line that says how far a call is.
pub const MCP_SERVE_TOLD_CHARS: usize = 200;
/// Time in which calls may end whose client has closed its pipe: one who pipes a few lines in reads what they come to.
pub const MCP_SERVE_CLOSE_TIME: Duration = CANCEL_GRACE;
/// Calls that wait for a person's answer between two requests of their client, as those of 2026-07-28 do.
pub const MCP_SERVE_PARKED: usize = 16;
/// Time that such a call waits.
pub const MCP_SERVE_PARK_TIME: Duration = Duration::from_secs(10 * 60);
/// Wall time of an agent that is called as a tool; its own budget bounds it sooner.
pub const MCP_SERVE_AGENT_TIME: Duration = QUESTION_TIME;
/// Resources in one page of a list.
pub const MCP_SERVE_PAGE: usize = 100;
/// Sessions, the newest ones, whose attachments are listed.
pub const MCP_SERVE_SESSIONS: usize = 100;
/// Bytes of an attachment that is handed over; a larger one is not listed: its base64 fits into a message that clients take.
pub const MCP_SERVE_RESOURCE_BYTES: usize = MEDIA_BYTES;
/// Bytes of the name of a resource, a prompt or a page: none of ours has more.
pub const MCP_SERVE_NAME_BYTES: usize = 1 << 10;
/// How often the folders of plugins and skills are looked at for what has changed.
pub const MCP_SERVE_LOOK: Duration = Duration::from_secs(1);
/// Time between two looks at changed files that are not served yet: a person may have said yes to them.
pub const MCP_SERVE_LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Bytes of one HTTP request's body: arguments, and the answer to a question beside them.
pub const MCP_SERVE_BODY_BYTES: usize = 4 * ARGUMENT_BYTES;
/// Time in which the head of an HTTP request must be there, and then its body.
pub const MCP_SERVE_REQUEST_TIME: Duration = Duration::from_secs(30);
/// Bytes of the head of an HTTP request.
pub const MCP_SERVE_HEAD_BYTES: usize = 64 << 10;
/// Connections over HTTP at once. For one more, the oldest that waits for a request is closed; while all are at work it waits.
pub const MCP_SERVE_CONNECTIONS: usize = 128;
/// Connections over HTTP that are kept for their next request; beyond them each ends with its answer, so that idle ones never
/// have all places.
pub const MCP_SERVE_CONNECTIONS_KEPT: usize = MCP_SERVE_CONNECTIONS * 3 / 4;
/// The pause after a connection could not be taken: too many files are open, and some will be closed.
pub const MCP_SERVE_ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Sessions over HTTP at once. For one more, the one without a running request that was used the longest time ago is ended; while
/// all are at work it is refused.
pub const MCP_SERVE_HTTP_SESSIONS: usize = 64;
/// Time without any message after which a session over HTTP ends.
pub const MCP_SERVE_IDLE_TIME: Duration = Duration::from_secs(30 * 60);
/// How often a stream without news says that it is still there.
pub const MCP_SERVE_KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Time after which a client takes up a stream again that broke off.
pub const MCP_SERVE_RETRY: Duration = Duration::from_secs(3);
/// Bytes of a bearer token that a person chooses, at least: fewer can be guessed.
pub const MCP_SERVE_TOKEN_BYTES: usize = 16;

// ---- OAuth of MCP clients

/// From the sending of one request of a login to the end of its answer.
pub const OAUTH_TIME: Duration = Duration::from_secs(30);
/// Requests that one login, or one renewal of a token, may take: whoever names twenty authorization servers names none.
pub const OAUTH_REQUESTS: u32 = 32;
/// Redirects that the registration of a client follows.
pub const OAUTH_HOPS: u32 = 4;
/// Bytes of an answer. The largest metadata known have some ten thousand.
pub const OAUTH_BODY_BYTES: usize = 256 << 10;
/// Bytes of what a server says it wants of who asks: as much as servers commonly take of a header.
pub const OAUTH_CHALLENGE_BYTES: usize = 8 << 10;
/// Bytes of a URL of a login.
pub const OAUTH_URL_BYTES: usize = 8 << 10;
/// Bytes of a token, a client's name or its secret: beyond it servers refuse the header.
pub const OAUTH_TOKEN_BYTES: usize = 16 << 10;
/// Rights that are asked for in one login.
pub const OAUTH_SCOPES: usize = 128;
/// Bytes of the name of one of them.
pub const OAUTH_SCOPE_BYTES: usize = 256;
/// Bytes of a file with what is known of one login.
pub const OAUTH_FILE_BYTES: u64 = 256 << 10;
/// Time in which whoever else renews tokens is done: all its requests would have to take that long.
pub const OAUTH_LOCK_TIME: Duration = Duration::from_secs(120);
/// A token is renewed this long before its end, or after half of its life if that is shorter: it must not end on its way.
pub const OAUTH_EARLY: Duration = Duration::from_secs(30);
/// Time in which a person logs in: some have to look for their telephone first.
pub const OAUTH_LOGIN_TIME: Duration = Duration::from_secs(600);
/// Bytes of the head of a request by which a browser comes back from a login.
pub const OAUTH_CALLBACK_BYTES: usize = 32 << 10;
/// Connections of browsers, and of whoever else is on this machine, that are open at once while a login is waited for.
pub const OAUTH_CALLBACK_CONNECTIONS: usize = 16;
/// Time in which one of them has to say what it wants.
pub const OAUTH_CALLBACK_TIME: Duration = Duration::from_secs(10);

// ---- programs that are run for agents

/// Programs that run at once for agents, their plugins and git together; others wait. Each has two or three pipes.
pub const PROCESSES: usize = 16;
/// How long one waits for its turn.
pub const PROCESS_PLACE_WAIT: Duration = Duration::from_secs(120);
/// Wall time of a program where nothing else is said: most builds and tests have come to their end.
pub const PROCESS_TIME: Duration = Duration::from_secs(120);
/// The longest that a program may take. What takes longer is no call any more.
pub const PROCESS_TIME_CEILING: Duration = PLUGIN_TIME_CEILING;
/// Bytes of a program's standard output that are kept, and of its standard error, as the contract says. The predecessor's
/// figure.
pub const PROCESS_OUTPUT_BYTES: usize = 1 << 20;
/// Bytes that are read of a pipe at once: as much as one holds.
pub const PROCESS_PART_BYTES: usize = 64 << 10;
/// The first pause between two looks at whether a program has ended; it doubles up to [`PROCESS_PAUSE`].
pub const PROCESS_FIRST_PAUSE: Duration = Duration::from_millis(1);
/// Time in which what a program has said comes out of its pipes once it has ended.
pub const PROCESS_GRACE: Duration = Duration::from_millis(500);
/// How often it is looked whether something is left of what a program has started: who starts others faster than they are
/// ended is not caught up with.
pub const PROCESS_LOOKS: u32 = 16;
/// Programs that a config can name.
pub const PROGRAMS: usize = 256;
/// Lists of words that one of them can have for its arguments, and variables that it can be given.
pub const PROGRAM_LISTS: usize = 64;
/// Words of one such list.
pub const PROGRAM_WORDS: usize = 64;
/// Bytes of the name of a program in a config: it stands in schemas and questions.
pub const PROGRAM_NAME_BYTES: usize = 64;
/// Characters of what a program is told on its standard input that a person is shown who is asked about it.
pub const PROGRAM_STDIN_SHOWN_CHARS: usize = 1_000;
/// Characters of a command that a person is asked about, with its arguments: all of it is shown, so none is longer.
pub const COMMAND_SHOWN_CHARS: usize = 2_400;
/// Wall time of one command of git. Nothing that it does here reaches the network.
pub const GIT_TIME: Duration = Duration::from_secs(60);
/// Commits that one `git_log` shows. More than a model can read.
pub const GIT_COMMITS: u32 = 1_000;
/// Files and folders that one command of git is given.
pub const GIT_PATHS: usize = 256;
/// Bytes of the name of a branch or a revision, the path in it too.
pub const GIT_NAME_BYTES: usize = 512;
/// Bytes of a file by which git goes from a folder to its repository or back: a word and a path.
pub const GIT_LINK_BYTES: u64 = 8 << 10;
/// Characters of the list of files that a person is shown who is asked about a commit.
pub const GIT_LIST_SHOWN_CHARS: usize = 1_200;
/// Runs in which a person lets the repository be read that are remembered; beyond it all are asked again.
pub const GIT_RUNS: usize = 1_024;
