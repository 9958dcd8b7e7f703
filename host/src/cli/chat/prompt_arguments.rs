//! The arguments of a server's prompt, as a person types them after its command.

use std::{collections::BTreeMap, fmt::Write};

use crate::{
    cli::render::one_line,
    error::cut,
    limits,
    mcp::{ServerPrompt, ServerPromptArgument},
};

/// Returns the form of a prompt's command: `/SERVER:PROMPT`, and each argument, in brackets if it may be left out.
pub fn prompt_form(server: &str, prompt: &ServerPrompt) -> String {
    let argument = |ServerPromptArgument { name, is_required, .. }: &ServerPromptArgument| match is_required {
        true => format!(" {name}=…"),
        false => format!(" [{name}=…]"),
    };
    format!("/{server}:{}{}", prompt.name, prompt.arguments.iter().map(argument).collect::<String>())
}

/// Formats the form of a prompt's command and what each argument is, for a person who typed something else.
pub fn prompt_usage(server: &str, prompt: &ServerPrompt) -> String {
    let mut usage = format!("type {}", prompt_form(server, prompt));
    for ServerPromptArgument { name, description, is_required } in &prompt.arguments {
        let requirement = if *is_required { "required" } else { "optional" };
        let about = if description.is_empty() { String::new() } else { format!(": {}", one_line(description, 200)) };
        let _ = write!(usage, "\n{name} ({requirement}){about}");
    }
    if prompt.arguments.len() > 1 {
        usage.push_str("\na value with blanks stands in quotes");
    }
    usage
}

/// Parses what was typed after a prompt's command: words `NAME=VALUE`, or the value of the only argument that the prompt
/// takes.
///
/// # Errors
///
/// A message that says what is wrong: a word is not of that form, an argument is unknown, given twice or missing.
pub fn prompt_arguments(prompt: &ServerPrompt, typed: &str) -> Result<BTreeMap<String, String>, String> {
    let typed = typed.trim();
    let given = match &prompt.arguments[..] {
        [] if !typed.is_empty() => return Err("the prompt takes no arguments".into()),
        [only] if !typed.is_empty() => vec![(only.name.clone(), only_value(&only.name, typed))],
        _ => assignments(typed)?,
    };
    let mut arguments = BTreeMap::new();
    for (name, value) in given {
        if !prompt.arguments.iter().any(|argument| argument.name == name) {
            return Err(format!("the prompt has no argument `{}`", cut(&name, limits::NAME_SHOWN_CHARS)));
        }
        if arguments.contains_key(&name) {
            return Err(format!("the argument `{name}` is given twice"));
        }
        arguments.insert(name, value);
    }
    let is_missing = |argument: &&ServerPromptArgument| argument.is_required && !arguments.contains_key(&argument.name);
    match prompt.arguments.iter().find(is_missing) {
        Some(missing) => Err(format!("the argument `{}` is missing", missing.name)),
        None => Ok(arguments),
    }
}

/// Returns the value of the only argument: everything that was typed, or what follows `NAME=`.
fn only_value(name: &str, typed: &str) -> String {
    let Some(named) = typed.strip_prefix(name).and_then(|rest| rest.strip_prefix('=')) else { return typed.to_owned() };
    match value(named) {
        Ok((value, "")) => value,
        _ => named.to_owned(),
    }
}

/// Parses words `NAME=VALUE`.
fn assignments(typed: &str) -> Result<Vec<(String, String)>, String> {
    let (mut given, mut rest) = (Vec::new(), typed);
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        let shown = cut(name, limits::NAME_SHOWN_CHARS);
        let Some(after) = after.strip_prefix('=') else {
            return Err(format!("`{shown}` is not of the form NAME=VALUE"));
        };
        let (value, after) = value(after).map_err(|why| format!("the value of `{shown}` {why}"))?;
        given.push((name.to_owned(), value));
        rest = after.trim_start();
    }
    Ok(given)
}

