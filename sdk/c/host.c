/* The functions of the host, as shelly.h declares them. */
#include "imports.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds: of an entry of the log, of a piece of a body, and of what a server says of a failure. */
enum { MOST_LOG = 4096, MOST_PIECE = 64 << 10, MOST_COMPLAINT = 300 };

#ifdef __wasm__
/* The host asks here for the memory that it writes values to. An instance lives for one call: nothing is given back. */
__attribute__((export_name("cabi_realloc"))) void *shelly_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)align;
    void *memory = shelly_alloc(size);
    /* An address that the host refuses. */
    if (!memory) return (void *)(uintptr_t)-16;
    if (old_size) memcpy(memory, old, old_size < size ? old_size : size);
    return memory;
}
#endif

void shelly_log(int level, const char *format, ...) {
    char message[MOST_LOG];
    va_list args;
    va_start(args, format);
    int length = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (length < 0) return;
    shelly_import_log((uint32_t)level, message, (size_t)length < sizeof message ? (size_t)length : sizeof message - 1);
}

bool shelly_params(const shelly_arg *args, size_t count, void *into, shelly_error *error) {
    shelly_str json;
    shelly_import_config(&json);
    return shelly_read(json, args, count, into, "params of the plugin", error);
}

void shelly_progress(double done, double total, const char *message) {
    shelly_import_progress(done, total > 0, total > 0 ? total : 0, message != NULL, message ? message : "",
                           message ? strlen(message) : 0);
}

/* --- the store --- */

bool shelly_kv_get(shelly_str key, shelly_opt_kv_entry *entry, shelly_error *error) {
    shelly_kv_result result;
    shelly_import_kv_get(key.ptr, key.len, &result);
    if (result.is_error) *error = result.is.error;
    else *entry = result.is.value;
    return !result.is_error;
}

static bool set(shelly_str key, bool has_value, shelly_str value, shelly_error *error) {
    shelly_unit_result result;
    shelly_import_kv_set(key.ptr, key.len, has_value, value.ptr, value.len, &result);
    if (result.is_error) *error = result.is.error;
    return !result.is_error;
}

bool shelly_kv_set(shelly_str key, shelly_str value, shelly_error *error) { return set(key, true, value, error); }
bool shelly_kv_remove(shelly_str key, shelly_error *error) { return set(key, false, (shelly_str){NULL, 0}, error); }

bool shelly_kv_swap(shelly_str key, shelly_opt_u64 expected, shelly_opt_str value, bool *is_written, shelly_error *error) {
    shelly_bool_result result;
    shelly_import_kv_swap(key.ptr, key.len, expected.has, expected.value, value.has, value.value.ptr, value.value.len,
                          &result);
    if (result.is_error) *error = result.is.error;
    else *is_written = result.is.value;
    return !result.is_error;
}

bool shelly_kv_keys(shelly_str prefix, shelly_opt_str after, shelly_texts *keys, shelly_error *error) {
    shelly_texts_result result;
    shelly_import_kv_keys(prefix.ptr, prefix.len, after.has, after.value.ptr, after.value.len, &result);
    if (result.is_error) *error = result.is.error;
    else *keys = result.is.value;
    return !result.is_error;
}

/* --- servers --- */

bool shelly_http_send(
    const shelly_http_request *request, shelly_str body, shelly_http_response *response, shelly_error *error) {
    shelly_http_result result;
    shelly_str method = request->method.len ? request->method : SHELLY_STR("GET");
    shelly_import_http_send(method.ptr, method.len, request->url.ptr, request->url.len, request->headers.ptr,
                            request->headers.len, request->credential.has, request->credential.value.ptr,
                            request->credential.value.len, request->timeout_ms.has, request->timeout_ms.value, body.ptr,
                            body.len, &result);
    if (result.is_error) *error = result.is.error;
    else *response = result.is.value;
    return !result.is_error;
}

bool shelly_http_read(const shelly_http_response *response, shelly_str *piece, shelly_error *error) {
    shelly_str_result result;
    shelly_import_body_read(response->body, MOST_PIECE, &result);
    if (result.is_error) *error = result.is.error;
    else *piece = result.is.value;
    return !result.is_error;
}

void shelly_http_close(const shelly_http_response *response) { shelly_import_body_drop(response->body); }

/* Reads the body until it ends or has more than so many bytes. */
static bool read_body(const shelly_http_response *response, size_t most, shelly_str *body, shelly_error *error) {
    char *whole = NULL;
    size_t length = 0, room = 0;
    shelly_str piece;
    while (length <= most) {
        if (!shelly_http_read(response, &piece, error)) return false;
        if (!piece.len) break;
        if (length + piece.len > room) {
            size_t larger = (length + piece.len) * 2;
            char *moved = shelly_alloc(larger);
            if (!moved) return shelly_no_memory(error);
            if (length) memcpy(moved, whole, length);
            whole = moved;
            room = larger;
        }
        memcpy(whole + length, piece.ptr, piece.len);
        length += piece.len;
    }
    *body = (shelly_str){whole, length};
    return true;
}

