#include "../plugin.c"
#include "../shelly/testing.h"

static void agent_is_reminded_once_the_turns_are_taken(void) {
    shelly_host_begin();
    shelly_host.params = "{\"turns\": 3}";
    shelly_effect_moment moment = {.iteration = 2};
    shelly_effect_step early = {.state = {NULL, 0}}, late = early;
    shelly_error error;
    SHELLY_CHECK(eval(&moment, early.state, &early, &error));
    SHELLY_CHECK(early.action.is.edits.len == 0 && early.wake.value.iteration.value == 3);
    moment.iteration = 3;
    SHELLY_CHECK(eval(&moment, late.state, &late, &error));
    SHELLY_CHECK(late.action.is.edits.len == 1 && late.wake.has && !late.wake.value.iteration.has);
    SHELLY_CHECK_CONTAINS(late.action.is.edits.ptr->is.note, "3 turns");
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(agent_is_reminded_once_the_turns_are_taken));
}
