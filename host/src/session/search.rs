use std::sync::Arc;

use super::{JournalLine, JournalLineContent, JournalReader, SessionError, SessionStore};
use crate::{
    agent::journal::JournalRecord,
    chat::{ChatChange, ChatEntryRecord, Part, Role},
    error::{Report, cut},
    limits,
};

/// A message in which a text was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSearchHit {
    /// The session.
    pub id: String,
    /// Its title.
    pub title: String,
    /// The line of its journal; 1 if it is the title alone.
    pub n: u64,
    /// The run; 0 for the title.
    pub run: u64,
    /// Who said it; none for the title.
    pub role: Option<Role>,
    /// What stands around it, in one line.
    pub excerpt: String,
}

/// What a search came to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionSearchResults {
    /// What was found, in the newest sessions first.
    pub found: Vec<SessionSearchHit>,
    /// Sessions that could not be read, or only up to a place, and why.
    pub left_out: Vec<(String, Report)>,
}

impl SessionStore {
    /// Messages and titles with this text, in whatever case, in the newest sessions first; at most `most`. Only the
    /// first [`limits::SESSION_SEARCH_CHARS`] characters of the text are looked for.
    ///
    /// # Errors
    ///
    /// [`SessionError`]: the folder cannot be read. What is damaged is left out from there on, and told.
    pub fn search(&self, text: &str, most: usize) -> Result<SessionSearchResults, SessionError> {
        let wanted: Vec<char> = text.chars().take(limits::SESSION_SEARCH_CHARS).flat_map(char::to_lowercase).collect();
        let (mut searched, word) = (SessionSearchResults::default(), longest_word(&wanted));
        if wanted.is_empty() {
            return Ok(searched);
        }
        for session in self.newest()? {
            if searched.found.len() >= most {
                break;
            }
            let done = self.search_in(&session.id, (&wanted, &word), most, &mut searched.found);
            // What was removed meanwhile is not left out.
            if let Err(error) = done
                && self.storage.entry(&self.folder.join(&session.id)).is_ok()
            {
                searched.left_out.push((session.id, error.report()));
            }
        }
        searched.found.truncate(most);
        Ok(searched)
    }

    /// Adds what is found in a session to `all`, until that are `most`. The first error is told; what can be read is
    /// searched.
    fn search_in(
        &self,
        id: &str,
        (wanted, word): (&[char], &str),
        most: usize,
        all: &mut Vec<SessionSearchHit>,
    ) -> Result<(), SessionError> {
        let mut journal = JournalReader::open(Arc::clone(&self.storage), self.folder.join(id))?;
        let title = journal.header().title.clone();
        let found =
            |n, run, role, excerpt| SessionSearchHit { id: id.to_owned(), title: title.clone(), n, run, role, excerpt };
        all.extend(excerpt(&title, wanted).map(|excerpt| found(1, 0, None, excerpt)));
        let mut done = Ok(());
        while all.len() < most {
            let line = match journal.next_checked() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(error) => return done.and(Err(error)),
            };
            if line.attached.is_empty() && !may_hold(&line.text, word) {
                continue;
            }
            match journal.understood(line) {
                Ok(JournalLine { n, run, what: JournalLineContent::Record(record), .. }) => {
                    for (role, texts) in said(&record) {
                        let hit = texts.iter().find_map(|text| excerpt(text, wanted));
                        all.extend(hit.map(|excerpt| found(n, run, Some(role), excerpt)));
                    }
                }
                Ok(_) => {}
                Err(error) => done = done.and(Err(error)),
            }
        }
        done
    }
}

/// The longest word of letters and digits that stand in JSON as they are: nothing if another script is looked for.
fn longest_word(wanted: &[char]) -> String {
    if !wanted.iter().all(char::is_ascii) {
        return String::new();
    }
    let words = wanted.split(|c| !c.is_ascii_alphanumeric());
    words.max_by_key(|word| word.len()).unwrap_or_default().iter().collect()
}

