//! The person's own editor, opened on the text of the input.

use std::{
    io::{self, Write},
    process::{Child, Command},
    sync::{Arc, Mutex, PoisonError},
};

use tempfile::NamedTempFile;
use tokio::task::JoinHandle;

use super::{raw_terminal::LentTerminal, shell_command::wait_for_end};
use crate::{
    error::{ErrorKind, Report},
    files, limits,
};

/// An editor that runs, and has the terminal meanwhile.
pub struct ExternalEditor {
    child: Arc<Mutex<Child>>,
    edited: JoinHandle<Result<String, Report>>,
}

impl ExternalEditor {
    /// Opens the editor of `VISUAL` or `EDITOR` on a text.
    ///
    /// # Errors
    ///
    /// A [`Report`] if no editor is set, or it cannot be started.
    pub fn open(text: &str) -> Result<Self, Report> {
        let set = ["VISUAL", "EDITOR"]
            .into_iter()
            .find_map(|name| std::env::var(name).ok().filter(|editor| !editor.trim().is_empty()));
        let editor = set.ok_or_else(|| {
            Report::new(ErrorKind::Usage, "no editor is set")
                .hint("set VISUAL or EDITOR, for example: export EDITOR=vi")
        })?;
        let lent = LentTerminal::lend();
        Self::start(&editor, text, lent)
    }

    /// Starts an editor on a text. `lent` is dropped when the editor has ended.
    fn start(editor: &str, text: &str, lent: impl Send + 'static) -> Result<Self, Report> {
        let cannot = |error: io::Error| Report::new(ErrorKind::Run, "cannot open the editor").cause(error);
        // Only the person can read the file, and it is removed whatever happens.
        let mut file = tempfile::Builder::new().prefix("message-").suffix(".md").tempfile().map_err(cannot)?;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).map_err(cannot)?;
        let child = Arc::new(Mutex::new(command(editor, &file).spawn().map_err(cannot)?));
        let running = Arc::clone(&child);
        let edited = tokio::task::spawn_blocking(move || {
            let edited = edited_text(&running, &file);
            drop(lent);
            edited
        });
        Ok(Self { child, edited })
    }

    /// Waits for its end, and returns the text. Cancel safe.
    ///
    /// # Errors
    ///
    /// A [`Report`] if the editor has failed, or the text is too long.
    pub async fn end(&mut self) -> Result<String, Report> {
        let ended = (&mut self.edited).await;
        ended.unwrap_or_else(|error| Err(Report::new(ErrorKind::Bug, "this is a bug in shelly-host").cause(error)))
    }
}

impl Drop for ExternalEditor {
    fn drop(&mut self) {
        let _ = self.child.lock().unwrap_or_else(PoisonError::into_inner).kill();
    }
}

/// Returns the command of an editor, which may have arguments: as git starts it.
#[cfg(unix)]
fn command(editor: &str, file: &NamedTempFile) -> Command {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("{editor} \"$@\"")).arg(editor).arg(file.path());
    command
}

#[cfg(not(unix))]
fn command(editor: &str, file: &NamedTempFile) -> Command {
    let mut words = editor.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or(editor));
    command.args(words).arg(file.path());
    command
}

/// Waits for the end of an editor, and reads what it has written.
fn edited_text(child: &Mutex<Child>, file: &NamedTempFile) -> Result<String, Report> {
    let unchanged = |cause: String| Report::new(ErrorKind::Run, "the text is unchanged").cause(cause);
    match wait_for_end(child) {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(unchanged(format!("the editor has failed: {status}"))),
        Err(error) => return Err(unchanged(error.to_string())),
    }
    // An editor may have put another file in its place.
    let text = files::read(file.path(), files::folder_of(file.path()), limits::CHAT_INPUT_BYTES as u64);
    let text = text.map_err(|error| unchanged(error.to_string()))?;
    Ok(text.trim_end_matches(['\n', '\r']).to_owned())
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    async fn edited(editor: &str, text: &str) -> Result<String, String> {
        let mut editor = ExternalEditor::start(editor, text, ()).unwrap();
        editor.end().await.map_err(|report| report.to_string())
    }

    #[tokio::test]
    async fn text_is_what_the_editor_has_written() {
        assert_eq!(edited("sed -i s/one/two/", "one\nmore").await.unwrap(), "two\nmore");
        assert_eq!(edited("true", "as it was").await.unwrap(), "as it was");
        assert_eq!(edited("f() { echo new > \"$1.x\"; mv \"$1.x\" \"$1\"; }; f", "old").await.unwrap(), "new");
    }

    #[tokio::test]
    async fn failed_editor_leaves_the_text_unchanged() {
        let failed = edited("false", "text").await.unwrap_err();
        assert!(failed.contains("the text is unchanged") && failed.contains("exit status: 1"), "{failed}");
        let too_long = format!("f() {{ head -c {} /dev/zero > \"$1\"; }}; f", limits::CHAT_INPUT_BYTES + 1);
        assert!(edited(&too_long, "text").await.is_err());
        assert!(edited("rm", "text").await.is_err());
    }

    #[tokio::test]
    async fn terminal_is_lent_until_the_editor_ends() {
        let (lent, is_back) = tokio::sync::oneshot::channel::<()>();
        let mut editor = ExternalEditor::start("exec sleep 1000 #", "text", lent).unwrap();
        editor.child.lock().unwrap().kill().unwrap();
        assert!(editor.end().await.is_err());
        assert!(is_back.await.is_err(), "it is dropped with the end");
    }
}
