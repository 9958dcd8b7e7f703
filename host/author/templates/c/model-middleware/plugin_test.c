#include "../plugin.c"
#include "../shelly/testing.h"

static void only_a_large_request_is_refused(void) {
    shelly_host_begin();
    shelly_host.params = "{\"max_tokens\": 10}";
    shelly_run_context cx = {.depth = 0};
    shelly_sending sending = {.tokens = 10};
    shelly_model_before decision = {.tag = SHELLY_PROCEED};
    shelly_error error;
    SHELLY_CHECK(before(&cx, &sending, &decision, &error) && decision.tag == SHELLY_PROCEED);
    sending.tokens = 11;
    SHELLY_CHECK(before(&cx, &sending, &decision, &error) && decision.tag == SHELLY_REJECT);
    SHELLY_CHECK(decision.is.reject.kind == SHELLY_TOO_LARGE);
    SHELLY_CHECK_TEXT(decision.is.reject.is.message, "the request has about 11 tokens, 10 are allowed");
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(only_a_large_request_is_refused));
}
