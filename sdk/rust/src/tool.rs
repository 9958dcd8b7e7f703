//! Tools that a model can call.
//!
//! A tool is a type that implements [`Tool`]. Its arguments are a struct, from which the JSON schema for the model is
//! derived. `export!(tools: [A, B])` makes a plugin of several tools. A plugin whose tools depend on its params
//! implements [`Tools`] itself and uses `export!(tool: T)`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::types::{Content, Error, Opaque, ToolCall, ToolHints, ToolSpec};

/// The trait of the contract, without helpers: lists the tools and runs them.
pub use crate::bindings::tool::exports::shelly::plugin::tool::Guest as Tools;

/// A tool that a model can call.
///
/// Each call runs in a fresh instance: globals do not survive it.
pub trait Tool {
    /// The tool's name: 1 to 64 of `A-Z a-z 0-9 _ -`, unique within the plugin.
    const NAME: &'static str;
    /// The tool's purpose, when to use it, and what it returns. The model reads this text.
    const DESCRIPTION: &'static str;
    /// Hints on what the tool changes. With no flag set the host treats the tool with the most care; [`ToolHints::PURE`]
    /// is for a tool that only computes.
    const HINTS: ToolHints = ToolHints::empty();

    /// The tool's arguments. The model reads the doc comments on the fields as their descriptions.
    type Args: DeserializeOwned + JsonSchema;

    /// Runs the tool. The model receives an error as an error result: say what is wrong and what would be right.
    fn call(args: Self::Args, call: &Call) -> Result<Reply, Error>;
}

/// For a tool without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NoArgs {}

/// Facts about a call besides its arguments.
#[derive(Debug)]
pub struct Call {
    /// The id of the call. It stays the same when the host repeats the call, so it can serve as an idempotency key.
    pub id: String,
}

impl Call {
    /// Creates a call for unit tests.
    pub fn new(id: impl Into<String>) -> Call {
        Call { id: id.into() }
    }

    /// Reports to watchers that `done` of `total` is finished; `total` is `None` if the end is not known.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        crate::progress::report(done, total, message);
    }
}

/// A tool's result: a text or several pieces of content.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply(pub Vec<Content>);

impl Reply {
    /// Creates a reply with structured data, as JSON.
    pub fn json(value: &impl Serialize) -> Result<Reply, Error> {
        let json = serde_json::to_string(value).map_err(Error::other)?;
        Ok(Reply(vec![Content::Json(json)]))
    }

    /// Creates the reply of a tool that cannot do its work without reading a folder that it lacks, given by its absolute
    /// path. The reply contains nothing else. If the config lets the host ask a person and the person agrees, the host
    /// repeats the call with the folder available under that path.
    pub fn needs_folder(path: &str) -> Reply {
        Reply::needs(&serde_json::json!({ "folder": path }))
    }

    /// Creates the reply of a tool that cannot do its work without sending requests to a server that was not granted,
    /// given by one of its URLs. The host treats it like [`needs_folder`](Reply::needs_folder).
    pub fn needs_server(url: &str) -> Reply {
        Reply::needs(&serde_json::json!({ "server": url }))
    }

    fn needs(what: &serde_json::Value) -> Reply {
        Reply(vec![Content::Other(Opaque { kind: "shelly.needs".into(), json: what.to_string() })])
    }
}

impl<T: Into<Content>> From<T> for Reply {
    fn from(content: T) -> Reply {
        Reply(vec![content.into()])
    }
}

/// Returns the description of `T` for the model.
#[doc(hidden)]
pub fn spec<T: Tool>() -> ToolSpec {
    ToolSpec {
        name: T::NAME.to_owned(),
        description: T::DESCRIPTION.to_owned(),
        input_schema: schema::<T::Args>(),
        output_schema: None,
        hints: T::HINTS,
        meta: Vec::new(),
    }
}

/// Parses the arguments and runs `T`.
#[doc(hidden)]
pub fn run<T: Tool>(call: ToolCall) -> Result<Vec<Content>, Error> {
    let args = crate::json::parse(&call.arguments)
        .map_err(|cause| Error::Invalid(format!("invalid arguments of `{}`: {cause}", T::NAME)))?;
    let reply = T::call(args, &Call { id: call.id })?;
    Ok(reply.0)
}

/// Returns the error for a call of a tool that does not exist.
#[doc(hidden)]
pub fn unknown(name: &str, known: &[&str]) -> Error {
    Error::NotFound(format!("unknown tool `{name}`; available tools: {}", known.join(", ")))
}

/// Returns the JSON schema of `Args`, without `$schema` and `title`, and with all definitions inlined: a model pays for
/// each word, and not every vendor follows `$ref`.
fn schema<Args: JsonSchema>() -> String {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<Args>();
    schema.remove("title");
    schema.to_value().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Repeat;

    #[derive(Deserialize, JsonSchema)]
    struct RepeatArgs {
        /// What to say.
        text: String,
        /// How often; once if left out.
        times: Option<u8>,
    }

    impl Tool for Repeat {
        const NAME: &'static str = "repeat";
        const DESCRIPTION: &'static str = "Repeats a text.";
        const HINTS: ToolHints = ToolHints::PURE;
        type Args = RepeatArgs;

        fn call(args: RepeatArgs, _call: &Call) -> Result<Reply, Error> {
            Ok(args.text.repeat(args.times.unwrap_or(1).into()).into())
        }
    }

    fn call(arguments: &str) -> Result<Vec<Content>, Error> {
        run::<Repeat>(ToolCall { id: "1".into(), name: "repeat".into(), arguments: arguments.into(), meta: Vec::new() })
    }

    #[test]
    fn tool_schema_is_derived_from_its_struct() {
        let json = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(
            json(&spec::<Repeat>().input_schema),
            serde_json::json!({
                "type": "object",
                "required": ["text"],
                "properties": {
                    "text": { "type": "string", "description": "What to say." },
                    "times": {
                        "type": ["integer", "null"], "format": "uint8", "minimum": 0, "maximum": 255,
                        "description": "How often; once if left out.",
                    },
                },
            })
        );
        assert_eq!(json(&schema::<NoArgs>())["type"], "object");
    }

    #[test]
    fn tool_argument_error_names_the_tool_and_field() {
        assert_eq!(call(r#"{"text":"ab","times":2}"#), Ok(vec!["abab".into()]));
        assert_eq!(call(r#"{"text":"ab"}"#), Ok(vec!["ab".into()]));
        assert_eq!(
            call(r#"{"text":7}"#),
            Err(Error::Invalid(
                "invalid arguments of `repeat`: `text`: invalid type: integer `7`, expected a string".into()
            ))
        );
    }
}
