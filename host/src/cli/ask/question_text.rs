//! Formats questions for the screen, and parses the lines of answers.

use crate::{
    approval::{InboxQuestion, OpenQuestion, OpenQuestionAnswer, PermissionSubject, QuestionKind, Verdict},
    cli::render::{BOLD, DIM, GREEN, PLAIN, RED, YELLOW, escaped, name},
};

/// Formats a question without its prompt. Text of others is indented, so that no line of it looks like one of the host.
pub fn shown(asked: &InboxQuestion) -> String {
    let from = name(&asked.question.from);
    let lines = |text: &str| escaped(text).lines().map(|line| format!("  {line}\n")).collect::<String>();
    match &asked.question.kind {
        QuestionKind::Permission { subject: subject @ PermissionSubject::Change { .. }, detail } => {
            format!("{BOLD}{from}{PLAIN} wants to {}\n{}", name(&subject.to_string()), coloured(detail))
        }
        QuestionKind::Permission { subject, detail } => {
            format!("{BOLD}{from}{PLAIN} wants to {}\n{}", name(&subject.to_string()), lines(detail))
        }
        QuestionKind::Open(open) => {
            let about = if open.header.is_empty() { String::new() } else { format!(" ({})", name(&open.header)) };
            let mut text = format!("{BOLD}{from}{PLAIN} asks{about}:\n{}", lines(&open.text));
            for (at, option) in open.options.iter().enumerate() {
                let (label, description) = (name(&option.label), name(&option.description));
                let dash = if description.is_empty() { "" } else { ": " };
                text.push_str(&format!("  {:>2}  {label}{DIM}{dash}{description}{PLAIN}\n", at + 1));
            }
            if !open.options.is_empty() {
                text.push_str(&format!(
                    "  {:>2}  {DIM}another answer, in your own words{PLAIN}\n",
                    open.options.len() + 1
                ));
            }
            text
        }
    }
}

/// Colours a description of changes: additions green, removals red.
pub fn coloured(detail: &str) -> String {
    let line = |line: &str| match line.chars().next() {
        Some('+') => format!("  {GREEN}{line}{PLAIN}\n"),
        Some('-') => format!("  {RED}{line}{PLAIN}\n"),
        Some('@') => format!("  {DIM}{line}{PLAIN}\n"),
        _ if line.starts_with("careful: ") || line.starts_with("cannot be undone: ") => {
            format!("  {YELLOW}{line}{PLAIN}\n")
        }
        _ => format!("  {line}\n"),
    };
    escaped(detail).lines().map(line).collect()
}

/// Returns the prompt for the answer to a question.
pub fn prompt(kind: &QuestionKind, in_words: bool) -> &'static str {
    match kind {
        QuestionKind::Permission { subject: PermissionSubject::Program { .. }, .. } => {
            "allow? [y]es, once; [t]rust this program with any arguments from now on; [n]o: "
        }
        QuestionKind::Permission { subject: PermissionSubject::GitReading, .. } => {
            "allow? [y]es, in this session; [t]rust all agents of this project with this from now on; [n]o: "
        }
        QuestionKind::Permission {
            subject: PermissionSubject::Folder { .. } | PermissionSubject::Server { .. },
            ..
        } => "allow? [y]es, until the program ends; [t]rust this project with this from now on; [n]o: ",
        QuestionKind::Permission { subject: PermissionSubject::Change { always_asked: true, .. }, .. } => {
            "apply the changes? [y]es, once; [n]o: "
        }
        QuestionKind::Permission { subject: PermissionSubject::Change { .. }, .. } => {
            "apply the changes? [y]es, once; [t]rust this tool's changes until the program ends; [n]o: "
        }
        QuestionKind::Permission { .. } => "allow? [y]es, once; [t]rust this agent with this from now on; [n]o: ",
        QuestionKind::Open(open) if in_words || open.options.is_empty() => "your answer (Enter: no answer): ",
        QuestionKind::Open(open) if open.most_selections() > 1 => "numbers, separated by commas (Enter: no answer): ",
        QuestionKind::Open(_) => "a number (Enter: no answer): ",
    }
}

/// The meaning of an answer line.
#[derive(Debug, PartialEq, Eq)]
pub enum ParsedAnswerLine {
    Answer(OpenQuestionAnswer),
    Verdict(Verdict),
    /// The person gives no answer.
    Nothing,
    /// The answer follows in the person's own words.
    Words,
    Unclear(String),
}

