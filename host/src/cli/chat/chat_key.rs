use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use shelly_terminal::text_editor::CursorMotion;

/// A key press, a paste or a change of the terminal, as far as the chat acts on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChatKey {
    /// Typed or pasted text.
    Text(String),
    Enter,
    /// Adds a line instead of sending the message.
    NewLine,
    Tab,
    Escape,
    /// Ctrl+C.
    Interrupt,
    /// Ctrl+D.
    EndOfInput,
    Move(CursorMotion),
    Remove(CursorMotion),
    RestoreRemoved,
    SearchHistory,
    /// Ctrl+O.
    ShowCalls,
    /// Ctrl+X, the first of two keys.
    Prefix,
    /// The terminal was resized, or the person wants it drawn anew.
    Redraw,
    /// The terminal has got the keyboard focus, or lost it.
    Focus(bool),
}

impl ChatKey {
    /// Returns the key of an event of the terminal; `None` if the chat does not act on it.
    pub fn from_event(event: Event) -> Option<Self> {
        match event {
            Event::Paste(text) => Some(Self::Text(text)),
            Event::Resize(..) => Some(Self::Redraw),
            Event::FocusGained => Some(Self::Focus(true)),
            Event::FocusLost => Some(Self::Focus(false)),
            Event::Key(key) if key.kind != KeyEventKind::Release => Self::from_key(key),
            _ => None,
        }
    }

    fn from_key(KeyEvent { code, modifiers, .. }: KeyEvent) -> Option<Self> {
        let is_control = modifiers.contains(KeyModifiers::CONTROL);
        let is_alt = modifiers.contains(KeyModifiers::ALT);
        let by_word = is_control || is_alt;
        Some(match code {
            // Keyboards with a key AltGr report both.
            KeyCode::Char(c) if is_control && !is_alt => return Self::from_control(c),
            KeyCode::Char(c) if is_alt && !is_control => return Self::from_alt(c),
            KeyCode::Char(c) => Self::Text(c.into()),
            KeyCode::Enter if is_alt || modifiers.contains(KeyModifiers::SHIFT) => Self::NewLine,
            KeyCode::Enter => Self::Enter,
            KeyCode::Tab => Self::Tab,
            KeyCode::Esc => Self::Escape,
            KeyCode::Backspace if by_word => Self::Remove(CursorMotion::WordLeft),
            KeyCode::Backspace => Self::Remove(CursorMotion::Left),
            KeyCode::Delete if by_word => Self::Remove(CursorMotion::WordRight),
            KeyCode::Delete => Self::Remove(CursorMotion::Right),
            KeyCode::Left if by_word => Self::Move(CursorMotion::WordLeft),
            KeyCode::Left => Self::Move(CursorMotion::Left),
            KeyCode::Right if by_word => Self::Move(CursorMotion::WordRight),
            KeyCode::Right => Self::Move(CursorMotion::Right),
            KeyCode::Up => Self::Move(CursorMotion::Up),
            KeyCode::Down => Self::Move(CursorMotion::Down),
            KeyCode::Home => Self::Move(CursorMotion::LineStart),
            KeyCode::End => Self::Move(CursorMotion::LineEnd),
            _ => return None,
        })
    }

    fn from_control(c: char) -> Option<Self> {
        Some(match c.to_ascii_lowercase() {
            'c' => Self::Interrupt,
            'd' => Self::EndOfInput,
            'j' => Self::NewLine,
            'a' => Self::Move(CursorMotion::LineStart),
            'e' => Self::Move(CursorMotion::LineEnd),
            'b' => Self::Move(CursorMotion::Left),
            'f' => Self::Move(CursorMotion::Right),
            'p' => Self::Move(CursorMotion::Up),
            'n' => Self::Move(CursorMotion::Down),
            'h' => Self::Remove(CursorMotion::Left),
            'k' => Self::Remove(CursorMotion::LineEnd),
            'u' => Self::Remove(CursorMotion::LineStart),
            'w' => Self::Remove(CursorMotion::WordLeft),
            'y' => Self::RestoreRemoved,
            'r' => Self::SearchHistory,
            'l' => Self::Redraw,
            'o' => Self::ShowCalls,
            'x' => Self::Prefix,
            _ => return None,
        })
    }

    fn from_alt(c: char) -> Option<Self> {
        Some(match c.to_ascii_lowercase() {
            'b' => Self::Move(CursorMotion::WordLeft),
            'f' => Self::Move(CursorMotion::WordRight),
            'd' => Self::Remove(CursorMotion::WordRight),
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_shells_have_their_meaning() {
        let (none, control, alt) = (KeyModifiers::NONE, KeyModifiers::CONTROL, KeyModifiers::ALT);
        for (code, modifiers, key) in [
            (KeyCode::Char('a'), none, Some(ChatKey::Text("a".into()))),
            (KeyCode::Char('É'), KeyModifiers::SHIFT, Some(ChatKey::Text("É".into()))),
            (KeyCode::Char('@'), control | alt, Some(ChatKey::Text("@".into()))),
            (KeyCode::Char('c'), control, Some(ChatKey::Interrupt)),
            (KeyCode::Char('j'), control, Some(ChatKey::NewLine)),
            (KeyCode::Char('x'), control, Some(ChatKey::Prefix)),
            (KeyCode::Char('t'), control, None),
            (KeyCode::Char('b'), alt, Some(ChatKey::Move(CursorMotion::WordLeft))),
            (KeyCode::Enter, none, Some(ChatKey::Enter)),
            (KeyCode::Enter, alt, Some(ChatKey::NewLine)),
            (KeyCode::Backspace, alt, Some(ChatKey::Remove(CursorMotion::WordLeft))),
            (KeyCode::Left, control, Some(ChatKey::Move(CursorMotion::WordLeft))),
            (KeyCode::F(5), none, None),
        ] {
            assert_eq!(ChatKey::from_event(Event::Key(KeyEvent::new(code, modifiers))), key, "{code:?} {modifiers:?}");
        }
        assert_eq!(ChatKey::from_event(Event::Paste("a\nb".into())), Some(ChatKey::Text("a\nb".into())));
        assert_eq!(ChatKey::from_event(Event::Resize(1, 1)), Some(ChatKey::Redraw));
        assert_eq!(ChatKey::from_event(Event::FocusLost), Some(ChatKey::Focus(false)));
    }
}
