//! The subcommand `mcp`: serving MCP clients, and managing the MCP servers that agents use.

mod login;
mod serve;
mod servers;

use clap::{Args, Subcommand};

pub use servers::{McpConfigArgs, ask_for_approval, listed_server, state_word};

/// Serve tools and agents to an MCP client, or manage the MCP servers of agents.
///
/// The client is a program such as Claude Desktop, VS Code or the MCP inspector. It starts shelly-host and speaks to it over
/// standard input and output, or connects over HTTP. It is offered the tools of one agent, with the grants of that agent's
/// plugins; each agent of the config that has a model, as a tool `agent_NAME`; skills as prompts; and the attachments of
/// your own sessions as resources. The tools need no model.
///
/// Plugins and skills that are added, changed or removed are picked up while the server runs. After a change of the config,
/// restart the server.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  shelly-host mcp --config /home/me/project/shelly.yaml
  shelly-host mcp --plugins plugins --approve granted
  shelly-host mcp --http 127.0.0.1:8321
  shelly-host mcp --http 0.0.0.0:8321 --token-env MCP_TOKEN --allow-host tools.example.com

Standard output carries only the protocol; progress goes to standard error. The server ends when its
client closes standard input, or on a signal."
)]
pub struct McpArgs {
    #[command(subcommand)]
    command: Option<McpCommand>,
    #[command(flatten)]
    serve: serve::McpServeArgs,
}

/// Commands for the MCP servers that agents use.
#[derive(Subcommand)]
enum McpCommand {
    List(servers::McpListArgs),
    Approve(servers::McpApproveArgs),
    Login(login::McpLoginArgs),
    Logout(login::McpLogoutArgs),
}

impl McpArgs {
    pub fn execute(self) -> u8 {
        match self.command {
            None => self.serve.execute(),
            Some(McpCommand::List(list)) => list.execute(),
            Some(McpCommand::Approve(approve)) => approve.execute(),
            Some(McpCommand::Login(login)) => login.execute(),
            Some(McpCommand::Logout(logout)) => logout.execute(),
        }
    }
}
