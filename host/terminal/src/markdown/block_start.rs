//! Recognises the starts of blocks, as in CommonMark and GitHub Flavored Markdown.

use super::block_event::ItemMarker;
use crate::limits::FOOTNOTE_LABEL_BYTES;

/// Columns of indentation from which on a line is code.
pub const CODE_INDENT: usize = 4;

/// The largest number of digits in the marker of a list item.
const ORDINAL_DIGITS: usize = 9;

/// The marker of a fence, which its end repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fence {
    pub marker: u8,
    pub length: usize,
    /// The columns before the start, which are removed from each line.
    pub indent: usize,
}

/// The end of an HTML block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HtmlEnd {
    /// The line that contains one of these, in lower case.
    Line(&'static [&'static str]),
    /// The line before the next blank one.
    Blank,
}

/// The punctuation of a list: items with another one are items of another list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListPunctuation(u8);

/// The start of a block. Offsets count the bytes from the start of the line that was passed.
#[derive(Debug, PartialEq, Eq)]
pub enum BlockStart<'a> {
    Quote {
        content: usize,
    },
    Footnote {
        label: &'a str,
        content: usize,
    },
    /// `content` is also the indentation of the item's other lines.
    ListItem {
        marker: ItemMarker,
        punctuation: ListPunctuation,
        content: usize,
    },
    Heading {
        level: u8,
        text: &'a str,
    },
    /// The underline that makes the paragraph before it a heading.
    Underline {
        level: u8,
    },
    Rule,
    Fence {
        fence: Fence,
        info: &'a str,
    },
    Html(HtmlEnd),
    IndentedCode,
}

/// The block that is open where a line begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineContext {
    /// No paragraph.
    Free,
    /// A paragraph, inside of containers that this line may have left.
    LazyParagraph,
    /// A paragraph that this line continues unless it starts another block.
    Paragraph,
}

/// Returns the columns of blanks at the start of a line.
pub fn indentation(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns `true` if a line has no text.
pub fn is_blank(line: &str) -> bool {
    line.trim_matches(' ').is_empty()
}

/// Returns the start of a block at the start of this line; `None` if it is text.
pub fn block_start(line: &str, context: LineContext) -> Option<BlockStart<'_>> {
    let indent = indentation(line);
    let rest = &line[indent..];
    if rest.is_empty() {
        return None;
    }
    if indent >= CODE_INDENT {
        return (context == LineContext::Free).then_some(BlockStart::IndentedCode);
    }
    match rest.as_bytes()[0] {
        b'>' => Some(BlockStart::Quote { content: indent + 1 + usize::from(rest[1..].starts_with(' ')) }),
        b'#' => heading(rest),
        b'`' | b'~' => fence_start(rest, indent),
        b'<' => html_start(rest, context != LineContext::Free).map(BlockStart::Html),
        b'[' => footnote_start(rest, indent),
        b'=' | b'-' if context == LineContext::Paragraph && is_underline(rest) => {
            Some(BlockStart::Underline { level: if rest.starts_with('=') { 1 } else { 2 } })
        }
        b'-' | b'*' | b'_' if is_rule(rest) => Some(BlockStart::Rule),
        _ => item_start(rest, indent, context == LineContext::Paragraph),
    }
}

/// Returns `true` if a line ends the block of code that this fence has started.
pub fn is_fence_end(line: &str, fence: Fence) -> bool {
    let rest = line.trim_matches(' ');
    indentation(line) < CODE_INDENT && rest.len() >= fence.length && rest.bytes().all(|byte| byte == fence.marker)
}

impl HtmlEnd {
    /// Returns `true` if the block ends with this line.
    pub fn is_in(self, line: &str) -> bool {
        match self {
            Self::Line(ends) => {
                let line = line.to_ascii_lowercase();
                ends.iter().any(|end| line.contains(end))
            }
            Self::Blank => false,
        }
    }
}

fn heading(rest: &str) -> Option<BlockStart<'_>> {
    let text = rest.trim_start_matches('#');
    let level = u8::try_from(rest.len() - text.len()).ok().filter(|level| *level <= 6)?;
    if !text.is_empty() && !text.starts_with(' ') {
        return None;
    }
    let text = text.trim_matches(' ');
    let without_end = text.trim_end_matches('#');
    // A sequence of `#` at the end belongs to the text if there is no blank before it.
    let text = if without_end.is_empty() || without_end.ends_with(' ') { without_end.trim_end() } else { text };
    Some(BlockStart::Heading { level, text })
}

