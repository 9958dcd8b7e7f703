//! `${NAME}` in values of the config, which stands for an environment variable.

use crate::error::{ErrorKind, Report};

/// Replaces each `${NAME}` in `text`; `place` is its position in the config, for reports.
pub(super) fn expand_at(
    place: &str,
    text: &str,
    environment: &dyn Fn(&str) -> Option<String>,
    unset: impl FnOnce(&str) -> Report,
) -> Result<String, Report> {
    expand(text, environment).map_err(|variable| {
        if variable.is_empty() {
            return Report::new(ErrorKind::Usage, "`${}` has no variable name")
                .cause(place)
                .hint("write a name between the braces: `${OPENAI_API_KEY}`");
        }
        if variable.starts_with("${") {
            return Report::new(ErrorKind::Usage, "`${` without `}`")
                .cause(place)
                .hint("add the closing brace: `${OPENAI_API_KEY}`");
        }
        unset(&variable).cause(format!("named by {place}"))
    })
}

/// Replaces each `${NAME}` by the environment variable of that name. Fails with the name of a variable that is unset or
/// empty.
pub(super) fn expand(text: &str, environment: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::new(), text);
    while let Some(start) = rest.find("${") {
        let Some(length) = rest[start..].find('}') else { return Err(rest[start..].to_owned()) };
        let name = &rest[start + 2..start + length];
        expanded.push_str(&rest[..start]);
        expanded.push_str(&environment(name).filter(|value| !value.is_empty()).ok_or_else(|| name.to_owned())?);
        rest = &rest[start + length + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Returns the names in the `${NAME}` parts of a value; an unclosed part is skipped.
pub(crate) fn variables(value: &str) -> impl Iterator<Item = &str> {
    value.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name)
}
