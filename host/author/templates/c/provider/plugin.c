/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { shelly_str prefix; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, prefix, SHELLY_TEXT, .is_optional = true),
};

static uint64_t count_words(shelly_str text) {
    uint64_t words = 0;
    for (text = shelly_trimmed(text); text.len; text = shelly_trimmed(text), words++)
        while (text.len && *text.ptr != ' ' && !(*text.ptr >= '\t' && *text.ptr <= '\r')) text.ptr++, text.len--;
    return words;
}

static bool complete(shelly_str model, const shelly_request *request, shelly_completion *completion, shelly_error *error) {
    struct params params = {.prefix = {NULL, 0}};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    size_t at = request->messages.len;
    while (at && request->messages.ptr[at - 1].role != SHELLY_USER) at--;
    if (!at) return shelly_fail(error, SHELLY_INVALID, "the conversation has no message of a user");
    shelly_str said = shelly_text_in(request->messages.ptr[at - 1].parts);
    uint64_t words = count_words(said);
    /* Each piece is shown as soon as it is added. */
    shelly_stream reply = {0};
    if (!shelly_stream_text(&reply, params.prefix, error) || !shelly_stream_text(&reply, said, error)) return false;
    shelly_stream_usage(&reply, (shelly_usage){.input_tokens = words, .output_tokens = words});
    return shelly_stream_finish(&reply, SHELLY_END_TURN, model, completion, error);
}

SHELLY_PROVIDER(complete);
