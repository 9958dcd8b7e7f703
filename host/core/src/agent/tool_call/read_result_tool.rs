use std::sync::{Arc, LazyLock};

use schemars::JsonSchema;
use serde::Deserialize;

use crate::{
    chat::ToolSpec,
    error::{Fault, cut},
    limits,
    model::ContextWindow,
    tool::{FnTool, READ_RESULT, Tool, ToolConcurrency, ToolCx, beginning, result_bytes, spec},
};

#[derive(Deserialize, JsonSchema)]
struct ReadResultArgs {
    /// The id of the call, as shown in its cut result.
    call: String,
    /// The first character to read, counted from 0.
    #[serde(default)]
    offset: usize,
    /// Begin instead at the next occurrence of this text, from `offset` on.
    find: Option<String>,
    /// The number of characters to read; as many as fit if left out.
    limit: Option<usize>,
}

/// The number of characters shown before the text that was found.
const BEFORE_FOUND: usize = 200;

/// Room for the text around a page.
const HEADER_CHARS: usize = 500;

/// Creates the tool that reads the rest of cut results, which the host keeps outside the conversation. A page takes no more
/// of the model's window than a result may.
pub(crate) fn read_result(window: &ContextWindow) -> Arc<dyn Tool> {
    static SPEC: LazyLock<Arc<ToolSpec>> = LazyLock::new(|| {
        spec::<ReadResultArgs>(
            READ_RESULT,
            "Reads more of a result of an earlier call that was too long to be shown in full: from a character \
             offset, or from the next occurrence of a text.",
        )
        .into()
    });
    let window = window.clone();
    let read = move |cx: ToolCx, args: ReadResultArgs| {
        let bytes = result_bytes(window.tokens(), 1);
        async move { page(&cx, &args, bytes) }
    };
    let tool = FnTool::with_spec(Arc::clone(&SPEC), read).repeatable();
    Arc::new(tool.with_concurrency(ToolConcurrency::Independent))
}

