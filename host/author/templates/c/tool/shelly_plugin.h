/* The interfaces `tool`, `log` and `config` of the contract (wit/deps/shelly-plugin) for C. You need not change it. */
#ifndef SHELLY_PLUGIN_H
#define SHELLY_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

/* What a tool changes. */
enum { SHELLY_READ_ONLY = 1, SHELLY_NON_DESTRUCTIVE = 2, SHELLY_IDEMPOTENT = 4, SHELLY_CLOSED_WORLD = 8 };

/* A model's request to run a tool. The texts end with a zero byte. */
struct shelly_call {
    const char *id, *name;
    /* A JSON object. */
    const char *arguments;
};

/* The outcome of a call; the functions below make one. Its text must outlive the function that returns it. */
struct shelly_reply {
    uint8_t is_error, tag;
    const char *text;
};

/* Text for the model, or structured data. */
struct shelly_reply shelly_text(const char *text);
struct shelly_reply shelly_json(const char *json);
/* The input is wrong: say what would be right. */
struct shelly_reply shelly_invalid(const char *text);
/* A rule forbids the operation; the named thing does not exist; any other failure. */
struct shelly_reply shelly_denied(const char *text);
struct shelly_reply shelly_not_found(const char *text);
struct shelly_reply shelly_failed(const char *text);

/* A tool that a model can call. */
struct shelly_tool {
    /* 1 to 64 of A-Z a-z 0-9 _ - */
    const char *name;
    /* Its purpose, when to use it, and what it returns. The model reads this text. */
    const char *description;
    /* JSON Schema of the arguments; its type is object. */
    const char *input_schema;
    uint8_t hints;
    struct shelly_reply (*call)(const struct shelly_call *call);
};

/* Your tools: define both. */
extern const struct shelly_tool shelly_tools[];
extern const size_t shelly_tools_count;

/* Returns the argument of this name; NULL if it is missing or no string. */
const char *shelly_string_argument(const struct shelly_call *call, const char *name);

/* Writes an entry to the host's log. What is printed gets there too. */
enum { SHELLY_DEBUG, SHELLY_INFO, SHELLY_WARN, SHELLY_ERROR };
void shelly_log(uint32_t level, const char *message);

/* Returns the params of the config, a JSON object. */
const char *shelly_params(void);

#endif
