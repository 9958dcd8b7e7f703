//! Reads a file with mistakes again without them, so that all of them are told at once.

use std::collections::BTreeSet;

use serde::de::{DeserializeOwned, IgnoredAny};
use serde_saphyr::Error;

use super::{Config, explain::explain};
use crate::{error::Report, limits};

/// What a text holds.
pub(super) struct Parsed {
    /// None: so much is wrong that what is left says nothing of the rest.
    pub config: Option<Config>,
    /// What cannot be read, in the order of the file.
    pub mistakes: Vec<Report>,
}

/// Reads a text. What is wrong is taken out, with all that is below it, and the rest is read again: up to
/// [`limits::CONFIG_MISTAKES`] times.
pub(super) fn parse(text: &str) -> Parsed {
    let mut source = Source::new(text);
    let (mut mistakes, mut is_told_of_all) = (Vec::new(), true);
    // Whatever is wrong with its shape later on was made by what was taken out then.
    let is_yaml = read::<IgnoredAny>(text).is_ok();
    while mistakes.len() < limits::CONFIG_MISTAKES {
        let error = match read::<Config>(&source.text()) {
            Ok(config) => {
                let config = is_told_of_all.then_some(config);
                return Parsed { config, mistakes };
            }
            Err(error) => error,
        };
        if !is_of_value(&error) {
            if mistakes.is_empty() || !is_yaml {
                mistakes.push(explain(&error, &source.text()));
            }
            break;
        }
        let line = error.location().and_then(|at| (at.line() as usize).checked_sub(1));
        // What is missing may be what was taken out.
        let is_of_ours =
            |line| matches!(error.without_snippet(), Error::SerdeMissingField { .. }) && source.was_cut_at(line);
        if !line.is_some_and(is_of_ours) {
            mistakes.push(explain(&error, &source.text()));
        }
        // Without a key that there is not, nothing else changes its meaning.
        let is_harmless = matches!(error.without_snippet(), Error::SerdeUnknownField { .. });
        match line.and_then(|line| source.cut(line)) {
            Some(Cut::Key) => is_told_of_all &= is_harmless,
            Some(Cut::Entry) => is_told_of_all = false,
            None => break,
        }
    }
    Parsed { config: None, mistakes }
}

fn read<T: DeserializeOwned>(text: &str) -> Result<T, Error> {
    // Nothing at all is a config too.
    let text = if text.trim().is_empty() { "{}" } else { text };
    // As YAML 1.2 has it: `n`, `no` and `on` are texts. In params nothing else would tell that they are meant so.
    let options = serde_saphyr::options! { strict_booleans: true };
    serde_saphyr::from_str_with_options(text, options)
}

/// Returns `true` if the text is YAML as far as that, and a key or a value in it is wrong.
fn is_of_value(error: &Error) -> bool {
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

/// What was taken out of a text.
#[derive(Debug, PartialEq, Eq)]
enum Cut {
    /// A key that stands on lines of its own, with its value.
    Key,
    /// More: an entry of a list, or all that stands on one line.
    Entry,
}

/// The lines of a text, of which some are taken out: the numbers of the others stay.
struct Source<'a> {
    lines: Vec<&'a str>,
    cut: BTreeSet<usize>,
}

impl<'a> Source<'a> {
    fn new(text: &'a str) -> Self {
        Self { lines: text.lines().collect(), cut: BTreeSet::new() }
    }

    fn text(&self) -> String {
        let lines = self.lines.iter().enumerate();
        lines.map(|(at, line)| if self.cut.contains(&at) { "\n".into() } else { format!("{line}\n") }).collect()
    }

    /// Takes out what begins at this line, with all lines that are deeper. What is left empty by that goes too. `None` if
    /// nothing is there to be taken out.
    fn cut(&mut self, line: usize) -> Option<Cut> {
        let begins = self.there(line)?;
        if depth(begins) == 0 && (begins.starts_with("- ") || !begins.contains(':')) {
            // The whole file is something else than a config.
            return None;
        }
        let is_entry = begins.trim_start().starts_with("- ");
        let holds_one_key = !is_entry && !begins.contains(['{', '[']);
        self.cut.extend(line..self.end_of(line));
        // A key without what was below it has no value, which is another mistake.
        while let Some(above) = self.emptied_above(line) {
            self.cut.insert(above);
        }
        Some(if holds_one_key { Cut::Key } else { Cut::Entry })
    }

    /// Whether something was taken out of what begins at this line.
    fn was_cut_at(&self, line: usize) -> bool {
        // The first key of an entry stands on the entry's own line.
        self.cut.range(line..self.end_of(line)).next().is_some()
    }

    /// The line, if something stands on it.
    fn there(&self, line: usize) -> Option<&'a str> {
        let text = self.lines.get(line).filter(|_| !self.cut.contains(&line))?;
        let text = text.trim_start();
        (!text.is_empty() && !text.starts_with('#')).then(|| self.lines[line])
    }

    /// The first line after what begins at this one.
    fn end_of(&self, line: usize) -> usize {
        let deep = depth(self.lines[line]);
        let is_over = |at: &usize| !self.lines[*at].trim().is_empty() && depth(self.lines[*at]) <= deep;
        (line + 1..self.lines.len()).find(is_over).unwrap_or(self.lines.len())
    }

    /// The key above this line, if nothing is left below it.
    fn emptied_above(&self, line: usize) -> Option<usize> {
        let (above, text) = (0..line).rev().find_map(|at| Some((at, self.there(at)?)))?;
        if !text.trim_end().ends_with(':') {
            return None;
        }
        let next = (above + 1..self.lines.len()).find_map(|at| self.there(at));
        let is_below = |next: &str| {
            // Entries of a list may be as deep as their key.
            depth(next) > depth(text) || depth(next) == depth(text) && next.trim_start().starts_with("- ")
        };
        (!next.is_some_and(is_below)).then_some(above)
    }
}

fn depth(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> (bool, Vec<String>) {
        let Parsed { config, mistakes } = parse(text);
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
    fn unknown_keys_leave_a_config_to_look_at() {
        assert!(told("agents:\n  - name: a\n    colour: red\n    options: {}\n").0);
        assert!(!told("agents:\n  - {name: a, colour: red}\n").0, "all of the entry is on that line");
        assert!(!told("agents:\n  - name: a\n    options: red\n").0, "what it was to say is not known");
    }

    #[test]
    fn what_is_no_yaml_is_told_once() {
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
