//! An incremental scanner for the JSON of calls. It finds their end, detects what cannot be a call, and looks at each
//! character once.

use shelly_core::limits;

/// The keys that the object of a call may have.
const KEYS: [&str; 16] = [
    "parameters",
    "arguments",
    "function",
    "input",
    "name",
    "tool",
    "type",
    "args",
    "id",
    "tool_calls",
    "tool_call",
    "function_call",
    "function_calls",
    "tool_name",
    "function_name",
    "tool_call_id",
];
/// The length in bytes of the longest key.
const LONGEST_KEY: usize = 14;

/// The state of the scan before the next character. Matching of bracket kinds is left to the parser.
#[derive(Debug, Clone, Copy)]
pub struct PrintedJsonScan {
    depth: usize,
    /// The depth inside an object that must be a call; 0: keys are not checked.
    level: usize,
    in_string: bool,
    escaped: bool,
    /// `true` if a key of a call comes next.
    before_key: bool,
    /// The key of a call that is being read.
    key: Option<([u8; LONGEST_KEY], usize)>,
    items: usize,
    /// `true` once a key of a call has been read.
    has_key: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub enum PrintedJsonProgress {
    More,
    /// The character is the last one.
    Whole,
    /// The character makes the text neither JSON nor a call.
    Broken,
}

impl PrintedJsonScan {
    /// Creates a scanner for a call or a list of calls, after this first bracket.
    pub fn of_calls(first: char) -> Self {
        let is_list = first == '[';
        Self { level: if is_list { 2 } else { 1 }, before_key: !is_list, ..Self::of_arguments() }
    }

    /// Creates a scanner for any object, after its first bracket.
    pub fn of_arguments() -> Self {
        Self {
            depth: 1,
            level: 0,
            in_string: false,
            escaped: false,
            before_key: false,
            key: None,
            items: 0,
            has_key: false,
        }
    }

    /// Returns `true` once a key of a call has been read: the text is then very likely a call.
    pub fn has_key(&self) -> bool {
        self.has_key
    }

    pub fn feed(&mut self, c: char) -> PrintedJsonProgress {
        let is_fine = if self.in_string { self.in_string(c) } else { self.outside(c) };
        match is_fine {
            false => PrintedJsonProgress::Broken,
            true if self.depth == 0 => PrintedJsonProgress::Whole,
            true => PrintedJsonProgress::More,
        }
    }

    fn in_string(&mut self, c: char) -> bool {
        if let Some((key, length)) = &mut self.key
            && (c != '"' || self.escaped)
        {
            if *length == LONGEST_KEY || !c.is_ascii() {
                return false;
            }
            key[*length] = c as u8;
            *length += 1;
        }
        match c {
            c if c < ' ' => return false,
            _ if std::mem::take(&mut self.escaped) => {}
            '\\' => self.escaped = true,
            '"' => {
                self.in_string = false;
                if let Some((key, length)) = self.key.take() {
                    self.has_key = KEYS.iter().any(|known| known.as_bytes() == &key[..length]);
                    return self.has_key;
                }
            }
            _ => {}
        }
        true
    }

    fn outside(&mut self, c: char) -> bool {
        let in_list = self.level == 2 && self.depth == 1;
        match c {
            c if c.is_whitespace() => return true,
            '"' if in_list => return false,
            '"' => {
                self.in_string = true;
                self.key = std::mem::take(&mut self.before_key).then_some(([0; LONGEST_KEY], 0));
            }
            '{' | '[' if self.before_key || (in_list && c == '[') => return false,
            '{' | '[' => {
                self.depth += 1;
                self.before_key = self.depth == self.level;
            }
            '}' | ']' => {
                self.depth -= 1;
                self.before_key = false;
            }
            ',' if in_list => {
                self.items += 1;
                return self.items < limits::CALLS_IN_REPLY;
            }
            ',' => self.before_key = self.depth == self.level && self.level > 0,
            ':' | '+' | '-' | '.' | 'a'..='z' | 'A'..='Z' | '0'..='9' => return !self.before_key && !in_list,
            _ => return false,
        }
        true
    }
}
