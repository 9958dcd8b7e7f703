//! The engines that run plugins in JavaScript and TypeScript.

use std::{fmt, str::FromStr};

use crate::project_kind::ProjectKind;

/// An engine that is built into a component together with the JavaScript of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JavaScriptEngine {
    /// SpiderMonkey, by componentize-js: all of JavaScript, in 12 MB.
    #[default]
    SpiderMonkey,
    /// QuickJS, by componentize-qjs: a tenth of the size, without a console, a clock and integers beyond 2^53.
    QuickJs,
}

impl JavaScriptEngine {
    /// All engines.
    pub const ALL: [Self; 2] = [Self::SpiderMonkey, Self::QuickJs];

    /// Returns the name on the command line and in `plugin.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SpiderMonkey => "spidermonkey",
            Self::QuickJs => "quickjs",
        }
    }

    /// Returns the program that makes components with the engine.
    pub(crate) const fn componentizer(self) -> &'static str {
        match self {
            Self::SpiderMonkey => "componentize-js",
            Self::QuickJs => "componentize-qjs",
        }
    }

    /// Returns the package of npm that has the program.
    pub(crate) const fn package(self) -> &'static str {
        match self {
            Self::SpiderMonkey => "@bytecodealliance/componentize-js",
            Self::QuickJs => "componentize-qjs",
        }
    }

    /// Returns the kinds of projects that there are for the engine. The other kinds of the contract pass counts of tokens and
    /// times as integers that QuickJS does not have.
    pub fn kinds(self) -> Vec<ProjectKind> {
        match self {
            Self::SpiderMonkey => ProjectKind::ALL.to_vec(),
            Self::QuickJs => vec![ProjectKind::Tool, ProjectKind::Plain],
        }
    }
}

impl fmt::Display for JavaScriptEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpiderMonkey => "SpiderMonkey",
            Self::QuickJs => "QuickJS",
        })
    }
}

impl FromStr for JavaScriptEngine {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|engine| engine.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("unknown engine `{}`; use one of {names}", name.escape_debug())
        })
    }
}
