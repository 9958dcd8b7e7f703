//! Conversion of tool names to names that every vendor accepts, and back.
//!
//! The names of plugin tools are valid for every vendor. The names of other tools may not be, and neither may names that
//! a model invented. A single rejected name would fail the whole run.

use std::borrow::Cow;

use crate::types::ToolSpec;

/// The maximum length of a name that vendors accept.
const LONGEST: usize = 64;

/// Returns the name in a form that vendors accept: 1 to 64 of `A-Z a-z 0-9 _ -`. Any other name is changed, always in the
/// same way, and made distinct by a digest.
pub fn wire(name: &str) -> Cow<'_, str> {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-');
    if (1..=LONGEST).contains(&name.len()) && name.chars().all(is_taken) {
        return name.into();
    }
    let plain = |c| if is_taken(c) { c } else { '_' };
    let start: String = name.chars().map(plain).take(LONGEST - 9).collect();
    format!("{start}_{:08x}", digest(name)).into()
}

/// Returns the request's name of the tool that the vendor calls by its [`wire`] name. A name that matches no tool is
/// returned unchanged.
pub fn host<'a>(tools: &'a [ToolSpec], called: &'a str) -> &'a str {
    let renamed = tools.iter().find(|tool| tool.name != called && wire(&tool.name) == called);
    renamed.map_or(called, |tool| &tool.name)
}

/// Computes an FNV-1a digest. It has to distinguish only a few names, and must be stable over time.
fn digest(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |digest, byte| (digest ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::ToolHints;

    fn tools(names: &[&str]) -> Vec<ToolSpec> {
        let tool = |name: &&str| ToolSpec {
            name: (*name).into(),
            description: String::new(),
            input_schema: "{}".into(),
            output_schema: None,
            hints: ToolHints::empty(),
            meta: Vec::new(),
        };
        names.iter().map(tool).collect()
    }

    #[test]
    fn tool_names_round_trip_through_wire_names() {
        let long = "n".repeat(65);
        let names = ["fs.read", "fs_read", "größe", "9 lives", "plain", "", &long];
        let tools = tools(&names);
        for name in names {
            let there = wire(name);
            let is_plain = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            assert!((1..=64).contains(&there.len()) && there.chars().all(is_plain), "{there}");
            assert_eq!(host(&tools, &there), name);
        }
        assert_eq!((&*wire("plain"), &*wire(&long[1..])), ("plain", &long[1..]));
        assert_eq!(wire(""), "_811c9dc5", "what a digest was it stays");
        assert_ne!(wire("fs.read"), wire("fs:read"));
        assert_eq!(host(&tools, "made_up"), "made_up");
    }
}
