//! Turns parse errors of the config file into reports for a person.

use crate::{
    error::{ErrorKind, Report},
    limits,
};

/// Keys of the predecessor's config whose features come later. They are not reported as mistakes.
const NOT_YET: [&str; 1] = ["process"];

/// Turns a parse error of a text, which messages call by the name `subject`, into a report. It quotes only names of keys and
/// variants from the text, since a line may hold a credential.
pub(super) fn explain(error: &serde_saphyr::Error, text: &str, subject: &str) -> Report {
    use serde_saphyr::Error;
    let usage = |message: String| Report::new(ErrorKind::Usage, message);
    let key = || error.location().and_then(|at| key_before(text, at.line() as usize, at.column() as usize));
    let not = |what: &str| {
        usage(key().map_or_else(|| format!("expected {what} here"), |key| format!("`{key}` is not {what}")))
    };
    let place = error.location().map_or(String::new(), |at| format!(", line {}, column {}", at.line(), at.column()));
    let report = match error.without_snippet() {
        Error::SerdeUnknownField { field, .. } if NOT_YET.contains(&field.as_str()) => {
            usage(format!("the key `{field}` is not supported yet")).hint("remove the key, or use a newer shelly-host")
        }
        // A key of the predecessor for the place of the permissions. A project could name anybody's file there.
        Error::SerdeUnknownField { field, .. } if field == "filesystem" => usage("there is no key `filesystem`".into()).hint(
            "remove the key: permissions are stored in .shelly/local/permissions.json, whose folder `shelly-host init` \
             creates; an agent gets the tools with `toolboxes: [filesystem]`",
        ),
        // A key of the predecessor for a tool server of the host.
        Error::SerdeUnknownField { field, .. } if field == "net" => usage("there is no key `net`".into()).hint(
            "use the key `http` of each plugin that may send requests: `plugins: {fetch: {http: [https://api.example.com]}}`",
        ),
        Error::SerdeUnknownField { field, expected, .. } => {
            let report = usage(format!("there is no key `{}`", cut(field)));
            match nearest(field, expected) {
                Some(near) => report.hint(format!("did you mean `{near}`?")),
                None => report.hint(format!("valid keys: {}", expected.join(", "))),
            }
        }
        Error::SerdeMissingField { field, .. } => {
            usage(format!("the key `{field}` is missing")).hint(format!("add `{field}: …` to this entry"))
        }
        Error::DuplicateMappingKey { key, .. } => {
            let key = key.as_deref().map_or(String::new(), |key| format!(" `{}`", cut(key)));
            usage(format!("the key{key} appears twice")).hint("remove one of them, or merge them")
        }
        Error::MultipleDocuments { .. } => {
            usage(format!("{subject} has more than one YAML document")).hint("remove `---` and everything after it")
        }
        Error::Unexpected { expected: "sequence start", .. } => {
            not("a list").hint("begin each entry with `- `, or write the entries between `[` and `]`")
        }
        Error::Unexpected { expected: "mapping start", .. } => {
            match error.location().and_then(|at| list_of(text, at.line() as usize)).or_else(key) {
                Some(key) if key == "files" => not("a mapping").hint(
                    "name each folder with `path`, and add `mode: write` to allow changes: `files: [{path: docs}]`",
                ),
                _ => not("a mapping").hint("write the entries as `key: value`"),
            }
        }
        Error::Unexpected { expected: "string scalar", .. } => not("a string").hint("put the value in quotes"),
        Error::InvalidScalar { ty, .. } if ty.starts_with(['u', 'i']) => {
            not("a whole number").hint("write only digits, without a sign or a point")
        }
        Error::InvalidScalar { ty, .. } if ty.starts_with('f') => not("a number").hint("write a number in digits"),
        Error::InvalidScalar { ty: "bool" | "boolean", .. } | Error::InvalidBooleanStrict { .. } => {
            not("a boolean").hint("write `true` or `false`")
        }
        // The type of the value has written the message, as `what is wrong; how to mend it`.
        Error::Message { msg, .. } => {
            let (cause, hint) = msg.split_once("; ").unwrap_or((msg, "correct the value; shelly-host config schema describes each key"));
            let key = key().map_or("the value here".into(), |key| format!("the value of `{key}`"));
            usage(format!("{key} cannot be used")).cause(cut(cause)).hint(hint)
        }
        Error::SerdeInvalidType { expected, .. } | Error::SerdeInvalidValue { expected, .. } => {
            not(expected).hint(format!("write {expected}"))
        }
        Error::SerdeUnknownVariant { variant, expected, .. } => {
            let shown = cut(variant);
            let report = usage(key().map_or_else(
                || format!("`{shown}` is not a valid value here"),
                |key| format!("`{key}` cannot be `{shown}`"),
            ));
            match nearest(variant, expected) {
                Some(near) => report.hint(format!("did you mean `{near}`?")),
                None => report.hint(format!("valid values: {}", expected.join(", "))),
            }
        }
        _ if error.location().is_some_and(|at| indented_by_tab(text, at.line() as usize)) => {
            usage(format!("{subject} is indented by a tab")).hint("indent with spaces; YAML does not allow tabs before a key or an entry")
        }
        other => {
            if let Some(name) = error.location().and_then(|at| unquoted_variable(text, at.line() as usize)) {
                let report = usage(format!("{subject} is not valid YAML"));
                return report
                    .cause(format!("`${{{name}}}` is not in quotes: between `{{` and `}}` or `[` and `]`, its braces are those of YAML"))
                    .hint(format!("write \"${{{name}}}\" in quotes"))
                    .at(place);
            }
            let text = other.to_string();
            let first = text.lines().next().unwrap_or_default();
            let cause = first.rsplit_once(" at line ").map_or(first, |(cause, _)| cause);
            let report = usage(format!("{subject} is not valid YAML"));
            report.cause(cut(cause)).hint("check quotes, brackets and indentation on this line and the line before")
        }
    };
    report.at(place)
}

