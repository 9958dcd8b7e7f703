//! Tools for dates and times: the current time, conversion between time zones, adding a duration, the difference of two
//! times, and formatting and parsing. They use the time zone database in the component.
//!
//! Params: `zone`, such as `Europe/Berlin`, is the time zone for times that name none; the default is `UTC`.
//!
//! A time is written as `2026-03-01T14:30:00+01:00[Europe/Berlin]`. From its end, zone and offset and the time of day may
//! be left out, and a space may replace the `T`. Other forms are `Sun, 01 Mar 2026 14:30:00 +0100`, seconds since 1970
//! after an `@`, and `now`. Durations are written as `1 year 2 months`, `3h 20m`, `-2 days` or `P1Y2M`.

use jiff::{
    RoundMode, Span, Timestamp, Unit, Zoned, ZonedDifference,
    civil::DateTime,
    fmt::{rfc2822, strtime, temporal},
    tz::{TimeZone, TimeZoneDatabase},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints, clock, config};

mod units;

use units::LargestUnit;

shelly_plugin::export!(tools: [Now, Convert, Add, Difference, Format, Parse]);

#[derive(Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Params {
    /// The time zone for times that name none.
    zone: String,
}

impl Default for Params {
    fn default() -> Params {
        Params { zone: "UTC".to_owned() }
    }
}

/// The context in which times are read.
struct Place {
    zones: TimeZoneDatabase,
    /// The time zone for times that name none.
    zone: TimeZone,
    now: Timestamp,
}

impl Place {
    fn here() -> Result<Place, Error> {
        let now = i64::try_from(clock::now()).ok().and_then(|now| Timestamp::from_millisecond(now).ok());
        let now = now.ok_or_else(|| Error::other("the clock returned an invalid time"))?;
        Place::new(&config::<Params>()?.zone, now).map_err(|cause| Error::Invalid(format!("params: `zone`: {cause}")))
    }

    fn new(zone: &str, now: Timestamp) -> Result<Place, String> {
        let zones = TimeZoneDatabase::bundled();
        let zone = read_zone(&zones, zone)?;
        Ok(Place { zones, zone, now })
    }

    /// Returns the zone of this name; without a name, the configured zone.
    fn zone(&self, field: &str, name: Option<&str>) -> Result<TimeZone, Error> {
        name.map_or(Ok(self.zone.clone()), |name| read_zone(&self.zones, name).map_err(|cause| wrong(field, cause)))
    }

    /// Parses a time. `zone` applies if the text names none.
    fn read(&self, field: &str, text: &str, zone: &TimeZone) -> Result<Zoned, Error> {
        let text = text.trim();
        if text == "now" {
            return Ok(self.now.to_zoned(zone.clone()));
        }
        if let Some(seconds) = text.strip_prefix('@') {
            let seconds = seconds.parse().ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
            let seconds = seconds.ok_or_else(|| wrong(field, "write whole seconds since 1970 after `@`"))?;
            return Ok(seconds.to_zoned(zone.clone()));
        }
        let parser = temporal::DateTimeParser::new();
        let pieces = temporal::Pieces::parse(text);
        if pieces.as_ref().is_ok_and(|pieces| pieces.time_zone_annotation().is_some()) {
            return parser.parse_zoned_with(&self.zones, text).map_err(|cause| wrong(field, cause));
        }
        // A time with an offset but without a zone keeps the offset.
        if let Ok(pieces) = pieces
            && let Some(offset) = pieces.to_numeric_offset()
            && let Ok(timestamp) = parser.parse_timestamp(text)
        {
            let is_utc = offset == jiff::tz::Offset::UTC;
            return Ok(timestamp.to_zoned(if is_utc { TimeZone::UTC } else { TimeZone::fixed(offset) }));
        }
        if let Ok(zoned) = rfc2822::DateTimeParser::new().parse_zoned(text) {
            return Ok(zoned);
        }
        let civil: DateTime = parser.parse_datetime(text).map_err(|cause| {
            wrong(field, format!("{cause}; write a time as 2026-03-01T14:30:00+01:00, as 2026-03-01, or as `now`"))
        })?;
        civil.to_zoned(zone.clone()).map_err(|cause| wrong(field, cause))
    }
}

fn read_zone(zones: &TimeZoneDatabase, name: &str) -> Result<TimeZone, String> {
    if name.eq_ignore_ascii_case("utc") || name == "Z" {
        return Ok(TimeZone::UTC);
    }
    temporal::DateTimeParser::new().parse_time_zone_with(zones, name).map_err(|_| {
        format!("unknown time zone `{}`; write it as Europe/Berlin, America/New_York, UTC or +05:30", clip(name))
    })
}

