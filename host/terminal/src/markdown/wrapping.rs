//! Breaks styled text into lines of at most so many columns.

use ratatui_core::style::Style;
use unicode_segmentation::UnicodeSegmentation;

use crate::{
    display_width::{char_width, display_width, grapheme_width},
    styled_line::{LinkTarget, StyledLine},
};

/// Stands for a character that is wider than the whole line.
const TOO_WIDE: &str = "?";

/// Characters that no line begins with, besides those of ASCII.
const NO_LINE_START: &str = "、。，．：；？！）］｝」』】〕》〉々ー…’”·";

/// Characters that no line ends with.
const NO_LINE_END: &str = "（［｛「『【〔《〈‘“([{";

/// Safe text in one style.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InlineRun {
    pub text: String,
    pub style: Style,
    pub link: Option<LinkTarget>,
}

/// A part of a run: its index and the range of its bytes.
#[derive(Debug, Clone)]
struct RunPart {
    run: usize,
    from: usize,
    to: usize,
}

/// The line that is being filled, the blanks after it and the word after these.
struct LineFiller<'a> {
    runs: &'a [InlineRun],
    columns: usize,
    lines: Vec<StyledLine>,
    line: StyledLine,
    used: usize,
    gap: Vec<RunPart>,
    gap_columns: usize,
    word: Vec<RunPart>,
    word_columns: usize,
}

/// Breaks text between words, and between characters of double width such as Chinese ones. A word that is longer than a
/// line is broken where the line ends. Blanks at a break are left out. There is always at least one line.
pub fn wrap(runs: &[InlineRun], columns: usize) -> Vec<StyledLine> {
    let mut filler = LineFiller {
        runs,
        columns: columns.max(1),
        lines: Vec::new(),
        line: StyledLine::default(),
        used: 0,
        gap: Vec::new(),
        gap_columns: 0,
        word: Vec::new(),
        word_columns: 0,
    };
    let mut previous = " ";
    for (run, InlineRun { text, .. }) in runs.iter().enumerate() {
        if text.is_ascii() {
            // Each character is a cluster.
            for from in 0..text.len() {
                previous = filler.add_cluster(run, from, &text[from..=from], previous);
            }
        } else {
            for (from, cluster) in text.grapheme_indices(true) {
                previous = filler.add_cluster(run, from, cluster, previous);
            }
        }
    }
    filler.end_word();
    filler.lines.push(filler.line);
    filler.lines
}

/// Breaks text where each line is full, and keeps its blanks: for code. There is always at least one line.
pub fn wrap_hard(runs: &[InlineRun], columns: usize) -> Vec<StyledLine> {
    let (mut lines, mut line, mut used) = (Vec::new(), StyledLine::default(), 0);
    for run in runs {
        if used + display_width(&run.text) <= columns {
            line.push_linked(&run.text, run.style, run.link.as_ref());
            used += display_width(&run.text);
            continue;
        }
        for (shown, width) in cells(&run.text, columns) {
            if used > 0 && used + width > columns {
                lines.push(std::mem::take(&mut line));
                used = 0;
            }
            line.push_linked(shown, run.style, run.link.as_ref());
            used += width;
        }
    }
    lines.push(line);
    lines
}

/// Returns the parts of a text that no line break divides, each with its width: grapheme clusters, and the characters of a
/// cluster that is wider than a line.
fn cells(text: &str, columns: usize) -> impl Iterator<Item = (&str, usize)> {
    text.graphemes(true).flat_map(move |grapheme| {
        let is_divided = grapheme_width(grapheme) > columns;
        let starts = grapheme.char_indices().filter(move |(at, c)| *at == 0 || (is_divided && char_width(*c) > 0));
        let starts: Vec<_> = starts.map(|(at, _)| at).collect();
        let ends: Vec<_> = starts.iter().skip(1).copied().chain([grapheme.len()]).collect();
        starts.into_iter().zip(ends).map(move |(from, to)| match grapheme_width(&grapheme[from..to]) {
            width if width > columns.max(1) => (TOO_WIDE, 1),
            width => (&grapheme[from..to], width),
        })
    })
}

/// Returns `true` if a line may end between two characters without a blank between them.
fn may_break_between(previous: &str, next: &str) -> bool {
    let is_any_wide = grapheme_width(previous) > 1 || grapheme_width(next) > 1;
    let starts_no_line =
        next.starts_with(|c: char| c.is_ascii_punctuation() && !"([{".contains(c) || NO_LINE_START.contains(c));
    is_any_wide && !starts_no_line && !previous.ends_with(|c| NO_LINE_END.contains(c))
}

fn add_part(parts: &mut Vec<RunPart>, part: RunPart) {
    match parts.last_mut() {
        Some(last) if last.run == part.run && last.to == part.from => last.to = part.to,
        _ => parts.push(part),
    }
}

