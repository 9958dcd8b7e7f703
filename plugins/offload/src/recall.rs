//! The tool with which the model gets a stored result back.

use schemars::JsonSchema;
use serde::Deserialize;
use shelly_plugin::{Call, Error, Reply, Tool, ToolHints, shorten, text};

use crate::store;

/// The beginning of a placeholder.
pub(crate) const PLACEHOLDER: &str = "[recall ";

/// The beginning of a result of this tool.
const HEADER: &str = "[recalled ";

/// The default number of characters of a page.
const PAGE: usize = 4_000;

/// The maximum number of characters of a page: half of the host's limit for a result.
const MAX_PAGE: usize = 16_000;

pub(crate) struct Recall;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RecallArgs {
    /// The id in the text in place of the result.
    id: String,
    /// The first character to read, counted from 0; 0 if left out.
    offset: Option<usize>,
    /// The number of characters to read: 1 to 16000; 4000 if left out.
    max: Option<usize>,
}

impl Tool for Recall {
    const NAME: &'static str = "recall";
    const DESCRIPTION: &'static str = "Reads a result that was removed from the conversation to save room. The text \
                                       in its place begins with `[recall` and names its id. Returns a page of the \
                                       result, and says where to continue.";
    const HINTS: ToolHints = ToolHints::all();
    type Args = RecallArgs;

    fn call(args: RecallArgs, _call: &Call) -> Result<Reply, Error> {
        let most = args.max.unwrap_or(PAGE);
        if !(1..=MAX_PAGE).contains(&most) {
            return Err(Error::Invalid(format!("`max` is {most}; use 1 to {MAX_PAGE}")));
        }
        let Some(record) = store::find(&args.id)? else {
            return Err(Error::NotFound(format!(
                "no result is stored under {}; compare the id with the first line of the text in place of the result; \
                 if it is the same, the result is no longer stored, so repeat the tool call",
                shorten::quoted(&args.id, 100)
            )));
        };
        let (offset, all) = (args.offset.unwrap_or(0), record.characters);
        if offset >= all {
            return Err(Error::Invalid(format!("`offset` is {offset}; the result has {all} characters")));
        }
        let page = store::read(&args.id, offset, most)?;
        Ok(reply(&args.id, offset, all, &page).into())
    }
}

fn reply(id: &str, offset: usize, all: usize, page: &str) -> String {
    let end = offset + page.chars().count();
    let next = if end < all { format!("; continue with \"offset\":{end}") } else { String::new() };
    format!(
        "{HEADER}{{\"id\":{},\"offset\":{offset}}}: characters {} to {} of {}{next}]\n{page}",
        serde_json::Value::from(id),
        shorten::number(offset),
        shorten::number(end),
        shorten::number(all)
    )
}

/// Returns the first line of a result of this tool.
pub(crate) fn header<'a>(tool: &str, said: &'a str) -> Option<&'a str> {
    let first = said.lines().next()?;
    (tool == Recall::NAME && first.starts_with(HEADER)).then(|| text::head(first, 600))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recalled_page_states_the_next_offset() {
        for (offset, page, expected) in [
            (
                0,
                "ab",
                "[recalled {\"id\":\"c\",\"offset\":0}: characters 0 to 2 of 1,000; continue with \"offset\":2]\nab",
            ),
            (998, "yz", "[recalled {\"id\":\"c\",\"offset\":998}: characters 998 to 1,000 of 1,000]\nyz"),
        ] {
            let said = reply("c", offset, 1_000, page);
            assert_eq!(said, expected);
            assert_eq!(header("recall", &said), expected.lines().next());
            assert_eq!(header("read", &said), None);
        }
        assert_eq!(header("recall", "no result is stored"), None);
    }

    #[test]
    fn recall_page_size_out_of_range_is_refused() {
        for max in [0, MAX_PAGE + 1] {
            let args = RecallArgs { id: "x".into(), offset: None, max: Some(max) };
            assert!(matches!(Recall::call(args, &Call::new("1")), Err(Error::Invalid(_))), "{max}");
        }
    }
}
