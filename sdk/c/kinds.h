/* The kinds of plugins besides tools; shelly.h includes it. */
#ifndef SHELLY_KINDS_H
#define SHELLY_KINDS_H

/* --- effects: they inspect the chat once per turn --- */

enum { SHELLY_BEFORE_MODEL, SHELLY_AFTER_MODEL, SHELLY_OTHER_PHASE };
typedef struct { bool has; shelly_usage value; } shelly_opt_usage;
/* The input of an effect. Times are in milliseconds; `reply` is there only in the call that follows a request to a model. */
typedef struct {
    shelly_run_context cx;
    struct { uint8_t tag; shelly_str other; } phase;
    uint32_t iteration, messages;
    uint64_t request_tokens;
    shelly_opt_u64 context_window;
    shelly_opt_usage last_usage;
    shelly_usage run_usage;
    uint64_t model_ms, elapsed_ms;
    shelly_opt_reply reply;
} shelly_effect_input;

enum { SHELLY_NOTE, SHELLY_REPLACE_RESULT, SHELLY_REPLACE_MESSAGES, SHELLY_HIDE_TOOLS, SHELLY_STOP_RUN, SHELLY_OTHER_EDIT };
/* A change of the chat. Each needs a power, which plugin.toml asks for. */
typedef struct {
    uint8_t tag;
    union {
        shelly_str note;
        struct { shelly_str call_id; shelly_contents content; } result;
        struct { uint64_t first, last; shelly_messages messages; } messages;
        shelly_texts hide;
        struct { shelly_str code, message; } stop;
        shelly_opaque other;
    } is;
} shelly_edit;
typedef struct { const shelly_edit *ptr; size_t len; } shelly_edits;

enum { SHELLY_EDITS, SHELLY_EFFECT_ASK };
/* The time of the next call: in the next of the effect's phases, once a condition holds, or not in this run. An effect with
 * the power `hide-tools` is still called for a tool that appears later. */
enum { SHELLY_NEXT_PHASE, SHELLY_WHEN, SHELLY_NEVER_AGAIN };
/* The conditions under which the host calls an effect again. Without one none ever holds: use SHELLY_NEVER_AGAIN for that. */
typedef struct { shelly_opt_u32 iteration; shelly_opt_u64 request_tokens, run_tokens, model_ms; } shelly_wake;
/* The answer of an effect: no edits, if it stays as it was. */
typedef struct {
    shelly_str state;
    struct { uint8_t tag; union { shelly_edits edits; shelly_ask ask; } is; } action;
    /* The next of the effect's phases, if it stays as it was. */
    struct { uint8_t tag; shelly_wake when; } next_call;
} shelly_effect_step;
bool shelly_add_edit(shelly_effect_step *step, shelly_edit edit, shelly_error *error);
bool shelly_add_note(shelly_effect_step *step, shelly_str text, shelly_error *error);

typedef bool shelly_eval(
    const shelly_effect_input *input, shelly_str state, shelly_effect_step *step, shelly_error *error);
typedef struct { shelly_effect_input input; shelly_str state; } shelly_effect_parameters;
void *shelly_run_effect(shelly_eval *eval, const shelly_effect_parameters *parameters);
#define SHELLY_EFFECT(eval) \
    SHELLY_EXPORT("effect@0.2.0#eval") void *shelly_export_effect(const shelly_effect_parameters *parameters) { \
        return shelly_run_effect(eval, parameters); \
    } \
    struct shelly_semicolon

/* --- middlewares; a function that is NULL lets everything pass, and so does a decision that stays as it was --- */

enum { SHELLY_PROCEED, SHELLY_ANSWER, SHELLY_REJECT };
enum { SHELLY_ACCEPT, SHELLY_REPLACE, SHELLY_REJECT_REPLY, SHELLY_RETRY };

typedef struct {
    uint8_t tag;
    union {
        struct { struct { bool has; shelly_messages value; } input; shelly_str state; } proceed;
        shelly_message answer;
        shelly_error reject;
    } is;
} shelly_run_before;
typedef struct {
    struct { uint8_t is_error; union { shelly_message message; shelly_error error; } is; } reply;
    shelly_usage usage;
    uint32_t attempt;
} shelly_run_outcome;
typedef struct {
    uint8_t tag;
    union {
        shelly_message replace;
        shelly_error reject;
        struct { shelly_opt_str feedback; uint64_t delay_ms; shelly_str state; } retry;
    } is;
} shelly_run_after;
typedef bool shelly_before_run(
    const shelly_run_context *cx, shelly_messages input, shelly_run_before *decision, shelly_error *error);
typedef bool shelly_after_run(
    const shelly_run_context *cx, const shelly_run_outcome *outcome, shelly_str state, shelly_run_after *decision,
    shelly_error *error);
