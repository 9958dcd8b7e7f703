/* The SDK for plugins in C: this header and the sources beside it; for tests, testing.h. You need not change them.
 * The structs lie in memory as the contract (wit/deps/shelly-plugin) says, so that nothing is copied.
 *
 * A function that can fail returns false, and has described the failure in its `error`. Texts have a length and need not end
 * with a zero byte. Memory is taken by shelly_alloc and given back when the call ends. */
#ifndef SHELLY_H
#define SHELLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define SHELLY_PRINTF(text, first) __attribute__((format(printf, text, first)))
#else
#define SHELLY_PRINTF(format, first)
#endif

/* --- texts, lists, optional values --- */

/* Text in UTF-8, or bytes. */
typedef struct { const char *ptr; size_t len; } shelly_str;

/* The text of a literal, and of a text that ends with a zero byte. */
#define SHELLY_STR(literal) ((shelly_str){"" literal, sizeof(literal) - 1})
shelly_str shelly_text_of(const char *text);
bool shelly_equal(shelly_str text, const char *other);
/* Returns the text without white space at its ends. */
shelly_str shelly_trimmed(shelly_str text);
/* Returns the text with a question mark for each byte that is no part of UTF-8: the host refuses others in texts. */
shelly_str shelly_valid(shelly_str text);
/* Returns formatted text; NULL and 0 if no memory is left. */
shelly_str shelly_format(const char *format, ...) SHELLY_PRINTF(1, 2);

typedef struct { const shelly_str *ptr; size_t len; } shelly_texts;
typedef struct { const int64_t *ptr; size_t len; } shelly_integers;
typedef struct { const double *ptr; size_t len; } shelly_numbers;

typedef struct { bool has; shelly_str value; } shelly_opt_str;
typedef struct { bool has; uint32_t value; } shelly_opt_u32;
typedef struct { bool has; int32_t value; } shelly_opt_s32;
typedef struct { bool has; uint64_t value; } shelly_opt_u64;
typedef struct { bool has; float value; } shelly_opt_f32;

/* Returns memory with zeros, aligned for every type; NULL if none is left. */
void *shelly_alloc(size_t size);
/* Returns a copy of values in a list; NULL if no memory is left. */
void *shelly_copy(const void *values, size_t size);
/* Returns a list of `len` elements with room for one more; NULL if no memory is left. */
void *shelly_grown(void *list, size_t len, size_t *room, size_t size);
/* Gives back all memory. The host ends the instance instead; tests call it. */
void shelly_free_all(void);

/* --- errors --- */

/* The kinds of errors; they decide what the host does next. */
enum {
    SHELLY_INVALID, /* the input is wrong: say what would be right, since the model reads the text */
    SHELLY_DENIED, /* a rule forbids the operation */
    SHELLY_NOT_FOUND,
    SHELLY_TOO_LARGE,
    SHELLY_EXHAUSTED, /* a budget is used up */
    SHELLY_RATE_LIMITED, /* another attempt may succeed */
    SHELLY_UNAVAILABLE, /* another attempt may succeed */
    SHELLY_TIMEOUT,
    SHELLY_OTHER,
};

/* The one error, in both directions. */
typedef struct {
    uint8_t kind;
    struct {
        shelly_str message;
        /* The milliseconds until another attempt, for SHELLY_RATE_LIMITED and SHELLY_UNAVAILABLE, if they are known. */
        shelly_opt_u64 after_ms;
    } is;
} shelly_error;

/* Describes a failure. Returns false, so that a function can end with `return shelly_fail(…)`. */
bool shelly_fail(shelly_error *error, int kind, const char *format, ...) SHELLY_PRINTF(3, 4);
bool shelly_no_memory(shelly_error *error);

/* --- messages, calls, requests and replies --- */

typedef struct { shelly_str key, value; } shelly_fact;
/* Facts that accompany the typed fields. Keys that begin with `shelly.` belong to the host. */
typedef struct { const shelly_fact *ptr; size_t len; } shelly_meta;
/* Returns the value of a key; without `has` if there is none. */
shelly_opt_str shelly_meta_get(shelly_meta meta, const char *key);

enum { SHELLY_SYSTEM, SHELLY_USER, SHELLY_ASSISTANT, SHELLY_TOOL_ROLE };

