//! The child's side of the process that validates and compiles one component.

use std::{
    ffi::OsString,
    io::{self, Read, Write},
    sync::Arc,
    time::Duration,
};

use super::{
    compile_config::CompileLimits,
    compile_step::CompileStep,
    engine_config,
    function_store::FunctionStore,
    memory_layout::MemoryLayout,
    protocol::{self, CompileResponse, CompiledCode, ComponentValidationError, ReceivedRequest},
    sandbox,
};
use crate::component::ComponentSurvey;

/// The hidden command that makes the program compile one component.
pub const COMPILE_WORKER: &str = "compile-worker";

/// The options of the command, each followed by a number.
const MEMORY: &str = "--memory-bytes";
const CPU: &str = "--cpu-seconds";

/// A process that compiles one component and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileWorker {
    limits: CompileLimits,
}

impl CompileWorker {
    /// Returns the worker that a command line asks for; `None` if it asks for anything else.
    pub fn from_args(mut args: impl Iterator<Item = OsString>) -> Option<Self> {
        if args.next()? != COMPILE_WORKER {
            return None;
        }
        let mut number = |word: &str| match args.next()? == word {
            true => args.next()?.to_str()?.parse().ok(),
            false => None,
        };
        let (memory_bytes, cpu) = (number(MEMORY)?, Duration::from_secs(number(CPU)?));
        let limits = CompileLimits { memory_bytes, cpu, ..CompileLimits::default() };
        args.next().is_none().then_some(Self { limits })
    }

    /// Returns the command line for a worker with these limits.
    pub(super) fn to_args(limits: CompileLimits) -> [String; 5] {
        let (memory, cpu) = (limits.memory_bytes.to_string(), limits.cpu.as_secs().max(1).to_string());
        [COMPILE_WORKER.into(), MEMORY.into(), memory, CPU.into(), cpu]
    }

    /// Reads a component, does what the request says, and writes the answer. The process enters its sandbox before it
    /// reads anything, for good, and must have a single thread until then. `abandon` is called when nobody is left to
    /// read the answer, and must end the process, since a killed parent does not end its child.
    ///
    /// # Errors
    ///
    /// The request is incomplete or invalid, or nobody takes the answer.
    pub fn run(self, input: &mut dyn Read, output: &mut dyn Write, abandon: fn()) -> io::Result<()> {
        let walls = sandbox::raise(self.limits);
        watch_parent(abandon);
        let answer = work(protocol::read_request(input)?);
        answer.write(walls, output)
    }
}

fn work(request: ReceivedRequest) -> CompileResponse {
    let ReceivedRequest { step, layout, component, functions } = request;
    let valid = ComponentSurvey::of(&component).and_then(|survey| survey.validate(&component));
    let valid = valid.map(|valid| valid.uses_async).map_err(ComponentValidationError::of);
    if let Err(Some(refusal)) = valid {
        return CompileResponse::Refused(refusal);
    }
    let uses_async = valid.unwrap_or(false);
    match step {
        CompileStep::Validate => CompileResponse::Valid,
        CompileStep::Compile => match compiled(layout, uses_async, &component, functions) {
            Ok(code) => CompileResponse::Code(code),
            Err(error) => {
                let message =
                    shelly_core::error::cut(&format!("{error:#}"), shelly_core::limits::COMPILE_MESSAGE_CHARS);
                CompileResponse::Failed(message)
            }
        },
    }
}

/// Compiles a component: optimised, or with the functions that are kept of its last build.
fn compiled(
    layout: MemoryLayout,
    uses_async: bool,
    component: &[u8],
    functions: Option<Vec<u8>>,
) -> wasmtime::Result<CompiledCode> {
    let Some(functions) = functions else {
        return Ok(CompiledCode { code: engine_config::precompile(layout, uses_async, component)?, functions: None });
    };
    let store = Arc::new(FunctionStore::of_last_build(functions));
    let code = engine_config::precompile_again(layout, uses_async, component, &store)?;
    Ok(CompiledCode { code, functions: store.changed() })
}

