use super::lines::{Line, Lines};
use crate::cli::render::tell;

/// What a person says to what the files of a project name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Yes, from now on.
    Yes,
    /// Yes, for this run.
    Once,
    /// No, or nothing.
    No,
}

const ANSWERS: &str = "[y]es, from now on; [o]nce; [n]o (Enter alone: no): ";

/// Shows what is asked and waits for the answer to a question such as `trust them?`. The question ends with the future.
pub async fn trust(shown: &str, question: &str) -> Consent {
    answer(shown, question, Lines::new()).await
}

async fn answer(shown: &str, question: &str, mut lines: Lines) -> Consent {
    let prompt = format!("{question} {ANSWERS}");
    let mut put = format!("{shown}{prompt}");
    loop {
        lines.forget();
        tell(&put);
        match lines.next().await {
            Line::Text(line) => match understood(&line) {
                Some(consent) => return consent,
                None => put = format!("write y, o or n\n{prompt}"),
            },
            Line::NotText => put = format!("that is not UTF-8 text\n{prompt}"),
            Line::End => {
                tell("\n");
                return Consent::No;
            }
        }
    }
}

fn understood(line: &str) -> Option<Consent> {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Some(Consent::Yes),
        "o" | "once" => Some(Consent::Once),
        "" | "n" | "no" => Some(Consent::No),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc::sync_channel};

    use futures_util::poll;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_person_is_asked_until_it_is_clear_and_silence_is_no() {
        let text = |text: &str| Line::Text(text.into());
        for (typed, consent) in [
            (vec![text("y\n")], Consent::Yes),
            (vec![text(" YES\r\n")], Consent::Yes),
            (vec![text("yep\n"), Line::NotText, text("o\n")], Consent::Once),
            (vec![text("t\n"), text("once\n")], Consent::Once),
            (vec![text("no\n")], Consent::No),
            (vec![text("\n")], Consent::No),
            (vec![text("what?\n"), Line::End], Consent::No),
        ] {
            let (wants, wanted) = sync_channel(1);
            let (sender, lines) = mpsc::channel(1);
            let mut asked = pin!(answer("", "sure?", Lines::from(wants, lines)));
            // Typed before anything was asked: it is no answer.
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
