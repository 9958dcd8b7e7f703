//! The index in which plugins are looked up by name.

use clap::Args;

use super::package_fetch::PackageFetcher;
use crate::{
    cli::render::name,
    config::{Config, nearest},
    error::{ErrorKind, Report},
    packages::{PackageIndex, PackageSource},
};

/// The option that names an index.
#[derive(Args)]
pub struct PackageIndexArgs {
    /// The URL or path of the index (default: `plugin_index` of your user-wide config).
    #[arg(long, value_name = "INDEX")]
    index: Option<String>,
}

/// A kind of package that an index names.
#[derive(Clone, Copy)]
pub enum IndexedKind {
    Plugin,
    AgentPackage,
}

impl PackageIndexArgs {
    /// Reads the index. Returns it with its name.
    pub(super) async fn read(
        &self,
        config: &Config,
        fetcher: &PackageFetcher,
    ) -> Result<(String, PackageIndex), Report> {
        let of = self.index.as_ref().or(config.plugin_index.as_ref()).ok_or_else(|| {
            Report::new(ErrorKind::Usage, "there is no index of plugins").hint(
                "name one with --index, or as `plugin_index` in your user-wide config; a folder in the current one is \
                 written ./NAME",
            )
        })?;
        Ok((of.clone(), fetcher.index(of).await?))
    }

    /// Looks up a package by its name.
    pub async fn find(
        &self,
        kind: IndexedKind,
        id: &str,
        config: &Config,
        fetcher: &PackageFetcher,
    ) -> Result<PackageSource, Report> {
        let (of, index) = self.read(config, fetcher).await?;
        let (found, what, known, mend) = match kind {
            IndexedKind::Plugin => {
                let known: Vec<_> = index.ids().collect();
                (index.find(id), "plugin", known, "search with `shelly-host plugin search WORD`")
            }
            IndexedKind::AgentPackage => {
                (index.find_agent(id), "agent package", index.agent_ids().collect(), "check the name")
            }
        };
        let not_there = || {
            let near = nearest(id, &known).map(|near| format!("did you mean `{}`? Otherwise ", near.escape_debug()));
            let message = format!("there is no {what} `{id}` in the index {}", of.escape_debug());
            Report::new(ErrorKind::Usage, message)
                .hint(format!("{}{mend}; a folder in the current one is written ./{id}", near.unwrap_or_default()))
        };
        found.ok_or_else(not_there)?.map_err(|error| error.report())
    }
}

/// Refuses what an index has under the name of something else: it would be installed, or replace what is installed, under a name
/// that nobody has asked for.
///
/// # Errors
///
/// A [`Report`] if `named` is a name of an index, and its source has a `what` of the id `found`.
pub fn check_indexed(what: &str, named: &str, found: &str, source: &PackageSource) -> Result<(), Report> {
    if !is_index_name(named) || named == found {
        return Ok(());
    }
    let source = name(&source.to_string());
    let message = format!("the index has {source} as the {what} `{named}`, but it is the {what} `{found}`");
    Err(Report::new(ErrorKind::Plugin, message)
        .hint(format!("nothing was installed; if you want `{found}`, install it from {source}")))
}

/// Returns `true` for the name of a plugin in an index: other sources have a `.`, a `/` or a `:`.
pub fn is_index_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
}