/// Parses a value, up to the next blank or within quotes. Returns what follows, too. Within double quotes, a backslash
/// stands before a quote or a backslash that belongs to the value.
fn value(text: &str) -> Result<(String, &str), &'static str> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        let (value, after) = text.split_at(text.find(char::is_whitespace).unwrap_or(text.len()));
        return Ok((value.to_owned(), after));
    };
    let (mut value, mut chars) = (String::new(), text.char_indices().skip(1).peekable());
    while let Some((at, c)) = chars.next() {
        match c {
            c if c == quote => {
                let after = &text[at + c.len_utf8()..];
                return match after.is_empty() || after.starts_with(char::is_whitespace) {
                    true => Ok((value, after)),
                    false => Err("goes on after its closing quote"),
                };
            }
            '\\' if quote == '"' => {
                let escaped = chars.next_if(|(_, next)| matches!(next, '"' | '\\'));
                value.push(escaped.map_or('\\', |(_, escaped)| escaped));
            }
            c => value.push(c),
        }
    }
    Err("has no closing quote")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(arguments: &[(&str, bool)]) -> ServerPrompt {
        let argument = |(name, is_required): &(&str, bool)| ServerPromptArgument {
            name: (*name).to_owned(),
            description: format!("The {name}."),
            is_required: *is_required,
        };
        let arguments = arguments.iter().map(argument).collect();
        ServerPrompt { name: "review".into(), description: String::new(), arguments }
    }

    fn parsed(prompt: &ServerPrompt, typed: &str) -> Result<String, String> {
        let arguments = prompt_arguments(prompt, typed)?;
        Ok(arguments.iter().map(|(name, value)| format!("{name}<{value}>")).collect())
    }

    #[test]
    fn words_become_the_arguments_of_a_prompt() {
        let two = prompt(&[("path", true), ("depth", false)]);
        for (typed, arguments) in [
            ("path=main.rs", Ok("path<main.rs>")),
            (" depth=2  path=a=b ", Ok("depth<2>path<a=b>")),
            (r#"path="a b.rs" depth='it is "2"'"#, Ok(r#"depth<it is "2">path<a b.rs>"#)),
            (r#"path="say \"hi\" \\ \n""#, Ok(r#"path<say "hi" \ \n>"#)),
            ("path= depth=\"\"", Ok("depth<>path<>")),
            ("path=\"two\nlines\"", Ok("path<two\nlines>")),
            ("path=日本 depth=\"é\"", Ok("depth<é>path<日本>")),
            ("", Err("the argument `path` is missing")),
            ("depth=2", Err("the argument `path` is missing")),
            ("path=a file=b", Err("the prompt has no argument `file`")),
            ("path=a path=b", Err("the argument `path` is given twice")),
            ("main.rs", Err("`main.rs` is not of the form NAME=VALUE")),
            ("path=a now", Err("`now` is not of the form NAME=VALUE")),
            ("path =a", Err("`path` is not of the form NAME=VALUE")),
            ("=a", Err("the prompt has no argument ``")),
            ("path=\"a", Err("the value of `path` has no closing quote")),
            ("path=\"a\\\"", Err("the value of `path` has no closing quote")),
            ("path='a'b", Err("the value of `path` goes on after its closing quote")),
        ] {
            let expected = arguments.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(parsed(&two, typed), expected, "{typed}");
        }
    }

    #[test]
    fn only_argument_takes_the_whole_rest_of_the_line() {
        let one = prompt(&[("path", true)]);
        for (typed, arguments) in [
            ("all of \"main.rs\" ", Ok("path<all of \"main.rs\">")),
            ("a=b c=d", Ok("path<a=b c=d>")),
            ("path=main.rs", Ok("path<main.rs>")),
            ("path=\"a b\"", Ok("path<a b>")),
            ("path=a \"b\" c", Ok("path<a \"b\" c>")),
            ("paths=a", Ok("path<paths=a>")),
            ("path=\"open", Ok("path<\"open>")),
            ("", Err("the argument `path` is missing")),
        ] {
            let expected = arguments.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(parsed(&one, typed), expected, "{typed}");
        }
        assert_eq!(parsed(&prompt(&[("path", false)]), ""), Ok(String::new()));
        assert_eq!(parsed(&prompt(&[]), " "), Ok(String::new()));
        assert_eq!(parsed(&prompt(&[]), "x"), Err("the prompt takes no arguments".into()));
    }

    #[test]
    fn usage_lists_each_argument_of_the_prompt() {
        let two = prompt(&[("path", true), ("depth", false)]);
        assert_eq!(prompt_form("git", &two), "/git:review path=… [depth=…]");
        let usage = "type /git:review path=… [depth=…]\npath (required): The path.\ndepth (optional): The depth.\n\
                     a value with blanks stands in quotes";
        assert_eq!(prompt_usage("git", &two), usage);
        assert_eq!(prompt_usage("git", &prompt(&[])), "type /git:review");
    }
}
