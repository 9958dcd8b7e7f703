//! The lines that a person types while a project is watched.

use std::{
    io::{self, BufRead, IsTerminal},
    thread,
};

use tokio::sync::{mpsc, watch};

use crate::cli::render::tell;

/// A command that a person gives with a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum DevKey {
    /// An empty line.
    Build,
    Quit,
}

impl DevKey {
    fn of_line(line: &str) -> Option<Self> {
        match line.trim() {
            "" => Some(Self::Build),
            "q" => Some(Self::Quit),
            _ => None,
        }
    }
}

/// The lines that a person types at a terminal. Without a terminal there are none.
pub struct DevKeys {
    /// `true` if standard input is a terminal, so that somebody can type.
    pub is_attended: bool,
    builds: mpsc::Receiver<()>,
    quit: watch::Receiver<bool>,
    /// The other ends, which keep the channels open.
    senders: DevKeySenders,
}

#[derive(Clone)]
struct DevKeySenders {
    builds: mpsc::Sender<()>,
    quit: watch::Sender<bool>,
}

impl DevKeys {
    /// Reads standard input on a thread of its own, if it is a terminal.
    pub fn listen() -> Self {
        let keys = Self::unattended();
        if !io::stdin().is_terminal() {
            return keys;
        }
        let senders = keys.senders.clone();
        let reading = move || io::stdin().lock().lines().map_while(Result::ok).for_each(|line| senders.take(&line));
        let is_attended = thread::Builder::new().name("keys".into()).spawn(reading).is_ok();
        Self { is_attended, ..keys }
    }

    /// Returns keys that nobody types.
    pub fn unattended() -> Self {
        // One build is enough for all lines that are typed during a build.
        let ((builds_sender, builds), (quit_sender, quit)) = (mpsc::channel(1), watch::channel(false));
        let senders = DevKeySenders { builds: builds_sender, quit: quit_sender };
        Self { is_attended: false, builds, quit, senders }
    }

    /// Waits until a build is wanted.
    pub async fn build(&mut self) {
        // The channel stays open: `senders` has the other end.
        let _ = self.builds.recv().await;
    }

    /// Returns a future that is ready when the person wants to end.
    pub fn quit(&self) -> impl Future<Output = ()> + use<> {
        let mut quit = self.quit.clone();
        async move {
            // An error means that no line can come any more, so the person cannot end the watch here.
            if quit.wait_for(|is_wanted| *is_wanted).await.is_err() {
                std::future::pending().await
            }
        }
    }
}

impl DevKeySenders {
    fn take(&self, line: &str) {
        match DevKey::of_line(line) {
            Some(DevKey::Build) => drop(self.builds.try_send(())),
            Some(DevKey::Quit) => drop(self.quit.send_replace(true)),
            None => tell("press Enter to build again; type q and Enter to end\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_line_is_a_key_or_none() {
        for (line, key) in [
            ("", Some(DevKey::Build)),
            ("  ", Some(DevKey::Build)),
            ("q", Some(DevKey::Quit)),
            (" q\r", Some(DevKey::Quit)),
            ("quit", None),
            ("\u{1b}[A", None),
        ] {
            assert_eq!(DevKey::of_line(line), key, "{line:?}");
        }
    }

    #[tokio::test]
    async fn several_empty_lines_are_one_build() {
        let mut keys = DevKeys::unattended();
        let senders = keys.senders.clone();
        (0..3).for_each(|_| senders.take(""));
        keys.build().await;
        assert!(keys.builds.try_recv().is_err(), "one build for all of them");
        senders.take("q");
        keys.quit().await;
    }
}
