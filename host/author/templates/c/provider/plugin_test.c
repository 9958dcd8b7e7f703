#include "../plugin.c"
#include "../shelly/testing.h"

static void newest_message_of_the_user_is_repeated(void) {
    shelly_host_begin();
    shelly_host.params = "{\"prefix\": \"You said: \"}";
    shelly_message messages[] = {
        shelly_text_message(SHELLY_USER, SHELLY_STR("Hello you")),
        shelly_text_message(SHELLY_ASSISTANT, SHELLY_STR("Hi")),
    };
    shelly_request request = {.messages = {messages, 2}};
    shelly_completion completion;
    shelly_error error;
    SHELLY_CHECK(complete(SHELLY_STR("echo-1"), &request, &completion, &error));
    SHELLY_CHECK_TEXT(shelly_text_in(completion.parts), "You said: Hello you");
    SHELLY_CHECK_TEXT(((shelly_str){shelly_host.emitted, shelly_host.emitted_len}), "You said: Hello you");
    SHELLY_CHECK(completion.usage.output_tokens == 2 && shelly_host.usage.input_tokens == 2);
    request.messages.len = 0;
    SHELLY_CHECK(!complete(SHELLY_STR("echo-1"), &request, &completion, &error) && error.kind == SHELLY_INVALID);
}

int main(void) {
    return SHELLY_RUN_TESTS(SHELLY_TEST(newest_message_of_the_user_is_repeated));
}
