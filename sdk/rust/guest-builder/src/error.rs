//! The errors of a build of guests.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// The reason why guests could not be built. Its text names the place, the cause and a remedy, on several lines.
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// A folder looks like a guest but cannot be built as one.
    Guest {
        /// The guest's folder.
        folder: PathBuf,
        /// A description of the problem.
        cause: String,
        /// A remedy.
        hint: String,
    },
    /// No Rust toolchain on this machine can build for WebAssembly.
    Toolchain {
        /// The script that prepares the toolchain.
        script: PathBuf,
        /// The script's output, or the reason why it could not be run.
        cause: String,
    },
    /// cargo could not build the guests.
    Cargo {
        /// The last lines of cargo's output, or the reason why it could not be run.
        cause: String,
    },
    /// cargo succeeded, but a guest has no component.
    NoComponent {
        /// The guest's package.
        package: String,
        /// The expected path of the component.
        expected: PathBuf,
    },
    /// A file or folder could not be read or written.
    File {
        /// The operation that failed, such as `read`.
        action: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl BuildError {
    /// Returns a function for `map_err` that turns an I/O error on a file into a [`BuildError::File`].
    pub(crate) fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File { action, path: path.to_owned(), source }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guest { folder, cause, hint } => {
                write!(f, "{} is not a guest that can be built\n  cause: {cause}\n  hint:  {hint}", folder.display())
            }
            Self::Toolchain { script, cause } => {
                write!(f, "no Rust toolchain here can build guests\n  cause: {}:{}", script.display(), indented(cause))
            }
            Self::Cargo { cause } => write!(f, "cargo could not build the guests\n  cause:{}", indented(cause)),
            Self::NoComponent { package, expected } => write!(
                f,
                "cargo built guest `{package}` but made no component\n  cause: there is no {}\n  hint:  remove `name` \
                 under [lib] in its Cargo.toml, so that the component has the name of the package",
                expected.display()
            ),
            Self::File { action, path, source } => {
                write!(f, "cannot {action} {}\n  cause: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for BuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Indents the output of another program; output of several lines begins on a new line.
fn indented(text: &str) -> String {
    let text = text.trim_end();
    if text.contains('\n') { format!("\n    {}", text.replace('\n', "\n    ")) } else { format!(" {text}") }
}
