use super::lines::{TypedLine, TypedLines};
use crate::cli::render::{tell, tell_prose};

/// Shows a question with these names, and waits for one of them or its number, counted from 1. An empty line is the first.
/// Returns the position of the name; `None` if the person leaves. Dropping the future ends the question.
pub async fn choose(shown: &str, names: &[&str]) -> Option<usize> {
    answer(shown, names, TypedLines::new()).await
}

async fn answer(shown: &str, names: &[&str], mut lines: TypedLines) -> Option<usize> {
    let prompt = "a number or a name (Enter: 1): ";
    let mut put = format!("{shown}{prompt}");
    loop {
        lines.forget();
        tell_prose(&put);
        match lines.next().await {
            TypedLine::Text(line) => match chosen(&line, names) {
                Some(at) => return Some(at),
                None => put = format!("type a number from 1 to {}, or a name\n{prompt}", names.len()),
            },
            TypedLine::NotText => put = format!("the answer is not UTF-8 text\n{prompt}"),
            TypedLine::End => {
                tell("\n");
                return None;
            }
        }
    }
}

fn chosen(line: &str, names: &[&str]) -> Option<usize> {
    let line = line.trim();
    let number = || line.parse::<usize>().ok().and_then(|number| number.checked_sub(1)).filter(|at| *at < names.len());
    match line.is_empty() {
        true => Some(0),
        false => names.iter().position(|name| name.eq_ignore_ascii_case(line)).or_else(number),
    }
}

#[cfg(test)]
mod tests {
    use std::{pin::pin, sync::mpsc::sync_channel};

    use futures_util::poll;
    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn choice_is_asked_until_it_is_a_name_or_number() {
        let text = |text: &str| TypedLine::Text(text.into());
        let names = ["one", "two", "three"];
        for (typed, expected) in [
            (vec![text("\n")], Some(0)),
            (vec![text(" 2\r\n")], Some(1)),
            (vec![text("Three\n")], Some(2)),
            (vec![text("0\n"), text("4\n"), text("-1\n"), text("thre\n"), TypedLine::NotText, text("3")], Some(2)),
            (vec![text("x\n"), TypedLine::End], None),
        ] {
            let (wants, wanted) = sync_channel(1);
            let (sender, lines) = mpsc::channel(1);
            let mut asked = pin!(answer("", &names, TypedLines::from(wants, lines)));
            let mut typed = typed.into_iter().peekable();
            while let Some(line) = typed.next() {
                assert!(poll!(asked.as_mut()).is_pending(), "it waits for {expected:?}");
                assert!(wanted.try_recv().is_ok(), "a line is wanted");
                sender.send(line).await.unwrap();
                if typed.peek().is_none() {
                    assert_eq!(asked.as_mut().await, expected);
                }
            }
        }
    }
}