enum { SHELLY_BYTES, SHELLY_ATTACHMENT, SHELLY_URL };
typedef struct { uint8_t tag; shelly_str value; } shelly_source;
typedef struct { shelly_str media_type; shelly_opt_str name; shelly_source source; } shelly_media;
/* A value that has no type of its own here. Keep it and pass it on. */
typedef struct { shelly_str kind, json; } shelly_opaque;

enum { SHELLY_WRITE_FILE, SHELLY_REMOVE, SHELLY_MOVE_TO, SHELLY_COPY_TO, SHELLY_MAKE_FOLDER };
/* A proposed change of a file. `expected` is the SHA-256 of the content that it is based on, in hexadecimal. */
typedef struct {
    shelly_str path;
    shelly_opt_str expected;
    struct { uint8_t tag; shelly_str value; } act;
} shelly_file_change;

enum { SHELLY_CONTENT_TEXT, SHELLY_CONTENT_JSON, SHELLY_CONTENT_MEDIA, SHELLY_CONTENT_CHANGE, SHELLY_CONTENT_OTHER };
/* A part of a tool's result. */
typedef struct {
    uint8_t tag;
    union { shelly_str text, json; shelly_media media; shelly_file_change change; shelly_opaque other; } is;
} shelly_content;
typedef struct { const shelly_content *ptr; size_t len; } shelly_contents;

typedef struct {
    /* Unique within a session; it stays the same when the host repeats the call. */
    shelly_str id;
    shelly_str name;
    /* A JSON object. */
    shelly_str arguments;
    shelly_meta meta;
} shelly_tool_call;
typedef struct { shelly_str call_id; shelly_contents content; bool is_error; } shelly_tool_result;
typedef struct { shelly_str text; shelly_opt_str opaque; } shelly_thinking;

enum { SHELLY_TEXT_PART, SHELLY_MEDIA_PART, SHELLY_THINKING_PART, SHELLY_CALL_PART, SHELLY_RESULT_PART, SHELLY_OTHER_PART };
/* A part of a message. */
typedef struct {
    uint8_t tag;
    union {
        shelly_str text;
        shelly_media media;
        shelly_thinking thinking;
        shelly_tool_call call;
        shelly_tool_result result;
        shelly_opaque other;
    } is;
} shelly_part;
typedef struct { const shelly_part *ptr; size_t len; } shelly_parts;
/* Returns the text parts, concatenated. */
shelly_str shelly_text_in(shelly_parts parts);

typedef struct { shelly_str sender; uint8_t role; shelly_parts parts; shelly_meta meta; } shelly_message;
typedef struct { const shelly_message *ptr; size_t len; } shelly_messages;
/* Returns a message with one text; without parts if no memory is left. */
shelly_message shelly_text_message(int role, shelly_str text);
/* Returns true if the reply that a run middleware receives is an answer: not that of an agent that hands over or failed. */
bool shelly_is_answer(const shelly_message *message);

/* What a tool changes. SHELLY_PURE is for tools that only compute from their arguments. */
enum { SHELLY_READ_ONLY = 1, SHELLY_NON_DESTRUCTIVE = 2, SHELLY_IDEMPOTENT = 4, SHELLY_CLOSED_WORLD = 8, SHELLY_PURE = 15 };
typedef struct {
    shelly_str name, description, input_schema;
    shelly_opt_str output_schema;
    uint8_t hints;
    shelly_meta meta;
} shelly_tool_spec;
typedef struct { const shelly_tool_spec *ptr; size_t len; } shelly_tool_specs;

/* The tokens that a completion used. The four counts do not overlap. */
typedef struct { uint64_t input_tokens, output_tokens, cache_read_tokens, cache_write_tokens; } shelly_usage;

enum { SHELLY_END_TURN, SHELLY_TOOL_CALLS, SHELLY_MAX_TOKENS, SHELLY_STOP_SEQUENCE, SHELLY_REFUSAL, SHELLY_OTHER_STOP };
typedef struct { uint8_t tag; shelly_str other; } shelly_stop_reason;
enum { SHELLY_AUTO, SHELLY_NEVER, SHELLY_REQUIRED, SHELLY_ONE_TOOL };

