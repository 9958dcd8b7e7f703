//! Limits of sessions and runs on a NATS server.

use std::time::Duration;

/// The maximum bytes of one message: longer batches and lines are split. In the reply to a reader, which is base64, a
/// message stays below the 1 MiB that a NATS server allows by default.
pub const CLUSTER_MESSAGE_BYTES: usize = 512 << 10;
/// The maximum number of messages that a reader is given at once: most are as small as one event or record.
pub const CLUSTER_READ_MESSAGES: usize = 256;
/// The maximum bytes of the messages that a reader is given at once: a few of the longest.
pub const CLUSTER_READ_BYTES: usize = 4 << 20;
/// The maximum bytes of a namespace: it becomes a part of the names of streams, which servers limit to 255.
pub const CLUSTER_NAMESPACE_BYTES: usize = 32;
/// The maximum bytes of the entry that describes a session; a larger one is not read. It holds the header.
pub const CLUSTER_ENTRY_BYTES: usize = 512 << 10;
/// The time after which a lease ends that its holder has not refreshed: a host that died gives up its sessions after it.
pub const CLUSTER_LEASE: Duration = Duration::from_secs(30);
/// The shortest lease that a config can set: it is refreshed several times before it ends, also by a host that is busy.
pub const CLUSTER_LEASE_LEAST: Duration = Duration::from_secs(2);
/// The longest lease that a config can set: the runs of a host that died wait so long.
pub const CLUSTER_LEASE_CEILING: Duration = Duration::from_secs(300);
/// The fraction (one in this number) of the lease after which it is refreshed: two refreshes may fail.
pub const CLUSTER_LEASE_REFRESHES: u32 = 3;
/// The maximum wait for a connection to a server.
pub const CLUSTER_CONNECT: Duration = Duration::from_secs(5);
/// The maximum wait for one reply of a server.
pub const CLUSTER_CALL: Duration = Duration::from_secs(5);
/// The time for which a call is repeated while the server does not answer: a server that restarts is back within it.
pub const CLUSTER_RETRY: Duration = Duration::from_secs(60);
/// The pause before a call is repeated.
pub const CLUSTER_RETRY_PAUSE: Duration = Duration::from_millis(200);
/// The maximum number of servers that keep each message: what a NATS server accepts.
pub const CLUSTER_REPLICAS: usize = 5;
/// The maximum characters of a server's reason in an error message.
pub const CLUSTER_REASON_CHARS: usize = 500;
/// The maximum bytes of a run's id, and of a worker's: they become parts of subjects.
pub const CLUSTER_RUN_ID_BYTES: usize = 64;
/// The maximum bytes of a label: four of them with a priority are the name of a consumer.
pub const CLUSTER_LABEL_BYTES: usize = 24;
/// The maximum number of labels that a run asks for: each set of labels is a queue of its own.
pub const CLUSTER_RUN_LABELS: usize = 4;
/// The maximum number of labels of a worker.
pub const CLUSTER_WORKER_LABELS: usize = 16;
/// The maximum bytes of a run's spec in JSON: a long task with a schema. Files go to the object store.
pub const CLUSTER_SPEC_BYTES: usize = 192 << 10;
/// The maximum bytes of each name in a run's spec: of a session, an agent, a model, a file, a person.
pub const CLUSTER_SPEC_NAME_BYTES: usize = 256;
/// The maximum number of files that go with a task.
pub const CLUSTER_SPEC_FILES: usize = 64;
/// The maximum bytes of the entry of a run; a larger one is not read. A spec, an answer and a value with JSON's escapes fit.
pub const CLUSTER_RUN_BYTES: usize = 512 << 10;
/// The maximum bytes of an answer in JSON that the entry of a run keeps: the session has all of it.
pub const CLUSTER_ANSWER_BYTES: usize = 128 << 10;
/// The maximum bytes of the JSON of a value, and of a failure, that the entry of a run keeps.
pub const CLUSTER_VALUE_BYTES: usize = 64 << 10;
/// The maximum number of remarks of workers that the entry of a run keeps.
pub const CLUSTER_RUN_WARNINGS: usize = 16;
/// The number of workers that may die with a run; then it ends: the run itself may be the reason.
pub const CLUSTER_RUN_DEATHS: u32 = 3;
/// The maximum number of runs of a namespace that wait or are at work; the queue refuses more.
pub const CLUSTER_QUEUED_RUNS: usize = 100_000;
/// The maximum number of queues of a namespace, of which each has a priority and a set of labels.
pub const CLUSTER_QUEUES: usize = 256;
/// The maximum number of runs that a list has: the newest.
pub const CLUSTER_RUNS_LISTED: usize = 10_000;
/// The maximum number of runs that a message about entries that cannot be read names; all are counted.
pub const CLUSTER_UNREADABLE_NAMED: usize = 10;
/// The maximum bytes of the entries that a list holds in memory: the newest.
pub const CLUSTER_LIST_BYTES: usize = 64 << 20;
/// The usual pause of a worker between two looks at the queues, half as long or half longer by chance: a new run wakes it, one
/// that was given back later does not.
pub const CLUSTER_TAKE_POLL: Duration = Duration::from_secs(1);
/// One in this number of looks begins with the lowest priority, so that it never waits forever.
pub const CLUSTER_TAKE_TURNS: u64 = 8;
/// The maximum number of runs in a row that a worker passes over in one queue.
pub const CLUSTER_TAKE_SKIPPED: usize = 16;
/// The fraction (one in this number) of the lease for which a worker waits before it takes a run whose worker is silent: the
/// server may have been away, and the worker be back in a moment.
pub const CLUSTER_TAKEOVER_WAITS: u32 = 10;
/// The maximum number of leases of others for which a host notes since when they were not renewed.
pub const CLUSTER_LEASES_WATCHED: usize = 10_000;
/// The maximum number of offered runs at which a worker looks in a row, to see whether the server has forgotten one.
pub const CLUSTER_OFFERS_WATCHED: usize = 256;
/// The maximum number of offered runs for which a worker notes since when nobody has had them.
pub const CLUSTER_UNHELD_RUNS: usize = 10_000;
/// The delay after which a run is offered again that does not fit into the limits of the namespace now.
pub const CLUSTER_LIMIT_DELAY: Duration = Duration::from_secs(5);
/// The delay after which a run is offered again whose entry a worker cannot read, such as one of a later version.
pub const CLUSTER_UNREADABLE_DELAY: Duration = Duration::from_secs(60);
/// The delay after which a run is offered again that has no entry: a server that lags behind may have one.
pub const CLUSTER_MISSING_DELAY: Duration = Duration::from_secs(2);
/// The number of offers after which a run without an entry is one that was removed.
pub const CLUSTER_MISSING_OFFERS: i64 = 4;
/// The time after the first refusal by a worker at which a run ends that no other worker has accepted.
pub const CLUSTER_DECLINE: Duration = Duration::from_secs(300);
/// The number of offers of a run within that time if workers decline it: 10 s between two of them, less at first, let others
/// take it.
pub const CLUSTER_DECLINE_OFFERS: u32 = 30;
/// The time between two looks for runs whose submitter died before it had queued them, and for reservations of runs that
/// have ended.
pub const CLUSTER_REPAIR: Duration = Duration::from_secs(15);
/// The maximum number of attempts to change a value that others change at the same time.
pub const CLUSTER_CHANGE_TRIES: usize = 64;
/// The maximum number of runs at once in a namespace with limits: all their reservations are in one message.
pub const CLUSTER_RESERVATIONS: usize = 1_500;
/// The maximum number of reservations at which a worker looks in a row, to see whether their runs have ended.
pub const CLUSTER_RESERVATIONS_CHECKED: usize = 64;
/// The maximum bytes of the reservations of a namespace; a larger value is not read.
pub const CLUSTER_RESERVATION_BYTES: usize = 512 << 10;
/// The maximum bytes of one object: a config with its plugins, or an input file.
pub const CLUSTER_OBJECT_BYTES: u64 = 64 << 20;
/// The bytes of a part of an object: what one message takes with room to spare.
pub const CLUSTER_OBJECT_PART: usize = 128 << 10;
/// The maximum number of workers that a list has.
pub const CLUSTER_WORKERS: usize = 1_024;
/// The maximum bytes of the entry of a worker; a larger one is not read.
pub const CLUSTER_WORKER_BYTES: usize = 64 << 10;
/// The maximum number of ids of runs in the entry of a worker.
pub const CLUSTER_WORKER_RUNS: usize = 512;
/// The maximum bytes of a command to a run.
pub const CLUSTER_COMMAND_BYTES: usize = 256 << 10;
/// The maximum bytes of the reply to a command.
pub const CLUSTER_REPLY_BYTES: usize = 512 << 10;
/// The maximum number of commands of one run that are answered at once; more of them wait.
pub const CLUSTER_COMMANDS_AT_ONCE: usize = 16;
/// The maximum bytes of a live event: a longer one is not sent, the session has it.
pub const CLUSTER_EVENT_LINE_BYTES: usize = 256 << 10;
/// The maximum bytes of the live events that a watcher has received and not read: anybody in the namespace can send faster
/// than a terminal prints. Further ones are left out, the session has them.
pub const CLUSTER_FOLLOWED_BYTES: usize = 16 << 20;
/// The maximum number of live events that a watcher has received and not read: their bytes at 256 each.
pub const CLUSTER_FOLLOWED_EVENTS: usize = CLUSTER_FOLLOWED_BYTES / 256;
/// The time after which a watcher of a run looks at its entry although no change was announced.
pub const CLUSTER_WATCH_CHECK: Duration = Duration::from_secs(10);
/// The maximum number of keys for content that a host reads: one that encrypts, and those of earlier rotations.
pub const CLUSTER_KEYS: usize = 8;
/// The maximum bytes of the file of a key for content, which has 64 digits.
pub const CLUSTER_KEY_FILE_BYTES: u64 = 256;
/// The maximum number of commands that the worker of a run does: it remembers each, so as to do none twice.
pub const CLUSTER_COMMANDS_SEEN: usize = 10_000;
/// The time for which an object stays that no run names: somebody may be submitting one.
pub const CLUSTER_OBJECT_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The maximum number of objects that are looked at to remove those that are not used.
pub const CLUSTER_OBJECTS_LISTED: usize = 100_000;
