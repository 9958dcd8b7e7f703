/* The kinds of plugins besides tools, as kinds.h declares them. */
#include "imports.h"

#include <string.h>

/* Bounds of a reply: its bytes, and the bytes that the host takes at once. A part counts more than its text: a server may
 * alternate between a letter of text and one of thinking. */
enum { MOST_REPLY = 16 << 20, MOST_CALLS = 1024, PART_BYTES = 64, MOST_EMITTED = 64 << 10 };

/* What the host reads after a call: a value, or an error. */
#define ANSWER(type) static SHELLY_RESULT(type) answer
#define ANSWERED(is_done) \
    (answer.is_error = !(is_done), answer.is_error ? (void)(answer.is.error = error) : (void)0, &answer)
#define SILENT {.kind = SHELLY_OTHER, .is = {.message = SHELLY_STR("the plugin failed and did not say why")}}

/* --- effects --- */

bool shelly_add_edit(shelly_effect_step *step, shelly_edit edit, shelly_error *error) {
    shelly_edits edits = step->action.is.edits;
    shelly_edit *more = shelly_alloc((edits.len + 1) * sizeof *more);
    if (!more) return shelly_no_memory(error);
    if (edits.len) memcpy(more, edits.ptr, edits.len * sizeof *more);
    more[edits.len] = edit;
    step->action.tag = SHELLY_EDITS;
    step->action.is.edits = (shelly_edits){more, edits.len + 1};
    return true;
}

bool shelly_add_note(shelly_effect_step *step, shelly_str text, shelly_error *error) {
    return shelly_add_edit(step, (shelly_edit){.tag = SHELLY_NOTE, .is = {.note = text}}, error);
}

void *shelly_run_effect(shelly_eval *eval, const shelly_effect_parameters *parameters) {
    ANSWER(shelly_effect_step);
    shelly_effect_step step = {.state = parameters->state};
    shelly_error error = SILENT;
    bool is_done = eval(&parameters->input, parameters->state, &step, &error);
    if (is_done) answer.is.value = step;
    return ANSWERED(is_done);
}

/* --- middlewares --- */

void *shelly_run_before_run(shelly_before_run *before, shelly_run_context cx, shelly_messages input) {
    ANSWER(shelly_run_before);
    shelly_run_before decision = {.tag = SHELLY_PROCEED};
    shelly_error error = SILENT;
    bool is_done = !before || before(&cx, input, &decision, &error);
    if (is_done) answer.is.value = decision;
    return ANSWERED(is_done);
}

void *shelly_run_after_run(shelly_after_run *after, const shelly_after_run_input *input) {
    ANSWER(shelly_run_after);
    shelly_run_after decision = {.tag = SHELLY_ACCEPT};
    shelly_error error = SILENT;
    bool is_done = !after || after(&input->cx, &input->outcome, input->state, &decision, &error);
    if (is_done) answer.is.value = decision;
    return ANSWERED(is_done);
}

void *shelly_run_before_model(shelly_before_model *before, shelly_run_context cx, shelly_sending sending) {
    ANSWER(shelly_model_before);
    shelly_model_before decision = {.tag = SHELLY_PROCEED};
    shelly_error error = SILENT;
    bool is_done = !before || before(&cx, &sending, &decision, &error);
    if (is_done) answer.is.value = decision;
    return ANSWERED(is_done);
}

void *shelly_run_after_model(shelly_after_model *after, const shelly_after_model_input *input) {
    ANSWER(shelly_model_after);
    shelly_model_after decision = {.tag = SHELLY_ACCEPT};
    shelly_error error = SILENT;
    bool is_done = !after || after(&input->cx, &input->sending, &input->reply, input->state, &decision, &error);
    if (is_done) answer.is.value = decision;
    return ANSWERED(is_done);
}

void *shelly_run_before_call(
    shelly_before_call *before, shelly_run_context cx, shelly_tool_call call, shelly_target target) {
    ANSWER(shelly_tool_decision);
    shelly_tool_decision decision = {.verdict = {.tag = SHELLY_ALLOW}};
    shelly_error error = SILENT;
    bool is_done = !before || before(&cx, &call, &target, &decision, &error);
    if (is_done) answer.is.value = decision;
    return ANSWERED(is_done);
}

