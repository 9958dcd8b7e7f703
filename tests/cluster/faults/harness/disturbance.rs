//! The faults of a trial.

/// A fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Disturbance {
    /// `kill -9` of a worker, which begins again a moment later.
    KilledWorker,
    /// SIGTERM to a worker, which gives its runs back.
    DrainedWorker,
    /// A worker whose process stands still for longer than the lease.
    StoppedWorker,
    /// A worker that no server hears, and that hears none.
    SilentLink,
    /// A worker whose messages, and those to it, come late.
    LateLink,
    /// A worker whose connections end.
    CutLink,
    /// A worker each of whose messages reaches the server twice.
    DoubledLink,
    /// `kill -9` of a server, which begins again a moment later.
    KilledServer,
    /// A server whose process stands still.
    StoppedServer,
    /// A server without room on its disk.
    FullServer,
}

impl Disturbance {
    /// All faults.
    pub const ALL: [Self; 10] = [
        Self::KilledWorker,
        Self::DrainedWorker,
        Self::StoppedWorker,
        Self::SilentLink,
        Self::LateLink,
        Self::CutLink,
        Self::DoubledLink,
        Self::KilledServer,
        Self::StoppedServer,
        Self::FullServer,
    ];

    /// Returns the words for this fault.
    pub fn words(self) -> &'static str {
        match self {
            Self::KilledWorker => "worker killed",
            Self::DrainedWorker => "worker told to stop",
            Self::StoppedWorker => "worker stopped for longer than the lease",
            Self::SilentLink => "worker cut off without notice",
            Self::LateLink => "messages of a worker late",
            Self::CutLink => "connections of a worker cut",
            Self::DoubledLink => "messages of a worker doubled",
            Self::KilledServer => "server killed",
            Self::StoppedServer => "server stopped",
            Self::FullServer => "disk of a server full",
        }
    }

    /// Returns `true` if a worker may live on that is no longer heard: it may ask the model once more before the server
    /// refuses its next record.
    pub fn leaves_a_worker_alone(self) -> bool {
        !matches!(self, Self::KilledWorker | Self::DrainedWorker)
    }

    /// Returns the faults of a trial with so many servers: where one of several is full, the others take its place.
    pub fn of_servers(servers: usize) -> Vec<Self> {
        Self::ALL.into_iter().filter(|fault| servers == 1 || *fault != Self::FullServer).collect()
    }
}