typedef struct {
    shelly_messages messages;
    shelly_tool_specs tools;
    struct { uint8_t tag; shelly_str tool; } tool_choice;
    shelly_opt_u32 max_output_tokens;
    shelly_opt_f32 temperature;
    shelly_opt_str response_schema;
    shelly_meta meta;
} shelly_request;

typedef struct {
    shelly_parts parts;
    shelly_stop_reason stop;
    shelly_usage usage;
    shelly_str model;
    shelly_meta meta;
} shelly_completion;

/* A completion, or the error of the request. */
typedef struct { uint8_t is_error; union { shelly_completion completion; shelly_error error; } is; } shelly_reply;
typedef struct { bool has; shelly_reply value; } shelly_opt_reply;

/* A plugin's request for a model's reply. Without a model it goes to the agent's own. */
typedef struct { shelly_opt_str model; shelly_request request; } shelly_ask;
/* Returns a request with one message of a user; without messages if no memory is left. */
shelly_ask shelly_ask_text(shelly_str text);

/* The run that a call belongs to. */
typedef struct { shelly_str run, agent; uint32_t depth; } shelly_run_context;

/* --- JSON --- */

/* A text of JSON that grows. After a failure (no memory left, more than 16 MiB, more than 32 levels, a number that JSON does
 * not have) it stays as it is, and `failed` is true: it is checked once, when the JSON is used. Begin with {0}. */
typedef struct { char *ptr; size_t len, room; unsigned depth; bool failed; } shelly_json;
/* Values; within an object each comes after its key. */
void shelly_json_object(shelly_json *json);
void shelly_json_array(shelly_json *json);
/* Ends the object or array that began last; the caller says which. */
void shelly_json_end_object(shelly_json *json);
void shelly_json_end_array(shelly_json *json);
void shelly_json_key(shelly_json *json, const char *key);
void shelly_json_string(shelly_json *json, shelly_str text);
void shelly_json_integer(shelly_json *json, int64_t number);
void shelly_json_number(shelly_json *json, double number);
void shelly_json_bool(shelly_json *json, bool value);
void shelly_json_null(shelly_json *json);

enum {
    SHELLY_JSON_MISSING, SHELLY_JSON_NULL, SHELLY_JSON_BOOL, SHELLY_JSON_NUMBER, SHELLY_JSON_STRING, SHELLY_JSON_ARRAY,
    SHELLY_JSON_OBJECT,
};
/* A value within a text of JSON that was checked; its text is that part. */
typedef struct { shelly_str text; } shelly_value;
/* Checks a whole text: at most 64 levels deep. Names the place of a mistake. */
bool shelly_parse(shelly_str text, shelly_value *value, shelly_error *error);
int shelly_type_of(shelly_value value);
/* The value of a key; of the last one if there are several. Missing if there is none, or if it is no object. */
shelly_value shelly_field(shelly_value object, const char *key);
/* The next element, or the next key and its value (`key` may be NULL). Begin with *at = 0; false at the end. */
bool shelly_next(shelly_value container, size_t *at, shelly_value *key, shelly_value *value);
/* Return false for a value of another type, and for a string if no memory is left. */
bool shelly_as_string(shelly_value value, shelly_str *text);
bool shelly_as_integer(shelly_value value, int64_t *number);
bool shelly_as_number(shelly_value value, double *number);
bool shelly_as_bool(shelly_value value, bool *is_true);

/* --- typed arguments and params --- */

/* The type of an argument, and of the member that it is stored in. */
enum {
    SHELLY_TEXT, /* shelly_str */
    SHELLY_INTEGER, /* int64_t */
    SHELLY_NUMBER, /* double */
    SHELLY_BOOLEAN, /* bool */
    SHELLY_TEXTS, /* shelly_texts */
    SHELLY_INTEGERS, /* shelly_integers */
    SHELLY_NUMBERS, /* shelly_numbers */
    SHELLY_ANY, /* shelly_value */
};
/* An argument of a tool, or a param of the config. */
typedef struct {
    const char *name;
    uint8_t type;
    size_t offset;
    /* The model reads it. */
    const char *doc;
    /* A member that is missing keeps what it was. */
    bool is_optional;
    /* The bounds of a number, of the characters of a text, or of the elements of a list. */
    bool has_min, has_max;
    double min, max;
    /* The values that are allowed for a text, up to NULL. */
    const char *const *choices;
} shelly_arg;
/* Describes the member of a struct: SHELLY_ARG(struct my_args, text, SHELLY_TEXT, .doc = "…", .is_optional = true) */
#define SHELLY_ARG(args, member, type_, ...) {.name = #member, .type = type_, .offset = offsetof(args, member), __VA_ARGS__}
#define SHELLY_BETWEEN(low, high) .has_min = true, .min = low, .has_max = true, .max = high
#define SHELLY_COUNT(array) (sizeof(array) / sizeof *(array))