void *shelly_run_after_call(shelly_after_call *after, const shelly_after_call_input *input) {
    ANSWER(shelly_opt_contents);
    shelly_opt_contents content = {.has = false};
    shelly_error error = SILENT;
    bool is_done = !after || after(&input->cx, &input->call, &input->outcome, input->state, &content, &error);
    if (is_done) answer.is.value = content;
    return ANSWERED(is_done);
}

/* --- providers --- */

void *shelly_run_provider(shelly_complete *complete, const shelly_provider_input *input) {
    ANSWER(shelly_completion);
    shelly_completion completion = {.model = input->model};
    shelly_error error = SILENT;
    bool is_done = complete(input->model, &input->request, &completion, &error);
    if (is_done) answer.is.value = completion;
    return ANSWERED(is_done);
}

static bool grow(shelly_stream *stream, size_t by, shelly_error *error) {
    if (by > MOST_REPLY - stream->bytes)
        return shelly_fail(error, SHELLY_TOO_LARGE, "the reply has more than %d bytes", MOST_REPLY);
    stream->bytes += by;
    return true;
}

static bool add_part(shelly_stream *stream, shelly_part part, shelly_error *error) {
    shelly_part *parts = shelly_grown(stream->parts, stream->len, &stream->room, sizeof part);
    if (!parts) return shelly_no_memory(error);
    stream->parts = parts;
    stream->parts[stream->len++] = part;
    return true;
}

/* Ends the text or the reasoning that is being added to. */
static bool flush(shelly_stream *stream, shelly_error *error) {
    if (!stream->open_len) return true;
    shelly_str text = {stream->open, stream->open_len};
    shelly_part part = {.tag = SHELLY_TEXT_PART, .is = {.text = text}};
    if (stream->is_thinking) part = (shelly_part){.tag = SHELLY_THINKING_PART, .is = {.thinking = {.text = text}}};
    stream->open = NULL;
    stream->open_len = stream->open_room = 0;
    return add_part(stream, part, error);
}

static bool add_text(shelly_stream *stream, shelly_str piece, bool is_thinking, shelly_error *error) {
    if (!piece.len) return true;
    if (!grow(stream, piece.len, error)) return false;
    if (!stream->open_len || stream->is_thinking != is_thinking) {
        if (!flush(stream, error) || !grow(stream, PART_BYTES, error)) return false;
        stream->is_thinking = is_thinking;
    }
    if (stream->open_len + piece.len > stream->open_room) {
        size_t room = (stream->open_len + piece.len) * 2;
        char *larger = shelly_alloc(room);
        if (!larger) return shelly_no_memory(error);
        if (stream->open_len) memcpy(larger, stream->open, stream->open_len);
        stream->open = larger;
        stream->open_room = room;
    }
    memcpy(stream->open + stream->open_len, piece.ptr, piece.len);
    stream->open_len += piece.len;
    while (piece.len) {
        size_t length = piece.len < MOST_EMITTED ? piece.len : MOST_EMITTED;
        /* A letter is not cut in two. */
        while (length < piece.len && length > MOST_EMITTED - 4 && ((unsigned char)piece.ptr[length] & 0xc0) == 0x80)
            length--;
        shelly_import_emit(is_thinking, (uintptr_t)piece.ptr, length, 0, 0);
        piece = (shelly_str){piece.ptr + length, piece.len - length};
    }
    return true;
}

bool shelly_stream_text(shelly_stream *stream, shelly_str piece, shelly_error *error) {
    return add_text(stream, piece, false, error);
}

bool shelly_stream_thinking(shelly_stream *stream, shelly_str piece, shelly_error *error) {
    return add_text(stream, piece, true, error);
}

bool shelly_stream_call(shelly_stream *stream, shelly_str id, shelly_str name, shelly_str arguments, shelly_error *error) {
    if (!grow(stream, name.len + arguments.len + PART_BYTES, error) || !flush(stream, error)) return false;
    size_t calls = 1;
    for (size_t i = 0; i < stream->len; i++) calls += stream->parts[i].tag == SHELLY_CALL_PART;
    if (calls > MOST_CALLS)
        return shelly_fail(error, SHELLY_TOO_LARGE, "the model made more than %d tool calls in one reply", MOST_CALLS);
    shelly_tool_call call = {id, name, arguments.len ? arguments : SHELLY_STR("{}"), {NULL, 0}};
    shelly_import_emit(2, (uintptr_t)name.ptr, name.len, 0, 0);
    return add_part(stream, (shelly_part){.tag = SHELLY_CALL_PART, .is = {.call = call}}, error);
}

