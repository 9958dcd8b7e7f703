/* @{about} */
#include "shelly/shelly.h"

/* The params in the config. */
struct params { shelly_texts allow; };
static const shelly_arg params_args[] = {
    SHELLY_ARG(struct params, allow, SHELLY_TEXTS, .is_optional = true),
};

static bool before(const shelly_run_context *cx, const shelly_tool_call *call, const shelly_target *target,
                   shelly_tool_decision *decision, shelly_error *error) {
    (void)cx;
    struct params params = {.allow = {NULL, 0}};
    if (!SHELLY_PARAMS(params_args, &params, error)) return false;
    bool is_allowed = target->hints & SHELLY_READ_ONLY;
    shelly_str name = shelly_format("%.*s", (int)call->name.len, call->name.ptr);
    if (!name.ptr) return shelly_no_memory(error);
    for (size_t i = 0; i < params.allow.len; i++) is_allowed |= shelly_equal(params.allow.ptr[i], name.ptr);
    if (is_allowed) return true;
    decision->verdict.tag = SHELLY_ASK_PERSON;
    decision->verdict.is.ask.text = shelly_format("`%s` may change something", name.ptr);
    /* After "yes, for this session" the host does not ask again for the same topic. */
    decision->verdict.is.ask.topic = name;
    return true;
}

SHELLY_TOOL_MIDDLEWARE(before, NULL);
