/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { int64_t max_tokens; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, max_tokens, SHELLY_INTEGER, .is_optional = true, .has_min = true, .min = 0),
};

static bool before(const shelly_run_context *cx, const shelly_sending *sending, shelly_model_before *decision,
                   shelly_error *error) {
    (void)cx;
    struct params params = {.max_tokens = 100000};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    if (sending->tokens > (uint64_t)params.max_tokens) {
        decision->tag = SHELLY_REJECT;
        shelly_fail(&decision->is.reject, SHELLY_TOO_LARGE, "the request has about %llu tokens, %lld are allowed",
                    (unsigned long long)sending->tokens, (long long)params.max_tokens);
    }
    return true;
}

SHELLY_MODEL_MIDDLEWARE(before, NULL);
