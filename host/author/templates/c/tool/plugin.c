/* @{about} */
#include "shelly/shelly.h"

/* The arguments of the tool: the model reads the descriptions. */
struct count_args { shelly_str text; };
static const shelly_arg count_args[] = {
    SHELLY_ARG(struct count_args, text, SHELLY_TEXT, .doc = "The text to count in."),
};

static bool count(const shelly_call *call, shelly_result *result, shelly_error *error) {
    shelly_str text = ((const struct count_args *)call->args)->text;
    /* The model reads the error and tries again: say what would be right. */
    if (!text.len) return shelly_fail(error, SHELLY_INVALID, "`text` is empty; pass the text to count in");
    int64_t words = 0, lines = text.ptr[text.len - 1] != '\n', characters = 0;
    bool is_in_word = false;
    for (size_t at = 0; at < text.len; at++) {
        unsigned char byte = (unsigned char)text.ptr[at];
        bool is_space = byte == ' ' || (byte >= '\t' && byte <= '\r');
        words += !is_space && !is_in_word;
        is_in_word = !is_space;
        lines += byte == '\n';
        /* The other bytes of a character begin with the bits 10. */
        characters += (byte & 0xc0) != 0x80;
    }
    shelly_json json = {0};
    shelly_json_object(&json);
    shelly_json_key(&json, "words"), shelly_json_integer(&json, words);
    shelly_json_key(&json, "lines"), shelly_json_integer(&json, lines);
    shelly_json_key(&json, "characters"), shelly_json_integer(&json, characters);
    shelly_json_end_object(&json);
    return shelly_add_json(result, &json, error);
}

static const shelly_tool count_text = {
    .name = "@{tool}",
    .description = "Counts the words, lines and characters of a text.",
    SHELLY_ARGS(struct count_args, count_args),
    /* It only computes from its arguments. */
    .hints = SHELLY_PURE,
    .run = count,
};

SHELLY_TOOLS(&count_text);
