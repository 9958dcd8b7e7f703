use std::sync::Arc;

use super::{JournalLine, JournalLineContent, JournalReader, SessionError, SessionStore};
use shelly_core::{
    agent::journal::JournalRecord,
    chat::{ChatChange, ChatEntryRecord, Part, Role},
    error::{Report, cut},
    limits,
};

/// A message that contains the searched text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionSearchHit {
    /// The name of the session.
    pub id: String,
    /// The title of the session.
    pub title: String,
    /// The number of the journal line; 1 for the title.
    pub n: u64,
    /// The run; 0 for the title.
    pub run: u64,
    /// The role of the author; `None` for the title.
    pub role: Option<Role>,
    /// The text around the match, on one line.
    pub excerpt: String,
}

/// The result of a search.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SessionSearchResults {
    /// The hits, newest sessions first.
    pub found: Vec<SessionSearchHit>,
    /// Sessions that could not be read, or only in part, with the error.
    pub left_out: Vec<(String, Report)>,
}

impl SessionStore {
    /// Searches messages and titles for a text, case-insensitively, in the newest sessions first; returns at most `most`
    /// hits. Only the first [`limits::SESSION_SEARCH_CHARS`] characters of the text are used.
    ///
    /// # Errors
    ///
    /// [`SessionError`] if the folder cannot be read. A damaged session is searched up to the damage and reported in the
    /// result.
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
            // A session that was removed meanwhile is not reported.
            if let Err(error) = done
                && !matches!(self.journals.contains(&session.id), Ok(false))
            {
                searched.left_out.push((session.id, error.report()));
            }
        }
        searched.found.truncate(most);
        Ok(searched)
    }

    /// Adds the hits of a session to `all`, up to `most`. Searches everything that can be read, and returns the first error.
    fn search_in(
        &self,
        id: &str,
        (wanted, word): (&[char], &str),
        most: usize,
        all: &mut Vec<SessionSearchHit>,
    ) -> Result<(), SessionError> {
        let mut journal = JournalReader::open(Arc::clone(&self.journals), id)?;
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
                    for (role, texts) in texts_by_role(&record) {
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

/// Returns the longest word of letters and digits, which JSON never escapes; empty if the text is not ASCII.
fn longest_word(wanted: &[char]) -> String {
    if !wanted.iter().all(char::is_ascii) {
        return String::new();
    }
    let words = wanted.split(|c| !c.is_ascii_alphanumeric());
    words.max_by_key(|word| word.len()).unwrap_or_default().iter().collect()
}

/// Returns `false` if a line cannot contain this word in any case, so that it need not be parsed.
fn may_hold(line: &str, word: &str) -> bool {
    let (line, word) = (line.as_bytes(), word.as_bytes());
    let Some(first) = word.first() else { return true };
    memchr::memchr2_iter(*first, first.to_ascii_uppercase(), line)
        .any(|at| line.get(at..at + word.len()).is_some_and(|part| part.eq_ignore_ascii_case(word)))
}

/// Returns the messages that a record adds to a conversation: role and texts.
fn texts_by_role(record: &JournalRecord) -> Vec<(Role, Vec<String>)> {
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

/// Returns the text around the first match of the lower-case characters `wanted`.
fn excerpt(text: &str, wanted: &[char]) -> Option<String> {
    let small = text.to_lowercase();
    let at = small.find(&wanted.iter().collect::<String>())?;
    // Lower-casing can change the number of characters: the position in the text is found by counting them.
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
    fn search_parses_only_candidate_lines() {
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
    fn search_excerpt_shows_the_surrounding_text() {
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
