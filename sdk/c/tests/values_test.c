#include "../shelly.h"
#include "../testing.h"

/* Returns what is wrong with a text of JSON; empty if nothing is. */
static shelly_str wrong(const char *text) {
    shelly_value value;
    shelly_error error;
    return shelly_parse(shelly_text_of(text), &value, &error) ? SHELLY_STR("") : error.is.message;
}

static shelly_value parsed(const char *text) {
    shelly_value value = {{NULL, 0}};
    shelly_error error;
    SHELLY_CHECK(shelly_parse(shelly_text_of(text), &value, &error));
    return value;
}

static void json_that_is_not_valid_is_refused_with_its_place(void) {
    const char *valid[] = {
        "0", " -1.5e+3 ", "\"\\u00e9\\n\"", "[]", "{}", "[1, [2], {\"a\": null}]", "{\"a\": true, \"b\": false}"};
    for (size_t i = 0; i < SHELLY_COUNT(valid); i++) SHELLY_CHECK_TEXT(wrong(valid[i]), "");
    SHELLY_CHECK_CONTAINS(wrong(""), "at byte 0: a value is missing");
    SHELLY_CHECK_CONTAINS(wrong("[1 2]"), "at byte 3: a comma or a closing bracket is missing");
    SHELLY_CHECK_CONTAINS(wrong("[1,"), "a value is missing");
    SHELLY_CHECK_CONTAINS(wrong("[1,]"), "it is no JSON value");
    SHELLY_CHECK_CONTAINS(wrong("{\"a\"}"), "a key lacks its colon");
    SHELLY_CHECK_CONTAINS(wrong("{a: 1}"), "an object lacks a key");
    SHELLY_CHECK_CONTAINS(wrong("{\"a\": 1,}"), "an object lacks a key");
    SHELLY_CHECK_CONTAINS(wrong("\"a"), "a string has no end");
    SHELLY_CHECK_CONTAINS(wrong("\"a\\"), "a string has no end");
    SHELLY_CHECK_CONTAINS(wrong("\"\\x\""), "unknown escape");
    SHELLY_CHECK_CONTAINS(wrong("\"\\u12\""), "unknown escape");
    SHELLY_CHECK_CONTAINS(wrong("\"\n\""), "a control character");
    SHELLY_CHECK_CONTAINS(wrong("01"), "begins with a zero");
    SHELLY_CHECK_CONTAINS(wrong("1."), "lacks a digit");
    SHELLY_CHECK_CONTAINS(wrong("-"), "lacks a digit");
    SHELLY_CHECK_CONTAINS(wrong("nul"), "it is no JSON value");
    SHELLY_CHECK_CONTAINS(wrong("1 1"), "something follows the value");
}

static void json_nested_beyond_its_bound_is_refused(void) {
    char text[131] = {0};
    memset(text, '[', 65);
    memset(text + 65, ']', 65);
    SHELLY_CHECK_CONTAINS(wrong(text), "more than 64 levels");
    text[0] = ' ', text[129] = ' ';
    SHELLY_CHECK_TEXT(wrong(text), "");
}

static void values_are_read_as_their_types(void) {
    shelly_value object = parsed("{\"a\": \"x\", \"n\": -7, \"d\": 1.5, \"t\": true, \"l\": [1, 2, 3], \"a\": \"y\"}");
    shelly_str text;
    int64_t integer;
    double number;
    bool is_true;
    SHELLY_CHECK(shelly_as_string(shelly_field(object, "a"), &text) && shelly_equal(text, "y"));
    SHELLY_CHECK(shelly_as_integer(shelly_field(object, "n"), &integer) && integer == -7);
    SHELLY_CHECK(shelly_as_number(shelly_field(object, "d"), &number) && number == 1.5);
    SHELLY_CHECK(shelly_as_bool(shelly_field(object, "t"), &is_true) && is_true);
    SHELLY_CHECK(!shelly_as_integer(shelly_field(object, "d"), &integer));
    SHELLY_CHECK(!shelly_as_integer(parsed("9223372036854775808"), &integer));
    SHELLY_CHECK(!shelly_as_number(parsed("1e999"), &number));
    SHELLY_CHECK(!shelly_as_string(shelly_field(object, "none"), &text));
    SHELLY_CHECK(shelly_type_of(shelly_field(object, "none")) == SHELLY_JSON_MISSING);
    int64_t sum = 0;
    size_t at = 0;
    for (shelly_value element; shelly_next(shelly_field(object, "l"), &at, NULL, &element);)
        if (shelly_as_integer(element, &integer)) sum += integer;
    SHELLY_CHECK(sum == 6);
}

