//! Whatever has to do with the Model Context Protocol.

mod login;
mod serve;
mod servers;

use clap::{Args, Subcommand};

/// Serve tools and agents to an MCP client; see to the MCP servers of agents.
///
/// The client is a program such as Claude Desktop, VS Code or the MCP inspector, which starts this one and speaks to it over
/// standard input and output, or comes over HTTP. It gets the tools of one agent, with what that agent grants its plugins;
/// each agent of the config that has a model as a tool `agent_NAME`; skills as prompts; and the attachments of your own
/// sessions as resources. No model is needed for the tools.
///
/// Plugins that are added, changed or removed, and skills too, are noticed while it runs. A changed config is not: start it
/// again.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  shelly-host mcp --config /home/me/project/shelly.yaml
  shelly-host mcp --plugins plugins --approve granted
  shelly-host mcp --http 127.0.0.1:8321
  shelly-host mcp --http 0.0.0.0:8321 --token-env MCP_TOKEN --allow-host tools.example.com

Nothing but the protocol goes to standard output, what happens to standard error. It ends when its
client closes standard input, or with a signal."
)]
pub struct Mcp {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::Serve,
}

/// What is done about the servers that agents use.
#[derive(Subcommand)]
enum Command {
    List(servers::List),
    Approve(servers::Approve),
    Login(login::Login),
    Logout(login::Logout),
}

impl Mcp {
    pub fn execute(self) -> u8 {
        match self.command {
            None => self.serve.execute(),
            Some(Command::List(list)) => list.execute(),
            Some(Command::Approve(approve)) => approve.execute(),
            Some(Command::Login(login)) => login.execute(),
            Some(Command::Logout(logout)) => logout.execute(),
        }
    }
}
