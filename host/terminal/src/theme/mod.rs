//! Themes: dark, light and plain.
//!
//! A plain theme has no control sequences: headings keep their `#`, emphasis its `*`, quotes their `>`, and tables have
//! `|` between columns. [`TerminalEnvironment`] says which theme fits a terminal.

mod terminal_environment;

use ratatui_core::style::{Color, Modifier, Style};

pub use terminal_environment::{Background, ColourSupport, TerminalEnvironment};

/// The purpose of a part of a line; a theme has a style for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StyleRole {
    /// A heading of the first or second level.
    Title,
    /// A heading of another level.
    Heading,
    /// Text in single `*`.
    Emphasis,
    /// Text in double `*`; headers of tables.
    Strong,
    /// Text in `~~`.
    Strikethrough,
    /// Text in backticks.
    InlineCode,
    /// The text of a link, or the description of an image.
    Link,
    /// The marker of a list item.
    ListMarker,
    /// Secondary text: URLs, borders, the bars of quotes, hints.
    Muted,
    /// Success, and lines that were added.
    Success,
    /// A warning.
    Warning,
    /// A failure, and lines that were removed.
    Failure,
    /// A keyword or operator of a programming language.
    Keyword,
    /// The name of a function, where it is defined or called.
    Function,
    /// The name of a type, tag, key or section.
    TypeName,
    /// A string.
    StringLiteral,
    /// A number or another constant.
    Constant,
    /// A comment.
    Comment,
}

/// A colour by name, which each theme has in a form of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Hue {
    Red,
    Green,
    Yellow,
    Blue,
    Magenta,
    Cyan,
}

impl Hue {
    /// Returns the colour of the terminal's own palette, which its owner has made legible.
    fn of_palette(self) -> Color {
        match self {
            Self::Red => Color::Red,
            Self::Green => Color::Green,
            Self::Yellow => Color::Yellow,
            Self::Blue => Color::Blue,
            Self::Magenta => Color::Magenta,
            Self::Cyan => Color::Cyan,
        }
    }

    /// Returns a colour that is legible on this background.
    fn on(self, background: Background) -> Color {
        let (on_dark, on_light) = match self {
            Self::Red => ((0xf0, 0x71, 0x78), (0xb3, 0x26, 0x1e)),
            Self::Green => ((0xa6, 0xd1, 0x89), (0x2e, 0x6b, 0x1f)),
            Self::Yellow => ((0xe5, 0xc0, 0x7b), (0x7a, 0x5a, 0x00)),
            Self::Blue => ((0x82, 0xaa, 0xff), (0x0b, 0x57, 0xd0)),
            Self::Magenta => ((0xc7, 0x92, 0xea), (0x7b, 0x1f, 0xa2)),
            Self::Cyan => ((0x7f, 0xdb, 0xca), (0x00, 0x69, 0x6b)),
        };
        let (red, green, blue) = if background == Background::Dark { on_dark } else { on_light };
        Color::Rgb(red, green, blue)
    }
}

/// The source of the colours of a theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Palette {
    Plain,
    /// The sixteen colours of the terminal.
    Terminal,
    /// Colours of our own.
    Own(Background),
}

/// The styles of everything that is shown.
///
/// ```
/// use shelly_terminal::{styled_line::Style, theme::{Background, ColourSupport, StyleRole, Theme}};
///
/// let theme = Theme::new(ColourSupport::TrueColour, Some(Background::Light));
/// assert_ne!(theme.style(StyleRole::Failure), Style::new());
/// assert!(Theme::plain().is_plain());
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Theme {
    palette: Palette,
}

impl Theme {
    /// Creates the theme for a terminal. With an unknown background the colours are those of the terminal's own palette,
    /// which are legible on either.
    pub fn new(colours: ColourSupport, background: Option<Background>) -> Self {
        let palette = match (colours, background) {
            (ColourSupport::None, _) => Palette::Plain,
            (ColourSupport::TrueColour, Some(background)) => Palette::Own(background),
            _ => Palette::Terminal,
        };
        Self { palette }
    }

