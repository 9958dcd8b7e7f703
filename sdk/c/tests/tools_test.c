#include "../shelly.h"
#include "../testing.h"

struct args {
    shelly_str text, mode;
    int64_t count;
    double share;
    bool is_loud;
    shelly_texts names;
    shelly_integers rolls;
    shelly_numbers shares;
    shelly_value any;
};
static const char *const modes[] = {"fast", "exact", NULL};
static const shelly_arg args_list[] = {
    SHELLY_ARG(struct args, text, SHELLY_TEXT, .doc = "A \"text\".", SHELLY_BETWEEN(1, 3)),
    SHELLY_ARG(struct args, mode, SHELLY_TEXT, .choices = modes, .is_optional = true),
    SHELLY_ARG(struct args, count, SHELLY_INTEGER, .is_optional = true, SHELLY_BETWEEN(0, 9)),
    SHELLY_ARG(struct args, share, SHELLY_NUMBER, .is_optional = true),
    SHELLY_ARG(struct args, is_loud, SHELLY_BOOLEAN, .is_optional = true),
    SHELLY_ARG(struct args, names, SHELLY_TEXTS, .is_optional = true),
    SHELLY_ARG(struct args, rolls, SHELLY_INTEGERS, .is_optional = true, .has_max = true, .max = 2),
    SHELLY_ARG(struct args, shares, SHELLY_NUMBERS, .is_optional = true),
    SHELLY_ARG(struct args, any, SHELLY_ANY, .is_optional = true),
};

static bool show(const shelly_call *call, shelly_result *result, shelly_error *error) {
    const struct args *args = call->args;
    if (shelly_equal(args->text, "bad")) return shelly_fail(error, SHELLY_DENIED, "`%s` is forbidden", "bad");
    return shelly_add_text(result, args->text, error) && shelly_add_text(result, call->id, error);
}

static const shelly_tool shows = {
    .name = "show", .description = "Shows a text.", .title = "Show", .hints = SHELLY_PURE, .run = show,
    SHELLY_ARGS(struct args, args_list),
};
SHELLY_TOOLS(&shows);

/* Reads arguments. Returns what is wrong; empty if nothing is. */
static shelly_str read_into(const char *json, struct args *into) {
    shelly_error error;
    bool fits = shelly_read(shelly_text_of(json), args_list, SHELLY_COUNT(args_list), into, "arguments of `show`", &error);
    return fits ? SHELLY_STR("") : error.is.message;
}

static void schema_follows_the_arguments(void) {
    SHELLY_CHECK_TEXT(shelly_input_schema(&shows),
        "{\"type\":\"object\",\"properties\":{"
        "\"text\":{\"type\":\"string\",\"description\":\"A \\\"text\\\".\",\"minLength\":1,\"maxLength\":3},"
        "\"mode\":{\"type\":\"string\",\"enum\":[\"fast\",\"exact\"]},"
        "\"count\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":9},\"share\":{\"type\":\"number\"},"
        "\"is_loud\":{\"type\":\"boolean\"},\"names\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
        "\"rolls\":{\"type\":\"array\",\"items\":{\"type\":\"integer\"},\"maxItems\":2},"
        "\"shares\":{\"type\":\"array\",\"items\":{\"type\":\"number\"}},\"any\":{}},"
        "\"additionalProperties\":false,\"required\":[\"text\"]}");
}

static void arguments_are_stored_in_their_struct(void) {
    struct args args = {.count = 5};
    const char *json = "{\"text\": \"süß\", \"mode\": \"fast\", \"count\": null, \"share\": 0.5, \"is_loud\": true, "
                       "\"names\": [\"a\", \"b\"], \"rolls\": [6, 1], \"shares\": [1, 0.5], \"any\": {\"a\": []}}";
    SHELLY_CHECK_TEXT(read_into(json, &args), "");
    SHELLY_CHECK_TEXT(args.text, "süß");
    SHELLY_CHECK(args.count == 5 && args.share == 0.5 && args.is_loud);
    SHELLY_CHECK(args.names.len == 2 && shelly_equal(args.names.ptr[1], "b"));
    SHELLY_CHECK(args.rolls.len == 2 && args.rolls.ptr[0] == 6 && args.shares.len == 2 && args.shares.ptr[1] == 0.5);
    SHELLY_CHECK(shelly_type_of(args.any) == SHELLY_JSON_OBJECT);
}

