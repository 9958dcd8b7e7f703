//! A parser for the calls of a text, from the position where they may begin.

use super::{
    literal,
    marks::{BETWEEN, CLOSINGS, CallMarks, OPENINGS, SPECIALS},
    printed_arguments,
    printed_call::{self, PrintedCall},
    scan::{PrintedJsonProgress, PrintedJsonScan},
};
use crate::tool_names::ToolNames;
use shelly_core::{error::cut, limits};

const FENCE: &str = "```";

/// The position at which possible calls begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrintedCallPosition {
    /// At the beginning of the text.
    Beginning,
    /// At the beginning of a line after other text.
    Line,
    /// At the beginning of a line after one that announces an example.
    AfterExample,
    /// In the middle of a line.
    Inside,
}

/// The result of parsing a text from some position on.
pub enum PrintedCallOutcome {
    /// Undecided: with more text it may become calls.
    More,
    /// The text consists of calls to its end.
    Calls(Vec<PrintedCall>),
    /// The text is not a call, which `examined` bytes of it have shown; `doubt`: the reason, if it looks like a call all the
    /// same.
    Text { examined: usize, doubt: Option<String> },
}

/// The reason why parsing stops.
pub enum PrintedCallStop {
    /// The text ends where more may follow.
    More,
    /// The text is not a call.
    Text,
    /// The text is not a call, although it looks like one.
    Doubt(String),
}

pub type PrintedCallResult<T> = Result<T, PrintedCallStop>;

/// Words that begin a call of gpt-oss if its server removed the marks.
const RECIPIENTS: [&str; 4] = ["commentary to=", "assistantcommentary to=", "assistant to=", "to=functions."];
const HARMONY: [&str; 2] = ["<|start|>assistant", "<|channel|>"];
/// Info strings of fences in which functions are called in Python syntax.
const CODE: [&str; 4] = ["", "tool_code", "python", "py"];

/// Decides what `text` is, from its first byte to its end.
pub fn read(text: &str, place: PrintedCallPosition, names: &ToolNames, is_whole: bool) -> PrintedCallOutcome {
    let mut reader = PrintedCallReader { text, at: 0, is_whole, names, calls: Vec::new(), is_marked: false };
    match reader.document(place) {
        Ok(()) => PrintedCallOutcome::Calls(reader.calls),
        Err(PrintedCallStop::More) => PrintedCallOutcome::More,
        Err(PrintedCallStop::Text) => PrintedCallOutcome::Text { examined: reader.at, doubt: None },
        Err(PrintedCallStop::Doubt(why)) => {
            let doubt = (place != PrintedCallPosition::AfterExample).then_some(why);
            PrintedCallOutcome::Text { examined: reader.at, doubt }
        }
    }
}

pub struct PrintedCallReader<'a> {
    text: &'a str,
    at: usize,
    /// `true` if no more text follows.
    is_whole: bool,
    names: &'a ToolNames,
    calls: Vec<PrintedCall>,
    /// `true` once a mark was found before a call.
    is_marked: bool,
}

impl<'a> PrintedCallReader<'a> {
    fn document(&mut self, place: PrintedCallPosition) -> PrintedCallResult<()> {
        self.space();
        self.is_marked = self.opens(place)?;
        loop {
            self.space();
            if self.rest().is_empty() {
                return if self.is_whole && !self.calls.is_empty() { Ok(()) } else { Err(self.ran_out()) };
            }
            if self.mark(&CLOSINGS)? {
                continue;
            }
            if self.mark(&SPECIALS)? || self.mark(&OPENINGS)? {
                self.is_marked = true;
                continue;
            }
            // Separators between consecutive objects.
            if !self.calls.is_empty() && (self.tag(",")? || self.tag(";")?) {
                continue;
            }
            self.call()?;
            if self.calls.len() > limits::CALLS_IN_REPLY {
                return Err(PrintedCallStop::Text);
            }
        }
    }

