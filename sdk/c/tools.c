/* Typed arguments and tools, as shelly.h declares them. */
#include "shelly.h"

#include <string.h>

/* Bounds of a message: of the mistakes in it, and of the bytes that are shown of a value. */
enum { MOST_MISTAKES = 5, MOST_SHOWN = 60 };

/* --- the schema of arguments --- */

static const char *type_name(int type) {
    switch (type) {
    case SHELLY_TEXT: case SHELLY_TEXTS: return "string";
    case SHELLY_INTEGER: case SHELLY_INTEGERS: return "integer";
    case SHELLY_NUMBER: case SHELLY_NUMBERS: return "number";
    case SHELLY_BOOLEAN: return "boolean";
    default: return NULL;
    }
}

static bool is_list(int type) { return type == SHELLY_TEXTS || type == SHELLY_INTEGERS || type == SHELLY_NUMBERS; }

static void put_property(shelly_json *json, const char *key, const char *text) {
    shelly_json_key(json, key);
    shelly_json_string(json, shelly_text_of(text));
}

static void put_bounds(shelly_json *json, const shelly_arg *arg) {
    const char *low = arg->type == SHELLY_TEXT ? "minLength" : is_list(arg->type) ? "minItems" : "minimum";
    const char *high = arg->type == SHELLY_TEXT ? "maxLength" : is_list(arg->type) ? "maxItems" : "maximum";
    if (arg->has_min) shelly_json_key(json, low), shelly_json_number(json, arg->min);
    if (arg->has_max) shelly_json_key(json, high), shelly_json_number(json, arg->max);
}

static void put_arg(shelly_json *json, const shelly_arg *arg) {
    shelly_json_key(json, arg->name);
    shelly_json_object(json);
    if (is_list(arg->type)) {
        put_property(json, "type", "array");
        shelly_json_key(json, "items");
        shelly_json_object(json);
        put_property(json, "type", type_name(arg->type));
        shelly_json_end_object(json);
    } else if (type_name(arg->type)) put_property(json, "type", type_name(arg->type));
    if (arg->doc) put_property(json, "description", arg->doc);
    if (arg->choices) {
        shelly_json_key(json, "enum");
        shelly_json_array(json);
        for (size_t i = 0; arg->choices[i]; i++) shelly_json_string(json, shelly_text_of(arg->choices[i]));
        shelly_json_end_array(json);
    }
    put_bounds(json, arg);
    shelly_json_end_object(json);
}

shelly_str shelly_input_schema(const shelly_tool *tool) {
    shelly_json json = {0};
    size_t required = 0;
    shelly_json_object(&json);
    put_property(&json, "type", "object");
    shelly_json_key(&json, "properties");
    shelly_json_object(&json);
    for (size_t i = 0; i < tool->args_count; i++) {
        put_arg(&json, &tool->args[i]);
        required += !tool->args[i].is_optional;
    }
    shelly_json_end_object(&json);
    shelly_json_key(&json, "additionalProperties");
    shelly_json_bool(&json, false);
    if (required) {
        shelly_json_key(&json, "required");
        shelly_json_array(&json);
        for (size_t i = 0; i < tool->args_count; i++)
            if (!tool->args[i].is_optional) shelly_json_string(&json, shelly_text_of(tool->args[i].name));
        shelly_json_end_array(&json);
    }
    shelly_json_end_object(&json);
    return json.failed ? (shelly_str){NULL, 0} : (shelly_str){json.ptr, json.len};
}

/* --- the check of arguments --- */

/* What is wrong with an object: the first mistakes as one text, and their number. */
struct mistakes { shelly_str text; size_t count; };

static void add_mistake(struct mistakes *mistakes, shelly_str text) {
    mistakes->count++;
    if (mistakes->count > MOST_MISTAKES) return;
    const char *separator = mistakes->text.len ? "; " : "";
    mistakes->text =
        shelly_format("%.*s%s%.*s", (int)mistakes->text.len, mistakes->text.len ? mistakes->text.ptr : "", separator,
                      (int)text.len, text.ptr ? text.ptr : "no memory is left");
}

