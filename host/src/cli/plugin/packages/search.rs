//! `shelly-host plugin search`.

use clap::Args;

use super::{index_args::PackageIndexArgs, package_fetch::PackageFetcher};
use crate::{
    cli::{
        command_runtime::runtime,
        config_path::read_config_silently,
        render::{CliOutputFormat, json_line, name, print},
    },
    error::Report,
    limits,
    packages::IndexedPackage,
};

/// Search an index of plugins: a JSON file that anyone can host.
#[derive(Args)]
pub struct PluginSearchArgs {
    /// Words that the name or the description must have; without words all plugins are listed.
    #[arg(value_name = "WORD")]
    words: Vec<String>,
    #[command(flatten)]
    index: PackageIndexArgs,
    /// The output format.
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t = CliOutputFormat::Text)]
    pub output: CliOutputFormat,
}

impl PluginSearchArgs {
    /// Prints the plugins that were found.
    pub fn search(&self) -> Result<u8, Report> {
        let config = read_config_silently(None)?;
        let fetcher = PackageFetcher::new()?;
        let (_, index) = runtime()?.block_on(self.index.read(&config, &fetcher))?;
        let found: Vec<_> = index.search(&self.words).take(limits::PACKAGE_SEARCH_RESULTS + 1).collect();
        let (shown, is_cut) = match found.get(..limits::PACKAGE_SEARCH_RESULTS) {
            Some(shown) if found.len() > shown.len() => (shown, true),
            _ => (found.as_slice(), false),
        };
        match self.output {
            CliOutputFormat::Json => print(&json_line(&shown))?,
            CliOutputFormat::Text if shown.is_empty() => print("no plugin has all of these words")?,
            CliOutputFormat::Text => {
                let row = |plugin: &&IndexedPackage| {
                    format!("{}  {}  {}", name(&plugin.id), name(&plugin.source), name(&plugin.description))
                };
                let mut lines: Vec<_> = shown.iter().map(row).map(|row| row.trim_end().to_owned()).collect();
                lines.extend(is_cut.then(|| "there are more; give more words".to_owned()));
                print(&lines.join("\n"))?;
            }
        }
        Ok(0)
    }
}
