/* A tool that counts the words, lines and characters of a text. */
#include <stdio.h>
#include <string.h>

#include "shelly_plugin.h"
#include "text_counts.h"

static struct shelly_reply call(const struct shelly_call *call) {
    const char *text = shelly_string_argument(call, "text");
    if (!text || !*text) {
        /* The model reads the error and tries again: say what would be right. */
        return shelly_invalid("`text` must be a string that is not empty");
    }
    struct text_counts counts = count_text(text, strlen(text));
    static char json[100];
    snprintf(json, sizeof json, "{\"words\":%u,\"lines\":%u,\"characters\":%u}", (unsigned)counts.words,
             (unsigned)counts.lines, (unsigned)counts.characters);
    return shelly_json(json);
}

const struct shelly_tool shelly_tools[] = {{
    .name = "@{tool}",
    .description = "Counts the words, lines and characters of a text.",
    /* The model reads the descriptions. */
    .input_schema = "{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\","
                    "\"description\":\"The text to count in.\"}},\"required\":[\"text\"]}",
    /* It only computes from its arguments. */
    .hints = SHELLY_READ_ONLY | SHELLY_NON_DESTRUCTIVE | SHELLY_IDEMPOTENT | SHELLY_CLOSED_WORLD,
    .call = call,
}};
const size_t shelly_tools_count = sizeof shelly_tools / sizeof *shelly_tools;