typedef struct { shelly_run_context cx; shelly_run_outcome outcome; shelly_str state; } shelly_after_run_input;
void *shelly_run_before_run(shelly_before_run *before, shelly_run_context cx, shelly_messages input);
void *shelly_run_after_run(shelly_after_run *after, const shelly_after_run_input *input);
#define SHELLY_RUN_MIDDLEWARE(before, after) \
    SHELLY_EXPORT("run-middleware@0.2.0#before") void *shelly_export_before_run( \
        const char *run, size_t run_len, const char *agent, size_t agent_len, uint32_t depth, \
        const shelly_message *input, size_t input_len) { \
        shelly_run_context cx = {{run, run_len}, {agent, agent_len}, depth}; \
        return shelly_run_before_run(before, cx, (shelly_messages){input, input_len}); \
    } \
    SHELLY_EXPORT("run-middleware@0.2.0#after") void *shelly_export_after_run(const shelly_after_run_input *input) { \
        return shelly_run_after_run(after, input); \
    } \
    struct shelly_semicolon

/* A request that is about to be sent, or was sent. */
typedef struct { shelly_str model, digest; uint64_t tokens; uint32_t attempt; } shelly_sending;
typedef struct {
    uint8_t tag;
    union {
        struct {
            shelly_opt_str model;
            struct { bool has; shelly_request value; } request;
            shelly_str state;
        } proceed;
        shelly_completion answer;
        shelly_error reject;
    } is;
} shelly_model_before;
typedef struct {
    uint8_t tag;
    union {
        shelly_completion replace;
        shelly_error reject;
        struct { shelly_opt_str model; uint64_t delay_ms; shelly_str state; } retry;
    } is;
} shelly_model_after;
typedef bool shelly_before_model(
    const shelly_run_context *cx, const shelly_sending *sending, shelly_model_before *decision, shelly_error *error);
typedef bool shelly_after_model(
    const shelly_run_context *cx, const shelly_sending *sending, const shelly_reply *reply, shelly_str state,
    shelly_model_after *decision, shelly_error *error);
typedef struct {
    shelly_run_context cx;
    shelly_sending sending;
    shelly_reply reply;
    shelly_str state;
} shelly_after_model_input;
void *shelly_run_before_model(shelly_before_model *before, shelly_run_context cx, shelly_sending sending);
void *shelly_run_after_model(shelly_after_model *after, const shelly_after_model_input *input);
#define SHELLY_MODEL_MIDDLEWARE(before, after) \
    SHELLY_EXPORT("model-middleware@0.2.0#before") void *shelly_export_before_model( \
        const char *run, size_t run_len, const char *agent, size_t agent_len, uint32_t depth, const char *model, \
        size_t model_len, const char *digest, size_t digest_len, uint64_t tokens, uint32_t attempt) { \
        shelly_run_context cx = {{run, run_len}, {agent, agent_len}, depth}; \
        shelly_sending sending = {{model, model_len}, {digest, digest_len}, tokens, attempt}; \
        return shelly_run_before_model(before, cx, sending); \
    } \
    SHELLY_EXPORT("model-middleware@0.2.0#after") void *shelly_export_after_model( \
        const shelly_after_model_input *input) { \
        return shelly_run_after_model(after, input); \
    } \
    struct shelly_semicolon

/* The tool that is called: a plugin's id, `mcp:` and a server's name, or `host`; and its hints. */
typedef struct { shelly_str origin; uint8_t hints; } shelly_target;
enum { SHELLY_ALLOW, SHELLY_ASK_PERSON, SHELLY_ANSWER_CALL, SHELLY_DENY };
typedef struct {
    struct {
        uint8_t tag;
        union { struct { shelly_str text, topic; } ask; shelly_contents answer; shelly_str deny; } is;
    } verdict;
    /* Other arguments, as JSON, for SHELLY_ALLOW and SHELLY_ASK_PERSON. */
    shelly_opt_str arguments;
    shelly_str state;
} shelly_tool_decision;
typedef struct { uint8_t is_error; union { shelly_contents content; shelly_error error; } is; } shelly_call_outcome;
typedef struct { bool has; shelly_contents value; } shelly_opt_contents;
typedef bool shelly_before_call(
    const shelly_run_context *cx, const shelly_tool_call *call, const shelly_target *target, shelly_tool_decision *decision,
    shelly_error *error);
/* Content replaces that of the result. */
typedef bool shelly_after_call(
    const shelly_run_context *cx, const shelly_tool_call *call, const shelly_call_outcome *outcome, shelly_str state,
    shelly_opt_contents *content, shelly_error *error);
typedef struct {
    shelly_run_context cx;
    shelly_tool_call call;
    shelly_call_outcome outcome;
    shelly_str state;
} shelly_after_call_input;
void *shelly_run_before_call(
    shelly_before_call *before, shelly_run_context cx, shelly_tool_call call, shelly_target target);
