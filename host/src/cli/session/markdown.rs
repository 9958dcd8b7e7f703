//! Formats a session as Markdown. Text of others stands in quotes and fences that it cannot end.

use std::collections::HashMap;

use super::{
    loaded_transcript::LoadedTranscript,
    times::{date, instant},
    transcript_words::{media, outcome, speaker},
};
use crate::{
    chat::{Part, Role, ToolCall, ToolResult, ToolResultContent},
    cli::render::{cost, escaped, json_line, name},
    session::{RunTranscript, SessionHeader},
};

/// Returns the document of a session.
pub fn of(read: &LoadedTranscript) -> String {
    let LoadedTranscript { id, header, transcript, .. } = read;
    let mut text = front_matter(id, header);
    text.push_str(&format!("\n# {}\n", plain(&header.title)));
    for run in transcript.runs() {
        add_run(&mut text, run);
    }
    let total = transcript.ledger().total();
    if total.completions > 0 {
        text.push_str("\n## Usage\n\n| agent | completions | tokens | cost |\n|---|---|---|---|\n");
        let rows = transcript.ledger().agents().map(|(agent, tally)| (plain(agent), *tally));
        for (agent, tally) in rows.chain([("**all**".to_owned(), total)]) {
            let (completions, tokens) = (tally.completions, tally.usage.total());
            let cost = cost(&tally);
            text.push_str(&format!("| {agent} | {completions} | {tokens} | {cost} |\n"));
        }
    }
    if !header.parts.is_empty() {
        text.push_str("\n## Begun with\n\n| kind | name | digest |\n|---|---|---|\n");
        for part in &header.parts {
            text.push_str(&format!("| {} | {} | {} |\n", part.kind.word(), plain(&part.name), part.digest));
        }
    }
    // The document may be shown in a terminal.
    escaped(&text)
}

/// Returns the facts of a session as YAML front matter.
fn front_matter(id: &str, header: &SessionHeader) -> String {
    let SessionHeader { created, host, agent, model, title, forked_from, follows, .. } = header;
    // JSON strings are valid YAML.
    let quoted = |text: &str| json_line(&text);
    let mut lines = vec![
        format!("session: {}", quoted(id)),
        format!("title: {}", quoted(title)),
        format!("agent: {}", quoted(agent)),
        format!("model: {}", quoted(model)),
        format!("created: {}", quoted(&date(*created).unwrap_or_default())),
        format!("host: {}", quoted(host)),
    ];
    lines.extend(forked_from.iter().map(|fork| format!("forked_from: {{id: {}, at: {}}}", quoted(&fork.id), fork.at)));
    lines.extend(follows.iter().map(|before| format!("follows: {}", quoted(before))));
    format!("---\n{}\n---\n", lines.join("\n"))
}

fn add_run(text: &mut String, run: &RunTranscript) {
    text.push_str(&format!("\n## Run {}: {}\n\n", run.run, plain(&run.instance)));
    let began = date(instant(run.began)).unwrap_or_default();
    // A team has no model.
    let on = if run.model.is_empty() { String::new() } else { format!(" on {}", plain(&run.model)) };
    text.push_str(&format!("{}{on}, started {began}", plain(&run.agent)));
    if let Some(errand) = &run.errand {
        text.push_str(&format!(", for call {1} of run {0}", errand.run, code(&errand.call)));
    }
    if let Some(before) = run.continues {
        text.push_str(&format!(", continues run {before}"));
    }
    text.push_str(".\n");
    let results = run.results();
    for said in run.said().filter(|said| said.message.role != Role::Tool) {
        text.push_str(&format!("\n### {}\n", plain(&speaker(&said.message, said.note, said.edited))));
        for part in &said.message.parts {
            add_part(text, part, run, &results);
        }
    }
    for message in run.waiting() {
        text.push_str(&format!("\n### {}, unread\n", plain(&speaker(message, message.is_note(), false))));
        message.parts.iter().for_each(|part| add_part(text, part, run, &results));
    }
    let end = run.ended.as_ref().map_or_else(|| "is not finished".into(), outcome);
    text.push_str(&format!("\nRun {} {}.\n", run.run, plain(&end)));
}

