//! Formatting of a filter's results.

use std::io::{self, Write};

use jaq_json::{
    Val,
    write::{self, Pp},
};
use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::Error;

/// The maximum size of all results in bytes.
const MAX_OUTPUT: usize = 1024 * 1024;

#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Style {
    #[default]
    Compact,
    Pretty,
    Raw,
}

pub(crate) struct Output {
    style: Style,
    format: Pp,
    text: Bounded,
    results: usize,
}

impl Output {
    pub(crate) fn new(style: Style) -> Output {
        let indent = (style == Style::Pretty).then(|| "  ".to_owned());
        let format = Pp { indent, sort_keys: false, styles: Default::default(), sep_space: style == Style::Pretty };
        Output { style, format, text: Bounded::default(), results: 0 }
    }

    pub(crate) fn push(&mut self, value: &Val) -> Result<(), Error> {
        let written = match value {
            Val::TStr(text) | Val::BStr(text) if self.style == Style::Raw => self.text.write_all(text),
            value => write::write(&mut self.text, &self.format, 0, value),
        };
        self.results += 1;
        written.and_then(|()| self.text.write_all(b"\n")).map_err(|_| {
            let results = self.results;
            Error::TooLarge(format!(
                "the first {results} results have more than {MAX_OUTPUT} bytes; narrow the filter, as in `limit(100; \
                 …)`, `.[0:100]` or `length`"
            ))
        })
    }

    pub(crate) fn finish(self) -> String {
        match self.results {
            0 => "no results".to_owned(),
            // Functions such as `tobytes` return bytes that are not text.
            _ => {
                String::from_utf8(self.text.0).unwrap_or_else(|bytes| String::from_utf8_lossy(bytes.as_bytes()).into())
            }
        }
    }
}

/// A writer that takes at most [`MAX_OUTPUT`] bytes.
#[derive(Default)]
struct Bounded(Vec<u8>);

impl Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > MAX_OUTPUT {
            return Err(io::ErrorKind::WriteZero.into());
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
