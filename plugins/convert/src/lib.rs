//! Tools that convert their argument: `markdown_to_html`, `html_to_markdown` and `html_to_text`. The argument may have up
//! to 1 MiB, as every argument.
//!
//! Markdown is CommonMark with GitHub's tables, task lists, strikethrough and footnotes. HTML is parsed like in a
//! browser, however broken it is; scripts, styles and the head are left out. Bound: 256 nested elements.

use guest_kit::html;
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints};

mod markdown;

shelly_plugin::export!(tools: [MarkdownToHtml, HtmlToMarkdown, HtmlToText]);

struct MarkdownToHtml;

#[derive(Deserialize, JsonSchema)]
struct MarkdownToHtmlArgs {
    /// The Markdown.
    markdown: String,
    /// True to keep HTML in the Markdown as it is, scripts too; otherwise it is shown as text.
    allow_html: Option<bool>,
}

impl Tool for MarkdownToHtml {
    const NAME: &'static str = "markdown_to_html";
    const DESCRIPTION: &'static str = "Converts Markdown (CommonMark with tables, task lists, footnotes) to HTML.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = MarkdownToHtmlArgs;

    fn call(args: MarkdownToHtmlArgs, _call: &Call) -> Result<Reply, Error> {
        Ok(markdown::to_html(&args.markdown, args.allow_html.unwrap_or(false)).into())
    }
}

#[derive(Deserialize, JsonSchema)]
struct HtmlArgs {
    /// The HTML: a page or a piece of one.
    html: String,
}

struct HtmlToMarkdown;

impl Tool for HtmlToMarkdown {
    const NAME: &'static str = "html_to_markdown";
    const DESCRIPTION: &'static str = "Converts HTML to Markdown, with its headings, lists, tables, links and code.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = HtmlArgs;

    fn call(args: HtmlArgs, _call: &Call) -> Result<Reply, Error> {
        html::to_markdown(&args.html).map(Reply::from)
    }
}

struct HtmlToText;

impl Tool for HtmlToText {
    const NAME: &'static str = "html_to_text";
    const DESCRIPTION: &'static str = "Returns only the text of HTML, without markup and links.";
    const HINTS: ToolHints = ToolHints::PURE;
    type Args = HtmlArgs;

    fn call(args: HtmlArgs, _call: &Call) -> Result<Reply, Error> {
        Ok(markdown::to_text(&html::to_markdown(&args.html)?).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markdown_is_converted_to_html() {
        for (markdown, html) in [
            ("# A *b* `c`", "<h1>A <em>b</em> <code>c</code></h1>\n"),
            (
                "- [x] done\n- [ ] open",
                "<ul>\n<li><input disabled=\"\" type=\"checkbox\" checked=\"\"/>\ndone</li>\n<li><input disabled=\"\" type=\"checkbox\"/>\nopen</li>\n</ul>\n",
            ),
            ("~~gone~~", "<p><del>gone</del></p>\n"),
            (
                "|a|b|\n|-|-|\n|1|2|",
                "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody>\n<tr><td>1</td><td>2</td></tr>\n</tbody></table>\n",
            ),
            ("[x](https://example.com \"t\")", "<p><a href=\"https://example.com\" title=\"t\">x</a></p>\n"),
            ("a <b>c</b> & d", "<p>a &lt;b&gt;c&lt;/b&gt; &amp; d</p>\n"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("[x](javascript:alert%281%29)", "<p>x</p>\n"),
            ("", ""),
        ] {
            assert_eq!(markdown::to_html(markdown, false), html, "{markdown}");
        }
        assert_eq!(markdown::to_html("a <b>c</b>", true), "<p>a <b>c</b></p>\n");
    }

    #[test]
    fn html_is_converted_to_markdown_and_text() {
        for (html, markdown, text) in [
            ("<h2>A</h2><p>one <b>two</b><br>three", "## A\n\none **two**  \nthree", "A\n\none two\nthree"),
            ("<ul><li>a<li>b</ul>", "*   a\n*   b", "- a\n- b"),
            ("<ol><li>a</li><li>b</li></ol>", "1.  a\n2.  b", "1. a\n2. b"),
            ("<a href=\"/x\">y &amp; ü</a>", "[y & ü](/x)", "y & ü"),
            ("<pre><code class=\"language-rust\">fn a() {}\n</code></pre>", "```rust\nfn a() {}\n```", "fn a() {}"),
            ("<head><title>t</title><style>a{}</style></head><script>b</script><p>c</p>", "c", "c"),
            ("no markup * at all", "no markup \\* at all", "no markup * at all"),
            ("<p>unclosed <div>nested", "unclosed \n\nnested", "unclosed\n\nnested"),
            ("", "", ""),
        ] {
            let converted = html::to_markdown(html).unwrap();
            assert_eq!((converted.as_str(), markdown::to_text(&converted).as_str()), (markdown, text), "{html}");
        }
        let table = "<table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>";
        let converted = html::to_markdown(table).unwrap();
        assert!(converted.contains("| a") && converted.contains("| 1"), "{converted}");
        assert_eq!(markdown::to_text(&converted), "a\tb\n1\t2");
    }

    #[test]
    fn deeply_nested_html_is_refused() {
        assert!(html::to_markdown(&"<div>".repeat(200)).is_ok());
        let told = html::to_markdown(&"<div>".repeat(300)).unwrap_err();
        assert!(matches!(&told, Error::TooLarge(message) if message.contains("256 nested elements")), "{told:?}");
        assert!(matches!(html::to_markdown(&"<b>".repeat(100_000)), Err(Error::TooLarge(_))));
        // The Markdown parser closes nested blocks without recursion.
        assert!(markdown::to_html(&"> ".repeat(50_000), false).contains("blockquote"));
        assert!(!markdown::to_html(&"[".repeat(100_000), false).is_empty());
        assert!(!markdown::to_html(&"*a_ ".repeat(50_000), false).is_empty());
    }
}
