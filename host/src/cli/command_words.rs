//! Formats options as a person types them.

use std::path::Path;

/// Returns the `session resume` arguments for a session started with these options.
pub fn resume_arguments(
    id: &str,
    config: Option<&Path>,
    plugins: &[impl AsRef<Path>],
    schema: Option<&Path>,
) -> String {
    let schema = schema.map(|path| format!(" --schema {}", quoted(&path.to_string_lossy()))).unwrap_or_default();
    format!("{id}{}{schema}", words_of(config, plugins, None))
}

/// Formats these options as a person types them, with a blank before each.
pub fn words_of(config: Option<&Path>, plugins: &[impl AsRef<Path>], model: Option<&str>) -> String {
    let config = config.into_iter().map(|path| ("--config", path.to_string_lossy()));
    let plugins = plugins.iter().map(|path| ("--plugins", path.as_ref().to_string_lossy()));
    let model = model.into_iter().map(|name| ("--model", name.into()));
    config.chain(plugins).chain(model).map(|(flag, value)| format!(" {flag} {}", quoted(&value))).collect()
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_./:=@%+,-".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_options_are_quoted_for_the_shell() {
        let plugins = ["a b", "it's", "target/plugins"];
        let said = resume_arguments("s", Some(Path::new("examples/x.yaml")), &plugins, None);
        assert_eq!(said, r"s --config examples/x.yaml --plugins 'a b' --plugins 'it'\''s' --plugins target/plugins");
        assert_eq!(resume_arguments("s", None, &[] as &[&str], None), "s");
        let schema = Some(Path::new("a b.json"));
        assert_eq!(resume_arguments("s", None, &[] as &[&str], schema), "s --schema 'a b.json'");
    }
}
