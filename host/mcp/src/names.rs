//! Names of servers and of their tools.

use shelly_core::{
    chat::{ToolSpec, name_with_digest},
    error::cut,
    limits,
};

/// The separator between server and tool in a name for models: vendors do not accept a dot.
const BETWEEN: &str = "__";

/// Checks the name of a server: 1 to [`limits::MCP_SERVER_NAME_BYTES`] of `a-z 0-9 _ -`, a letter first, no two `_` in a
/// row and none at the end. The tool names of two servers therefore never collide.
///
/// # Errors
///
/// A message that says what is wrong with the name.
pub fn check_server_name(name: &str) -> Result<(), String> {
    let most = limits::MCP_SERVER_NAME_BYTES;
    let is_one = (1..=most).contains(&name.len())
        && name.bytes().all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.contains(BETWEEN)
        && !name.ends_with('_');
    if is_one {
        return Ok(());
    }
    let shown = cut(name, limits::NAME_SHOWN_CHARS);
    Err(format!(
        "invalid server name `{}`; use 1 to {most} of a-z, 0-9, _ and -, a letter first, no two _ in a row and none \
         at the end",
        shown.escape_debug()
    ))
}

/// Returns the name by which a model calls a server's tool: `server__tool`, in characters that every vendor accepts. If
/// characters were replaced or the name is too long, a digest of the whole name ends it.
pub fn tool_name(server: &str, tool: &str) -> String {
    let plain = format!("{server}{BETWEEN}{tool}");
    if ToolSpec::is_valid_name(&plain) && !tool.is_empty() {
        return plain;
    }
    const LONGEST: usize = 64;
    name_with_digest(&plain, tool, LONGEST, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_has_a_plain_name() {
        for name in ["git", "a", "my-server", "web_2", &"x".repeat(24)] {
            assert_eq!(check_server_name(name), Ok(()), "{name}");
        }
        for name in ["", "Git", "2web", "a__b", "a_", "a.b", "a b", "\u{202e}a", &"x".repeat(25)] {
            assert!(check_server_name(name).unwrap_err().contains("1 to 24 of a-z"), "{name}");
        }
    }

    #[test]
    fn tools_have_names_that_every_vendor_takes() {
        for (tool, name) in [
            ("status", "git__status"),
            ("read-file_2", "git__read-file_2"),
            ("repo.status", "git__repo_status_"),
            ("repo/status", "git__repo_status_"),
            ("", "git___"),
            ("ünïcode", "git___n_code_"),
            (&"x".repeat(64), "git__xxxx"),
        ] {
            let made = tool_name("git", tool);
            assert!(made.starts_with(name) && ToolSpec::is_valid_name(&made), "{made}");
        }
        assert_ne!(tool_name("git", "repo.status"), tool_name("git", "repo/status"));
        assert_eq!(tool_name("git", "repo.status"), tool_name("git", "repo.status"));
    }
}
