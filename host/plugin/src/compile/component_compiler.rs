use std::{
    collections::HashMap,
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use super::{
    admission_error::ComponentAdmissionError,
    cache_dir,
    child::{self, CompileCaller},
    compile_config::{CompileConfig, CompileLimits, CompileProfile, CompileSite},
    compile_observer::CompileStart,
    compile_step::CompileStep,
    kept_functions::KeptFunctions,
    memory_layout::MemoryLayout,
    protocol::{CompileRequest, CompileResponse, CompiledCode},
    sandbox::CompileSandboxStatus,
};
use crate::error::CompileFailure;
use shelly_core::digest::Sha256Digest;

/// A component to validate or to compile, and the plugin that a person knows it by.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CompileInput<'a> {
    /// The id of the plugin.
    pub id: &'a str,
    /// The component.
    pub bytes: &'a [u8],
}

/// Validates and compiles components for a catalog of plugins and for the engine that runs them.
#[derive(Debug)]
pub struct ComponentCompiler {
    config: CompileConfig,
    /// Code that was compiled when its component was validated, until the engine takes it.
    made: Mutex<HashMap<Sha256Digest, Vec<u8>>>,
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

    /// Returns the configuration.
    pub fn config(&self) -> &CompileConfig {
        &self.config
    }

    /// Returns `true` if this process may validate the component itself: components are compiled in this process, or an
    /// earlier child found this one valid within its limits.
    pub(crate) fn is_admitted(&self, digest: Sha256Digest) -> bool {
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
    /// [is admitted](Self::is_admitted). The code is kept until the engine takes it.
    ///
    /// # Errors
    ///
    /// [`ComponentAdmissionError`] if the component is not valid or exceeds one of the limits.
    pub(crate) async fn admit(
        &self,
        digest: Sha256Digest,
        input: CompileInput<'_>,
        step: CompileStep,
    ) -> Result<(), ComponentAdmissionError> {
        self.admit_for(CompileCaller::Waits, digest, input, step).await
    }

    async fn admit_for(
        &self,
        caller: CompileCaller,
        digest: Sha256Digest,
        input: CompileInput<'_>,
        step: CompileStep,
    ) -> Result<(), ComponentAdmissionError> {
        if self.is_admitted(digest) {
            return Ok(());
        }
        // Most machines let the engine have its pool. On others the engine has the component compiled again.
        match self.ask(input, step, MemoryLayout::Pooled, caller).await? {
            CompileResponse::Valid => {}
            CompileResponse::Code(compiled) => self.keep_made(digest, compiled.code),
            CompileResponse::Refused(refusal) => {
                return Err(ComponentAdmissionError::Invalid(refusal.into_component_error()));
            }
            CompileResponse::Failed(message) => return Err(ComponentAdmissionError::Rejected(message)),
        }
        self.keep_verdict(digest);
        Ok(())
    }

    /// Validates like [`admit`](Self::admit), for synchronous callers: it blocks their thread, and with it the handling of
    /// Ctrl-C.
    pub(crate) fn admit_blocking(
        &self,
        digest: Sha256Digest,
        input: CompileInput<'_>,
    ) -> Result<(), ComponentAdmissionError> {
        if self.is_admitted(digest) {
            return Ok(());
        }
        let admitting = || {
            // On a thread of its own, since the caller's may belong to a runtime.
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime =
                runtime.map_err(|error| ComponentAdmissionError::NoAnswer(CompileFailure::Start(error.to_string())))?;
            runtime.block_on(self.admit_for(CompileCaller::Blocks, digest, input, CompileStep::Validate))
        };
        std::thread::scope(|scope| match scope.spawn(admitting).join() {
            Ok(admitted) => admitted,
            Err(panicked) => std::panic::resume_unwind(panicked),
        })
    }

    /// Returns the code that was made when the component was validated, and forgets it.
    pub(crate) fn take_made(&self, digest: Sha256Digest) -> Option<Vec<u8>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner).remove(&digest)
    }

    /// Compiles a component in a process of its own. Returns `None` if this process must compile it.
    pub(crate) async fn compile(
        &self,
        input: CompileInput<'_>,
        layout: MemoryLayout,
    ) -> Option<Result<Vec<u8>, ComponentAdmissionError>> {
        if self.config.site == CompileSite::InProcess {
            return None;
        }
        Some(match self.ask(input, CompileStep::Compile, layout, CompileCaller::Waits).await {
            Ok(CompileResponse::Code(compiled)) => Ok(compiled.code),
            Ok(CompileResponse::Refused(refusal)) => {
                Err(ComponentAdmissionError::Invalid(refusal.into_component_error()))
            }
            Ok(CompileResponse::Failed(message)) => Err(ComponentAdmissionError::Rejected(message)),
            Ok(CompileResponse::Valid) => Err(ComponentAdmissionError::NoAnswer(CompileFailure::Answer)),
            Err(failure) => Err(ComponentAdmissionError::NoAnswer(failure)),
        })
    }

    /// Has a child take a step with a component, tells the observer, and keeps the functions of its code if that is wanted.
    async fn ask(
        &self,
        input: CompileInput<'_>,
        step: CompileStep,
        layout: MemoryLayout,
        caller: CompileCaller,
    ) -> Result<CompileResponse, CompileFailure> {
        let CompileInput { id, bytes: component } = input;
        let start = CompileStart { id, bytes: component.len(), step };
        let _observed = self.config.observer.as_ref().map(|observer| observer.begin(start));
        let kept = self.kept_functions(step);
        let functions = match &kept {
            Some(kept) => Some(kept.read().await),
            None => None,
        };
        let request = CompileRequest { step, layout, component, functions: functions.as_deref() };
        let answer = self.ask_child(request, caller).await?.map_or(CompileResponse::Valid, |(answer, _)| answer);
        match (answer, kept) {
            (CompileResponse::Code(CompiledCode { code, functions: Some(functions) }), Some(kept)) => {
                kept.write(functions).await;
                Ok(CompileResponse::Code(CompiledCode { code, functions: None }))
            }
            (answer, _) => Ok(answer),
        }
    }

    /// Returns the functions that are kept between the builds of a project; `None` if the code is to be optimised.
    fn kept_functions(&self, step: CompileStep) -> Option<KeptFunctions> {
        match (&self.config.profile, step) {
            (CompileProfile::Development { project }, CompileStep::Compile) => {
                Some(KeptFunctions::of_project(self.config.cache.as_deref(), project))
            }
            _ => None,
        }
    }

    /// Has a child validate the smallest component, and returns the parts of the child's sandbox that are active; `None`
    /// if components are compiled in this process, without a sandbox.
    ///
    /// # Errors
    ///
    /// [`CompileFailure`] if the child cannot be started, or gives no answer.
    pub async fn sandbox_status(&self) -> Result<Option<CompileSandboxStatus>, CompileFailure> {
        let request = CompileRequest {
            step: CompileStep::Validate,
            layout: MemoryLayout::Pooled,
            component: EMPTY_COMPONENT,
            functions: None,
        };
        match self.ask_child(request, CompileCaller::Waits).await? {
            Some((CompileResponse::Valid, status)) => Ok(Some(status)),
            Some(_) => Err(CompileFailure::Answer),
            None => Ok(None),
        }
    }

    /// Sends a request to a new child; returns `None` if this process compiles.
    async fn ask_child(
        &self,
        request: CompileRequest<'_>,
        caller: CompileCaller,
    ) -> Result<Option<(CompileResponse, CompileSandboxStatus)>, CompileFailure> {
        let program = match &self.config.site {
            CompileSite::InProcess => return Ok(None),
            CompileSite::OwnProgram => &own_program(),
            CompileSite::Program { path } => path,
        };
        child::ask(program, self.config.limits, request, caller).await.map(Some)
    }

    fn keep_made(&self, digest: Sha256Digest, code: Vec<u8>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: usize = made.values().map(Vec::len).sum();
        // Code beyond the bound is dropped: the engine compiles the component again.
        if kept.saturating_add(code.len()) <= self.config.limits.code_bytes {
            made.insert(digest, code);
        }
    }

    /// Returns the path of the empty file that records that a component is valid. Its name contains the version of the
    /// program and the limits, since others may come to another verdict.
    fn verdict_path(&self, digest: Sha256Digest) -> Option<PathBuf> {
        let CompileLimits { memory_bytes, cpu, wall, code_bytes } = self.config.limits;
        let bounds = format!("{memory_bytes} {cpu:?} {wall:?} {code_bytes}");
        let bounds = &Sha256Digest::of(bounds).hex()[..8];
        let name = format!("{}-{}-{bounds}.valid", digest.hex(), env!("CARGO_PKG_VERSION"));
        self.config.cache.as_ref().map(|directory| directory.join(name))
    }

    /// Records that a component is valid. If that fails, the component is validated again next time.
    fn keep_verdict(&self, digest: Sha256Digest) {
        let Some((path, directory)) = self.verdict_path(digest).zip(self.config.cache.as_ref()) else { return };
        let kept = cache_dir::make(directory)
            .and_then(|()| fs::File::create(&path).map(drop))
            .and_then(|()| cache_dir::prune(directory));
        if let Err(error) = kept {
            tracing::warn!(%error, path = %path.display(), "cannot record that the component is valid; it will be validated again");
        }
    }
}

