use proptest::prelude::*;

use super::*;
use crate::{
    limits::{MARKDOWN_DEPTH, MARKDOWN_LINE_BYTES, MARKDOWN_PARAGRAPH_BYTES, MARKDOWN_TABLE_BYTES},
    theme::ColourSupport,
};

/// The most bytes that are kept of any text: a line, a paragraph with the line that went over its bound, or a table with it;
/// tabs become up to four blanks. Besides, the states of containers.
const KEPT_BYTES: usize =
    5 * MARKDOWN_LINE_BYTES + MARKDOWN_PARAGRAPH_BYTES + MARKDOWN_TABLE_BYTES + 400 * MARKDOWN_DEPTH;

fn texts(lines: &[StyledLine]) -> Vec<String> {
    lines.iter().map(ToString::to_string).collect()
}

/// All lines of a text that arrives at once, without colours.
fn rendered(text: &str, width: usize) -> Vec<String> {
    texts(&rendered_in(text, width, Theme::plain()))
}

fn rendered_in(text: &str, width: usize, theme: Theme) -> Vec<StyledLine> {
    let mut markdown = StreamedMarkdown::new(width, theme);
    let mut lines = markdown.push(text);
    lines.extend(markdown.finish());
    lines
}

#[test]
fn blocks_are_separated_as_in_the_source() {
    assert_eq!(
        rendered("# A\nb\nc\n\n\n\nd\n***\n- e\n- f\n\n- g\n> h\n\ni\n===", 20),
        ["# A", "", "b c", "", "d", "", "--------------------", "", "* e", "* f", "", "* g", "> h", "", "# i"]
    );
}

#[test]
fn lists_are_nested_and_counted() {
    assert_eq!(
        rendered("- a\n  - b\n    c\n\n    d\n- e\n\n3. f\n3. g\n   1) h\n10. i\n* j\n-\n- k", 20),
        ["* a", "  * b c", "", "    d", "* e", "", "3. f", "4. g", "   1. h", "5. i", "* j", "*", "* k"]
    );
}

#[test]
fn list_markers_are_followed_by_wrapped_text() {
    assert_eq!(rendered("1. one two three\n   - four five", 10), ["1. one two", "   three", "   * four", "     five"]);
}

#[test]
fn task_lists_show_their_marks() {
    assert_eq!(rendered("- [ ] a\n- [x] *b*\n- [x]c\n\n[ ] d", 20), ["* [ ] a", "* [x] *b*", "* [x]c", "", "[ ] d"]);
    let lines = rendered_in("- [x] a", 20, Theme::new(ColourSupport::Palette, None));
    assert_eq!(texts(&lines), ["• [x] a"]);
    assert_eq!(lines[0].spans().len(), 3);
}

#[test]
fn quotes_have_a_bar_before_each_line() {
    assert_eq!(
        rendered("> one two\nlazy\n>\n> - a\n>   b\n> > c\n\nd", 9),
        ["> one two", "> lazy", ">", "> * a b", "> > c", "", "d"]
    );
    assert_eq!(texts(&rendered_in("> a", 9, Theme::new(ColourSupport::Palette, None))), ["│ a"]);
}

#[test]
fn code_is_kept_and_broken_where_lines_are_full() {
    assert_eq!(
        rendered("a\n```rust\nfn  main() {\n\n\tlet a = 1;\n```\nb\n\n    *code*\n\n    more\n\nc", 18),
        ["a", "", "    fn  main() {", "", "        let a = 1;", "", "b", "", "    *code*", "", "    more", "", "c"]
    );
    assert_eq!(rendered("```\nabcdefghijklmnopqr", 20), ["    abcdefghijklmnop", "    qr"]);
    assert_eq!(rendered("```\nabcdefg", 3), ["abc", "def", "g"]);
}

#[test]
fn code_in_a_list_is_indented_with_its_item() {
    assert_eq!(rendered("1. a\n   ~~~\n   b\n     c\n   ~~~\n2. d", 40), ["1. a", "       b", "         c", "2. d"]);
}

#[test]
fn table_follows_the_line_before_its_delimiters() {
    assert_eq!(
        rendered("text\n| a | b |\n|--:|---|\n| 1 | `2\\|3` | 4 |\n| x |\nrow\n\nend", 30),
        ["text", "", "  a | b", "----|----------", "  1 | `2|3` | 4", "  x |", "row |", "", "end"]
    );
    assert_eq!(rendered("a | b\n---|---", 30), ["a | b", "--|--"]);
    assert_eq!(rendered("a | b\n---|---|---", 30), ["a | b ---|---|---"]);
}

