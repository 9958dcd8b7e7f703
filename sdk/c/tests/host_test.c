#include "../shelly.h"
#include "../testing.h"

static shelly_opt_u64 no_revision(void) { return (shelly_opt_u64){false, 0}; }

static void store_keeps_values_and_revisions(void) {
    shelly_host_begin();
    shelly_opt_kv_entry entry = {.has = true};
    shelly_error error;
    shelly_str key = SHELLY_STR("a");
    bool is_written = false;
    SHELLY_CHECK(shelly_kv_get(key, &entry, &error) && !entry.has);
    shelly_opt_str one = {true, SHELLY_STR("1")}, two = {true, SHELLY_STR("2")};
    SHELLY_CHECK(shelly_kv_swap(key, no_revision(), one, &is_written, &error) && is_written);
    SHELLY_CHECK(shelly_kv_swap(key, no_revision(), two, &is_written, &error) && !is_written);
    SHELLY_CHECK(shelly_kv_get(key, &entry, &error) && entry.has);
    SHELLY_CHECK_TEXT(entry.value.value, "1");
    SHELLY_CHECK(shelly_kv_set(SHELLY_STR("b/2"), SHELLY_STR(""), &error) && shelly_kv_set(SHELLY_STR("b/1"), key, &error));
    shelly_texts keys;
    SHELLY_CHECK(shelly_kv_keys(SHELLY_STR("b/"), (shelly_opt_str){false, {NULL, 0}}, &keys, &error) && keys.len == 2);
    SHELLY_CHECK_TEXT(keys.ptr[0], "b/1");
    SHELLY_CHECK(shelly_kv_keys(SHELLY_STR(""), (shelly_opt_str){true, SHELLY_STR("b/1")}, &keys, &error) && keys.len == 1);
    SHELLY_CHECK(shelly_kv_remove(key, &error) && shelly_kv_get(key, &entry, &error) && !entry.has);
    SHELLY_CHECK(!shelly_kv_get(SHELLY_STR(""), &entry, &error) && error.kind == SHELLY_INVALID);
    char *large = shelly_alloc((1 << 20) + 1);
    SHELLY_CHECK(large && !shelly_kv_set(key, (shelly_str){large, (1 << 20) + 1}, &error) && error.kind == SHELLY_TOO_LARGE);
}

static void server_answers_as_prepared(void) {
    shelly_host_begin();
    shelly_host_respond((shelly_test_response){.method = "GET", .url = "https://a.b/1", .body = "hello", .piece = 2});
    shelly_host_respond((shelly_test_response){.method = "GET", .url = "https://a.b/1", .body = "again"});
    shelly_http_request request = {
        .url = SHELLY_STR("https://a.b/1"), .credential = {true, SHELLY_STR("tracker")}, .timeout_ms = {true, 5}};
    shelly_http_response response;
    shelly_error error;
    shelly_str body, piece;
    SHELLY_CHECK(shelly_http_send(&request, SHELLY_STR("x"), &response, &error) && shelly_http_ok(&response, &error));
    SHELLY_CHECK(shelly_http_read(&response, &piece, &error));
    SHELLY_CHECK_TEXT(piece, "he");
    SHELLY_CHECK(shelly_http_body(&response, 100, &body, &error));
    SHELLY_CHECK_TEXT(body, "llo");
    SHELLY_CHECK_TEXT(shelly_host.requests[0].credential, "tracker");
    SHELLY_CHECK_TEXT(shelly_host.requests[0].body, "x");
    SHELLY_CHECK(shelly_http_send(&request, SHELLY_STR(""), &response, &error));
    SHELLY_CHECK(!shelly_http_body(&response, 4, &body, &error) && error.kind == SHELLY_TOO_LARGE);
    shelly_error cut = {.kind = SHELLY_UNAVAILABLE, .is = {.message = SHELLY_STR("cut off")}};
    shelly_host_respond((shelly_test_response){.method = "GET", .url = "https://a.b/1", .error = &cut});
    SHELLY_CHECK(!shelly_http_send(&request, SHELLY_STR(""), &response, &error) && error.kind == SHELLY_UNAVAILABLE);
}

