use clap::Args;
use url::Url;

use crate::{
    app::{mcp_login, mcp_logout, mcp_server_at},
    cli::{
        render::{self, Output, escaped, print, tell},
        runtime, trust,
    },
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
  shelly-host mcp login https://mcp.example.com/mcp
  shelly-host mcp logout https://mcp.example.com/mcp")]
pub struct Login {
    /// Where the server is.
    #[arg(value_name = "URL")]
    server: Url,
    /// The port of this machine that the browser comes back to, for servers that want to know it before; 0: whichever is free.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

/// Forget the login at an MCP server.
///
/// The server is not told: what it gave is of use to nobody else, and ends by itself.
#[derive(Args)]
pub struct Logout {
    /// Where the server is.
    #[arg(value_name = "URL")]
    server: Url,
}

impl Login {
    pub fn execute(self) -> u8 {
        let done = self.log_in();
        done.map_or_else(|report| render::failed(&report, Output::Text), |()| 0)
    }

    fn log_in(self) -> Result<(), Report> {
        let config = server(self.server)?;
        let name = escaped(&config.name);
        let show = move |url: &Url| tell(&format!("open this address to log in to {name}:\n{url}\n"));
        runtime()?.block_on(mcp_login(config, self.port, show))?;
        print("logged in")
    }
}

impl Logout {
    pub fn execute(self) -> u8 {
        let done = self.log_out();
        done.map_or_else(|report| render::failed(&report, Output::Text), |()| 0)
    }

    fn log_out(self) -> Result<(), Report> {
        let was_there = runtime()?.block_on(mcp_logout(&server(self.server)?))?;
        print(if was_there { "logged out" } else { "nobody was logged in" })
    }
}

/// A server that nothing is known of but where it is.
fn server(url: Url) -> Result<ServerConfig, Report> {
    let nowhere =
        || Report::new(ErrorKind::Usage, "there is no place to keep a login").hint("set XDG_STATE_HOME, or HOME");
    mcp_server_at(url, trust::logins().ok_or_else(nowhere)?)
}
