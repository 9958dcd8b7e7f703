/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { int64_t turns; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, turns, SHELLY_INTEGER, .is_optional = true, SHELLY_BETWEEN(0, UINT32_MAX)),
};

static bool eval(const shelly_effect_moment *moment, shelly_str state, shelly_effect_step *step, shelly_error *error) {
    (void)state;
    struct params params = {.turns = 10};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    /* A wake without a condition: no further call in this run. */
    step->wake.has = true;
    if (moment->iteration < params.turns) {
        /* Until then the host does not start this plugin again. */
        step->wake.value.iteration = (shelly_opt_u32){true, (uint32_t)params.turns};
        return true;
    }
    shelly_str note = shelly_format("You have taken %u turns. Come to an end, or say what is still missing.",
                                    (unsigned)moment->iteration);
    return note.ptr ? shelly_add_note(step, note, error) : shelly_no_memory(error);
}

SHELLY_EFFECT(eval);
