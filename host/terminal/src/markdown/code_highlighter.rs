//! Colours for code, from the definitions of syntaxes that the editor Sublime Text and the program `bat` use.

use std::sync::LazyLock;

use ratatui_core::style::Style;
use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use super::wrapping::InlineRun;
use crate::{
    limits::{HIGHLIGHTED_LINE_BYTES, HIGHLIGHTED_SCOPES, HIGHLIGHTED_WORD_CHARS},
    safe_text::safe_line,
    theme::{StyleRole, Theme},
};

/// The definitions; read when the first block of code names its language.
static SYNTAXES: LazyLock<SyntaxSet> = LazyLock::new(two_face::syntax::extra_newlines);

/// Names of languages in info strings that are neither the name nor a file extension of a syntax.
const ALIASES: [(&str, &str); 10] = [
    ("shell", "sh"),
    ("console", "sh"),
    ("shell-session", "sh"),
    ("golang", "go"),
    ("python3", "py"),
    ("node", "js"),
    ("jsonc", "json"),
    ("json5", "json"),
    ("docker", "Dockerfile"),
    ("csharp", "cs"),
];

/// The purposes of scopes. The first row that fits to the innermost scope counts, else to the next one out.
static ROLES: LazyLock<Vec<(Scope, Option<StyleRole>)>> = LazyLock::new(|| {
    [
        ("comment", Some(StyleRole::Comment)),
        ("string", Some(StyleRole::StringLiteral)),
        ("constant.character.escape", Some(StyleRole::Constant)),
        ("constant", Some(StyleRole::Constant)),
        ("keyword.operator", None),
        ("keyword", Some(StyleRole::Keyword)),
        ("storage", Some(StyleRole::Keyword)),
        ("entity.name.function", Some(StyleRole::Function)),
        ("support.function", Some(StyleRole::Function)),
        ("variable.function", Some(StyleRole::Function)),
        ("entity.name", Some(StyleRole::TypeName)),
        ("entity.other.inherited-class", Some(StyleRole::TypeName)),
        ("support.type", Some(StyleRole::TypeName)),
        ("support.class", Some(StyleRole::TypeName)),
        ("markup.inserted", Some(StyleRole::Success)),
        ("markup.deleted", Some(StyleRole::Failure)),
        ("markup.heading", Some(StyleRole::Heading)),
        ("meta.diff.header", Some(StyleRole::Strong)),
        ("meta.diff.range", Some(StyleRole::TypeName)),
        ("meta.interpolation", None),
        ("meta.string", None),
    ]
    .into_iter()
    .filter_map(|(scope, role)| Some((Scope::new(scope).ok()?, role)))
    .collect()
});

/// The state of a block of code between its lines.
#[derive(Debug, Clone)]
pub struct CodeHighlighter {
    /// `None` for a language that is not known, and once a bound was exceeded that counts for the rest of the block.
    state: Option<HighlightState>,
}

/// The syntax at the end of the last line.
#[derive(Debug, Clone)]
struct HighlightState {
    parser: ParseState,
    scopes: ScopeStack,
}

impl CodeHighlighter {
    /// Creates the highlighter of a block with this info string. Without colours there is nothing to do.
    pub fn new(info: &str, theme: &Theme) -> Self {
        let syntax = find_syntax(info).filter(|_| !theme.is_plain());
        let state = syntax.map(|syntax| HighlightState { parser: ParseState::new(syntax), scopes: ScopeStack::new() });
        Self { state }
    }

    /// Returns the next line of the block in colours, and takes its bytes from those that may be highlighted.
    pub fn highlight(&mut self, line: &str, theme: &Theme, bytes_left: &mut usize) -> Vec<InlineRun> {
        let highlighted = match &mut self.state {
            Some(state) if is_code(line) => {
                let bytes = bytes_left.checked_sub(line.len() + 1);
                let runs = bytes.and_then(|_| state.highlight(line, theme));
                *bytes_left = bytes.unwrap_or(0);
                if runs.is_none() || state.scopes.len() > HIGHLIGHTED_SCOPES {
                    self.state = None;
                }
                runs
            }
            // After a line that is not highlighted the state is that of before.
            _ => None,
        };
        highlighted.unwrap_or_else(|| vec![run(line, Style::new())])
    }
}

/// Returns `true` for a line that patterns match in a short time.
fn is_code(line: &str) -> bool {
    let (mut length, mut was_word) = (0, false);
    line.len() <= HIGHLIGHTED_LINE_BYTES
        && line.chars().all(|c| {
            let is_word = c.is_alphanumeric() || c == '_';
            let continues = if is_word { was_word } else { c == ' ' && !was_word };
            length = if continues { length + 1 } else { 1 };
            was_word = is_word;
            length <= HIGHLIGHTED_WORD_CHARS
        })
}

impl HighlightState {
    /// Returns `None` if the definition of the syntax is faulty.
    fn highlight(&mut self, line: &str, theme: &Theme) -> Option<Vec<InlineRun>> {
        let changes = self.parser.parse_line(&format!("{line}\n"), &SYNTAXES).ok()?;
        let (mut runs, mut from): (Vec<InlineRun>, _) = (Vec::new(), 0);
        for (at, change) in changes {
            let at = at.min(line.len());
            if at > from {
                runs.push(run(&line[from..at], self.style(theme)));
                from = at;
            }
            self.scopes.apply(&change).ok()?;
        }
        if from < line.len() || runs.is_empty() {
            runs.push(run(&line[from..], self.style(theme)));
        }
        Some(runs)
    }

