//! Where components are validated and compiled: in this process, or each in a process of its own that has bounds and a wall.
//!
//! Validators and compilers take memory and time that grow faster than a component, and they are a million lines of code that
//! read bytes of strangers. The child (`worker`) is this same program. It has no file, no environment and no network; it reads
//! a component from its standard input and writes a verdict or the code to its standard output (`protocol`), behind the wall
//! that `wall` puts up first. `child` starts it, waits for it and tells how it ended.
//!
//! The parent writes the cache entry, so the child needs no file that it can write, and cannot overwrite another component's
//! entry. The child returns native code that the parent runs: the wall bounds what compiling costs and what a compromised
//! compiler reaches, but does not make that code trustworthy.

mod child;
mod protocol;
#[doc(hidden)]
pub mod sandbox;
mod worker;

use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use child::CompileCaller;
pub use child::CompileFailure;
use protocol::{CompileRequest, CompileResponse};
pub use sandbox::CompileSandboxStatus;
pub use worker::{COMPILE_WORKER, CompileWorker};

use super::{cache_dir, catalog::ComponentDigest, component_error::ComponentError, error::PluginError};
use crate::limits;

/// Where components are validated and compiled, within which limits, and where what comes of it is kept.
#[derive(Debug, Clone, Default)]
pub struct CompileConfig {
    /// The directory for compiled code and for which components are valid; `None`: nothing is kept.
    pub cache: Option<PathBuf>,
    /// In which process.
    pub site: CompileSite,
    /// The limits of one component in a process of its own.
    pub limits: CompileLimits,
}

/// The process in which components are validated and compiled.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum CompileSite {
    /// This process, without any limit: for embedders that trust their components.
    #[default]
    InProcess,
    /// A new process of this very program for each component: the program has to begin as `shelly-host` does, with
    /// [`CompileWorker::from_args`].
    OwnProgram,
    /// A new process of another program for each component: `shelly-host`, for embedders.
    Program {
        /// Its absolute path. It is called with the command [`COMPILE_WORKER`].
        path: PathBuf,
    },
}

/// The limits of validating and compiling one component in a process of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileLimits {
    /// Memory, in bytes.
    pub memory_bytes: u64,
    /// Time on processors, all its threads together; counted in whole seconds, one at least.
    pub cpu: Duration,
    /// Time from its start to its answer.
    pub wall: Duration,
    /// Bytes of the code that it may come to.
    pub code_bytes: usize,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            memory_bytes: limits::COMPILE_MEMORY_BYTES,
            cpu: limits::COMPILE_CPU_TIME,
            wall: limits::COMPILE_WALL_TIME,
            code_bytes: limits::COMPILED_BYTES,
        }
    }
}

impl From<Option<PathBuf>> for CompileConfig {
    /// In this process, with what comes of it kept in a directory.
    fn from(cache: Option<PathBuf>) -> Self {
        Self { cache, ..Self::default() }
    }
}

/// The last step that the compiler takes with a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompileStep {
    /// It is validated: enough to look into it.
    Validate,
    /// It is compiled too: enough to run it.
    Compile,
}

/// Layout of linear memories in the engine that is to run the code, on which the code depends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryLayout {
    /// In a pool.
    Pooled,
    /// Each by itself.
    OnDemand,
}

/// Validates and compiles components for a catalogue of plugins and for the engine that runs them.
#[derive(Debug)]
pub struct ComponentCompiler {
    config: CompileConfig,
    /// Code that was compiled when a component was looked into, until the engine asks for it.
    made: Mutex<HashMap<ComponentDigest, Vec<u8>>>,
}

impl From<CompileConfig> for ComponentCompiler {
    fn from(config: CompileConfig) -> Self {
        Self { config, made: Mutex::default() }
    }
}

impl ComponentCompiler {
    /// Returns a compiler that works in this process and keeps nothing.
    pub fn in_process() -> Arc<Self> {
        Arc::new(CompileConfig::default().into())
    }

