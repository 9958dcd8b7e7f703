//! Times in a time zone, as five fields of cron.
//!
//! `cronexpr` parses the fields and finds the next time that matches on a clock without a zone; `jiff` says when that clock
//! shows the time in a zone. The zones are those in the program, so that a schedule means the same on every machine.

use std::{sync::LazyLock, time::SystemTime};

use cronexpr::{Crontab, FallbackTimezoneOption, ParseOptions};
use jiff::{
    Timestamp, ToSpan,
    civil::DateTime,
    tz::{Offset, TimeZone, TimeZoneDatabase},
};

/// The time zones in the program.
static ZONES: LazyLock<TimeZoneDatabase> = LazyLock::new(TimeZoneDatabase::bundled);

/// The times at which a trigger fires.
///
/// Where the hours are named, each time of the clock fires once: one that the clock skips, as much later as the clock jumps;
/// one that it shows twice, the first time. Where the hours begin with `*`, the trigger fires at each moment that matches:
/// none is skipped, and those of a repeated hour fire twice.
#[derive(Debug, Clone)]
pub struct CronSchedule {
    fields: Crontab,
    zone: TimeZone,
    /// `true` if the hours begin with `*`.
    is_periodic: bool,
}

/// The reason why a schedule cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are the facts in the sentence above them")]
pub enum CronScheduleError {
    /// The five fields cannot be parsed.
    #[error("{reason}")]
    Fields { reason: String },
    /// There is no such time zone.
    #[error("there is no time zone `{name}`")]
    Zone { name: String },
    /// No day has such a time.
    #[error("the schedule never fires: no date matches")]
    Never,
}

impl CronSchedule {
    /// Parses the five fields: minute, hour, day of the month, month, day of the week. Without a zone they are in UTC.
    ///
    /// # Errors
    ///
    /// [`CronScheduleError`].
    pub fn parse(fields: &str, zone: Option<&str>) -> Result<Self, CronScheduleError> {
        let parts: Vec<_> = fields.split_whitespace().collect();
        if parts.len() != 5 {
            let reason = format!("it has {} fields, not 5", parts.len());
            return Err(CronScheduleError::Fields { reason });
        }
        if is_extended(&parts) {
            let reason = "days are numbers, names, lists, ranges and steps; L, W and # are not among them".to_owned();
            return Err(CronScheduleError::Fields { reason });
        }
        let mut options = ParseOptions::default();
        options.fallback_timezone_option = FallbackTimezoneOption::UTC;
        let parsed = cronexpr::parse_crontab_with(&parts.join(" "), options).map_err(|error| {
            // The text before repeats the fields and points into them.
            let text = error.to_string();
            let reason = text.rsplit_once("^ ").map_or(text.as_str(), |(_, reason)| reason).trim().to_owned();
            CronScheduleError::Fields { reason }
        })?;
        let zone = match zone {
            None => TimeZone::UTC,
            Some(name) => ZONES.get(name).map_err(|_| CronScheduleError::Zone { name: name.to_owned() })?,
        };
        let schedule = Self { fields: parsed, zone, is_periodic: parts[1].starts_with('*') };
        schedule.next(Timestamp::UNIX_EPOCH).map(|_| ()).ok_or(CronScheduleError::Never)?;
        Ok(schedule)
    }

    /// Returns the first time after this one; `None` if there is none in the four years that follow.
    pub fn next_after(&self, after: SystemTime) -> Option<SystemTime> {
        self.next(Timestamp::try_from(after).ok()?).map(SystemTime::from)
    }

    /// Formats a time as the clock of the zone shows it, with its offset.
    pub fn shown(&self, time: SystemTime) -> String {
        let Ok(time) = Timestamp::try_from(time) else { return String::new() };
        let time = Timestamp::from_second(time.as_second()).unwrap_or(time);
        time.display_with_offset(self.zone.to_offset(time)).to_string()
    }