fn wrong(field: &str, cause: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("`{field}`: {cause}"))
}

/// Returns the part of foreign text that an error repeats.
fn clip(text: &str) -> &str {
    text.char_indices().nth(60).map_or(text, |(end, _)| &text[..end])
}

/// A time in the form that the model receives.
#[derive(Serialize, Debug, PartialEq)]
struct Told {
    time: String,
    weekday: String,
    unix_seconds: i64,
}

impl Told {
    fn new(zoned: &Zoned) -> Told {
        let weekday = format!("{:?}", zoned.weekday());
        let second = if zoned.timestamp().subsec_nanosecond() < 0 { -1 } else { 0 };
        Told { time: zoned.to_string(), weekday, unix_seconds: zoned.timestamp().as_second() + second }
    }
}

struct Now;

#[derive(Deserialize, JsonSchema)]
struct NowArgs {
    /// A time zone, such as `Europe/Berlin`, `UTC` or `+05:30`; if left out, the configured zone, else UTC.
    zone: Option<String>,
}

impl Tool for Now {
    const NAME: &'static str = "time_now";
    const DESCRIPTION: &'static str = "Returns the current date and time, with the weekday.";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = NowArgs;

    fn call(args: NowArgs, _call: &Call) -> Result<Reply, Error> {
        let place = Place::here()?;
        let zone = place.zone("zone", args.zone.as_deref())?;
        // Fractions of a second are of no use to the model.
        let now = Timestamp::from_second(place.now.as_second()).unwrap_or(place.now);
        Reply::json(&Told::new(&now.to_zoned(zone)))
    }
}

struct Convert;

#[derive(Deserialize, JsonSchema)]
struct ConvertArgs {
    /// Such as `2026-03-01T14:30`, `2026-03-01T14:30:00+01:00`, `@1767225600` (seconds since 1970) or `now`.
    time: String,
    /// The zone of `time`, if `time` does not name one.
    from: Option<String>,
    /// The target zone, such as `Asia/Tokyo`.
    to: String,
}

impl Tool for Convert {
    const NAME: &'static str = "time_convert";
    const DESCRIPTION: &'static str = "Converts a time to another time zone.";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = ConvertArgs;

    fn call(args: ConvertArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&Told::new(&convert(&args, &Place::here()?)?))
    }
}

fn convert(args: &ConvertArgs, place: &Place) -> Result<Zoned, Error> {
    let (from, to) = (place.zone("from", args.from.as_deref())?, place.zone("to", Some(&args.to))?);
    Ok(place.read("time", &args.time, &from)?.with_time_zone(to))
}

struct Add;

#[derive(Deserialize, JsonSchema)]
struct AddArgs {
    /// Such as `2026-01-31`, `2026-03-01T14:30:00[Europe/Berlin]` or `now`.
    time: String,
    /// Such as `1 month`, `-2 days`, `3h 20m`, `1 year 2 weeks` or `P1Y2M`.
    duration: String,
    /// The zone of `time`, if `time` does not name one.
    zone: Option<String>,
}

impl Tool for Add {
    const NAME: &'static str = "time_add";
    const DESCRIPTION: &'static str = "Adds a duration to a time, or subtracts a negative one. Months and days follow \
                                       the calendar (31 January + 1 month = 28 February) and the zone (a day can have \
                                       23 or 25 hours).";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = AddArgs;

    fn call(args: AddArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&Told::new(&add(&args, &Place::here()?)?))
    }
}

fn add(args: &AddArgs, place: &Place) -> Result<Zoned, Error> {
    let zone = place.zone("zone", args.zone.as_deref())?;
    let time = place.read("time", &args.time, &zone)?;
    let duration: Span = args.duration.trim().parse().map_err(|cause| wrong("duration", cause))?;
    time.checked_add(duration).map_err(|cause| wrong("duration", cause))
}

struct Difference;

#[derive(Deserialize, JsonSchema)]
struct DifferenceArgs {
    /// The start time.
    from: String,
    /// The end time.
    to: String,
    /// The largest unit of `duration`: years if left out.
    largest_unit: Option<LargestUnit>,
    /// The zone of both times, if they do not name one.
    zone: Option<String>,
}

#[derive(Serialize, Debug, PartialEq)]
struct Between {
    /// The duration as `1y 2mo 3d`, with a minus before it if `to` is before `from`.
    duration: String,
    iso: String,
    /// The difference in whole calendar days.
    days: i32,
    seconds: i64,
}