    fn style(&self, theme: &Theme) -> Style {
        let role_of = |scope: &Scope| ROLES.iter().find(|(known, _)| known.is_prefix_of(*scope)).map(|(_, role)| *role);
        match self.scopes.as_slice().iter().rev().find_map(role_of) {
            Some(Some(role)) => theme.style(role),
            _ => Style::new(),
        }
    }
}

fn run(text: &str, style: Style) -> InlineRun {
    InlineRun { text: safe_line(text).into_owned(), style, link: None }
}

/// Returns the syntax that the first word of an info string names.
fn find_syntax(info: &str) -> Option<&'static SyntaxReference> {
    let name = info.split([' ', ',', '{', ':']).next().filter(|name| !name.is_empty())?;
    let alias = ALIASES.iter().find(|(alias, _)| alias.eq_ignore_ascii_case(name));
    SYNTAXES.find_syntax_by_token(alias.map_or(name, |(_, name)| name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::theme::ColourSupport;

    fn theme() -> Theme {
        Theme::new(ColourSupport::Palette, None)
    }

    /// The lines of a block with the styles of their parts.
    fn styled(info: &str, lines: &[&str]) -> Vec<Vec<(String, Style)>> {
        let mut highlighter = CodeHighlighter::new(info, &theme());
        let mut bytes_left = usize::MAX;
        let styled = |line: &&str| {
            let runs = highlighter.highlight(line, &theme(), &mut bytes_left);
            assert_eq!(runs.iter().map(|run| run.text.as_str()).collect::<String>(), **line);
            runs.into_iter().map(|run| (run.text, run.style)).collect()
        };
        lines.iter().map(styled).collect()
    }

    fn style_of(info: &str, line: &str, word: &str) -> Style {
        let lines = styled(info, &[line]);
        let found = lines[0].iter().find(|(text, _)| text.trim() == word);
        found.unwrap_or_else(|| panic!("{info}: there is no `{word}` in {lines:?}")).1
    }

    #[test]
    fn known_languages_are_coloured() {
        for (info, line, word, role) in [
            ("rust", "fn main() {}", "fn", StyleRole::Keyword),
            ("rust,no_run", "fn main() {}", "main", StyleRole::Function),
            ("python", "x = 12", "12", StyleRole::Constant),
            ("ts", "const a = 1 // b", "const", StyleRole::Keyword),
            ("toml", "[section]", "section", StyleRole::TypeName),
            ("console", "if true; then", "if", StyleRole::Keyword),
            ("json", "{\"a\": null}", "null", StyleRole::Constant),
            ("diff", "+added", "+", StyleRole::Success),
            ("C++", "return 1;", "return", StyleRole::Keyword),
        ] {
            assert_eq!(style_of(info, line, word), theme().style(role), "{info}");
        }
    }

    #[test]
    fn comment_goes_on_in_the_next_line() {
        let lines = styled("rust", &["let a; /* one", "two */ let b;"]);
        assert!(lines[1][0].0.starts_with("two"), "{lines:?}");
        assert_eq!(lines[1][0].1, theme().style(StyleRole::Comment));
    }

    #[test]
    fn aliases_name_known_syntaxes() {
        for (alias, name) in ALIASES {
            assert!(SYNTAXES.find_syntax_by_token(name).is_some(), "{name}");
            assert!(SYNTAXES.find_syntax_by_token(alias).is_none(), "{alias} needs no alias");
        }
        assert!(find_syntax("").is_none() && find_syntax("no-such-language").is_none());
    }

    #[test]
    fn lines_that_are_hardly_code_stay_plain() {
        let is_coloured = |line: &[(String, Style)]| line.iter().any(|(_, style)| *style != Style::new());
        let long = "let a; ".repeat(HIGHLIGHTED_LINE_BYTES / 7 + 1);
        let word = format!("let {};", "a".repeat(HIGHLIGHTED_WORD_CHARS + 1));
        let blanks = format!("let{}a;", " ".repeat(HIGHLIGHTED_WORD_CHARS + 1));
        let short = format!("let {};", "a".repeat(HIGHLIGHTED_WORD_CHARS));
        let lines = styled("rust", &["let a;", &long, &word, &blanks, &short]);
        assert_eq!(lines.iter().map(|line| is_coloured(line)).collect::<Vec<_>>(), [true, false, false, false, true]);
        let nested = styled("json", &["[".repeat(HIGHLIGHTED_SCOPES + 1).as_str(), "null"]);
        assert!(!is_coloured(&nested[1]));
    }

    #[test]
    fn highlighting_ends_with_the_bytes_of_the_text() {
        let mut bytes_left = 15;
        let mut is_coloured = |line| {
            let runs = CodeHighlighter::new("rust", &theme()).highlight(line, &theme(), &mut bytes_left);
            runs.iter().any(|run| run.style != Style::new())
        };
        assert!(is_coloured("let a;") && is_coloured("let b;"));
        assert!(!is_coloured("let c;") && !is_coloured(";"));
    }
}