/// Returns `true` if this line, the one before or the one after is indented by a tab. The parser may report the error at
/// the tab itself, or at the text that the tab ended.
fn indented_by_tab(text: &str, line: usize) -> bool {
    let starts = |line: &str| line[..line.len() - line.trim_start().len()].contains('\t');
    text.lines().take(line + 1).skip(line.saturating_sub(2)).any(starts)
}

/// Returns the name of a variable of the environment that stands without quotes in a mapping or list in braces or brackets, on
/// this line or the one before.
fn unquoted_variable(text: &str, line: usize) -> Option<&str> {
    let (mut depth, mut quote, mut before) = (0_usize, None, ' ');
    let mut at = 1;
    let mut is_comment = false;
    for (position, c) in text.char_indices() {
        match (c, quote) {
            // A quote that a line opens and does not close is usually an apostrophe.
            ('\n', _) => (at, quote, is_comment) = (at + 1, None, false),
            _ if is_comment => {}
            (_, Some(open)) if c == open && before != '\\' => quote = None,
            (_, Some(_)) => {}
            ('#', None) if before.is_whitespace() => is_comment = true,
            ('"' | '\'', None) if before.is_whitespace() || "[{,:".contains(before) => quote = Some(c),
            ('{', None) if before == '$' && depth > 0 && (at == line || at + 1 == line) => {
                let name = text[position + 1..].split_once('}').map(|(name, _)| name)?;
                let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
                return is_name.then_some(name);
            }
            ('{' | '[', None) => depth += 1,
            ('}' | ']', None) => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
    }
    None
}

/// Returns the key on this line whose value begins at this column, or is a list between `[` and `]` around it.
fn key_before(text: &str, line: usize, column: usize) -> Option<String> {
    let line = text.lines().nth(line.checked_sub(1)?)?;
    let end = line.char_indices().nth(column.checked_sub(1)?).map_or(line.len(), |(end, _)| end);
    let before = match line[..end].rfind(['[', ']', '{', '}', ':']) {
        Some(at) if line[at..].starts_with('[') => &line[..at],
        _ => &line[..end],
    };
    let before = before.trim_end().strip_suffix(':')?;
    let start = before.rfind([' ', ',', '{', '[', '"', '\'']).map_or(0, |start| start + 1);
    Some(cut(&before[start..])).filter(|key| !key.is_empty())
}

/// Returns the key of the list that this line is an entry of, if each entry begins a line.
fn list_of(text: &str, line: usize) -> Option<String> {
    let before: Vec<_> = text.lines().take(line).collect();
    let mut lines = before.into_iter().rev();
    let entry = lines.next().filter(|line| line.trim_start().starts_with("- "))?;
    let deep = |line: &str| line.len() - line.trim_start().len();
    let above = lines.find(|line| deep(line) <= deep(entry) && !line.trim_start().starts_with(['-', '#']))?;
    let key = above.trim().strip_suffix(':')?.trim_start_matches("- ");
    Some(cut(key))
}

/// Escapes and shortens text of the file for a report.
fn cut(text: &str) -> String {
    let mut shown = String::new();
    for c in text.chars().take(limits::NAME_SHOWN_CHARS) {
        match c {
            '\'' | '"' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    if text.chars().nth(limits::NAME_SHOWN_CHARS).is_some() {
        shown.push('…');
    }
    shown
}

/// Reports that nothing has this name, and suggests the nearest known name or lists the known ones.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> Report {
    let known: Vec<_> = known.collect();
    let report = Report::new(ErrorKind::Usage, format!("there is no {what} `{}`", cut(name)));
    match nearest(name, &known) {
        Some(near) => report.hint(format!("did you mean `{}`?", cut(near))),
        None if known.is_empty() => report.hint(match what {
            "agent" => "the config has no agents; add the agent under `agents`",
            "model" => "the config has no models; add the model under `providers`",
            "credential" => "the config has no credentials; add the credential under `credentials`",
            "API" => "the config has no APIs; add the API under `openapi`",
            "program" => "the config has no programs; add the program under `programs`",
            "MCP server" => "the config has no MCP servers; add the server under `mcp_servers`",
            "skill" => "the project has no skills; write the skill as .shelly/skills/NAME/SKILL.md, or remove the name",
            _ => "there are none; remove the name",
        }),
        None => {
            let shown: Vec<_> = known.iter().take(limits::NAMES_SHOWN).map(|name| cut(name)).collect();
            let more = match known.len().saturating_sub(limits::NAMES_SHOWN) {
                0 => String::new(),
                more => format!(", and {more} more"),
            };
            report.hint(format!("available: {}{more}", shown.join(", ")))
        }
    }
}

/// Returns the known name that was probably meant, if one is similar enough.
pub fn nearest<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let score = |known: &str| strsim::normalized_damerau_levenshtein(&name.to_lowercase(), &known.to_lowercase());
    known
        .iter()
        .copied()
        .map(|known| (score(known), known))
        .filter(|(score, _)| *score >= 0.6)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, known)| known)
}