/// Whether a line can hold this word, in whatever case: most cannot, and need not be understood.
fn may_hold(line: &str, word: &str) -> bool {
    let (line, word) = (line.as_bytes(), word.as_bytes());
    let Some(first) = word.first() else { return true };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), line)
        .any(|at| line.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

/// What came into a conversation: who said it, and its texts.
fn said(record: &JournalRecord) -> Vec<(Role, Vec<String>)> {
    let changes: &[ChatChange] = match record {
        JournalRecord::Turn { changes, .. }
        | JournalRecord::Replied { changes, .. }
        | JournalRecord::Looked { changes, .. }
        | JournalRecord::Retried { changes, .. }
        | JournalRecord::WentOn { changes, .. }
        | JournalRecord::Ended { changes, .. } => changes,
        JournalRecord::CallEnded { result, .. } => return vec![(Role::Tool, vec![result.text()])],
        _ => &[],
    };
    let added = changes.iter().filter_map(|change| match change {
        ChatChange::Added(ChatEntryRecord { message, .. }) => {
            Some((message.role, message.parts.iter().map(text_of).collect()))
        }
        _ => None,
    });
    added.collect()
}

fn text_of(part: &Part) -> String {
    match part {
        Part::Text(text) => text.clone(),
        Part::Thinking(thinking) => thinking.text.clone(),
        Part::ToolCall(call) => format!("{} {}", call.name, call.arguments),
        Part::ToolResult(result) => result.text(),
        Part::Media(media) => media.name.clone().unwrap_or_default(),
        Part::Other(_) => String::new(),
    }
}

/// What stands around the first place in which the characters, all small, stand in a text.
fn excerpt(text: &str, wanted: &[char]) -> Option<String> {
    let small = text.to_lowercase();
    let at = small.find(&wanted.iter().collect::<String>())?;
    // In small letters a text may have more or fewer characters: the place in the text is found by counting them.
    let before = small[..at].chars().count();
    let (mut passed, mut start) = (0, text.len());
    for (place, c) in text.char_indices() {
        if passed >= before {
            start = place;
            break;
        }
        passed += c.to_lowercase().count();
    }
    let around = limits::SESSION_EXCERPT_CHARS;
    let from = text[..start].char_indices().rev().nth(around - 1).map_or(0, |(place, _)| place);
    let lead = text[from..start].chars().count();
    let rest = cut(&text[from..], lead + wanted.len() + around);
    let line = rest.split_whitespace().collect::<Vec<_>>().join(" ");
    Some(if from > 0 { format!("…{line}") } else { line })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_can_hold_the_text_are_understood() {
        let word = |text: &str| longest_word(&text.chars().flat_map(char::to_lowercase).collect::<Vec<_>>());
        for (text, longest) in [("a Needle\n", "needle"), ("\"{}\"", ""), ("straße", ""), ("x-yz", "yz"), ("", "")] {
            assert_eq!(word(text), longest, "{text}");
        }
        for (line, word, may) in [
            (r#"{"text":"A NEEDLE"}"#, "needle", true),
            (r#"{"text":"nn need"}"#, "needle", false),
            (r#"{"text":"nothing"}"#, "", true),
        ] {
            assert_eq!(may_hold(line, word), may, "{line}");
        }
    }

    #[test]
    fn an_excerpt_shows_what_stands_around() {
        let long = format!("{}Needle\n in{}", "ä".repeat(100), " ü".repeat(100));
        let around = limits::SESSION_EXCERPT_CHARS;
        for (text, wanted, shown) in [
            ("a Needle\n  here", "needle", Some("a Needle here".to_owned())),
            ("nothing", "needle", None),
            ("İstanbul İs", "is", None),
            ("İ İ İ ẞ Straße", "straße", Some("İ İ İ ẞ Straße".into())),
            (&long, "needle", Some(format!("…{}Needle in{}…", "ä".repeat(around), " ü".repeat((around - 4) / 2)))),
        ] {
            let wanted: Vec<char> = wanted.chars().flat_map(char::to_lowercase).collect();
            assert_eq!(excerpt(text, &wanted), shown, "{text}");
        }
    }
}
