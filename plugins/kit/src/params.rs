//! Params of common types.

use std::{fmt, time::Duration};

use serde::{Deserialize, Deserializer, de::Error as _};
use shelly_plugin::Error;

/// A duration in params, as text: `90s`, `5m`, `1h 30m`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span(pub Duration);

impl Span {
    /// Returns the duration in milliseconds.
    pub fn millis(self) -> u64 {
        u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        humantime::format_duration(self.0).fmt(f)
    }
}

impl<'de> Deserialize<'de> for Span {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Span, D::Error> {
        let text = String::deserialize(from)?;
        humantime::parse_duration(&text)
            .map(Span)
            .map_err(|_| D::Error::custom(format!("invalid duration `{text}`; write `500ms`, `90s`, `5m` or `1h`")))
    }
}

/// Creates the error for invalid params.
pub fn bad(why: impl fmt::Display) -> Error {
    Error::Invalid(format!("params: {why}"))
}

/// Refuses a list that is longer than a person would write: each entry costs time at every call.
pub fn at_most(name: &str, length: usize, most: usize) -> Result<(), Error> {
    match length > most {
        true => Err(bad(format_args!("`{name}` has {length} entries, the maximum is {most}"))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duration_params_are_parsed() {
        for (text, millis) in [("500ms", 500), ("90s", 90_000), ("5m", 300_000), ("1h 30m", 5_400_000)] {
            let span: Span = serde_json::from_str(&format!("\"{text}\"")).unwrap();
            assert_eq!(span.millis(), millis, "{text}");
            assert_eq!(serde_json::from_str::<Span>(&format!("\"{span}\"")).unwrap(), span);
        }
        for text in ["\"\"", "\"5\"", "\"soon\"", "5"] {
            let error = serde_json::from_str::<Span>(text).unwrap_err().to_string();
            assert!(error.contains("write `500ms`") || error.contains("expected a string"), "{text}: {error}");
        }
    }

    #[test]
    fn params_list_over_its_limit_is_refused() {
        assert_eq!(at_most("deny", 64, 64), Ok(()));
        let error = at_most("deny", 65, 64).unwrap_err();
        assert_eq!(error.message(), "params: `deny` has 65 entries, the maximum is 64");
    }
}
