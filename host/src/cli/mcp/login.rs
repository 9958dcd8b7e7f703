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

/// Log in at an MCP server, in a browser.
///
/// The address of the login is printed: open it in a browser on this machine. What the server gives is kept in your own data,
/// where no project reaches, and renewed as long as the server does that.
#[derive(Args)]
#[command(after_help = "\
Examples:
  shelly-host mcp login tracker
  shelly-host mcp login https://mcp.example.com/mcp
  shelly-host mcp logout tracker")]
pub struct McpLoginArgs {
    /// The server, by its name in the config, or its URL.
    #[arg(value_name = "SERVER")]
    server: String,
    #[command(flatten)]
    from: McpConfigArgs,
    /// The port of this machine that the browser comes back to, for servers that want to know it before; 0: whichever is free.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Forget the login at an MCP server.
///
/// The server is not told: what it gave is of use to nobody else, and ends by itself.
#[derive(Args)]
pub struct McpLogoutArgs {
    /// The server, by its name in the config, or its URL.
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
            let show = move |url: &Url| tell(&format!("open this address to log in to {name}:\n{url}\n"));
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
        print(if was_there { "logged out" } else { "nobody was logged in" })
    }
}

/// Returns the server of this name in the config, or one that is known only by its URL.
async fn server(named: &str, from: &McpConfigArgs) -> Result<ServerConfig, Report> {
    let nowhere =
        || Report::new(ErrorKind::Usage, "there is no place to keep a login").hint("set XDG_STATE_HOME, or HOME");
    let logins = trust::logins().ok_or_else(nowhere)?;
    if let Ok(url) = check_url(named) {
        return mcp_server_at(url, logins);
    }
    let app = from.app()?;
    from.admit(&app).await?;
    app.server_to_log_in(named)
}
