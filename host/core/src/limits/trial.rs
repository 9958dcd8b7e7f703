//! Limits of trying a plugin outside of any agent.

/// The maximum bytes of the input of one step or request that a person has written: a conversation with some small media.
pub const TRIAL_INPUT_BYTES: usize = 4 << 20;
/// The maximum number of pieces of a streamed reply that are listed after it; later ones are counted. Nobody reads more, and
/// each takes memory beside its text.
pub const TRIAL_CHUNKS: usize = 10_000;
