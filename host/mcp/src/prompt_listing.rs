//! The prompts of a server: texts that a person has it write, by name and with arguments.

use std::sync::Arc;

use rmcp::model::{ClientRequest, ListPromptsRequest, PaginatedRequestParams, Prompt, PromptArgument, ServerResult};

use super::{
    McpClient, McpError,
    client::McpClientInner,
    listing::declares_prompts,
    paging::{ListedItem, ReadItems, RefusedItem, check_items, list_pages},
};
use shelly_core::{error::cut, limits, tool::check_seen};

/// The prompts of a server at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct McpPromptListing {
    /// The prompts that a person can use, in the server's order.
    pub prompts: Vec<ServerPrompt>,
    /// The prompts that a person cannot use.
    pub refused: Vec<RefusedItem>,
}

/// A prompt of a server. Its name can be typed as one word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPrompt {
    /// The server's own name of the prompt.
    pub name: String,
    /// The prompt's description, or else its title; may be empty.
    pub description: String,
    /// The arguments that it takes, in the server's order.
    pub arguments: Vec<ServerPromptArgument>,
}

/// An argument of a prompt. Its name can be typed as one word, and has no `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerPromptArgument {
    /// The name of the argument.
    pub name: String,
    /// The argument's description, or else its title; may be empty.
    pub description: String,
    /// `true` if the server wants a value for it.
    pub is_required: bool,
}

impl McpClient {
    /// Lists the server's prompts. A server that does not declare prompts has none, and is not asked.
    ///
    /// # Errors
    ///
    /// [`McpError::Prompts`] if there is no connection, or no valid list.
    pub async fn prompts(&self) -> Result<McpPromptListing, McpError> {
        let shared = &self.shared;
        let listed = shared.list_prompts().await;
        listed.map_err(|why| McpError::Prompts { server: Arc::clone(&shared.config.name), why })
    }
}

impl McpClientInner {
    async fn list_prompts(&self) -> Result<McpPromptListing, String> {
        let session = self.session_in_time().await?;
        if !declares_prompts(&session.peer) {
            return Ok(McpPromptListing::default());
        }
        let listed = tokio::select! {
            biased;
            ended = session.traffic.patience.until_lost() => return Err(ended.to_string()),
            listed = list_pages(&session.peer) => listed?,
        };
        Ok(McpPromptListing::check(listed))
    }
}

impl McpPromptListing {
    /// Returns the prompt with this name.
    pub fn find(&self, name: &str) -> Option<&ServerPrompt> {
        self.prompts.iter().find(|prompt| prompt.name == name)
    }

    fn check(prompts: ReadItems<Prompt>) -> Self {
        let (prompts, refused) = check_items(prompts, limits::MCP_PROMPT_NAME_BYTES, check_prompt);
        Self { prompts, refused }
    }
}

impl ListedItem for Prompt {
    const PLURAL: &'static str = "prompts";
    const MOST: usize = limits::MCP_PROMPTS;
    const MOST_BYTES: usize = limits::MCP_PROMPTS_BYTES;

    fn page_request(params: PaginatedRequestParams) -> ClientRequest {
        ClientRequest::ListPromptsRequest(ListPromptsRequest::with_param(params))
    }

    fn page_of(result: ServerResult) -> Option<(Vec<Self>, Option<String>)> {
        let ServerResult::ListPromptsResult(page) = result else { return None };
        Some((page.prompts, page.next_cursor))
    }

    fn name(&self) -> &str {
        &self.name
    }
}

fn check_prompt(prompt: &Prompt) -> Result<ServerPrompt, String> {
    check_word("the name", &prompt.name)?;
    let description = describing("the description", prompt.description.as_deref().or(prompt.title.as_deref()))?;
    let listed = prompt.arguments.as_deref().unwrap_or_default();
    if listed.len() > limits::MCP_PROMPT_ARGUMENTS {
        return Err(format!("{} arguments, the maximum is {}", listed.len(), limits::MCP_PROMPT_ARGUMENTS));
    }
    let mut arguments = Vec::<ServerPromptArgument>::new();
    for argument in listed {
        let argument = check_argument(argument)?;
        if arguments.iter().any(|there| there.name == argument.name) {
            return Err(format!("several arguments have the name `{}`", argument.name));
        }
        arguments.push(argument);
    }
    Ok(ServerPrompt { name: prompt.name.clone(), description, arguments })
}

fn check_argument(argument: &PromptArgument) -> Result<ServerPromptArgument, String> {
    let shown = cut(&argument.name, limits::NAME_SHOWN_CHARS);
    let what = format!("the name of the argument `{}`", shown.escape_debug());
    if argument.name.len() > limits::MCP_PROMPT_NAME_BYTES {
        return Err(format!("{what} has more than {} bytes", limits::MCP_PROMPT_NAME_BYTES));
    }
    check_word(&what, &argument.name)?;
    if argument.name.contains('=') {
        return Err(format!("{what} has a `=`, before which its value could not be told from it"));
    }
    let what = format!("the description of the argument `{}`", argument.name);
    let description = describing(&what, argument.description.as_deref().or(argument.title.as_deref()))?;
    Ok(ServerPromptArgument { name: argument.name.clone(), description, is_required: argument.required == Some(true) })
}

