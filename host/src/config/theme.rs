//! The key `theme` of a person's own config: the colours at a terminal.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The colours of what is shown at a terminal.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ThemeChoice {
    /// Those for the background that the terminal reports.
    #[default]
    Auto,
    /// Those for a dark background.
    Dark,
    /// Those for a light background.
    Light,
    /// No colours and no other styles.
    None,
}

impl ThemeChoice {
    /// All choices, in the order in which people are shown them.
    pub const ALL: [Self; 4] = [Self::Auto, Self::Dark, Self::Light, Self::None];

    /// Returns its name, as in the config.
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Dark => "dark",
            Self::Light => "light",
            Self::None => "none",
        }
    }

    /// Returns the choice of this name; without one if there is no such choice.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, UserConfig};

    fn merged(project: &str, of_user: &str) -> Result<Config, String> {
        let shown = |reports: Vec<crate::error::Report>| {
            let shown = |report: crate::error::Report| report.in_file("shelly.yaml").with_hint();
            reports.into_iter().map(shown).collect()
        };
        let user = UserConfig::parse(Path::new("/home/me/config.yaml"), of_user);
        let user = user.map_err(|errors| shown(errors.reports))?;
        Config::parse_with_user(project, "/project".into(), Some(user)).map_err(|errors| shown(errors.reports))
    }

    #[test]
    fn theme_is_that_of_the_user_and_never_of_a_project() {
        assert_eq!(merged("", "").unwrap().theme, None);
        for choice in ThemeChoice::ALL {
            let config = merged("agents: [{name: a}]", &format!("theme: {}", choice.name())).unwrap();
            assert_eq!((config.theme, ThemeChoice::from_name(choice.name())), (Some(choice), Some(choice)));
            assert!(config.facts().is_empty(), "nobody is asked about it");
        }
        for of_user in ["", "theme: dark"] {
            let report = merged("agents: [{name: a}]\ntheme: light", of_user).unwrap_err();
            assert!(report.contains("line 2") && report.contains("`theme` is a setting of a person"), "{report}");
            assert!(report.contains("move it to your user-wide config"), "{report}");
        }
        let report = Config::parse("theme: light", "/project".into()).unwrap_err();
        assert!(report.to_string().contains("is a setting of a person"), "{report}");
        let report = merged("", "theme: drak").unwrap_err();
        assert!(report.contains("`theme` cannot be `drak`") && report.contains("did you mean `dark`?"), "{report}");
    }
}