/// A component that holds nothing: the head of the binary format.
const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

/// Returns the executable of this program. If it was replaced while this process runs, as by an update, its path leads
/// to another version or nowhere, but Linux still provides the running one.
fn own_program() -> PathBuf {
    let named = std::env::current_exe().ok().filter(|path| path.exists());
    named.unwrap_or_else(|| "/proc/self/exe".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn smallest_component_is_valid_without_a_child() {
        let survey = crate::component::ComponentSurvey::of(EMPTY_COMPONENT).unwrap();
        survey.validate(EMPTY_COMPONENT).unwrap();
        assert_eq!(ComponentCompiler::in_process().sandbox_status().await.unwrap(), None);
        let program = CompileSite::Program { path: "/no/such/program".into() };
        let compiler = ComponentCompiler::from(CompileConfig { site: program, ..CompileConfig::default() });
        assert!(matches!(compiler.sandbox_status().await, Err(CompileFailure::Start(_))));
    }

    #[test]
    fn precompiled_code_is_bounded_and_taken_once() {
        let limits = CompileLimits { code_bytes: 10, ..CompileLimits::default() };
        let compiler = ComponentCompiler::from(CompileConfig { limits, ..CompileConfig::default() });
        let digests = [b"a", b"b", b"c"].map(Sha256Digest::of);
        for digest in digests {
            compiler.keep_made(digest, vec![0; 5]);
        }
        let taken = digests.map(|digest| compiler.take_made(digest).is_some());
        assert_eq!(taken, [true, true, false]);
        assert_eq!(compiler.take_made(digests[0]), None);
    }
}