    /// Creates the theme without colours.
    pub fn plain() -> Self {
        Self { palette: Palette::Plain }
    }

    /// Returns `true` if no style of the theme has a control sequence, so that structure must be shown by characters.
    pub fn is_plain(&self) -> bool {
        self.palette == Palette::Plain
    }

    /// Returns the style for a purpose.
    pub fn style(&self, role: StyleRole) -> Style {
        let none = Modifier::empty();
        let (hue, modifier) = match role {
            StyleRole::Title => (Some(Hue::Blue), Modifier::BOLD),
            StyleRole::Heading | StyleRole::Strong => (None, Modifier::BOLD),
            StyleRole::Emphasis => (None, Modifier::ITALIC),
            StyleRole::Strikethrough => (None, Modifier::CROSSED_OUT),
            StyleRole::Link => (None, Modifier::UNDERLINED),
            StyleRole::Muted => (None, Modifier::DIM),
            StyleRole::Comment => (None, Modifier::DIM.union(Modifier::ITALIC)),
            StyleRole::InlineCode | StyleRole::TypeName => (Some(Hue::Cyan), none),
            StyleRole::ListMarker | StyleRole::Function => (Some(Hue::Blue), none),
            StyleRole::Success | StyleRole::StringLiteral => (Some(Hue::Green), none),
            StyleRole::Warning | StyleRole::Constant => (Some(Hue::Yellow), none),
            StyleRole::Failure => (Some(Hue::Red), none),
            StyleRole::Keyword => (Some(Hue::Magenta), none),
        };
        let colour = |hue: Hue| match self.palette {
            Palette::Own(background) => hue.on(background),
            _ => hue.of_palette(),
        };
        match hue.map(colour) {
            _ if self.is_plain() => Style::new(),
            Some(colour) => Style::new().fg(colour).add_modifier(modifier),
            None => Style::new().add_modifier(modifier),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Relative luminance as in WCAG 2.
    fn luminance(colour: Color) -> f64 {
        let Color::Rgb(red, green, blue) = colour else { panic!("{colour:?}") };
        let linear = |part: u8| match f64::from(part) / 255.0 {
            part if part <= 0.03928 => part / 12.92,
            part => ((part + 0.055) / 1.055).powf(2.4),
        };
        0.2126 * linear(red) + 0.7152 * linear(green) + 0.0722 * linear(blue)
    }

    #[test]
    fn own_colours_are_legible_on_their_background() {
        // The lightest of dark backgrounds in use, and the darkest of light ones.
        let backgrounds = [(Background::Dark, Color::Rgb(40, 44, 52)), (Background::Light, Color::Rgb(238, 232, 213))];
        for (background, behind) in backgrounds {
            for hue in [Hue::Red, Hue::Green, Hue::Yellow, Hue::Blue, Hue::Magenta, Hue::Cyan] {
                let (one, other) = (luminance(hue.on(background)), luminance(behind));
                let contrast = (one.max(other) + 0.05) / (one.min(other) + 0.05);
                assert!(contrast >= 4.5, "{hue:?} on {background:?}: {contrast}");
            }
        }
    }

    #[test]
    fn theme_follows_support_and_background() {
        for (colours, background, palette) in [
            (ColourSupport::None, Some(Background::Dark), Palette::Plain),
            (ColourSupport::Palette, Some(Background::Light), Palette::Terminal),
            (ColourSupport::TrueColour, None, Palette::Terminal),
            (ColourSupport::TrueColour, Some(Background::Light), Palette::Own(Background::Light)),
        ] {
            assert_eq!(Theme::new(colours, background).palette, palette);
        }
    }

    #[test]
    fn plain_theme_styles_nothing() {
        let theme = Theme::plain();
        for role in [StyleRole::Title, StyleRole::Muted, StyleRole::Failure, StyleRole::Keyword, StyleRole::Link] {
            assert_eq!(theme.style(role), Style::new());
            assert_ne!(Theme::new(ColourSupport::Palette, None).style(role), Style::new());
        }
    }
}
