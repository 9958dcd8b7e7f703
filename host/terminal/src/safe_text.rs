//! Untrusted text as it may be shown: text of models, tools, servers and files.
//!
//! A character is spelled out as `\u{1b}` if a terminal would act on it (control characters, overrides of the direction of
//! writing), or if nobody would see it (blanks of no width, tag characters, fillers), since it could hide a text or pass one
//! text off as another. Joiners and the emoji selector are kept where ordinary text has them.

use std::borrow::Cow;

use crate::{display_width::char_width, limits::COMBINING_CHARS};

/// The columns from one tab stop to the next, as in CommonMark.
const TAB_COLUMNS: usize = 4;

/// The joiners of scripts and emoji: of no width, and part of ordinary text after letters that are not ASCII.
const JOINERS: [char; 2] = ['\u{200c}', '\u{200d}'];

/// Asks for the coloured form of the emoji before it.
const EMOJI_SELECTOR: char = '\u{fe0f}';

/// Returns `true` if a terminal would act on this character rather than show it.
fn acts_on_terminal(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Returns `true` if this character takes no room or looks like a blank, and is not part of ordinary text.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}' | '\u{200b}'
        | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0e}' | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}'
        | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Decides about the characters of a text one after another.
#[derive(Default)]
struct CharFilter {
    previous: char,
    /// Characters of no width that came one after another.
    combining: usize,
}

impl CharFilter {
    /// Returns `true` if the character is shown as it is.
    fn is_shown(&mut self, c: char) -> bool {
        self.combining = if char_width(c) == 0 { self.combining + 1 } else { 0 };
        let is_shown = match c {
            _ if acts_on_terminal(c) || is_invisible(c) => false,
            _ if JOINERS.contains(&c) => !self.previous.is_ascii() && !JOINERS.contains(&self.previous),
            EMOJI_SELECTOR => !matches!(self.previous, '\0' | ' ' | EMOJI_SELECTOR),
            _ => self.combining <= COMBINING_CHARS,
        };
        // What is spelled out ends with a brace.
        self.previous = if is_shown { c } else { '}' };
        is_shown
    }
}

/// Returns a text as one line: line breaks and tabs become blanks, and unsafe characters are spelled out.
///
/// A safe line stays as it is. The result is at most six times as long as the text, in bytes.
///
/// ```
/// use shelly_terminal::safe_text::safe_line;
///
/// assert_eq!(safe_line("disk is full"), "disk is full");
/// assert_eq!(safe_line("\x1b]52;c;aGk=\x07\nerror: forged"), "\\u{1b}]52;c;aGk=\\u{7} error: forged");
/// ```
pub fn safe_line(text: &str) -> Cow<'_, str> {
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~')) {
        return Cow::Borrowed(text);
    }
    let mut filter = CharFilter::default();
    if text.chars().all(|c| filter.is_shown(c)) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    let mut filter = CharFilter::default();
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\r' if chars.peek() == Some(&'\n') => continue,
            '\n' | '\t' => {
                filter.is_shown(' ');
                shown.push(' ');
            }
            _ if filter.is_shown(c) => shown.push(c),
            _ => shown.extend(c.escape_unicode()),
        }
    }
    Cow::Owned(shown)
}

/// Returns the lines of a text without their line breaks: tabs become blanks up to the next multiple of four columns, and
/// unsafe characters are spelled out.
///
/// ```
/// use shelly_terminal::safe_text::safe_lines;
///
/// let lines: Vec<_> = safe_lines("a\tb\r\n\u{202e}c\n").collect();
/// assert_eq!(lines, ["a   b", "\\u{202e}c"]);
/// ```
pub fn safe_lines(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines().map(|line| safe_line(&expand_tabs(line)).into_owned())
}

/// Replaces the tabs of a line by blanks.
pub(crate) fn expand_tabs(line: &str) -> Cow<'_, str> {
    if !line.contains('\t') {
        return Cow::Borrowed(line);
    }
    let (mut expanded, mut column) = (String::with_capacity(line.len() + TAB_COLUMNS), 0);
    for c in line.chars() {
        let columns = if c == '\t' { TAB_COLUMNS - column % TAB_COLUMNS } else { char_width(c) };
        column += columns;
        match c {
            '\t' => expanded.extend(std::iter::repeat_n(' ', columns)),
            _ => expanded.push(c),
        }
    }
    Cow::Owned(expanded)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use shelly_core::error::{acts_on_terminal as core_acts_on_terminal, legible};

    use super::*;

    #[test]
    fn text_of_attackers_is_spelled_out() {
        for (text, shown) in [
            (
                "plain text é 日 👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
                "plain text é 日 👩\u{200d}💻 ❤\u{fe0f} 1\u{fe0f}\u{20e3}",
            ),
            ("\x1b[2J", "\\u{1b}[2J"),
            ("a\rb\u{9b}31m", "a\\u{d}b\\u{9b}31m"),
            ("user\u{202e}txt.exe", "user\\u{202e}txt.exe"),
            ("\u{2066}x\u{2069}", "\\u{2066}x\\u{2069}"),
            ("pay\u{200b}pal", "pay\\u{200b}pal"),
            ("pay\u{200d}pal", "pay\\u{200d}pal"),
            ("\u{e0041}\u{e007f}", "\\u{e0041}\\u{e007f}"),
            ("\u{fe0f}", "\\u{fe0f}"),
            ("\r\n\n\t", "   "),
        ] {
            assert_eq!(safe_line(text), shown);
        }
    }

    #[test]
    fn combining_characters_end_at_the_bound() {
        let zalgo = format!("a{}", "\u{301}".repeat(COMBINING_CHARS + 2));
        let shown = safe_line(&zalgo).into_owned();
        assert!(shown.ends_with("\u{301}\\u{301}\\u{301}"), "{shown}");
        assert_eq!(shown.matches('\u{301}').count(), COMBINING_CHARS);
    }

    #[test]
    fn every_char_is_judged_as_in_the_core() {
        for c in ('\0'..=char::MAX).filter(|c| !['\n', '\r', '\t'].contains(c)) {
            // After a letter, where joiners are ordinary.
            let text = format!("é{c}");
            let expected = if c.is_control() { format!("é{}", c.escape_unicode()) } else { legible(&text) };
            assert_eq!(safe_line(&text), expected, "{c:?}");
            assert_eq!(acts_on_terminal(c), core_acts_on_terminal(c), "{c:?}");
        }
    }

    #[test]
    fn tabs_end_at_stops() {
        assert_eq!(expand_tabs("\ta\tbcd\te"), "    a   bcd e");
        assert_eq!(expand_tabs("日\tx"), "日  x");
    }

    proptest! {
        #[test]
        fn safe_lines_have_no_char_that_acts(text in any::<String>()) {
            let line = safe_line(&text).into_owned();
            let mut lines: Vec<_> = safe_lines(&text).collect();
            prop_assert_eq!(safe_line(&line), line.as_str());
            lines.push(line);
            for line in lines {
                prop_assert!(!line.chars().any(|c| core_acts_on_terminal(c) || is_invisible(c)), "{:?}", line);
            }
        }
    }
}
