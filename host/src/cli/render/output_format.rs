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

/// The output format of commands without a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CliOutputFormat {
    /// For people.
    Text,
    /// One JSON value.
    Json,
}

/// The output format of commands that run tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TestOutputFormat {
    /// For people.
    Text,
    /// One JSON value.
    Json,
    /// JUnit XML, for CI servers.
    Junit,
}

impl From<TestOutputFormat> for RunOutputFormat {
    fn from(format: TestOutputFormat) -> Self {
        CliOutputFormat::from(format).into()
    }
}

impl From<TestOutputFormat> for CliOutputFormat {
    fn from(format: TestOutputFormat) -> Self {
        match format {
            TestOutputFormat::Text | TestOutputFormat::Junit => Self::Text,
            TestOutputFormat::Json => Self::Json,
        }
    }
}

impl From<CliOutputFormat> for RunOutputFormat {
    fn from(format: CliOutputFormat) -> Self {
        match format {
            CliOutputFormat::Text => Self::Text,
            CliOutputFormat::Json => Self::Json,
        }
    }
}
