#include "../shelly.h"
#include "../testing.h"

static bool fails(shelly_error *error) { return shelly_fail(error, SHELLY_DENIED, "no"); }

static bool eval(const shelly_effect_input *input, shelly_str state, shelly_effect_step *step, shelly_error *error) {
    if (input->iteration == 9) return fails(error);
    if (input->iteration == 8) {
        step->next_call.tag = SHELLY_WHEN;
        step->next_call.when.iteration = (shelly_opt_u32){true, 10};
        return true;
    }
    if (input->iteration == 1) {
        step->action.tag = SHELLY_EFFECT_ASK;
        step->action.is.ask = shelly_ask_text(SHELLY_STR("Why?"));
        return true;
    }
    return shelly_add_note(step, state, error) && shelly_add_note(step, SHELLY_STR("b"), error);
}
SHELLY_EFFECT(eval);

static bool after_run(const shelly_run_context *cx, const shelly_run_outcome *outcome, shelly_str state,
                      shelly_run_after *decision, shelly_error *error) {
    (void)cx, (void)state, (void)outcome;
    decision->tag = SHELLY_RETRY;
    return outcome->attempt == 0 || fails(error);
}
SHELLY_RUN_MIDDLEWARE(NULL, after_run);
SHELLY_MODEL_MIDDLEWARE(NULL, NULL);

static bool before_call(const shelly_run_context *cx, const shelly_tool_call *call, const shelly_target *target,
                        shelly_tool_decision *decision, shelly_error *error) {
    (void)cx, (void)target, (void)error;
    if (!shelly_equal(call->name, "delete_file")) return true;
    decision->verdict.tag = SHELLY_DENY;
    decision->verdict.is.deny = SHELLY_STR("files are not deleted here");
    return true;
}
SHELLY_TOOL_MIDDLEWARE(before_call, NULL);

static bool complete(shelly_str model, const shelly_request *request, shelly_completion *completion, shelly_error *error) {
    shelly_stream reply = {0};
    bool is_done = shelly_stream_thinking(&reply, SHELLY_STR("so"), error)
        && shelly_stream_text(&reply, SHELLY_STR("a"), error) && shelly_stream_text(&reply, SHELLY_STR(""), error)
        && shelly_stream_text(&reply, SHELLY_STR("b"), error)
        && shelly_stream_call(&reply, SHELLY_STR("1"), SHELLY_STR("count"), SHELLY_STR(""), error);
    shelly_stream_usage(&reply, (shelly_usage){.output_tokens = request->messages.len});
    return is_done && shelly_stream_finish(&reply, SHELLY_TOOL_CALLS, model, completion, error);
}
SHELLY_PROVIDER(complete);

static bool next(const shelly_coordinator_input *input, shelly_str state, shelly_team_step *step, shelly_error *error) {
    (void)state;
    for (size_t i = 0; i < input->reports.len; i++) {
        const shelly_report *report = &input->reports.ptr[i];
        if (report->outcome.tag == SHELLY_HANDED_OVER)
            return shelly_assign(step, (shelly_assignment){.member = report->outcome.is.to}, error);
        if (report->outcome.tag == SHELLY_FAILED) {
            *error = report->outcome.is.error;
            return false;
        }
    }
    if (input->step == 9) {
        step->action.tag = SHELLY_TEAM_DONE;
        return true;
    }
    for (size_t i = 0; i < input->members.len; i++)
        if (!shelly_assign(step, (shelly_assignment){.member = input->members.ptr[i].name}, error)) return false;
    return true;
}
SHELLY_COORDINATOR(next);

/* What the host reads: a value, or an error. */
#define RESULT(type) const struct { uint8_t is_error; union { type value; shelly_error error; } is; }

