//! Tool calls that a model printed as text, as models do whose server does not look for them.
//!
//! A text is a call, or several, where it is nothing else from some place to its end: a form below that begins the text, a
//! line, or, for marks that no prose has (`<|…|>`), anything. What follows the calls makes them text again: a call that is
//! quoted or explained is none. Neither is one without a mark whose line before says that it is an example, nor one inside a
//! fence that began before it. Only tools that were offered can be called; `server__` before a name may be missing if one
//! tool alone is meant.
//!
//! | form | of |
//! |---|---|
//! | `{"name": …, "arguments": {…}}`, `[{…}, …]`, `{"tool_calls": [{…}]}`, several in a row, each also in a fence | anyone |
//! | `<tool_call>{…}</tool_call>` | Hermes, Qwen, Granite |
//! | `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>` | Qwen3-Coder |
//! | `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>` | GLM |
//! | `<function=name>{…}</function>`, `<\|python_tag\|>{…}`, `[name(key="value")]` | Llama |
//! | `[TOOL_CALLS][{…}]`, `[TOOL_CALLS]name[ARGS]{…}` | Mistral |
//! | `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, `<｜DSML｜invoke name="…">` | DeepSeek |
//! | `<start_function_call>call:name{key:<escape>value<escape>}<end_function_call>`, a fence `tool_code` | Gemma |
//! | `<\|channel\|>commentary to=functions.name <\|constrain\|>json<\|message\|>{…}<\|call\|>` | gpt-oss (harmony) |
//! | `<\|tool_call_begin\|>functions.name:0<\|tool_call_argument_begin\|>{…}<\|tool_call_end\|>` | Kimi |
//! | `<invoke name="…"><parameter name="…">value</parameter></invoke>` | MiniMax |

mod call_reader;
mod literal;
mod marks;
mod printed_arguments;
mod printed_call;
mod scan;
#[cfg(test)]
mod tests;

pub use printed_call::PrintedCall;

use super::{incoming_reply::too_large, tool_names::ToolNames};
use crate::{error::Fault, limits};
use call_reader::{PrintedCallOutcome, PrintedCallPosition, read};

const FENCE: &str = "```";
/// Words of a line that announces an example.
const EXAMPLE: [&str; 9] =
    ["example", "e.g.", "for instance", "such as", "like so", "like this", "format", "syntax", "would look"];

/// A text as it comes: what cannot become a call is let through at once, the rest is held back until that is known. What comes
/// of a text does not depend on where it is cut.
pub struct PrintedCallFilter<'a> {
    names: &'a ToolNames,
    /// What may become calls, from its first byte on, if that is so.
    held: String,
    is_candidate: bool,
    /// Bytes that must be there before the candidate is looked at again: so all of its looks take linear time.
    next_look: usize,
    at: PrintedTextPosition,
    /// In the text that was let through a fence is open.
    fenced: bool,
    /// The newest line with words that was let through, the beginning of it, and the one that grows.
    line: String,
    growing: String,
    /// Bytes of candidates that were none: beyond [`limits::PRINTED_DOUBT_BYTES`] the rest of the text is let through.
    examined: usize,
    /// The last character that was let through and is not blank.
    last: char,
    doubt: Option<PrintedCallDoubt>,
}

/// Why what looks like a call is none.
struct PrintedCallDoubt {
    why: String,
    /// The text ends in its middle.
    is_cut: bool,
}

/// Where the next character stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrintedTextPosition {
    /// Before all text.
    Beginning,
    /// Before all else in its line.
    Line,
    /// After so many backticks that began a line.
    Ticks(usize),
    Text,
}

/// What is left of a text at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PrintedTextRemainder {
    /// What turned out to be no call.
    pub text: String,
    /// Else the calls.
    pub calls: Vec<PrintedCall>,
    /// Why the text is no call though it ends like one, for the model that wrote it.
    pub doubt: Option<String>,
}

impl<'a> PrintedCallFilter<'a> {
    /// Nothing has come yet. Only what `names` offers can be called.
    pub fn new(names: &'a ToolNames) -> Self {
        Self {
            names,
            held: String::new(),
            is_candidate: false,
            next_look: 0,
            at: PrintedTextPosition::Beginning,
            fenced: false,
            line: String::new(),
            growing: String::new(),
            examined: 0,
            last: ' ',
            doubt: None,
        }
    }

    /// Takes the next piece. Returns what is certain to be text by now.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if more than [`limits::REPLY_BYTES`] are held back.
    pub fn take(&mut self, piece: &str) -> Result<String, Fault> {
        self.held.push_str(piece);
        let mut text = String::new();
        self.advance(false, &mut text);
        if self.held.len() > limits::REPLY_BYTES { Err(too_large()) } else { Ok(text) }
    }

    /// Something other than text comes next: what is held back is text after all.
    pub fn interrupt(&mut self) -> String {
        if !self.held.trim().is_empty() {
            self.at = PrintedTextPosition::Text;
        }
        self.is_candidate = false;
        std::mem::take(&mut self.held)
    }