/* Reads the members of a JSON object into a struct. `what` names it in messages. */
bool shelly_read(shelly_str json, const shelly_arg *args, size_t count, void *into, const char *what, shelly_error *error);
/* Reads the params of the config into a struct, which has the defaults before. */
bool shelly_params(const shelly_arg *args, size_t count, void *into, shelly_error *error);
#define SHELLY_PARAMS(args, into, error) shelly_params(args, SHELLY_COUNT(args), into, error)

/* --- tools --- */

/* A call; `args` is the struct of the tool's arguments, which fit. */
typedef struct { shelly_str id, name; const void *args; } shelly_call;
/* The content of a result, which grows. Begin with {0}. */
typedef struct { shelly_content *ptr; size_t len, room; } shelly_result;
/* Add content to a result. They fail if no memory is left, and for JSON that failed. */
bool shelly_add_text(shelly_result *result, shelly_str text, shelly_error *error);
bool shelly_add_json(shelly_result *result, const shelly_json *json, shelly_error *error);
bool shelly_add(shelly_result *result, shelly_content content, shelly_error *error);

typedef struct {
    /* 1 to 64 of A-Z a-z 0-9 _ - */
    const char *name;
    /* Its purpose, when to use it, and what it returns. The model reads this text. */
    const char *description;
    const shelly_arg *args;
    size_t args_count, args_size;
    uint8_t hints;
    /* A name for people; NULL: none. */
    const char *title;
    bool (*run)(const shelly_call *call, shelly_result *result, shelly_error *error);
} shelly_tool;
/* The arguments of a tool: SHELLY_ARGS(struct my_args, my_list) in its initializer. */
#define SHELLY_ARGS(struct_, list) .args = list, .args_count = SHELLY_COUNT(list), .args_size = sizeof(struct_)

/* Calls a tool with arguments as a model writes them. */
bool shelly_call_tool(
    const shelly_tool *tool, shelly_str id, shelly_str arguments, shelly_result *result, shelly_error *error);
/* Returns the JSON Schema of a tool's arguments; NULL and 0 if no memory is left. */
shelly_str shelly_input_schema(const shelly_tool *tool);

#ifdef __wasm__
#define SHELLY_EXPORT(name) __attribute__((export_name("shelly:plugin/" name)))
#else
#define SHELLY_EXPORT(name)
#endif

void *shelly_run_specs(const shelly_tool *const *tools, size_t count);
void *shelly_run_call(const shelly_tool *const *tools, size_t count, shelly_tool_call call);
/* Offers tools to the model: SHELLY_TOOLS(&one, &two); */
#define SHELLY_TOOLS(...) \
    static const shelly_tool *const shelly_own_tools[] = {__VA_ARGS__}; \
    SHELLY_EXPORT("tool@0.2.0#specs") void *shelly_export_specs(void) { \
        return shelly_run_specs(shelly_own_tools, SHELLY_COUNT(shelly_own_tools)); \
    } \
    SHELLY_EXPORT("tool@0.2.0#call") void *shelly_export_call( \
        const char *id, size_t id_len, const char *name, size_t name_len, const char *arguments, size_t arguments_len, \
        const shelly_fact *meta, size_t meta_len) { \
        shelly_tool_call call = {{id, id_len}, {name, name_len}, {arguments, arguments_len}, {meta, meta_len}}; \
        return shelly_run_call(shelly_own_tools, SHELLY_COUNT(shelly_own_tools), call); \
    } \
    struct shelly_semicolon

#include "kinds.h"

