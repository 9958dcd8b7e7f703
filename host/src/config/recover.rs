//! Parses a file with mistakes repeatedly, each time without the parts found wrong, to report all mistakes at once.

use std::collections::BTreeSet;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_saphyr::Error;

use super::explain::explain;
use crate::{error::Report, limits};

/// The name of the text in messages.
const SUBJECT: &str = "the config";

/// Parses a text. A wrong part is removed with everything below it, and the rest is parsed again, up to
/// [`limits::CONFIG_MISTAKES`] times.
///
/// Returns the config without its unknown keys, and the mistakes in the order of the file. There is no config if anything
/// else had to be removed, since other parts may refer to it.
pub(super) fn parse<T: DeserializeOwned>(text: &str) -> (Option<T>, Vec<Report>) {
    let mut source = ConfigLines::new(text);
    let (mut mistakes, mut is_config_usable) = (Vec::new(), true);
    // If the original text is valid YAML, a later syntax error was caused by a removal.
    let is_yaml = read::<IgnoredAny>(text).is_ok();
    while mistakes.len() < limits::CONFIG_MISTAKES {
        let error = match read::<T>(&source.text()) {
            Ok(config) => {
                return (is_config_usable.then_some(config), mistakes);
            }
            Err(error) => error,
        };
        if !is_recoverable(&error) {
            if mistakes.is_empty() || !is_yaml {
                mistakes.push(explain(&error, &source.text(), SUBJECT));
            }
            break;
        }
        let line = error.location().and_then(|at| (at.line() as usize).checked_sub(1));
        // A missing key may be the one that was removed.
        let is_missing = matches!(error.without_snippet(), Error::SerdeMissingField { .. });
        let is_caused_by_cut = |line| source.was_cut_at(line) && (is_missing || source.is_emptied(line));
        if !line.is_some_and(is_caused_by_cut) {
            mistakes.push(explain(&error, &source.text(), SUBJECT));
        }
        // Removing an unknown key does not change the meaning of the rest.
        let is_harmless = matches!(error.without_snippet(), Error::SerdeUnknownField { .. });
        match line.and_then(|line| source.cut(line)) {
            Some(ConfigCut::Key) => is_config_usable &= is_harmless,
            Some(ConfigCut::Entry) => is_config_usable = false,
            None => break,
        }
    }
    (None, mistakes)
}

/// Parses a text in one pass.
pub(super) fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    // An empty file is a valid config.
    let text = if text.trim().is_empty() { "{}" } else { text };
    // YAML 1.2 booleans: `n`, `no` and `on` are texts. In params nothing else would tell that they are meant as texts.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
}

/// Returns `true` if the error is a wrong key or value in valid YAML, so that its lines can be removed.
fn is_recoverable(error: &Error) -> bool {
    matches!(
        error.without_snippet(),
        Error::SerdeUnknownField { .. }
            | Error::SerdeMissingField { .. }
            | Error::DuplicateMappingKey { .. }
            | Error::Unexpected { .. }
            | Error::InvalidScalar { .. }
            | Error::InvalidBooleanStrict { .. }
            | Error::Message { .. }
            | Error::SerdeInvalidType { .. }
            | Error::SerdeInvalidValue { .. }
            | Error::SerdeUnknownVariant { .. }
    )
}

/// The part that was removed from a text.
#[derive(Debug, PartialEq, Eq)]
enum ConfigCut {
    /// A key on lines of its own, with its value.
    Key,
    /// More than a key: an entry of a list, or everything on one line.
    Entry,
}

/// The lines of a text, some of which are removed; the others keep their numbers.
struct ConfigLines<'a> {
    lines: Vec<&'a str>,
    cut: BTreeSet<usize>,
}

