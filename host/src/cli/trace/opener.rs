//! Opens a page in a browser.

use std::{
    path::Path,
    process::{Command, ExitStatus, Stdio},
    thread,
    time::Instant,
};

use crate::{
    cli::render::{name, tell, warn},
    limits,
};

/// Opens a page with the program that the system has for it, and says where the page is.
pub fn open(page: &Path) {
    let shown = name(&page.display().to_string());
    tell(&format!("wrote {shown}\n"));
    if !is_opened(opener().arg(page)) {
        warn(&format!("no browser could be started; open the page yourself: {shown}"));
    }
}

/// Returns `true` if a program could be started and has not failed at once. Some stay as long as the browser does.
fn is_opened(command: &mut Command) -> bool {
    let started = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let Ok(mut program) = started else { return false };
    let began = Instant::now();
    while began.elapsed() < limits::TRACE_OPENER_TIME {
        match program.try_wait() {
            Ok(None) => thread::sleep(limits::TRACE_OPENER_PAUSE),
            ended => return ended.ok().flatten().is_some_and(|status: ExitStatus| status.success()),
        }
    }
    true
}

/// Returns the command that opens a file.
fn opener() -> Command {
    if cfg!(target_os = "windows") {
        let mut command = Command::new("rundll32");
        command.arg("url.dll,FileProtocolHandler");
        return command;
    }
    Command::new(if cfg!(target_os = "macos") { "open" } else { "xdg-open" })
}
