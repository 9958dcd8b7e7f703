/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { int64_t rounds; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, rounds, SHELLY_INTEGER, .is_optional = true, SHELLY_BETWEEN(0, 10000)),
};

static bool next(const shelly_coordinator_input *input, shelly_str state, shelly_team_step *step, shelly_error *error) {
    (void)state;
    struct params params = {.rounds = 1};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    size_t members = input->members.len;
    if (input->step >= members * (uint64_t)params.rounds) {
        /* The answer of the team is the last reply in its chat. */
        step->action.tag = SHELLY_TEAM_DONE;
        return true;
    }
    return shelly_assign(step, (shelly_assignment){.member = input->members.ptr[input->step % members].name}, error);
}

SHELLY_COORDINATOR(next);
