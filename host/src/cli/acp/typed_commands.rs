use std::{path::Path, sync::Arc};

use async_trait::async_trait;

use crate::{
    acp::{CommandSource, EditorCommand},
    app::App,
    cli::chat::{FetchedPrompt, ProjectCommands, PromptCommand, ServerPrompts},
    error::Report,
    task::TaskInput,
};

/// The commands of one conversation: the files of the project, and the prompts of MCP servers.
pub struct TypedCommands {
    project: ProjectCommands,
    prompts: Arc<ServerPrompts>,
}

impl TypedCommands {
    /// Returns the commands of the project in the folder `root`, which the person trusts.
    pub fn of_project(root: &Path) -> Self {
        Self { project: ProjectCommands::of_project(root), prompts: Arc::default() }
    }
}

#[async_trait]
impl CommandSource for TypedCommands {
    fn commands(&self) -> Vec<EditorCommand> {
        let of_project = self.project.names().iter().map(|name| EditorCommand {
            name: name.clone(),
            description: format!("the message in .shelly/commands/{name}.md"),
            hint: "words for the message".into(),
        });
        let of_servers = self.prompts.commands().into_iter().map(|name| {
            let server = name.split(':').next().unwrap_or_default();
            let description = format!("a prompt of the MCP server {server}");
            EditorCommand { description, hint: "NAME=VALUE for each argument".into(), name }
        });
        of_project.chain(of_servers).collect()
    }

    async fn learn(&self, app: &App) {
        if let Some(learning) = self.prompts.learn(app) {
            let _ = learning.await;
        }
    }

    async fn task(&self, app: &App, name: &str, arguments: &str) -> Option<Result<TaskInput, Report>> {
        if self.project.names().iter().any(|known| known == name) {
            let message = self.project.message(name, arguments);
            return Some(message.map(|text| TaskInput { text, attachments: Vec::new(), schema: None }));
        }
        let (server, prompt) = name.split_once(':')?;
        if !app.servers().iter().any(|known| known.name == server) {
            return None;
        }
        let (server, prompt, arguments) = (server.to_owned(), prompt.to_owned(), arguments.to_owned());
        let fetched = self.prompts.fetch(app, &PromptCommand { server, prompt, arguments }).await;
        Some(fetched.map(|FetchedPrompt { text, attachments }| TaskInput { text, attachments, schema: None }))
    }
}