    /// The text is at its end.
    pub fn finish(mut self) -> PrintedTextRemainder {
        let mut text = String::new();
        let calls = self.advance(true, &mut text);
        let ends_like_one = matches!(self.last, '}' | ']' | ')' | '>' | '`');
        let doubt = self.doubt.filter(|doubt| calls.is_empty() && (doubt.is_cut || ends_like_one));
        PrintedTextRemainder { text, calls, doubt: doubt.map(|doubt| doubt.why) }
    }

    /// Lets through what cannot become a call. Returns the calls that it is at its end.
    fn advance(&mut self, is_whole: bool, text: &mut String) -> Vec<PrintedCall> {
        let mut from = 0;
        let mut calls = Vec::new();
        while from < self.held.len() {
            let rest = &self.held[from..];
            if !self.is_candidate {
                let Some(c) = rest.chars().next() else { break };
                if self.may_begin(c, rest) {
                    (self.is_candidate, self.next_look) = (true, 0);
                } else {
                    from += c.len_utf8();
                    self.plain(c, text);
                }
                continue;
            }
            if !is_whole && rest.len() < self.next_look {
                break;
            }
            match read(rest, self.place(), self.names, is_whole) {
                PrintedCallOutcome::More => {
                    self.next_look = rest.len() + rest.len() / 8 + 1;
                    break;
                }
                PrintedCallOutcome::Calls(found) => {
                    calls = found;
                    from = self.held.len();
                }
                PrintedCallOutcome::Text { examined, doubt } => {
                    self.examined += examined;
                    if let Some(why) = doubt {
                        self.doubt = Some(PrintedCallDoubt { why, is_cut: is_whole && examined == rest.len() });
                    }
                    self.is_candidate = false;
                    // White space before it is looked at once, and what follows may begin a call itself.
                    let blank = rest.len() - rest.trim_start().len();
                    let first = rest.chars().next().map_or(1, char::len_utf8);
                    let rejected = self.held[from..from + blank.max(first)].to_owned();
                    from += rejected.len();
                    rejected.chars().for_each(|c| self.plain(c, text));
                }
            }
        }
        self.held.drain(..from);
        calls
    }

    fn place(&self) -> PrintedCallPosition {
        match self.at {
            PrintedTextPosition::Beginning => PrintedCallPosition::Beginning,
            PrintedTextPosition::Line if !is_example(&self.line) => PrintedCallPosition::Line,
            PrintedTextPosition::Line => PrintedCallPosition::AfterExample,
            PrintedTextPosition::Ticks(_) | PrintedTextPosition::Text => PrintedCallPosition::Inside,
        }
    }

    /// Whether a call may begin with this character, as far as a glance tells at what follows it.
    fn may_begin(&self, c: char, rest: &str) -> bool {
        if self.fenced || self.examined > limits::PRINTED_DOUBT_BYTES {
            return false;
        }
        match self.at {
            PrintedTextPosition::Beginning => {
                let is_first = |word: &str| self.names.may_become_one(word);
                c.is_whitespace() || is_opening(c) || is_first(c.encode_utf8(&mut [0; 4]))
            }
            PrintedTextPosition::Line => is_opening(c),
            PrintedTextPosition::Ticks(_) | PrintedTextPosition::Text => {
                let is_special = |begin| rest.len() == 1 || rest[1..].starts_with(begin);
                c == '<' && is_special(['|', '｜']) || c == '[' && is_special(['T', 'T'])
            }
        }
    }

    /// A character of plain text.
    fn plain(&mut self, c: char, text: &mut String) {
        text.push(c);
        if !c.is_whitespace() {
            self.last = c;
        }
        self.at = match (self.at, c) {
            (_, '\n') => PrintedTextPosition::Line,
            (PrintedTextPosition::Beginning, c) if c.is_whitespace() => PrintedTextPosition::Beginning,
            (PrintedTextPosition::Line, ' ' | '\t') => PrintedTextPosition::Line,
            (PrintedTextPosition::Line | PrintedTextPosition::Beginning, '`') => PrintedTextPosition::Ticks(1),
            (PrintedTextPosition::Ticks(1), '`') => PrintedTextPosition::Ticks(2),
            (PrintedTextPosition::Ticks(2), '`') => {
                self.fenced = !self.fenced;
                PrintedTextPosition::Text
            }
            _ => PrintedTextPosition::Text,
        };
        if c == '\n' {
            if !self.growing.trim().is_empty() {
                self.line = std::mem::take(&mut self.growing);
            }
            self.growing.clear();
        } else if self.growing.len() < limits::PRINTED_LINE_BYTES {
            self.growing.push(c);
        }
    }
}

/// Whether a form of a call may begin a line with this character; the letters are those of gpt-oss without its marks.
fn is_opening(c: char) -> bool {
    matches!(c, '{' | '[' | '<' | '`' | 'a' | 'c' | 't')
}

/// Whether what follows this line is shown and not meant.
fn is_example(line: &str) -> bool {
    let line = line.to_lowercase();
    EXAMPLE.iter().any(|word| line.contains(word))
}
