//! The base of WASI without any power in it, for plugins whose manifest says `wasi = "powerless"`: runtimes of other
//! languages import all of it, whatever the program does.
//!
//! | interface | content for a plugin | with a grant |
//! |---|---|---|
//! | `wasi:cli/environment` | no variables, no arguments, no working directory | |
//! | `wasi:cli/exit` | ends the call, which is an error | |
//! | `wasi:cli/stdin` | is at its end | |
//! | `wasi:cli/stdout`, `stderr` | each line is an entry of the plugin's log, within its limits | |
//! | `wasi:cli/terminal-*` | there is none | |
//! | `wasi:clocks/wall-clock` | stands still at the beginning of 1970 | `clock`: the time, in milliseconds |
//! | `wasi:clocks/monotonic-clock` | a step per reading; waits are real, within the call's time | `clock`: nanoseconds |
//! | `wasi:random/*` | the same numbers in each instance | `random`: random numbers |
//! | `wasi:filesystem/*` | no folder | `files`: the granted ones |
//! | `wasi:sockets/*` | every socket and every name is refused | |
//! | `wasi:io/*` | works on the resources of the other interfaces | |
//!
//! Nothing of this process is exposed: no stream, variable, argument, folder or address. wasmtime-wasi implements the
//! parts that reach nothing; clocks, random numbers and output are implemented here, because wasmtime-wasi's are those
//! of the process. Every version 0.2 of WASI is accepted, as the engine's linker accepts it.

mod clocks;
mod link;
mod random;
mod stdio;

pub use link::link;
