//! The marks around calls that tell them from prose.

use std::sync::LazyLock;

/// Marks that may begin calls at the beginning of a line.
const OPENING: [&str; 12] = [
    "<tool_call>",
    "<tool_calls>",
    "<toolcall>",
    "<tools>",
    "<function_call>",
    "<function_calls>",
    "<start_function_call>",
    "<minimax:tool_call>",
    "<seed:tool_call>",
    "<longcat_tool_call>",
    "<action>",
    "<tool>",
];

/// Marks that are tokens of their own. Prose never contains them, so they may begin calls anywhere.
const SPECIAL: [&str; 16] = [
    "[TOOL_CALLS]",
    "<|python_tag|>",
    "<|python_start|>",
    "<|tool_call|>",
    "<|tool_call>",
    "<|tool_calls|>",
    "<|tool_call_start|>",
    "<|tool_call_begin|>",
    "<|tool_calls_section_begin|>",
    "<|START_ACTION|>",
    "<|action_start|>",
    "<|plugin|>",
    "<|tool_list_start|>",
    "<|function_call|>",
    "<|tool_calls_begin|>",
    "<|FunctionCallBegin|>",
];

/// Marks that end calls or the reply. They are ignored if the server did not remove them.
const CLOSING: [&str; 36] = [
    "</tool_call>",
    "</tool_calls>",
    "</toolcall>",
    "</tools>",
    "</function_call>",
    "</function_calls>",
    "<end_function_call>",
    "<start_function_response>",
    "</minimax:tool_call>",
    "</seed:tool_call>",
    "</longcat_tool_call>",
    "</action>",
    "</tool>",
    "[/TOOL_CALLS]",
    "<|python_end|>",
    "<|/tool_call|>",
    "<tool_call|>",
    "<|tool_call_end|>",
    "<|tool_calls_section_end|>",
    "<|END_ACTION|>",
    "<|action_end|>",
    "<|tool_list_end|>",
    "<|FunctionCallEnd|>",
    "<|tool_response>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|call|>",
    "<|return|>",
    "<|endoftext|>",
    "<end_of_turn>",
    "<turn|>",
    "</s>",
    "<|tool_calls_end|>",
    "<|eom|>",
];

/// Marks between a name and its arguments.
const SEPARATORS: [&str; 2] = ["[ARGS]", "<|tool_call_argument_begin|>"];

/// All marks of one kind.
pub struct CallMarks(Vec<String>);

pub static OPENINGS: LazyLock<CallMarks> = LazyLock::new(|| CallMarks::of(&OPENING, &[]));
pub static SPECIALS: LazyLock<CallMarks> = LazyLock::new(|| {
    CallMarks::of(&SPECIAL, &["tool_calls_begin", "tool_call_begin", "tool_calls", "DSML*function_calls"])
});
pub static CLOSINGS: LazyLock<CallMarks> = LazyLock::new(|| {
    CallMarks::of(&CLOSING, &["tool_call_end", "tool_calls_end", "end_of_sentence", "/DSML*function_calls"])
});
pub static BETWEEN: LazyLock<CallMarks> = LazyLock::new(|| CallMarks::of(&SEPARATORS, &["tool_sep"]));

impl CallMarks {
    /// Creates a set of these marks, with those of DeepSeek in all the spellings in which servers return their unusual
    /// characters.
    fn of(plain: &[&str], deepseek: &[&str]) -> Self {
        let mut marks: Vec<_> = plain.iter().map(|mark| (*mark).to_owned()).collect();
        for word in deepseek {
            for (bar, blank) in [("｜", "▁"), ("｜", "_"), ("｜", " "), ("｜", "\\_"), ("|", "▁"), ("|", "_")] {
                let (slash, word) = word.strip_prefix('/').map_or(("", *word), |word| ("/", word));
                // The newer form uses plain underscores.
                let word = match word.split_once('*') {
                    Some((first, rest)) => format!("{first}{bar}{rest}>"),
                    None => format!("{}{bar}>", word.replace('_', blank)),
                };
                marks.push(format!("<{slash}{bar}{word}"));
            }
        }
        // If one mark is a prefix of another, the longer one must be tried first.
        marks.sort_unstable_by_key(|mark| std::cmp::Reverse(mark.len()));
        marks.dedup();
        Self(marks)
    }

    /// Returns the mark with which this text begins.
    pub fn first_of(&self, text: &str) -> Option<&str> {
        let may_begin = text.starts_with(['<', '[']);
        self.0.iter().map(String::as_str).find(|mark| may_begin && text.starts_with(mark))
    }

    /// Returns `true` if this text is a prefix of a mark.
    pub fn may_become_one(&self, text: &str) -> bool {
        let may_begin = text.is_empty() || text.starts_with(['<', '[']);
        may_begin && self.0.iter().any(|mark| mark.starts_with(text))
    }
}