/// Checks that a name is one word, as a part of a command, and that a person sees all of it.
fn check_word(what: &str, name: &str) -> Result<(), String> {
    if name.is_empty() || name.contains(char::is_whitespace) {
        return Err(format!("{what} is empty or has blanks, so that it cannot be typed as a part of a command"));
    }
    check_seen(name).map_err(|why| format!("{what} {why}"))
}

/// Returns a text that describes something, if a person sees all of it.
fn describing(what: &str, text: Option<&str>) -> Result<String, String> {
    let (text, most) = (text.unwrap_or_default(), limits::MCP_PROMPT_DESCRIPTION_BYTES);
    if text.len() > most {
        return Err(format!("{what} has {} bytes, the maximum is {most}", text.len()));
    }
    check_seen(text).map_err(|why| format!("{what} {why}"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::paging::read_page;

    fn listing(prompts: Value) -> McpPromptListing {
        let (prompts, _) = read_page::<Prompt>(json!({ "prompts": prompts })).unwrap();
        McpPromptListing::check(prompts)
    }

    #[test]
    fn prompt_is_listed_with_its_arguments() {
        let listing = listing(json!([
            {"name": "repo/review", "title": "Review", "description": "Reviews.\nWith care.", "arguments": [
                {"name": "path", "description": "The file.", "required": true},
                {"name": "depth", "title": "Depth"},
            ]},
            {"name": "hello", "title": "Says hello", "icons": [], "_meta": {"k": 1}},
        ]));
        let argument = |name: &str, description: &str, is_required| ServerPromptArgument {
            name: name.into(),
            description: description.into(),
            is_required,
        };
        let review = listing.find("repo/review").unwrap();
        assert_eq!(review.description, "Reviews.\nWith care.");
        assert_eq!(review.arguments, [argument("path", "The file.", true), argument("depth", "Depth", false)]);
        let hello = ServerPrompt { name: "hello".into(), description: "Says hello".into(), arguments: vec![] };
        assert_eq!(listing.prompts[1], hello);
        assert_eq!(listing.refused, []);
    }

    #[test]
    fn hostile_prompt_is_refused_without_affecting_others() {
        let long = "x".repeat(limits::MCP_PROMPT_NAME_BYTES + 1);
        let arguments = |names: &[&str]| names.iter().map(|name| json!({"name": name})).collect::<Vec<_>>();
        let many: Vec<_> = (0..=limits::MCP_PROMPT_ARGUMENTS).map(|at| json!({"name": format!("a{at}")})).collect();
        let of = |name: &str, arguments: Vec<Value>| json!({"name": name, "arguments": arguments});
        let much = "x".repeat(limits::MCP_PROMPT_DESCRIPTION_BYTES + 1);
        for (prompt, why) in [
            (json!({"name": ""}), "the name is empty or has blanks"),
            (json!({"name": "code review"}), "the name is empty or has blanks"),
            (json!({"name": "code\u{a0}review"}), "the name is empty or has blanks"),
            (json!({"name": "\u{1b}[2Jclear"}), "the name has control characters"),
            (json!({"name": "\u{202e}txt"}), "the name has control characters"),
            (json!({"name": "zero\u{200b}width"}), "the name has the invisible character U+200B"),
            (json!({"name": long}), "the name has more than 128 bytes"),
            (json!({"name": 7}), "invalid definition: invalid type"),
            (json!({"description": "nameless"}), "invalid definition: missing field `name`"),
            (
                json!({"name": "a", "description": "\u{1b}]52;c;aGk=\u{7}"}),
                "the description has the invisible character U+001B",
            ),
            (json!({"name": "a", "description": much}), "the description has 8193 bytes, the maximum is 8192"),
            (json!({"name": "a", "arguments": "none"}), "invalid definition: invalid type"),
            (of("a", many), "33 arguments, the maximum is 32"),
            (of("a", arguments(&["b", "b"])), "several arguments have the name `b`"),
            (of("a", arguments(&["b=c"])), "the name of the argument `b=c` has a `=`"),
            (of("a", arguments(&["b c"])), "the name of the argument `b c` is empty or has blanks"),
            (of("a", arguments(&["\u{7}"])), "the name of the argument `\\u{7}` has the invisible character U+0007"),
            (of("a", arguments(&[&long])), "the name of the argument `xxx"),
            (
                json!({"name": "a", "arguments": [{"name": "b", "description": "\u{200b}"}]}),
                "the description of the argument `b` has the invisible character U+200B",
            ),
        ] {
            let listing = listing(json!([{"name": "fine"}, prompt]));
            assert_eq!(listing.prompts.len(), 1, "{prompt}");
            let refused = &listing.refused[0].why;
            assert!(refused.starts_with(why), "{prompt}: {refused}");
        }
        let twice = listing(json!([{"name": "a"}, {"name": "b"}, {"name": "a"}]));
        let refused: Vec<_> = twice.refused.iter().map(|refused| (&*refused.name, &*refused.why)).collect();
        assert_eq!(refused, [("a", "several prompts have this name"); 2]);
        assert_eq!(twice.prompts.len(), 1);
    }
}