    /// Returns where it works and keeps what comes of it.
    pub fn config(&self) -> &CompileConfig {
        &self.config
    }

    /// Returns `true` if this process may validate the component itself: components are compiled in this process, or an earlier
    /// child found this one valid within its limits.
    pub(in crate::plugin) fn is_admitted(&self, digest: ComponentDigest) -> bool {
        if self.config.site == CompileSite::InProcess {
            return true;
        }
        let is_kept = |path: PathBuf| {
            path.parent().is_some_and(|directory| cache_dir::check(directory).is_ok())
                && fs::symlink_metadata(path).is_ok_and(|there| there.is_file())
        };
        self.verdict_path(digest).is_some_and(is_kept)
    }

    /// Validates a component in a process of its own, and compiles it for [`CompileStep::Compile`]; does nothing if it
    /// [is admitted](Self::is_admitted). The code is kept until the engine asks for it.
    ///
    /// # Errors
    ///
    /// [`ComponentAdmissionError`]: it is no valid component, or it passed one of the limits.
    pub(in crate::plugin) async fn admit(
        &self,
        digest: ComponentDigest,
        component: &[u8],
        step: CompileStep,
    ) -> Result<(), ComponentAdmissionError> {
        self.admit_for(CompileCaller::Waits, digest, component, step).await
    }

    async fn admit_for(
        &self,
        caller: CompileCaller,
        digest: ComponentDigest,
        component: &[u8],
        step: CompileStep,
    ) -> Result<(), ComponentAdmissionError> {
        if self.is_admitted(digest) {
            return Ok(());
        }
        // Most machines let the engine have its pool. Where one does not the engine has it compiled once more.
        let request = CompileRequest { step, layout: MemoryLayout::Pooled, component };
        match self.ask(request, caller).await? {
            CompileResponse::Valid => {}
            CompileResponse::Code(code) => self.keep_made(digest, code),
            CompileResponse::Refused(refusal) => {
                return Err(ComponentAdmissionError::Misshapen(refusal.into_misshapen()));
            }
            CompileResponse::Failed(message) => return Err(ComponentAdmissionError::Failed(message)),
        }
        self.keep_verdict(digest);
        Ok(())
    }

    /// [`admit`](Self::admit) for callers that cannot wait: their thread is blocked meanwhile, and Ctrl-C with it.
    pub(in crate::plugin) fn admit_blocking(
        &self,
        digest: ComponentDigest,
        component: &[u8],
    ) -> Result<(), ComponentAdmissionError> {
        if self.is_admitted(digest) {
            return Ok(());
        }
        let admitting = || {
            // On a thread of its own: the caller's may be one of a runtime.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime =
                runtime.map_err(|error| ComponentAdmissionError::Failure(CompileFailure::Start(error.to_string())))?;
            runtime.block_on(self.admit_for(CompileCaller::Blocks, digest, component, CompileStep::Validate))
        };
        std::thread::scope(|scope| match scope.spawn(admitting).join() {
            Ok(admitted) => admitted,
            Err(panicked) => std::panic::resume_unwind(panicked),
        })
    }

