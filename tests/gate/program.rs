//! The program that users run, which compiles components by itself here: valgrind shows it another processor than a child
//! process would see, which does not run under valgrind.

use std::process::ExitCode;

fn main() -> ExitCode {
    shelly_host::cli::main_that_compiles_here()
}