/// Returns a page of at most this many bytes.
fn page(cx: &ToolCx, args: &ReadResultArgs, most_bytes: usize) -> Result<String, Fault> {
    let call = cut(&args.call, 100);
    let Some(text) = cx.chat.kept_result(&args.call) else {
        let message = format!(
            "there is no more to read of the result of `{call}`: it was shown in full or is no longer stored; repeat \
             the call if you need it"
        );
        return Err(Fault::NotFound { message });
    };
    let total = text.chars().count();
    let from = |offset: usize| text.char_indices().nth(offset).map_or(text.len(), |(at, _)| at);
    let start = match args.find.as_deref().filter(|find| !find.is_empty()) {
        None if args.offset >= total => {
            return Err(Fault::invalid(format!(
                "`offset` is out of range: the result of `{call}` has {total} characters, 0 to {}",
                total - 1
            )));
        }
        None => args.offset,
        Some(find) => {
            let after = from(args.offset);
            let found = text[after..].find(find).ok_or_else(|| Fault::NotFound {
                message: format!(
                    "the text `{}` does not occur in the result from character {} on",
                    cut(find, 100),
                    args.offset
                ),
            })?;
            let at = text[..after + found].chars().count();
            at.saturating_sub(BEFORE_FOUND).max(args.offset)
        }
    };
    let room = limits::TOOL_RESULT_CHARS - HEADER_CHARS;
    let wanted = args.limit.unwrap_or(room).clamp(1, room);
    let shown = beginning(&text[from(start)..], wanted, most_bytes.saturating_sub(HEADER_CHARS));
    let end = start + shown.chars().count();
    let rest = match end < total {
        true => format!("; continue with offset {end}"),
        false => ", to the end".into(),
    };
    Ok(format!("[characters {start} to {end} of {total}{rest}]\n{shown}"))
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;

    use super::*;
    use crate::{
        agent::Agent,
        chat::{Chat, Message, Role, ToolCall, ToolResultContent},
        event::RunCx,
        model::ScriptedCompleter,
        tool::{ToolBox, ToolCallDecision, ToolCallVerdict, ToolMiddleware, ToolTarget, function},
    };

    #[derive(Deserialize, JsonSchema)]
    struct NoArgs {}

    fn kept(text: &str) -> ToolCx {
        let chat = Chat::new();
        chat.keep_result("c1", text.into());
        ToolCx { chat: chat.snapshot(), ..ToolCx::new(RunCx::new("a")) }
    }

    #[tokio::test]
    async fn read_result_page_matches_its_header() {
        let text = format!("{}needle{}", "é".repeat(40_000), "x".repeat(1_000));
        let cx = kept(&text);
        let mut tools = ToolBox::new();
        tools.register(read_result(&ContextWindow::default())).unwrap();
        let room = limits::TOOL_RESULT_CHARS - HEADER_CHARS;
        for (arguments, says) in [
            (
                r#"{"call":"c1"}"#.to_owned(),
                format!("[characters 0 to {room} of 41006; continue with offset {room}]\néé"),
            ),
            (
                r#"{"call":"c1","offset":40000}"#.into(),
                "[characters 40000 to 41006 of 41006, to the end]\nneedlexx".into(),
            ),
            (
                r#"{"call":"c1","offset":40000,"limit":6}"#.into(),
                "[characters 40000 to 40006 of 41006; continue".into(),
            ),
            (r#"{"call":"c1","find":"needle"}"#.into(), "[characters 39800 to 41006 of 41006, to the end]\né".into()),
            (r#"{"call":"c1","find":"needle","offset":39999,"limit":3}"#.into(), "offset 40002]\nén".into()),
            (
                r#"{"call":"c1","find":"needle","offset":40001}"#.into(),
                "does not occur in the result from character 40001 on".into(),
            ),
            (r#"{"call":"c1","offset":41006}"#.into(), "has 41006 characters, 0 to 41005".into()),
            (r#"{"call":"c2"}"#.into(), "no more to read of the result of `c2`".into()),
            (r#"{"call":"c1","limit":0}"#.into(), "[characters 0 to 1 of".into()),
        ] {
            let call =
                ToolCall { id: "c9".into(), name: READ_RESULT.into(), arguments: arguments.clone(), meta: vec![] };
            let result = tools.dispatch(&cx, &call).await.result.text();
            assert!(result.contains(&says), "{arguments}: {}", cut(&result, 200));
            assert!(!result.contains("more characters"), "a page is never cut: {arguments}");
        }
    }

    /// A middleware that redacts the number in results, at any position.
    struct Redacts;

    #[async_trait]
    impl ToolMiddleware for Redacts {
        fn name(&self) -> &str {
            "redacts"
        }

        async fn before(&self, _: &RunCx, _: &ToolCall, _: &ToolTarget) -> Result<ToolCallDecision, Fault> {
            Ok(ToolCallDecision { verdict: ToolCallVerdict::Allow, arguments: None, state: Vec::new() })
        }

        async fn after(
            &self,
            _: &RunCx,
            _: &ToolCall,
            outcome: Result<&[ToolResultContent], &Fault>,
            _: Vec<u8>,
        ) -> Result<Option<Vec<ToolResultContent>>, Fault> {
            let Ok([ToolResultContent::Text(text)]) = outcome else { return Ok(None) };
            Ok(text.contains("4711").then(|| vec![ToolResultContent::Text(text.replace("4711", "****"))]))
        }
    }

    #[tokio::test]
    async fn kept_results_have_passed_tool_middleware() {
        let long = function("long", "", |_, NoArgs {}| async { Ok(format!("{}4711", "x".repeat(40_000))) });
        let script = [ScriptedCompleter::calls(&[("c1", "long", "{}")]), ScriptedCompleter::text("done")];
        let agent = Agent::new("ada", "", Arc::new(ScriptedCompleter::new(script))).with_tool(long);
        let (agent, chat) = (agent.with_tool_middleware(Redacts), Chat::new());
        agent.run(&RunCx::new("ada"), &chat, vec![Message::text(Role::User, "", "go")]).await.unwrap();
        let chat = chat.snapshot();
        assert!(chat.kept_result("c1").unwrap().ends_with("xx****"));
    }

    #[tokio::test]
    async fn kept_result_is_bounded() {
        let long = function("long", "", |_, NoArgs {}| async { Ok("é".repeat(limits::KEPT_RESULT_CHARS + 7)) });
        let script = [ScriptedCompleter::calls(&[("c1", "long", "{}")]), ScriptedCompleter::text("done")];
        let agent = Agent::new("ada", "", Arc::new(ScriptedCompleter::new(script))).with_tool(long);
        let chat = Chat::new();
        agent.run(&RunCx::new("ada"), &chat, vec![Message::text(Role::User, "", "go")]).await.unwrap();
        let chat = chat.snapshot();
        let kept = chat.kept_result("c1").unwrap();
        assert_eq!(kept.matches('é').count(), limits::KEPT_RESULT_CHARS);
        assert!(kept.ends_with("[7 more characters were cut]"), "{}", cut(&kept[kept.len() - 100..], 100));
    }

    #[tokio::test]
    async fn cut_result_is_readable_in_later_turns_and_runs() {
        let long = function("long", "", |_, NoArgs {}| async { Ok(format!("{}end", "x".repeat(40_000))) });
        let read = |id: &str, offset: usize| {
            let arguments = serde_json::json!({ "call": "c1", "offset": offset }).to_string();
            ScriptedCompleter::calls(&[(id, READ_RESULT, &arguments)])
        };
        let said = ScriptedCompleter::text;
        let script = [
            ScriptedCompleter::calls(&[("c1", "long", "{}")]),
            read("c2", 32_000),
            said("one"),
            read("c3", 40_000),
            said("two"),
        ];
        let model = Arc::new(ScriptedCompleter::new(script));
        let agent = Agent::new("ada", "", Arc::clone(&model) as _).with_tool(long);
        let chat = Chat::new();
        for task in ["first", "second"] {
            agent.run(&RunCx::new("ada"), &chat, vec![Message::text(Role::User, "", task)]).await.unwrap();
        }
        let results: Vec<_> = chat
            .snapshot()
            .iter()
            .flat_map(|entry| entry.message.tool_results().map(|result| result.text()).collect::<Vec<_>>())
            .collect();
        let told = r#"[8003 more characters: call read_result with {"call":"c1","offset":32000}]"#;
        assert!(results[0].ends_with(told), "{}", &results[0][results[0].len() - 200..]);
        assert!(results[1].starts_with("[characters 32000 to 40003 of 40003, to the end]\nxxx"));
        assert!(results[2].ends_with("to the end]\nend"), "{}", results[2]);
        let offered: Vec<_> =
            model.requests().iter().map(|request| request.tools.iter().any(|tool| tool.name == READ_RESULT)).collect();
        assert_eq!(offered, [false, true, true, true, true], "it is offered once there is something to read");
        // As recorded and read back.
        let again = Chat::restore(chat.record()).unwrap();
        assert_eq!(again.snapshot().kept_result("c1"), chat.snapshot().kept_result("c1"));
    }
}