#[test]
fn table_that_is_too_narrow_becomes_records() {
    assert_eq!(
        rendered("| name | value |\n|-|-|\n|aaaaaaa|bbbbbbb|\n|c|d|", 10),
        ["name:", "aaaaaaa", "value:", "bbbbbbb", "", "name: c", "value: d"]
    );
}

#[test]
fn footnotes_are_shown_where_they_are_defined() {
    assert_eq!(
        rendered("a[^1]\n\n[^1]: one two\n    three\n\n    four\n\nb", 14),
        ["a[^1]", "", "[^1]: one two", "      three", "", "      four", "", "b"]
    );
}

#[test]
fn html_is_shown_as_text() {
    assert_eq!(
        rendered("<div>\n*a*\n</div>\n\n<!-- b\n\n# c -->\n*d* <i>e</i>", 30),
        ["<div>", "*a*", "</div>", "", "<!-- b", "", "# c -->", "*d* <i>e</i>"]
    );
}

#[test]
fn definitions_of_links_stay_visible() {
    assert_eq!(rendered("[a][b]\n\n[b]: https://c.example", 40), ["[a][b]", "", "[b]: https://c.example"]);
}

#[test]
fn deep_containers_become_text() {
    let text = format!("{}a", "> ".repeat(MARKDOWN_DEPTH + 2));
    assert_eq!(rendered(&text, 200), [text]);
}

#[test]
fn narrow_terminal_shows_text_without_prefixes() {
    for width in 1..6 {
        let lines = rendered_in(
            "1. a\n   - b\n\n> c\n\n| d | e |\n|-|-|\n| f | g |\n\n```\nhi\n```\n# 日",
            width,
            Theme::plain(),
        );
        assert!(lines.iter().all(|line| line.width() <= width), "{:?}", texts(&lines));
        let text = texts(&lines).concat();
        assert!("abcdefghi".chars().all(|c| text.contains(c)), "{text}");
    }
}

#[test]
fn final_lines_come_as_early_as_possible() {
    let mut markdown = StreamedMarkdown::new(40, Theme::plain());
    for (delta, lines) in [
        ("# a", &[][..]),
        ("\n", &["# a"]),
        ("b\n", &[]),
        ("\n", &["", "b"]),
        ("- c\n", &[]),
        ("- d", &[]),
        ("\n", &["", "* c"]),
        ("```\n", &["* d"]),
        ("e", &[]),
        ("\nf\n", &["", "    e", "    f"]),
        ("```\n", &[]),
        ("|g|\n|-|\n|h|\n", &[]),
        ("\n", &["", "g", "-", "h"]),
    ] {
        assert_eq!(texts(&markdown.push(delta)), lines, "{delta:?}");
    }
}

#[test]
fn new_width_counts_for_later_lines() {
    let mut markdown = StreamedMarkdown::new(40, Theme::plain());
    let mut lines = markdown.push("one two three\n\none two three");
    markdown.set_width(7);
    lines.extend(markdown.finish());
    assert_eq!(texts(&lines), ["one two three", "", "one two", "three"]);
}

#[test]
fn rows_after_the_bound_keep_the_columns_of_the_table() {
    let row = format!("| {} | b |\n", "a".repeat(30));
    let mut markdown = StreamedMarkdown::new(40, Theme::plain());
    let mut lines = markdown.push("| c | d |\n|---|---|\n");
    let rows = MARKDOWN_TABLE_BYTES / row.len() + 10;
    for _ in 0..rows {
        lines.extend(markdown.push(&row));
    }
    assert_eq!(lines.len(), rows + 2, "all rows are final");
    lines.extend(markdown.push("| e | a long cell |\n"));
    let texts = texts(&lines);
    assert_eq!(texts[0], format!("c{} | d", " ".repeat(29)));
    let blanks = " ".repeat(29);
    assert_eq!(texts[rows + 2..], [format!("e{blanks} | a long"), format!(" {blanks} | cell")]);
}

