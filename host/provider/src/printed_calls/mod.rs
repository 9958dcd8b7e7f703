//! Tool calls that a model printed as text, as happens on servers that do not look for them.
//!
//! A text contains calls if, from some position to its end, it consists of nothing else. That position is the beginning of
//! the text or of a line, or any position for marks that prose never contains (`<|…|>`). Text after the calls turns them
//! back into text: a call that is quoted or explained is not a call. Neither is a call without a mark whose preceding line
//! announces an example, nor one inside a fence that was opened before it. Only offered tools can be called. `server__` in
//! front of a name may be missing if exactly one tool fits.
//!
//! | form | of |
//! |---|---|
//! | `{"name": …, "arguments": {…}}`, `[{…}, …]`, `{"tool_calls": [{…}]}`, several in a row, each also in a fence | anyone |
//! | `<tool_call>{…}</tool_call>` | Hermes, Qwen, Granite |
//! | `<tool_call><function=name><parameter=key>value</parameter></function></tool_call>` | Qwen3-Coder |
//! | `<tool_call>name<arg_key>key</arg_key><arg_value>value</arg_value></tool_call>` | GLM |
//! | `<function=name>{…}</function>`, `<\|python_tag\|>{…}`, `[name(key="value")]` | Llama |
//! | `[TOOL_CALLS][{…}]`, `[TOOL_CALLS]name[ARGS]{…}` | Mistral |
//! | `<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>`, `<｜DSML｜invoke name="…">` | DeepSeek |
//! | `<start_function_call>call:name{key:<escape>value<escape>}<end_function_call>`, a fence `tool_code` | Gemma |
//! | `<\|channel\|>commentary to=functions.name <\|constrain\|>json<\|message\|>{…}<\|call\|>` | gpt-oss (harmony) |
//! | `<\|tool_call_begin\|>functions.name:0<\|tool_call_argument_begin\|>{…}<\|tool_call_end\|>` | Kimi |
//! | `<invoke name="…"><parameter name="…">value</parameter></invoke>` | MiniMax |

mod call_reader;
mod literal;
mod marks;
mod printed_arguments;
mod printed_call;
mod printed_call_filter;
mod scan;
#[cfg(test)]
mod tests;

pub use printed_call_filter::{PrintedCallFilter, PrintedTextRemainder};
