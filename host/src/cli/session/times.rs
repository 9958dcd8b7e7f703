//! Formats points in time.

use std::{
    fmt::Write,
    time::{Duration, SystemTime},
};

/// Formats a time as RFC 3339; `None` if that is not possible.
pub fn date(time: SystemTime) -> Option<String> {
    time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let mut text = String::new();
    write!(text, "{}", humantime::format_rfc3339_millis(time)).ok()?;
    Some(text)
}

/// Converts the milliseconds since 1970 in a journal to a time.
pub fn instant(t: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_millis(t)).unwrap_or(SystemTime::UNIX_EPOCH)
}

/// Formats a time in UTC for people, to the second.
pub fn when(time: SystemTime) -> String {
    let date = date(time).and_then(|date| Some(date.get(..19)?.replace('T', " ")));
    date.unwrap_or_else(|| "unknown".into())
}

/// Formats the time that has passed since `time`.
pub fn ago(time: SystemTime, now: SystemTime) -> String {
    let seconds = now.duration_since(time).unwrap_or_default().as_secs();
    match seconds {
        0..60 => "just now".into(),
        60..3_600 => format!("{} min ago", seconds / 60),
        3_600..172_800 => format!("{} h ago", seconds / 3_600),
        _ => format!("{} d ago", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_formatted_for_any_value() {
        let at = |seconds: u64| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(when(at(1_795_342_503)), "2026-11-22 10:15:03");
        assert_eq!(date(at(0)).unwrap(), "1970-01-01T00:00:00.000Z");
        assert_eq!(when(at(0) - Duration::from_secs(1)), "unknown");
        assert_eq!(when(instant(u64::MAX)), "unknown");
        for (seconds, shown) in [
            (0, "just now"),
            (59, "just now"),
            (60, "1 min ago"),
            (3_599, "59 min ago"),
            (3_600, "1 h ago"),
            (172_799, "47 h ago"),
            (172_800, "2 d ago"),
        ] {
            assert_eq!(ago(at(1_000_000), at(1_000_000 + seconds)), shown);
        }
        assert_eq!(ago(at(2), at(1)), "just now", "a clock that was set back");
    }
}
