//! The words that may follow a command of the chat, for completion.

use super::running_step::RunningStep;
use crate::config::ThemeChoice;

/// Returns the words that may follow a command while this step runs; `entry` is the agent that the person talks with.
pub fn arguments_of(command: &str, step: &RunningStep, entry: &str) -> Vec<String> {
    let working = || -> Vec<String> {
        match step {
            RunningStep::Message { run, .. } => run.working().iter().map(|agent| agent.to_string()).collect(),
            _ => Vec::new(),
        }
    };
    match command {
        "theme" => ThemeChoice::ALL.map(|choice| choice.name().to_owned()).into(),
        "board" => ["on", "off"].map(str::to_owned).into(),
        "focus" => working().into_iter().filter(|agent| agent != entry).collect(),
        "message" | "stop" => working(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_with_fixed_words_offer_them() {
        let words = |command| arguments_of(command, &RunningStep::None, "ada");
        assert_eq!(words("theme"), ["auto", "dark", "light", "none"]);
        assert_eq!(words("board"), ["on", "off"]);
        for command in ["focus", "message", "stop", "help"] {
            assert!(words(command).is_empty(), "nobody works: {command}");
        }
    }
}
