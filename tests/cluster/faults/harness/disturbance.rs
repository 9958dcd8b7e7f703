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
    /// A client that no server hears, and that hears none.
    SilentLink,
    /// A client whose messages, and those to it, come late.
    LateLink,
    /// A client whose connections end.
    CutLink,
    /// A client each of whose messages reaches the server twice.
    DoubledLink,
    /// `kill -9` of a server, which begins again a moment later.
    KilledServer,
    /// A server whose process stands still.
    StoppedServer,
    /// A server that may store no more.
    FullServer,
    /// A server without room on its disk, which begins again when there is room.
    FullDisk,
    /// A client whose messages come seconds after those that it sends by its next connection.
    OvertakenLink,
    /// The wall clock of a worker jumps forwards or backwards by hours.
    WorkerClock,
    /// The wall clocks of all servers jump forwards or backwards by hours, and stay so.
    ServerClock,
}

impl Disturbance {
    /// All faults.
    pub const ALL: [Self; 14] = [
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
        Self::FullDisk,
        Self::OvertakenLink,
        Self::WorkerClock,
        Self::ServerClock,
    ];

    /// Returns the words for this fault.
    pub fn words(self) -> &'static str {
        match self {
            Self::KilledWorker => "worker killed",
            Self::DrainedWorker => "worker told to stop",
            Self::StoppedWorker => "worker stopped for longer than the lease",
            Self::SilentLink => "client cut off without notice",
            Self::LateLink => "messages of a client late",
            Self::CutLink => "connections of a client cut",
            Self::DoubledLink => "messages of a client doubled",
            Self::KilledServer => "server killed",
            Self::StoppedServer => "server stopped",
            Self::FullServer => "store of a server at its bound",
            Self::FullDisk => "disk of a server full",
            Self::OvertakenLink => "messages of a client overtaken by later ones",
            Self::WorkerClock => "clock of a worker jumped",
            Self::ServerClock => "clocks of the servers jumped",
        }
    }

    /// Returns `true` if a worker may live on that is no longer heard: it may ask the model once more before the server
    /// refuses its next record.
    pub fn leaves_a_worker_alone(self) -> bool {
        !matches!(self, Self::KilledWorker | Self::DrainedWorker)
    }
}
