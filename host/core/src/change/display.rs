//! Paths and the content of folders in words, bounded.

use super::fingerprint::{FingerprintNode, PathFingerprint};
use crate::limits;

/// Shortens a path to its beginning and its end, if it is long.
pub(super) fn ends(path: &str) -> String {
    let chars = path.chars().count();
    let half = limits::PATH_SHOWN_CHARS / 2;
    let byte_of = |at: usize| path.char_indices().nth(at).map_or(path.len(), |(byte, _)| byte);
    match chars > limits::PATH_SHOWN_CHARS {
        true => format!("{}[…]{}", &path[..byte_of(half)], &path[byte_of(chars - half)..]),
        false => path.to_owned(),
    }
}

/// Lists the content of a folder in words, bounded.
pub(super) fn listed(node: &FingerprintNode) -> String {
    let FingerprintNode::Folder { .. } = node else { return node.kind().into() };
    let all = node.walk();
    let names = all.iter().skip(1).take(limits::CHANGES_SHOWN);
    let names: String = names.map(|(path, _)| format!("\n  {}", ends(&path.escape_debug().to_string()))).collect();
    let beyond = match all.len().checked_sub(limits::CHANGES_SHOWN + 1).filter(|beyond| *beyond > 0) {
        Some(beyond) => format!("\n  and {beyond} more"),
        None => String::new(),
    };
    format!("{}{names}{beyond}", node.holding())
}

/// Returns what is added to the description of a folder: the list of its content. Empty for anything else.
pub(super) fn holding(state: &PathFingerprint) -> String {
    match state {
        PathFingerprint::There(node @ FingerprintNode::Folder { .. }) => format!(", {}", listed(node)),
        PathFingerprint::There(_) | PathFingerprint::Nothing => String::new(),
    }
}
