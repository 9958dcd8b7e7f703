use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    hints::{CHANGES, READS, concurrency, watches},
    waiting::{change, wait, wait_limit},
};
use crate::{
    chat::ToolResultContent,
    error::{Fault, cut},
    limits,
    state::{Blackboard, BlackboardEntry, BlackboardError, shown_name::shown_name},
    tool::{ToolBox, ToolOutput, function},
};

#[derive(Deserialize, JsonSchema)]
struct BlackboardGetArgs {
    /// The key to read.
    key: String,
    /// True to get {"revision", "value"} instead of the value alone; use the revision as `if_revision` or
    /// `after_revision`.
    #[serde(default)]
    revision: bool,
}

#[derive(Deserialize, JsonSchema)]
struct BlackboardSetArgs {
    /// The key to write.
    key: String,
    /// Any JSON value.
    #[schemars(with = "serde_json::Value")]
    value: Box<RawValue>,
    /// Write only if the key is still at this revision; 0: only if the key does not exist. If left out, any existing
    /// value is replaced.
    if_revision: Option<u64>,
}

#[derive(Deserialize, JsonSchema)]
struct BlackboardListArgs {
    /// Only keys that begin with this.
    #[serde(default)]
    prefix: String,
}

#[derive(Deserialize, JsonSchema)]
struct BlackboardWatchArgs {
    /// The key to wait for.
    key: String,
    /// Wait for a change after this revision; if left out, wait until the key exists.
    #[serde(default)]
    after_revision: u64,
    /// How long to wait, 1 to 300 seconds; 300 if left out.
    timeout_seconds: Option<u64>,
}

/// Returns the tools `<ns>_state_get`, `<ns>_state_set`, `<ns>_state_list` and `<ns>_state_watch` of a blackboard.
///
/// ```
/// use std::sync::Arc;
/// use shelly_core::{
///     agent::Agent,
///     chat::{Chat, Message},
///     event::RunCx,
///     model::ScriptedCompleter,
///     state::{Blackboard, blackboard_tools},
/// };
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let board = Blackboard::new();
/// let model = ScriptedCompleter::new([
///     ScriptedCompleter::calls(&[("1", "project_state_set", r#"{"key":"findings","value":{"qubits":105}}"#)]),
///     ScriptedCompleter::text("It is written down."),
/// ]);
/// let mut researcher = Agent::new("researcher", "Store what you find under `findings`.", Arc::new(model));
/// researcher.tools = blackboard_tools(&board, "project")?;
/// researcher.run(&RunCx::new("researcher"), &Chat::new(), vec![Message::user("Quantum computers?")]).await?;
/// // Every holder of a clone reads the board: another agent through its tools, or a program like this.
/// assert_eq!(board.get("findings").unwrap().value.get(), r#"{"qubits":105}"#);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// [`BlackboardError::Namespace`] if `ns` is not 1 to [`limits::NAMESPACE_BYTES`] of a-z, 0-9 and _.
pub fn blackboard_tools(board: &Blackboard, ns: &str) -> Result<ToolBox, BlackboardError> {
    let letters = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    if !(1..=limits::NAMESPACE_BYTES).contains(&ns.len()) || !ns.bytes().all(letters) {
        return Err(BlackboardError::Namespace { namespace: shown_name(ns).escape_debug().to_string() });
    }
    let [of_get, of_set, of_list, of_watch] = [(); 4].map(|()| board.clone());

    let get = function(
        &format!("{ns}_state_get"),
        "Reads the JSON value of a key that you share with other agents.",
        move |_, args: BlackboardGetArgs| {
            let board = of_get.clone();
            async move {
                board.refresh().await?;
                shown(board.get(&args.key).ok_or_else(|| no_key(&board, &args.key))?, args.revision)
            }
        },
    );
    let set = function(
        &format!("{ns}_state_set"),
        "Writes a JSON value under a key that you share with other agents, and returns its revision.",
        move |cx, BlackboardSetArgs { key, value, if_revision }: BlackboardSetArgs| {
            let board = of_set.attributed_to(cx.call_id());
            let is_shared = board.is_shared();
            let write = move || match if_revision {
                None => board.set(&key, &*value),
                Some(0) => board.compare_and_swap(&key, None, &*value),
                expected => board.compare_and_swap(&key, expected, &*value),
            };
            async move { Ok(format!("ok, revision {}", change(is_shared, write).await??)) }
        },
    );
    let list = function(
        &format!("{ns}_state_list"),
        "Lists the keys that you share with other agents, sorted.",
        move |_, args: BlackboardListArgs| {
            let board = of_list.clone();
            async move {
                board.refresh().await?;
                let mut keys = board.keys();
                keys.retain(|key| key.starts_with(&args.prefix));
                ToolOutput::json(&keys)
            }
        },
    );
    let watch = function(
        &format!("{ns}_state_watch"),
        "Waits until another agent writes a key; returns {\"revision\", \"value\"}.",
        move |_, args: BlackboardWatchArgs| {
            let board = of_watch.clone();
            async move {
                board.refresh().await?;
                let in_vain = format!("no new value under `{}`", shown_name(&args.key));
                let changed = board.changed(&args.key, args.after_revision);
                match wait(args.timeout_seconds, in_vain, changed).await? {
                    Some(entry) => shown(entry, true),
                    None => Err(no_key(&board, &args.key)),
                }
            }
        },
    );
    let kept = format!("host:state:{ns}");
    Ok(ToolBox::new()
        .with(get.with_hints(READS).with_concurrency(concurrency(READS, &kept)))
        .with(set.with_hints(CHANGES).with_concurrency(concurrency(CHANGES, &kept)).repeatable())
        .with(list.with_hints(READS).with_concurrency(concurrency(READS, &kept)))
        .with(watch.with_hints(READS).with_concurrency(watches(&kept)).with_time_limit(wait_limit())))
}

