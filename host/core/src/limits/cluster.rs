//! Limits of sessions on a NATS server.

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
