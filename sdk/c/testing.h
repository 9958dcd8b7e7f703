/* A host for unit tests with plain cc: no component is built, and nothing is reached. A test is one file:
 *
 *     #include "../plugin.c"
 *     #include "../shelly/testing.h"
 *
 *     static void title_is_read(void) {
 *         shelly_host_begin();
 *         shelly_host.params = "{\"turns\": 3}";
 *         SHELLY_CHECK(…);
 *     }
 *
 *     int main(void) { return SHELLY_RUN_TESTS(SHELLY_TEST(title_is_read)); }
 *
 * A test that calls the host without shelly_host_begin fails, and says which function it was. */
#ifndef SHELLY_TESTING_H
#define SHELLY_TESTING_H

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "imports.h"

/* Bounds of what one test prepares and says. */
enum { SHELLY_MOST_PREPARED = 64 };

/* A response of a server. Its body arrives in pieces of `piece` bytes; 0: at once. */
typedef struct {
    const char *method, *url;
    int status;
    const char *body;
    size_t piece;
    shelly_fact header;
    /* An error in place of the response. */
    const shelly_error *error;
} shelly_test_response;
/* What a test prepares, and what the plugin has said. */
typedef struct {
    bool is_begun;
    const char *params;
    shelly_messages chat;
    shelly_texts tools;
    const shelly_request *outgoing;
    shelly_str attachment;
    uint64_t now_ms, monotonic_ns;
    /* The outcome of each run of a program. */
    shelly_program_output output;

    shelly_test_response responses[SHELLY_MOST_PREPARED];
    size_t responses_len;
    struct { shelly_str method, url, body, credential; } requests[SHELLY_MOST_PREPARED];
    size_t requests_len;
    struct { shelly_str key, value; uint64_t revision; } stored[SHELLY_MOST_PREPARED];
    size_t stored_len;
    uint64_t revisions;
    struct { int level; char text[256]; } log[SHELLY_MOST_PREPARED];
    size_t log_len;
    double progress;
    char emitted[1024];
    size_t emitted_len;
    shelly_usage usage;
    shelly_command commands[SHELLY_MOST_PREPARED];
    size_t commands_len;

    /* The bodies of responses that were sent, and how much of each was read. */
    struct { shelly_str text; size_t read, piece; } bodies[SHELLY_MOST_PREPARED];
    size_t bodies_len;
} shelly_test_host;
static shelly_test_host shelly_host;

static const char *shelly_test_name;
static bool shelly_test_has_failed;
static jmp_buf shelly_test_end;

/* Notes a failure with its place; the test goes on. */
static inline void shelly_test_failed(const char *file, int line, const char *says) {
    fprintf(stderr, "%s:%d: %s: %s\n", file, line, shelly_test_name, says);
    shelly_test_has_failed = true;
}

/* Ends the test as failed. */
static _Noreturn void shelly_test_abort(const char *says) {
    fprintf(stderr, "%s: %s\n", shelly_test_name, says);
    shelly_test_has_failed = true;
    longjmp(shelly_test_end, 1);
}