    /// Fails unless calls may begin here. Returns `true` if they begin with a mark, and consumes an opening mark.
    fn opens(&mut self, place: PrintedCallPosition) -> PrintedCallResult<bool> {
        if self.mark(&SPECIALS)? {
            return Ok(true);
        }
        let from = self.at;
        if self.tags(&HARMONY)? {
            self.at = from;
            return Ok(true);
        }
        let is_special = self.rest().starts_with("<｜DSML｜") || self.rest().starts_with("<|DSML|");
        match place {
            PrintedCallPosition::Inside if is_special => Ok(true),
            PrintedCallPosition::Inside => Err(self.unless_begun(&["<｜DSML｜", "<|DSML|"])),
            PrintedCallPosition::Beginning | PrintedCallPosition::Line | PrintedCallPosition::AfterExample => {
                if self.mark(&OPENINGS)? {
                    return Ok(true);
                }
                let is_tag = ["<function", "<invoke", "<｜DSML｜", "<|DSML|"];
                let is_other = is_tag.iter().chain(&RECIPIENTS).any(|tag| self.rest().starts_with(tag));
                match self.rest().chars().next() {
                    _ if is_other => Ok(true),
                    Some('{' | '[' | '`') if place != PrintedCallPosition::AfterExample => Ok(false),
                    Some('<') => Err(self.unless_begun(&is_tag)),
                    Some(_) if place == PrintedCallPosition::Beginning => Ok(false),
                    Some(_) => Err(self.unless_begun(&RECIPIENTS)),
                    None => Err(self.ran_out()),
                }
            }
        }
    }

    /// Parses one call, or a list of calls.
    fn call(&mut self) -> PrintedCallResult<()> {
        match self.rest().chars().next() {
            Some('{') => self.json(),
            Some('[') => match self.rest()[1..].trim_start().chars().next() {
                Some('{') => self.json(),
                Some(c) if c.is_ascii_alphabetic() || c == '_' => self.python_list(),
                Some(_) => Err(PrintedCallStop::Text),
                None => Err(self.ran_out()),
            },
            Some('`') => self.fence(),
            Some('<') => self.element(),
            Some(c) if c.is_ascii_alphabetic() || c == '_' => self.named(),
            _ => Err(PrintedCallStop::Text),
        }
    }

    fn json(&mut self) -> PrintedCallResult<()> {
        let from = self.at;
        let json = match self.scan(PrintedJsonScan::of_calls) {
            Ok(json) => json.to_owned(),
            // The model wrote a Python literal with single quotes.
            Err(PrintedCallStop::Text) if self.rest().starts_with('\'') => {
                self.at = from;
                self.literal()?
            }
            Err(stop) => return Err(stop),
        };
        let first = self.calls.len();
        match printed_call::read(&json, self.is_marked, &mut self.calls) {
            Some(()) => self.resolve_from(first),
            None if self.is_marked => {
                Err(PrintedCallStop::Doubt("it is not a JSON object with `name` and `arguments`".into()))
            }
            None => Err(PrintedCallStop::Text),
        }
    }

    /// Replaces the names of the calls from index `first` on with those of the offered tools.
    fn resolve_from(&mut self, first: usize) -> PrintedCallResult<()> {
        for at in first..self.calls.len() {
            self.calls[at].name = self.offered(&self.calls[at].name)?;
        }
        Ok(())
    }

    /// Returns the offered tool that a model means by this name.
    fn offered(&self, name: &str) -> PrintedCallResult<String> {
        self.names.find(name).ok_or_else(|| {
            let name = cut(name, limits::NAME_SHOWN_CHARS);
            PrintedCallStop::Doubt(format!("unknown tool `{}`", name.escape_debug()))
        })
    }

    fn fence(&mut self) -> PrintedCallResult<()> {
        if !self.tag(FENCE)? {
            return Err(PrintedCallStop::Text);
        }
        let info = self.info()?;
        let before = self.calls.len();
        loop {
            self.space();
            if self.tag(FENCE)? {
                return if self.calls.len() > before { Ok(()) } else { Err(PrintedCallStop::Text) };
            }
            if self.rest().is_empty() {
                return Err(self.cut_off());
            }
            if self.mark(&OPENINGS)? || self.mark(&CLOSINGS)? {
                continue;
            }
            if self.calls.len() > before && self.tag(",")? {
                continue;
            }
            let is_code = CODE.contains(&info.as_str());
            match self.rest().chars().next() {
                Some('{' | '[' | '<') => self.call()?,
                _ if is_code => {
                    let prints = self.tag("print(")?;
                    self.named()?;
                    self.space();
                    if prints && !self.tag(")")? {
                        return Err(PrintedCallStop::Text);
                    }
                }
                _ => return Err(PrintedCallStop::Text),
            }
            if self.calls.len() > limits::CALLS_IN_REPLY {
                return Err(PrintedCallStop::Text);
            }
        }
    }

    /// Parses the info string of a fence.
    fn info(&mut self) -> PrintedCallResult<String> {
        let from = self.at;
        loop {
            match self.rest().chars().next() {
                Some('{' | '[') => break,
                Some('\n') => break,
                Some(c) if c.is_ascii_alphanumeric() || matches!(c, ' ' | '\r' | '_' | '-') => self.at += 1,
                Some(_) => return Err(PrintedCallStop::Text),
                None => return Err(self.ran_out()),
            }
            if self.at - from > limits::REPLY_WORD_BYTES {
                return Err(PrintedCallStop::Text);
            }
        }
        Ok(self.text[from..self.at].trim().to_ascii_lowercase())
    }

