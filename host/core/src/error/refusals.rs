//! The words in which servers refuse a request that does not fit into the window of its model.

use std::sync::LazyLock;

use regex::Regex;

/// Returns `true` if a server's message says that a request does not fit into the model's window.
pub fn speaks_of_window(message: &str) -> bool {
    static SPEAKS: LazyLock<Regex> = LazyLock::new(|| {
        // OpenAI, vLLM, SGLang, OpenRouter, DeepSeek, Mistral: "context length"; llama.cpp: "context size"; OpenAI's Responses:
        // "context window"; Anthropic: "prompt is too long", "exceed context limit"; xAI: "maximum prompt length"; Google:
        // "maximum number of tokens allowed"; Bedrock: "input is too long"; Cohere: "too many tokens: … cannot exceed".
        Regex::new(
            "(?i)context[ _](length|size|window|limit)|prompt (is )?too long|maximum prompt length|input is too long\
             |maximum number of tokens allowed|maximum input length|too many tokens: ",
        )
        .expect("it is a regular expression")
    });
    SPEAKS.is_match(message)
}

/// Finds the window that a refusal names.
pub fn window_named_in(message: &str) -> Option<u64> {
    static NAMES: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)
            (?: maximum\ (?:context|prompt|input)\ length\ (?:is|of) | context\ (?:length|window|size|limit)\ (?:is|of)(?:\ only)?
              | context\ size | tokens\ allowed | cannot\ exceed | n_ctx | > )
            [\s:=(]* ([0-9][0-9,_]*)
            | ([0-9][0-9,_]*)\ maximum\ context
            ",
        )
        .expect("it is a regular expression")
    });
    let mut named = NAMES.captures_iter(message).filter_map(|found| {
        let digits = found.get(1).or(found.get(2))?.as_str();
        digits.replace([',', '_'], "").parse().ok()
    });
    named.find(|tokens| *tokens > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_of_all_vendors_name_the_window() {
        for (message, named) in [
            (
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 9042 tokens.",
                Some(8_192),
            ),
            (
                "This model's maximum context length is 4096 tokens. However, you requested 5096 tokens (4096 in the \
                 messages, 1000 in the completion).",
                Some(4_096),
            ),
            ("Your input exceeds the context window of this model. Please adjust your input and try again.", None),
            ("prompt is too long: 210431 tokens > 200000 maximum", Some(200_000)),
            ("input length and `max_tokens` exceed context limit: 199000 + 8000 > 200000, decrease", Some(200_000)),
            (
                "The input token count (1500000) exceeds the maximum number of tokens allowed (1048576).",
                Some(1_048_576),
            ),
            ("This model's maximum prompt length is 131072 but the request contains 140001 tokens.", Some(131_072)),
            ("request (5210 tokens) exceeds the available context size (4096 tokens), try increasing it", Some(4_096)),
            ("the request exceeds the available context size, try increasing it (n_ctx 2048)", Some(2_048)),
            (
                "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context \
                 length of only 4096 tokens, which is not enough.",
                Some(4_096),
            ),
            ("Prompt contains 40,123 tokens, too large for model with 32,768 maximum context length", Some(32_768)),
            ("too many tokens: total number of tokens in the prompt cannot exceed 4081.", Some(4_081)),
            ("Please reduce the length of the messages (context length exceeded)", None),
        ] {
            assert!(speaks_of_window(message), "{message}");
            assert_eq!(window_named_in(message), named, "{message}");
        }
    }

    #[test]
    fn other_refusals_say_nothing_of_the_window() {
        for message in [
            "max_tokens is too large: 100000. This model supports at most 4096 completion tokens",
            "Rate limit reached: too many tokens per minute, limit 30000",
            "the reply has more than 67108864 bytes",
            "invalid schema for function 'a': type must be object",
            "127.0.0.1:8080 answered 413 Payload Too Large",
        ] {
            assert!(!speaks_of_window(message), "{message}");
        }
    }
}
