//! A lenient parser for values that are not quite JSON: with superfluous commas, Python's keywords, or special marks for
//! quotes.

use shelly_core::limits;

/// Opening quotes with their closing counterparts.
const QUOTES: [(&str, &str); 6] =
    [("\"\"\"", "\"\"\""), ("'''", "'''"), ("\"", "\""), ("'", "'"), ("<escape>", "<escape>"), ("<|\"|>", "<|\"|>")];

/// The result of parsing a value at the beginning of a text.
pub enum LiteralOutcome {
    /// A value of this many bytes.
    Whole(usize),
    /// Undecided: with more text it may become a value.
    More,
    /// Not a value, as is apparent after this many bytes.
    Broken(usize),
}

/// Parses a value and appends it to `json` as JSON.
pub fn read(text: &str, json: &mut String) -> LiteralOutcome {
    let mut reader = LiteralReader { text, at: 0, json };
    match reader.value(limits::PRINTED_DEPTH) {
        Ok(()) => LiteralOutcome::Whole(reader.at),
        Err(LiteralStop::More) => LiteralOutcome::More,
        Err(LiteralStop::Broken) => LiteralOutcome::Broken(reader.at),
    }
}

enum LiteralStop {
    More,
    Broken,
}

struct LiteralReader<'a, 'j> {
    text: &'a str,
    at: usize,
    json: &'j mut String,
}

impl<'a> LiteralReader<'a, '_> {
    fn value(&mut self, depth: usize) -> Result<(), LiteralStop> {
        let deeper = depth.checked_sub(1).ok_or(LiteralStop::Broken)?;
        self.space();
        match self.first()? {
            '{' => self.items('}', deeper, true),
            '[' => self.items(']', deeper, false),
            '(' => self.items(')', deeper, false),
            '"' | '\'' | '<' => self.string(),
            _ => self.word(),
        }
    }

    fn items(&mut self, close: char, depth: usize, is_object: bool) -> Result<(), LiteralStop> {
        self.at += 1;
        self.json.push(if is_object { '{' } else { '[' });
        let mut is_first = true;
        loop {
            self.space();
            if self.first()? == close {
                self.at += 1;
                self.json.push(if is_object { '}' } else { ']' });
                return Ok(());
            }
            if !is_first {
                self.json.push(',');
            }
            is_first = false;
            if is_object {
                self.key()?;
                self.space();
                self.expect(':')?;
                self.json.push(':');
            }
            self.value(depth)?;
            self.space();
            if self.first()? != close {
                self.expect(',')?;
            }
        }
    }

    fn key(&mut self) -> Result<(), LiteralStop> {
        if matches!(self.first()?, '"' | '\'' | '<') {
            return self.string();
        }
        let word = self.plain();
        if word.is_empty() {
            return Err(LiteralStop::Broken);
        }
        self.write_text(word);
        Ok(())
    }

    fn string(&mut self) -> Result<(), LiteralStop> {
        let rest = self.rest();
        let Some((open, close)) = QUOTES.into_iter().find(|(open, _)| rest.starts_with(open)) else {
            let may = QUOTES.iter().any(|(open, _)| open.starts_with(rest));
            return Err(if may { LiteralStop::More } else { LiteralStop::Broken });
        };
        // Either an empty text or the beginning of triple quotes.
        if open.len() == 1 && rest.len() == 2 && rest.ends_with(close) {
            return Err(LiteralStop::More);
        }
        let inside = &rest[open.len()..];
        if open.starts_with('<') {
            let end = inside.find(close).ok_or(LiteralStop::More)?;
            self.write_text(&inside[..end]);
            self.at += open.len() + end + close.len();
            return Ok(());
        }
        let (mut text, mut chars) = (String::new(), inside.char_indices());
        loop {
            let (at, c) = chars.next().ok_or(LiteralStop::More)?;
            if inside[at..].starts_with(close) {
                self.write_text(&text);
                self.at += open.len() + at + close.len();
                return Ok(());
            }
            match c {
                '\\' => escape(&mut chars, inside, &mut text)?,
                c => text.push(c),
            }
        }
    }

    /// Parses a number or a keyword.
    fn word(&mut self) -> Result<(), LiteralStop> {
        let word = self.plain();
        if self.rest().is_empty() {
            return Err(LiteralStop::More);
        }
        let json = match word {
            "true" | "True" => "true",
            "false" | "False" => "false",
            "null" | "None" => "null",
            number => match serde_json::from_str::<&serde_json::value::RawValue>(number) {
                Ok(_) => number,
                Err(_) => return Err(LiteralStop::Broken),
            },
        };
        self.json.push_str(json);
        Ok(())
    }

    fn plain(&mut self) -> &'a str {
        let rest = self.rest();
        let taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '.' | '$');
        let end = rest.find(|c| !taken(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn write_text(&mut self, text: &str) {
        self.json.push_str(&serde_json::to_string(text).unwrap_or_default());
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn first(&self) -> Result<char, LiteralStop> {
        self.rest().chars().next().ok_or(LiteralStop::More)
    }

    fn expect(&mut self, c: char) -> Result<(), LiteralStop> {
        if self.first()? != c {
            return Err(LiteralStop::Broken);
        }
        self.at += c.len_utf8();
        Ok(())
    }

    fn space(&mut self) {
        self.at = self.text.len() - self.rest().trim_start().len();
    }
}

/// Appends the character of an escape whose backslash was consumed.
fn escape(chars: &mut std::str::CharIndices<'_>, inside: &str, text: &mut String) -> Result<(), LiteralStop> {
    let (at, c) = chars.next().ok_or(LiteralStop::More)?;
    let mut digits = |count: usize| {
        let digits = match inside.get(at + 1..at + 1 + count) {
            Some(digits) => digits,
            None if inside.len() < at + 1 + count => return Err(LiteralStop::More),
            None => return Err(LiteralStop::Broken),
        };
        chars.nth(count - 1);
        u32::from_str_radix(digits, 16).map_err(|_| LiteralStop::Broken)
    };
    match c {
        'n' => text.push('\n'),
        't' => text.push('\t'),
        'r' => text.push('\r'),
        'b' => text.push('\u{8}'),
        'f' => text.push('\u{c}'),
        '\n' => {}
        'x' => text.extend(char::from_u32(digits(2)?)),
        'u' => {
            let first = digits(4)?;
            // A high surrogate needs its low surrogate.
            if (0xd800..0xdc00).contains(&first) {
                let rest = chars.as_str();
                if rest.len() < 6 && "\\u".starts_with(&rest[..rest.len().min(2)]) {
                    return Err(LiteralStop::More);
                }
                let low = rest.strip_prefix("\\u").and_then(|rest| u32::from_str_radix(rest.get(..4)?, 16).ok());
                let low = low.filter(|low| (0xdc00..0xe000).contains(low)).ok_or(LiteralStop::Broken)?;
                chars.nth(5);
                text.extend(char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00)));
            } else {
                text.push(char::from_u32(first).ok_or(LiteralStop::Broken)?);
            }
        }
        '\\' | '"' | '\'' | '/' => text.push(c),
        // Python keeps unknown escapes unchanged.
        c => text.extend(['\\', c]),
    }
    Ok(())
}
