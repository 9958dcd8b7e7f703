//! Limits of the conformance suite.

use std::time::Duration;

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
