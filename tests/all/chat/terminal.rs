//! A chat at a pseudo terminal.

use std::{
    io::{Read, Write},
    num::NonZero,
    path::Path,
    sync::{
        Arc, Mutex,
        mpsc::{Sender, channel},
    },
    thread,
    time::{Duration, Instant},
};

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};

use crate::{
    PLUGIN_ROOT,
    bad_input::{FOUR, Server, answer},
    support::Place,
};

/// The time in which the screen must show what a test waits for; plugins are compiled in it, too.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// A chat at a terminal of 100 columns and 40 rows.
pub struct ChatTerminal {
    pub child: Box<dyn Child + Send + Sync>,
    master: Box<dyn MasterPty + Send>,
    keys: Box<dyn Write + Send>,
    screen: Arc<Mutex<Screen>>,
}

/// The output of the program so far, and the screen that it makes.
struct Screen {
    parser: vt100::Parser,
    bytes: Vec<u8>,
    has_ended: bool,
}

fn count(number: u16) -> NonZero<u16> {
    NonZero::new(number).unwrap()
}

impl ChatTerminal {
    /// Starts the program with these arguments.
    pub fn start(place: &Place, arguments: &[&str]) -> Self {
        Self::start_with(place, arguments, &[])
    }

    /// Starts the program with these arguments and further variables of its environment.
    pub fn start_with(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let size = PtySize { rows: 40, cols: 100, pixel_width: 0, pixel_height: 0 };
        let pty = native_pty_system().openpty(size).unwrap();
        let mut command = CommandBuilder::new(env!("CARGO_BIN_EXE_shelly-host-under-test"));
        command.args(arguments);
        command.cwd(place.path());
        command.env_clear();
        command.env("SHELLY_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"));
        command.env("XDG_STATE_HOME", place.trust_store().parent().and_then(Path::parent).unwrap());
        command.env("TERM", "xterm-256color");
        // Like xterm, the terminal of these tests cuts lines when it becomes narrower.
        command.env("XTERM_VERSION", "XTerm(390)");
        command.env("PATH", "/usr/bin:/bin");
        command.env("SHELL", "/bin/sh");
        variables.iter().for_each(|(name, value)| command.env(name, value));
        let child = pty.slave.spawn_command(command).unwrap();
        drop(pty.slave);
        let (mut reader, keys) = (pty.master.try_clone_reader().unwrap(), pty.master.take_writer().unwrap());
        let parser = vt100::Parser::new(count(40), count(100), 2_000);
        let screen = Arc::new(Mutex::new(Screen { parser, bytes: Vec::new(), has_ended: false }));
        let written = Arc::clone(&screen);
        thread::spawn(move || {
            let mut piece = [0; 4096];
            // A terminal whose last program has ended reads as an error.
            while let Ok(read @ 1..) = reader.read(&mut piece) {
                let mut screen = written.lock().unwrap();
                screen.parser.process(&piece[..read]);
                screen.bytes.extend(&piece[..read]);
            }
            written.lock().unwrap().has_ended = true;
        });
        Self { child, master: pty.master, keys, screen }
    }

    /// Starts a chat in a trusted project, and waits until it takes keys.
    pub fn open(place: &Place, arguments: &[&str]) -> Self {
        Self::open_with(place, arguments, &[])
    }

    /// Opens a chat with further variables of the environment.
    pub fn open_with(place: &Place, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        let chat = Self::start_with(place, &[&["chat", "--trust"], arguments].concat(), variables);
        chat.wait_for("/help shows keys and commands");
        chat.wait_for("›");
        chat
    }

    pub fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
    }

    /// Types a line and sends it.
    pub fn say(&mut self, line: &str) {
        self.press(&format!("{line}\r"));
    }

    /// Returns the rows that have scrolled away and those on the screen.
    pub fn text(&self) -> String {
        let mut screen = self.screen.lock().unwrap();
        let screen = screen.parser.screen_mut();
        let columns = screen.size().1.get();
        let mut rows = Vec::new();
        for above in (1..=screen.scrollback_len()).rev() {
            screen.set_scrollback(above);
            rows.extend(screen.rows(0, columns).next());
        }
        screen.set_scrollback(0);
        rows.extend(screen.rows(0, columns));
        rows.iter().map(|row| row.trim_end()).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// Waits until the text fulfils a condition, and returns it.
    pub fn wait(&self, what: &str, is_there: impl Fn(&str) -> bool) -> String {
        let begun = Instant::now();
        loop {
            let text = self.text();
            if is_there(&text) {
                return text;
            }
            assert!(begun.elapsed() < PATIENCE, "{what} is not on the screen:\n{text}");
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub fn wait_for(&self, expected: &str) -> String {
        self.wait(expected, |text| text.contains(expected))
    }

    /// Waits until a text is there so many times.
    pub fn wait_for_times(&self, expected: &str, times: usize) -> String {
        self.wait(expected, |text| text.matches(expected).count() == times)
    }

    pub fn resize(&self, columns: u16, rows: u16) {
        self.screen.lock().unwrap().parser.screen_mut().set_size(count(rows), count(columns));
        self.master.resize(PtySize { rows, cols: columns, pixel_width: 0, pixel_height: 0 }).unwrap();
    }

    /// Waits until the terminal shows what is typed.
    pub fn wait_until_it_echoes(&self) {
        let begun = Instant::now();
        let shows = || {
            let modes = self.master.get_termios().unwrap();
            format!("{:?}", modes.local_flags).split(|c: char| !c.is_alphabetic()).any(|flag| flag == "ECHO")
        };
        while !shows() {
            assert!(begun.elapsed() < PATIENCE, "what the person types next is not shown");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Returns everything that the program has written so far.
    pub fn written(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap().bytes).into_owned()
    }

    /// Returns the text before the cursor in its row; `None` if the cursor is hidden.
    pub fn before_cursor(&self) -> Option<String> {
        let screen = self.screen.lock().unwrap();
        let screen = screen.parser.screen();
        let (row, column) = screen.cursor_position();
        (!screen.hide_cursor()).then(|| screen.contents_between(row, 0, row, column))
    }

    /// Waits for the end of the program. Returns its exit code, and everything that it has written.
    pub fn end(mut self) -> (u32, String, Vec<u8>) {
        let begun = Instant::now();
        let code = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status.exit_code();
            }
            assert!(begun.elapsed() < PATIENCE, "the program goes on:\n{}", self.text());
            thread::sleep(Duration::from_millis(10));
        };
        self.wait("the end", |_| self.screen.lock().unwrap().has_ended);
        let text = self.text();
        let bytes = std::mem::take(&mut self.screen.lock().unwrap().bytes);
        (code, text, bytes)
    }

    /// Waits until nothing runs: an answer is on the screen before its run has ended.
    pub fn wait_for_rest(&self) {
        self.wait("the end of the run", |text| !text.lines().last().unwrap_or_default().contains("Esc stops"));
    }

    /// Leaves the chat once nothing runs, and checks that the terminal is as it was before.
    pub fn leave(mut self) -> String {
        self.wait_for_rest();
        self.say("/quit");
        let (code, text, bytes) = self.end();
        assert_eq!(code, 0, "{text}");
        let bytes = String::from_utf8_lossy(&bytes).into_owned();
        assert!(bytes.contains("\x1b[?2004l"), "bracketed paste has ended");
        let (hidden, shown) = (bytes.rfind("\x1b[?25l"), bytes.rfind("\x1b[?25h"));
        assert!(hidden < shown, "the cursor is visible again");
        text
    }
}

/// A folder with an agent that reads a file and answers in Markdown.
pub fn reader(use_of_plugin: &str) -> Place {
    let place = Place::new();
    place.file("notes.md", "one two three\n");
    let config = format!(
        r##"plugin_dirs: ['{PLUGIN_ROOT}']
providers:
  - name: script
    kind: plugin
    plugin: scripted-model
    params:
      replies:
        - calls: [{{tool: read_file, arguments: {{path: notes.md}}}}]
        - "# Found\n\nThe note has **three** words:\n\n- one\n- two\n"
agents:
  - name: reader
    description: Reads notes
    provider: script
    plugins: {{read-files: {{files: [{{path: ., mode: read}}]{use_of_plugin}}}}}
  - name: other
    provider: script
"##
    );
    place.file("shelly.yaml", config);
    place
}

/// A model that answers each request with "Four." once the test lets it.
pub fn slow_model(place: &Place) -> (Sender<()>, Server) {
    let (go, gone) = channel();
    let server = Server::start(move |_| {
        let _ = gone.recv_timeout(PATIENCE);
        answer("200 OK", FOUR)
    });
    place.file("shelly.yaml", server.config(""));
    (go, server)
}
