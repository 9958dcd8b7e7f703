//! Text for people with the colours of the host, as lines of a display that is redrawn in place.

use shelly_terminal::{
    styled_line::{Style, StyledLine},
    theme::{StyleRole, Theme},
};

use super::terminal_text::{BOLD, DIM, GREEN, PLAIN, RED, YELLOW};

/// Returns the lines of a text in which untrusted parts are escaped already. The codes of the host become styles of the theme.
pub fn styled_lines(text: &str, theme: &Theme) -> Vec<StyledLine> {
    text.lines().map(|line| styled_line(line, theme)).collect()
}

fn styled_line(mut text: &str, theme: &Theme) -> StyledLine {
    let (mut line, mut style) = (StyledLine::default(), Style::new());
    while let Some((at, code, next)) = first_code(text, theme) {
        line.push(&text[..at], style);
        style = next;
        text = &text[at + code.len()..];
    }
    line.push(text, style);
    line
}

/// Returns the first code in a text: its position, itself, and the style that it begins.
fn first_code(text: &str, theme: &Theme) -> Option<(usize, &'static str, Style)> {
    let codes = [
        (BOLD, theme.style(StyleRole::Strong)),
        (DIM, theme.style(StyleRole::Muted)),
        (RED, theme.style(StyleRole::Failure)),
        (GREEN, theme.style(StyleRole::Success)),
        (YELLOW, theme.style(StyleRole::Warning)),
        (PLAIN, Style::new()),
    ];
    let found = codes.into_iter().filter_map(|(code, style)| Some((text.find(code)?, code, style)));
    found.min_by_key(|(at, ..)| *at)
}

#[cfg(test)]
mod tests {
    use shelly_terminal::theme::ColourSupport;

    use super::*;

    #[test]
    fn colours_of_the_host_become_styles() {
        let theme = Theme::new(ColourSupport::TrueColour, None);
        let lines = styled_lines(&format!("{RED}error:{PLAIN} no\n  {DIM}hint:{PLAIN} yes {BOLD}\x1b[2J"), &theme);
        let texts: Vec<_> = lines.iter().map(ToString::to_string).collect();
        assert_eq!(texts, ["error: no", "  hint: yes \\u{1b}[2J"], "a code of others is spelled out");
        let spans = lines[0].spans();
        assert_eq!((spans[0].text(), spans[0].style()), ("error:", theme.style(StyleRole::Failure)));
        assert_eq!((spans[1].text(), spans[1].style()), (" no", Style::new()));
    }
}
