use super::*;

/// A moment in summer, in Berlin.
fn place() -> Place {
    Place::new("Europe/Berlin", "2026-07-01T10:00:00Z".parse().unwrap()).unwrap()
}

fn shown(time: Result<Zoned, Error>) -> String {
    match time {
        Ok(time) => time.to_string(),
        Err(Error::Invalid(message) | Error::TooLarge(message)) => message,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn date_time_accepts_every_documented_time_format() {
    let place = place();
    for (text, expected) in [
        ("now", "2026-07-01T12:00:00+02:00[Europe/Berlin]"),
        ("2026-01-01", "2026-01-01T00:00:00+01:00[Europe/Berlin]"),
        (" 2026-01-01 14:30 ", "2026-01-01T14:30:00+01:00[Europe/Berlin]"),
        ("2026-01-01T14:30:05", "2026-01-01T14:30:05+01:00[Europe/Berlin]"),
        ("2026-01-01T14:30:00Z", "2026-01-01T14:30:00+00:00[UTC]"),
        ("2026-01-01T14:30:00+05:30", "2026-01-01T14:30:00+05:30[+05:30]"),
        ("2026-01-01T14:30:00[Asia/Tokyo]", "2026-01-01T14:30:00+09:00[Asia/Tokyo]"),
        ("Thu, 01 Jan 2026 14:30:00 +0100", "2026-01-01T14:30:00+01:00[+01:00]"),
        ("@0", "1970-01-01T01:00:00+01:00[Europe/Berlin]"),
        // A time of day that does not exist: the clocks go forward.
        ("2026-03-29 02:30", "2026-03-29T03:30:00+02:00[Europe/Berlin]"),
    ] {
        assert_eq!(shown(place.read("time", text, &place.zone)), expected, "{text}");
    }
    for (text, says) in [
        ("tomorrow", "write a time as"),
        ("", "write a time as"),
        ("2026-02-30", "write a time as"),
        ("@x", "whole seconds"),
        ("@99999999999999999", "whole seconds"),
        ("2026-01-01T00:00[Mars/Base]", "Mars/Base"),
    ] {
        let told = shown(place.read("time", text, &place.zone));
        assert!(told.starts_with("`time`: ") && told.contains(says), "{text}: {told}");
    }
}

#[test]
fn date_time_converts_between_zones() {
    let convert = |time: &str, from: Option<&str>, to: &str| {
        shown(convert(&ConvertArgs { time: time.into(), from: from.map(str::to_owned), to: to.into() }, &place()))
    };
    assert_eq!(
        convert("2026-07-01T09:00", Some("America/New_York"), "Asia/Kolkata"),
        "2026-07-01T18:30:00+05:30[Asia/Kolkata]"
    );
    assert_eq!(convert("2026-01-01T09:00", None, "utc"), "2026-01-01T08:00:00+00:00[UTC]");
    assert_eq!(convert("2026-01-01T09:00Z", None, "-03:00"), "2026-01-01T06:00:00-03:00[-03:00]");
    assert!(convert("now", None, "Nowhere").starts_with("`to`: unknown time zone `Nowhere`"));
    assert!(convert("now", Some(&"x".repeat(999)), "UTC").len() < 200);
}

#[test]
fn date_time_adds_durations_by_the_calendar() {
    let add = |time: &str, duration: &str| {
        shown(add(&AddArgs { time: time.into(), duration: duration.into(), zone: None }, &place()))
    };
    assert_eq!(add("2026-01-31", "1 month"), "2026-02-28T00:00:00+01:00[Europe/Berlin]");
    assert_eq!(add("2024-02-29", "1 year"), "2025-02-28T00:00:00+01:00[Europe/Berlin]");
    assert_eq!(add("2026-03-28T12:00", "1 day"), "2026-03-29T12:00:00+02:00[Europe/Berlin]");
    assert_eq!(add("2026-03-28T12:00", "24h"), "2026-03-29T13:00:00+02:00[Europe/Berlin]");
    assert_eq!(add("2026-01-01", "-1 day"), "2025-12-31T00:00:00+01:00[Europe/Berlin]");
    assert_eq!(add("2026-01-01", "P1Y2M3DT4H"), "2027-03-04T04:00:00+01:00[Europe/Berlin]");
    assert!(add("2026-01-01", "soon").starts_with("`duration`: "));
    assert!(add("2026-01-01", "9999 years").starts_with("`duration`: "));
    assert!(add("2026-01-01", "99999999999999999999 years").starts_with("`duration`: "));
}

#[test]
fn date_time_difference_has_calendar_units_and_seconds() {
    let difference = |from: &str, to: &str, largest_unit| {
        difference(&DifferenceArgs { from: from.into(), to: to.into(), largest_unit, zone: None }, &place()).unwrap()
    };
    let told = difference("2025-11-20", "2026-07-01T12:00", None);
    assert_eq!((told.duration.as_str(), told.iso.as_str(), told.days), ("7mo 11d 12h", "P7M11DT12H", 223));
    let back = difference("2026-07-01T12:00", "2025-11-20", Some(LargestUnit::Days));
    assert_eq!((back.duration.as_str(), back.days), ("223d 12h ago", -223));
    assert_eq!(back.seconds, -told.seconds);
    // The day on which the clocks go forward has 23 hours.
    let day = difference("2026-03-29", "2026-03-30", Some(LargestUnit::Hours));
    assert_eq!((day.duration.as_str(), day.days, day.seconds), ("23h", 1, 23 * 3_600));
    let far = difference("-009998-01-02", "9998-12-30", Some(LargestUnit::Seconds));
    assert!(far.days > 7_000_000 && far.seconds > 600_000_000_000, "{far:?}");
}

#[test]
fn date_time_formats_and_parses_custom_formats() {
    let format =
        |form: &str| format(&FormatArgs { time: "2026-03-01T14:30".into(), format: form.into(), zone: None }, &place());
    assert_eq!(format("%A, %d %B %Y, %H:%M %Z").as_deref(), Ok("Sunday, 01 March 2026, 14:30 CET"));
    assert_eq!(format("%G-W%V-%u %j").as_deref(), Ok("2026-W09-7 060"));
    assert!(matches!(format("%!"), Err(Error::Invalid(_))));
    assert!(matches!(format("%99999d"), Err(Error::TooLarge(_))));
    assert!(matches!(format(&"%A".repeat(501)), Err(Error::TooLarge(_))));

    let parse = |text: &str, form: &str| {
        shown(parse(&ParseArgs { text: text.into(), format: form.into(), zone: None }, &place()))
    };
    assert_eq!(parse("01.03.2026 14:30", "%d.%m.%Y %H:%M"), "2026-03-01T14:30:00+01:00[Europe/Berlin]");
    assert_eq!(parse("March 1, 2026", "%B %d, %Y"), "2026-03-01T00:00:00+01:00[Europe/Berlin]");
    assert_eq!(parse("01/Mar/2026:14:30:00 +0530", "%d/%b/%Y:%H:%M:%S %z"), "2026-03-01T14:30:00+05:30[+05:30]");
    assert!(parse("2026-03-01", "%d.%m.%Y").starts_with("`text`: "));
    assert!(parse("31.02.2026", "%d.%m.%Y").starts_with("`text`: "));
}

#[test]
fn date_time_reply_has_time_weekday_and_unix_seconds() {
    let told = Told::new(&place().now.to_zoned(TimeZone::UTC));
    let expected = Told {
        time: "2026-07-01T10:00:00+00:00[UTC]".into(),
        weekday: "Wednesday".into(),
        unix_seconds: 1_782_900_000,
    };
    assert_eq!(told, expected);
    assert!(Place::new("Nowhere", Timestamp::UNIX_EPOCH).is_err());
}
