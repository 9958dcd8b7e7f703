//! Completion of the variables of a resource URI.

use std::collections::{BTreeSet, HashMap};

use rmcp::model::{ArgumentInfo, CompletionInfo};

use super::server_setup::McpResource;

/// Returns the values of a variable of `template` in these resources that begin as the argument does and whose other
/// variables are as given.
pub(super) fn values(
    template: &str,
    resources: &[McpResource],
    argument: &ArgumentInfo,
    given: &HashMap<String, String>,
) -> Vec<String> {
    let value = |resource: &McpResource| {
        let variables = variables(template, &resource.uri)?;
        let fits = |(name, value): &(&str, &str)| given.get(*name).is_none_or(|given| given == value);
        let others = variables.iter().filter(|(name, _)| *name != argument.name);
        let (_, value) = variables.iter().find(|(name, _)| *name == argument.name)?;
        (value.starts_with(&argument.value) && others.into_iter().all(fits)).then(|| (*value).to_owned())
    };
    let values: BTreeSet<_> = resources.iter().filter_map(value).collect();
    values.into_iter().take(CompletionInfo::MAX_VALUES).collect()
}

/// Returns the variables of a template with their values in `uri`; `None` if the URI does not match.
fn variables<'a>(template: &'a str, uri: &'a str) -> Option<Vec<(&'a str, &'a str)>> {
    let mut pieces = template.split('{');
    let mut rest = uri.strip_prefix(pieces.next()?)?;
    let variable = |piece: &'a str| {
        let (name, after) = piece.split_once('}')?;
        let value;
        (value, rest) = if after.is_empty() { (rest, "") } else { rest.split_once(after)? };
        Some((name, value))
    };
    pieces.map(variable).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn completion_offers_variable_values_of_existing_resources() {
        let resource =
            |uri: &str| McpResource { uri: uri.into(), name: String::new(), description: String::new(), size: 0 };
        let resources = ["x://a1/of/7f", "x://a1/of/8e", "x://a2/of/7d", "y://a3/of/1", "x://a4"].map(resource);
        for (name, begins, given, expected) in [
            ("one", "", &[][..], &["a1", "a2"][..]),
            ("one", "a2", &[], &["a2"]),
            ("one", "b", &[], &[]),
            ("two", "7", &[], &["7d", "7f"]),
            ("two", "7", &[("one", "a1")], &["7f"]),
            ("two", "", &[("two", "8e"), ("three", "x")], &["7d", "7f", "8e"]),
            ("three", "", &[], &[]),
        ] {
            let given = given.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
            let found = values("x://{one}/of/{two}", &resources, &ArgumentInfo::new(name, begins), &given);
            assert_eq!(found, expected, "{name} {begins} {given:?}");
        }
        let many: Vec<_> = (0..2 * CompletionInfo::MAX_VALUES).map(|n| resource(&format!("x://{n}"))).collect();
        let found = values("x://{n}", &many, &ArgumentInfo::new("n", ""), &HashMap::new());
        assert_eq!(found.len(), CompletionInfo::MAX_VALUES);
    }
}