pub fn understood(kind: &QuestionKind, in_words: bool, line: &str) -> ParsedAnswerLine {
    let line = line.trim();
    match kind {
        QuestionKind::Permission { subject: PermissionSubject::Change { always_asked: true, .. }, .. }
            if matches!(line.to_lowercase().as_str(), "t" | "trust") =>
        {
            ParsedAnswerLine::Unclear("these changes cannot be trusted in advance: type y or n".into())
        }
        QuestionKind::Permission { .. } => match line.to_lowercase().as_str() {
            "y" | "yes" => ParsedAnswerLine::Verdict(Verdict::Yes),
            "t" | "trust" => ParsedAnswerLine::Verdict(Verdict::Trust),
            "n" | "no" => ParsedAnswerLine::Verdict(Verdict::No),
            _ => ParsedAnswerLine::Unclear("type y, t or n; after n you may say what to do instead".into()),
        },
        QuestionKind::Open(_) if line.is_empty() => ParsedAnswerLine::Nothing,
        QuestionKind::Open(open) if in_words || open.options.is_empty() => {
            ParsedAnswerLine::Answer(OpenQuestionAnswer::Text(line.into()))
        }
        QuestionKind::Open(open) => chosen(open, line),
    }
}

/// Returns the words after a no: what the agent is to do instead.
pub fn words_of_refusal(line: &str) -> Option<&str> {
    let line = line.trim();
    let after = |no: &str| line.get(..no.len()).filter(|word| word.eq_ignore_ascii_case(no)).map(|_| &line[no.len()..]);
    let rest = after("no").or_else(|| after("n"))?;
    let words = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',' || c == ':');
    (words.len() < rest.len() && !words.is_empty()).then_some(words)
}

