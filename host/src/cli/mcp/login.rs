use clap::Args;
use url::Url;

use super::servers::McpConfigArgs;
use crate::{
    app::{mcp_login, mcp_logout, mcp_server_at},
    cli::{
        command_runtime::runtime,
        render::{self, RunOutputFormat, escaped, print, tell},
        trust,
    },
    config::check_url,
    error::{ErrorKind, Report},
    mcp::ServerConfig,
};

/// Log in to an MCP server in a browser.
///
/// Prints the URL of the login; open it in a browser on this machine. The tokens are stored in your user data, where no
/// project can reach them, and are refreshed for as long as the server allows it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host mcp login tracker
  shelly-host mcp login https://mcp.example.com/mcp
  shelly-host mcp logout tracker")]
pub struct McpLoginArgs {
    /// The server: its name in the config, or its URL.
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    from: McpConfigArgs,
    /// The local port to which the browser is redirected, for servers that require a fixed one; 0: any free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Delete the stored login of an MCP server.
///
/// The tokens are deleted on this machine only; the server is not notified, and they expire there by themselves.
#[derive(Args)]
pub struct McpLogoutArgs {
    /// The server: its name in the config, or its URL.
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    from: McpConfigArgs,
}

impl McpLoginArgs {
    pub fn execute(self) -> u8 {
        let done = self.log_in();
        done.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    fn log_in(self) -> Result<(), Report> {
        runtime()?.block_on(async {
            let config = server(&self.server, &self.from).await?;
            let name = escaped(&config.name);
            let show = move |url: &Url| tell(&format!("open this URL to log in to {name}:\n{url}\n"));
            mcp_login(config, self.port, show).await
        })?;
        print("logged in")
    }
}

impl McpLogoutArgs {
    pub fn execute(self) -> u8 {
        let done = self.log_out();
        done.map_or_else(|report| render::failed(&report, RunOutputFormat::Text), |()| 0)
    }

    fn log_out(self) -> Result<(), Report> {
        let was_there = runtime()?.block_on(async { mcp_logout(&server(&self.server, &self.from).await?).await })?;
        print(if was_there { "logged out" } else { "not logged in" })
    }
}

/// Returns the server of this name in the config, or one that is known only by its URL.
async fn server(named: &str, from: &McpConfigArgs) -> Result<ServerConfig, Report> {
    let nowhere = || {
        Report::new(ErrorKind::Usage, "no folder to store logins in")
            .hint("set XDG_STATE_HOME or HOME to an absolute path")
    };
    let logins = trust::logins().ok_or_else(nowhere)?;
    if let Ok(url) = check_url(named) {
        return mcp_server_at(url, logins);
    }
    let app = from.app()?;
    from.admit(&app).await?;
    app.server_to_log_in(named)
}
