//! Thoughts in the text: `<think>…</think>` at its very beginning, as local servers send them that do not tell the two
//! apart.

const OPEN: &str = "<think>";
const CLOSE: &str = "</think>";

/// A text as it comes, taken apart.
#[derive(Default)]
pub struct ThinkTags {
    at: At,
    /// White space and what may become a tag.
    held: String,
}

#[derive(Default, Clone, Copy, PartialEq, Eq)]
enum At {
    #[default]
    Beginning,
    Thought,
    /// Between the thought and the text.
    Gap,
    Text,
}

/// A piece taken apart: the thought comes first.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Apart {
    pub thought: String,
    pub text: String,
}

impl ThinkTags {
    /// Takes the next piece. What is held back is at most white space and a part of a tag.
    pub fn take(&mut self, piece: &str) -> Apart {
        let mut apart = Apart::default();
        for (at, c) in piece.char_indices() {
            match self.at {
                At::Beginning => self.beginning(c, &mut apart),
                At::Thought => self.thought(c, &mut apart),
                At::Gap if c.is_whitespace() => {}
                At::Gap | At::Text => {
                    self.at = At::Text;
                    apart.text.push_str(&piece[at..]);
                    break;
                }
            }
        }
        apart
    }

    /// The text is at its end, or something else comes next: what is held back is what it is.
    pub fn finish(&mut self) -> Apart {
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.at, At::Text) {
            At::Thought => Apart { thought: held, ..Apart::default() },
            _ => Apart { text: held, ..Apart::default() },
        }
    }

    fn beginning(&mut self, c: char, apart: &mut Apart) {
        self.held.push(c);
        let word = self.held.trim_start();
        if word == OPEN {
            self.held.clear();
            self.at = At::Thought;
        } else if !OPEN.starts_with(word) {
            apart.text.push_str(&std::mem::take(&mut self.held));
            self.at = At::Text;
        }
    }

    fn thought(&mut self, c: char, apart: &mut Apart) {
        let tag = self.held.len() - self.held.trim_start().len();
        let fits = match &self.held[tag..] {
            "" => c.is_whitespace() || c == '<',
            tag => CLOSE[tag.len()..].starts_with(c),
        };
        if !fits {
            apart.thought.push_str(&std::mem::take(&mut self.held));
        }
        if fits || c == '<' || c.is_whitespace() {
            self.held.push(c);
        } else {
            apart.thought.push(c);
        }
        if self.held.ends_with(CLOSE) {
            self.held.clear();
            self.at = At::Gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a str>) -> (String, String) {
        let (mut tags, mut thought, mut text) = (ThinkTags::default(), String::new(), String::new());
        let mut add = |apart: Apart| {
            assert!(apart.thought.is_empty() || text.is_empty(), "a thought after the text");
            thought += &apart.thought;
            text += &apart.text;
        };
        for piece in pieces {
            add(tags.take(piece));
        }
        add(tags.finish());
        (thought, text)
    }

    #[test]
    fn a_thought_at_the_beginning_is_taken_out_wherever_it_is_split() {
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
}