static void escapes_become_utf8(void) {
    shelly_str text;
    SHELLY_CHECK(shelly_as_string(parsed("\"\\u0041\\u00e9\\u20ac\\ud83d\\ude00\\n\\\"\\/\""), &text));
    SHELLY_CHECK_TEXT(text, "Aé€😀\n\"/");
    /* Half of a pair is no character. */
    SHELLY_CHECK(shelly_as_string(parsed("\"\\ud83dx\\ude00\""), &text));
    SHELLY_CHECK_TEXT(text, "\xef\xbf\xbdx\xef\xbf\xbd");
}

static void written_json_is_escaped_and_bounded(void) {
    shelly_json json = {0};
    shelly_json_object(&json);
    shelly_json_key(&json, "a\"b"), shelly_json_string(&json, SHELLY_STR("\x01\\ü"));
    shelly_json_key(&json, "l"), shelly_json_array(&json);
    shelly_json_integer(&json, INT64_MIN), shelly_json_number(&json, 0.5), shelly_json_bool(&json, true);
    shelly_json_null(&json);
    shelly_json_end_array(&json), shelly_json_end_object(&json);
    SHELLY_CHECK(!json.failed && !json.depth);
    SHELLY_CHECK_TEXT(((shelly_str){json.ptr, json.len}),
                      "{\"a\\\"b\":\"\\u0001\\\\ü\",\"l\":[-9223372036854775808,0.5,true,null]}");
    shelly_json deep = {0};
    for (int i = 0; i < 33; i++) shelly_json_array(&deep);
    SHELLY_CHECK(deep.failed);
    shelly_json infinite = {0};
    shelly_json_number(&infinite, strtod("inf", NULL));
    SHELLY_CHECK(infinite.failed);
    shelly_json ended = {0};
    shelly_json_end_object(&ended);
    SHELLY_CHECK(ended.failed);
    shelly_json large = {0};
    size_t size = 9 << 20;
    char *half = shelly_alloc(size);
    SHELLY_CHECK(half != NULL);
    if (!half) return;
    memset(half, 'a', size);
    shelly_json_array(&large);
    shelly_json_string(&large, (shelly_str){half, size});
    SHELLY_CHECK(!large.failed);
    shelly_json_string(&large, (shelly_str){half, size});
    SHELLY_CHECK(large.failed);
}

static void memory_that_is_not_there_is_no_crash(void) {
    SHELLY_CHECK(!shelly_alloc(SIZE_MAX) && !shelly_alloc(SIZE_MAX / 2));
    size_t room = SIZE_MAX / 4;
    SHELLY_CHECK(!shelly_grown(NULL, room, &room, 16));
    SHELLY_CHECK(shelly_alloc(0) != NULL);
}

static void bytes_that_are_no_text_are_replaced(void) {
    SHELLY_CHECK_TEXT(shelly_valid(SHELLY_STR("süß😀")), "süß😀");
    SHELLY_CHECK_TEXT(shelly_valid(SHELLY_STR("a\xff" "b\xc3")), "a?b?");
    SHELLY_CHECK_TEXT(shelly_valid(SHELLY_STR("\xed\xa0\x80")), "???");
    SHELLY_CHECK_TEXT(shelly_trimmed(SHELLY_STR(" \na b\t")), "a b");
    SHELLY_CHECK_TEXT(shelly_trimmed(SHELLY_STR(" ")), "");
}

static void messages_are_made_and_read(void) {
    shelly_part parts[] = {
        {.tag = SHELLY_TEXT_PART, .is = {.text = SHELLY_STR("a")}},
        {.tag = SHELLY_THINKING_PART, .is = {.thinking = {.text = SHELLY_STR("b")}}},
        {.tag = SHELLY_TEXT_PART, .is = {.text = SHELLY_STR("c")}},
    };
    SHELLY_CHECK_TEXT(shelly_text_in((shelly_parts){parts, 3}), "ac");
    shelly_ask ask = shelly_ask_text(SHELLY_STR("Why?"));
    SHELLY_CHECK(ask.request.messages.len == 1 && ask.request.messages.ptr->role == SHELLY_USER && !ask.model.has);
    SHELLY_CHECK_TEXT(shelly_text_in(ask.request.messages.ptr->parts), "Why?");
    shelly_fact failed = {SHELLY_STR("shelly.ending"), SHELLY_STR("failed")};
    shelly_message message = {.meta = {&failed, 1}};
    SHELLY_CHECK(!shelly_is_answer(&message));
    message.meta.len = 0;
    SHELLY_CHECK(shelly_is_answer(&message));
}

int main(void) {
    return SHELLY_RUN_TESTS(
        SHELLY_TEST(json_that_is_not_valid_is_refused_with_its_place), SHELLY_TEST(json_nested_beyond_its_bound_is_refused),
        SHELLY_TEST(values_are_read_as_their_types), SHELLY_TEST(escapes_become_utf8),
        SHELLY_TEST(written_json_is_escaped_and_bounded), SHELLY_TEST(memory_that_is_not_there_is_no_crash),
        SHELLY_TEST(bytes_that_are_no_text_are_replaced), SHELLY_TEST(messages_are_made_and_read));
}
