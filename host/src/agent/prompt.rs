//! The system prompt, in tagged sections, what changes least first.

/// Builds it; a section without content is left out.
pub(super) fn system_prompt(name: &str, description: &str, instructions: &str) -> String {
    let identity = match description {
        "" => format!("You are {name}."),
        description => format!("You are {name}: {description}"),
    };
    let sections = [("identity", identity.as_str()), ("instructions", instructions)];
    let section = |(tag, text): &(&str, &str)| format!("<{tag}>\n{}\n</{tag}>", text.trim());
    sections.iter().filter(|(_, text)| !text.trim().is_empty()).map(section).collect::<Vec<_>>().join("\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_without_content_are_left_out() {
        assert_eq!(system_prompt("ada", "", " "), "<identity>\nYou are ada.\n</identity>");
        assert_eq!(
            system_prompt("ada", "counts", "Be exact.\n"),
            "<identity>\nYou are ada: counts\n</identity>\n\n<instructions>\nBe exact.\n</instructions>"
        );
    }
}