static void status_becomes_an_error(void) {
    shelly_host_begin();
    static const struct { int status, kind; const char *body; } all[] = {
        {404, SHELLY_NOT_FOUND, "none\nhere"}, {403, SHELLY_DENIED, "<html>"},     {500, SHELLY_UNAVAILABLE, ""},
        {429, SHELLY_RATE_LIMITED, "slow"},    {400, SHELLY_INVALID, "bad \xff"}, {304, SHELLY_OTHER, ""},
    };
    for (size_t i = 0; i < SHELLY_COUNT(all); i++) {
        shelly_test_response prepared = {.method = "GET", .url = "u", .status = all[i].status, .body = all[i].body};
        prepared.header = (shelly_fact){SHELLY_STR("retry-after"), SHELLY_STR("2")};
        shelly_host_respond(prepared);
        shelly_http_request request = {.url = SHELLY_STR("u")};
        shelly_http_response response;
        shelly_error error;
        SHELLY_CHECK(shelly_http_send(&request, SHELLY_STR(""), &response, &error));
        SHELLY_CHECK(!shelly_http_ok(&response, &error) && error.kind == all[i].kind);
        SHELLY_CHECK_CONTAINS(error.is.message, "the server answered ");
        bool is_retried = all[i].kind == SHELLY_UNAVAILABLE || all[i].kind == SHELLY_RATE_LIMITED;
        SHELLY_CHECK(error.is.after_ms.has == is_retried && (!is_retried || error.is.after_ms.value == 2000));
        if (all[i].status == 404) SHELLY_CHECK_TEXT(error.is.message, "the server answered 404: none here");
        if (all[i].status == 403) SHELLY_CHECK_TEXT(error.is.message, "the server answered 403");
        if (all[i].status == 400) SHELLY_CHECK_TEXT(error.is.message, "the server answered 400: bad ?");
    }
}

static void rest_of_the_host_is_there(void) {
    shelly_host_begin();
    shelly_message messages[] = {
        shelly_text_message(SHELLY_USER, SHELLY_STR("12345678")), shelly_text_message(SHELLY_ASSISTANT, SHELLY_STR("b"))};
    shelly_host.chat = (shelly_messages){messages, 2};
    SHELLY_CHECK(shelly_chat_length() == 2 && shelly_chat_read(1, 9).len == 1 && shelly_chat_read(5, 9).len == 0);
    SHELLY_CHECK(shelly_chat_facts(0, 9).len == 2 && shelly_chat_facts(0, 9).ptr[0].tokens == 2);
    SHELLY_CHECK(shelly_chat_find(2).has && shelly_chat_find(2).value == 1 && !shelly_chat_find(3).has);
    shelly_str name = SHELLY_STR("count");
    shelly_host.tools = (shelly_texts){&name, 1};
    SHELLY_CHECK_TEXT(shelly_chat_tools().ptr[0], "count");
    shelly_request outgoing = {.messages = {messages, 1}};
    shelly_host.outgoing = &outgoing;
    SHELLY_CHECK(shelly_outgoing().messages.len == 1);
    SHELLY_CHECK(shelly_random(4).len == 4 && shelly_now_ms() == 1735689600000 && shelly_monotonic_ns() == 0);
    shelly_host.attachment = SHELLY_STR("bytes");
    shelly_str bytes;
    shelly_error error;
    SHELLY_CHECK(shelly_attachment(SHELLY_STR("7"), 3, 9, &bytes, &error));
    SHELLY_CHECK_TEXT(bytes, "es");
    shelly_host.output = (shelly_program_output){.status = {true, 1}, .output = SHELLY_STR("out")};
    shelly_command command = {.program = SHELLY_STR("git")};
    shelly_program_output output;
    SHELLY_CHECK(shelly_run_program(&command, &output, &error) && output.status.value == 1);
    SHELLY_CHECK_TEXT(shelly_host.commands[0].program, "git");
    shelly_log(SHELLY_WARN, "%d", 7);
    SHELLY_CHECK(shelly_host.log[0].level == SHELLY_WARN && !strcmp(shelly_host.log[0].text, "7"));
    shelly_progress(3, 0, NULL);
    SHELLY_CHECK(shelly_host.progress == 3);
}

static void call_without_a_host(void) {
    shelly_opt_kv_entry entry;
    shelly_error error;
    shelly_kv_get(SHELLY_STR("a"), &entry, &error);
    /* It has ended before. */
    exit(9);
}

static void response_that_is_not_prepared(void) {
    shelly_host_begin();
    shelly_http_request request = {.url = SHELLY_STR("https://a.b")};
    shelly_http_response response;
    shelly_error error;
    shelly_http_send(&request, SHELLY_STR(""), &response, &error);
    exit(9);
}

int main(void) {
    /* Both fail in their own name, and the others go on. */
    static const shelly_test failing[] = {SHELLY_TEST(call_without_a_host), SHELLY_TEST(response_that_is_not_prepared)};
    if (shelly_run_tests(failing, 1) != 1 || shelly_run_tests(failing + 1, 1) != 1) return 1;
    return SHELLY_RUN_TESTS(
        SHELLY_TEST(store_keeps_values_and_revisions), SHELLY_TEST(server_answers_as_prepared),
        SHELLY_TEST(status_becomes_an_error), SHELLY_TEST(rest_of_the_host_is_there));
}