fn add_part(text: &mut String, part: &Part, run: &RunTranscript, results: &HashMap<&str, &ToolResult>) {
    match part {
        Part::Text(said) => text.push_str(&quote(said)),
        Part::Thinking(thinking) if thinking.text.trim().is_empty() => {}
        Part::Thinking(thinking) => text.push_str(&format!("\nThought:\n{}", quote(&thinking.text))),
        Part::Media(what) => text.push_str(&format!("\n[{}]\n", plain(&media(what)))),
        Part::Other(opaque) => text.push_str(&format!("\n[{}]\n", plain(&opaque.kind))),
        Part::ToolCall(call) => add_call(text, call, run, results.get(&*call.id).copied()),
        // A result is shown with its call.
        Part::ToolResult(_) => {}
    }
}

fn add_call(text: &mut String, call: &ToolCall, run: &RunTranscript, result: Option<&ToolResult>) {
    text.push_str(&format!("\nCall {} of {}:\n", code(&call.id), code(&call.name)));
    text.push_str(&fenced("json", &call.arguments));
    let below = run.children.iter().filter(|(of, _)| *of == call.id).map(|(_, child)| child.to_string());
    let below: Vec<_> = below.collect();
    if !below.is_empty() {
        text.push_str(&format!("\nSub-runs of this call: {}.\n", below.join(", ")));
    }
    let Some(result) = result else {
        let begun = if run.has_begun(&call.id) { ", but was started" } else { "" };
        text.push_str(&format!("\nCall {} has no result{begun}.\n", code(&call.id)));
        return;
    };
    let what = if result.is_error { "Error" } else { "Result" };
    text.push_str(&format!("\n{what} of {}:\n", code(&call.id)));
    for content in &result.content {
        match content {
            ToolResultContent::Text(said) => text.push_str(&fenced("text", said)),
            ToolResultContent::Json(json) => text.push_str(&fenced("json", json)),
            ToolResultContent::Media(what) => text.push_str(&format!("\n[{}]\n", plain(&media(what)))),
            ToolResultContent::Other(opaque) => text.push_str(&format!("\n[{}]\n", plain(&opaque.kind))),
        }
    }
}

/// Escapes a name given by others, as a part of a line.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for c in name(text).chars() {
        if matches!(c, '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '#') {
            plain.push('\\');
        }
        plain.push(c);
    }
    plain
}

/// Formats a name given by others as inline code.
fn code(text: &str) -> String {
    let (text, ticks) = (name(text), "`".repeat(longest_run(text) + 1));
    // One blank on each side is not rendered, and separates the text from the ticks.
    if ticks.len() > 1 { format!("{ticks} {text} {ticks}") } else { format!("`{text}`") }
}

/// Formats a text as a quote, which ends everything that begins in it.
fn quote(text: &str) -> String {
    let lines = text.trim_end().lines().map(|line| format!("> {line}"));
    format!("\n{}\n", lines.collect::<Vec<_>>().join("\n").replace("> \n", ">\n"))
}

/// Formats a text in a fence that is longer than any run of backticks in it.
fn fenced(language: &str, text: &str) -> String {
    let fence = "`".repeat((longest_run(text) + 1).max(3));
    format!("\n{fence}{language}\n{}\n{fence}\n", text.trim_end_matches('\n'))
}

/// Returns the length of the longest run of backticks.
fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_text_cannot_end_its_quote_or_fence() {
        for (text, shown) in [
            ("", "\n```text\n\n```\n"),
            ("plain\n\n", "\n```text\nplain\n```\n"),
            ("```\nrm\n```", "\n````text\n```\nrm\n```\n````\n"),
            ("a `````` b", "\n```````text\na `````` b\n```````\n"),
        ] {
            assert_eq!(fenced("text", text), shown);
        }
        for (text, shown) in
            [("one", "\n> one\n"), ("one\n\n# two\n```\n", "\n> one\n>\n> # two\n> ```\n"), ("a\r\nb", "\n> a\n> b\n")]
        {
            assert_eq!(quote(text), shown);
        }
        for (text, shown) in [("a_b", "`a_b`"), ("`", "`` ` ``"), ("x\n## y", "`x ## y`")] {
            assert_eq!(code(text), shown);
        }
        assert_eq!(plain("# a*b\n<c> [d](e)"), r"\# a\*b \<c\> \[d\](e)");
    }
}
