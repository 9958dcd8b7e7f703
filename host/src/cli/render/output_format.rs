use clap::ValueEnum;

/// The format of standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum RunOutputFormat {
    /// The answer.
    Text,
    /// One JSON object with the answer, or with the error.
    Json,
    /// One JSON object per line: each event, and the result at the end.
    Events,
}
