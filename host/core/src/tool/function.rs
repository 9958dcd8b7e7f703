use std::{future::Future, marker::PhantomData, sync::Arc, time::Duration};

use async_trait::async_trait;
use schemars::{
    JsonSchema, Schema,
    generate::SchemaSettings,
    transform::{RecursiveTransform, Transform},
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, value::RawValue};

use super::{Tool, ToolConcurrency, ToolCx, ToolOutput};
use crate::{
    chat::{PropertyNames, ToolCall, ToolHints, ToolSpec},
    error::Fault,
    limits,
};

/// Creates a tool from a closure.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use shelly_core::tool;
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Weather {
///     /// The city, in English.
///     city: String,
/// }
///
/// let tool = tool::function("get_weather", "The weather in a city.", |_cx, args: Weather| async move {
///     Ok(format!("It is sunny in {}.", args.city))
/// });
/// ```
///
/// The doc comments of the arguments become the descriptions that the model reads. Invalid arguments are answered with an
/// error that gives the reason, before the closure is called.
///
/// # Panics
///
/// Panics if `name` is not valid for every vendor, see [`ToolSpec::is_valid_name`].
pub fn function<A, R, F, Fut>(name: &str, description: &str, call: F) -> FnTool<A, F>
where
    A: DeserializeOwned + JsonSchema + Send + 'static,
    F: Fn(ToolCx, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Fault>> + Send,
    R: Into<ToolOutput>,
{
    FnTool::with_spec(spec::<A>(name, description), call)
}

/// Returns the description of a tool whose arguments are an `A`.
///
/// # Panics
///
/// Panics if `name` is not valid for every vendor, see [`ToolSpec::is_valid_name`].
pub fn spec<A: JsonSchema>(name: &str, description: &str) -> ToolSpec {
    assert!(ToolSpec::is_valid_name(name), "invalid tool name `{name}`; use 1 to 64 of A-Z a-z 0-9 _ -");
    ToolSpec {
        name: name.into(),
        description: description.into(),
        input_schema: schema::<A>(),
        hints: ToolHints::default(),
        property_names: PropertyNames::default(),
    }
}

/// A tool made from a closure, see [`function`].
pub struct FnTool<A, F> {
    spec: Arc<ToolSpec>,
    time_limit: Duration,
    result_chars: usize,
    hides_arguments: bool,
    is_counted: bool,
    is_repeatable: bool,
    begins_itself: bool,
    concurrency: Option<ToolConcurrency>,
    call: F,
    arguments: PhantomData<fn(A)>,
}

impl<A, F> FnTool<A, F> {
    /// Creates a tool from a closure and an existing description, whose schema must fit `A`: one description can serve many
    /// tools.
    pub fn with_spec(spec: impl Into<Arc<ToolSpec>>, call: F) -> Self {
        let (time_limit, result_chars) = (limits::TOOL_TIME, limits::TOOL_RESULT_CHARS);
        Self {
            spec: spec.into(),
            time_limit,
            result_chars,
            hides_arguments: false,
            is_counted: true,
            is_repeatable: false,
            begins_itself: false,
            concurrency: None,
            call,
            arguments: PhantomData,
        }
    }

    /// Sets the wall time that one call may take.
    pub fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = limit;
        self
    }

    /// Sets the number of characters of a result that a model is shown; the rest is cut.
    pub fn with_result_chars(mut self, chars: usize) -> Self {
        self.result_chars = chars;
        self
    }

    /// Sets whether the arguments of its calls are hidden from those who watch a run.
    pub fn with_hidden_arguments(mut self, hidden: bool) -> Self {
        self.hides_arguments = hidden;
        self
    }

    /// Excludes its calls from the budget of a run.
    pub fn uncounted(mut self) -> Self {
        self.is_counted = false;
        self
    }

    /// Declares that an interrupted call may be repeated, whatever its hints say.
    pub fn repeatable(mut self) -> Self {
        self.is_repeatable = true;
        self
    }

    /// Declares that the closure itself reports when a call begins, with [`ToolCx::begin_now`]: it waits for something
    /// before that.
    pub fn beginning_itself(mut self) -> Self {
        self.begins_itself = true;
        self
    }

    /// Sets how its calls may run beside the other calls of one reply; by default they could touch anything.
    pub fn with_concurrency(mut self, concurrency: ToolConcurrency) -> Self {
        self.concurrency = Some(concurrency);
        self
    }

    /// Sets the hints about its effects.
    pub fn with_hints(mut self, hints: ToolHints) -> Self {
        Arc::make_mut(&mut self.spec).hints = hints;
        self
    }
}

#[async_trait]
impl<A, R, F, Fut> Tool for FnTool<A, F>
where
    A: DeserializeOwned + Send + 'static,
    F: Fn(ToolCx, A) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<R, Fault>> + Send,
    R: Into<ToolOutput>,
{
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn time_limit(&self) -> Duration {
        self.time_limit
    }

    fn is_counted(&self) -> bool {
        self.is_counted
    }

    fn is_repeatable(&self) -> bool {
        self.is_repeatable || self.spec.hints.idempotent || self.spec.hints.read_only
    }

    fn begins_itself(&self) -> bool {
        self.begins_itself
    }

    fn concurrency(&self) -> ToolConcurrency {
        let unsaid = ToolConcurrency::Anything { changes: !self.spec.hints.read_only };
        self.concurrency.clone().unwrap_or(unsaid)
    }

    fn hides_arguments(&self) -> bool {
        self.hides_arguments
    }

    fn result_chars(&self) -> usize {
        self.result_chars
    }

    async fn call(&self, cx: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
        let arguments = serde_json::from_str(&call.arguments).map_err(|error| {
            Fault::invalid(format!("the arguments do not match the schema: {}", without_types(&error.to_string())))
        })?;
        (self.call)(cx.clone(), arguments).await.map(Into::into)
    }
}

/// Removes from a parser's message what the model cannot see: the position in a line, and the names of Rust types.
fn without_types(text: &str) -> String {
    const WORDS: [(&str, &str); 4] = [
        (", expected struct ", "an object"),
        (", expected tuple struct ", "a list"),
        (", expected enum ", "one of the values that the schema names"),
        (", expected internally tagged enum ", "an object"),
    ];
    let text = text.split(" at line ").next().unwrap_or(text);
    // The value that was given precedes it, and may contain any text.
    let found = WORDS.iter().filter_map(|(words, means)| Some((text.rfind(words)?, means)));
    match found.max_by_key(|(at, _)| *at) {
        Some((at, means)) => format!("{}, expected {means}", &text[..at]),
        None => text.to_owned(),
    }
}

/// Returns the JSON schema of `A`, without `$schema` and `title`, and with all subschemas inlined: a model pays for each
/// word, and not every vendor follows `$ref`.
fn schema<A: JsonSchema>() -> Arc<RawValue> {
    let mut settings = SchemaSettings::draft2020_12();
    settings.meta_schema = None;
    settings.inline_subschemas = true;
    let mut schema = settings.into_generator().into_root_schema_for::<A>();
    schema.remove("title");
    // The tool has its own description.
    schema.remove("description");
    // A vendor refuses an object without `properties`.
    schema.ensure_object().entry("properties").or_insert_with(|| Value::Object(Map::new()));
    RecursiveTransform(without_format).transform(&mut schema);
    serde_json::value::to_raw_value(&schema).expect("a schema is JSON").into()
}

/// Removes `format` from numbers: not every vendor knows the number formats of Rust.
fn without_format(schema: &mut Schema) {
    if schema.get("type").is_some_and(|kind| kind != "string") {
        schema.remove("format");
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::event::RunCx;

    #[derive(Deserialize, JsonSchema)]
    struct Args {
        /// How often.
        times: u32,
        #[serde(default)]
        word: Option<String>,
        #[serde(default)]
        parts: Vec<Hidden>,
    }

    #[derive(Deserialize, JsonSchema)]
    struct Hidden {
        #[serde(default)]
        kind: Option<HiddenKind>,
    }

    #[derive(Deserialize, JsonSchema)]
    enum HiddenKind {
        A,
    }

    #[tokio::test]
    async fn closure_becomes_a_tool() {
        let tool = function("repeat", "Repeats.", |_, args: Args| async move {
            let kinds = args.parts.into_iter().filter_map(|part| part.kind);
            assert!(kinds.into_iter().all(|kind| matches!(kind, HiddenKind::A)));
            match args.word {
                Some(word) => Ok(word.repeat(args.times as usize)),
                None => Err(Fault::invalid("there is no word")),
            }
        });
        let schema: Value = serde_json::from_str(tool.spec().input_schema.get()).unwrap();
        assert_eq!(schema["properties"]["times"]["description"], "How often.");
        assert_eq!(schema["required"], serde_json::json!(["times"]));
        assert_eq!(schema["properties"]["times"]["format"], Value::Null);
        let cx = ToolCx::new(RunCx::new("a"));
        for (arguments, text) in [
            (r#"{"times":2,"word":"ab"}"#, Ok(ToolOutput::from("abab"))),
            (r#"{"times":2}"#, Err("there is no word".into())),
            (r#"{"word":"x"}"#, Err("the arguments do not match the schema: missing field `times`".into())),
            (
                r#"{"times":2,"parts":["a, expected struct b"]}"#,
                Err("the arguments do not match the schema: invalid type: string \"a, expected struct b\", expected \
                     an object"
                    .into()),
            ),
            ("[]", Err("the arguments do not match the schema: invalid length 0, expected an object".into())),
        ] {
            let call = ToolCall { id: "c".into(), name: "repeat".into(), arguments: arguments.into(), meta: vec![] };
            assert_eq!(tool.call(&cx, &call).await.map_err(|fault| fault.to_string()), text);
        }
    }
}
