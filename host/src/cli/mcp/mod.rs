//! `shelly-host mcp`: what goes over the Model Context Protocol.

mod servers;

use clap::Subcommand;

#[derive(Subcommand)]
pub enum Mcp {
    List(servers::List),
    Approve(servers::Approve),
}

impl Mcp {
    pub fn execute(self) -> u8 {
        match self {
            Self::List(list) => list.execute(),
            Self::Approve(approve) => approve.execute(),
        }
    }
}
