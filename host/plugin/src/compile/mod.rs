//! Validation and compilation of components: in this process, or each in a sandboxed process of its own.
//!
//! Validators and compilers take memory and time that grow faster than a component, and they are a million lines of
//! code that read untrusted bytes. The child process (`worker`) is this same program. It has no open file but its pipes,
//! and one environment variable, the number of its threads. It first enters its sandbox (`sandbox`), which blocks files,
//! network and other system calls as far as the system supports it; then it reads a component from its standard input and writes a
//! verdict or the code to its standard output (`protocol`). The parent (`child`) starts it, waits for it and finds out
//! how it ended.
//!
//! The parent writes the cache entry, so the child needs no file that it can write, and cannot overwrite another
//! component's entry. The child returns native code that the parent runs: the sandbox bounds the cost of compiling and
//! the reach of a compromised compiler, but does not make that code trustworthy.
//!
//! For a plugin that is built again and again ([`CompileProfile::Development`]) the code is not optimised, and the parent sends
//! the functions of the last build along (`kept_functions`), from which the child takes those that have not changed
//! (`function_store`). They belong to one project, so a compromised compiler reaches no other plugin through them.

mod admission_error;
mod cache_dir;
mod child;
mod code_cache;
mod compile_config;
mod compile_observer;
mod compile_step;
mod component_compiler;
mod engine_config;
mod function_store;
mod kept_functions;
mod memory_layout;
mod protocol;
#[doc(hidden)]
pub mod sandbox;
mod worker;

pub use code_cache::CompileCache;
pub use compile_config::{CompileConfig, CompileLimits, CompileProfile, CompileSite};
pub use compile_observer::{CompileObserver, CompileStart};
pub use compile_step::CompileStep;
pub(crate) use component_compiler::CompileInput;
pub use component_compiler::ComponentCompiler;
pub use engine_config::{
    MEMORIES_PER_PERMIT, TABLES_PER_PERMIT, config_with_async, config_with_pool, config_without_pool, engine_config,
};
pub use memory_layout::MemoryLayout;
pub use sandbox::CompileSandboxStatus;
pub use worker::{COMPILE_WORKER, CompileWorker};
