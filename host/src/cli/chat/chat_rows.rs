//! The rows of the person's side at the bottom of the screen: what waits, what is asked, what is typed, and the status.

use std::time::Duration;

use shelly_terminal::{
    live_region::RegionCursor,
    styled_line::{Style, StyledLine},
    text_editor::EditorView,
    theme::{StyleRole, Theme},
};

use super::chat_state::ChatState;
use crate::{
    cli::{
        live::{amount_in_words, elapsed_in_words},
        render::{name, one_line},
    },
    limits,
};

/// The mark before what is typed.
const INPUT_MARK: &str = "› ";
/// The word before the query of a search.
const SEARCH_MARK: &str = "search the history: ";

/// The facts in the status line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ChatStatus {
    pub model: String,
    pub agent: String,
    /// The tokens of the last request.
    pub tokens: u64,
    /// The context window of the model in tokens, if it is known.
    pub window: Option<u64>,
    /// The cost of the session, for people; `None` before the first request.
    pub cost: Option<String>,
    /// The session; `None` before the first message.
    pub session: Option<String>,
}

/// Returns the rows for a terminal of so many columns, and the place among them where the person types. `elapsed` is the time
/// of the running step.
pub fn chat_rows(
    state: &ChatState,
    status: &ChatStatus,
    elapsed: Option<Duration>,
    columns: usize,
    theme: &Theme,
) -> (Vec<StyledLine>, RegionCursor) {
    let muted = theme.style(StyleRole::Muted);
    let mut rows = queue_rows(state, muted);
    if let Some(prompt) = state.prompt() {
        rows.push(StyledLine::styled(prompt, theme.style(StyleRole::Warning)));
    }
    let first = rows.len();
    let cursor;
    if let Some((query, found)) = state.input().search() {
        let shown = found.map_or_else(|| "nothing found".to_owned(), |found| one_line(found, columns));
        let mut row = StyledLine::styled(SEARCH_MARK, muted);
        row.push(query, Style::new());
        cursor = RegionCursor { line: first, column: row.width() };
        rows.push(row);
        rows.push(StyledLine::styled(&format!("  {shown}"), if found.is_some() { Style::new() } else { muted }));
    } else {
        let EditorView { rows: input, cursor: place } = input_view(state, columns, theme);
        cursor = RegionCursor { line: first + place.line, column: place.column };
        rows.extend(input);
    }
    rows.extend(proposal_row(state, muted));
    let last = match state.hint() {
        Some(hint) => StyledLine::styled(hint, theme.style(StyleRole::Warning)),
        None => StyledLine::styled(&status_text(status, state.is_working(), elapsed), muted),
    };
    rows.push(last);
    (rows, cursor)
}

fn queue_rows(state: &ChatState, muted: Style) -> Vec<StyledLine> {
    let queue = state.queue();
    let shown = queue.iter().take(limits::CHAT_QUEUE_SHOWN);
    let mut rows: Vec<_> = shown
        .map(|message| StyledLine::styled(&format!("waits: {}", one_line(message, limits::LIVE_DETAIL_CHARS)), muted))
        .collect();
    if queue.len() > limits::CHAT_QUEUE_SHOWN {
        let more = queue.len() - limits::CHAT_QUEUE_SHOWN;
        rows.push(StyledLine::styled(&format!("waits: {more} more"), muted));
    }
    rows
}

fn input_view(state: &ChatState, columns: usize, theme: &Theme) -> EditorView {
    let width = columns.saturating_sub(INPUT_MARK.chars().count());
    let EditorView { rows, cursor } =
        state.input().editor().view(width, limits::CHAT_INPUT_ROWS, Style::new(), Style::new());
    let rows = rows.iter().enumerate().map(|(at, text)| {
        let mark = if at == 0 { INPUT_MARK } else { "  " };
        let mut row = StyledLine::styled(mark, theme.style(StyleRole::ListMarker));
        row.append(text);
        row
    });
    let cursor = RegionCursor { column: cursor.column + INPUT_MARK.chars().count(), ..cursor };
    EditorView { rows: rows.collect(), cursor }
}

fn proposal_row(state: &ChatState, muted: Style) -> Option<StyledLine> {
    let proposals = state.input().proposals();
    let shown: Vec<_> = proposals.iter().take(limits::CHAT_COMPLETIONS_SHOWN).map(|proposal| name(proposal)).collect();
    let more = proposals.len().saturating_sub(limits::CHAT_COMPLETIONS_SHOWN);
    let more = if more > 0 { format!("  and {more} more") } else { String::new() };
    (!shown.is_empty()).then(|| StyledLine::styled(&format!("  {}{more}", shown.join("  ")), muted))
}

/// Returns the status, the facts that matter most first: a narrow terminal cuts the last ones.
fn status_text(status: &ChatStatus, is_working: bool, elapsed: Option<Duration>) -> String {
    let ChatStatus { model, agent, tokens, window, cost, session } = status;
    let mut parts = Vec::new();
    if is_working {
        let time = elapsed_in_words(elapsed.unwrap_or_default());
        parts.push(if time.is_empty() { "Esc stops".into() } else { format!("{time}, Esc stops") });
    }
    parts.extend([model, agent].into_iter().filter(|part| !part.is_empty()).map(|part| name(part)));
    match window {
        Some(window) if *window > 0 && *tokens > 0 => {
            let share = tokens.saturating_mul(100) / window;
            parts.push(format!("{share} % of {}", amount_in_words(*window)));
        }
        _ if *tokens > 0 => parts.push(format!("{} tokens", amount_in_words(*tokens))),
        _ => {}
    }
    parts.extend(cost.iter().map(|cost| format!("cost {cost}")));
    parts.extend(session.iter().map(|session| name(session)));
    if session.is_none() {
        parts.push("/help".into());
    }
    parts.join(" · ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_names_what_is_known() {
        let status = ChatStatus { model: "m\x1b[2J".into(), agent: "ada".into(), ..ChatStatus::default() };
        assert_eq!(status_text(&status, false, None), "m\\u{1b}[2J · ada · /help");
        let status = ChatStatus {
            model: "m".into(),
            tokens: 32_000,
            window: Some(128_000),
            cost: Some("$0.01".into()),
            session: Some("s".into()),
            ..status
        };
        let seconds = Some(Duration::from_secs(7));
        assert_eq!(status_text(&status, true, seconds), "7 s, Esc stops · m · ada · 25 % of 128k · cost $0.01 · s");
        let status = ChatStatus { window: None, ..status };
        assert_eq!(status_text(&status, true, None), "Esc stops · m · ada · 32k tokens · cost $0.01 · s");
    }
}