impl<'a> ConfigLines<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.lines().collect(), cut: BTreeSet::new() }
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().enumerate();
        lines.map(|(at, line)| if self.cut.contains(&at) { "\n".into() } else { format!("{line}\n") }).collect()
    }

    /// Removes what begins at this line, with all deeper lines and every key above that this leaves empty. Returns `None`
    /// if nothing can be removed.
    fn cut(&mut self, line: usize) -> Option<ConfigCut> {
        let begins = self.there(line)?;
        if depth(begins) == 0 && (begins.starts_with("- ") || !begins.contains(':')) {
            // The file as a whole is not a config.
            return None;
        }
        let holds_one_key = !is_entry(begins) && !begins.contains(['{', '[']);
        self.cut.extend(line..self.end_of(line));
        // A key whose value was removed would be reported as another mistake.
        while let Some(above) = self.emptied_above(line) {
            self.cut.insert(above);
        }
        Some(if holds_one_key { ConfigCut::Key } else { ConfigCut::Entry })
    }

    /// Returns `true` if a part of what begins at this line was removed.
    fn was_cut_at(&self, line: usize) -> bool {
        // The first key of an entry stands on the entry's own line.
        self.cut.range(line..self.end_of(line)).next().is_some()
    }

    /// Returns the line if it was not removed and holds more than a comment.
    fn there(&self, line: usize) -> Option<&'a str> {
        let text = self.lines.get(line).filter(|_| !self.cut.contains(&line))?;
        let text = text.trim_start();
        (!text.is_empty() && !text.starts_with('#')).then(|| self.lines[line])
    }

    /// Returns the first line after the block that begins at this line.
    fn end_of(&self, line: usize) -> usize {
        let deep = depth(self.lines[line]);
        let is_over = |at: &usize| !self.lines[*at].trim().is_empty() && depth(self.lines[*at]) <= deep;
        (line + 1..self.lines.len()).find(is_over).unwrap_or(self.lines.len())
    }

    /// Returns the key above this line if nothing is left below it and it can be removed alone.
    fn emptied_above(&self, line: usize) -> Option<usize> {
        let (above, text) = (0..line).rev().find_map(|at| Some((at, self.there(at)?)))?;
        // Lines below the dash of an entry belong to that entry.
        let is_alone = !is_entry(text) || self.next_after(above).is_none_or(|next| depth(next) <= depth(text));
        (is_alone && self.is_emptied(above)).then_some(above)
    }

    /// Returns `true` if a key ends this line and nothing is left of its value.
    fn is_emptied(&self, line: usize) -> bool {
        let Some(text) = self.there(line) else { return false };
        let without_comment = text.split(" #").next().unwrap_or(text).trim_end();
        let key = if is_entry(text) { depth(text) + 2 } else { depth(text) };
        let is_below = |next: &str| {
            // Entries of a list may be as deep as their key.
            depth(next) > key || depth(next) == key && is_entry(next)
        };
        without_comment.ends_with(':') && !self.next_after(line).is_some_and(is_below)
    }

    /// Returns the next line that is not removed and holds more than a comment.
    fn next_after(&self, line: usize) -> Option<&'a str> {
        (line + 1..self.lines.len()).find_map(|at| self.there(at))
    }
}

fn is_entry(line: &str) -> bool {
    line.trim_start().starts_with("- ")
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn told(text: &str) -> (bool, Vec<String>) {
        let (config, mistakes) = parse::<Config>(text);
        (config.is_some(), mistakes.iter().map(|report| report.clone().in_file("f").message).collect())
    }

    #[test]
    fn mistakes_of_all_entries_are_told_with_their_lines() {
        let text = "\
entry_agnet: a
providers:
  - name: m
    kind: openai
    model: gpt
    temprature: 1
  - name: n
    kind: opnai
agents:
  - name: a
    colour: red
    options:
      max_iterations: many
  - nmae: b
    plugins: {count-text: }
  - name: c
    toolboxes: [ask
    ]
    plugins: 3
";
        let (is_readable, told) = told(text);
        assert!(!is_readable, "entries are gone that others may name");
        let expected = [
            "there is no key `entry_agnet` (f, line 1, ",
            "there is no key `temprature` (f, line 6, ",
            "`kind` cannot be `opnai` (f, line 8, ",
            "there is no key `colour` (f, line 11, ",
            "`max_iterations` is not a whole number (f, line 13, ",
            "there is no key `nmae` (f, line 14, ",
            "`plugins` is not a mapping (f, line 19, ",
        ];
        assert_eq!(told.len(), expected.len(), "{told:#?}");
        for (told, expected) in told.iter().zip(expected) {
            assert!(told.starts_with(expected), "{told}, not {expected}");
        }
    }

    #[test]
    fn key_with_removed_value_is_not_reported() {
        for (text, lines) in [
            ("agents:\n  - options:\n      max_iterations: many\n    name: a\n", &[3][..]),
            ("agents:\n  - name: a\n    options: # mine\n      max_iterations: many\n    colour: red\n", &[4, 5]),
            ("agents:\n  - options:\n      max_iterations: many\n  - name: b\n    colour: red\n", &[3, 5]),
            ("agents:\n  - name: a\n    colour: red\n    options: # mine\n", &[3, 4]),
        ] {
            let told = told(text).1;
            assert_eq!(told.len(), lines.len(), "{text}: {told:#?}");
            for (told, line) in told.iter().zip(lines) {
                assert!(told.contains(&format!("line {line},")), "{text}: {told}");
            }
        }
    }

    #[test]
    fn unknown_keys_leave_a_config_to_look_at() {
        assert!(told("agents:\n  - name: a\n    colour: red\n    options: {}\n").0);
        assert!(!told("agents:\n  - {name: a, colour: red}\n").0, "all of the entry is on that line");
        assert!(!told("agents:\n  - name: a\n    options: red\n").0, "what it was to say is not known");
    }

    #[test]
    fn invalid_yaml_is_reported_once() {
        for text in ["agents: [", "agents:\n  - name: \"a\n", "- a\n- b\n", "agents"] {
            let (is_readable, told) = told(text);
            assert!(!is_readable && told.len() == 1, "{text:?}: {told:#?}");
        }
    }

    #[test]
    fn mistakes_are_bounded() {
        let text: String = (0..2 * limits::CONFIG_MISTAKES).map(|n| format!("key{n}: 1\n")).collect();
        assert_eq!(told(&text).1.len(), limits::CONFIG_MISTAKES);
    }
}
