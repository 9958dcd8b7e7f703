//! Results that the host has cut, and their remaining pages.

use serde_json::{Value, json};
use shelly_plugin::{Content, types::ToolResult};

use crate::plan::{Call, History};

/// The host's tool that reads the rest of a result.
pub(crate) const READ_RESULT: &str = "read_result";

/// The maximum number of pages read for one task; more indicate an error.
pub(crate) const MAX_PAGES: usize = 64;

/// A result as far as it has been read.
pub(crate) enum Whole {
    /// The text, and the host's note if the rest is not available.
    Text(String, Option<String>),
    /// The call that reads the next page.
    Next(Call),
}

/// Assembles the whole text of a result from its pages. `can_turn` is set if the tool for them exists.
pub(crate) fn whole(result: &ToolResult, history: &History, can_turn: bool) -> Whole {
    let (mut text, mut cut) = text_of(result);
    let mut next = cut.as_deref().and_then(way_on);
    for _ in 0..MAX_PAGES {
        let Some(call) = next.take().filter(|_| can_turn) else { break };
        let Some(page) = history.result(&call) else { return Whole::Next(call) };
        let said = page.text();
        let Some((header, more)) = said.split_once("]\n").filter(|_| !page.is_error) else { break };
        text += more;
        (next, cut) = match header.rsplit_once("continue with offset ") {
            Some((_, offset)) => {
                let offset = offset.parse::<u64>().unwrap_or(u64::MAX);
                let arguments = json!({"call": call.arguments["call"], "offset": offset});
                (Some(Call { tool: READ_RESULT.into(), arguments }), Some(format!("{header}]")))
            }
            None => (None, None),
        };
    }
    Whole::Text(text, cut)
}

/// Returns the text of a result, and the host's note if the host has cut it.
pub(crate) fn text_of(result: &ToolResult) -> (String, Option<String>) {
    let is_cut = |said: &str| said.starts_with('[') && (said.ends_with(" were cut]") || way_on(said).is_some());
    match result.content.split_last() {
        Some((Content::Text(cut), rest)) if !rest.is_empty() && is_cut(cut) => {
            let whole = ToolResult { content: rest.to_vec(), ..result.clone() };
            (whole.text(), Some(cut.clone()))
        }
        _ => {
            let text = result.text();
            without_numbers(&text).unwrap_or((text, None))
        }
    }
}

/// Returns the lines of a result that has a number and a tab before each, and its header if lines of the file are missing:
/// "`a.txt`, lines 1 to 2 of 4".
fn without_numbers(text: &str) -> Option<(String, Option<String>)> {
    let (header, lines) = text.split_once('\n')?;
    let (_, range) = header.strip_prefix('`')?.rsplit_once("`, lines 1 to ")?;
    let (until, all) = range.split_once(" of ")?;
    let mut plain = String::new();
    for line in lines.lines() {
        let (number, line) = line.split_once('\t')?;
        number.trim().parse::<u64>().ok()?;
        plain.push_str(line);
        plain.push('\n');
    }
    Some((plain, (until != all).then(|| format!("[{header}]"))))
}

/// Returns the call that the host's note names for the rest of a result.
fn way_on(said: &str) -> Option<Call> {
    let (_, arguments) = said.strip_suffix(']')?.split_once(": call read_result with ")?;
    let arguments = serde_json::from_str::<Value>(arguments).ok().filter(Value::is_object)?;
    Some(Call { tool: READ_RESULT.into(), arguments })
}
