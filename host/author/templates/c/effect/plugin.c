/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { int64_t turns; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, turns, SHELLY_INTEGER, .is_optional = true, SHELLY_BETWEEN(0, UINT32_MAX)),
};

static bool eval(const shelly_effect_input *input, shelly_str state, shelly_effect_step *step, shelly_error *error) {
    (void)state;
    struct params params = {.turns = 10};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    if (input->iteration < params.turns) {
        /* Until then the host does not start this plugin again. */
        step->next_call.tag = SHELLY_WHEN;
        step->next_call.when.iteration = (shelly_opt_u32){true, (uint32_t)params.turns};
        return true;
    }
    step->next_call.tag = SHELLY_NEVER_AGAIN;
    shelly_str note = shelly_format("You have taken %u turns. Come to an end, or say what is still missing.",
                                    (unsigned)input->iteration);
    return note.ptr ? shelly_add_note(step, note, error) : shelly_no_memory(error);
}

SHELLY_EFFECT(eval);
