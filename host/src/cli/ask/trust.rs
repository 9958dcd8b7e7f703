use super::lines::{TypedLine, TypedLines};
use crate::cli::render::{tell, tell_prose};

/// A person's answer to a question of consent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Yes, from now on.
    Yes,
    /// Yes, for this run.
    Once,
    /// No, or nothing.
    No,
}

/// The kind of a consent question. Without a run there is no answer "once".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConsentPrompt {
    /// Yes from now on, yes for this run, or no.
    WithOnce,
    /// Yes from now on, or no.
    YesOrNo,
    /// Same answers as [`ConsentPrompt::WithOnce`], about resuming a session.
    GoOn,
    /// Yes or no, about undoing changes of files.
    Undo,
    /// Yes or no, about a config in the person's home folder.
    InHome,
}

impl ConsentPrompt {
    fn prompt(self) -> &'static str {
        match self {
            Self::WithOnce => "trust them? [y]es, from now on; [o]nce; [n]o (Enter: no): ",
            Self::YesOrNo => "trust them from now on? [y]es; [n]o (Enter: no): ",
            Self::Undo => "undo these changes? [y]es; [n]o (Enter: no): ",
            Self::InHome => "write it there nevertheless? [y]es; [n]o (Enter: no): ",
            Self::GoOn => "resume this session? [y]es, from now on; [o]nce; [n]o (Enter: no): ",
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Self::WithOnce | Self::GoOn => "type y, o or n",
            Self::YesOrNo | Self::Undo | Self::InHome => "type y or n",
        }
    }

    fn understood(self, line: &str) -> Option<Consent> {
        match line.trim().to_lowercase().as_str() {
            "y" | "yes" => Some(Consent::Yes),
            "o" | "once" if matches!(self, Self::WithOnce | Self::GoOn) => Some(Consent::Once),
            "" | "n" | "no" => Some(Consent::No),
            _ => None,
        }
    }
}

/// Shows a question and waits for the answer. Dropping the future ends the question.
pub async fn trust(shown: &str, choice: ConsentPrompt) -> Consent {
    answer(shown, choice, TypedLines::new()).await
}

async fn answer(shown: &str, choice: ConsentPrompt, mut lines: TypedLines) -> Consent {
    let prompt = choice.prompt();
    let mut put = format!("{shown}{prompt}");
    loop {
        lines.forget();
        tell_prose(&put);
        match lines.next().await {
            TypedLine::Text(line) => match choice.understood(&line) {
                Some(consent) => return consent,
                None => put = format!("{}\n{prompt}", choice.wanted()),
            },
            TypedLine::NotText => put = format!("the answer is not UTF-8 text\n{prompt}"),
            TypedLine::End => {
                tell("\n");
                return Consent::No;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc::sync_channel};

    use futures_util::poll;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn consent_is_asked_until_clear_and_empty_line_is_no() {
        let text = |text: &str| TypedLine::Text(text.into());
        let (once, either) = (ConsentPrompt::WithOnce, ConsentPrompt::YesOrNo);
        for (choice, typed, consent) in [
            (once, vec![text("y\n")], Consent::Yes),
            (once, vec![text(" YES\r\n")], Consent::Yes),
            (once, vec![text("yep\n"), TypedLine::NotText, text("o\n")], Consent::Once),
            (once, vec![text("t\n"), text("once\n")], Consent::Once),
            (once, vec![text("no\n")], Consent::No),
            (once, vec![text("\n")], Consent::No),
            (once, vec![text("what?\n"), TypedLine::End], Consent::No),
            (either, vec![text("o\n"), text("once\n"), text("y\n")], Consent::Yes),
            (either, vec![text("\n")], Consent::No),
        ] {
            let (wants, wanted) = sync_channel(1);
            let (sender, lines) = mpsc::channel(1);
            let mut asked = pin!(answer("", choice, TypedLines::from(wants, lines)));
            // A line that was typed before the question was shown is no answer to it.
            sender.send(text("y\n")).await.unwrap();
            let mut typed = typed.into_iter().peekable();
            while let Some(line) = typed.next() {
                assert!(poll!(asked.as_mut()).is_pending(), "it waits for {consent:?}");
                assert!(wanted.try_recv().is_ok() && wanted.try_recv().is_err(), "one line at a time");
                sender.send(line).await.unwrap();
                if typed.peek().is_none() {
                    assert_eq!(asked.as_mut().await, consent);
                }
            }
        }
    }
}