impl LineFiller<'_> {
    /// Adds a grapheme cluster of a run to the word or to the blanks before the next one. Returns the cluster.
    fn add_cluster<'a>(&mut self, run: usize, from: usize, cluster: &'a str, previous: &str) -> &'a str {
        let part = RunPart { run, from, to: from + cluster.len() };
        if cluster == " " {
            self.end_word();
            add_part(&mut self.gap, part);
            self.gap_columns += 1;
        } else {
            if may_break_between(previous, cluster) {
                self.end_word();
            }
            add_part(&mut self.word, part);
            self.word_columns += grapheme_width(cluster);
        }
        cluster
    }

    /// Puts the word into the line, or into the next one.
    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        if self.used > 0 && self.used + self.gap_columns + self.word_columns > self.columns {
            self.end_line();
        }
        // Blanks at the start of a text are kept, those at the start of a later line are not there any more.
        if self.used + self.gap_columns + self.word_columns <= self.columns {
            let gap = std::mem::take(&mut self.gap);
            self.add_to_line(gap);
            self.used += std::mem::take(&mut self.gap_columns);
            let word = std::mem::take(&mut self.word);
            self.add_to_line(word);
            self.used += std::mem::take(&mut self.word_columns);
        } else {
            self.break_word();
        }
    }

    /// Spreads a word over lines that is longer than one.
    fn break_word(&mut self) {
        self.drop_gap();
        self.word_columns = 0;
        for RunPart { run, from, to } in std::mem::take(&mut self.word) {
            let InlineRun { text, style, link } = &self.runs[run];
            for (shown, width) in cells(&text[from..to], self.columns) {
                if self.used + width > self.columns {
                    self.end_line();
                }
                self.line.push_linked(shown, *style, link.as_ref());
                self.used += width;
            }
        }
    }

    fn add_to_line(&mut self, parts: Vec<RunPart>) {
        for RunPart { run, from, to } in parts {
            let InlineRun { text, style, link } = &self.runs[run];
            self.line.push_linked(&text[from..to], *style, link.as_ref());
        }
    }

    fn end_line(&mut self) {
        self.lines.push(std::mem::take(&mut self.line));
        self.used = 0;
        self.drop_gap();
    }

    fn drop_gap(&mut self) {
        self.gap.clear();
        self.gap_columns = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::safe_text::safe_line;

    fn run(text: &str) -> InlineRun {
        InlineRun { text: safe_line(text).into_owned(), style: Style::new(), link: None }
    }

    fn texts(lines: &[StyledLine]) -> Vec<String> {
        lines.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn text_is_broken_between_words() {
        for (text, columns, lines) in [
            ("one two three", 7, &["one two", "three"][..]),
            ("one two three", 20, &["one two three"]),
            ("one  two", 5, &["one", "two"]),
            ("a longword b", 4, &["a", "long", "word", "b"]),
            ("ab", 1, &["a", "b"]),
            ("日本語、です", 4, &["日本", "語、", "です"]),
            ("a日本", 3, &["a日", "本"]),
            ("日", 1, &["?"]),
            ("👩\u{200d}👩\u{200d}👧", 4, &["👩\u{200d}👩\u{200d}", "👧"]),
            ("", 5, &[""]),
        ] {
            assert_eq!(texts(&wrap(&[run(text)], columns)), lines, "{text}");
        }
    }

    #[test]
    fn word_of_several_styles_is_not_broken() {
        let bold = InlineRun { style: Style::new().bold(), ..run("bold") };
        let lines = wrap(&[run("a word-"), bold, run("-ly")], 12);
        assert_eq!(texts(&lines), ["a", "word-bold-ly"]);
        assert_eq!(lines[1].spans().len(), 3);
    }

    #[test]
    fn code_is_broken_where_a_line_is_full() {
        assert_eq!(texts(&wrap_hard(&[run("  a b c"), run("日本")], 4)), ["  a ", "b c", "日本"]);
        assert_eq!(texts(&wrap_hard(&[run("")], 4)), [""]);
        assert_eq!(texts(&wrap_hard(&[run("日a")], 1)), ["?", "a"]);
    }

    proptest! {
        #[test]
        fn lines_fit_and_lose_only_blanks(text in "[ a-z日本👩‍💻é(.]{0,60}", columns in 1_usize..20) {
            let runs = [run(&text)];
            let visible = |text: &str| text.chars().filter(|c| *c != ' ').collect::<String>();
            for lines in [wrap(&runs, columns), wrap_hard(&runs, columns)] {
                prop_assert!(lines.iter().all(|line| line.width() <= columns), "{:?}", texts(&lines));
                if columns >= 8 {
                    prop_assert_eq!(visible(&texts(&lines).concat()), visible(&runs[0].text));
                }
            }
        }
    }
}