fn fence_start(rest: &str, indent: usize) -> Option<BlockStart<'_>> {
    let marker = rest.as_bytes()[0];
    let length = rest.bytes().take_while(|byte| *byte == marker).count();
    let info = rest[length..].trim_matches(' ');
    let is_fence = length >= 3 && !(marker == b'`' && info.contains('`'));
    is_fence.then_some(BlockStart::Fence { fence: Fence { marker, length, indent }, info })
}

fn is_underline(rest: &str) -> bool {
    let marks = rest.trim_end_matches(' ');
    marks.bytes().all(|byte| byte == marks.as_bytes()[0])
}

fn is_rule(rest: &str) -> bool {
    let marker = rest.as_bytes()[0];
    rest.bytes().all(|byte| byte == marker || byte == b' ') && rest.bytes().filter(|byte| *byte == marker).count() >= 3
}

fn footnote_start(rest: &str, indent: usize) -> Option<BlockStart<'_>> {
    let (label, after) = rest.strip_prefix("[^")?.split_once("]:")?;
    let is_label = !label.is_empty() && label.len() <= FOOTNOTE_LABEL_BYTES && !label.contains(['[', ']', ' ']);
    let content = indent + rest.len() - after.len() + usize::from(after.starts_with(' '));
    is_label.then_some(BlockStart::Footnote { label, content })
}

fn item_start(rest: &str, indent: usize, interrupts: bool) -> Option<BlockStart<'_>> {
    let (marker, length) = match rest.as_bytes()[0] {
        b'-' | b'+' | b'*' => (ItemMarker::Bullet, 1),
        b'0'..=b'9' => {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let is_marker = digits <= ORDINAL_DIGITS && rest[digits..].starts_with(['.', ')']);
            (ItemMarker::Ordinal(rest[..digits].parse().ok().filter(|_| is_marker)?), digits + 1)
        }
        _ => return None,
    };
    let after = &rest[length..];
    if !after.is_empty() && !after.starts_with(' ') {
        return None;
    }
    // In the middle of a paragraph a number at the start of a line is more often a number.
    if interrupts && (is_blank(after) || !matches!(marker, ItemMarker::Bullet | ItemMarker::Ordinal(1))) {
        return None;
    }
    let blanks = match indentation(after) {
        // Code in the item, or an item whose text begins in the next line.
        blanks if blanks > CODE_INDENT || is_blank(after) => 1,
        blanks => blanks,
    };
    let punctuation = ListPunctuation(rest.as_bytes()[length - 1]);
    Some(BlockStart::ListItem { marker, punctuation, content: indent + length + blanks })
}

fn html_start(rest: &str, interrupts: bool) -> Option<HtmlEnd> {
    let inside = &rest[1..];
    if inside.starts_with("!--") {
        return Some(HtmlEnd::Line(&["-->"]));
    }
    if inside.starts_with('?') {
        return Some(HtmlEnd::Line(&["?>"]));
    }
    if inside.starts_with("![CDATA[") {
        return Some(HtmlEnd::Line(&["]]>"]));
    }
    if inside.strip_prefix('!').is_some_and(|name| name.starts_with(|c: char| c.is_ascii_alphabetic())) {
        return Some(HtmlEnd::Line(&[">"]));
    }
    let is_end_tag = inside.starts_with('/');
    let inside = inside.strip_prefix('/').unwrap_or(inside);
    let name_ends = inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '-').unwrap_or(inside.len());
    let (name, after) = inside.split_at(name_ends);
    if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let is_one_of = |names: &[&str]| names.iter().any(|known| name.eq_ignore_ascii_case(known));
    let is_tag = after.is_empty() || after.starts_with([' ', '>']) || after.starts_with("/>");
    if is_tag && !is_end_tag && is_one_of(&["pre", "script", "style", "textarea"]) {
        return Some(HtmlEnd::Line(&["</pre>", "</script>", "</style>", "</textarea>"]));
    }
    // Another tag alone on its line.
    let after = after.trim_end();
    let is_alone = !after.contains('<') && after.find('>').is_some_and(|end| end + 1 == after.len());
    (is_tag && (is_one_of(HTML_BLOCK_TAGS) || (is_alone && !interrupts))).then_some(HtmlEnd::Blank)
}

