//! Tool calls that a model printed as text, as small ones do whose server does not look for them.
//!
//! A text is a call, or several, where it is nothing else: a JSON object that names a tool and its arguments or a list of
//! them, bare or in a fence, or behind one of the marks below, which may follow other text at the beginning of a line.
//! Whatever follows it makes it text again: a call that is quoted or explained is none. Only tools that were offered can be
//! called.
//!
//! | form | begins |
//! |---|---|
//! | `{"name": …, "arguments": {…}}`, `[{…}, …]` | the text |
//! | the same in a fence | the text |
//! | `<tool_call>{…}</tool_call>`, also several | a line |
//! | `<function=name>{…}</function>`, also several | a line |
//! | `<\|python_tag\|>{…}` | a line |
//! | `[TOOL_CALLS][…]` | a line |

mod call;
mod scan;
#[cfg(test)]
mod tests;

use std::ops::Range;

pub use call::PrintedCall;

use super::{incoming::too_large, names::Names};
use crate::{error::Fault, limits};
use scan::{Progress, Scan};

const TOOL_CALL: &str = "<tool_call>";
const FUNCTION: &str = "<function=";
/// Marks that may begin any line, with what they announce.
const MARKS: [(&str, Form); 4] = [
    (TOOL_CALL, Form::ToolCall),
    (FUNCTION, Form::Function),
    ("<|python_tag|>", Form::Last),
    ("[TOOL_CALLS]", Form::Last),
];
const FENCE: &str = "```";

/// A text as it comes: what cannot become a call is let through at once, the rest is held back until that is known.
pub struct Printed<'a> {
    names: &'a Names,
    /// What may become calls.
    held: String,
    at: At,
    /// In the text that was let through a fence is open.
    fenced: bool,
    found: Vec<Found>,
}

/// Where the next character stands.
#[derive(Debug, Clone, Copy)]
enum At {
    /// Before all text; white space is held.
    Beginning,
    /// In plain text, before all else in its line.
    Line,
    /// After so many backticks that began a line.
    Ticks(usize),
    /// In plain text.
    Text,
    /// In what may become a mark, which begins at this byte of what is held.
    Mark { from: usize, begins_text: bool },
    /// In what may become a call.
    Call(Form, Step),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Bare,
    Fence,
    ToolCall,
    Function,
    /// Behind a mark that nothing closes.
    Last,
}

/// Numbers are bytes of what is held.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// In the word behind a fence.
    Info {
        from: usize,
    },
    /// In the name of a function.
    Name {
        from: usize,
    },
    BeforeJson,
    Json {
        from: usize,
        scan: Scan,
    },
    AfterJson,
    /// In what closes the form.
    Closing {
        from: usize,
    },
    Closed,
    /// In the mark of one more call.
    Next {
        from: usize,
    },
}

/// JSON of a call or several.
struct Found {
    /// Where a function is named, of which the JSON has only the arguments.
    name: Option<Range<usize>>,
    json: Range<usize>,
}

/// What is left of a text at its end.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// What turned out to be no call.
    pub text: String,
    /// Else the calls.
    pub calls: Vec<PrintedCall>,
}

impl<'a> Printed<'a> {
    /// Nothing has come yet. Only what `names` offers can be called.
    pub fn new(names: &'a Names) -> Self {
        Self { names, held: String::new(), at: At::Beginning, fenced: false, found: Vec::new() }
    }

    /// Takes the next piece. Returns what is certain to be text by now.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if more than [`limits::REPLY_BYTES`] are held back.
    pub fn take(&mut self, piece: &str) -> Result<String, Fault> {
        let mut text = String::new();
        for c in piece.chars() {
            self.step(c, &mut text);
        }
        if self.held.len() > limits::REPLY_BYTES { Err(too_large()) } else { Ok(text) }
    }

    /// Something other than text comes next: what is held back is text after all.
    pub fn interrupt(&mut self) -> String {
        if !matches!(self.at, At::Beginning) {
            self.at = At::Text;
        }
        self.found.clear();
        std::mem::take(&mut self.held)
    }

