//! The answer to a task that the model does not understand: what it is, and what it can do with the tools that it has.

use crate::{
    delegation::DELEGATE,
    tools::{self, Tool},
};

/// Introduces the model. It offers only what it can do with these tools.
pub(crate) fn text(tools: &[Tool]) -> String {
    let reads = tools::reader(tools).is_some();
    let mut abilities = Vec::new();
    if reads {
        abilities.push("quote a file, and count in it or find its longest lines");
    }
    if tools::lister(tools).is_some() {
        abilities.push("list a folder");
    }
    if tools::searcher(tools).is_some() {
        abilities.push("search files for a quoted text");
    }
    if tools::workers(tools).next().is_some() {
        abilities.push("hand a quoted text to a tool that your words describe");
    }
    if tools.iter().any(|tool| tool.name == DELEGATE) {
        abilities.push("delegate a task to another agent");
    }
    abilities.push("count the words, lines and characters of a quoted text");
    format!(
        "I am offline-model, a small stand-in for a language model: a few rules, no understanding. I can {}. {} Try: {}",
        abilities.join("; "),
        seen(tools, reads),
        example(tools, reads)
    )
}

/// Names the tools.
fn seen(tools: &[Tool], reads: bool) -> String {
    let names: Vec<String> = tools.iter().map(|tool| format!("`{}`", tool.name)).collect();
    match &names[..] {
        [] => "I see no tools, so I can read no file.".to_owned(),
        [only] if !reads => format!("The only tool I see is {only}, so I can read no file."),
        [only] => format!("The only tool I see is {only}."),
        names => format!("The tools I see: {}.", names.join(", ")),
    }
}

/// Returns a task that can be done with these tools.
fn example(tools: &[Tool], reads: bool) -> &'static str {
    if reads {
        "How many words are in README.md, and which are its five longest lines?"
    } else if tools::lister(tools).is_some() {
        "What files are in this folder?"
    } else if tools::searcher(tools).is_some() {
        "Where is \"TODO\"?"
    } else {
        "How many words are in \"one two three\"?"
    }
}