/// The tags that start an HTML block wherever they are on their line.
const HTML_BLOCK_TAGS: &[&str] = &[
    "address",
    "article",
    "aside",
    "base",
    "basefont",
    "blockquote",
    "body",
    "caption",
    "center",
    "col",
    "colgroup",
    "dd",
    "details",
    "dialog",
    "dir",
    "div",
    "dl",
    "dt",
    "fieldset",
    "figcaption",
    "figure",
    "footer",
    "form",
    "frame",
    "frameset",
    "h1",
    "h2",
    "h3",
    "h4",
    "h5",
    "h6",
    "head",
    "header",
    "hr",
    "html",
    "iframe",
    "legend",
    "li",
    "link",
    "main",
    "menu",
    "menuitem",
    "nav",
    "noframes",
    "ol",
    "optgroup",
    "option",
    "p",
    "param",
    "search",
    "section",
    "summary",
    "table",
    "tbody",
    "td",
    "tfoot",
    "th",
    "thead",
    "title",
    "tr",
    "track",
    "ul",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn free(line: &str) -> Option<BlockStart<'_>> {
        block_start(line, LineContext::Free)
    }

    #[test]
    fn headings_have_one_to_six_marks() {
        for (line, heading) in [
            ("# a", Some((1, "a"))),
            ("   ###### a ##", Some((6, "a"))),
            ("# a#", Some((1, "a#"))),
            ("#", Some((1, ""))),
            ("## ##", Some((2, ""))),
            ("####### a", None),
            ("#a", None),
        ] {
            let expected = heading.map(|(level, text)| BlockStart::Heading { level, text });
            assert_eq!(free(line), expected, "{line}");
        }
    }

    #[test]
    fn list_items_have_a_marker_and_a_blank() {
        let item = |marker, punctuation, content| {
            Some(BlockStart::ListItem { marker, punctuation: ListPunctuation(punctuation), content })
        };
        for (line, start) in [
            ("- a", item(ItemMarker::Bullet, b'-', 2)),
            ("  *   a", item(ItemMarker::Bullet, b'*', 6)),
            ("-      code", item(ItemMarker::Bullet, b'-', 2)),
            ("-", item(ItemMarker::Bullet, b'-', 2)),
            ("12) a", item(ItemMarker::Ordinal(12), b')', 4)),
            ("1234567890. a", None),
            ("1.a", None),
            ("-a", None),
        ] {
            assert_eq!(free(line), start, "{line}");
        }
    }

    #[test]
    fn paragraph_is_interrupted_by_certain_blocks_only() {
        for (line, is_interrupted) in [
            ("1. a", true),
            ("2. a", false),
            ("-", true),
            ("*", false),
            ("+ a", true),
            ("    a", false),
            ("> a", true),
            ("```", true),
            ("<div>", true),
            ("<b>", false),
            ("***", true),
            ("===", true),
            ("=-=", false),
        ] {
            assert_eq!(block_start(line, LineContext::Paragraph).is_some(), is_interrupted, "{line}");
        }
        assert_eq!(block_start("---", LineContext::Paragraph), Some(BlockStart::Underline { level: 2 }));
        assert_eq!(block_start("---", LineContext::LazyParagraph), Some(BlockStart::Rule));
        assert!(block_start("2. a", LineContext::LazyParagraph).is_some());
        assert_eq!(block_start("    a", LineContext::LazyParagraph), None);
    }

    #[test]
    fn fences_end_with_at_least_as_many_marks() {
        let Some(BlockStart::Fence { fence, info }) = free("  ````rust,ignore") else { panic!("it is no fence") };
        assert_eq!((fence, info), (Fence { marker: b'`', length: 4, indent: 2 }, "rust,ignore"));
        for (line, is_end) in [("````", true), ("   ````` ", true), ("```", false), ("~~~~", false), ("````x", false)] {
            assert_eq!(is_fence_end(line, fence), is_end, "{line}");
        }
        assert_eq!(free("``` a`b"), None);
        assert!(free("~~~ a`b").is_some());
    }

    #[test]
    fn html_blocks_are_told_from_inline_html() {
        for (line, end) in [
            ("<!-- a", Some(HtmlEnd::Line(&["-->"]))),
            ("<details>", Some(HtmlEnd::Blank)),
            ("</DIV> text", Some(HtmlEnd::Blank)),
            ("<b class=\"c\">", Some(HtmlEnd::Blank)),
            ("<b>text</b>", None),
            ("<b>> text >", None),
            ("<https://a.example>", None),
            ("<a@b.example>", None),
            ("< b", None),
        ] {
            assert_eq!(free(line), end.map(BlockStart::Html), "{line}");
        }
        let Some(BlockStart::Html(end)) = free("<PRE>") else { panic!("it is no HTML block") };
        assert!(end.is_in("a </Pre> b") && !end.is_in("a </b>"));
    }

    #[test]
    fn footnote_definitions_have_short_labels() {
        assert_eq!(free("[^a]: text"), Some(BlockStart::Footnote { label: "a", content: 6 }));
        for line in ["[^]: text", "[^a b]: text", "[a]: text", "[^a] text"] {
            assert_eq!(free(line), None, "{line}");
        }
        assert_eq!(free(&format!("[^{}]: text", "a".repeat(FOOTNOTE_LABEL_BYTES + 1))), None);
    }
}