    /// Returns the code that was made when the component was looked into, once.
    pub(in crate::plugin) fn take_made(&self, digest: ComponentDigest) -> Option<Vec<u8>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest)
    }

    /// Compiles a component in a process of its own. Returns `None` if this process is to do it.
    pub(in crate::plugin) async fn compile(
        &self,
        component: &[u8],
        layout: MemoryLayout,
    ) -> Option<Result<Vec<u8>, ComponentAdmissionError>> {
        if self.config.site == CompileSite::InProcess {
            return None;
        }
        Some(
            match self.ask(CompileRequest { step: CompileStep::Compile, layout, component }, CompileCaller::Waits).await
            {
                Ok(CompileResponse::Code(code)) => Ok(code),
                Ok(CompileResponse::Refused(refusal)) => {
                    Err(ComponentAdmissionError::Misshapen(refusal.into_misshapen()))
                }
                Ok(CompileResponse::Failed(message)) => Err(ComponentAdmissionError::Failed(message)),
                Ok(CompileResponse::Valid) => Err(ComponentAdmissionError::Failure(CompileFailure::Answer)),
                Err(failure) => Err(ComponentAdmissionError::Failure(failure)),
            },
        )
    }

    async fn ask(&self, request: CompileRequest<'_>, caller: CompileCaller) -> Result<CompileResponse, CompileFailure> {
        match &self.config.site {
            CompileSite::InProcess => Ok(CompileResponse::Valid),
            CompileSite::OwnProgram => child::ask(&own_program(), self.config.limits, request, caller).await,
            CompileSite::Program { path } => child::ask(path, self.config.limits, request, caller).await,
        }
    }

    fn keep_made(&self, digest: ComponentDigest, code: Vec<u8>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = made.values().map(Vec::len).sum();
        // The engine has it compiled again.
        if kept.saturating_add(code.len()) <= self.config.limits.code_bytes {
            made.insert(digest, code);
        }
    }

    /// The empty file that says that a component is valid. Another version of the program, or one with other limits, may find
    /// otherwise.
    fn verdict_path(&self, digest: ComponentDigest) -> Option<PathBuf> {
        let CompileLimits { memory_bytes, cpu, wall, code_bytes } = self.config.limits;
        let bounds = format!("{memory_bytes} {cpu:?} {wall:?} {code_bytes}");
        let bounds = &ComponentDigest::of(bounds.as_bytes()).to_string()[..8];
        let name = format!("{digest}-{}-{bounds}.valid", env!("CARGO_PKG_VERSION"));
        self.config.cache.as_ref().map(|directory| directory.join(name))
    }

    /// Keeps that a component is valid. Where that cannot be done it is validated again.
    fn keep_verdict(&self, digest: ComponentDigest) {
        let Some((path, directory)) = self.verdict_path(digest).zip(self.config.cache.as_ref()) else { return };
        let kept = cache_dir::make(directory)
            .and_then(|()| fs::File::create(&path).map(drop))
            .and_then(|()| cache_dir::prune(directory));
        if let Err(error) = kept {
            tracing::warn!(%error, path = %path.display(), "cannot record that the component is valid; it will be validated again");
        }
    }
}

/// The file of this program. Where it was replaced while this process runs, as by an update, its name leads to another version
/// or nowhere, and Linux still has the one that runs.
fn own_program() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}

/// Why a component was not admitted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::plugin) enum ComponentAdmissionError {
    /// It is not a valid component.
    Misshapen(ComponentError),
    /// The compiler does not take it.
    Failed(String),
    /// The process that looked at it came to no answer.
    Failure(CompileFailure),
}

impl From<CompileFailure> for ComponentAdmissionError {
    fn from(failure: CompileFailure) -> Self {
        Self::Failure(failure)
    }
}

impl ComponentAdmissionError {
    /// The error of the plugin whose component, at `path`, was refused.
    pub fn of_plugin(self, id: String, path: PathBuf) -> PluginError {
        match self {
            Self::Misshapen(source) => PluginError::Component { path, source },
            Self::Failed(message) => PluginError::NotRunnable { id, message },
            Self::Failure(failure) => PluginError::NotCompiled { id, failure },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_waits_is_bounded_and_taken_once() {
        let limits = CompileLimits { code_bytes: 10, ..CompileLimits::default() };
        let compiler = ComponentCompiler::from(CompileConfig { limits, ..CompileConfig::default() });
        let digests = [b"a", b"b", b"c"].map(|bytes| ComponentDigest::of(bytes));
        for digest in digests {
            compiler.keep_made(digest, vec![0; 5]);
        }
        let taken = digests.map(|digest| compiler.take_made(digest).is_some());
        assert_eq!(taken, [true, true, false]);
        assert_eq!(compiler.take_made(digests[0]), None);
    }
}