#[cfg(test)]
mod tests {
    use crate::config::Config;

    #[test]
    fn variable_without_quotes_in_braces_is_explained() {
        let hint = "write \"${KEY}\" in quotes";
        for (text, line) in [
            ("providers: [{name: m, kind: openai, model: x, api_key: ${KEY}}]", 1),
            ("providers:\n  - {name: m, kind: openai, model: x, api_key: ${KEY}, base_url: '${B}'}\n", 2),
            ("providers:\n  - {name: m, kind: openai, model: '${A}',\n     api_key: ${KEY}}\n", 3),
            ("providers:\n  - name: m\n    kind: openai\n    model: x\n    headers: {X: ${KEY}}\n", 5),
            ("agents:\n  - name: a\n    instructions: don't\n    plugins: {p: {params: {x: [${KEY}, b]}}}\n", 4),
        ] {
            let report = Config::parse(text, "/".into()).unwrap_err().in_file("c.yaml");
            assert_eq!(report.hint.as_deref(), Some(hint), "{text}: {report}");
            assert!(report.causes[0].starts_with("`${KEY}` is not in quotes"), "{report}");
            assert!(report.message.contains(&format!("c.yaml, line {line}, ")), "{report}");
        }
        // Something else is wrong.
        for text in [
            "providers:\n  - name: m\n    api_key: ${KEY}\n   kind: openai\n",
            "a: {b: '${KEY}', c: [}\n",
            "a: {b: c # ${KEY}\n",
        ] {
            let report = Config::parse(text, "/".into()).unwrap_err();
            assert_ne!(report.hint.as_deref(), Some(hint), "{text}: {report}");
        }
    }
}