void shelly_stream_usage(shelly_stream *stream, shelly_usage total) {
    stream->usage = total;
    shelly_import_emit(3, total.input_tokens, total.output_tokens, total.cache_read_tokens, total.cache_write_tokens);
}

bool shelly_stream_finish(
    shelly_stream *stream, int stop, shelly_str model, shelly_completion *completion, shelly_error *error) {
    if (!flush(stream, error)) return false;
    *completion = (shelly_completion){
        .parts = {stream->parts, stream->len}, .stop = {.tag = (uint8_t)stop}, .usage = stream->usage, .model = model};
    return true;
}

/* --- coordinators --- */

bool shelly_assign(shelly_team_step *step, shelly_assignment assignment, shelly_error *error) {
    size_t len = step->action.is.run.len;
    shelly_assignment *more = shelly_alloc((len + 1) * sizeof *more);
    if (!more) return shelly_no_memory(error);
    if (len) memcpy(more, step->action.is.run.ptr, len * sizeof *more);
    more[len] = assignment;
    step->action.tag = SHELLY_TEAM_RUN;
    step->action.is.run.ptr = more;
    step->action.is.run.len = len + 1;
    return true;
}

void *shelly_run_coordinator(shelly_next_step *next, const shelly_coordinator_parameters *parameters) {
    ANSWER(shelly_team_step);
    shelly_team_step step = {.state = parameters->state};
    shelly_error error = SILENT;
    bool is_done = next(&parameters->input, parameters->state, &step, &error);
    if (is_done) answer.is.value = step;
    return ANSWERED(is_done);
}

/* --- the layout that the canonical ABI gives the types --- */

#ifdef __wasm32__
#define LAYOUT(type, size) _Static_assert(sizeof(type) == size, "the layout of " #type " is not that of the contract")
LAYOUT(shelly_error, 32);
LAYOUT(shelly_media, 32);
LAYOUT(shelly_file_change, 32);
LAYOUT(shelly_content, 36);
LAYOUT(shelly_tool_call, 32);
LAYOUT(shelly_part, 36);
LAYOUT(shelly_message, 28);
LAYOUT(shelly_tool_spec, 48);
LAYOUT(shelly_request, 64);
LAYOUT(shelly_completion, 72);
LAYOUT(shelly_reply, 80);
LAYOUT(shelly_ask, 76);
LAYOUT(shelly_effect_input, 240);
LAYOUT(shelly_effect_parameters, 248);
LAYOUT(shelly_edit, 32);
LAYOUT(shelly_wake, 56);
LAYOUT(shelly_effect_step, 152);
LAYOUT(SHELLY_RESULT(shelly_effect_step), 160);
LAYOUT(SHELLY_RESULT(shelly_run_before), 48);
LAYOUT(shelly_after_run_input, 112);
LAYOUT(SHELLY_RESULT(shelly_run_after), 48);
LAYOUT(SHELLY_RESULT(shelly_model_before), 104);
LAYOUT(shelly_after_model_input, 144);
LAYOUT(SHELLY_RESULT(shelly_model_after), 88);
LAYOUT(SHELLY_RESULT(shelly_tool_decision), 48);
LAYOUT(shelly_after_call_input, 104);
LAYOUT(SHELLY_RESULT(shelly_opt_contents), 40);
LAYOUT(shelly_provider_input, 72);
LAYOUT(shelly_report, 48);
LAYOUT(shelly_coordinator_parameters, 136);
LAYOUT(shelly_team_step, 88);
LAYOUT(SHELLY_RESULT(shelly_team_step), 96);
LAYOUT(shelly_chat_entry, 40);
LAYOUT(shelly_kv_result, 40);
LAYOUT(shelly_http_result, 40);
LAYOUT(shelly_program_result, 40);
#endif
