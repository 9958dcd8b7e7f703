use std::{
    borrow::{Borrow, Cow},
    hash::{Hash, Hasher},
    sync::{Arc, OnceLock},
};

use indexmap::IndexSet;

use super::{
    Tool, ToolConcurrency, ToolNameConflict, ToolTarget, looks_like,
    result_cut::{chars, cut_content},
    result_size::{beginning, result_bytes, text_bytes},
};
use crate::{
    chat::{ToolCall, ToolResult, ToolResultContent, ToolSpec},
    error::{Fault, cut},
    limits,
};

/// The name of the tool with which a model reads the rest of a cut result.
pub(crate) const READ_RESULT: &str = "read_result";

/// Tools in order. The list that a model is shown and the table that calls are dispatched from are this one object. Clones
/// share it until one of them is changed.
#[derive(Clone, Default)]
pub struct ToolBox {
    table: Arc<ToolTable>,
    /// The number of bytes of a result that are shown; `None`: the model's window does not bound it.
    result_bytes: Option<usize>,
}

#[derive(Clone, Default)]
struct ToolTable {
    tools: IndexSet<NamedTool>,
    specs: OnceLock<Arc<[Arc<ToolSpec>]>>,
}

/// A tool that is looked up by its name.
#[derive(Clone)]
struct NamedTool(Arc<dyn Tool>);

impl NamedTool {
    fn name(&self) -> &str {
        &self.0.spec().name
    }
}

impl Borrow<str> for NamedTool {
    fn borrow(&self) -> &str {
        self.name()
    }
}

impl Hash for NamedTool {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name().hash(state);
    }
}

impl PartialEq for NamedTool {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for NamedTool {}

impl ToolBox {
    /// Creates an empty toolbox.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a tool.
    ///
    /// # Errors
    ///
    /// [`ToolNameConflict`] if a tool of that name exists; it stays.
    pub fn register(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolNameConflict> {
        if let Some(NamedTool(there)) = self.table.tools.get(tool.spec().name.as_str()) {
            let (first, second) = (there.origin().to_owned(), tool.origin().to_owned());
            let name = tool.spec().name.clone();
            return Err(ToolNameConflict { there: name.clone(), name, first, second });
        }
        let table = self.changed();
        table.tools.insert(NamedTool(tool));
        Ok(())
    }

    /// Returns this toolbox with one more tool.
    ///
    /// # Panics
    ///
    /// Panics if a tool of that name exists; see [`ToolBox::register`].
    pub fn with(mut self, tool: impl Tool + 'static) -> Self {
        self.register(Arc::new(tool)).unwrap_or_else(|clash| panic!("{clash}"));
        self
    }

    /// Adds the tools of another toolbox. If names are equal, or [look alike](super::looks_like), the existing tool stays;
    /// the conflicts are returned.
    pub fn extend(&mut self, other: ToolBox) -> Vec<ToolNameConflict> {
        other.iter().filter_map(|tool| self.admit(Arc::clone(tool)).err()).collect()
    }

    fn admit(&mut self, tool: Arc<dyn Tool>) -> Result<(), ToolNameConflict> {
        let name = &tool.spec().name;
        if let Some(there) = self.iter().find(|there| looks_like(name, &there.spec().name)) {
            let (first, second) = (there.origin().into(), tool.origin().into());
            return Err(ToolNameConflict { name: name.clone(), there: there.spec().name.clone(), first, second });
        }
        self.register(tool)
    }

    /// Returns this toolbox without the tools of these names: they are neither shown nor run.
    pub fn without(&self, hidden: &[String]) -> ToolBox {
        let mut rest = self.clone();
        if self.names().any(|name| hidden.iter().any(|hidden| hidden == name)) {
            rest.changed().tools.retain(|tool| !hidden.iter().any(|hidden| hidden == tool.name()));
        }
        rest
    }

    /// Returns only the tools of these names, in the order of the names, and the names for which there is no tool.
    pub fn only<'a>(&self, names: &'a [String]) -> (ToolBox, Vec<&'a str>) {
        let (mut tools, mut unknown) = (IndexSet::new(), Vec::new());
        for name in names {
            match self.table.tools.get(name.as_str()) {
                Some(tool) => drop(tools.insert(tool.clone())),
                None => unknown.push(name.as_str()),
            }
        }
        (ToolBox { table: Arc::new(ToolTable { tools, ..ToolTable::default() }), ..ToolBox::default() }, unknown)
    }

