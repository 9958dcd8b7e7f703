//! The structure of texts, compared with that of a parser that has the whole text.

use std::fmt::Write;

use proptest::prelude::*;
use pulldown_cmark::{Event, Parser, Tag, TagEnd};

use super::{
    block_event::{BlockEvent, ContainerKind},
    block_parser::BlockParser,
    source_lines::SourceLines,
};

/// Writes down a structure: containers with what is in them, and each block with its letters.
#[derive(Default)]
struct Outline {
    blocks: String,
    text: String,
}

impl Outline {
    /// Ends a block of this kind. Blocks without letters are left out: a paragraph may have marks alone.
    fn end_block(&mut self, kind: &str) {
        let letters: String = self.text.drain(..).filter(|c| c.is_alphanumeric()).collect();
        if !letters.is_empty() {
            write!(self.blocks, "{kind}[{letters}] ").unwrap();
        }
    }

    fn mark(&mut self, mark: &str) {
        self.end_block("text");
        self.blocks.push_str(mark);
    }
}

/// The outline of the parser of whole texts. In a list without blank lines its items have text without paragraphs.
fn expected_outline(text: &str) -> String {
    let mut outline = Outline::default();
    for event in Parser::new(text) {
        match event {
            Event::Start(Tag::BlockQuote(_)) => outline.mark("quote( "),
            Event::Start(Tag::Item) => outline.mark("item( "),
            Event::End(TagEnd::BlockQuote(_) | TagEnd::Item) => outline.mark(") "),
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::HtmlBlock) => outline.mark(""),
            Event::End(TagEnd::Heading(level)) => outline.end_block(&format!("{level}")),
            Event::End(TagEnd::CodeBlock) => outline.end_block("code"),
            Event::End(TagEnd::HtmlBlock) => outline.end_block("html"),
            Event::End(TagEnd::Paragraph) => outline.end_block("text"),
            Event::Rule => outline.mark("rule "),
            Event::Text(text) | Event::Code(text) | Event::Html(text) | Event::InlineHtml(text) => {
                outline.text.push_str(&text)
            }
            _ => {}
        }
    }
    outline.mark("");
    outline.blocks
}

/// The outline of the parser that gets one line after the other.
fn outline(text: &str) -> String {
    let (mut source, mut parser, mut events) = (SourceLines::default(), BlockParser::new(), Vec::new());
    source.push(text, |piece| events.extend(parser.feed(&piece)));
    if let Some(piece) = source.unfinished() {
        events.extend(parser.feed(&piece));
    }
    events.extend(parser.finish());
    let mut outline = Outline::default();
    let mut is_html = false;
    for event in events {
        if is_html && !matches!(event, BlockEvent::HtmlLine(_)) {
            outline.end_block("html");
        }
        is_html = matches!(event, BlockEvent::HtmlLine(_));
        match event {
            BlockEvent::ContainerStart(ContainerKind::Quote) => outline.mark("quote( "),
            BlockEvent::ContainerStart(_) => outline.mark("item( "),
            BlockEvent::ContainerEnd => outline.mark(") "),
            BlockEvent::Rule => outline.mark("rule "),
            BlockEvent::Paragraph { text, .. } => {
                outline.text = text;
                outline.end_block("text");
            }
            BlockEvent::Heading { level, text } => {
                outline.text = text;
                outline.end_block(&format!("h{level}"));
            }
            BlockEvent::CodeLine(line) | BlockEvent::HtmlLine(line) => outline.text.push_str(&line),
            BlockEvent::CodeEnd => outline.end_block("code"),
            _ => {}
        }
    }
    outline.end_block("html");
    outline.blocks
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn structure_is_that_of_the_whole_text(
        fragments in prop::collection::vec(
            prop::sample::select(vec![
                "\n", "\n", "\n", "\n\n", "- ", "* ", "1. ", "2. ", "3) ", "> ", "# ", "## a", "```\n", "~~~\n", "---\n", "===\n",
                "***\n", "    ", "   ", "  ", " ", "word ", "text\n", "x", "<div>\n", "</div>\n", "<b>\n", "<!-- y", "-->\n",
            ]),
            1..14,
        ),
    ) {
        let text = fragments.concat();
        // An HTML block that ends with its line is shown as one with the block in the next line.
        let joined = |outline: String| outline.replace("] html[", "");
        prop_assert_eq!(joined(outline(&text)), joined(expected_outline(&text)), "{:?}", text);
    }
}
