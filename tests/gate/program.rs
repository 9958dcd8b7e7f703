//! The program that users run, which compiles components by itself: valgrind shows it another processor than a child would
//! see, which is not run under valgrind.

use std::process::ExitCode;

fn main() -> ExitCode {
    shelly_host::cli::main_that_compiles_here()
}
