//! The dep-info files of cargo: `<output>: <input> <input> …`, as make reads them.

/// Returns the inputs of all outputs in a dep-info file, in order, with repetitions.
pub(crate) fn inputs(text: &str) -> Vec<String> {
    text.lines().filter_map(|line| line.split_once(':')).flat_map(|(_, inputs)| words(inputs)).collect()
}

/// Splits text at spaces. cargo writes a space within a path as `\ ` and escapes nothing else.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut chars = text.chars().peekable();
    while let Some(char) = chars.next() {
        match char {
            '\\' if chars.next_if_eq(&' ').is_some() => word.push(' '),
            ' ' => words.push(std::mem::take(&mut word)),
            _ => word.push(char),
        }
    }
    words.push(word);
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::inputs;

    #[test]
    fn depfile_lists_the_inputs_of_every_output() {
        let text = "/t/a.wasm: /w/a/src/lib.rs /w/sdk/src/lib.rs\n\n/t/liba.rlib: /w/x.rs\n/t/none.wasm:\n";
        assert_eq!(inputs(text), ["/w/a/src/lib.rs", "/w/sdk/src/lib.rs", "/w/x.rs"]);
    }

    #[test]
    fn depfile_escaped_spaces_are_decoded() {
        let text = r"/my\ work/a.wasm: /my\ work/src/lib.rs /my\ work/two\ \ spaces.rs /back\slash.rs";
        assert_eq!(inputs(text), ["/my work/src/lib.rs", "/my work/two  spaces.rs", r"/back\slash.rs"]);
    }
}
