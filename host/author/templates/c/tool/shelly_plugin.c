/* What shelly_plugin.h declares: values as they lie in memory by the canonical ABI. You need not change this file. */
#include "shelly_plugin.h"

#include <stdlib.h>
#include <string.h>

/* The host asks here for the memory that it writes values to. An instance lives for one call: nothing is given back. */
__attribute__((export_name("cabi_realloc")))
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size;
    (void)align;
    return realloc(old, size);
}

/* string, and any list */
struct pair { const void *at; size_t length; };

static struct pair pair_of(const char *text) { return (struct pair){text, strlen(text)}; }

static char *copy(const char *text, size_t length) {
    char *copy = malloc(length + 1);
    if (!copy) abort();
    if (length) memcpy(copy, text, length);
    copy[length] = 0;
    return copy;
}

/* record tool-spec */
struct spec {
    struct pair name, description, input_schema;
    uint32_t has_output_schema;
    struct pair output_schema;
    uint32_t hints;
    struct pair meta;
};

/* variant content: its largest case is a record of 32 bytes */
struct content { uint32_t tag; struct pair text; uint32_t rest[6]; };

/* result<list<…>, error>: the error begins at the same place, and its text eight bytes later. An error may have a number of
 * 64 bits, so all of it is aligned to eight bytes. */
struct result {
    _Alignas(8) uint32_t is_error;
    uint32_t pad;
    union {
        struct pair list;
        struct { uint32_t tag, pad; struct pair text; uint32_t rest[4]; } error;
    } value;
};

__attribute__((export_name("shelly:plugin/tool@0.1.0#specs")))
struct result *shelly_specs(void) {
    static struct result result;
    struct spec *specs = calloc(shelly_tools_count, sizeof *specs);
    if (!specs) abort();
    for (size_t i = 0; i < shelly_tools_count; i++) {
        specs[i].name = pair_of(shelly_tools[i].name);
        specs[i].description = pair_of(shelly_tools[i].description);
        specs[i].input_schema = pair_of(shelly_tools[i].input_schema);
        specs[i].hints = shelly_tools[i].hints;
    }
    result.value.list = (struct pair){specs, shelly_tools_count};
    return &result;
}

__attribute__((export_name("shelly:plugin/tool@0.1.0#call")))
struct result *shelly_call(const char *id, size_t id_length, const char *name, size_t name_length, const char *arguments,
                           size_t arguments_length, const void *meta, size_t meta_length) {
    static struct result result;
    static struct content content;
    struct shelly_call call = {copy(id, id_length), copy(name, name_length), copy(arguments, arguments_length)};
    struct shelly_reply reply = shelly_not_found("unknown tool");
    (void)meta;
    (void)meta_length;
    for (size_t i = 0; i < shelly_tools_count; i++)
        if (!strcmp(shelly_tools[i].name, call.name)) reply = shelly_tools[i].call(&call);
    result.is_error = reply.is_error;
    if (reply.is_error) {
        result.value.error.tag = reply.tag;
        result.value.error.text = pair_of(reply.text);
    } else {
        content.tag = reply.tag;
        content.text = pair_of(reply.text);
        result.value.list = (struct pair){&content, 1};
    }
    return &result;
}

/* The numbers of the cases in wit/deps/shelly-plugin/types.wit. */
struct shelly_reply shelly_text(const char *text) { return (struct shelly_reply){0, 0, text}; }
struct shelly_reply shelly_json(const char *json) { return (struct shelly_reply){0, 1, json}; }
struct shelly_reply shelly_invalid(const char *text) { return (struct shelly_reply){1, 0, text}; }
struct shelly_reply shelly_denied(const char *text) { return (struct shelly_reply){1, 1, text}; }
struct shelly_reply shelly_not_found(const char *text) { return (struct shelly_reply){1, 2, text}; }
struct shelly_reply shelly_failed(const char *text) { return (struct shelly_reply){1, 8, text}; }

__attribute__((import_module("shelly:plugin/log@0.1.0"), import_name("write")))
void shelly_log_write(uint32_t level, const char *message, size_t length);

void shelly_log(uint32_t level, const char *message) { shelly_log_write(level, message, strlen(message)); }

__attribute__((import_module("shelly:plugin/config@0.1.0"), import_name("get")))
void shelly_config_get(struct pair *result);

const char *shelly_params(void) {
    struct pair params;
    shelly_config_get(&params);
    return copy(params.at, params.length);
}

/* --- strings in JSON: the host has checked that the arguments are valid --- */

static const char *skip_space(const char *at) { return at + strspn(at, " \t\r\n"); }

/* Returns the end of the string that begins at a quote. */
static const char *end_of_string(const char *at) {
    for (at++; *at && *at != '"'; at++)
        if (*at == '\\' && at[1]) at++;
    return *at ? at + 1 : at;
}

/* Returns the end of a value. */
static const char *end_of_value(const char *at) {
    size_t depth = 0;
    do {
        at = skip_space(at);
        if (!*at) return at;
        if (*at == '"') at = end_of_string(at);
        else if (*at == '{' || *at == '[') depth++, at++;
        else if (*at == '}' || *at == ']') depth--, at++;
        else if (*at == ',' || *at == ':') at++;
        else at += strcspn(at, " \t\r\n,:{}[]\"");
    } while (depth > 0);
    return at;
}

static unsigned hex(const char *at) {
    char digits[5] = {0};
    memcpy(digits, at, 4);
    return (unsigned)strtoul(digits, 0, 16);
}

/* Returns the text of the string that begins at a quote, as UTF-8. It is never longer than it was in JSON. */
static char *decoded(const char *at) {
    const char *end = end_of_string(at);
    char *text = copy(at, (size_t)(end - at)), *to = text;
    for (at++; at < end - 1; at++) {
        if (*at != '\\') { *to++ = *at; continue; }
        at++;
        const char *from = "bfnrt", *found = strchr(from, *at);
        if (found && *found) { *to++ = "\b\f\n\r\t"[found - from]; continue; }
        if (*at != 'u') { *to++ = *at; continue; }
        unsigned code = hex(at + 1);
        at += 4;
        /* Two escapes make one character beyond U+FFFF. */
        if (code >= 0xd800 && code < 0xdc00 && at[1] == '\\' && at[2] == 'u') {
            code = 0x10000 + ((code - 0xd800) << 10) + (hex(at + 3) - 0xdc00);
            at += 6;
        }
        if (code < 0x80) *to++ = (char)code;
        else if (code < 0x800) *to++ = (char)(0xc0 | code >> 6), *to++ = (char)(0x80 | (code & 0x3f));
        else {
            if (code < 0x10000) *to++ = (char)(0xe0 | code >> 12);
            else *to++ = (char)(0xf0 | code >> 18), *to++ = (char)(0x80 | (code >> 12 & 0x3f));
            *to++ = (char)(0x80 | (code >> 6 & 0x3f)), *to++ = (char)(0x80 | (code & 0x3f));
        }
    }
    *to = 0;
    return text;
}

const char *shelly_string_argument(const struct shelly_call *call, const char *name) {
    const char *at = skip_space(call->arguments);
    if (*at != '{') return 0;
    at = skip_space(at + 1);
    while (*at == '"') {
        char *key = decoded(at);
        at = skip_space(end_of_string(at));
        if (*at != ':') return 0;
        at = skip_space(at + 1);
        if (!strcmp(key, name)) return *at == '"' ? decoded(at) : 0;
        at = skip_space(end_of_value(at));
        if (*at != ',') return 0;
        at = skip_space(at + 1);
    }
    return 0;
}
