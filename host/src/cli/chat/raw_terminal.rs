//! The terminal while a chat has it: keys come one by one, and one thread reads them.

use std::{
    io::{self, Write},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use crossterm::{
    event::{self, DisableBracketedPaste, DisableFocusChange, EnableBracketedPaste, EnableFocusChange},
    execute, terminal,
};
use shelly_terminal::live_region::LEAVE_REGION;
use tokio::sync::mpsc;

use super::chat_key::ChatKey;
use crate::limits;

/// Set while the terminal is in raw mode.
static IS_RAW: AtomicBool = AtomicBool::new(false);
/// Set while another program has the terminal: no key is read.
static IS_LENT: AtomicBool = AtomicBool::new(false);
/// Held while a key is read.
static READING: Mutex<()> = Mutex::new(());
/// The modes from before a chat was prepared, while it is.
#[cfg(unix)]
static BEFORE_SILENCE: Mutex<Option<rustix::termios::Termios>> = Mutex::new(None);
/// Held while the modes change: a chat may end in the moment in which an editor gives the terminal back.
static CHANGING: Mutex<()> = Mutex::new(());

/// The modes of a terminal that a chat changes.
pub trait TerminalModes {
    /// Lets keys come one by one, and pastes and changes of the focus be told apart from them.
    ///
    /// # Errors
    ///
    /// If the terminal refuses it. The modes may have been changed in part.
    fn set_raw(&self) -> io::Result<()>;

    /// Returns the terminal to its normal modes, as far as they were changed.
    fn restore(&self);
}

/// The modes of the terminal of this process.
pub struct ProcessTerminal;

impl TerminalModes for ProcessTerminal {
    fn set_raw(&self) -> io::Result<()> {
        enter_raw_mode()
    }

    fn restore(&self) {
        let _changing = locked(&CHANGING);
        IS_LENT.store(false, Ordering::SeqCst);
        leave_raw_mode();
    }
}

fn enter_raw_mode() -> io::Result<()> {
    terminal::enable_raw_mode()?;
    IS_RAW.store(true, Ordering::SeqCst);
    keep_line_breaks()?;
    // A terminal that does not know bracketed paste sends pasted text like typed text; one that does not know about its focus
    // sends nothing.
    let _ = execute!(io::stdout(), EnableBracketedPaste, EnableFocusChange);
    Ok(())
}

fn leave_raw_mode() {
    if IS_RAW.swap(false, Ordering::SeqCst) {
        // The terminal may have gone away, and there is nobody left to be told.
        let _ = execute!(io::stdout(), DisableFocusChange, DisableBracketedPaste);
        let _ = terminal::disable_raw_mode();
    }
}

/// The raw mode of a terminal, which ends when this is dropped, also while a panic unwinds.
pub struct RawTerminal<M: TerminalModes = ProcessTerminal> {
    modes: M,
}

impl RawTerminal {
    /// Puts the terminal of this process into raw mode.
    ///
    /// # Errors
    ///
    /// If the terminal refuses it.
    pub fn enter() -> io::Result<Self> {
        Self::enter_with(ProcessTerminal)
    }

    /// Starts the thread that reads keys, and returns them. It ends with the chat. `None` at the end: the terminal has gone.
    pub fn keys() -> mpsc::Receiver<ChatKey> {
        let (sender, keys) = mpsc::channel(limits::CHAT_KEYS);
        let read = move || {
            while !sender.is_closed() && (IS_RAW.load(Ordering::SeqCst) || IS_LENT.load(Ordering::SeqCst)) {
                let Some(event) = next_event().transpose() else { continue };
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

impl<M: TerminalModes> RawTerminal<M> {
    /// Puts a terminal into raw mode.
    ///
    /// # Errors
    ///
    /// If the terminal refuses it; its modes are then as before.
    pub fn enter_with(modes: M) -> io::Result<Self> {
        let raw = Self { modes };
        raw.modes.set_raw()?;
        Ok(raw)
    }
}

impl<M: TerminalModes> Drop for RawTerminal<M> {
    fn drop(&mut self) {
        self.modes.restore();
    }
}

/// The terminal in its normal modes, lent to another program by a chat. It is in raw mode again when this is dropped.
pub struct LentTerminal(());

impl LentTerminal {
    /// Lends the terminal. Returns once no key is read any more, which takes at most [`limits::CHAT_KEY_WAIT`].
    pub fn lend() -> Self {
        IS_LENT.store(true, Ordering::SeqCst);
        drop(locked(&READING));
        let _changing = locked(&CHANGING);
        leave_raw_mode();
        Self(())
    }
}

impl Drop for LentTerminal {
    fn drop(&mut self) {
        let _changing = locked(&CHANGING);
        // The chat may have ended meanwhile.
        if IS_LENT.load(Ordering::SeqCst) {
            // A terminal that has gone away ends the chat with the next key that is read.
            let _ = enter_raw_mode();
            IS_LENT.store(false, Ordering::SeqCst);
        }
    }
}

/// The terminal while a chat is being prepared, until this is dropped: keys are not echoed, and stay as they are for the chat,
/// which reads them when it begins. Signals of keys are sent.
pub struct SilentTerminal(());

#[cfg(unix)]
impl SilentTerminal {
    /// Silences the terminal of this process, as far as it lets itself be.
    pub fn enter() -> Self {
        use rustix::termios::{InputModes, LocalModes, OptionalActions, tcgetattr, tcsetattr};
        // Held until the modes are changed: a signal may end the process now.
        let mut kept = locked(&BEFORE_SILENCE);
        let silence = || {
            let before = tcgetattr(io::stdin())?;
            let mut modes = before.clone();
            modes.local_modes -= LocalModes::ECHO | LocalModes::ECHONL;
            // Otherwise Enter would reach the chat as a line feed, which adds a line to the message.
            modes.input_modes -= InputModes::ICRNL;
            tcsetattr(io::stdin(), OptionalActions::Now, &modes)?;
            Ok::<_, io::Error>(before)
        };
        *kept = silence().ok();
        Self(())
    }
}

#[cfg(unix)]
impl Drop for SilentTerminal {
    fn drop(&mut self) {
        end_silence();
    }
}

/// Gives the terminal the modes back that it had before a chat was prepared, if one is.
#[cfg(unix)]
fn end_silence() {
    if let Some(before) = locked(&BEFORE_SILENCE).take() {
        // A terminal that has gone away has no modes.
        let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, &before);
    }
}

#[cfg(not(unix))]
impl SilentTerminal {
    /// Leaves the terminal as it is.
    pub fn enter() -> Self {
        Self(())
    }
}

#[cfg(not(unix))]
fn end_silence() {}

fn locked<T>(mutex: &'static Mutex<T>) -> MutexGuard<'static, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits a while for the next event of the terminal, unless it is lent.
fn next_event() -> io::Result<Option<event::Event>> {
    let guard = locked(&READING);
    if IS_LENT.load(Ordering::SeqCst) {
        drop(guard);
        thread::sleep(limits::CHAT_KEY_WAIT);
        return Ok(None);
    }
    match event::poll(limits::CHAT_KEY_WAIT)? {
        true => event::read().map(Some),
        false => Ok(None),
    }
}

/// Returns the terminal to its normal mode if a chat has it or is prepared: for a process that ends without dropping values. The display that
/// is redrawn in place leaves the screen too.
pub fn restore_and_leave() {
    end_silence();
    if IS_RAW.load(Ordering::SeqCst) {
        let _ = io::stdout().write_all(LEAVE_REGION.as_bytes());
        ProcessTerminal.restore();
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

#[cfg(test)]
mod tests {
    use std::{
        cell::RefCell,
        panic::{AssertUnwindSafe, catch_unwind},
    };

    use super::*;

    /// A terminal that notes what is done to it.
    #[derive(Default)]
    struct FakeTerminal {
        done: RefCell<Vec<&'static str>>,
        refuses: bool,
    }

    impl TerminalModes for &FakeTerminal {
        fn set_raw(&self) -> io::Result<()> {
            self.done.borrow_mut().push("raw");
            if self.refuses { Err(io::ErrorKind::Unsupported.into()) } else { Ok(()) }
        }

        fn restore(&self) {
            self.done.borrow_mut().push("normal");
        }
    }

    #[test]
    fn panic_gives_the_terminal_back() {
        let terminal = FakeTerminal::default();
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _raw = RawTerminal::enter_with(&terminal).unwrap();
            assert_eq!(*terminal.done.borrow(), ["raw"]);
            std::panic::resume_unwind(Box::new("a bug in the chat"));
        }));
        assert!(panicked.is_err());
        assert_eq!(*terminal.done.borrow(), ["raw", "normal"]);
    }

    #[test]
    fn terminal_that_refuses_is_as_before() {
        let terminal = FakeTerminal { refuses: true, ..FakeTerminal::default() };
        assert!(RawTerminal::enter_with(&terminal).is_err());
        assert_eq!(*terminal.done.borrow(), ["raw", "normal"]);
    }
}
