//! The input of a filter.

use std::path::Path;

use jaq_fmts::read::{json, toml, yaml};
use jaq_json::Val;
use schemars::JsonSchema;
use serde::Deserialize;

/// The maximum depth of nested lists and objects: readers and writers are recursive.
const MAX_DEPTH: usize = 200;

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    #[default]
    Json,
    Yaml,
    Toml,
}

impl Format {
    /// Returns the format for the extension of a file's name.
    pub(crate) fn of(path: &str) -> Option<Format> {
        match Path::new(path).extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "yaml" | "yml" => Some(Format::Yaml),
            "toml" => Some(Format::Toml),
            _ => None,
        }
    }
}

/// Parses the values of a text; with `slurp` into one array.
pub(crate) fn read(text: &str, format: Format, slurp: bool) -> Result<Vec<Val>, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    check_depth(text, format)?;
    let values: Vec<Val> = match format {
        Format::Json => collect(json::parse_many(text.as_bytes()), "JSON"),
        Format::Yaml => collect(yaml::parse_many(text), "YAML"),
        Format::Toml => toml::parse(text).map(|value| vec![value]).map_err(|cause| format!("invalid TOML: {cause}")),
    }?;
    Ok(if slurp { vec![values.into_iter().collect()] } else { values })
}

fn collect<E: std::fmt::Display>(values: impl Iterator<Item = Result<Val, E>>, what: &str) -> Result<Vec<Val>, String> {
    values.collect::<Result<_, _>>().map_err(|cause| format!("invalid {what}: {cause}"))
}

/// Checks that brackets and indentation are not nested too deep. Brackets in strings of other formats than JSON count as
/// well; no real text has that many.
fn check_depth(text: &str, format: Format) -> Result<(), String> {
    let too_deep = || format!("more than {MAX_DEPTH} nested lists and objects");
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => depth += 1,
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
    }
    // In YAML each line that is indented further than the one before it opens a level too, and so do `- - - -` and
    // `? ? ?`.
    let mut within = Vec::new();
    let mut goes_in = |line: &str| {
        let mut begins = line.bytes().enumerate().filter(|(_, byte)| *byte != b' ').peekable();
        let Some((first, _)) = begins.peek().copied() else { return false };
        within.truncate(within.partition_point(|outer| *outer < first));
        for (at, byte) in begins {
            within.push(at);
            if !matches!(byte, b'-' | b'?' | b':') {
                break;
            }
        }
        within.len() > MAX_DEPTH
    };
    match format == Format::Yaml && text.lines().any(&mut goes_in) {
        true => Err(too_deep()),
        false => Ok(()),
    }
}