impl Tool for Difference {
    const NAME: &'static str = "time_difference";
    const DESCRIPTION: &'static str = "Returns the time between two times: in years, months and so on, in whole days, \
                                       and in seconds. Negative if the second time is earlier.";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = DifferenceArgs;

    fn call(args: DifferenceArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&difference(&args, &Place::here()?)?)
    }
}

fn difference(args: &DifferenceArgs, place: &Place) -> Result<Between, Error> {
    let zone = place.zone("zone", args.zone.as_deref())?;
    let from = place.read("from", &args.from, &zone)?;
    // Calendar days must be counted in a single zone.
    let to = place.read("to", &args.to, &zone)?.with_time_zone(from.time_zone().clone());
    let between = |unit: Unit| from.until(ZonedDifference::new(&to).largest(unit).smallest(Unit::Nanosecond));
    let cannot = |cause| wrong("to", cause);
    let span = between(args.largest_unit.unwrap_or_default().unit()).map_err(cannot)?;
    let days = from.until(ZonedDifference::new(&to).largest(Unit::Day).smallest(Unit::Day).mode(RoundMode::Trunc));
    Ok(Between {
        duration: format!("{span:#}"),
        iso: span.to_string(),
        days: days.map_err(cannot)?.get_days(),
        seconds: to.timestamp().duration_since(from.timestamp()).as_secs(),
    })
}

struct Format;

#[derive(Deserialize, JsonSchema)]
struct FormatArgs {
    /// Such as `2026-03-01T14:30:00[Europe/Berlin]` or `now`.
    time: String,
    /// A strftime format: `%A, %d %B %Y, %H:%M`, `%G-W%V`, `%j` (day of the year), `%s` (seconds since 1970).
    format: String,
    /// The zone of `time`, if `time` does not name one.
    zone: Option<String>,
}

impl Tool for Format {
    const NAME: &'static str = "time_format";
    const DESCRIPTION: &'static str = "Formats a time with a strftime format.";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = FormatArgs;

    fn call(args: FormatArgs, _call: &Call) -> Result<Reply, Error> {
        format(&args, &Place::here()?).map(Reply::from)
    }
}

fn format(args: &FormatArgs, place: &Place) -> Result<String, Error> {
    let zone = place.zone("zone", args.zone.as_deref())?;
    let time = place.read("time", &args.time, &zone)?;
    strtime::format(bounded(&args.format)?, &time).map_err(|cause| wrong("format", cause))
}

/// Checks the length of a format and of its numbers, because a format can ask for huge widths (`%999999d`).
fn bounded(format: &str) -> Result<&str, Error> {
    let digits = format.split(|character: char| !character.is_ascii_digit()).map(str::len).max().unwrap_or(0);
    match format.len() <= 1_000 && digits <= 4 {
        true => Ok(format),
        false => {
            Err(Error::TooLarge("`format` has more than 1000 bytes, or a number of more than 4 digits".to_owned()))
        }
    }
}

struct Parse;

#[derive(Deserialize, JsonSchema)]
struct ParseArgs {
    /// The text, such as `01.03.2026 14:30`.
    text: String,
    /// The strptime format of the text: `%d.%m.%Y %H:%M`.
    format: String,
    /// The zone of the time, if the text does not name one.
    zone: Option<String>,
}

impl Tool for Parse {
    const NAME: &'static str = "time_parse";
    const DESCRIPTION: &'static str = "Parses a time with a strptime format. Without a time of day it is midnight.";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = ParseArgs;

    fn call(args: ParseArgs, _call: &Call) -> Result<Reply, Error> {
        Reply::json(&Told::new(&parse(&args, &Place::here()?)?))
    }
}

fn parse(args: &ParseArgs, place: &Place) -> Result<Zoned, Error> {
    let zone = place.zone("zone", args.zone.as_deref())?;
    let parts = strtime::parse(bounded(&args.format)?, &args.text).map_err(|cause| wrong("text", cause))?;
    if let Ok(zoned) = parts.to_zoned_with(&place.zones) {
        return Ok(zoned);
    }
    if let Ok(timestamp) = parts.to_timestamp() {
        return Ok(timestamp.to_zoned(zone));
    }
    let civil = parts.to_datetime().or_else(|_| parts.to_date().map(DateTime::from));
    civil.and_then(|civil| civil.to_zoned(zone)).map_err(|cause| wrong("text", cause))
}

#[cfg(test)]
mod tests;