/* --- the host: wit/plugin.wit imports each interface that is used, and says what plugin.toml must ask for --- */

enum { SHELLY_DEBUG, SHELLY_INFO, SHELLY_WARN, SHELLY_ERROR };
/* Writes to the log. What is printed is there, too. */
void shelly_log(int level, const char *format, ...) SHELLY_PRINTF(2, 3);
/* Reports that `done` of `total` is finished; a total of 0 is unknown, and the message may be NULL. */
void shelly_progress(double done, double total, const char *message);

/* A value of the store; its revision changes with every write. */
typedef struct { shelly_str value; uint64_t revision; } shelly_kv_entry;
typedef struct { bool has; shelly_kv_entry value; } shelly_opt_kv_entry;
bool shelly_kv_get(shelly_str key, shelly_opt_kv_entry *entry, shelly_error *error);
bool shelly_kv_set(shelly_str key, shelly_str value, shelly_error *error);
bool shelly_kv_remove(shelly_str key, shelly_error *error);
/* Writes a value if the key still has this revision; without one, if it does not exist. Otherwise *is_written is false. */
bool shelly_kv_swap(shelly_str key, shelly_opt_u64 expected, shelly_opt_str value, bool *is_written, shelly_error *error);
/* The keys after `after`, at most 1,000 a call. */
bool shelly_kv_keys(shelly_str prefix, shelly_opt_str after, shelly_texts *keys, shelly_error *error);

typedef struct {
    /* `GET` if it is empty. */
    shelly_str method, url;
    /* Names and values. */
    shelly_meta headers;
    /* The name of a credential in the grant: the plugin never sees its value. */
    shelly_opt_str credential;
    shelly_opt_u32 timeout_ms;
} shelly_http_request;
/* A response; its body is read separately, by its handle. */
typedef struct { uint16_t status; shelly_meta headers; uint32_t body; } shelly_http_response;
/* An empty body is none. */
bool shelly_http_send(
    const shelly_http_request *request, shelly_str body, shelly_http_response *response, shelly_error *error);
/* The next bytes of the body, at most 64 KiB; none at the end. */
bool shelly_http_read(const shelly_http_response *response, shelly_str *piece, shelly_error *error);
/* The rest of the body, at most so many bytes, and ends the connection. */
bool shelly_http_body(const shelly_http_response *response, size_t most, shelly_str *body, shelly_error *error);
/* Fails for a status that is no success, with what the server said, and ends the connection then. */
bool shelly_http_ok(const shelly_http_response *response, shelly_error *error);
void shelly_http_close(const shelly_http_response *response);

/* The milliseconds since 1970, and the nanoseconds since some moment. */
uint64_t shelly_now_ms(void);
uint64_t shelly_monotonic_ns(void);
/* At most 64 KiB. */
shelly_str shelly_random(uint32_t length);

/* The facts about a message of the chat; the traits are bits, from bit 0: calls, results, failed, media, note, edited. */
typedef struct {
    uint64_t id;
    uint8_t role, traits;
    shelly_opt_u64 group;
    uint32_t tokens;
} shelly_chat_entry;
typedef struct { const shelly_chat_entry *ptr; size_t len; } shelly_chat_entries;
uint32_t shelly_chat_length(void);
shelly_chat_entries shelly_chat_facts(uint32_t start, uint32_t end);
/* The whole messages that fit into 1 MiB, but at least one if there is one: call again for the rest. */
shelly_messages shelly_chat_read(uint32_t start, uint32_t end);
shelly_opt_u32 shelly_chat_find(uint64_t id);
shelly_texts shelly_chat_tools(void);

/* The request that a call of a model middleware handles. */
shelly_request shelly_outgoing(void);
/* At most 1 MiB of an attachment, from an offset. */
bool shelly_attachment(shelly_str id, uint64_t offset, uint32_t most, shelly_str *bytes, shelly_error *error);

typedef struct { shelly_str program; shelly_texts args; shelly_str input; shelly_opt_u32 timeout_ms; } shelly_command;
/* Without a status a signal has killed the program. */
typedef struct { shelly_opt_s32 status; shelly_str output, errors; bool is_cut; } shelly_program_output;
bool shelly_run_program(const shelly_command *command, shelly_program_output *output, shelly_error *error);

#endif