static const char *expected(int type) {
    switch (type) {
    case SHELLY_TEXT: return "a string";
    case SHELLY_INTEGER: return "an integer";
    case SHELLY_NUMBER: return "a number";
    case SHELLY_BOOLEAN: return "true or false";
    case SHELLY_TEXTS: return "an array of strings";
    case SHELLY_INTEGERS: return "an array of integers";
    case SHELLY_NUMBERS: return "an array of numbers";
    default: return "any value";
    }
}

/* Returns a value for a message. A letter of several bytes is not cut. */
static shelly_str shown(shelly_value value) {
    switch (shelly_type_of(value)) {
    case SHELLY_JSON_OBJECT: return SHELLY_STR("an object");
    case SHELLY_JSON_ARRAY: return SHELLY_STR("an array");
    default: break;
    }
    const char *is_text = shelly_type_of(value) == SHELLY_JSON_STRING ? "the string " : "";
    if (value.text.len <= MOST_SHOWN) return shelly_format("%s%.*s", is_text, (int)value.text.len, value.text.ptr);
    int length = MOST_SHOWN;
    while (length && ((unsigned char)value.text.ptr[length] & 0xc0) == 0x80) length--;
    return shelly_format("%s%.*s…", is_text, length, value.text.ptr);
}

static size_t characters(shelly_str text) {
    size_t count = 0;
    /* The other bytes of a character begin with the bits 10. */
    for (size_t i = 0; i < text.len; i++) count += ((unsigned char)text.ptr[i] & 0xc0) != 0x80;
    return count;
}

/* Says that a value has the wrong type. */
static void add_type(struct mistakes *mistakes, const char *path, shelly_value value, const char *wanted) {
    shelly_str got = shown(value);
    add_mistake(mistakes, shelly_format("`%s`: got %.*s, expected %s", path, (int)got.len, got.len ? got.ptr : "", wanted));
}

static void check_bounds(struct mistakes *mistakes, const shelly_arg *arg, double size, const char *unit) {
    if (arg->has_min && size < arg->min)
        add_mistake(mistakes, shelly_format("`%s`: got %.15g%s, the minimum is %.15g", arg->name, size, unit, arg->min));
    if (arg->has_max && size > arg->max)
        add_mistake(mistakes, shelly_format("`%s`: got %.15g%s, the maximum is %.15g", arg->name, size, unit, arg->max));
}

static bool is_choice(const shelly_arg *arg, shelly_str text) {
    for (size_t i = 0; arg->choices[i]; i++)
        if (shelly_equal(text, arg->choices[i])) return true;
    return false;
}

static void read_text(struct mistakes *mistakes, const shelly_arg *arg, shelly_value value, shelly_str *into) {
    if (!shelly_as_string(value, into)) {
        add_type(mistakes, arg->name, value, expected(SHELLY_TEXT));
    } else if (arg->choices && !is_choice(arg, *into)) {
        shelly_str wanted = SHELLY_STR("one of");
        for (size_t i = 0; arg->choices[i]; i++)
            wanted = shelly_format("%.*s%s \"%s\"", (int)wanted.len, wanted.len ? wanted.ptr : "", i ? "," : "",
                                   arg->choices[i]);
        add_type(mistakes, arg->name, value, wanted.ptr ? wanted.ptr : "another");
    } else check_bounds(mistakes, arg, (double)characters(*into), " characters");
}

/* Reads an element of a list. */
static bool read_element(int type, shelly_value value, void *into) {
    switch (type) {
    case SHELLY_TEXTS: return shelly_as_string(value, into);
    case SHELLY_INTEGERS: return shelly_as_integer(value, into);
    default: return shelly_as_number(value, into);
    }
}

/* All lists of arguments lie in memory like this. */
struct any_list { const void *ptr; size_t len; };

static void read_list(struct mistakes *mistakes, const shelly_arg *arg, shelly_value value, void *into) {
    bool is_texts = arg->type == SHELLY_TEXTS, is_integers = arg->type == SHELLY_INTEGERS;
    size_t size = is_texts ? sizeof(shelly_str) : is_integers ? sizeof(int64_t) : sizeof(double);
    int of = is_texts ? SHELLY_TEXT : is_integers ? SHELLY_INTEGER : SHELLY_NUMBER;
    char *list = NULL;
    size_t len = 0, room = 0, at = 0;
    shelly_value element;
    if (shelly_type_of(value) != SHELLY_JSON_ARRAY) {
        add_type(mistakes, arg->name, value, expected(arg->type));
        return;
    }
    while (shelly_next(value, &at, NULL, &element)) {
        list = shelly_grown(list, len, &room, size);
        if (!list) {
            add_mistake(mistakes, SHELLY_STR("no memory is left"));
            return;
        }
        if (!read_element(arg->type, element, list + len * size)) {
            shelly_str path = shelly_format("%s[%zu]", arg->name, len);
            add_type(mistakes, path.ptr ? path.ptr : arg->name, element, expected(of));
        }
        len++;
    }
    check_bounds(mistakes, arg, (double)len, " items");
    struct any_list read = {list, len};
    memcpy(into, &read, sizeof read);
}

