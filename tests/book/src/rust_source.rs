//! Doc comments and attributes of Rust sources.

use syn::{Attribute, Expr, ExprLit, Lit, Meta};

/// Returns the doc comment among these attributes, with links to Rust items as plain code.
pub fn doc_comment(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter(|attribute| attribute.path().is_ident("doc")).filter_map(|attribute| {
        let Meta::NameValue(named) = &attribute.meta else { return None };
        let Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) = &named.value else { return None };
        Some(text.value().strip_prefix(' ').map_or_else(|| text.value(), str::to_owned))
    });
    without_item_links(&lines.collect::<Vec<_>>().join("\n"))
}

/// Turns a link to a Rust item into its text: there is no such page in the book. The path before the item's name goes too.
fn without_item_links(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("[`")
        && let Some((item, after)) = after.split_once("`]")
    {
        let name = item.rsplit("::").next().unwrap_or(item);
        plain.push_str(&format!("{before}`{name}`"));
        // The target of a link with a text of its own.
        rest = after.strip_prefix('(').and_then(|target| target.split_once(')')).map_or(after, |(_, after)| after);
    }
    plain.push_str(rest);
    plain
}

/// Returns the arguments of the `serde` attributes: `rename = "duration_ms"`, `skip`.
pub fn serde_arguments(attributes: &[Attribute]) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("serde")) {
        let parsed = attribute.parse_nested_meta(|meta| {
            let name = meta.path.get_ident().map(ToString::to_string).unwrap_or_default();
            let value = match meta.value() {
                Ok(value) => Some(value.parse::<syn::LitStr>()?.value()),
                Err(_) => None,
            };
            found.push((name, value));
            Ok(())
        });
        parsed.unwrap_or_else(|error| panic!("a serde attribute has another form: {error}"));
    }
    found
}

/// Returns the name of a variant as `rename_all = "snake_case"` makes it.
pub fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.extend(c.to_lowercase());
    }
    snake
}
