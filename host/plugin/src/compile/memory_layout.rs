/// The layout of linear memories in the engine that is to run the code, on which the code depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLayout {
    /// Memories are allocated in a pool.
    Pooled,
    /// Each memory is allocated by itself.
    OnDemand,
}