    fn next(&self, after: Timestamp) -> Option<Timestamp> {
        if self.is_periodic { self.next_moment(after) } else { self.next_on_clock(after) }
    }

    /// Returns the next moment at which the clock shows a time that matches.
    fn next_moment(&self, after: Timestamp) -> Option<Timestamp> {
        let (mut offset, mut changes) = (self.zone.to_offset(after), self.zone.following(after));
        let mut from = offset.to_datetime(after);
        // Each turn goes on from one change of the clock before the next time of the fields, at most four years away.
        loop {
            let next = offset.to_timestamp(self.next_of_fields(from)?).ok()?;
            let Some(change) = changes.next().filter(|change| change.timestamp() <= next) else { return Some(next) };
            offset = change.offset();
            // The time to which the clock changes may match.
            from = offset.to_datetime(change.timestamp()).checked_sub(1.second()).ok()?;
        }
    }

    /// Returns the next time of the clock that matches, also if the clock skips it.
    fn next_on_clock(&self, after: Timestamp) -> Option<Timestamp> {
        // A time that the clock has just skipped is before the one that it shows now.
        let mut from = self.zone.to_datetime(after).checked_sub(2.hours()).ok()?;
        // At most the minutes of the hours before, and of an hour that is shown twice.
        loop {
            from = self.next_of_fields(from)?;
            let next = self.zone.to_ambiguous_timestamp(from).compatible().ok()?;
            if next > after {
                return Some(next);
            }
        }
    }

    /// Returns the first time after `from` that matches the fields, on a clock that never changes.
    fn next_of_fields(&self, from: DateTime) -> Option<DateTime> {
        let from = Offset::UTC.to_timestamp(from).ok()?;
        self.fields.find_next(from).ok().map(|next| next.datetime())
    }
}