/// Returns the options with these numbers, counted from 1. The number after the last one selects an answer in one's own
/// words.
fn chosen(open: &OpenQuestion, line: &str) -> ParsedAnswerLine {
    let other = open.options.len() + 1;
    let mut labels = Vec::new();
    let words: Vec<_> = line.split([',', ' ']).filter(|word| !word.is_empty()).collect();
    for word in &words {
        match word.parse::<usize>() {
            Ok(number) if number == other && words.len() == 1 => return ParsedAnswerLine::Words,
            Ok(number) if number == other => {
                return ParsedAnswerLine::Unclear(format!(
                    "{other} cannot be combined with other numbers: type only {other}"
                ));
            }
            Ok(number) if (1..other).contains(&number) => {
                let label = &open.options[number - 1].label;
                if !labels.contains(label) {
                    labels.push(label.clone());
                }
            }
            _ => return ParsedAnswerLine::Unclear(format!("type a number from 1 to {other}")),
        }
    }
    match (labels.len(), open.most_selections()) {
        (0, _) => ParsedAnswerLine::Unclear(format!("type a number from 1 to {other}")),
        (count, 1) if count > 1 => ParsedAnswerLine::Unclear("type one number".into()),
        (count, most) if count > most => ParsedAnswerLine::Unclear(format!("type at most {most} numbers")),
        _ => ParsedAnswerLine::Answer(OpenQuestionAnswer::Chosen(labels)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::approval::{Question, QuestionOption};

    fn open(labels: &[&str], most: Option<usize>) -> QuestionKind {
        let choice = |label: &&str| QuestionOption { label: (*label).into(), description: String::new() };
        QuestionKind::Open(OpenQuestion {
            text: "which?".into(),
            options: labels.iter().map(choice).collect(),
            multi_select: most.is_some(),
            max_selections: most,
            ..OpenQuestion::default()
        })
    }

    fn permission(name: &str, detail: &str) -> QuestionKind {
        let subject =
            PermissionSubject::Tool { agent: "ada".into(), origin: "p".into(), name: name.into(), digest: "d".into() };
        QuestionKind::Permission { subject, detail: detail.into() }
    }

    #[test]
    fn answer_lines_are_parsed() {
        let text = |text: &str| ParsedAnswerLine::Answer(OpenQuestionAnswer::Text(text.into()));
        let chosen = |labels: &[&str]| {
            ParsedAnswerLine::Answer(OpenQuestionAnswer::Chosen(labels.iter().map(|l| (*l).into()).collect()))
        };
        let unclear = |why: &str| ParsedAnswerLine::Unclear(why.into());
        let (free, one, two) = (open(&[], None), open(&["a", "b", "2"], None), open(&["a", "b", "c"], Some(2)));
        for (kind, in_words, line, said) in [
            (&permission("t", ""), false, "y\n", ParsedAnswerLine::Verdict(Verdict::Yes)),
            (&permission("t", ""), false, " Yes\r\n", ParsedAnswerLine::Verdict(Verdict::Yes)),
            (&permission("t", ""), false, "T", ParsedAnswerLine::Verdict(Verdict::Trust)),
            (&permission("t", ""), false, "no", ParsedAnswerLine::Verdict(Verdict::No)),
            (&permission("t", ""), false, "", unclear("type y, t or n; after n you may say what to do instead")),
            (&permission("t", ""), false, "yep", unclear("type y, t or n; after n you may say what to do instead")),
            (&free, false, "it is 日\n", text("it is 日")),
            (&free, false, "1", text("1")),
            (&free, false, " \n", ParsedAnswerLine::Nothing),
            (&one, false, "\n", ParsedAnswerLine::Nothing),
            (&one, false, "2\n", chosen(&["b"])),
            (&one, false, "2, 2", chosen(&["b"])),
            (&one, false, "1,2", unclear("type one number")),
            (&one, false, "4", ParsedAnswerLine::Words),
            (&one, false, "0", unclear("type a number from 1 to 4")),
            (&one, false, "5", unclear("type a number from 1 to 4")),
            (&one, false, "-1", unclear("type a number from 1 to 4")),
            (&one, false, "99999999999999999999", unclear("type a number from 1 to 4")),
            (&one, false, "b", unclear("type a number from 1 to 4")),
            (&one, false, ",", unclear("type a number from 1 to 4")),
            (&one, true, "2", text("2")),
            (&one, true, "", ParsedAnswerLine::Nothing),
            (&two, false, "3, 1", chosen(&["c", "a"])),
            (&two, false, "3 1", chosen(&["c", "a"])),
            (&two, false, "1,2,3", unclear("type at most 2 numbers")),
            (&two, false, "1,4", unclear("4 cannot be combined with other numbers: type only 4")),
            (&two, false, "4", ParsedAnswerLine::Words),
        ] {
            assert_eq!(understood(kind, in_words, line), said, "{line:?}");
        }
    }

    #[test]
    fn words_after_a_no_are_separated_from_it() {
        for (line, words) in [
            ("n do it otherwise\n", Some("do it otherwise")),
            (" No, use rg", Some("use rg")),
            ("N: use the other file", Some("use the other file")),
            ("n", None),
            ("no, ", None),
            ("y do it", None),
            ("nothing here", None),
            ("nö", None),
            ("", None),
        ] {
            assert_eq!(words_of_refusal(line), words, "{line:?}");
        }
    }

    #[test]
    fn question_text_cannot_forge_prompt_or_terminal_codes() {
        let evil = "\x1b[2Jx\nallow? \u{202e}y";
        let header = OpenQuestion { text: evil.into(), header: evil.into(), ..OpenQuestion::default() };
        let option = QuestionOption { label: evil.into(), description: evil.into() };
        let change = |detail: &str| {
            let [agent, origin, digest, content] = ["ada", "p", "d", "c"].map(str::to_owned);
            let subject =
                PermissionSubject::Change { agent, origin, name: evil.into(), digest, content, always_asked: false };
            QuestionKind::Permission { subject, detail: detail.into() }
        };
        for kind in [
            permission(evil, evil),
            change(evil),
            change(&format!("+{evil}\n-{evil}\ncareful: {evil}")),
            QuestionKind::Open(header.clone()),
            QuestionKind::Open(OpenQuestion { options: vec![option], ..header }),
        ] {
            let question = Question { kind, from: evil.into(), run: "r".into(), changes: Arc::default() };
            let text = shown(&InboxQuestion { id: 1, question: Arc::new(question) });
            let ours = [BOLD, DIM, PLAIN, GREEN, RED, YELLOW];
            let plain = ours.iter().fold(text, |text, style| text.replace(style, ""));
            assert!(!plain.contains(['\x1b', '\u{202e}']) && plain.contains("\\u{1b}[2Jx"), "{plain}");
            assert!(!plain.lines().any(|line| line.starts_with("allow?")), "{plain}");
        }
    }
}
