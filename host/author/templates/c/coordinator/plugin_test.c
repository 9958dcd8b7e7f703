#include "../plugin.c"
#include "../shelly/testing.h"

static void each_member_works_once_a_round(void) {
    shelly_host_begin();
    shelly_host.params = "{\"rounds\": 2}";
    shelly_member members[] = {{.name = SHELLY_STR("a")}, {.name = SHELLY_STR("b")}};
    shelly_coordinator_input input = {.members = {members, 2}};
    shelly_error error;
    for (; input.step < 4; input.step++) {
        shelly_team_step step = {.state = {NULL, 0}};
        SHELLY_CHECK(next(&input, step.state, &step, &error));
        SHELLY_CHECK(step.action.tag == SHELLY_TEAM_RUN && step.action.is.run.len == 1);
        SHELLY_CHECK(shelly_equal(step.action.is.run.ptr->member, input.step % 2 ? "b" : "a"));
    }
    shelly_team_step last = {.state = {NULL, 0}};
    SHELLY_CHECK(next(&input, last.state, &last, &error));
    SHELLY_CHECK(last.action.tag == SHELLY_TEAM_DONE && last.action.is.done.tag == SHELLY_LAST_REPLY);
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(each_member_works_once_a_round));
}
