/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { shelly_str feedback; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, feedback, SHELLY_TEXT, .is_optional = true),
};

static bool after(const shelly_run_context *cx, const shelly_run_outcome *outcome, shelly_str state,
                  shelly_run_after *decision, shelly_error *error) {
    (void)cx;
    /* The message of an agent that hands over or has failed is no answer. */
    bool is_answer = !outcome->reply.is_error && shelly_is_answer(&outcome->reply.is.message);
    if (!is_answer || outcome->attempt > 0) return true;
    if (shelly_trimmed(shelly_text_in(outcome->reply.is.message.parts)).len) return true;
    struct params params = {.feedback = SHELLY_STR("Your answer was empty. Answer in words.")};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    decision->tag = SHELLY_RETRY;
    decision->is.retry.feedback = (shelly_opt_str){true, params.feedback};
    decision->is.retry.delay_ms = 0;
    decision->is.retry.state = state;
    return true;
}

SHELLY_RUN_MIDDLEWARE(NULL, after);
