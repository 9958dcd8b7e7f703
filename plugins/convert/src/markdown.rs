//! Markdown as defined by CommonMark and GitHub.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

fn parse(markdown: &str) -> Parser<'_> {
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    Parser::new_ext(markdown, options)
}

/// Renders Markdown as HTML. Unless `allow_html` is set, nothing in the result can become a script: HTML is shown as
/// text, and links with schemes other than those of pages, mail, phone and FTP are left out.
pub(crate) fn to_html(markdown: &str, allow_html: bool) -> String {
    let mut written = String::new();
    if allow_html {
        html::push_html(&mut written, parse(markdown));
        return written;
    }
    // For each open link: `true` if it is left out.
    let mut left_out = Vec::new();
    let safe = parse(markdown).filter_map(|event| match event {
        Event::Html(text) | Event::InlineHtml(text) => Some(Event::Text(text)),
        Event::Start(Tag::Link { ref dest_url, .. } | Tag::Image { ref dest_url, .. }) => {
            left_out.push(!is_harmless(dest_url));
            (left_out.last() == Some(&false)).then_some(event)
        }
        Event::End(TagEnd::Link | TagEnd::Image) => (left_out.pop() == Some(false)).then_some(event),
        event => Some(event),
    });
    html::push_html(&mut written, safe);
    written
}

/// Returns `true` if an address is relative or has a scheme that runs nothing.
fn is_harmless(url: &CowStr<'_>) -> bool {
    // Browsers ignore whitespace and control characters in an address.
    let url: String = url.chars().filter(|character| !character.is_whitespace() && !character.is_control()).collect();
    match url.split_once(':') {
        Some((scheme, _)) if scheme.contains(['/', '?', '#']) => true,
        Some((scheme, _)) => ["http", "https", "mailto", "tel", "ftp"].contains(&scheme.to_ascii_lowercase().as_str()),
        None => true,
    }
}

/// Renders Markdown as plain text: an empty line between blocks, a marker before each list item, a tab between cells.
pub(crate) fn to_text(markdown: &str) -> String {
    let mut text = Text::default();
    for event in parse(markdown) {
        match event {
            Event::Start(Tag::List(first)) => {
                text.block(if text.lists.is_empty() { 2 } else { 1 });
                text.lists.push(first);
            }
            Event::End(TagEnd::List(_)) => {
                text.lists.pop();
                text.block(if text.lists.is_empty() { 2 } else { 1 });
            }
            Event::Start(Tag::Item) => text.item(),
            Event::Start(Tag::TableCell) if !text.at_line_start() => text.push("\t"),
            Event::Start(Tag::TableRow | Tag::TableHead) => text.block(1),
            Event::Start(Tag::Paragraph) if !text.lists.is_empty() => {}
            Event::Start(Tag::Paragraph | Tag::Heading { .. } | Tag::CodeBlock(_) | Tag::Table(_)) => text.block(2),
            Event::End(TagEnd::Item) => text.block(1),
            Event::End(TagEnd::Paragraph) if !text.lists.is_empty() => text.block(1),
            Event::End(TagEnd::Paragraph | TagEnd::Heading(_) | TagEnd::CodeBlock | TagEnd::Table) => text.block(2),
            Event::Text(part) | Event::Code(part) | Event::InlineHtml(part) | Event::Html(part) => text.push(&part),
            Event::SoftBreak => text.push(" "),
            Event::HardBreak => text.push("\n"),
            _ => {}
        }
    }
    text.written.trim().to_owned()
}

#[derive(Default)]
struct Text {
    written: String,
    /// The number of line ends to write before the next text.
    breaks: usize,
    /// The next numbers of the open lists; none for lists without numbers.
    lists: Vec<Option<u64>>,
}

impl Text {
    fn push(&mut self, part: &str) {
        let there = self.written.len() - self.written.trim_end_matches('\n').len();
        if !self.written.is_empty() {
            self.written.extend(std::iter::repeat_n('\n', self.breaks.saturating_sub(there)));
        }
        self.breaks = 0;
        self.written.push_str(part);
    }

    /// Makes the next text begin after at least this many line ends.
    fn block(&mut self, breaks: usize) {
        self.breaks = self.breaks.max(breaks);
    }

    fn at_line_start(&self) -> bool {
        self.breaks > 0 || self.written.is_empty()
    }

    fn item(&mut self) {
        self.block(1);
        let indent = "  ".repeat(self.lists.len().saturating_sub(1));
        let sign = match self.lists.last_mut() {
            Some(Some(number)) => {
                *number += 1;
                format!("{}. ", *number - 1)
            }
            _ => "- ".to_owned(),
        };
        self.push(&format!("{indent}{sign}"));
    }
}