    /// Returns `true` if both are the same object: clones of each other that were not changed since.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// Returns the number of tools.
    pub fn len(&self) -> usize {
        self.table.tools.len()
    }

    /// Returns `true` if there are no tools.
    pub fn is_empty(&self) -> bool {
        self.table.tools.is_empty()
    }

    /// Returns `true` if there is a tool of this name.
    pub fn contains(&self, name: &str) -> bool {
        self.table.tools.contains(name)
    }

    /// Returns `true` if calls of this tool count against the budget of a run. Calls of an unknown tool do.
    pub fn counts(&self, name: &str) -> bool {
        self.get(name).is_none_or(|tool| tool.is_counted())
    }

    /// Returns `true` if an interrupted call of this tool may simply be repeated. A call of an unknown tool may not.
    pub fn can_repeat(&self, name: &str) -> bool {
        self.get(name).is_some_and(|tool| tool.is_repeatable())
    }

    /// Returns the way calls of this tool may run beside the other calls of one reply. A call of an unknown tool is
    /// independent.
    pub(crate) fn concurrency(&self, name: &str) -> ToolConcurrency {
        self.get(name).map_or(ToolConcurrency::Independent, |tool| tool.concurrency())
    }

    /// Returns the tools in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Tool>> {
        self.table.tools.iter().map(|NamedTool(tool)| tool)
    }

