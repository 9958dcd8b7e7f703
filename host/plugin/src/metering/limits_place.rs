/// The place where a person raises the limits of a plugin, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LimitsPlace {
    /// A place of the config, with the words before it: `under agents.a.plugins.x in the config`.
    Config(String),
    /// This option of the command line.
    Option(&'static str),
}

impl LimitsPlace {
    /// Returns the words that say how a limit is raised: `limits: {time: …}` and the place of the config, or the option.
    pub fn raised_by(&self, limit: &str) -> String {
        match self {
            Self::Config(place) => format!("`limits: {{{limit}: …}}` {place}"),
            Self::Option(option) => format!("`{option} 'limits: {{{limit}: …}}'`"),
        }
    }
}