static void read_arg(struct mistakes *mistakes, const shelly_arg *arg, shelly_value value, void *into) {
    int64_t integer;
    double number;
    switch (arg->type) {
    case SHELLY_TEXT: read_text(mistakes, arg, value, into); return;
    case SHELLY_INTEGER:
        if (!shelly_as_integer(value, &integer)) break;
        memcpy(into, &integer, sizeof integer);
        check_bounds(mistakes, arg, (double)integer, "");
        return;
    case SHELLY_NUMBER:
        if (!shelly_as_number(value, &number)) break;
        memcpy(into, &number, sizeof number);
        check_bounds(mistakes, arg, number, "");
        return;
    case SHELLY_BOOLEAN:
        if (!shelly_as_bool(value, into)) break;
        return;
    case SHELLY_ANY: memcpy(into, &value, sizeof value); return;
    default: read_list(mistakes, arg, value, into); return;
    }
    add_type(mistakes, arg->name, value, expected(arg->type));
}

static shelly_str known_names(const shelly_arg *args, size_t count) {
    shelly_str names = {NULL, 0};
    for (size_t i = 0; i < count; i++)
        names = shelly_format("%.*s%s`%s`", (int)names.len, names.len ? names.ptr : "", i ? ", " : "", args[i].name);
    return names.len ? names : SHELLY_STR("none");
}

static void check_names(struct mistakes *mistakes, const shelly_arg *args, size_t count, shelly_value object) {
    shelly_value key, value;
    size_t at = 0;
    while (shelly_next(object, &at, &key, &value)) {
        shelly_str name = {NULL, 0};
        bool is_known = false;
        if (shelly_as_string(key, &name))
            for (size_t i = 0; i < count; i++) is_known |= shelly_equal(name, args[i].name);
        if (is_known) continue;
        shelly_str known = known_names(args, count), unknown = shown(key);
        add_mistake(mistakes, shelly_format("%.*s is unknown; there are %.*s", (int)unknown.len,
                                            unknown.len ? unknown.ptr : "", (int)known.len, known.ptr));
    }
}

bool shelly_read(shelly_str json, const shelly_arg *args, size_t count, void *into, const char *what, shelly_error *error) {
    shelly_value object;
    shelly_error wrong;
    if (!shelly_parse(json, &object, &wrong)) {
        shelly_str message = wrong.is.message;
        return shelly_fail(error, SHELLY_INVALID, "invalid %s: %.*s", what, (int)message.len, message.ptr);
    }
    if (shelly_type_of(object) != SHELLY_JSON_OBJECT) {
        shelly_str got = shown(object);
        return shelly_fail(error, SHELLY_INVALID, "invalid %s: got %.*s, expected an object", what, (int)got.len,
                           got.len ? got.ptr : "");
    }
    struct mistakes mistakes = {{NULL, 0}, 0};
    check_names(&mistakes, args, count, object);
    for (size_t i = 0; i < count; i++) {
        shelly_value value = shelly_field(object, args[i].name);
        int type = shelly_type_of(value);
        if (type == SHELLY_JSON_MISSING && !args[i].is_optional) {
            add_mistake(&mistakes, shelly_format("`%s`: it is missing; expected %s", args[i].name, expected(args[i].type)));
        } else if (type != SHELLY_JSON_MISSING && (type != SHELLY_JSON_NULL || !args[i].is_optional)) {
            /* A null is taken for an optional member that is missing. */
            read_arg(&mistakes, &args[i], value, (char *)into + args[i].offset);
        }
    }
    if (!mistakes.count) return true;
    shelly_str more = {"", 0};
    if (mistakes.count > MOST_MISTAKES) more = shelly_format("; and %zu more", mistakes.count - MOST_MISTAKES);
    return shelly_fail(error, SHELLY_INVALID, "invalid %s: %.*s%.*s", what, (int)mistakes.text.len,
                       mistakes.text.len ? mistakes.text.ptr : "", (int)more.len, more.len ? more.ptr : "");
}

