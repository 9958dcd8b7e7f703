//! The script that makes the wasm target usable, and the variables that it sets for cargo.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::error::BuildError;
use crate::process;

/// The path of the script, relative to the workspace.
pub(crate) const SCRIPT: &str = "sdk/rust/wasm-toolchain.sh";
const FOLDER: &str = "target/wasm-toolchain";

/// The number of lines of the script's output in an error: its last message and the log before it.
const LINES: usize = 20;

/// Prepares the toolchain and returns the variables that cargo needs for the wasm target.
pub(crate) fn prepare(root: &Path) -> Result<Vec<(String, OsString)>, BuildError> {
    let script = root.join(SCRIPT);
    let mut command = Command::new("bash");
    command.arg(&script).arg(root.join(FOLDER)).current_dir(root);
    process::run(&mut command, LINES).map_err(|cause| BuildError::Toolchain { script: script.clone(), cause })?;

    let env = root.join(FOLDER).join("env.sh");
    let text = fs::read_to_string(&env).map_err(BuildError::file("read", &env))?;
    parse_env(&text).map_err(|cause| BuildError::Toolchain { script, cause: format!("{}: {cause}", env.display()) })
}

/// Reads the variables that `wasm-toolchain.sh` sets for cargo, from the text of its `env.sh`: lines of the form
/// `export NAME='value'`. Apart from comments the script writes no others.
///
/// # Errors
/// The first line that is not of this form, with its number.
pub fn parse_env(text: &str) -> Result<Vec<(String, OsString)>, String> {
    let mut variables = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let assignment = line.strip_prefix("export ").and_then(|line| line.split_once('='));
        let value = assignment.and_then(|(_, value)| value.strip_prefix('\'')?.strip_suffix('\''));
        match (assignment, value) {
            (Some((name, _)), Some(value)) if !value.contains('\'') => variables.push((name.to_owned(), value.into())),
            _ => return Err(format!("line {} is not of the form export NAME='value': {line}", number + 1)),
        }
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TempDir;

    #[test]
    fn toolchain_env_file_is_parsed() {
        let text = "# Written by wasm-toolchain.sh\nexport RUSTC='/a b/rustc'\n\nexport LINKER='/l=d'\n";
        let want = [("RUSTC".to_owned(), "/a b/rustc".into()), ("LINKER".to_owned(), "/l=d".into())];
        assert_eq!(parse_env(text).expect("variables"), want);
        assert_eq!(parse_env("").expect("variables"), []);
    }

    #[test]
    fn toolchain_env_with_shell_syntax_is_refused() {
        for line in ["export A=b", "A='b'", "export A", "export A='b'\\''c'", "export A='b", "export A='", "rm -rf x"] {
            let error = parse_env(&format!("# first\n{line}\n")).expect_err(line);
            assert!(error.starts_with("line 2 is not"), "{error}");
        }
    }

    #[test]
    fn toolchain_error_quotes_the_script_output() {
        let dir = TempDir::new();
        dir.write(SCRIPT, "echo 'wasm-toolchain: error: no route' >&2\necho '  hint:  add one' >&2\nexit 1\n");
        let error = prepare(dir.path()).expect_err("no toolchain").to_string();
        assert!(error.starts_with("no Rust toolchain here can build guests\n  cause: "), "{error}");
        assert!(error.ends_with("\n    wasm-toolchain: error: no route\n      hint:  add one"), "{error}");
    }

    #[test]
    fn toolchain_script_gets_the_folder_of_its_env_file() {
        let dir = TempDir::new();
        dir.write(SCRIPT, "mkdir -p \"$1\"\necho \"export RUSTC='$1/rustc'\" >\"$1/env.sh\"\n");
        let variables = prepare(dir.path()).expect("variables");
        let rustc = dir.path().join(FOLDER).join("rustc").into_os_string();
        assert_eq!(variables, [("RUSTC".to_owned(), rustc)]);
    }
}
