//! `shelly-host`: see `shelly-host --help`.

use std::process::ExitCode;

fn main() -> ExitCode {
    shelly_host::cli::main()
}
