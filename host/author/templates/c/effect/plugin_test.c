#include "../plugin.c"
#include "../shelly/testing.h"

static void agent_is_reminded_once_the_turns_are_taken(void) {
    shelly_host_begin();
    shelly_host.params = "{\"turns\": 3}";
    shelly_effect_input input = {.iteration = 2};
    shelly_effect_step early = {.state = {NULL, 0}}, late = early;
    shelly_error error;
    SHELLY_CHECK(eval(&input, early.state, &early, &error));
    SHELLY_CHECK(early.action.is.edits.len == 0 && early.next_call.tag == SHELLY_WHEN);
    SHELLY_CHECK(early.next_call.when.iteration.value == 3);
    input.iteration = 3;
    SHELLY_CHECK(eval(&input, late.state, &late, &error));
    SHELLY_CHECK(late.action.is.edits.len == 1 && late.next_call.tag == SHELLY_NEVER_AGAIN);
    SHELLY_CHECK_CONTAINS(late.action.is.edits.ptr->is.note, "3 turns");
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(agent_is_reminded_once_the_turns_are_taken));
}