#define SHELLY_CHECK(condition) \
    do { if (!(condition)) shelly_test_failed(__FILE__, __LINE__, #condition); } while (0)

/* Checks that a text is this one. */
#define SHELLY_CHECK_TEXT(text, wanted) \
    do { \
        shelly_str got_ = (text); \
        if (!shelly_equal(got_, wanted)) { \
            fprintf(stderr, "got: %.*s\n", (int)got_.len, got_.len ? got_.ptr : ""); \
            shelly_test_failed(__FILE__, __LINE__, "expected: " wanted); \
        } \
    } while (0)

/* Checks that a text contains this one. */
#define SHELLY_CHECK_CONTAINS(text, part) \
    do { \
        shelly_str got_ = shelly_format("%.*s", (int)(text).len, (text).len ? (text).ptr : ""); \
        if (!got_.ptr || !strstr(got_.ptr, part)) { \
            fprintf(stderr, "got: %s\n", got_.ptr ? got_.ptr : ""); \
            shelly_test_failed(__FILE__, __LINE__, "expected in it: " part); \
        } \
    } while (0)

typedef struct { const char *name; void (*run)(void); } shelly_test;

/* Runs tests one after the other. Returns the exit code of the program. */
static inline int shelly_run_tests(const shelly_test *tests, size_t count) {
    /* Not changed between setjmp and longjmp, but compilers cannot know it. */
    static size_t failed, at;
    for (failed = at = 0; at < count; at++) {
        memset(&shelly_host, 0, sizeof shelly_host);
        shelly_test_name = tests[at].name;
        shelly_test_has_failed = false;
        if (!setjmp(shelly_test_end)) tests[at].run();
        shelly_free_all();
        failed += shelly_test_has_failed;
        printf("%s %s\n", shelly_test_has_failed ? "FAILED" : "ok", tests[at].name);
    }
    printf("%zu tests, %zu failed\n", count, failed);
    return failed || !count;
}

#define SHELLY_TEST(function) {#function, function}
/* SHELLY_RUN_TESTS(SHELLY_TEST(one), SHELLY_TEST(another)) */
#define SHELLY_RUN_TESTS(...) \
    shelly_run_tests((const shelly_test[]){__VA_ARGS__}, SHELLY_COUNT(((const shelly_test[]){__VA_ARGS__})))

/* Begins with a host that has nothing, on 2025-01-01. The next test begins without one. */
static inline void shelly_host_begin(void) {
    shelly_host.is_begun = true;
    shelly_host.now_ms = 1735689600000;
}

/* Ends the test if there is no host. */
static inline void shelly_test_needs_host(const char *function) {
    if (shelly_host.is_begun) return;
    char says[200];
    snprintf(says, sizeof says, "%s calls the host, which does not exist in a unit test; begin with shelly_host_begin()",
             function);
    shelly_test_abort(says);
}

/* Ends the test if nothing is left of what it prepared. */
static inline void shelly_test_needs_room(size_t len, const char *what) {
    if (len == SHELLY_MOST_PREPARED) shelly_test_abort(what);
}

/* Prepares a response; each answers one request with its method and URL. */
static inline void shelly_host_respond(shelly_test_response response) {
    shelly_test_needs_room(shelly_host.responses_len, "a test has at most 64 responses");
    shelly_host.responses[shelly_host.responses_len++] = response;
}

/* --- the imports --- */

void shelly_import_log(uint32_t level, const char *message, size_t length) {
    if (!shelly_host.is_begun) fprintf(stderr, "%.*s\n", (int)length, message);
    if (shelly_host.log_len == SHELLY_MOST_PREPARED) return;
    shelly_host.log[shelly_host.log_len].level = (int)level;
    char *text = shelly_host.log[shelly_host.log_len++].text;
    snprintf(text, sizeof shelly_host.log->text, "%.*s", (int)length, message);
}

void shelly_import_config(shelly_str *result) {
    *result = shelly_text_of(shelly_host.params ? shelly_host.params : "{}");
}

void shelly_import_progress(
    double done, uint32_t has_total, double total, uint32_t has_message, const char *message, size_t length) {
    (void)has_total, (void)total, (void)has_message, (void)message, (void)length;
    shelly_host.progress = done;
}

void shelly_import_emit(uint32_t kind, uint64_t a, uint64_t b, uint64_t c, uint64_t d) {
    if (kind == 3) shelly_host.usage = (shelly_usage){a, b, c, d};
    if (kind != 0 || b > sizeof shelly_host.emitted - shelly_host.emitted_len) return;
    memcpy(shelly_host.emitted + shelly_host.emitted_len, (const char *)(uintptr_t)a, (size_t)b);
    shelly_host.emitted_len += (size_t)b;
}

void shelly_import_outgoing(shelly_request *result) {
    shelly_test_needs_host("shelly_outgoing");
    if (!shelly_host.outgoing) shelly_test_abort("no request is set; set shelly_host.outgoing");
    *result = *shelly_host.outgoing;
}

void shelly_import_attachment(const char *id, size_t id_len, uint64_t offset, uint32_t most, shelly_str_result *result) {
    (void)id, (void)id_len;
    shelly_test_needs_host("shelly_attachment");
    shelly_str whole = shelly_host.attachment;
    size_t begin = offset < whole.len ? (size_t)offset : whole.len;
    size_t left = whole.len - begin;
    *result = (shelly_str_result){.is = {.value = {whole.ptr + begin, left < most ? left : most}}};
}

uint32_t shelly_import_chat_length(void) {
    shelly_test_needs_host("shelly_chat_length");
    return (uint32_t)shelly_host.chat.len;
}

/* Returns the end of a range of the chat, and moves its start into it. */
static uint32_t shelly_test_within(uint32_t *start, uint32_t end) {
    uint32_t length = (uint32_t)shelly_host.chat.len;
    if (end > length) end = length;
    if (*start > end) *start = end;
    return end;
}

void shelly_import_chat_entries(uint32_t start, uint32_t end, shelly_chat_entries *result) {
    shelly_test_needs_host("shelly_chat_facts");
    end = shelly_test_within(&start, end);
    shelly_chat_entry *entries = shelly_alloc((end - start) * sizeof *entries);
    if (!entries) shelly_test_abort("no memory is left");
    for (uint32_t i = start; i < end; i++) {
        /* The id of a message is its position and 1. */
        entries[i - start] = (shelly_chat_entry){.id = i + 1, .role = shelly_host.chat.ptr[i].role};
        /* About four bytes a token, as the host estimates text. */
        entries[i - start].tokens = (uint32_t)(shelly_text_in(shelly_host.chat.ptr[i].parts).len / 4);
    }
    *result = (shelly_chat_entries){entries, end - start};
}

void shelly_import_chat_read(uint32_t start, uint32_t end, shelly_messages *result) {
    shelly_test_needs_host("shelly_chat_read");
    end = shelly_test_within(&start, end);
    *result = (shelly_messages){start < end ? shelly_host.chat.ptr + start : NULL, end - start};
}

void shelly_import_chat_find(uint64_t id, shelly_opt_u32 *result) {
    shelly_test_needs_host("shelly_chat_find");
    *result = (shelly_opt_u32){id >= 1 && id <= shelly_host.chat.len, (uint32_t)(id - 1)};
}

void shelly_import_chat_tools(shelly_texts *result) {
    shelly_test_needs_host("shelly_chat_tools");
    *result = shelly_host.tools;
}

/* Returns the position of a key; the number of keys if it is not there. */
static inline size_t shelly_test_find(const char *key, size_t key_len) {
    size_t at = 0;
    for (; at < shelly_host.stored_len; at++) {
        shelly_str there = shelly_host.stored[at].key;
        if (there.len == key_len && !memcmp(there.ptr, key, key_len)) break;
    }
    return at;
}

/* Returns false, and describes it, for a key that the host refuses. */
static inline bool shelly_test_is_key(size_t key_len, uint8_t *is_error, shelly_error *error) {
    *is_error = key_len < 1 || key_len > 512;
    if (*is_error) shelly_fail(error, SHELLY_INVALID, "a key has 1 to 512 bytes, this one %zu", key_len);
    return !*is_error;
}

void shelly_import_kv_get(const char *key, size_t key_len, shelly_kv_result *result) {
    shelly_test_needs_host("shelly_kv_get");
    *result = (shelly_kv_result){.is_error = 0};
    if (!shelly_test_is_key(key_len, &result->is_error, &result->is.error)) return;
    size_t at = shelly_test_find(key, key_len);
    if (at == shelly_host.stored_len) return;
    result->is.value.has = true;
    result->is.value.value = (shelly_kv_entry){shelly_host.stored[at].value, shelly_host.stored[at].revision};
}

/* Writes or removes a value. */
static inline void shelly_test_put(const char *key, size_t key_len, bool has_value, const char *value, size_t value_len) {
    size_t at = shelly_test_find(key, key_len);
    if (!has_value) {
        if (at < shelly_host.stored_len) shelly_host.stored[at] = shelly_host.stored[--shelly_host.stored_len];
        return;
    }
    if (at == shelly_host.stored_len) {
        shelly_test_needs_room(at, "the store of a test has at most 64 keys");
        shelly_host.stored_len++;
    }
    char *copied_key = shelly_copy(key, key_len), *copied = shelly_copy(value, value_len);
    if (!copied_key || !copied) shelly_test_abort("no memory is left");
    shelly_host.stored[at].key = (shelly_str){copied_key, key_len};
    shelly_host.stored[at].value = (shelly_str){copied, value_len};
    shelly_host.stored[at].revision = ++shelly_host.revisions;
}

void shelly_import_kv_set(
    const char *key, size_t key_len, uint32_t has_value, const char *value, size_t value_len, shelly_unit_result *result) {
    shelly_test_needs_host("shelly_kv_set");
    *result = (shelly_unit_result){.is_error = 0};
    if (!shelly_test_is_key(key_len, &result->is_error, &result->is.error)) return;
    if (value_len > 1 << 20) {
        result->is_error = 1;
        shelly_fail(&result->is.error, SHELLY_TOO_LARGE, "the value has %zu bytes, the bound is %d", value_len, 1 << 20);
        return;
    }
    shelly_test_put(key, key_len, has_value, value, value_len);
}

void shelly_import_kv_swap(
    const char *key, size_t key_len, uint32_t has_expected, uint64_t expected, uint32_t has_value, const char *value,
    size_t value_len, shelly_bool_result *result) {
    shelly_test_needs_host("shelly_kv_swap");
    *result = (shelly_bool_result){.is_error = 0};
    if (!shelly_test_is_key(key_len, &result->is_error, &result->is.error)) return;
    size_t at = shelly_test_find(key, key_len);
    bool is_there = at < shelly_host.stored_len;
    bool fits = has_expected ? is_there && shelly_host.stored[at].revision == expected : !is_there;
    result->is.value = fits;
    if (fits) shelly_test_put(key, key_len, has_value, value, value_len);
}

void shelly_import_kv_keys(
    const char *prefix, size_t prefix_len, uint32_t has_after, const char *after, size_t after_len,
    shelly_texts_result *result) {
    shelly_test_needs_host("shelly_kv_keys");
    shelly_str *keys = shelly_alloc(SHELLY_MOST_PREPARED * sizeof *keys);
    size_t len = 0;
    if (!keys) shelly_test_abort("no memory is left");
    for (size_t i = 0; i < shelly_host.stored_len; i++) {
        shelly_str key = shelly_host.stored[i].key;
        size_t common = key.len < after_len ? key.len : after_len;
        int order = has_after && common ? memcmp(key.ptr, after, common) : 0;
        bool is_after = !has_after || order > 0 || (!order && key.len > after_len);
        if (!is_after || key.len < prefix_len || (prefix_len && memcmp(key.ptr, prefix, prefix_len))) continue;
        size_t at = len++;
        /* In byte order. */
        for (; at; at--) {
            size_t shorter = key.len < keys[at - 1].len ? key.len : keys[at - 1].len;
            int before = memcmp(key.ptr, keys[at - 1].ptr, shorter);
            if (before > 0 || (!before && key.len > keys[at - 1].len)) break;
            keys[at] = keys[at - 1];
        }
        keys[at] = key;
    }
    *result = (shelly_texts_result){.is = {.value = {keys, len}}};
}

void shelly_import_http_send(
    const char *method, size_t method_len, const char *url, size_t url_len, const shelly_fact *headers, size_t headers_len,
    uint32_t has_credential, const char *credential, size_t credential_len, uint32_t has_timeout, uint32_t timeout_ms,
    const char *body, size_t body_len, shelly_http_result *result) {
    (void)headers, (void)headers_len, (void)has_timeout, (void)timeout_ms;
    shelly_test_needs_host("shelly_http_send");
    shelly_test_needs_room(shelly_host.requests_len, "a test sends at most 64 requests");
    size_t sent = shelly_host.requests_len++;
    shelly_host.requests[sent].method = shelly_format("%.*s", (int)method_len, method);
    shelly_host.requests[sent].url = shelly_format("%.*s", (int)url_len, url);
    shelly_host.requests[sent].body = shelly_format("%.*s", (int)body_len, body_len ? body : "");
    if (has_credential) shelly_host.requests[sent].credential = shelly_format("%.*s", (int)credential_len, credential);
    for (size_t i = 0; i < shelly_host.responses_len; i++) {
        shelly_test_response response = shelly_host.responses[i];
        bool fits = shelly_equal((shelly_str){method, method_len}, response.method)
            && shelly_equal((shelly_str){url, url_len}, response.url);
        if (!fits) continue;
        size_t left = --shelly_host.responses_len - i;
        memmove(shelly_host.responses + i, shelly_host.responses + i + 1, left * sizeof response);
        *result = (shelly_http_result){.is_error = response.error != NULL};
        if (response.error) {
            result->is.error = *response.error;
            return;
        }
        size_t handle = shelly_host.bodies_len++;
        shelly_host.bodies[handle].text = shelly_text_of(response.body ? response.body : "");
        shelly_host.bodies[handle].piece = response.piece;
        const shelly_fact *header = shelly_copy(&response.header, sizeof response.header);
        if (!header) shelly_test_abort("no memory is left");
        result->is.value = (shelly_http_response){
            (uint16_t)(response.status ? response.status : 200), {header, header->key.len ? 1 : 0}, (uint32_t)handle};
        return;
    }
    char says[400];
    snprintf(says, sizeof says, "no response is prepared for %.*s %.*s; prepare it with shelly_host_respond",
             (int)method_len, method, (int)url_len, url);
    shelly_test_abort(says);
}

void shelly_import_body_read(uint32_t body, uint32_t most, shelly_str_result *result) {
    shelly_test_needs_host("shelly_http_read");
    if (body >= shelly_host.bodies_len) shelly_test_abort("the response has no body: it was not received");
    shelly_str text = shelly_host.bodies[body].text;
    size_t left = text.len - shelly_host.bodies[body].read, piece = shelly_host.bodies[body].piece;
    if (piece && left > piece) left = piece;
    if (left > most) left = most;
    *result = (shelly_str_result){.is = {.value = {text.ptr + shelly_host.bodies[body].read, left}}};
    shelly_host.bodies[body].read += left;
}

void shelly_import_body_drop(uint32_t body) {
    shelly_test_needs_host("shelly_http_close");
    if (body < shelly_host.bodies_len) shelly_host.bodies[body].read = shelly_host.bodies[body].text.len;
}

uint64_t shelly_import_now(void) {
    shelly_test_needs_host("shelly_now_ms");
    return shelly_host.now_ms;
}

uint64_t shelly_import_monotonic(void) {
    shelly_test_needs_host("shelly_monotonic_ns");
    return shelly_host.monotonic_ns;
}

void shelly_import_random(uint32_t length, shelly_str *result) {
    shelly_test_needs_host("shelly_random");
    char *bytes = shelly_alloc(length);
    if (!bytes) shelly_test_abort("no memory is left");
    /* The same numbers in each test. */
    static uint32_t state;
    for (uint32_t i = 0; i < length; i++) bytes[i] = (char)((state = state * 1664525 + 1013904223) >> 24);
    *result = (shelly_str){bytes, length};
}

void shelly_import_process(
    const char *program, size_t program_len, const shelly_str *args, size_t args_len, const char *input, size_t input_len,
    uint32_t has_timeout, uint32_t timeout_ms, shelly_program_result *result) {
    shelly_test_needs_host("shelly_run_program");
    shelly_test_needs_room(shelly_host.commands_len, "a test runs at most 64 programs");
    shelly_host.commands[shelly_host.commands_len++] = (shelly_command){
        {program, program_len}, {args, args_len}, {input, input_len}, {has_timeout != 0, timeout_ms}};
    *result = (shelly_program_result){.is = {.value = shelly_host.output}};
}

#endif
