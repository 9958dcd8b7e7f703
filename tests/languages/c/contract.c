/* A tool of the contract in C, without a library and without the SDK. The layout of its values is that of the canonical ABI
 * for `wit/types.wit`; for more than this let `wit-bindgen c` write it. */
#include <stddef.h>
#include <stdint.h>

struct text { const char *at; size_t length; };
#define TEXT(literal) {literal, sizeof literal - 1}

/* Memory for what the host hands over. An instance lives for one call, so nothing is given back. */
extern unsigned char __heap_base;
static uintptr_t next = 0;

__attribute__((export_name("cabi_realloc")))
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    if (next == 0) next = (uintptr_t)&__heap_base;
    next = (next + align - 1) & ~(align - 1);
    uintptr_t at = next;
    next += size;
    while (next > __builtin_wasm_memory_size(0) << 16)
        if (__builtin_wasm_memory_grow(0, 1) == (size_t)-1) __builtin_trap();
    return (void *)at;
}

/* record tool-spec */
struct spec {
    struct text name, description, input_schema;
    uint32_t has_output_schema; struct text output_schema;
    uint32_t hints;
    void *meta; size_t meta_length;
};
static const struct spec specs[] = {{
    TEXT("count_words"), TEXT("Counts the words of a text."),
    TEXT("{\"type\":\"object\",\"properties\":{\"text\":{\"type\":\"string\"}},\"required\":[\"text\"]}"),
    0, {0, 0}, 0xf /* read-only, non-destructive, idempotent, closed-world */, 0, 0,
}};

/* result<list<tool-spec>, error> and result<list<content>, error>: of the cases only `ok` is used here. */
struct listed { uint32_t is_error, pad; const void *at; size_t length; uint32_t rest[6]; };

__attribute__((export_name("shelly:plugin/tool@0.1.0#specs")))
struct listed *tool_specs(void) {
    static struct listed result;
    result = (struct listed){0, 0, specs, 1};
    return &result;
}

/* variant content, its case `text` */
struct content { uint32_t kind; struct text text; uint32_t rest[9]; };

/* The arguments are `{"text":"…"}`: the host has checked that they are JSON. */
static uint32_t words_of(const char *json, size_t size) {
    size_t at = 0;
    while (at < size && json[at] != ':') at++;
    while (at < size && json[at] != '"') at++;
    uint32_t words = 0;
    int in_word = 0;
    for (at++; at < size && json[at] != '"'; at++) {
        int is_space = json[at] == ' ';
        if (json[at] == '\\' && ++at < size) is_space = json[at] == 'n' || json[at] == 't' || json[at] == 'r';
        words += !is_space && !in_word;
        in_word = !is_space;
    }
    return words;
}

__attribute__((export_name("shelly:plugin/tool@0.1.0#call")))
struct listed *tool_call(const char *id, size_t id_length, const char *name, size_t name_length, const char *json,
                         size_t size, void *meta, size_t meta_length) {
    static char digits[10];
    static struct content content;
    static struct listed result;
    size_t at = sizeof digits;
    uint32_t words = words_of(json, size);
    do digits[--at] = '0' + words % 10; while (words /= 10);
    content.text = (struct text){digits + at, sizeof digits - at};
    result = (struct listed){0, 0, &content, 1};
    return &result;
}
