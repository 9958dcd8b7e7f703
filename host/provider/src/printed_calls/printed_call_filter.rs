use super::{
    call_reader::{PrintedCallOutcome, PrintedCallPosition, read},
    printed_call::PrintedCall,
};
use crate::{incoming_reply::too_large, tool_names::ToolNames};
use shelly_core::{error::Fault, limits};

/// Words of a line that announces an example.
const EXAMPLE: [&str; 9] =
    ["example", "e.g.", "for instance", "such as", "like so", "like this", "format", "syntax", "would look"];

/// An incremental filter for printed calls: text that cannot become a call passes at once, the rest is held back until it is
/// decided. The result does not depend on how the text is cut into pieces.
pub struct PrintedCallFilter<'a> {
    names: &'a ToolNames,
    /// The undecided text. If `is_candidate`, it may be calls from its first byte on.
    held: String,
    is_candidate: bool,
    /// The number of bytes of the candidate at which it is parsed again; grows so that all attempts together take linear
    /// time.
    next_look: usize,
    at: PrintedTextPosition,
    /// `true` while a fence is open in the text that has passed.
    fenced: bool,
    /// The latest non-blank line that has passed (only its beginning), and the line that grows.
    line: String,
    growing: String,
    /// The number of bytes of rejected candidates. Beyond [`limits::PRINTED_DOUBT_BYTES`], the rest of the text passes.
    examined: usize,
    /// The last non-blank character that has passed.
    last: char,
    doubt: Option<PrintedCallDoubt>,
}

/// The reason why text that looks like a call is not one.
struct PrintedCallDoubt {
    why: String,
    /// `true` if the text ends in the middle of the call.
    is_cut: bool,
}

/// The position of the next character.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PrintedTextPosition {
    /// Before all text, apart from white space.
    Beginning,
    /// At the beginning of a line, apart from white space.
    Line,
    /// After this many backticks at the beginning of a line.
    Ticks(usize),
    Text,
}

/// The rest of a text at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PrintedTextRemainder {
    /// The held-back text that turned out not to be a call.
    pub text: String,
    /// Otherwise the calls.
    pub calls: Vec<PrintedCall>,
    /// The reason why the text is not a call although it ends like one, for the model that wrote it.
    pub doubt: Option<String>,
}

impl<'a> PrintedCallFilter<'a> {
    /// Creates a filter. Only the tools that `names` offers can be called.
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

    /// Processes the next piece. Returns the text that is certain not to be a call.
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

    /// Returns the held-back text because something other than text follows.
    pub fn interrupt(&mut self) -> String {
        if !self.held.trim().is_empty() {
            self.at = PrintedTextPosition::Text;
        }
        self.is_candidate = false;
        std::mem::take(&mut self.held)
    }

    /// Decides the held-back text, because the text is at its end.
    pub fn finish(mut self) -> PrintedTextRemainder {
        let mut text = String::new();
        let calls = self.advance(true, &mut text);
        let ends_like_one = matches!(self.last, '}' | ']' | ')' | '>' | '`');
        let doubt = self.doubt.filter(|doubt| calls.is_empty() && (doubt.is_cut || ends_like_one));
        PrintedTextRemainder { text, calls, doubt: doubt.map(|doubt| doubt.why) }
    }

    /// Passes everything that cannot become a call. Returns the calls if the text ends with them.
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
                    // Skips its leading white space at once; the text after it may itself begin a call.
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

    /// Returns `true` if a call may begin with this character, judging by it and the character that follows it.
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

    /// Passes a character of plain text.
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

/// Returns `true` if a form of a call may begin a line with this character; the letters are those of gpt-oss without its
/// marks.
fn is_opening(c: char) -> bool {
    matches!(c, '{' | '[' | '<' | '`' | 'a' | 'c' | 't')
}

/// Returns `true` if this line announces an example rather than a call.
fn is_example(line: &str) -> bool {
    let line = line.to_lowercase();
    EXAMPLE.iter().any(|word| line.contains(word))
}
