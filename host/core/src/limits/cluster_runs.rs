//! Limits of the program that submits runs to a cluster and works on them.

use std::time::Duration;

/// The number of runs that a worker has at work by default: most wait for their model.
pub const CLUSTER_WORKER_JOBS: usize = 4;
/// The maximum number of runs that a worker has at work: each holds a session and its events in memory.
pub const CLUSTER_WORKER_JOBS_CEILING: usize = 256;
/// The maximum number of namespaces of one worker: each has a connection, an app and a model client of its own.
pub const CLUSTER_WORKER_NAMESPACES: usize = 16;
/// The time for which a namespace keeps a free place of a worker while its server is asked for a run, or half of a lease if
/// that is longer: a run that comes later is given back, and the other namespaces get the place. As long again, if the worker
/// of that run seems to have died.
pub const CLUSTER_TAKE_TIME: Duration = Duration::from_secs(15);
/// The longest pause of a worker between two attempts at a namespace that fails, while it does runs of the others.
pub const CLUSTER_NAMESPACE_PAUSE: Duration = Duration::from_secs(30);
/// The pause of a worker after a request for a run that failed: the server may be away.
pub const CLUSTER_TAKE_PAUSE: Duration = Duration::from_secs(1);
/// The pause before a worker tries again to open a session that another process has.
pub const CLUSTER_SESSION_PAUSE: Duration = Duration::from_millis(500);
/// The time for which a worker waits for a session that another process has: the lease of one that died ends within it.
pub const CLUSTER_SESSION_WAIT: Duration = Duration::from_secs(60);
/// The maximum bytes of the list of a config bundle, whose config is at most 1 MiB; as JSON it may be twice that.
pub const CLUSTER_BUNDLE_BYTES: u64 = 4 << 20;
/// The maximum number of plugins of a config bundle.
pub const CLUSTER_BUNDLE_PLUGINS: usize = 64;
/// The maximum bytes of all plugins of a config bundle: twenty-five of the largest known. A worker has them on its disk
/// before it knows whether it accepts them.
pub const CLUSTER_BUNDLE_PLUGIN_BYTES: u64 = 512 << 20;
/// The maximum number of texts of all agent packages of a config bundle, each of at most 1 MiB: one object can be many of
/// them.
pub const CLUSTER_BUNDLE_TEXTS: usize = 512;
/// The maximum number of config bundles that a worker has loaded; the oldest one is unloaded when its runs have ended.
pub const CLUSTER_BUNDLES_LOADED: usize = 8;
/// The maximum number of config bundles in the cache folder of a host; the oldest one is removed.
pub const CLUSTER_BUNDLES_KEPT: usize = 64;
/// The maximum number of runs that one command submits: each is an entry on the server.
pub const CLUSTER_SUBMITTED_RUNS: usize = 10_000;
/// The number of runs that a command lists by default.
pub const CLUSTER_RUNS_SHOWN: usize = 50;
/// The time for which the entry of a run that has ended is kept: whoever waits for it has long read it, and its session stays.
pub const CLUSTER_ENDED_KEPT: Duration = Duration::from_secs(7 * 24 * 3_600);
/// The pause between two looks of a worker for entries that are no longer kept.
pub const CLUSTER_CLEANUP: Duration = Duration::from_secs(3_600);
