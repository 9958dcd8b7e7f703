//! The tool `uuid`, which makes unique identifiers: random ones (version 4), or ones ordered by their time of creation to
//! the millisecond (version 7). Bound: 1,000 a call.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints, clock, random};

shelly_plugin::export!(tools: [MakeUuid]);

/// The maximum number of identifiers a call.
const MAX_COUNT: u32 = 1_000;

/// The number of random bytes per identifier.
const BYTES: usize = 16;

struct MakeUuid;

#[derive(Deserialize, JsonSchema)]
struct MakeUuidArgs {
    /// 4: random, the default. 7: ordered by time.
    #[schemars(range(min = 4, max = 7))]
    version: Option<u8>,
    /// The number of UUIDs, 1 to 1000; 1 if left out. They are returned one per line.
    #[schemars(range(min = 1, max = 1000))]
    count: Option<u32>,
}

impl Tool for MakeUuid {
    const NAME: &'static str = "uuid";
    const DESCRIPTION: &'static str = "Creates new UUIDs, random (version 4) or ordered by time (version 7).";
    const HINTS: ToolHints = ToolHints::READ_ONLY;
    type Args = MakeUuidArgs;

    fn call(args: MakeUuidArgs, _call: &Call) -> Result<Reply, Error> {
        let (version, count) = check(&args)?;
        let chance = random::bytes(count * BYTES as u32);
        Ok(make(version, clock::now(), &chance).into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Version {
    Random,
    Ordered,
}

fn check(args: &MakeUuidArgs) -> Result<(Version, u32), Error> {
    let version = match args.version.unwrap_or(4) {
        4 => Version::Random,
        7 => Version::Ordered,
        other => return Err(Error::Invalid(format!("`version` is {other}; use 4 or 7"))),
    };
    match args.count.unwrap_or(1) {
        count @ 1..=MAX_COUNT => Ok((version, count)),
        count => Err(Error::Invalid(format!("`count` is {count}; use 1 to {MAX_COUNT}"))),
    }
}

/// Makes one identifier from each 16 random bytes, one per line.
fn make(version: Version, millis: u64, chance: &[u8]) -> String {
    let mut made: Vec<_> = chance
        .as_chunks::<BYTES>()
        .0
        .iter()
        .map(|bytes| match version {
            Version::Random => uuid::Builder::from_random_bytes(*bytes).into_uuid(),
            Version::Ordered => {
                let mut tail = [0; 10];
                tail.copy_from_slice(&bytes[..10]);
                uuid::Builder::from_unix_timestamp_millis(millis, &tail).into_uuid()
            }
        })
        .collect();
    // The identifiers of one call share a millisecond and must be ordered as well.
    if version == Version::Ordered {
        made.sort();
    }
    made.iter().map(|uuid| uuid.to_string()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uuid_has_the_format_of_its_version() {
        assert_eq!(make(Version::Random, 0, &[0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        let time = 0x0123_4567_89ab;
        assert_eq!(make(Version::Ordered, time, &[0; 16]), "01234567-89ab-7000-8000-000000000000");
        let both: Vec<u8> = [[9; 16], [1; 16]].concat();
        let made = make(Version::Ordered, time, &both);
        assert_eq!(made.lines().count(), 2);
        assert!(made.lines().is_sorted(), "{made}");
    }

    #[test]
    fn uuid_arguments_out_of_range_are_refused() {
        let check = |version, count| check(&MakeUuidArgs { version, count });
        assert_eq!(check(None, None), Ok((Version::Random, 1)));
        assert_eq!(check(Some(7), Some(1_000)), Ok((Version::Ordered, 1_000)));
        assert_eq!(check(Some(5), None), Err(Error::Invalid("`version` is 5; use 4 or 7".into())));
        for count in [0, 1_001, u32::MAX] {
            assert_eq!(check(None, Some(count)), Err(Error::Invalid(format!("`count` is {count}; use 1 to 1000"))));
        }
    }
}