    /// Parses a call in the form of an element that contains its arguments.
    fn element(&mut self) -> PrintedCallResult<()> {
        const FUNCTION: [&str; 5] =
            ["<function=", "<function name=", "<invoke name=", "<｜DSML｜invoke name=", "<|DSML|invoke name="];
        const PARAMETER: [&str; 4] =
            ["<parameter=", "<parameter name=", "<｜DSML｜parameter name=", "<|DSML|parameter name="];
        const END: [&str; 4] = ["</function>", "</invoke>", "</｜DSML｜invoke>", "</|DSML|invoke>"];
        const END_OF_VALUE: [&str; 3] = ["</parameter>", "</｜DSML｜parameter>", "</|DSML|parameter>"];
        if HARMONY.iter().any(|mark| self.rest().starts_with(mark)) {
            self.tags(&HARMONY)?;
            return self.harmony();
        }
        if self.rest().starts_with("<|message|>") || self.rest().starts_with("<|constrain|>") {
            return Err(PrintedCallStop::Text);
        }
        if !self.tags(&FUNCTION)? {
            return Err(PrintedCallStop::Text);
        }
        let (name, _) = self.attribute()?;
        let name = self.offered(name)?;
        let mut arguments = printed_arguments::PrintedArguments::new(self.names, &name);
        let mut is_json = None;
        loop {
            self.space();
            if self.tags(&PARAMETER)? {
                let (key, more) = self.attribute()?;
                let value = self.until_any(&END_OF_VALUE, &PARAMETER, &END)?;
                arguments.add(key, value, more);
            } else if self.tags(&END)? {
                break;
            } else if self.rest().starts_with('{') && arguments.is_empty() && is_json.is_none() {
                is_json = Some(self.object()?);
            } else if self.rest().is_empty() && self.is_whole && is_json.is_some() {
                break;
            } else if self.rest().is_empty() {
                return Err(self.cut_off());
            } else {
                return Err(PrintedCallStop::Text);
            }
        }
        let arguments = is_json.unwrap_or_else(|| arguments.into_json());
        self.calls.push(PrintedCall { id: String::new(), name, arguments });
        Ok(())
    }