static void effect_answers_with_edits_a_request_or_an_error(void) {
    shelly_effect_parameters parameters = {.state = SHELLY_STR("a")};
    RESULT(shelly_effect_step) *step = shelly_export_effect(&parameters);
    SHELLY_CHECK(!step->is_error && step->is.value.action.tag == SHELLY_EDITS && step->is.value.action.is.edits.len == 2);
    SHELLY_CHECK_TEXT(step->is.value.action.is.edits.ptr[0].is.note, "a");
    SHELLY_CHECK_TEXT(step->is.value.action.is.edits.ptr[1].is.note, "b");
    SHELLY_CHECK_TEXT(step->is.value.state, "a");
    parameters.input.iteration = 1;
    step = shelly_export_effect(&parameters);
    SHELLY_CHECK(step->is.value.action.tag == SHELLY_EFFECT_ASK && step->is.value.next_call.tag == SHELLY_NEXT_PHASE);
    parameters.input.iteration = 8;
    step = shelly_export_effect(&parameters);
    SHELLY_CHECK(step->is.value.next_call.tag == SHELLY_WHEN && step->is.value.next_call.when.iteration.value == 10);
    SHELLY_CHECK(!step->is.value.next_call.when.request_tokens.has && step->is.value.action.is.edits.len == 0);
    parameters.input.iteration = 9;
    step = shelly_export_effect(&parameters);
    SHELLY_CHECK(step->is_error && step->is.error.kind == SHELLY_DENIED);
}

static void middleware_without_a_function_lets_pass(void) {
    RESULT(shelly_run_before) *run = shelly_export_before_run("r", 1, "a", 1, 0, NULL, 0);
    SHELLY_CHECK(!run->is_error && run->is.value.tag == SHELLY_PROCEED && !run->is.value.is.proceed.input.has);
    shelly_after_run_input ended = {.state = {NULL, 0}};
    RESULT(shelly_run_after) *again = shelly_export_after_run(&ended);
    SHELLY_CHECK(!again->is_error && again->is.value.tag == SHELLY_RETRY);
    ended.outcome.attempt = 1;
    again = shelly_export_after_run(&ended);
    SHELLY_CHECK(again->is_error && again->is.error.kind == SHELLY_DENIED);
    RESULT(shelly_model_before) *model = shelly_export_before_model("r", 1, "a", 1, 0, "m", 1, "d", 1, 7, 0);
    SHELLY_CHECK(!model->is_error && model->is.value.tag == SHELLY_PROCEED && !model->is.value.is.proceed.request.has);
    shelly_after_model_input replied = {.state = {NULL, 0}};
    RESULT(shelly_model_after) *kept = shelly_export_after_model(&replied);
    SHELLY_CHECK(!kept->is_error && kept->is.value.tag == SHELLY_ACCEPT);
}

static void tool_middleware_denies_a_call(void) {
    RESULT(shelly_tool_decision) *decision =
        shelly_export_before_call("r", 1, "a", 1, 0, "1", 1, "delete_file", 11, "{}", 2, NULL, 0, "host", 4, 0);
    SHELLY_CHECK(!decision->is_error && decision->is.value.verdict.tag == SHELLY_DENY);
    SHELLY_CHECK_TEXT(decision->is.value.verdict.is.deny, "files are not deleted here");
    decision = shelly_export_before_call("r", 1, "a", 1, 0, "1", 1, "read", 4, "{}", 2, NULL, 0, "host", 4, 1);
    SHELLY_CHECK(decision->is.value.verdict.tag == SHELLY_ALLOW && !decision->is.value.arguments.has);
    shelly_after_call_input called = {.state = {NULL, 0}};
    RESULT(shelly_opt_contents) *content = shelly_export_after_call(&called);
    SHELLY_CHECK(!content->is_error && !content->is.value.has);
}

