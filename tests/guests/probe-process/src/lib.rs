//! A guest for tests: has a program run, and says what came of it.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, process};

shelly_plugin::export!(tools: [Run]);

#[derive(Deserialize, JsonSchema)]
struct RunArgs {
    /// The program.
    program: String,
    /// Its arguments.
    #[serde(default)]
    args: Vec<String>,
    /// What it reads.
    #[serde(default)]
    stdin: String,
    /// Its time in milliseconds.
    timeout_ms: Option<u32>,
}

struct Run;

impl Tool for Run {
    const NAME: &'static str = "run_program";
    const DESCRIPTION: &'static str = "Has a program run.";
    type Args = RunArgs;

    fn call(args: RunArgs, _: &Call) -> Result<Reply, Error> {
        let RunArgs { program, args, stdin, timeout_ms } = args;
        let output = process::run(&process::Command { program, args, stdin: stdin.into_bytes(), timeout_ms })?;
        let text = |bytes: &[u8]| match bytes.len() {
            0..=1_000 => String::from_utf8_lossy(bytes).into_owned(),
            bytes => format!("{bytes} bytes"),
        };
        let (stdout, stderr) = (text(&output.stdout), text(&output.stderr));
        Ok(format!("status {:?}, cut {}\n{stdout}{stderr}", output.status, output.cut).into())
    }
}