fn shown(entry: BlackboardEntry, with_revision: bool) -> Result<ToolOutput, Fault> {
    match with_revision {
        true => ToolOutput::json(&entry),
        false => Ok(vec![ToolResultContent::Json(entry.value.get().to_owned())].into()),
    }
}

/// Returns the error for a missing key, which names existing keys.
fn no_key(board: &Blackboard, key: &str) -> Fault {
    let keys = board.keys();
    let some: Vec<_> = keys.iter().take(limits::BLACKBOARD_KEYS_SHOWN).map(String::as_str).collect();
    let more = keys.len() - some.len();
    let known = match (some.join(", "), more) {
        (_, 0) if keys.is_empty() => "there are no keys yet".into(),
        (some, 0) => format!("existing keys: {some}"),
        (some, more) => format!("existing keys: {some} and {more} more"),
    };
    Fault::NotFound { message: format!("key not found: {}; {known}", cut(key, limits::NAME_SHOWN_CHARS)) }
}

#[cfg(test)]
mod tests {
    use futures_util::poll;
    use serde_json::json;
    use tokio::time::Instant;

    use super::{super::tests::call, *};

    #[tokio::test]
    async fn blackboard_tools_read_write_and_list() {
        let tools = blackboard_tools(&Blackboard::new(), "team").unwrap();
        for (tool, arguments, answer) in [
            ("get", json!({"key": "plan"}), "error: key not found: plan; there are no keys yet"),
            ("list", json!({}), "[]"),
            ("set", json!({"key": "plan", "value": {"b": [1.0, null], "a": "é"}}), "ok, revision 1"),
            ("get", json!({"key": "plan"}), r#"{"a":"é","b":[1.0,null]}"#),
            ("get", json!({"key": "plan", "revision": true}), r#"{"revision":1,"value":{"a":"é","b":[1.0,null]}}"#),
            ("set", json!({"key": "a", "value": null, "if_revision": 0}), "ok, revision 2"),
            ("set", json!({"key": "a", "value": 2, "if_revision": 2}), "ok, revision 3"),
            (
                "set",
                json!({"key": "a", "value": 2, "if_revision": 2}),
                "error: `a` is at revision 3, expected revision 2; read it again and retry",
            ),
            (
                "set",
                json!({"key": "a", "value": 2, "if_revision": 0}),
                "error: `a` is at revision 3, expected no revision; read it again and retry",
            ),
            ("list", json!({}), r#"["a","plan"]"#),
            ("list", json!({"prefix": "p"}), r#"["plan"]"#),
            ("get", json!({"key": "b"}), "error: key not found: b; existing keys: a, plan"),
            (
                "set",
                json!({"key": "", "value": 1}),
                "error: invalid key ``; use 1 to 128 bytes without control characters",
            ),
            ("set", json!({"key": "a"}), "error: the arguments do not match the schema: missing field `value`"),
        ] {
            assert_eq!(call(&tools, "ann", &format!("team_state_{tool}"), arguments).await, answer);
        }
    }

    #[tokio::test]
    async fn largest_blackboard_value_is_read_whole() {
        let board = Blackboard::new();
        let tools = blackboard_tools(&board, "t").unwrap();
        let large = json!("x".repeat(limits::BLACKBOARD_VALUE_BYTES - 2));
        for n in 0..=limits::BLACKBOARD_KEYS_SHOWN {
            board.set(&format!("k{n:02}"), &large).unwrap();
        }
        let read = call(&tools, "ann", "t_state_get", json!({"key": "k00", "revision": true})).await;
        assert_eq!(read, json!({"revision": 1, "value": large}).to_string());
        let told = call(&tools, "ann", "t_state_get", json!({"key": "é".repeat(500)})).await;
        assert!(told.starts_with("error: key not found: éé") && told.ends_with("k18, k19 and 1 more"), "{told}");
        assert!(told.chars().count() < 400, "{told}");
    }

    #[tokio::test(start_paused = true)]
    async fn blackboard_watch_tool_waits_for_a_write() {
        let board = Blackboard::new();
        let tools = blackboard_tools(&board, "team").unwrap();
        let watch = |arguments| call(&tools, "ann", "team_state_watch", arguments);
        let mut waiting = Box::pin(watch(json!({"key": "k"})));
        assert!(poll!(&mut waiting).is_pending());
        board.set("k", &1).unwrap();
        assert_eq!(waiting.await, r#"{"revision":1,"value":1}"#);
        let mut waiting = Box::pin(watch(json!({"key": "k", "after_revision": 1})));
        assert!(poll!(&mut waiting).is_pending());
        board.delete("k");
        assert_eq!(waiting.await, "error: key not found: k; there are no keys yet");

        let started = Instant::now();
        let told = watch(json!({"key": "k", "timeout_seconds": 7})).await;
        assert_eq!(told, "error: no new value under `k` within 7 seconds; do something else, or wait again");
        assert_eq!(started.elapsed().as_secs(), 7);
        let told = watch(json!({"key": "k"})).await;
        assert!(told.contains("within 300 seconds"), "{told}");
        assert_eq!(started.elapsed().as_secs(), 307);
        for seconds in [0, 301] {
            let told = watch(json!({"key": "k", "timeout_seconds": seconds})).await;
            assert_eq!(told, format!("error: `timeout_seconds` is {seconds}; use 1 to 300"));
        }
    }

    #[test]
    fn blackboard_namespace_prefixes_tool_names() {
        for ns in ["", "Team", "a-b", "é", &"x".repeat(limits::NAMESPACE_BYTES + 1)] {
            assert!(matches!(blackboard_tools(&Blackboard::new(), ns), Err(BlackboardError::Namespace { .. })), "{ns}");
        }
        for ns in ["a", "shared", "team_2", &"x".repeat(limits::NAMESPACE_BYTES)] {
            let names: Vec<_> = ["get", "set", "list", "watch"].map(|name| format!("{ns}_state_{name}")).into();
            let tools = blackboard_tools(&Blackboard::new(), ns).unwrap();
            assert_eq!(tools.names().collect::<Vec<_>>(), names);
        }
    }

    #[test]
    fn the_schema_names_the_bounds() {
        let tools = blackboard_tools(&Blackboard::new(), "team").unwrap();
        let schema = tools.iter().last().unwrap().spec().input_schema.get().to_owned();
        assert!(schema.contains(&format!("1 to {} seconds", limits::SHARED_WAIT.as_secs())), "{schema}");
    }
}
