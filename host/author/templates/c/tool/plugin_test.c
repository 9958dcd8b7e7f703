#include "../plugin.c"
#include "../shelly/testing.h"

/* Calls the tool as a model does. Returns its JSON, or the message of its error. */
static shelly_str called(const char *arguments) {
    shelly_result result = {0};
    shelly_error error;
    bool is_done = shelly_call_tool(&count_text, SHELLY_STR("call"), shelly_text_of(arguments), &result, &error);
    return is_done ? result.ptr->is.json : error.is.message;
}

static void words_lines_and_characters_are_counted(void) {
    SHELLY_CHECK_TEXT(called("{\"text\": \"to be\\nor not\"}"), "{\"words\":4,\"lines\":2,\"characters\":12}");
    SHELLY_CHECK_TEXT(called("{\"text\": \"süß\\n\"}"), "{\"words\":1,\"lines\":1,\"characters\":4}");
}

static void call_of_a_model_is_checked(void) {
    SHELLY_CHECK_CONTAINS(called("{\"text\": \"\"}"), "`text` is empty");
    SHELLY_CHECK_CONTAINS(called("{\"text\": 7}"), "`text`: got 7, expected a string");
    SHELLY_CHECK_CONTAINS(called("{\"txt\": \"a\"}"), "there are `text`");
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(words_lines_and_characters_are_counted), SHELLY_TEST(call_of_a_model_is_checked));
}
