//! Inline Markdown, from the text of one paragraph, heading or cell to runs of styled text.

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use ratatui_core::style::Style;

use super::{source_lines::LINE_MARK, wrapping::InlineRun};
use crate::{
    safe_text::safe_line,
    styled_line::LinkTarget,
    theme::{StyleRole, Theme},
};

/// The forms of inline HTML for a line break, which tables need.
const LINE_BREAK_TAGS: [&str; 3] = ["<br>", "<br/>", "<br />"];

/// Renders inline Markdown.
#[derive(Debug, Clone)]
pub struct InlineRenderer {
    pub theme: Theme,
    /// `true` if links become hyperlinks of the terminal.
    pub has_hyperlinks: bool,
}

/// A link or image that is open.
struct OpenLink {
    url: String,
    /// The visible text so far.
    text: String,
    is_image: bool,
}

/// The runs of one text while they are made.
struct RunCollector<'a> {
    renderer: &'a InlineRenderer,
    lines: Vec<Vec<InlineRun>>,
    styles: Vec<Style>,
    links: Vec<OpenLink>,
}

impl InlineRenderer {
    /// Returns the runs of each line of a text. Lines end at hard breaks; there is at least one.
    pub fn render(&self, text: &str, base: Style) -> Vec<Vec<InlineRun>> {
        // No block starts with this mark, so the parser takes the text as one paragraph, and the start of a line is for it
        // what a blank is.
        let lines = text.split('\n').map(|line| line.trim_start_matches(' '));
        let marked: String = lines.flat_map(|line| ["\n", LINE_MARK, line]).skip(1).collect();
        let mut collector =
            RunCollector { renderer: self, lines: vec![Vec::new()], styles: vec![base], links: Vec::new() };
        for event in Parser::new_ext(&marked, Options::ENABLE_STRIKETHROUGH) {
            collector.add(event);
        }
        for run in collector.lines.iter_mut().flatten() {
            run.text = safe_line(&run.text).into_owned();
        }
        collector.lines
    }
}