/* --- tools --- */

bool shelly_add(shelly_result *result, shelly_content content, shelly_error *error) {
    shelly_content *grown = shelly_grown(result->ptr, result->len, &result->room, sizeof content);
    if (!grown) return shelly_no_memory(error);
    result->ptr = grown;
    result->ptr[result->len++] = content;
    return true;
}

bool shelly_add_text(shelly_result *result, shelly_str text, shelly_error *error) {
    return shelly_add(result, (shelly_content){.tag = SHELLY_CONTENT_TEXT, .is = {.text = text}}, error);
}

bool shelly_add_json(shelly_result *result, const shelly_json *json, shelly_error *error) {
    if (json->failed || json->depth || !json->len)
        return shelly_fail(error, SHELLY_OTHER, "the JSON of the result is not whole or too large, or memory was short");
    shelly_content content = {.tag = SHELLY_CONTENT_JSON, .is = {.json = {json->ptr, json->len}}};
    return shelly_add(result, content, error);
}

bool shelly_call_tool(
    const shelly_tool *tool, shelly_str id, shelly_str arguments, shelly_result *result, shelly_error *error) {
    void *args = shelly_alloc(tool->args_size);
    shelly_str what = shelly_format("arguments of `%s`", tool->name);
    if (!args || !what.ptr) return shelly_no_memory(error);
    if (!shelly_read(arguments, tool->args, tool->args_count, args, what.ptr, error)) return false;
    shelly_call call = {id, shelly_text_of(tool->name), args};
    return tool->run(&call, result, error);
}

/* What the host reads after a call of `specs` or `call`: a list, or an error. */
struct list_result {
    uint8_t is_error;
    union { shelly_tool_specs specs; shelly_contents content; shelly_error error; } is;
};
static struct list_result list_result;

void *shelly_run_specs(const shelly_tool *const *tools, size_t count) {
    shelly_tool_spec *specs = shelly_alloc(count * sizeof *specs);
    list_result = (struct list_result){.is_error = 1};
    for (size_t i = 0; i < count; i++) {
        shelly_str schema = shelly_input_schema(tools[i]);
        if (!specs || !schema.ptr) {
            shelly_no_memory(&list_result.is.error);
            return &list_result;
        }
        specs[i].name = shelly_text_of(tools[i]->name);
        specs[i].description = shelly_text_of(tools[i]->description);
        specs[i].input_schema = schema;
        specs[i].hints = tools[i]->hints;
        if (!tools[i]->title) continue;
        shelly_fact title = {SHELLY_STR("title"), shelly_text_of(tools[i]->title)};
        specs[i].meta.ptr = shelly_copy(&title, sizeof title);
        specs[i].meta.len = specs[i].meta.ptr ? 1 : 0;
    }
    list_result = (struct list_result){.is = {.specs = {specs, count}}};
    return &list_result;
}

void *shelly_run_call(const shelly_tool *const *tools, size_t count, shelly_tool_call call) {
    shelly_result result = {0};
    shelly_error error = {.kind = SHELLY_OTHER, .is = {.message = SHELLY_STR("the tool failed and did not say why")}};
    bool is_known = false, is_done = false;
    shelly_str names = {NULL, 0};
    for (size_t i = 0; i < count && !is_known; i++) {
        is_known = shelly_equal(call.name, tools[i]->name);
        if (is_known) is_done = shelly_call_tool(tools[i], call.id, call.arguments, &result, &error);
        else
            names = shelly_format("%.*s%s%s", (int)names.len, names.len ? names.ptr : "", i ? ", " : "", tools[i]->name);
    }
    if (!is_known) {
        shelly_fail(&error, SHELLY_NOT_FOUND, "unknown tool `%.*s`; available tools: %.*s", (int)call.name.len,
                    call.name.len ? call.name.ptr : "", (int)names.len, names.len ? names.ptr : "");
    }
    if (is_done) list_result = (struct list_result){.is = {.content = {result.ptr, result.len}}};
    else list_result = (struct list_result){.is_error = 1, .is = {.error = error}};
    return &list_result;
}
