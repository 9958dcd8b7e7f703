#include "../plugin.c"
#include "../shelly/testing.h"

/* Returns the decision on a call of this tool. */
static shelly_tool_decision decided(const char *name, uint8_t hints) {
    shelly_run_context cx = {.depth = 0};
    shelly_tool_call call = {.name = shelly_text_of(name), .arguments = SHELLY_STR("{}")};
    shelly_target target = {SHELLY_STR("host"), hints};
    shelly_tool_decision decision = {.verdict = {.tag = SHELLY_ALLOW}};
    shelly_error error;
    SHELLY_CHECK(before(&cx, &call, &target, &decision, &error));
    return decision;
}

static void only_calls_that_may_change_something_are_asked_about(void) {
    shelly_host_begin();
    shelly_host.params = "{\"allow\": [\"note\"]}";
    SHELLY_CHECK(decided("read", SHELLY_READ_ONLY).verdict.tag == SHELLY_ALLOW);
    SHELLY_CHECK(decided("note", 0).verdict.tag == SHELLY_ALLOW);
    shelly_tool_decision asked = decided("write", 0);
    SHELLY_CHECK(asked.verdict.tag == SHELLY_ASK_PERSON);
    SHELLY_CHECK_TEXT(asked.verdict.is.ask.text, "`write` may change something");
    SHELLY_CHECK_TEXT(asked.verdict.is.ask.topic, "write");
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(only_calls_that_may_change_something_are_asked_about));
}