    /// Parses the rest of a tag: a name, perhaps in quotes, and other attributes.
    fn attribute(&mut self) -> PrintedCallResult<(&'a str, &'a str)> {
        let inside = match self.rest().find(['>', '\n']) {
            Some(end) if self.rest().as_bytes()[end] == b'>' && end <= limits::REPLY_WORD_BYTES => &self.rest()[..end],
            None if self.rest().len() <= limits::REPLY_WORD_BYTES => return Err(self.cut_off()),
            _ => return Err(PrintedCallStop::Text),
        };
        self.at += inside.len() + 1;
        match inside.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"').ok_or(PrintedCallStop::Text),
            None => Ok((inside.trim(), "")),
        }
    }

    /// Returns the text up to the end mark of a value. If the model forgot it, returns the text up to the mark that follows.
    fn until_any(&mut self, end: &[&str], next: &[&str], last: &[&str]) -> PrintedCallResult<&'a str> {
        let rest = self.rest();
        let first = |marks: &[&str]| marks.iter().filter_map(|mark| Some((rest.find(mark)?, mark.len()))).min();
        let (ended, following) = (first(end), first(next));
        match (ended, following.or_else(|| first(last))) {
            (Some((at, length)), _) if following.is_none_or(|(next, _)| at < next) => {
                self.at += at + length;
                Ok(&rest[..at])
            }
            (ended, Some((at, _))) if ended.is_some() || self.is_whole => {
                self.at += at;
                Ok(&rest[..at])
            }
            _ => {
                self.at = self.text.len();
                Err(self.cut_off())
            }
        }
    }

    /// Parses a name, an optional separator, and the arguments.
    fn named(&mut self) -> PrintedCallResult<()> {
        let is_recipient = self.tags(&RECIPIENTS)?;
        if is_recipient {
            self.at -= if self.text[..self.at].ends_with("functions.") { "to=functions.".len() } else { "to=".len() };
            return self.harmony();
        }
        let name = self.name();
        if self.rest().is_empty() {
            let may = self.is_marked || self.names.may_become_one(name);
            return Err(if may { self.ran_out() } else { PrintedCallStop::Text });
        }
        // DeepSeek's older form puts the word `function` first.
        if name == "function" && self.mark(&BETWEEN)? {
            return self.named();
        }
        let name = name.strip_prefix("call:").unwrap_or(name);
        let (before, number) = name.rsplit_once(':').unwrap_or((name, "-"));
        let name = if number.bytes().all(|byte| byte.is_ascii_digit()) { before } else { name };
        // After a call, a name that is not offered is prose and not a call of an unknown tool.
        let is_meant = self.is_marked && self.calls.is_empty();
        let found = if is_meant { self.offered(name)? } else { self.names.find(name).ok_or(PrintedCallStop::Text)? };
        if self.tag("[CALL_ID]")? {
            self.name();
        }
        let had_between = self.mark(&BETWEEN)?;
        let before = self.at;
        self.space();
        let had_space = self.at > before;
        let arguments = match self.rest().chars().next() {
            Some('(') if !had_space => self.python_arguments(&found)?,
            Some('{') => self.object()?,
            Some('`') if had_between || self.is_marked => {
                if !self.tag(FENCE)? {
                    return Err(PrintedCallStop::Text);
                }
                self.info()?;
                self.space();
                let object = self.object()?;
                self.space();
                self.tag(FENCE)?;
                object
            }
            Some('<') if self.is_marked => self.keyed(&found)?,
            None if self.is_whole && self.is_marked => String::new(),
            None => return Err(self.ran_out()),
            _ => return Err(PrintedCallStop::Text),
        };
        self.calls.push(PrintedCall { id: String::new(), name: found, arguments });
        Ok(())
    }

    fn name(&mut self) -> &'a str {
        let rest = self.rest();
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ':' | '/');
        let end = rest.find(|c| !taken(c)).unwrap_or(rest.len()).min(limits::REPLY_WORD_BYTES);
        self.at += end;
        &rest[..end]
    }

    /// Parses keys and values in elements, up to the mark that closes the call.
    fn keyed(&mut self, name: &str) -> PrintedCallResult<String> {
        let mut arguments = printed_arguments::PrintedArguments::new(self.names, name);
        loop {
            self.space();
            if !self.tag("<arg_key>")? {
                // The caller consumes the closing mark.
                let closes = CLOSINGS.first_of(self.rest()).is_some();
                return if closes { Ok(arguments.into_json()) } else { Err(self.unless_mark(&CLOSINGS)) };
            }
            let key = self.until_any(&["</arg_key>"], &[], &[])?;
            self.space();
            if !self.tag("<arg_value>")? {
                return Err(PrintedCallStop::Text);
            }
            let value = self.until_any(&["</arg_value>"], &["<arg_key>"], &["</tool_call>"])?;
            arguments.add(key.trim(), value, "");
        }
    }

    /// Parses a call of gpt-oss after its first mark: recipient, format and message.
    fn harmony(&mut self) -> PrintedCallResult<()> {
        let rest = self.rest();
        let message = rest.find("<|message|>").map(|at| (at, "<|message|>".len()));
        // If the server removed the marks, the object follows at once.
        let object = rest.find('{').map(|at| (at, 0));
        let (end, length) = match message.into_iter().chain(object).min() {
            Some(found) => found,
            None if rest.len() <= limits::PRINTED_HEADER_BYTES => return Err(self.ran_out()),
            None => return Err(PrintedCallStop::Text),
        };
        let header = &rest[..end];
        let recipient =
            header.split_once("to=").filter(|_| header.len() <= limits::PRINTED_HEADER_BYTES).map(|(_, to)| to);
        let recipient = recipient.and_then(|to| to.split(|c: char| c.is_whitespace() || c == '<').next());
        let recipient = recipient.ok_or(PrintedCallStop::Text)?;
        let name = self.offered(recipient)?;
        self.at += end + length;
        self.space();
        let arguments = self.object()?;
        self.calls.push(PrintedCall { id: String::new(), name, arguments });
        Ok(())
    }

    fn python_list(&mut self) -> PrintedCallResult<()> {
        self.at += 1;
        loop {
            self.space();
            self.named()?;
            self.space();
            if self.tag("]")? {
                return Ok(());
            }
            if !self.tag(",")? || self.calls.len() > limits::CALLS_IN_REPLY {
                return Err(PrintedCallStop::Text);
            }
        }
    }

    fn python_arguments(&mut self, name: &str) -> PrintedCallResult<String> {
        self.at += 1;
        let mut arguments = printed_arguments::PrintedArguments::new(self.names, name);
        loop {
            self.space();
            if self.tag(")")? {
                return Ok(arguments.into_json());
            }
            if !arguments.is_empty() && !self.tag(",")? {
                return Err(if self.rest().is_empty() { self.cut_off() } else { PrintedCallStop::Text });
            }
            self.space();
            if self.tag(")")? {
                return Ok(arguments.into_json());
            }
            let key = self.name();
            self.space();
            if key.is_empty() && !self.rest().is_empty() {
                return Err(PrintedCallStop::Text);
            }
            if !self.tag("=")? {
                return Err(if self.rest().is_empty() { self.cut_off() } else { PrintedCallStop::Text });
            }
            self.space();
            let value = self.literal()?;
            arguments.add_json(key, value);
        }
    }

    /// Parses an object of arguments, in JSON or nearly JSON.
    fn object(&mut self) -> PrintedCallResult<String> {
        if !self.rest().starts_with('{') {
            return Err(if self.rest().is_empty() { self.cut_off() } else { PrintedCallStop::Text });
        }
        let from = self.at;
        if let Ok(json) = self.scan(|_| PrintedJsonScan::of_arguments())
            && let Some(object) = printed_call::object(json)
        {
            return Ok(object);
        }
        self.at = from;
        self.literal()
    }

    /// Parses a value in the syntax of JSON, Python or Gemma and returns it as JSON.
    fn literal(&mut self) -> PrintedCallResult<String> {
        let mut json = String::new();
        let read = literal::read(self.rest(), &mut json);
        match read {
            literal::LiteralOutcome::Whole(bytes) => {
                self.at += bytes;
                Ok(json)
            }
            literal::LiteralOutcome::More => {
                self.at = self.text.len();
                Err(self.cut_off())
            }
            literal::LiteralOutcome::Broken(bytes) => {
                self.at += bytes;
                Err(PrintedCallStop::Doubt("its arguments are not a JSON object".into()))
            }
        }
    }

    /// Returns the text from the bracket here to the matching one.
    fn scan(&mut self, scan: impl Fn(char) -> PrintedJsonScan) -> PrintedCallResult<&'a str> {
        let rest = self.rest();
        let mut chars = rest.char_indices();
        let mut scan = scan(chars.next().map_or('{', |(_, c)| c));
        for (at, c) in chars {
            match scan.feed(c) {
                PrintedJsonProgress::More => {}
                PrintedJsonProgress::Whole => {
                    self.at += at + c.len_utf8();
                    return Ok(&rest[..at + c.len_utf8()]);
                }
                PrintedJsonProgress::Broken => {
                    self.at += at;
                    return Err(PrintedCallStop::Text);
                }
            }
        }
        self.at = self.text.len();
        Err(if self.is_marked || scan.has_key() { self.cut_off() } else { self.ran_out() })
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }

    fn ran_out(&self) -> PrintedCallStop {
        if self.is_whole { PrintedCallStop::Text } else { PrintedCallStop::More }
    }

    /// Returns the reason to stop when the text ends in the middle of what is plainly a call.
    fn cut_off(&self) -> PrintedCallStop {
        if self.is_whole { PrintedCallStop::Doubt("it is incomplete".into()) } else { PrintedCallStop::More }
    }

    /// Returns [`PrintedCallStop::Text`], unless the rest may become one of these tags.
    fn unless_begun(&self, tags: &[&str]) -> PrintedCallStop {
        if tags.iter().any(|tag| tag.starts_with(self.rest())) { self.ran_out() } else { PrintedCallStop::Text }
    }

    fn unless_mark(&self, marks: &CallMarks) -> PrintedCallStop {
        if marks.may_become_one(self.rest()) { self.ran_out() } else { PrintedCallStop::Text }
    }

    fn tag(&mut self, tag: &str) -> PrintedCallResult<bool> {
        self.tags(&[tag])
    }

    /// Consumes one of these tags if the rest begins with it.
    fn tags(&mut self, tags: &[&str]) -> PrintedCallResult<bool> {
        if let Some(tag) = tags.iter().find(|tag| self.rest().starts_with(**tag)) {
            self.at += tag.len();
            return Ok(true);
        }
        let may = !self.is_whole && tags.iter().any(|tag| tag.starts_with(self.rest()));
        if may { Err(PrintedCallStop::More) } else { Ok(false) }
    }

    /// Consumes a mark if the rest begins with one.
    fn mark(&mut self, marks: &CallMarks) -> PrintedCallResult<bool> {
        match marks.first_of(self.rest()) {
            Some(mark) => {
                self.at += mark.len();
                Ok(true)
            }
            None if !self.is_whole && marks.may_become_one(self.rest()) => Err(PrintedCallStop::More),
            None => Ok(false),
        }
    }
}