/// Returns `true` if the days are given in ways beyond those of cron. The library does not find the last days of December.
fn is_extended(fields: &[&str]) -> bool {
    let of_week = fields[4].to_ascii_uppercase();
    fields[2].contains(|letter: char| letter.is_ascii_alphabetic())
        || of_week.contains('#')
        || of_week.split(',').any(|part| part.ends_with('L'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(text: &str) -> SystemTime {
        humantime::parse_rfc3339(text).unwrap()
    }

    /// Returns the next times after a first one, in UTC.
    fn next(fields: &str, zone: Option<&str>, after: &str, count: usize) -> Vec<String> {
        let schedule = CronSchedule::parse(fields, zone).unwrap_or_else(|error| panic!("{fields}: {error}"));
        let mut at = time(after);
        let mut times = Vec::new();
        for _ in 0..count {
            at = schedule.next_after(at).unwrap();
            times.push(humantime::format_rfc3339_seconds(at).to_string());
        }
        times
    }

    #[test]
    fn schedule_fires_at_the_times_of_its_fields() {
        for (fields, zone, after, expected) in [
            ("0 3 * * *", None, "2026-11-27T02:59:59Z", ["2026-11-27T03:00:00Z", "2026-11-28T03:00:00Z"]),
            ("0 3 * * *", None, "2026-11-27T03:00:00Z", ["2026-11-28T03:00:00Z", "2026-11-29T03:00:00Z"]),
            (
                "0 3 * * *",
                Some("Europe/Berlin"),
                "2026-11-27T00:00:00Z",
                ["2026-11-27T02:00:00Z", "2026-11-28T02:00:00Z"],
            ),
            ("*/20 * * * *", None, "2026-11-27T00:30:10Z", ["2026-11-27T00:40:00Z", "2026-11-27T01:00:00Z"]),
            ("30 9 * * MON-FRI", None, "2026-11-27T12:00:00Z", ["2026-11-30T09:30:00Z", "2026-12-01T09:30:00Z"]),
            ("0 0 29 2 *", None, "2026-11-27T00:00:00Z", ["2028-02-29T00:00:00Z", "2032-02-29T00:00:00Z"]),
            (
                "0 12 28-31 * *",
                Some("Asia/Kathmandu"),
                "2026-11-27T00:00:00Z",
                ["2026-11-28T06:15:00Z", "2026-11-29T06:15:00Z"],
            ),
        ] {
            assert_eq!(next(fields, zone, after, 2), expected, "{fields}");
        }
        for fields in ["0 12 L * *", "0 12 15W * *", "0 12 * * 5L", "0 12 * * MON#1"] {
            assert!(matches!(CronSchedule::parse(fields, None), Err(CronScheduleError::Fields { .. })), "{fields}");
        }
    }

    #[test]
    fn named_time_fires_once_when_the_clock_changes() {
        let berlin = Some("Europe/Berlin");
        // At 02:00 the clock jumps to 03:00.
        assert_eq!(
            next("30 2 * * *", berlin, "2026-03-28T12:00:00Z", 2),
            ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]
        );
        // Also if the wait begins after the jump.
        assert_eq!(next("30 2 * * *", berlin, "2026-03-29T01:10:00Z", 1), ["2026-03-29T01:30:00Z"]);
        // Two times of the clock at one moment are one firing.
        assert_eq!(
            next("30 2,3 * * *", berlin, "2026-03-29T00:00:00Z", 2),
            ["2026-03-29T01:30:00Z", "2026-03-30T00:30:00Z"]
        );
        // At 03:00 the clock goes back to 02:00.
        assert_eq!(
            next("30 2 * * *", berlin, "2026-10-24T12:00:00Z", 2),
            ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"]
        );
        // In the repeated hour the time is over.
        assert_eq!(next("30 2 * * *", berlin, "2026-10-25T01:10:00Z", 1), ["2026-10-26T01:30:00Z"]);
        // A jump of half an hour, in the other half of the world.
        assert_eq!(
            next("15 2 * * *", Some("Australia/Lord_Howe"), "2026-10-03T00:00:00Z", 2),
            ["2026-10-03T15:45:00Z", "2026-10-04T15:15:00Z"]
        );
    }

    #[test]
    fn periodic_schedule_follows_time_and_not_the_clock() {
        let berlin = Some("Europe/Berlin");
        assert_eq!(
            next("*/30 * * * *", berlin, "2026-10-25T00:00:00Z", 5),
            [
                "2026-10-25T00:30:00Z",
                "2026-10-25T01:00:00Z",
                "2026-10-25T01:30:00Z",
                "2026-10-25T02:00:00Z",
                "2026-10-25T02:30:00Z"
            ]
        );
        assert_eq!(
            next("*/30 * * * *", berlin, "2026-03-29T00:30:00Z", 3),
            ["2026-03-29T01:00:00Z", "2026-03-29T01:30:00Z", "2026-03-29T02:00:00Z"]
        );
    }

    #[test]
    fn schedule_that_cannot_fire_is_refused() {
        for (fields, zone, says) in [
            ("0 3 * *", None, "it has 4 fields, not 5"),
            ("0 3 * * * UTC", None, "it has 6 fields, not 5"),
            ("60 3 * * *", None, ""),
            ("0 H * * *", None, ""),
            ("@daily", None, "it has 1 fields, not 5"),
            ("0 0 30 2 *", None, "never fires"),
            ("0 0 * * *", Some("Europe/Atlantis"), "there is no time zone `Europe/Atlantis`"),
        ] {
            let error = CronSchedule::parse(fields, zone).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains('\n') && !error.is_empty(), "{fields}: {error}");
        }
    }

    #[test]
    fn time_is_shown_with_the_offset_of_the_zone() {
        let schedule = CronSchedule::parse("0 3 * * *", Some("Europe/Berlin")).unwrap();
        assert_eq!(schedule.shown(time("2026-11-27T02:00:00.5Z")), "2026-11-27T03:00:00+01:00");
    }
}