    /// The text is at its end.
    pub fn finish(mut self) -> Rest {
        let calls = match self.at {
            At::Call(Form::Fence, Step::Closed) => self.calls(),
            At::Call(Form::Fence, _) => None,
            At::Call(_, Step::AfterJson | Step::Closed) => self.calls(),
            _ => None,
        };
        match calls {
            Some(calls) => Rest { text: String::new(), calls },
            None => Rest { text: self.interrupt(), calls: Vec::new() },
        }
    }

    fn calls(&self) -> Option<Vec<PrintedCall>> {
        let At::Call(form, _) = self.at else { return None };
        let is_marked = !matches!(form, Form::Bare | Form::Fence);
        let mut calls = Vec::new();
        for Found { name, json } in &self.found {
            let json = &self.held[json.clone()];
            match name {
                Some(name) => calls.push(PrintedCall::of_function(&self.held[name.clone()], json)?),
                None => call::read(json, is_marked, &mut calls)?,
            }
        }
        let are_offered = calls.iter().all(|call| self.names.offers(&call.name));
        (are_offered && !calls.is_empty() && calls.len() <= limits::CALLS_IN_REPLY).then_some(calls)
    }

    fn step(&mut self, c: char, text: &mut String) {
        let next = match self.at {
            At::Beginning => match c {
                '{' => self.json(Form::Bare, c),
                '[' | '<' | '`' => Some(At::Mark { from: self.held.len(), begins_text: true }),
                c if c.is_whitespace() => Some(At::Beginning),
                _ => None,
            },
            At::Line if matches!(c, '<' | '[') && !self.fenced => {
                Some(At::Mark { from: self.held.len(), begins_text: false })
            }
            At::Line | At::Ticks(_) | At::Text => return self.plain(c, text),
            At::Mark { from, begins_text } => self.mark(from, begins_text, c),
            At::Call(form, step) => self.call(form, step, c),
        };
        match next {
            Some(next) => {
                self.held.push(c);
                self.at = next;
            }
            None => self.fail(c, text),
        }
    }

    /// A character of plain text.
    fn plain(&mut self, c: char, text: &mut String) {
        text.push(c);
        self.at = match (self.at, c) {
            (_, '\n') => At::Line,
            (At::Line, ' ' | '\t') => At::Line,
            (At::Line, '`') => At::Ticks(1),
            (At::Ticks(1), '`') => At::Ticks(2),
            (At::Ticks(2), '`') => {
                self.fenced = !self.fenced;
                At::Text
            }
            _ => At::Text,
        };
    }

    /// With this character, what is held cannot become a call any more.
    fn fail(&mut self, c: char, text: &mut String) {
        if let At::Call(Form::Fence, step) = self.at {
            self.fenced = !matches!(step, Step::Closed);
        }
        let line = self.held.rsplit('\n').next().unwrap_or_default();
        let is_first = line.len() == self.held.len() && !matches!(self.at, At::Beginning);
        self.at = if line.trim().is_empty() && !is_first { At::Line } else { At::Text };
        self.found.clear();
        text.push_str(&self.held);
        self.held.clear();
        // It may begin a call itself.
        match self.at {
            At::Line if matches!(c, '<' | '[') => self.step(c, text),
            _ => self.plain(c, text),
        }
    }

    fn mark(&mut self, from: usize, begins_text: bool, c: char) -> Option<At> {
        let so_far = self.held.len() - from;
        let is_next =
            |mark: &str| mark.as_bytes().starts_with(&self.held.as_bytes()[from..]) && mark[so_far..].starts_with(c);
        let is_whole = |mark: &str| mark.len() == so_far + c.len_utf8();
        if let Some((mark, form)) = MARKS.iter().find(|(mark, _)| is_next(mark)) {
            return Some(if is_whole(mark) { self.opened(*form, c) } else { At::Mark { from, begins_text } });
        }
        if begins_text && is_next(FENCE) {
            let info = Step::Info { from: self.held.len() + c.len_utf8() };
            return Some(if is_whole(FENCE) { At::Call(Form::Fence, info) } else { At::Mark { from, begins_text } });
        }
        // A list after all.
        if begins_text && &self.held[from..] == "[" {
            let mut scan = Scan::of_calls('[');
            return self.scan(Form::Bare, from, &mut scan, c);
        }
        None
    }

