use std::time::Duration;

use crate::limits;

/// The variable of the environment that turns notifications off.
const VARIABLE: &str = "SHELLY_NOTIFY";

/// The decision whether the person's attention is called.
#[derive(Debug)]
pub struct ChatNotifications {
    is_on: bool,
    /// `true` if the terminal has the keyboard focus; `None` if it has not told.
    has_focus: Option<bool>,
}

impl ChatNotifications {
    /// Reads the environment: notifications are on unless it says `off`, `0` or `no`.
    pub fn from_environment() -> Self {
        Self::of(std::env::var(VARIABLE).ok().as_deref())
    }

    fn of(value: Option<&str>) -> Self {
        let is_off = value.is_some_and(|value| matches!(value.trim().to_lowercase().as_str(), "off" | "0" | "no"));
        Self { is_on: !is_off, has_focus: None }
    }

    /// Notes that the terminal has got the keyboard focus, or has lost it.
    pub fn set_focus(&mut self, has_focus: bool) {
        self.has_focus = Some(has_focus);
    }

    /// Returns `true` if a question is notified. A terminal that does not tell about its focus may be out of sight.
    pub fn are_due_for_question(&self) -> bool {
        self.is_on && self.has_focus != Some(true)
    }

    /// Returns `true` if the end of a step that took so long is notified. A person who has interrupted it knows.
    pub fn are_due_after(&self, took: Duration, is_interrupted: bool) -> bool {
        !is_interrupted && took >= limits::CHAT_NOTIFIED_AFTER && self.are_due_for_question()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notification_is_due_without_focus_and_after_a_while() {
        let (short, long) = (Duration::from_secs(1), limits::CHAT_NOTIFIED_AFTER);
        let mut notifications = ChatNotifications::of(None);
        assert!(notifications.are_due_for_question() && notifications.are_due_after(long, false));
        assert!(!notifications.are_due_after(short, false));
        assert!(!notifications.are_due_after(long, true), "the person has interrupted it");
        notifications.set_focus(true);
        assert!(!notifications.are_due_for_question() && !notifications.are_due_after(long, false));
        notifications.set_focus(false);
        assert!(notifications.are_due_for_question() && notifications.are_due_after(long, false));
    }

    #[test]
    fn environment_turns_notifications_off() {
        for (value, is_on) in
            [(None, true), (Some("on"), true), (Some("OFF"), false), (Some(" 0"), false), (Some("no"), false)]
        {
            assert_eq!(ChatNotifications::of(value).are_due_for_question(), is_on, "{value:?}");
        }
    }
}