void *shelly_run_after_call(shelly_after_call *after, const shelly_after_call_input *input);
#define SHELLY_TOOL_MIDDLEWARE(before, after) \
    SHELLY_EXPORT("tool-middleware@0.2.0#before") void *shelly_export_before_call( \
        const char *run, size_t run_len, const char *agent, size_t agent_len, uint32_t depth, const char *id, \
        size_t id_len, const char *name, size_t name_len, const char *arguments, size_t arguments_len, \
        const shelly_fact *meta, size_t meta_len, const char *origin, size_t origin_len, uint32_t hints) { \
        shelly_run_context cx = {{run, run_len}, {agent, agent_len}, depth}; \
        shelly_tool_call call = {{id, id_len}, {name, name_len}, {arguments, arguments_len}, {meta, meta_len}}; \
        return shelly_run_before_call(before, cx, call, (shelly_target){{origin, origin_len}, (uint8_t)hints}); \
    } \
    SHELLY_EXPORT("tool-middleware@0.2.0#after") void *shelly_export_after_call(const shelly_after_call_input *input) { \
        return shelly_run_after_call(after, input); \
    } \
    struct shelly_semicolon

/* --- providers: they send requests to a model --- */

typedef bool shelly_complete(
    shelly_str model, const shelly_request *request, shelly_completion *completion, shelly_error *error);
typedef struct { shelly_str model; shelly_request request; } shelly_provider_input;
void *shelly_run_provider(shelly_complete *complete, const shelly_provider_input *input);
#define SHELLY_PROVIDER(complete) \
    SHELLY_EXPORT("provider@0.2.0#complete") void *shelly_export_provider(const shelly_provider_input *input) { \
        return shelly_run_provider(complete, input); \
    } \
    struct shelly_semicolon

/* A reply that is put together while it arrives: each piece is shown as soon as it is added. Begin with {0}. */
typedef struct {
    shelly_part *parts;
    size_t len, room;
    char *open;
    size_t open_len, open_room, bytes;
    bool is_thinking;
    shelly_usage usage;
} shelly_stream;
bool shelly_stream_text(shelly_stream *stream, shelly_str piece, shelly_error *error);
bool shelly_stream_thinking(shelly_stream *stream, shelly_str piece, shelly_error *error);
/* The arguments are a JSON object. */
bool shelly_stream_call(shelly_stream *stream, shelly_str id, shelly_str name, shelly_str arguments, shelly_error *error);
void shelly_stream_usage(shelly_stream *stream, shelly_usage total);
bool shelly_stream_finish(
    shelly_stream *stream, int stop, shelly_str model, shelly_completion *completion, shelly_error *error);

/* --- coordinators: they decide which members of a team work next --- */

typedef struct { shelly_str name, role, description; } shelly_member;
/* The outcome of a member's work: its reply is in the chat; it asks for another member to continue, for a reason that is in
 * the chat; or it failed, and the team continues without its reply. */
enum { SHELLY_REPLIED, SHELLY_HANDED_OVER, SHELLY_FAILED };
/* The report on a member of the last step. */
typedef struct {
    shelly_str member;
    struct { uint8_t tag; union { shelly_str to; shelly_error error; } is; } outcome;
} shelly_report;
typedef struct {
    shelly_run_context cx;
    /* The number of steps before this one. */
    uint32_t step;
    struct { const shelly_member *ptr; size_t len; } members;
    struct { const shelly_report *ptr; size_t len; } reports;
    /* Only in the call that follows a request to a model. */
    shelly_opt_reply reply;
} shelly_coordinator_input;
/* Only this member receives the task; without one it sees what is new in the chat. */
typedef struct { shelly_str member; shelly_opt_str task; } shelly_assignment;
enum { SHELLY_TEAM_RUN, SHELLY_TEAM_DONE, SHELLY_TEAM_ASK };
/* The answer of a team that is done: the last reply in the chat, or content, which must not be empty. */
enum { SHELLY_LAST_REPLY, SHELLY_TEAM_CONTENT };
typedef struct {
    shelly_str state;
    struct {
        uint8_t tag;
        union {
            struct { const shelly_assignment *ptr; size_t len; } run;
            struct { uint8_t tag; shelly_contents content; } done;
            shelly_ask ask;
        } is;
    } action;
} shelly_team_step;
bool shelly_assign(shelly_team_step *step, shelly_assignment assignment, shelly_error *error);
typedef bool shelly_next_step(
    const shelly_coordinator_input *input, shelly_str state, shelly_team_step *step, shelly_error *error);
typedef struct { shelly_coordinator_input input; shelly_str state; } shelly_coordinator_parameters;
void *shelly_run_coordinator(shelly_next_step *next, const shelly_coordinator_parameters *parameters);
#define SHELLY_COORDINATOR(next) \
    SHELLY_EXPORT("coordinator@0.2.0#next") void *shelly_export_coordinator( \
        const shelly_coordinator_parameters *parameters) { \
        return shelly_run_coordinator(next, parameters); \
    } \
    struct shelly_semicolon

#endif
