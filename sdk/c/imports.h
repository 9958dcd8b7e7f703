/* The functions of the host, as the canonical ABI has them: an optional value is two parameters, and a result of several
 * parts is written to the last one. Outside of a component testing.h defines them. */
#ifndef SHELLY_IMPORTS_H
#define SHELLY_IMPORTS_H

#include "shelly.h"

#ifdef __wasm__
#define SHELLY_IMPORT(interface, function) \
    __attribute__((import_module("shelly:plugin/" interface "@0.2.0"), import_name(function)))
#else
#define SHELLY_IMPORT(interface, function)
#endif

/* Results: a value, or an error. */
#define SHELLY_RESULT(type) struct { uint8_t is_error; union { type value; shelly_error error; } is; }
typedef struct { uint8_t is_error; union { shelly_error error; } is; } shelly_unit_result;
typedef SHELLY_RESULT(bool) shelly_bool_result;
typedef SHELLY_RESULT(shelly_str) shelly_str_result;
typedef SHELLY_RESULT(shelly_texts) shelly_texts_result;
typedef SHELLY_RESULT(shelly_opt_kv_entry) shelly_kv_result;
typedef SHELLY_RESULT(shelly_http_response) shelly_http_result;
typedef SHELLY_RESULT(shelly_program_output) shelly_program_result;

SHELLY_IMPORT("log", "write") void shelly_import_log(uint32_t level, const char *message, size_t length);
SHELLY_IMPORT("config", "get") void shelly_import_config(shelly_str *result);
SHELLY_IMPORT("progress", "report")
void shelly_import_progress(
    double done, uint32_t has_total, double total, uint32_t has_message, const char *message, size_t length);
/* The parts of a delta: address and length of a text, or the four counts of a usage. */
SHELLY_IMPORT("sink", "emit") void shelly_import_emit(uint32_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d);
SHELLY_IMPORT("outgoing", "get") void shelly_import_outgoing(shelly_request *result);
SHELLY_IMPORT("attachments", "read")
void shelly_import_attachment(const char *id, size_t id_len, uint64_t offset, uint32_t most, shelly_str_result *result);
SHELLY_IMPORT("chat", "length") uint32_t shelly_import_chat_length(void);
SHELLY_IMPORT("chat", "entries")
void shelly_import_chat_entries(uint32_t start, uint32_t end, shelly_chat_entries *result);
SHELLY_IMPORT("chat", "read") void shelly_import_chat_read(uint32_t start, uint32_t end, shelly_messages *result);
SHELLY_IMPORT("chat", "find") void shelly_import_chat_find(uint64_t id, shelly_opt_u32 *result);
SHELLY_IMPORT("chat", "tools") void shelly_import_chat_tools(shelly_texts *result);
SHELLY_IMPORT("kv", "get") void shelly_import_kv_get(const char *key, size_t key_len, shelly_kv_result *result);
SHELLY_IMPORT("kv", "set")
void shelly_import_kv_set(
    const char *key, size_t key_len, uint32_t has_value, const char *value, size_t value_len, shelly_unit_result *result);
SHELLY_IMPORT("kv", "compare-and-swap")
void shelly_import_kv_swap(
    const char *key, size_t key_len, uint32_t has_expected, uint64_t expected, uint32_t has_value, const char *value,
    size_t value_len, shelly_bool_result *result);
SHELLY_IMPORT("kv", "keys")
void shelly_import_kv_keys(
    const char *prefix, size_t prefix_len, uint32_t has_after, const char *after, size_t after_len,
    shelly_texts_result *result);
SHELLY_IMPORT("http", "send")
void shelly_import_http_send(
    const char *method, size_t method_len, const char *url, size_t url_len, const shelly_fact *headers, size_t headers_len,
    uint32_t has_credential, const char *credential, size_t credential_len, uint32_t has_timeout, uint32_t timeout_ms,
    const char *body, size_t body_len, shelly_http_result *result);
SHELLY_IMPORT("http", "[method]body.read")
void shelly_import_body_read(uint32_t body, uint32_t most, shelly_str_result *result);
SHELLY_IMPORT("http", "[resource-drop]body") void shelly_import_body_drop(uint32_t body);
SHELLY_IMPORT("clock", "now") uint64_t shelly_import_now(void);
SHELLY_IMPORT("clock", "monotonic") uint64_t shelly_import_monotonic(void);
SHELLY_IMPORT("random", "bytes") void shelly_import_random(uint32_t length, shelly_str *result);
SHELLY_IMPORT("process", "run")
void shelly_import_process(
    const char *program, size_t program_len, const shelly_str *args, size_t args_len, const char *input, size_t input_len,
    uint32_t has_timeout, uint32_t timeout_ms, shelly_program_result *result);

#endif
