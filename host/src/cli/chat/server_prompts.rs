//! The prompts of MCP servers: lists of them, and the text of one.

use std::{
    collections::BTreeMap,
    fmt::Write,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::task::AbortOnDropHandle;

use super::{
    fetched_prompt::FetchedPrompt,
    prompt_arguments::{prompt_arguments, prompt_form, prompt_usage},
    slash_command::PromptCommand,
};
use crate::{
    app::App,
    cli::{
        mcp::listed_server,
        render::{DIM, PLAIN, name, one_line},
    },
    config::unknown,
    error::{ErrorKind, Report},
    limits,
    mcp::{McpClient, McpError, McpPromptListing},
};

/// The prompts of the servers that were connected in this chat.
#[derive(Default)]
pub struct ServerPrompts {
    servers: Mutex<BTreeMap<String, PromptServer>>,
}

/// A server that was connected in this chat.
#[derive(Default)]
struct PromptServer {
    /// The prompts that it listed last.
    listing: McpPromptListing,
    /// The connection, which stays open until the person leaves, unless only a run has made it.
    client: Option<Arc<McpClient>>,
}

impl ServerPrompts {
    /// Returns the commands `SERVER:PROMPT`, sorted by server.
    pub fn commands(&self) -> Vec<String> {
        let servers = self.servers();
        let of_server = |(server, known): (&String, &PromptServer)| {
            known.listing.prompts.iter().map(|prompt| format!("{server}:{}", prompt.name)).collect::<Vec<_>>()
        };
        servers.iter().flat_map(of_server).collect()
    }

    /// Connects to the servers of the config. Formats the approval of their tools, and their prompts.
    pub async fn servers_text(&self, app: &App) -> String {
        let mut text = String::new();
        for config in app.servers() {
            let (about, client) = listed_server(app, config).await;
            text.push_str(&about);
            let Some(client) = client else { continue };
            match self.list(client).await {
                Ok(listing) => text.push_str(&prompts_text(&config.name, &listing)),
                Err(error) => {
                    let _ = writeln!(text, "  {}", one_line(&error.to_string(), 1_000));
                }
            }
        }
        text
    }

    /// Gets the text of a prompt. Connects to its server first if need be, as to any server of the config.
    ///
    /// # Errors
    ///
    /// A [`Report`]: the server cannot be reached or has no such prompt, the arguments are wrong, or the text is refused.
    pub async fn fetch(&self, app: &App, command: &PromptCommand) -> Result<FetchedPrompt, Report> {
        let PromptCommand { server, prompt: wanted, arguments } = command;
        let client = app.server(server).await?.client;
        let listing = self.list(Arc::clone(&client)).await.map_err(|error| unusable(&error))?;
        let Some(prompt) = listing.find(wanted) else { return Err(no_such_prompt(server, wanted, &listing)) };
        let arguments = prompt_arguments(prompt, arguments).map_err(|why| {
            let message = format!("cannot use the prompt `{wanted}` of the MCP server `{server}`");
            Report::new(ErrorKind::Usage, message).cause(why).hint(prompt_usage(server, prompt))
        })?;
        let parts = client.prompt(wanted, arguments).await.map_err(|error| unusable(&error))?;
        Ok(FetchedPrompt::new(server, parts))
    }

    /// Lists the prompts of the servers that a run has connected to and whose prompts are not known, in the background;
    /// `None` if there are none.
    pub fn learn(self: &Arc<Self>, app: &App) -> Option<AbortOnDropHandle<()>> {
        let mut clients = BTreeMap::new();
        for client in app.connected_servers() {
            clients.insert(client.name().to_owned(), client);
        }
        clients.retain(|server, _| !self.servers().contains_key(server));
        if clients.is_empty() {
            return None;
        }
        let this = Arc::clone(self);
        Some(AbortOnDropHandle::new(tokio::spawn(async move {
            for (server, client) in clients {
                // Nobody has asked for the list: a failure is shown once somebody does.
                let listing = client.prompts().await.unwrap_or_default();
                this.servers().entry(server).or_default().listing = listing;
            }
        })))
    }

    /// Lists the prompts of a server, and keeps its connection open.
    async fn list(&self, client: Arc<McpClient>) -> Result<McpPromptListing, McpError> {
        let listed = client.prompts().await;
        let mut servers = self.servers();
        let known = servers.entry(client.name().to_owned()).or_default();
        known.listing = listed.clone().unwrap_or_default();
        known.client = Some(client);
        listed
    }

    fn servers(&self) -> MutexGuard<'_, BTreeMap<String, PromptServer>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Formats the prompts of a server, one line each.
fn prompts_text(server: &str, listing: &McpPromptListing) -> String {
    let McpPromptListing { prompts, refused } = listing;
    let mut text = String::new();
    for prompt in prompts.iter().take(limits::CHAT_LIST_ROWS) {
        let form = name(&prompt_form(server, prompt));
        let _ = writeln!(text, "  {form}  {DIM}{}{PLAIN}", one_line(&prompt.description, 200));
    }
    for refused in refused.iter().take(limits::CHAT_LIST_ROWS) {
        let _ =
            writeln!(text, "  unusable prompt {}  {DIM}{}{PLAIN}", name(&refused.name), one_line(&refused.why, 300));
    }
    let more = [prompts.len(), refused.len()].map(|count| count.saturating_sub(limits::CHAT_LIST_ROWS));
    if more != [0, 0] {
        let _ = writeln!(text, "  and {} more prompts", more.iter().sum::<usize>());
    }
    text
}

fn unusable(error: &McpError) -> Report {
    Report::new(ErrorKind::Run, error.to_string()).hint("try again, or see with /mcp what the server offers")
}

fn no_such_prompt(server: &str, wanted: &str, listing: &McpPromptListing) -> Report {
    let report = unknown("prompt", wanted, listing.prompts.iter().map(|prompt| &*prompt.name));
    match listing.refused.iter().find(|refused| refused.name == wanted) {
        Some(refused) => report.cause(format!("the MCP server `{server}` offers an unusable one: {}", refused.why)),
        None if listing.prompts.is_empty() => report
            .cause(format!("the MCP server `{server}` offers no prompts"))
            .hint("/mcp lists the prompts of all servers"),
        None => report.cause(format!("the MCP server `{server}` does not offer it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mcp::{RefusedItem, ServerPrompt};

    fn prompt(name: &str, description: &str) -> ServerPrompt {
        ServerPrompt { name: name.into(), description: description.into(), arguments: vec![] }
    }

    #[test]
    fn prompts_of_a_server_are_listed_safely() {
        let refused = RefusedItem { name: "\u{1b}[2Jclear".into(), why: "the name has control characters".into() };
        let listing =
            McpPromptListing { prompts: vec![prompt("review", "Reviews.\nWith care.")], refused: vec![refused] };
        let text = prompts_text("t", &listing);
        assert_eq!(
            text,
            format!(
                "  /t:review  {DIM}Reviews. With care.{PLAIN}\n  unusable prompt \\u{{1b}}[2Jclear  {DIM}the name has \
                 control characters{PLAIN}\n"
            )
        );
        let many = (0..limits::CHAT_LIST_ROWS + 2).map(|at| prompt(&format!("p{at}"), "")).collect();
        let text = prompts_text("t", &McpPromptListing { prompts: many, refused: vec![] });
        assert_eq!(text.lines().count(), limits::CHAT_LIST_ROWS + 1);
        assert!(text.ends_with("  and 2 more prompts\n"), "{text}");
        assert_eq!(prompts_text("t", &McpPromptListing::default()), "");
    }

    #[test]
    fn unknown_prompt_is_explained() {
        let refused = RefusedItem { name: "odd".into(), why: "the name is odd".into() };
        let listing = McpPromptListing { prompts: vec![prompt("review", "")], refused: vec![refused] };
        for (wanted, listing, why, hint) in [
            ("reviw", &listing, "the MCP server `t` does not offer it", "did you mean `review`?"),
            ("odd", &listing, "the MCP server `t` offers an unusable one: the name is odd", "available: review"),
            ("x", &McpPromptListing::default(), "the MCP server `t` offers no prompts", "/mcp lists"),
        ] {
            let report = no_such_prompt("t", wanted, listing);
            assert!(report.message.contains(&format!("there is no prompt `{wanted}`")), "{report}");
            assert_eq!(report.causes, [why]);
            assert!(report.hint.as_ref().unwrap().starts_with(hint), "{:?}", report.hint);
        }
    }
}