    /// Behind a mark whose last character is `c`.
    fn opened(&self, form: Form, c: char) -> At {
        let step = match form {
            Form::Function => Step::Name { from: self.held.len() + c.len_utf8() },
            _ => Step::BeforeJson,
        };
        At::Call(form, step)
    }

    fn call(&mut self, form: Form, step: Step, c: char) -> Option<At> {
        let step = match step {
            Step::Info { .. } if matches!(c, '{' | '[') => return self.json(form, c),
            Step::Info { .. } if c == '\n' => Step::BeforeJson,
            Step::Info { from } => {
                let fits = self.held.len() - from < limits::REPLY_WORD_BYTES;
                (fits && (c.is_ascii_alphanumeric() || matches!(c, ' ' | '\r' | '_' | '-'))).then_some(step)?
            }
            Step::Name { from } if c == '>' => {
                self.names.offers(&self.held[from..]).then_some(())?;
                self.found.push(Found { name: Some(from..self.held.len()), json: 0..0 });
                Step::BeforeJson
            }
            Step::Name { from } => (self.held.len() - from < limits::REPLY_WORD_BYTES).then_some(step)?,
            Step::BeforeJson if c.is_whitespace() => step,
            Step::BeforeJson => return self.json(form, c),
            Step::Json { from, mut scan } => return self.scan(form, from, &mut scan, c),
            Step::AfterJson | Step::Closed if c.is_whitespace() => step,
            Step::AfterJson => self.closing(form, self.held.len(), c)?,
            Step::Closing { from } => self.closing(form, from, c)?,
            Step::Closed if matches!(form, Form::ToolCall | Form::Function) => {
                return self.next(self.held.len(), form, c);
            }
            Step::Closed => return None,
            Step::Next { from } => return self.next(from, form, c),
        };
        Some(At::Call(form, step))
    }

    fn json(&mut self, form: Form, c: char) -> Option<At> {
        let scan = match (c, form) {
            ('{', Form::Function) => Scan::of_arguments(),
            ('{', _) | ('[', Form::Bare | Form::Fence | Form::ToolCall | Form::Last) => Scan::of_calls(c),
            _ => return None,
        };
        Some(At::Call(form, Step::Json { from: self.held.len(), scan }))
    }

    fn scan(&mut self, form: Form, from: usize, scan: &mut Scan, c: char) -> Option<At> {
        let step = match scan.feed(c) {
            Progress::More => Step::Json { from, scan: *scan },
            Progress::Broken => return None,
            Progress::Whole => {
                let json = from..self.held.len() + c.len_utf8();
                match self.found.last_mut() {
                    Some(function) if form == Form::Function => function.json = json,
                    _ => self.found.push(Found { name: None, json }),
                }
                (self.found.len() <= limits::CALLS_IN_REPLY).then_some(Step::AfterJson)?
            }
        };
        Some(At::Call(form, step))
    }

    fn closing(&self, form: Form, from: usize, c: char) -> Option<Step> {
        let end = match form {
            Form::Fence => FENCE,
            Form::ToolCall => "</tool_call>",
            Form::Function => "</function>",
            Form::Bare | Form::Last => return None,
        };
        let so_far = self.held.len() - from;
        end[so_far..].starts_with(c).then_some(())?;
        Some(if end.len() == so_far + 1 { Step::Closed } else { Step::Closing { from } })
    }

    fn next(&self, from: usize, form: Form, c: char) -> Option<At> {
        let so_far = self.held.len() - from;
        let begun = &self.held.as_bytes()[from..];
        let is_next = |mark: &str| mark.as_bytes().starts_with(begun) && mark[so_far..].starts_with(c);
        let (mark, form_of_mark) = MARKS.iter().take(2).find(|(mark, _)| is_next(mark))?;
        let is_whole = mark.len() == so_far + 1;
        Some(if is_whole { self.opened(*form_of_mark, c) } else { At::Call(form, Step::Next { from }) })
    }
}
