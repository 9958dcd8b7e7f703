//! Limits of plugin calls, and the defaults and ceilings of those that a config can set.

use std::time::Duration;

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

// ---- recorded nondeterministic inputs of a plugin call

/// The maximum number of recorded clock readings of one call; later ones are omitted and the record is marked as cut.
pub const GIVEN_CLOCK_READINGS: usize = 1_024;
/// The maximum number of recorded random bytes of one call; later ones are omitted and the record is marked as cut. Equal to
/// one maximum [`RANDOM_BYTES`](super::RANDOM_BYTES).
pub const GIVEN_RANDOM_BYTES: usize = 64 << 10;

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
/// The default bytes of all log entries of one call, each cut to [`LOG_ENTRY_BYTES`](super::LOG_ENTRY_BYTES); later ones
/// are dropped and counted.
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
pub const PLUGIN_PERMIT_WAIT: Duration = Duration::from_secs(120);
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
/// offered at most [`TOOLS_PER_PLUGIN`](super::TOOLS_PER_PLUGIN) of them.
pub const EXPORTED_FUNCTIONS: usize = 1_024;
/// The maximum nesting depth of the types of a function's parameters and results. Its schema is several times as deep, and
/// [`TOOL_SCHEMA_DEPTH`](super::TOOL_SCHEMA_DEPTH) applies first.
pub const VALUE_DEPTH: usize = 16;
/// The maximum number of types and case names of one function, each counted at every occurrence: types that contain others
/// twice grow exponentially in a few lines.
pub const VALUE_TYPES: usize = 1_000;
/// The maximum number of tasks, threads, waitable sets and ends of streams that one instance of a component with the async
/// ABI holds at once: they lie in the host's memory. The engine's default is a million.
pub const ASYNC_TABLE_ENTRIES: usize = 10_000;
/// The maximum number of elements that the streams and futures of one result carry together; the rest of a stream is not read.
/// A stream may have no end, and each element takes some dozens of bytes in the host.
pub const STREAM_ELEMENTS: usize = 65_536;
/// The maximum bytes of texts that the streams and futures of one result carry together; the text that goes beyond it is the
/// last, and a call fails if a future has another one.
pub const STREAM_TEXT_BYTES: usize = 1 << 20;
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
