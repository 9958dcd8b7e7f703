//! The parent's side of the process that validates and compiles one component.

use std::{
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread::available_parallelism,
};

use tokio::{sync::Semaphore, time::timeout};

use super::{
    compile_config::CompileLimits,
    protocol::{CompileRequest, CompileResponse, most_answer_bytes},
    sandbox::CompileSandboxStatus,
    worker::CompileWorker,
};
use crate::error::CompileFailure;
use shelly_core::{
    limits,
    process::{PipeOutput, PipeOverflow, ProcessGroup, feed},
};

/// Bounds the number of concurrent children, over all compilers.
static CHILDREN: Semaphore = Semaphore::const_new(limits::COMPILE_CHILDREN);
/// Bounds the children of callers that block a thread: that thread may be the one on which the other children would
/// finish.
static CHILDREN_OF_BLOCKED: Semaphore = Semaphore::const_new(1);

/// The caller that waits for a child.
#[derive(Debug, Clone, Copy)]
pub enum CompileCaller {
    /// A task that yields to others while it waits.
    Waits,
    /// A thread that is blocked while it waits.
    Blocks,
}

/// The variable for the number of compiler threads of a child; its environment contains nothing else.
const THREADS: &str = "RAYON_NUM_THREADS";

/// Sends a request to a new child and waits for its answer, which comes with the parts of the child's sandbox that are
/// active. Dropping the future ends the child.
pub async fn ask(
    program: &Path,
    bounds: CompileLimits,
    request: CompileRequest<'_>,
    caller: CompileCaller,
) -> Result<(CompileResponse, CompileSandboxStatus), CompileFailure> {
    let start = |error: std::io::Error| CompileFailure::Start(shelly_core::error::why_unreadable(&error));
    let children = match caller {
        CompileCaller::Waits => &CHILDREN,
        CompileCaller::Blocks => &CHILDREN_OF_BLOCKED,
    };
    let _permit = children.acquire().await.map_err(|closed| CompileFailure::Start(closed.to_string()))?;

    let threads = available_parallelism().map_or(1, |count| count.get().min(limits::COMPILE_THREADS));
    let mut command = Command::new(program);
    command.args(CompileWorker::to_args(bounds)).env_clear().env(THREADS, threads.to_string());
    #[cfg(unix)]
    {
        std::os::unix::process::CommandExt::arg0(&mut command, "shelly-host");
        command.current_dir("/");
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = ProcessGroup::start_apart(&mut command).map_err(start)?;
    let child = process.child();
    let (Some(stdin), Some(stdout), Some(stderr)) = (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(CompileFailure::Start("the process has no pipes".into()));
    };

    let (mut output, mut complained) = (PipeOutput::default(), PipeOutput::default());
    let most = most_answer_bytes(bounds.code_bytes, request.functions.is_some());
    let request = request.to_bytes();
    let talking = async {
        let heard = output.listen(stdout, most, PipeOverflow::HangUp);
        let complaints = complained.listen(stderr, limits::COMPILE_COMPLAINT_BYTES, PipeOverflow::Forget);
        // A child that does not read its request to the end has answered, or has died.
        let (fed, heard, complaints) = tokio::join!(feed(stdin, &request), heard, complaints);
        fed.and(heard).and(complaints).map_err(start)?;
        process.has_ended().await;
        Ok::<_, CompileFailure>(())
    };
    let in_time = timeout(bounds.wall, talking).await;
    let stopped = process.stop().map_err(start)?;
    if !complained.bytes.is_empty() {
        tracing::debug!(stderr = %String::from_utf8_lossy(&complained.bytes).escape_debug(), "the compiling process \
                                                                                              wrote to its standard \
                                                                                              error");
    }
    match in_time {
        Err(_) => return Err(CompileFailure::Wall(bounds.wall)),
        Ok(talked) => talked?,
    }
    if output.is_cut {
        return Err(CompileFailure::Code(bounds.code_bytes));
    }
    if !stopped.success() {
        return Err(why_ended(stopped, &complained.bytes, bounds));
    }
    let (answer, walls) = CompileResponse::parse(output.bytes).ok_or(CompileFailure::Answer)?;
    if let CompileResponse::Code(compiled) = &answer
        && compiled.code.len() > bounds.code_bytes
    {
        return Err(CompileFailure::Code(bounds.code_bytes));
    }
    tracing::debug!(?walls, "a component was compiled in a confined process");
    Ok((answer, walls))
}

/// Finds out which limit ended a child, if one did.
fn why_ended(status: ExitStatus, complaint: &[u8], bounds: CompileLimits) -> CompileFailure {
    /// Parts of the messages with which Rust's standard library and the compiler report that memory ran out.
    const NO_MEMORY: [&str; 3] = ["memory allocation of", "annot allocate memory", "OutOfMemory"];
    let complaint = String::from_utf8_lossy(complaint);
    if NO_MEMORY.iter().any(|said| complaint.contains(said)) {
        return CompileFailure::Memory(bounds.memory_bytes);
    }
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        return match signal == rustix::process::Signal::XCPU.as_raw() {
            true => CompileFailure::Cpu(bounds.cpu),
            false => CompileFailure::Ended(format!("signal {signal}")),
        };
    }
    CompileFailure::Ended(format!("exit status {}", status.code().unwrap_or_default()))
}