static void arguments_that_do_not_fit_are_named_with_their_place(void) {
    struct args args = {.count = 0};
    SHELLY_CHECK_TEXT(read_into("{}", &args), "invalid arguments of `show`: `text`: it is missing; expected a string");
    SHELLY_CHECK_CONTAINS(read_into("[]", &args), "got an array, expected an object");
    SHELLY_CHECK_CONTAINS(read_into("{", &args), "it is not valid JSON: at byte 1");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"long\"}", &args), "`text`: got 4 characters, the maximum is 3");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"\"}", &args), "`text`: got 0 characters, the minimum is 1");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"mode\": \"slow\"}", &args),
                          "`mode`: got the string \"slow\", expected one of \"fast\", \"exact\"");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"count\": 10}", &args), "`count`: got 10, the maximum is 9");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"count\": 1.5}", &args), "`count`: got 1.5, expected an integer");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"is_loud\": 1}", &args), "expected true or false");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"names\": [1]}", &args), "`names[0]`: got 1, expected a string");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"rolls\": [1, 2, 3]}", &args), "got 3 items, the maximum is 2");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"shares\": 1}", &args), "expected an array of numbers");
    SHELLY_CHECK_CONTAINS(read_into("{\"text\": \"a\", \"txt\": 1}", &args), "\"txt\" is unknown; there are `text`, `mode`");
    const char *six = "{\"a\":1,\"b\":1,\"c\":1,\"d\":1,\"e\":1,\"f\":1,\"text\":\"a\"}";
    SHELLY_CHECK_CONTAINS(read_into(six, &args), "; and 1 more");
}

static void calls_reach_the_tool_of_their_name(void) {
    struct list { uint8_t is_error; union { shelly_tool_specs specs; shelly_contents content; shelly_error error; } is; };
    struct list *specs = shelly_export_specs();
    SHELLY_CHECK(!specs->is_error && specs->is.specs.len == 1 && specs->is.specs.ptr->hints == SHELLY_PURE);
    SHELLY_CHECK_TEXT(specs->is.specs.ptr->meta.ptr->value, "Show");
    struct list *done = shelly_export_call("7", 1, "show", 4, "{\"text\": \"a\"}", 13, NULL, 0);
    SHELLY_CHECK(!done->is_error && done->is.content.len == 2);
    SHELLY_CHECK_TEXT(done->is.content.ptr[1].is.text, "7");
    struct list *denied = shelly_export_call("7", 1, "show", 4, "{\"text\": \"bad\"}", 15, NULL, 0);
    SHELLY_CHECK(denied->is_error && denied->is.error.kind == SHELLY_DENIED);
    SHELLY_CHECK_TEXT(denied->is.error.is.message, "`bad` is forbidden");
    struct list *unknown = shelly_export_call("7", 1, "hide", 4, "{}", 2, NULL, 0);
    SHELLY_CHECK(unknown->is_error && unknown->is.error.kind == SHELLY_NOT_FOUND);
    SHELLY_CHECK_TEXT(unknown->is.error.is.message, "unknown tool `hide`; available tools: show");
}

static void json_that_is_not_whole_is_no_result(void) {
    shelly_json open = {0};
    shelly_result result = {0};
    shelly_error error;
    shelly_json_array(&open);
    SHELLY_CHECK(!shelly_add_json(&result, &open, &error) && error.kind == SHELLY_OTHER && !result.len);
    shelly_json_end_array(&open);
    for (int i = 0; i < 9; i++) SHELLY_CHECK(shelly_add_json(&result, &open, &error));
    SHELLY_CHECK(result.len == 9 && shelly_equal(result.ptr[8].is.json, "[]"));
}

int main(void) {
    return SHELLY_RUN_TESTS(
        SHELLY_TEST(schema_follows_the_arguments), SHELLY_TEST(arguments_are_stored_in_their_struct),
        SHELLY_TEST(arguments_that_do_not_fit_are_named_with_their_place), SHELLY_TEST(calls_reach_the_tool_of_their_name),
        SHELLY_TEST(json_that_is_not_whole_is_no_result));
}
