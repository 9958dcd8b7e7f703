//! Separation of thoughts from text: `<think>…</think>` at the very beginning, as local servers send it that do not separate
//! the two.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

use super::incoming_reply::too_large;
use shelly_core::{error::Fault, limits};

/// A parser that splits a text into thought and text as it arrives.
#[derive(Default)]
pub struct ThinkTags {
    at: ThinkPosition,
    /// White space, then the possible beginning of a tag.
    held: String,
    /// The length in bytes of the possible tag at the end of `held`.
    tag: usize,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum ThinkPosition {
    #[default]
    Beginning,
    Thought,
    /// White space between the thought and the text.
    Gap,
    Text,
}

/// The result for one piece: the thought comes first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ThinkSplit {
    pub thought: String,
    pub text: String,
}

impl ThinkTags {
    /// Processes the next piece. Holds back at most white space and a part of a tag.
    ///
    /// # Errors
    ///
    /// [`Fault::TooLarge`] if more than [`limits::REPLY_BYTES`] are held back.
    pub fn take(&mut self, piece: &str) -> Result<ThinkSplit, Fault> {
        let mut apart = ThinkSplit::default();
        for (at, c) in piece.char_indices() {
            match self.at {
                ThinkPosition::Beginning => self.beginning(c, &mut apart),
                ThinkPosition::Thought => self.thought(c, &mut apart),
                ThinkPosition::Gap if c.is_whitespace() => {}
                ThinkPosition::Gap | ThinkPosition::Text => {
                    self.at = ThinkPosition::Text;
                    apart.text.push_str(&piece[at..]);
                    break;
                }
            }
        }
        if self.held.len() > limits::REPLY_BYTES { Err(too_large()) } else { Ok(apart) }
    }

    /// Releases the held-back text, because the text ends or something else follows.
    pub fn finish(&mut self) -> ThinkSplit {
        let held = self.release();
        match std::mem::replace(&mut self.at, ThinkPosition::Text) {
            ThinkPosition::Thought => ThinkSplit { thought: held, ..ThinkSplit::default() },
            _ => ThinkSplit { text: held, ..ThinkSplit::default() },
        }
    }

    fn beginning(&mut self, c: char, apart: &mut ThinkSplit) {
        self.hold(c);
        let tag = self.tag();
        if tag == OPEN {
            self.release();
            self.at = ThinkPosition::Thought;
        } else if !OPEN.starts_with(tag) {
            apart.text.push_str(&self.release());
            self.at = ThinkPosition::Text;
        }
    }

    fn thought(&mut self, c: char, apart: &mut ThinkSplit) {
        let fits = match self.tag() {
            "" => c.is_whitespace() || c == '<',
            tag => CLOSE[tag.len()..].starts_with(c),
        };
        if !fits {
            apart.thought.push_str(&self.release());
        }
        if fits || c == '<' || c.is_whitespace() {
            self.hold(c);
        } else {
            apart.thought.push(c);
        }
        if self.tag() == CLOSE {
            self.release();
            self.at = ThinkPosition::Gap;
        }
    }

    /// Returns the possible tag. Its length is tracked, so that it is found in constant time behind any amount of white
    /// space.
    fn tag(&self) -> &str {
        &self.held[self.held.len() - self.tag..]
    }

    fn hold(&mut self, c: char) {
        self.held.push(c);
        if self.tag > 0 || !c.is_whitespace() {
            self.tag += c.len_utf8();
        }
    }

    fn release(&mut self) -> String {
        self.tag = 0;
        std::mem::take(&mut self.held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let (mut tags, mut thought, mut text) = (ThinkTags::default(), String::new(), String::new());
        let mut add = |apart: ThinkSplit| {
            assert!(apart.thought.is_empty() || text.is_empty(), "a thought after the text");
            thought += &apart.thought;
            text += &apart.text;
        };
        for piece in pieces {
            add(tags.take(piece).unwrap());
        }
        add(tags.finish());
        (thought, text)
    }

    #[test]
    fn leading_think_tag_is_extracted_at_every_split() {
        for (said, thought, text) in [
            ("<think>Hm.</think>Four.", "Hm.", "Four."),
            ("\n<think>Hm — 世界. \n</think>\n\nFour.\n", "Hm — 世界.", "Four.\n"),
            ("<think>\n\n</think>\n\nFour.", "", "Four."),
            ("<think>a < b </thin <</think></think>", "a < b </thin <", "</think>"),
            ("<think>never closed </th", "never closed </th", ""),
            ("Four. <think>Hm.</think>", "", "Four. <think>Hm.</think>"),
            (" <thin", "", " <thin"),
            ("<thinking>Hm.", "", "<thinking>Hm."),
            ("", "", ""),
        ] {
            let expected = (thought.to_owned(), text.to_owned());
            assert_eq!(of_pieces([said]), expected, "{said}");
            assert_eq!(of_pieces(said.split("")), expected, "{said}");
            for (at, _) in said.char_indices() {
                assert_eq!(of_pieces([&said[..at], &said[at..]]), expected, "{said} split at {at}");
            }
        }
    }

    #[test]
    fn white_space_is_looked_at_once_and_bounded() {
        let space = " ".repeat(limits::REPLY_BYTES);
        for beginning in ["", "<think>", "<think>Hm."] {
            let mut tags = ThinkTags::default();
            tags.take(beginning).unwrap();
            tags.take(&space).unwrap();
            assert!(matches!(tags.take(" "), Err(Fault::TooLarge { .. })), "{beginning}");
        }
    }
}