#[test]
fn kept_memory_of_an_endless_block_is_bounded() {
    let theme = Theme::plain();
    // All bounds are reached in the shortest of them; the longest shows that nothing grows.
    let (short, long) = (256 << 10, 10 << 20);
    for (bytes, start, pattern) in [
        (2 << 20, "", "- an item of a list\n"),
        (short, "", "text without any end "),
        (short, "", "textwithoutanyblank"),
        (short, "", "a line of a paragraph\n"),
        (short, "", "\t"),
        (short, "", "> - quoted\n"),
        (long, "```rust\n", "let a = \"line of code\";\n"),
        (short, "```\n", "code without a line break "),
        (short, "| a | b |\n|---|---|\n", "| cell | *cell* |\n"),
        (short, "<!-- ", "comment without an end\n"),
        (short, "- a\n", "  - nested\n"),
        (short, "", "#"),
        (short, "", "[a](b)"),
        (short, "", "\r"),
    ] {
        let mut markdown = StreamedMarkdown::new(80, theme.clone());
        markdown.push(start);
        let (mut lines, mut most_kept) = (0, 0);
        for piece in pattern.repeat(bytes / pattern.len()).as_bytes().chunks(50) {
            lines += markdown.push(std::str::from_utf8(piece).unwrap()).len();
            most_kept = most_kept.max(markdown.kept_bytes());
        }
        assert!(most_kept <= KEPT_BYTES, "{pattern:?}: {most_kept} bytes are kept");
        assert!(lines > 100 || pattern.trim().is_empty(), "{pattern:?}: {lines} lines are final");
        let tail = markdown.tail();
        assert!(tail.len() <= 1_000, "{pattern:?}: {} lines are open", tail.len());
    }
}

/// Fragments of Markdown, whose meaning depends on what is around them.
fn markdown_text() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        5 => prop::sample::select(vec![
            "\n", "\n", "\n\n", "- ", "* ", "+ ", "1. ", "2) ", "> ", "# ", "### ", "```", "```rust\n", "~~~", "---", "===", "***",
            "| a | b |\n|---|--:|\n", "| c | d |", "|", "    ", "  ", "\t", "[^1]: ", "[^1]", "[ ] ", "[x] ", "*", "**", "~~", "`",
            "``", "[a](https://b.example)", "![c](d)", "[e]: f", "<div>", "</div>", "<!--", "-->", "<br>", "&#27;", "&amp;", "\\",
            "\\\n", "  \n", "\r\n", "\r", "日本語", "👩\u{200d}💻", "e\u{301}", "\u{202e}", "\x1b[31m", "fn main() {}", "\u{205f}",
        ]).prop_map(str::to_owned),
        2 => "[a-z]{1,8} ",
        1 => any::<String>(),
    ];
    prop::collection::vec(fragment, 0..40).prop_map(|fragments| fragments.concat())
}

/// Splits a text at these places.
fn split(text: &str, mut at: Vec<prop::sample::Index>) -> Vec<String> {
    let mut cuts: Vec<_> = at.drain(..).map(|index| text.floor_char_boundary(index.index(text.len() + 1))).collect();
    cuts.extend([0, text.len()]);
    cuts.sort_unstable();
    cuts.windows(2).map(|cut| text[cut[0]..cut[1]].to_owned()).collect()
}

/// Only letters and digits, which no rendering may lose or reorder.
fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphanumeric()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn final_lines_do_not_depend_on_the_split(
        text in markdown_text(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..20),
        width in 1_usize..60,
    ) {
        let theme = Theme::new(ColourSupport::Palette, None);
        let whole = rendered_in(&text, width, theme.clone());
        let mut markdown = StreamedMarkdown::new(width, theme);
        let mut lines = Vec::new();
        for delta in split(&text, cuts) {
            lines.extend(markdown.push(&delta));
            let tail = markdown.tail();
            prop_assert!(tail.iter().chain(&lines).all(|line| line.width() <= width));
        }
        // What is shown as open is what is final if the text ends.
        let tail = markdown.tail();
        prop_assert_eq!([lines.as_slice(), &tail].concat(), whole.clone());
        lines.extend(markdown.finish());
        prop_assert_eq!(lines, whole);
    }

    #[test]
    fn rendered_lines_have_no_control_character(text in markdown_text()) {
        for theme in [Theme::plain(), Theme::new(ColourSupport::Palette, None)] {
            for line in rendered_in(&text, 40, theme) {
                let text = line.to_string();
                prop_assert!(!text.contains(shelly_core::error::acts_on_terminal), "{:?}", text);
            }
        }
    }

    /// Structure is shown in another way than it is written, but no word is lost.
    #[test]
    fn no_word_of_a_text_is_lost(
        words in prop::collection::vec("[a-z]{1,6}", 1..30),
        marks in prop::collection::vec(0_usize..12, 30),
    ) {
        let separators = [" ", "\n", "\n\n", "\n- ", "\n  - ", "\n> ", "\n# ", "\n***\n", "\n    ", " | ", "**", "\n>> "];
        let text: String = words.iter().zip(&marks).flat_map(|(word, mark)| [word.as_str(), separators[*mark]]).collect();
        let lines = rendered(&text, 60);
        prop_assert_eq!(letters(&lines.concat()), letters(&text));
    }
}
