//! A terminal, for the tests of this folder and of the chat.

use std::{
    io::{self, Write},
    num::NonZero,
    sync::{Arc, Mutex},
};

use shelly_terminal::live_region::TerminalSize;

use super::SizeQuery;

/// A terminal that parses what is written to it. Nothing may act on it that only an attacker would write.
#[derive(Clone)]
pub struct TestTerminal(Arc<Mutex<vt100::Parser>>);

fn count(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl TestTerminal {
    /// Creates a terminal of this size.
    pub fn new(columns: u16, rows: u16) -> Self {
        Self(Arc::new(Mutex::new(vt100::Parser::new(count(rows), count(columns), 1_000))))
    }

    /// Changes the size.
    pub fn resize(&self, columns: u16, rows: u16) {
        self.0.lock().unwrap().screen_mut().set_size(count(rows), count(columns));
    }

    /// Returns the lines on the screen without blank ones.
    pub fn lines(&self) -> Vec<String> {
        let parser = self.0.lock().unwrap();
        let columns = parser.screen().size().1.get();
        let rows = parser.screen().rows(0, columns).map(|row| row.trim_end().to_owned());
        rows.filter(|row| !row.is_empty()).collect()
    }

    /// Returns the query for its present size.
    pub fn size(&self) -> SizeQuery {
        let terminal = self.clone();
        Arc::new(move || {
            let (rows, columns) = terminal.0.lock().unwrap().screen().size();
            TerminalSize { columns: columns.get(), rows: rows.get() }
        })
    }
}

impl Write for TestTerminal {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(bytes);
        assert!(!text.contains('\x07') && !text.contains("\x1b]52") && !text.contains("\x1b[2J"), "{text:?}");
        self.0.lock().unwrap().process(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
