//! Limits of triggers, which start runs by themselves.

use std::time::Duration;

/// The maximum number of triggers of a config. Each costs a task of the server, and some a look at folders each second.
pub const TRIGGERS: usize = 64;
/// The largest number of runs of one trigger at once that a config can set.
pub const TRIGGER_PARALLEL_CEILING: u64 = 8;
/// The maximum bytes of the task of a trigger, as it stands in the config.
pub const TRIGGER_TASK_BYTES: usize = 64 << 10;
/// The maximum number of values that a task takes from a firing. With [`TRIGGER_VALUE_CHARS`] each, the task stays below
/// what a run takes.
pub const TRIGGER_VALUES: usize = 64;
/// The maximum characters of a value from outside in a task; the rest is cut.
pub const TRIGGER_VALUE_CHARS: usize = 2_000;

// ---- times

/// The interval at which a waiting trigger looks at the clock, which may be set, or stand still while the machine sleeps.
pub const TRIGGER_CLOCK_LOOK: Duration = Duration::from_secs(30);
/// The delay after which a time counts as missed: more than a look at the clock, less than two minutes of cron.
pub const TRIGGER_LATE: Duration = Duration::from_secs(90);
/// The maximum bytes of the file in which the last firings are kept. A name and a time have 100.
pub const TRIGGER_MEMORY_BYTES: u64 = 16 << 10;
/// The longest time that a firing waits because the server has as many runs at work as it may have. One of each trigger
/// waits. After an hour its task is about a time that is long past.
pub const TRIGGER_ROOM_TIME: Duration = Duration::from_secs(3_600);

// ---- webhooks

/// The maximum bytes of the body of a webhook. Most have some kilobytes.
pub const TRIGGER_BODY_BYTES: usize = 1 << 20;
/// The bytes up to which the body of a webhook is read at once with any number of others: all connections of a server hold
/// 80 MiB of them at most.
pub const TRIGGER_SMALL_BODY_BYTES: u64 = 64 << 10;
/// The number of larger bodies of webhooks that are read at once; a further one is refused. Anybody can send one.
pub const TRIGGER_BODIES: usize = 8;
/// The largest difference between the time that a webhook was signed at and the time of this machine, as the Standard
/// Webhooks specification advises.
pub const TRIGGER_TOLERANCE: Duration = Duration::from_secs(5 * 60);
/// The number of signatures of one webhook that are tried: one for each secret while secrets change.
pub const TRIGGER_SIGNATURES: usize = 8;
/// The number of deliveries of a trigger that are remembered, the newest ones: all of them are in memory, and are written
/// anew with each. A sender repeats one within hours. Somebody who has seen one can start a run with it again after as
/// many others, unless a time is signed too: then it must be within [`TRIGGER_TOLERANCE`].
pub const TRIGGER_DELIVERIES: usize = 1_024;
/// The time for which a delivery of a trigger is remembered. Secrets should be changed as often.
pub const TRIGGER_DELIVERY_TIME: Duration = Duration::from_secs(90 * 24 * 3_600);
/// The maximum bytes of the file in which the deliveries of a trigger are kept. One has at most 250.
pub const TRIGGER_DELIVERY_FILE_BYTES: u64 = 512 << 10;

// ---- files

/// The interval at which the files of a trigger are looked at.
pub const TRIGGER_FILE_LOOK: Duration = Duration::from_secs(1);
/// The maximum number of files and folders that one trigger looks at.
pub const TRIGGER_FILES: usize = 10_000;
/// The maximum number of patterns of one trigger.
pub const TRIGGER_PATHS: usize = 32;
/// The maximum number of names in a pattern.
pub const TRIGGER_PATH_NAMES: usize = 32;
/// The time for which files must stay the same before a trigger fires, unless the config sets it: editors and builds write
/// several files.
pub const TRIGGER_SETTLE: Duration = Duration::from_secs(2);
/// The longest such time in seconds that a config can set.
pub const TRIGGER_SETTLE_SECONDS_CEILING: u64 = 600;
/// The number of changed files that a task names, the first by name.
pub const TRIGGER_FILES_NAMED: usize = 50;