    /// Returns the names in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.table.tools.iter().map(NamedTool::name)
    }

    /// Returns the descriptions for a model, in order.
    pub fn specs(&self) -> Arc<[Arc<ToolSpec>]> {
        Arc::clone(self.table.specs.get_or_init(|| self.iter().map(|tool| Arc::clone(tool.spec())).collect()))
    }

    /// Returns the table for a change, and drops the cached descriptions.
    fn changed(&mut self) -> &mut ToolTable {
        let table = Arc::make_mut(&mut self.table);
        table.specs = OnceLock::new();
        table
    }

    /// Returns this toolbox for a reply with this many calls, whose results share the window of the model.
    pub(crate) fn for_calls(mut self, calls: usize, window: Option<u64>) -> ToolBox {
        self.result_bytes = Some(result_bytes(window, calls));
        self
    }

    /// Cuts a result to what a model is shown of it, and notes that in the result.
    pub(crate) fn cut(&self, call: &ToolCall, result: &mut ToolResult) {
        cut_content(&mut result.content, self.result_chars(&call.name));
    }

    /// Cuts a result like [`cut`](Self::cut) for a model that can read the rest: the result says how, and the whole text is
    /// returned.
    pub(crate) fn cut_to_read_on(&self, call: &ToolCall, result: &mut ToolResult) -> Option<String> {
        let most = self.result_chars(&call.name);
        let most_bytes = self.result_bytes.unwrap_or(usize::MAX);
        if text_bytes(&result.content) <= most_bytes && chars(&result.content) <= most {
            return None;
        }
        let whole = result.text();
        let shown = beginning(&whole, most, most_bytes);
        let (end, offset) = (shown.len(), shown.chars().count());
        let beyond = whole[end..].chars().count();
        let how = serde_json::json!({ "call": call.id, "offset": offset });
        let note = format!("[{beyond} more characters: call {READ_RESULT} with {how}]");
        let media = std::mem::take(&mut result.content)
            .into_iter()
            .filter(|piece| matches!(piece, ToolResultContent::Media(_)));
        result.content = [ToolResultContent::Text(whole[..end].into())].into_iter().chain(media).collect();
        result.content.push(ToolResultContent::Text(note));
        Some(whole)
    }

    /// Returns the tool that a call is for, as middleware sees it, and the call as the tool receives it: its arguments are
    /// a JSON object of bounded size. `None` for a call that reaches no tool.
    pub fn target<'a>(&self, call: &'a ToolCall) -> Option<(ToolTarget, Cow<'a, ToolCall>)> {
        let (tool, call) = self.find(call).ok()?;
        Some((ToolTarget { origin: tool.origin().into(), hints: tool.spec().hints }, call))
    }

    fn result_chars(&self, name: &str) -> usize {
        self.get(name).map_or(limits::TOOL_RESULT_CHARS, |tool| tool.result_chars())
    }

    /// Returns `true` if there is a tool of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn get(&self, name: &str) -> Option<&Arc<dyn Tool>> {
        self.table.tools.get(name).map(|NamedTool(tool)| tool)
    }

    /// Returns the tool that a call is for, and the call as the tool receives it.
    pub(super) fn find<'a>(&self, call: &'a ToolCall) -> Result<(&Arc<dyn Tool>, Cow<'a, ToolCall>), Fault> {
        let tool = self.get(&call.name).ok_or_else(|| {
            let names: Vec<_> = self.names().collect();
            let known = if names.is_empty() {
                "no tools are available".into()
            } else {
                format!("available tools: {}", names.join(", "))
            };
            Fault::NotFound { message: format!("tool not found: {}; {known}", cut(&call.name, 100)) }
        })?;
        if call.arguments.len() > limits::ARGUMENT_BYTES {
            let message =
                format!("the arguments have {} bytes, the maximum is {}", call.arguments.len(), limits::ARGUMENT_BYTES);
            return Err(Fault::TooLarge { message });
        }
        if call.arguments.trim().is_empty() {
            return Ok((tool, Cow::Owned(ToolCall { arguments: "{}".into(), ..call.clone() })));
        }
        serde_json::from_str::<JsonObject>(&call.arguments)
            .map_err(|error| Fault::invalid(format!("the arguments are not a JSON object: {error}")))?;
        match tool.spec().property_names.restore(&call.arguments) {
            Cow::Borrowed(_) => Ok((tool, Cow::Borrowed(call))),
            Cow::Owned(arguments) => Ok((tool, Cow::Owned(ToolCall { arguments, ..call.clone() }))),
        }
    }
}

/// Accepts any JSON object without building it.
struct JsonObject;

