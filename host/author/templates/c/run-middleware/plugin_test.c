#include "../plugin.c"
#include "../shelly/testing.h"

/* Returns the decision on an answer with this text. */
static int decided(const char *text, uint32_t attempt, const char *ending) {
    shelly_run_context cx = {.depth = 0};
    shelly_run_outcome outcome = {.attempt = attempt};
    shelly_fact fact = {SHELLY_STR("shelly.ending"), shelly_text_of(ending ? ending : "")};
    shelly_run_after decision = {.tag = SHELLY_ACCEPT};
    shelly_error error;
    outcome.reply.is.message = shelly_text_message(SHELLY_ASSISTANT, shelly_text_of(text));
    outcome.reply.is.message.meta = (shelly_meta){&fact, ending ? 1 : 0};
    SHELLY_CHECK(after(&cx, &outcome, (shelly_str){NULL, 0}, &decision, &error));
    if (decision.tag == SHELLY_RETRY) SHELLY_CHECK_TEXT(decision.is.retry.feedback.value, "Answer.");
    return decision.tag;
}

static void empty_answer_is_asked_for_once_more(void) {
    shelly_host_begin();
    shelly_host.params = "{\"feedback\": \"Answer.\"}";
    SHELLY_CHECK(decided("yes", 0, NULL) == SHELLY_ACCEPT);
    SHELLY_CHECK(decided(" \n", 0, NULL) == SHELLY_RETRY);
    SHELLY_CHECK(decided(" ", 1, NULL) == SHELLY_ACCEPT);
    SHELLY_CHECK(decided("", 0, "handed-over") == SHELLY_ACCEPT);
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(empty_answer_is_asked_for_once_more));
}