bool shelly_http_body(const shelly_http_response *response, size_t most, shelly_str *body, shelly_error *error) {
    bool is_read = read_body(response, most, body, error);
    shelly_http_close(response);
    if (is_read && body->len > most)
        return shelly_fail(error, SHELLY_TOO_LARGE, "the server sent a body of more than %zu bytes", most);
    return is_read;
}

static int kind_of(int status) {
    switch (status) {
    case 401: case 403: case 407: return SHELLY_DENIED;
    case 404: case 410: return SHELLY_NOT_FOUND;
    case 402: return SHELLY_EXHAUSTED;
    case 408: case 409: case 425: return SHELLY_UNAVAILABLE;
    case 413: return SHELLY_TOO_LARGE;
    case 429: return SHELLY_RATE_LIMITED;
    case 501: case 505: return SHELLY_OTHER;
    default: return status >= 500 ? SHELLY_UNAVAILABLE : status >= 400 ? SHELLY_INVALID : SHELLY_OTHER;
    }
}

bool shelly_http_ok(const shelly_http_response *response, shelly_error *error) {
    if (response->status >= 200 && response->status < 300) return true;
    shelly_str said = {NULL, 0};
    shelly_error unread;
    bool is_read = read_body(response, MOST_COMPLAINT, &said, &unread);
    shelly_http_close(response);
    /* An HTML page explains nothing. Control characters do not reach a terminal. */
    char text[MOST_COMPLAINT];
    size_t length = 0;
    if (is_read && said.len && *said.ptr != '<')
        for (; length < said.len && length < MOST_COMPLAINT; length++)
            text[length] = (unsigned char)said.ptr[length] < ' ' || said.ptr[length] == 0x7f ? ' ' : said.ptr[length];
    shelly_str valid = shelly_valid((shelly_str){text, length});
    shelly_fail(error, kind_of(response->status), "the server answered %d%s%.*s", response->status, valid.len ? ": " : "",
                (int)valid.len, valid.len ? valid.ptr : "");
    for (size_t i = 0; i < response->headers.len; i++) {
        bool is_retried = error->kind == SHELLY_RATE_LIMITED || error->kind == SHELLY_UNAVAILABLE;
        shelly_str value = response->headers.ptr[i].value;
        if (!is_retried || !value.len || value.len > 9) continue;
        if (!shelly_equal(response->headers.ptr[i].key, "retry-after")) continue;
        char digits[10] = {0};
        memcpy(digits, value.ptr, value.len);
        if (strspn(digits, "0123456789") == value.len)
            error->is.after_ms = (shelly_opt_u64){true, strtoull(digits, NULL, 10) * 1000};
    }
    return false;
}

/* --- the rest --- */

uint64_t shelly_now_ms(void) { return shelly_import_now(); }
uint64_t shelly_monotonic_ns(void) { return shelly_import_monotonic(); }

shelly_str shelly_random(uint32_t length) {
    shelly_str bytes;
    shelly_import_random(length, &bytes);
    return bytes;
}

uint32_t shelly_chat_length(void) { return shelly_import_chat_length(); }

shelly_chat_entries shelly_chat_facts(uint32_t start, uint32_t end) {
    shelly_chat_entries entries;
    shelly_import_chat_entries(start, end, &entries);
    return entries;
}

shelly_messages shelly_chat_read(uint32_t start, uint32_t end) {
    shelly_messages messages;
    shelly_import_chat_read(start, end, &messages);
    return messages;
}

shelly_opt_u32 shelly_chat_find(uint64_t id) {
    shelly_opt_u32 position;
    shelly_import_chat_find(id, &position);
    return position;
}

shelly_texts shelly_chat_tools(void) {
    shelly_texts names;
    shelly_import_chat_tools(&names);
    return names;
}

shelly_request shelly_outgoing(void) {
    shelly_request request;
    shelly_import_outgoing(&request);
    return request;
}

bool shelly_attachment(shelly_str id, uint64_t offset, uint32_t most, shelly_str *bytes, shelly_error *error) {
    shelly_str_result result;
    shelly_import_attachment(id.ptr, id.len, offset, most, &result);
    if (result.is_error) *error = result.is.error;
    else *bytes = result.is.value;
    return !result.is_error;
}

bool shelly_run_program(const shelly_command *command, shelly_program_output *output, shelly_error *error) {
    shelly_program_result result;
    shelly_import_process(command->program.ptr, command->program.len, command->args.ptr, command->args.len,
                          command->input.ptr, command->input.len, command->timeout_ms.has, command->timeout_ms.value,
                          &result);
    if (result.is_error) *error = result.is.error;
    else *output = result.is.value;
    return !result.is_error;
}