impl<'de> serde::Deserialize<'de> for JsonObject {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct JsonObjectVisitor;
        impl<'de> serde::de::Visitor<'de> for JsonObjectVisitor {
            type Value = JsonObject;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<M: serde::de::MapAccess<'de>>(self, mut map: M) -> Result<JsonObject, M::Error> {
                use serde::de::IgnoredAny;
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(JsonObject)
            }
        }
        deserializer.deserialize_map(JsonObjectVisitor)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use async_trait::async_trait;

    use super::*;
    use crate::{
        chat::{PropertyNames, ToolHints},
        event::RunCx,
        tool::{ToolCx, ToolOutput},
    };

    enum Does {
        Echo,
        Panic,
        Hang,
        Flood(usize),
    }

    struct Native(Arc<ToolSpec>, &'static str, Does);

    fn native(name: &str, origin: &'static str, does: Does) -> Arc<dyn Tool> {
        let input_schema = serde_json::value::to_raw_value(&serde_json::json!({"type": "object"})).unwrap().into();
        let spec = ToolSpec {
            name: name.into(),
            description: String::new(),
            input_schema,
            hints: ToolHints::default(),
            property_names: PropertyNames::default(),
        };
        Arc::new(Native(Arc::new(spec), origin, does))
    }

    #[async_trait]
    impl Tool for Native {
        fn spec(&self) -> &Arc<ToolSpec> {
            &self.0
        }
        fn origin(&self) -> &str {
            self.1
        }
        fn time_limit(&self) -> Duration {
            Duration::from_millis(20)
        }
        async fn call(&self, _: &ToolCx, call: &ToolCall) -> Result<ToolOutput, Fault> {
            match self.2 {
                Does::Echo => Ok(call.arguments.clone().into()),
                Does::Panic => panic!("boom"),
                Does::Hang => std::future::pending().await,
                Does::Flood(chars) => {
                    Ok(vec![ToolResultContent::Text("é".repeat(chars)), ToolResultContent::Text("tail".into())].into())
                }
            }
        }
    }

    fn toolbox() -> ToolBox {
        let mut toolbox = ToolBox::new();
        let edge = limits::TOOL_RESULT_CHARS;
        for (name, does) in [
            ("echo", Does::Echo),
            ("panic", Does::Panic),
            ("hang", Does::Hang),
            ("flood", Does::Flood(edge + 7)),
            ("full", Does::Flood(edge - 4)),
        ] {
            toolbox.register(native(name, "host", does)).unwrap();
        }
        toolbox
    }

    async fn call(name: &str, arguments: &str) -> (bool, String) {
        let cx = ToolCx::new(RunCx::new("a"));
        let call = ToolCall { id: "c".into(), name: name.into(), arguments: arguments.into(), meta: vec![] };
        let result = toolbox().dispatch(&cx, &call).await.result;
        assert_eq!(result.call_id, "c");
        (result.is_error, result.text())
    }

    #[tokio::test]
    async fn dispatch_always_gives_a_result() {
        for (name, arguments, is_error, text) in [
            ("echo", r#"{"a":1}"#, false, r#"{"a":1}"#),
            ("echo", "", false, "{}"),
            ("echo", "[1]", true, "the arguments are not a JSON object"),
            ("echo", r#"{"a":"#, true, "the arguments are not a JSON object"),
            ("nope", "{}", true, "tool not found: nope; available tools: echo, panic, hang, flood, full"),
            ("panic", "{}", true, "the tool crashed"),
            ("hang", "{}", true, "the call took longer than 0.02 seconds"),
        ] {
            let got = call(name, arguments).await;
            assert!(got.0 == is_error && got.1.starts_with(text), "{name} {arguments}: {got:?}");
        }
    }

    #[tokio::test]
    async fn arguments_over_the_bound_are_refused() {
        let (is_error, text) = call("echo", &format!("{{\"a\":\"{}\"}}", "x".repeat(limits::ARGUMENT_BYTES))).await;
        assert!(is_error && text.contains("the maximum is 1048576"), "{text}");
    }

    #[tokio::test]
    async fn a_result_is_cut_at_a_character_and_says_so() {
        let (_, text) = call("flood", "{}").await;
        assert!(text.ends_with("[11 more characters were cut]"), "{}", &text[text.len() - 60..]);
        assert_eq!(text.chars().filter(|c| *c == 'é').count(), limits::TOOL_RESULT_CHARS);
        let (_, text) = call("full", "{}").await;
        assert!(text.ends_with("tail"));
    }

    #[test]
    fn duplicate_tool_is_refused_and_extend_keeps_the_first() {
        let mut first = ToolBox::new();
        first.register(native("t", "one", Does::Echo)).unwrap();
        let clash = first.register(native("t", "two", Does::Echo)).unwrap_err();
        assert_eq!(clash.to_string(), "two tools are called `t`: one of `one`, one of `two`");
        let mut second = ToolBox::new();
        second.register(native("t", "three", Does::Echo)).unwrap();
        second.register(native("u", "three", Does::Echo)).unwrap();
        let clashes = first.extend(second);
        assert_eq!(clashes.len(), 1);
        assert_eq!(first.names().collect::<Vec<_>>(), ["t", "u"]);
        assert_eq!(first.get("t").unwrap().origin(), "one");
        assert_eq!(first.without(&["t".into()]).names().collect::<Vec<_>>(), ["u"]);
        assert_eq!(first.specs().len(), 2, "what a copy lost is still here");
        let names = ["u".to_owned(), "v".to_owned()];
        let (only, unknown) = first.only(&names);
        assert_eq!((only.names().collect::<Vec<_>>(), unknown), (vec!["u"], vec!["v"]));
    }
}