impl RunCollector<'_> {
    fn add(&mut self, event: Event<'_>) {
        let theme = &self.renderer.theme;
        match event {
            Event::Text(text) | Event::Html(text) => self.push(&text),
            Event::InlineHtml(tag) if LINE_BREAK_TAGS.iter().any(|known| tag.eq_ignore_ascii_case(known)) => {
                self.lines.push(Vec::new());
            }
            Event::InlineHtml(text) => self.push(&text),
            Event::Code(code) => {
                self.styles.push(self.style().patch(theme.style(StyleRole::InlineCode)));
                if theme.is_plain() {
                    self.push(&format!("`{code}`"));
                } else {
                    self.push(&code);
                }
                self.styles.pop();
            }
            Event::SoftBreak => self.push(" "),
            Event::HardBreak => self.lines.push(Vec::new()),
            Event::Start(Tag::Emphasis) => self.begin(StyleRole::Emphasis, "*"),
            Event::Start(Tag::Strong) => self.begin(StyleRole::Strong, "**"),
            Event::Start(Tag::Strikethrough) => self.begin(StyleRole::Strikethrough, "~~"),
            Event::End(TagEnd::Emphasis) => self.end("*"),
            Event::End(TagEnd::Strong) => self.end("**"),
            Event::End(TagEnd::Strikethrough) => self.end("~~"),
            Event::Start(Tag::Link { dest_url, .. }) => self.begin_link(&dest_url, false),
            Event::Start(Tag::Image { dest_url, .. }) => self.begin_link(&dest_url, true),
            Event::End(TagEnd::Link | TagEnd::Image) => self.end_link(),
            // The parser gets one paragraph, and no extension that has other events.
            _ => {}
        }
    }

    fn style(&self) -> Style {
        self.styles.last().copied().unwrap_or_default()
    }

    fn push(&mut self, text: &str) {
        let text = text.replace(LINE_MARK, "");
        let style = self.style();
        for link in &mut self.links {
            link.text.push_str(&text);
        }
        let target = self.links.iter().rfind(|link| !link.is_image).filter(|_| self.renderer.has_hyperlinks);
        let link = target.and_then(|link| LinkTarget::from_url(&link.url));
        let Some(line) = self.lines.last_mut() else { return };
        match line.last_mut() {
            _ if text.is_empty() => {}
            Some(last) if last.style == style && last.link == link => last.text.push_str(&text),
            _ => line.push(InlineRun { text, style, link }),
        }
    }

    /// Begins a style, for which a plain theme has a mark.
    fn begin(&mut self, role: StyleRole, mark: &str) {
        self.styles.push(self.style().patch(self.renderer.theme.style(role)));
        if self.renderer.theme.is_plain() {
            self.push(mark);
        }
    }

    fn end(&mut self, mark: &str) {
        if self.renderer.theme.is_plain() {
            self.push(mark);
        }
        self.styles.pop();
    }

    fn begin_link(&mut self, url: &str, is_image: bool) {
        self.links.push(OpenLink { url: url.replace(LINE_MARK, ""), text: String::new(), is_image });
        self.styles.push(self.style().patch(self.renderer.theme.style(StyleRole::Link)));
    }

    /// Shows the target after the text of a link: a text may name another one.
    fn end_link(&mut self) {
        let Some(link) = self.links.pop() else { return };
        let is_same = link.url == link.text || link.url.strip_prefix("mailto:") == Some(link.text.as_str());
        if link.text.is_empty() {
            self.push(&link.url);
        }
        self.styles.pop();
        if !link.is_image && !is_same && !link.text.is_empty() && !link.url.is_empty() {
            self.styles.push(self.style().patch(self.renderer.theme.style(StyleRole::Muted)));
            self.links.push(OpenLink { url: link.url.clone(), text: String::new(), is_image: false });
            self.push(&format!(" ({})", link.url));
            self.links.pop();
            self.styles.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{styled_line::Modifier, theme::ColourSupport};

    fn plain(text: &str) -> Vec<String> {
        let renderer = InlineRenderer { theme: Theme::plain(), has_hyperlinks: false };
        let lines = renderer.render(text, Style::new());
        lines.iter().map(|runs| runs.iter().map(|run| run.text.as_str()).collect()).collect()
    }

    #[test]
    fn plain_theme_keeps_the_marks() {
        for (text, shown) in [
            ("a *b* **c** ~~d~~ `e`", "a *b* **c** ~~d~~ `e`"),
            ("_a_ __b__", "*a* **b**"),
            ("one\n  two", "one two"),
            ("\\*a\\* &lt;b&gt;", "*a* <b>"),
            ("`a\nb`", "`a b`"),
            ("a <b>c</b>", "a <b>c</b>"),
            ("**open", "**open"),
        ] {
            assert_eq!(plain(text), [shown], "{text}");
        }
    }

    #[test]
    fn text_is_never_taken_as_a_block() {
        for text in ["# a", "- a", "1. a", "> a", "```", "---", "[a]: b", "    a", "<div>", "[^a]: b"] {
            assert_eq!(plain(text), [text.trim_start()], "{text}");
            assert_eq!(plain(&format!("x\n{text}")), [format!("x {}", text.trim_start())], "{text}");
        }
    }

    #[test]
    fn links_are_followed_by_their_targets() {
        for (text, shown) in [
            ("[a](https://b.example)", "a (https://b.example)"),
            ("<https://b.example>", "https://b.example"),
            ("<a@b.example>", "a@b.example"),
            ("[](https://b.example)", "https://b.example"),
            ("[a]()", "a"),
            ("![a cat](cat.png)", "a cat"),
            ("![](cat.png)", "cat.png"),
            ("[![a](b.png)](c)", "a (c)"),
            ("[a][1]", "[a][1]"),
            ("text[^1]", "text[^1]"),
        ] {
            assert_eq!(plain(text), [shown], "{text}");
        }
    }

    #[test]
    fn only_links_of_known_schemes_are_hyperlinks() {
        let renderer = InlineRenderer { theme: Theme::plain(), has_hyperlinks: true };
        let linked = |text: &str| {
            let lines = renderer.render(text, Style::new());
            let links = lines.iter().flatten().map(|run| run.link.as_ref().map(|link| link.as_str().to_owned()));
            links.collect::<Vec<_>>()
        };
        let target = Some("https://b.example".to_owned());
        assert_eq!(linked("[a](https://b.example) c"), [target, None]);
        assert_eq!(linked("[a](javascript:x)"), [None]);
        assert_eq!(linked("![a](https://b.example/c.png)"), [None]);
    }

    #[test]
    fn hard_breaks_end_lines() {
        assert_eq!(plain("a  \nb\\\nc<br>d<BR/>e"), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn entities_do_not_become_control_characters() {
        assert_eq!(plain("a&#27;[2J&#x9b;b &#x202e;"), ["a\\u{1b}[2J\\u{9b}b \\u{202e}"]);
    }

    #[test]
    fn styles_add_up() {
        let renderer = InlineRenderer { theme: Theme::new(ColourSupport::Palette, None), has_hyperlinks: false };
        let lines = renderer.render("a **b *c*** d", Style::new());
        let modifiers: Vec<_> = lines[0].iter().map(|run| (run.text.as_str(), run.style.add_modifier)).collect();
        let none = Modifier::empty();
        assert_eq!(
            modifiers,
            [("a ", none), ("b ", Modifier::BOLD), ("c", Modifier::BOLD | Modifier::ITALIC), (" d", none)]
        );
    }
}