static void provider_passes_on_what_arrives(void) {
    shelly_host_begin();
    shelly_provider_input input = {.model = SHELLY_STR("m")};
    RESULT(shelly_completion) *reply = shelly_export_provider(&input);
    SHELLY_CHECK(!reply->is_error && reply->is.value.parts.len == 3 && reply->is.value.stop.tag == SHELLY_TOOL_CALLS);
    SHELLY_CHECK_TEXT(reply->is.value.parts.ptr[0].is.thinking.text, "so");
    SHELLY_CHECK_TEXT(reply->is.value.parts.ptr[1].is.text, "ab");
    SHELLY_CHECK_TEXT(reply->is.value.parts.ptr[2].is.call.arguments, "{}");
    SHELLY_CHECK_TEXT(((shelly_str){shelly_host.emitted, shelly_host.emitted_len}), "ab");
}

static void reply_beyond_its_bounds_is_refused(void) {
    shelly_host_begin();
    shelly_stream reply = {0};
    shelly_error error;
    char *text = shelly_alloc((16 << 20) + 1);
    SHELLY_CHECK(text && !shelly_stream_text(&reply, (shelly_str){text, (16 << 20) + 1}, &error));
    SHELLY_CHECK(error.kind == SHELLY_TOO_LARGE);
    shelly_str id = SHELLY_STR("1"), none = SHELLY_STR("{}");
    for (int i = 0; i < 1024; i++) SHELLY_CHECK(shelly_stream_call(&reply, id, id, none, &error));
    SHELLY_CHECK(!shelly_stream_call(&reply, id, id, none, &error));
    SHELLY_CHECK(error.kind == SHELLY_TOO_LARGE);
}

static void coordinator_assigns_its_members(void) {
    shelly_member members[] = {{.name = SHELLY_STR("a")}, {.name = SHELLY_STR("b")}};
    shelly_coordinator_parameters parameters = {.input = {.members = {members, 2}}};
    RESULT(shelly_team_step) *step = shelly_export_coordinator(&parameters);
    SHELLY_CHECK(!step->is_error && step->is.value.action.tag == SHELLY_TEAM_RUN && step->is.value.action.is.run.len == 2);
    SHELLY_CHECK_TEXT(step->is.value.action.is.run.ptr[1].member, "b");
    parameters.input.step = 9;
    step = shelly_export_coordinator(&parameters);
    SHELLY_CHECK(step->is.value.action.tag == SHELLY_TEAM_DONE && step->is.value.action.is.done.tag == SHELLY_LAST_REPLY);
}

static void coordinator_reads_the_outcome_of_each_member(void) {
    shelly_report reports[] = {{.member = SHELLY_STR("a")}, {.member = SHELLY_STR("b")}};
    shelly_coordinator_parameters parameters = {.input = {.step = 9, .reports = {reports, 2}}};
    RESULT(shelly_team_step) *step = shelly_export_coordinator(&parameters);
    SHELLY_CHECK(!step->is_error && step->is.value.action.tag == SHELLY_TEAM_DONE);
    reports[1].outcome.tag = SHELLY_HANDED_OVER;
    reports[1].outcome.is.to = SHELLY_STR("c");
    step = shelly_export_coordinator(&parameters);
    SHELLY_CHECK(step->is.value.action.tag == SHELLY_TEAM_RUN && step->is.value.action.is.run.len == 1);
    SHELLY_CHECK_TEXT(step->is.value.action.is.run.ptr->member, "c");
    reports[0].outcome.tag = SHELLY_FAILED;
    reports[0].outcome.is.error = (shelly_error){.kind = SHELLY_TIMEOUT, .is = {.message = SHELLY_STR("late")}};
    step = shelly_export_coordinator(&parameters);
    SHELLY_CHECK(step->is_error && step->is.error.kind == SHELLY_TIMEOUT);
}

int main(void) {
    return SHELLY_RUN_TESTS(
        SHELLY_TEST(effect_answers_with_edits_a_request_or_an_error), SHELLY_TEST(middleware_without_a_function_lets_pass),
        SHELLY_TEST(tool_middleware_denies_a_call), SHELLY_TEST(provider_passes_on_what_arrives),
        SHELLY_TEST(reply_beyond_its_bounds_is_refused), SHELLY_TEST(coordinator_assigns_its_members),
        SHELLY_TEST(coordinator_reads_the_outcome_of_each_member));
}
