//! The languages in which plugins are written.

use std::{fmt, str::FromStr};

/// A language in which a plugin is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginLanguage {
    /// Rust, with the crate `shelly-plugin`.
    Rust,
    /// Python, by componentize-py.
    Python,
    /// TypeScript, bundled by esbuild.
    TypeScript,
    /// JavaScript, by componentize-js.
    JavaScript,
    /// Go, by its own compiler.
    Go,
    /// C, by Zig, wasi-sdk or clang.
    C,
}

impl PluginLanguage {
    /// All languages.
    pub const ALL: [Self; 6] = [Self::Rust, Self::Python, Self::TypeScript, Self::JavaScript, Self::Go, Self::C];

    /// Returns the name on the command line and in `plugin.toml`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rust => "rust",
            Self::Python => "python",
            Self::TypeScript => "typescript",
            Self::JavaScript => "javascript",
            Self::Go => "go",
            Self::C => "c",
        }
    }

    /// Returns the name in a sentence.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Rust => "Rust",
            Self::Python => "Python",
            Self::TypeScript => "TypeScript",
            Self::JavaScript => "JavaScript",
            Self::Go => "Go",
            Self::C => "C",
        }
    }

    /// Returns the file whose presence in a folder tells the language, for a sentence.
    pub const fn mark(self) -> &'static str {
        match self {
            Self::Rust => "Cargo.toml",
            Self::Python => "pyproject.toml or app.py",
            Self::TypeScript => "package.json with tsconfig.json",
            Self::JavaScript => "package.json",
            Self::Go => "go.mod",
            Self::C => "a file that ends in .c",
        }
    }

    /// Returns `true` if the language's runtime imports WASI whatever the program does.
    pub const fn imports_wasi(self) -> bool {
        !matches!(self, Self::Rust)
    }

    /// Returns `true` if an engine for JavaScript runs plugins in the language.
    pub const fn has_engine(self) -> bool {
        matches!(self, Self::JavaScript | Self::TypeScript)
    }

    /// Returns the place where an author names an import or export of the plugin, for a message.
    pub const fn world_place(self) -> &'static str {
        match self {
            Self::Rust => "src/lib.rs",
            _ => "wit/",
        }
    }
}

impl fmt::Display for PluginLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title())
    }
}

impl FromStr for PluginLanguage {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|language| language.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|language| language.name()).collect();
            format!("unknown language `{}`; use one of {}", name.escape_debug(), names.join(", "))
        })
    }
}