/// Watches on a thread of its own that somebody can still read the answer. If no thread can be started, the limit of
/// processor time ends the process.
#[cfg(target_os = "linux")]
fn watch_parent(abandon: fn()) {
    let watch = move || {
        let mut output = libc::pollfd { fd: libc::STDOUT_FILENO, events: 0, revents: 0 };
        loop {
            // SAFETY: the pointer is to one whole `pollfd` of this thread.
            let ready = unsafe { libc::poll(&raw mut output, 1, -1) };
            if ready > 0 {
                return abandon();
            }
            // Poll again after a signal; give up if the output cannot be watched.
            if ready == 0 || io::Error::last_os_error().kind() != io::ErrorKind::Interrupted {
                return;
            }
        }
    };
    let _ = std::thread::Builder::new().name("parent".into()).spawn(watch);
}

#[cfg(not(target_os = "linux"))]
fn watch_parent(_: fn()) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(words: &[&str]) -> Option<CompileWorker> {
        CompileWorker::from_args(words.iter().map(OsString::from))
    }

    #[test]
    fn compile_worker_needs_its_exact_command_line() {
        let limits = CompileLimits { memory_bytes: 7, cpu: Duration::from_millis(2_500), ..CompileLimits::default() };
        let words = CompileWorker::to_args(limits);
        let worker = CompileWorker::from_args(words.iter().map(OsString::from)).unwrap();
        assert_eq!((worker.limits.memory_bytes, worker.limits.cpu.as_secs()), (7, 2));
        for end in 0..words.len() {
            assert_eq!(CompileWorker::from_args(words[..end].iter().map(OsString::from)), None, "{end}");
        }
        for other in [
            &["run"][..],
            &[COMPILE_WORKER, MEMORY, "x", CPU, "1"],
            &[COMPILE_WORKER, CPU, "1", MEMORY, "1"],
            &[COMPILE_WORKER, MEMORY, "1", CPU, "1", "more"],
        ] {
            assert_eq!(args(other), None, "{other:?}");
        }
    }

    fn request(text: &str, functions: Option<Vec<u8>>) -> ReceivedRequest {
        let (step, layout) = (CompileStep::Compile, MemoryLayout::Pooled);
        ReceivedRequest { step, layout, component: wat::parse_str(text).unwrap(), functions }
    }

    #[test]
    fn compile_worker_keeps_functions_for_the_next_build() {
        let component = |number: u32| {
            format!(
                "(component (core module (func (export \"a\") (result i32) (i32.const {number}))
                 (func (export \"b\") (param i32) (result i32) (i32.mul (local.get 0) (local.get 0)))))"
            )
        };
        let build = |number, functions: &[u8]| match work(request(&component(number), Some(functions.to_vec()))) {
            CompileResponse::Code(code) => code,
            other => panic!("{other:?}"),
        };
        let first = build(1, b"");
        // The code is always the same. The compiler's own key of a function is not: about one in five builds has a function
        // with another key, which is then compiled again.
        let kept_by_next = |_| {
            let kept = build(1, b"").functions.unwrap();
            let again = build(1, &kept);
            assert!(again.code == first.code);
            again.functions.is_none().then_some(kept)
        };
        let kept = (0..20).find_map(kept_by_next).expect("nothing is compiled");
        let changed = build(2, &kept);
        let (fresh, of_changed) = (build(2, b""), changed.functions.unwrap());
        assert!(changed.code == fresh.code, "the code is that of a build without kept functions");
        let is_as_long = of_changed.len() == fresh.functions.unwrap().len();
        assert!(is_as_long && of_changed != kept, "the old function is gone");
        assert!(build(1, b"no functions").code == first.code);
    }

    #[test]
    fn compile_worker_compiles_valid_components_only() {
        let compile = |text: &str| work(request(text, None));
        let CompileResponse::Code(CompiledCode { code, functions: None }) = compile("(component)") else {
            panic!("no functions are kept")
        };
        assert!(!code.is_empty());
        let invalid = "(component (core module (func (result i32) (i64.const 0))))";
        assert!(matches!(compile(invalid), CompileResponse::Refused(ComponentValidationError::Invalid { .. })));
        let shared = "(component (core module (memory 1 1 shared)))";
        assert!(matches!(compile(shared), CompileResponse::Refused(ComponentValidationError::Feature { .. })));
    }
}
