//! The terminal while a chat has it: keys come one by one, and one thread reads them.

use std::{
    io::{self, Write},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use crossterm::{
    event::{self, DisableBracketedPaste, EnableBracketedPaste},
    execute, terminal,
};
use shelly_terminal::live_region::LEAVE_REGION;
use tokio::sync::mpsc;

use super::chat_key::ChatKey;
use crate::limits;

/// Set while the terminal is in raw mode.
static IS_RAW: AtomicBool = AtomicBool::new(false);

/// The raw mode of the terminal, which ends when this is dropped, also while a panic unwinds.
pub struct RawTerminal;

impl RawTerminal {
    /// Puts the terminal into raw mode.
    ///
    /// # Errors
    ///
    /// If the terminal refuses it.
    pub fn enter() -> io::Result<Self> {
        terminal::enable_raw_mode()?;
        IS_RAW.store(true, Ordering::SeqCst);
        let raw = Self;
        keep_line_breaks()?;
        // A terminal that does not know bracketed paste sends pasted text like typed text.
        let _ = execute!(io::stdout(), EnableBracketedPaste);
        Ok(raw)
    }

    /// Starts the thread that reads keys, and returns them. It ends with the chat. `None` at the end: the terminal has gone.
    pub fn keys() -> mpsc::Receiver<ChatKey> {
        let (sender, keys) = mpsc::channel(limits::CHAT_KEYS);
        let read = move || {
            while !sender.is_closed() && IS_RAW.load(Ordering::SeqCst) {
                let event = match event::poll(limits::CHAT_KEY_WAIT) {
                    Ok(false) => continue,
                    Ok(true) => event::read(),
                    Err(error) => Err(error),
                };
                let Ok(event) = event else { break };
                if let Some(key) = ChatKey::from_event(event)
                    && sender.blocking_send(key).is_err()
                {
                    break;
                }
            }
        };
        // Without a thread the channel is closed, which reads as the end of input.
        let _ = thread::Builder::new().name("keys".into()).spawn(read);
        keys
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        restore();
    }
}

/// Returns the terminal to its normal mode if a chat has it: for a process that ends without dropping values. The display that
/// is redrawn in place leaves the screen too.
pub fn restore_and_leave() {
    if IS_RAW.load(Ordering::SeqCst) {
        let _ = io::stdout().write_all(LEAVE_REGION.as_bytes());
        restore();
    }
}

fn restore() {
    if IS_RAW.swap(false, Ordering::SeqCst) {
        // The terminal may have gone away, and there is nobody left to be told.
        let _ = execute!(io::stdout(), DisableBracketedPaste);
        let _ = terminal::disable_raw_mode();
    }
}

/// Keeps the translation of line breaks: logs and messages of other code are then still lines.
#[cfg(unix)]
fn keep_line_breaks() -> io::Result<()> {
    use rustix::termios::{OptionalActions, OutputModes, tcgetattr, tcsetattr};
    let mut modes = tcgetattr(io::stdout())?;
    modes.output_modes |= OutputModes::OPOST | OutputModes::ONLCR;
    Ok(tcsetattr(io::stdout(), OptionalActions::Now, &modes)?)
}

#[cfg(not(unix))]
fn keep_line_breaks() -> io::Result<()> {
    Ok(())
}
