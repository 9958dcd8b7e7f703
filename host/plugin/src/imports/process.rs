use std::time::Duration;

use crate::{
    bindings::{imports::process, types},
    convert,
    store::PluginState,
};
use shelly_core::{
    error::Fault,
    process::{ProcessExit, ProgramRequest},
};

impl process::Host for PluginState {
    async fn run(&mut self, command: process::Command) -> wasmtime::Result<Result<process::Output, types::Error>> {
        let process::Command { program, args, stdin, timeout_ms } = command;
        self.take(program.len() + args.iter().map(String::len).sum::<usize>() + stdin.len())?;
        let Some(programs) = self.programs.clone() else {
            // Without the grant the interface is not linked.
            let message = "only a tool call can run programs".into();
            return Ok(Err(convert::fault_to_wit(&Fault::Denied { message })));
        };
        let time = timeout_ms.map(|time| Duration::from_millis(time.into()));
        let ended = match programs.run(&program, ProgramRequest { args, stdin, time, folder: None }).await {
            Ok(ended) => ended,
            Err(fault) => return Ok(Err(convert::fault_to_wit(&fault))),
        };
        let status = match ended.exit {
            ProcessExit::Status(status) => Some(status),
            ProcessExit::Signal(_) | ProcessExit::Time => None,
        };
        self.hand(ended.stdout.len() + ended.stderr.len())?;
        Ok(Ok(process::Output { status, stdout: ended.stdout, stderr: ended.stderr, cut: ended.is_cut }))
    }
}
