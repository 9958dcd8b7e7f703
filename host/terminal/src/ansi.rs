//! Control sequences of terminals (ECMA-48 and the extensions of xterm), as this crate writes them.

use std::fmt::Write;

use ratatui_core::style::{Color, Modifier, Style};

/// Ends all styles.
pub const RESET_STYLE: &str = "\x1b[0m";
/// Ends a hyperlink.
pub const END_LINK: &str = "\x1b]8;;\x1b\\";

/// Asks the terminal to show nothing until [`END_UPDATE`]; terminals without synchronized output ignore it.
pub const BEGIN_UPDATE: &str = "\x1b[?2026h";
/// Shows what was written since [`BEGIN_UPDATE`].
pub const END_UPDATE: &str = "\x1b[?2026l";
/// Hides the cursor.
pub const HIDE_CURSOR: &str = "\x1b[?25l";
/// Shows the cursor.
pub const SHOW_CURSOR: &str = "\x1b[?25h";
/// Lets a line that is too long end at the last column.
pub const NO_AUTO_WRAP: &str = "\x1b[?7l";
/// Lets a line that is too long go on in the next row.
pub const AUTO_WRAP: &str = "\x1b[?7h";
/// Erases the row of the cursor and all rows below it, from the first column.
pub const ERASE_BELOW: &str = "\r\x1b[J";
/// Goes to the first column of the next row, and scrolls if there is none.
pub const NEW_LINE: &str = "\r\n";

/// Begins the text of a notification of the desktop (OSC 9 of iTerm2, which many terminals have).
pub const BEGIN_NOTIFICATION: &str = "\x1b]9;";
/// Ends the text of a notification.
pub const END_NOTIFICATION: &str = "\x1b\\";
/// Rings the bell.
pub const BELL: &str = "\x07";

/// Moves the cursor so many columns to the right.
pub fn move_right(output: &mut String, columns: usize) {
    if columns > 0 {
        write(output, format_args!("\x1b[{columns}C"));
    }
}

/// Moves the cursor to the first column, so many rows up.
pub fn move_up(output: &mut String, rows: usize) {
    output.push('\r');
    if rows > 0 {
        write(output, format_args!("\x1b[{rows}A"));
    }
}

/// Begins a hyperlink to a URL that has printable ASCII alone.
pub fn begin_link(output: &mut String, url: &str) {
    write(output, format_args!("\x1b]8;;{url}\x1b\\"));
}

/// Begins a style. Returns `false` if there is nothing to begin.
pub fn begin_style(output: &mut String, style: Style) -> bool {
    let mut parameters = String::new();
    if let Some(colour) = style.fg {
        add_colour(&mut parameters, colour, 30);
    }
    if let Some(colour) = style.bg {
        add_colour(&mut parameters, colour, 40);
    }
    for (modifier, parameter) in [
        (Modifier::BOLD, 1),
        (Modifier::DIM, 2),
        (Modifier::ITALIC, 3),
        (Modifier::UNDERLINED, 4),
        (Modifier::SLOW_BLINK, 5),
        (Modifier::RAPID_BLINK, 6),
        (Modifier::REVERSED, 7),
        (Modifier::HIDDEN, 8),
        (Modifier::CROSSED_OUT, 9),
    ] {
        if style.add_modifier.contains(modifier) {
            write(&mut parameters, format_args!("{parameter};"));
        }
    }
    let parameters = parameters.trim_end_matches(';');
    if !parameters.is_empty() {
        write(output, format_args!("\x1b[{parameters}m"));
    }
    !parameters.is_empty()
}

/// Adds the parameters of a colour; `base` is 30 for the text and 40 for its background.
fn add_colour(parameters: &mut String, colour: Color, base: u8) {
    let (index, is_bright) = match colour {
        // Each style begins after a reset.
        Color::Reset => return,
        Color::Indexed(index) => return write(parameters, format_args!("{};5;{index};", base + 8)),
        Color::Rgb(red, green, blue) => return write(parameters, format_args!("{};2;{red};{green};{blue};", base + 8)),
        Color::Black => (0, false),
        Color::Red => (1, false),
        Color::Green => (2, false),
        Color::Yellow => (3, false),
        Color::Blue => (4, false),
        Color::Magenta => (5, false),
        Color::Cyan => (6, false),
        Color::Gray => (7, false),
        Color::DarkGray => (0, true),
        Color::LightRed => (1, true),
        Color::LightGreen => (2, true),
        Color::LightYellow => (3, true),
        Color::LightBlue => (4, true),
        Color::LightMagenta => (5, true),
        Color::LightCyan => (6, true),
        Color::White => (7, true),
    };
    write(parameters, format_args!("{};", base + index + if is_bright { 60 } else { 0 }));
}

fn write(output: &mut String, what: std::fmt::Arguments<'_>) {
    output.write_fmt(what).expect("a string takes all that is written");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn styles_have_the_parameters_of_ecma_48() {
        for (style, sequence) in [
            (Style::new(), ""),
            (Style::new().fg(Color::Reset), ""),
            (Style::new().fg(Color::Red).bg(Color::White), "\x1b[31;107m"),
            (Style::new().fg(Color::DarkGray).bg(Color::Indexed(9)), "\x1b[90;48;5;9m"),
            (Style::new().fg(Color::Rgb(255, 0, 7)).dim().crossed_out(), "\x1b[38;2;255;0;7;2;9m"),
        ] {
            let mut output = String::new();
            assert_eq!(begin_style(&mut output, style), !sequence.is_empty());
            assert_eq!(output, sequence);
        }
    }

    #[test]
    fn cursor_stays_in_its_row_without_a_distance() {
        let mut output = String::new();
        move_up(&mut output, 0);
        move_up(&mut output, 3);
        assert_eq!(output, "\r\r\x1b[3A");
    }
}
