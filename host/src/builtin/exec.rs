use std::{borrow::Cow, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;

use super::confirmed_tool::declined;
use crate::{
    approval::{ApprovalBroker, PermissionSubject, Verdict},
    chat::{ToolHints, ToolResultContent},
    error::{Fault, count, cut, seconds},
    limits,
    process::{AllowedPrograms, ExecContext, ProcessExit, ProcessOutput, ProcessSpec, ProgramRequest, shown_words},
    tool::{self, ToolBox, ToolConcurrency, ToolCx, ToolOutput},
};

/// The policy for programs that an agent may run.
#[derive(Debug, Clone)]
pub enum ExecPolicy {
    /// Any program, if a person approves the run.
    Asked(ExecContext),
    /// The programs and arguments that a config allows; the config is the approval.
    Named(AllowedPrograms),
}

/// The arguments. Vendors that insist on every key send null for what is left out.
#[derive(Deserialize, JsonSchema)]
struct ExecArgs {
    /// The program's name or path.
    command: String,
    /// The arguments, one string each. There is no shell: quotes, `|`, `>`, `*` and `$` are passed unchanged.
    args: Option<Vec<String>>,
    /// The working folder, relative to the program's default folder.
    cwd: Option<String>,
    /// The program's standard input.
    stdin: Option<String>,
    /// The time limit in seconds.
    timeout: Option<u64>,
}

/// Creates the tool `exec_run`: an agent runs a program and reads its output.
pub fn exec_tools(broker: ApprovalBroker, runs: ExecPolicy) -> ToolBox {
    let run = {
        let runs = runs.clone();
        move |cx: ToolCx, args: ExecArgs| {
            let (broker, runs) = (broker.clone(), runs.clone());
            async move {
                let (command, wish) = args.read();
                let (job, ground) = match &runs {
                    ExecPolicy::Named(programs) => (programs.job(&command, wish)?, programs.ground()),
                    ExecPolicy::Asked(ground) => {
                        let job = ground.job(&command, wish)?;
                        let subject = PermissionSubject::Program { name: trusted_name(&command, &job, ground) };
                        let ruling = broker.permit(&cx.run, subject, &asked(&command, &job)?).await?;
                        if ruling.verdict == Verdict::No {
                            return Err(declined(EXEC_RUN, ruling.by));
                        }
                        (job, ground)
                    }
                };
                cx.begin_now().await?;
                let time = job.time;
                Ok(tool_output(ground.run(job).await?, time))
            }
        }
    };
    let most = limits::QUESTION_TIME + limits::PROCESS_PERMIT_WAIT + limits::PROCESS_TIME_CEILING + limits::TOOL_TIME;
    let tool = tool::function(EXEC_RUN, &description(&runs), run)
        .with_hints(ToolHints::default())
        .with_concurrency(ToolConcurrency::Anything { changes: true })
        .with_time_limit(most)
        .beginning_itself();
    ToolBox::new().with(tool)
}

const EXEC_RUN: &str = "exec_run";

fn description(runs: &ExecPolicy) -> String {
    let (time, most) = (limits::PROCESS_TIME.as_secs(), limits::PROCESS_TIME_CEILING.as_secs());
    let what = "Runs a program in the project's folder, waits for it to exit, and returns its output; an exit status other \
                than 0 is an error. There is no shell and no terminal. Processes that it leaves running are killed.";
    match runs {
        ExecPolicy::Asked(_) => format!(
            "{what} Name the program by its name, or by its path in the project. The person is shown the command and may decline \
             it. The time limit is {time} seconds; set `timeout` for up to {most}."
        ),
        ExecPolicy::Named(programs) => {
            let named = programs.iter().map(|(name, entry)| {
                let args: Vec<_> = entry.args.iter().map(ToString::to_string).collect();
                let args = if args.is_empty() { "[]".into() } else { args.join(" or ") };
                format!("`{name}` with {args}, at most {} seconds", entry.time.as_secs_f32())
            });
            let named: Vec<_> = named.collect();
            let named = cut(&named.join("; "), limits::TOOL_DESCRIPTION_BYTES / 8);
            format!(
                "{what} Available programs: {named}. In the argument lists `*` in a word stands for any characters (but not \
                 for an option at the beginning), `?` for one character, and `**` for any further arguments."
            )
        }
    }
}

impl ExecArgs {
    fn read(self) -> (String, ProgramRequest) {
        let Self { command, args, cwd, stdin, timeout } = self;
        let stdin = stdin.unwrap_or_default().into_bytes();
        (
            command,
            ProgramRequest {
                args: args.unwrap_or_default(),
                folder: cwd,
                stdin,
                time: timeout.map(Duration::from_secs),
            },
        )
    }
}

/// Returns the name under which a program can be trusted: a plain name stands for the program in the folders of `PATH`, but
/// not for a file in the project, which anyone may have put there.
fn trusted_name(command: &str, job: &ProcessSpec, ground: &ExecContext) -> String {
    let path = job.program.canonicalize().unwrap_or_else(|_| job.program.clone());
    let root = ground.root.canonicalize().unwrap_or_else(|_| ground.root.clone());
    match command.contains(std::path::is_separator) || path.starts_with(root) {
        true => path.to_string_lossy().into_owned(),
        false => command.to_owned(),
    }
}

/// Returns the text of the question: the complete command, and the beginning of its standard input.
fn asked(command: &str, job: &ProcessSpec) -> Result<String, Fault> {
    let words = shown_words([command].into_iter().chain(job.args.iter().map(String::as_str)));
    let chars = words.chars().count();
    if chars > limits::COMMAND_SHOWN_CHARS {
        let most = limits::COMMAND_SHOWN_CHARS;
        let message = format!(
            "the command has {chars} characters, and a person can be shown at most {most}: pass long text in a file or on \
             standard input"
        );
        return Err(Fault::TooLarge { message });
    }
    let path = |path: &std::path::Path| shown_words([&*path.to_string_lossy()]);
    let (program, folder, time) = (path(&job.program), path(&job.folder), seconds(job.time));
    let mut detail = format!("{words}\nProgram: {program}. Folder: {folder}. Time limit: {time}.");
    if !job.stdin.is_empty() {
        let text = String::from_utf8_lossy(&job.stdin);
        let shown = cut(&text, limits::PROGRAM_STDIN_SHOWN_CHARS);
        let bytes = count(job.stdin.len() as u64, "byte", "bytes");
        let how_much = if shown != text { ", beginning with" } else { "" };
        detail.push_str(&format!("\nStandard input, {bytes}{how_much}:\n{shown}"));
    }
    Ok(detail)
}

/// Formats the result of a run for a model.
pub(super) fn tool_output(ended: ProcessOutput, time: Duration) -> ToolOutput {
    let text = |bytes: &[u8]| -> String {
        let text: Cow<str> = String::from_utf8_lossy(bytes);
        text.trim_end_matches(['\n', '\r']).to_owned()
    };
    let (said, complained) = (text(&ended.stdout), text(&ended.stderr));
    let stderr = if complained.is_empty() { String::new() } else { format!("[standard error]\n{complained}") };
    let how = match ended.exit {
        ProcessExit::Status(0) => String::new(),
        ProcessExit::Time => format!("[killed after {}]", seconds(time)),
        exit => format!("[{exit}]"),
    };
    // A long result is cut at its end, so the reason for a failure comes first.
    let parts = if ended.is_success() { [how, said, stderr] } else { [how, stderr, said] };
    let mut parts: Vec<_> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    if ended.is_cut {
        parts.push(format!("[truncated: the output exceeds {} bytes]", limits::PROCESS_OUTPUT_BYTES));
    }
    let text = if parts.is_empty() { "[no output]".into() } else { parts.join("\n") };
    match ended.is_success() {
        true => text.into(),
        false => ToolOutput::Failed(vec![ToolResultContent::Text(text)]),
    }
}

#[cfg(all(test, unix))]
mod tests;
