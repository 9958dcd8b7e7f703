//! Tools that a model can call.
//!
//! A tool is a type that implements [`Tool`]: its arguments are a struct, from which the JSON schema that the model is
//! shown is derived. `export!(tools: [A, B])` makes a plugin of some. A plugin whose tools depend on its params
//! implements [`Tools`] itself and says `export!(tool: T)`.

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::types::{Content, Error, Opaque, ToolCall, ToolHints, ToolSpec};

/// The kind as the contract has it, without help: lists the tools and runs them.
pub use crate::bindings::tool::exports::shelly::plugin::tool::Guest as Tools;

/// One tool.
///
/// A call runs in a fresh instance: nothing that it leaves behind is there at the next one.
pub trait Tool {
    /// 1 to 64 of `A-Z a-z 0-9 _ -`, unique within the plugin.
    const NAME: &'static str;
    /// What it does, when to use it, what it gives back. The model reads this.
    const DESCRIPTION: &'static str;
    /// What it does to the world. No flag is the most careful reading; [`ToolHints::PURE`] fits a tool that only
    /// computes.
    const HINTS: ToolHints = ToolHints::empty();

    /// Its arguments. Doc comments on the fields become the descriptions that the model reads.
    type Args: DeserializeOwned + JsonSchema;

    /// Runs it. An error goes to the model as a result that says so: say what is wrong and what would be right.
    fn call(args: Self::Args, call: &Call) -> Result<Reply, Error>;
}

/// For a tool without arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NoArgs {}

/// What a call is told beside its arguments.
#[derive(Debug)]
pub struct Call {
    /// Names the call, and is the same when the host repeats it: fit to be an idempotency key.
    pub id: String,
}

impl Call {
    /// A call for a test of your own.
    pub fn new(id: impl Into<String>) -> Call {
        Call { id: id.into() }
    }

    /// Tells whoever watches how far the call is: `done` of `total`, if the end is known.
    pub fn progress(&self, done: f64, total: Option<f64>, message: Option<&str>) {
        crate::progress::report(done, total, message);
    }
}

/// What a tool says: a text or several pieces.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply(pub Vec<Content>);

impl Reply {
    /// Structured data, as JSON.
    pub fn json(value: &impl Serialize) -> Result<Reply, Error> {
        let json = serde_json::to_string(value).map_err(Error::other)?;
        Ok(Reply(vec![Content::Json(json)]))
    }

    /// All that a tool says that cannot do its work without reading a folder which it does not have, by its absolute path.
    /// Where the config lets a person be asked for it, and they say yes, the host makes the call again with the folder there
    /// under that path.
    pub fn needs_folder(path: &str) -> Reply {
        Reply::needs(&serde_json::json!({ "folder": path }))
    }

    /// The same of a server that it may not send requests to, by a URL of it.
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

/// How the model is told of `T`.
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
        .map_err(|cause| Error::Invalid(format!("arguments of `{}`: {cause}", T::NAME)))?;
    let reply = T::call(args, &Call { id: call.id })?;
    Ok(reply.0)
}

/// The answer to a call of a tool that is not there.
#[doc(hidden)]
pub fn unknown(name: &str, known: &[&str]) -> Error {
    Error::NotFound(format!("no tool `{name}`; there are: {}", known.join(", ")))
}

/// The JSON schema of `Args`. Without `$schema` and `title`, and with everything in place: a model pays for each
/// word, and not every vendor follows `$ref`.
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
            Err(Error::Invalid("arguments of `repeat`: `text`: invalid type: integer `7`, expected a string".into()))
        );
    }
}
