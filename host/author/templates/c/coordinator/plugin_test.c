#include "../plugin.c"
#include "../shelly/testing.h"

static void each_member_works_once_a_round(void) {
    shelly_host_begin();
    shelly_host.params = "{\"rounds\": 2}";
    shelly_member members[] = {{.name = SHELLY_STR("a")}, {.name = SHELLY_STR("b")}};
    shelly_team_moment moment = {.members = {members, 2}};
    shelly_error error;
    for (; moment.step < 4; moment.step++) {
        shelly_team_step step = {.state = {NULL, 0}};
        SHELLY_CHECK(next(&moment, step.state, &step, &error));
        SHELLY_CHECK(step.action.tag == SHELLY_TEAM_RUN && step.action.is.run.len == 1);
        SHELLY_CHECK(shelly_equal(step.action.is.run.ptr->member, moment.step % 2 ? "b" : "a"));
    }
    shelly_team_step last = {.state = {NULL, 0}};
    SHELLY_CHECK(next(&moment, last.state, &last, &error));
    SHELLY_CHECK(last.action.tag == SHELLY_TEAM_DONE && !last.action.is.done.has);
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(each_member_works_once_a_round));
}
