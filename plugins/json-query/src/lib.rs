//! The tool `json_query`, which runs jq filters on JSON, YAML and TOML, from the arguments or from a file of a granted
//! folder. The language is jq as implemented by [jaq](https://gedenkt.at/jaq/manual/), without access to the outside
//! world: `env`, `now`, `input`, `halt` and modules are not available.
//!
//! Bounds: 16 MiB of input from a file, 200 nested lists and objects, 16 KiB of filter, 1 MiB of output. The host bounds
//! the time and memory of a filter, as for every call.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints, fs};

mod filter;
mod input;
mod output;

use filter::Filter;
use input::Format;
use output::{Output, Style};

shelly_plugin::export!(tools: [JsonQuery]);

/// The maximum size of a file in bytes.
const MAX_FILE: u64 = 16 * 1024 * 1024;

struct JsonQuery;

#[derive(Deserialize, JsonSchema)]
struct JsonQueryArgs {
    /// The jq filter: `.items[] | select(.price > 10) | .name`, `group_by(.kind) | map({(.[0].kind): length}) | add`.
    filter: String,
    /// The text to query. Either this or `path`.
    text: Option<String>,
    /// The file to query, such as `package.json`. Either this or `text`.
    path: Option<String>,
    /// The format of the input; if left out, by the ending of `path`, else json. JSON may be several values in a row
    /// (JSON lines): the filter gets each.
    format: Option<Format>,
    /// True to give the filter all values of the input at once, in an array.
    slurp: Option<bool>,
    /// The form of the results: `compact`, one per line, the default; `pretty`; or `raw`, texts without quotes.
    output: Option<Style>,
}

impl Tool for JsonQuery {
    const NAME: &'static str = "json_query";
    const DESCRIPTION: &'static str = "Queries or transforms JSON, YAML or TOML with a jq filter, and returns the \
                                       results as JSON. Prefer it to reading a large file.";
    const HINTS: ToolHints = ToolHints::all();
    type Args = JsonQueryArgs;

    fn call(args: JsonQueryArgs, _call: &Call) -> Result<Reply, Error> {
        query(&args).map(Reply::from)
    }
}

fn query(args: &JsonQueryArgs) -> Result<String, Error> {
    let filter = Filter::new(&args.filter)?;
    let (text, name) = match (&args.text, &args.path) {
        (Some(text), None) => (text.clone(), "text"),
        (None, Some(path)) => (fs::read_to_string(path, MAX_FILE)?, path.as_str()),
        _ => return Err(Error::Invalid("pass either `text` or `path`".to_owned())),
    };
    let format = args.format.or_else(|| args.path.as_deref().and_then(Format::of)).unwrap_or_default();
    let inputs = input::read(&text, format, args.slurp.unwrap_or(false)).map_err(|cause| wrong(name, cause))?;
    let mut output = Output::new(args.output.unwrap_or_default());
    for input in inputs {
        filter.run(input, |value| output.push(value))?;
    }
    Ok(output.finish())
}

fn wrong(place: &str, cause: impl std::fmt::Display) -> Error {
    Error::Invalid(format!("`{place}`: {cause}"))
}

#[cfg(test)]
mod tests;
