//! Extraction of a page's main content as Markdown.

use std::collections::HashMap;

use dom_query::Document;
use dom_smoothie::{Config, Readability, TextMode};

/// The maximum depth of nested elements of a page that is converted to Markdown: nested lists take stack, of which a
/// guest has little.
const DEPTH: usize = 200;

/// The maximum number of nested open tags of a page that is parsed as HTML at all. The parser scans all open elements for
/// each tag, so a megabyte of open tags would take minutes.
const OPEN: usize = 2_000;

/// The elements whose end is optional, or that have none. They do not nest, however many there are.
const NO_END: [&str; 24] = [
    "area", "base", "br", "col", "dd", "dt", "embed", "hr", "img", "input", "li", "link", "meta", "option", "p",
    "param", "source", "tbody", "td", "th", "thead", "tr", "track", "wbr",
];

/// The maximum number of elements of a page that is searched for its main content, which takes memory and time.
const ELEMENTS: usize = 50_000;

/// The number of characters below which an extract does not count as the main content of a page that has much more text.
const LITTLE: usize = 250;

/// The elements that are useless to a reader.
const NOISE: &str = "script, style, noscript, template, iframe, svg, canvas, form, button, select";

/// The elements that surround the content of most pages.
const FRAME: &str = "nav, footer, aside";

/// Renders a page as its title and its main content, or the whole content if no part stands out.
pub(crate) fn markdown(html: &str, url: &str) -> String {
    if most_open(html) > OPEN {
        return bare(html);
    }
    let document = Document::from(html);
    let size = Size::of(&document);
    let title = document.select_single("title").text().split_whitespace().collect::<Vec<_>>().join(" ");
    let body = match size {
        Size { depth, .. } if depth > DEPTH => plain(&document),
        Size { elements, .. } if elements > ELEMENTS => whole(&document),
        _ => {
            let all = whole(&document);
            match article(html, url) {
                Some(main) if main.chars().count() >= LITTLE || all.chars().count() < 4 * LITTLE => main,
                _ => all,
            }
        }
    };
    let body = body.trim();
    match (title.as_str(), body) {
        ("", "") => "(the page has no text; its content may be created by scripts)".to_owned(),
        (title, "") => format!("# {title}\n\n(the page has no text; its content may be created by scripts)"),
        ("", body) => body.to_owned(),
        (title, body)
            if body.starts_with("# ") && body.lines().next().is_some_and(|line| line[2..].trim() == title) =>
        {
            body.to_owned()
        }
        (title, body) => format!("# {title}\n\n{body}"),
    }
}

/// The size of a page.
struct Size {
    elements: usize,
    depth: usize,
}

impl Size {
    fn of(document: &Document) -> Size {
        let root = document.root();
        let mut depths = HashMap::from([(root.id, 0)]);
        let mut size = Size { elements: 0, depth: 0 };
        // An element comes after all of its ancestors.
        for node in root.descendants_it().filter(|node| node.is_element()) {
            let above = node.parent().and_then(|parent| depths.get(&parent.id).copied()).unwrap_or(0);
            depths.insert(node.id, above + 1);
            size.elements += 1;
            size.depth = size.depth.max(above + 1);
        }
        size
    }
}

/// Extracts the main content as a browser's reader mode does.
fn article(html: &str, url: &str) -> Option<String> {
    let config = Config { text_mode: TextMode::Markdown, disable_json_ld: true, ..Config::default() };
    let mut found = Readability::new(html, Some(url), Some(config)).ok()?;
    Some(found.parse().ok()?.text_content.trim().to_owned())
}

/// Extracts the whole text of a page, without the parts that surround the content of most pages.
fn whole(document: &Document) -> String {
    document.select(NOISE).remove();
    let with_frame = document.body().map(|body| body.md(None).to_string()).unwrap_or_default();
    document.select(FRAME).remove();
    let without = document.body().map(|body| body.md(None).to_string()).unwrap_or_default();
    if without.trim().is_empty() { with_frame } else { without }
}

/// Iterates over the tags of a page: the start and end of each, its name in lower case, and `true` if it is a closing
/// tag.
fn tags(html: &str) -> impl Iterator<Item = (usize, usize, String, bool)> {
    let mut end = 0;
    html.match_indices('<').filter_map(move |(at, _)| {
        let inner = &html[at + 1..];
        let closes = inner.starts_with('/');
        let inner = inner.trim_start_matches('/');
        let name = &inner[..inner.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(inner.len())];
        // The end is searched for once, however many tags begin before it.
        if end <= at {
            end = html[at..].find('>').map_or(html.len(), |length| at + length + 1);
        }
        (name.starts_with(|c: char| c.is_ascii_alphabetic()))
            .then(|| (at, end, name[..name.len().min(16)].to_ascii_lowercase(), closes))
    })
}

/// Returns the maximum number of elements that are open at once, judged by the tags.
fn most_open(html: &str) -> usize {
    let (mut open, mut most) = (0_usize, 0);
    for (.., closes) in tags(html).filter(|(.., name, _)| !NO_END.contains(&&**name)) {
        open = if closes { open.saturating_sub(1) } else { open + 1 };
        most = most.max(open);
    }
    most
}

/// Returns the text between the tags of a page, without scripts and styles.
fn bare(html: &str) -> String {
    let (mut text, mut from, mut hidden) = (String::new(), 0, None::<String>);
    for (at, end, name, closes) in tags(html) {
        match &hidden {
            Some(wanted) if closes && *wanted == name => hidden = None,
            Some(_) => {}
            None => {
                text += html.get(from..at).unwrap_or_default();
                text.push('\n');
                hidden = (!closes && ["script", "style"].contains(&&*name)).then_some(name);
            }
        }
        from = from.max(end);
    }
    if hidden.is_none() {
        text += html.get(from..).unwrap_or_default();
    }
    lines(&text)
}

/// Returns the non-empty lines, with whitespace trimmed and collapsed.
fn lines(text: &str) -> String {
    let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    lines.filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// Returns the plain text of a page that is nested deeper than any page made for people.
fn plain(document: &Document) -> String {
    document.select(NOISE).remove();
    lines(&document.body().map(|body| body.text()).unwrap_or_default())
}
