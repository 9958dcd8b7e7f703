/* Memory, texts, errors and JSON, as shelly.h declares them. */
#include "shelly.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Bounds: of JSON that is written, of levels in it, and of levels in JSON that is read. */
enum { MOST_JSON = 16 << 20, MOST_WRITTEN_DEPTH = 32, MOST_READ_DEPTH = 64 };

/* --- memory --- */

/* A block of memory, which begins behind it. */
struct block { struct block *next; max_align_t values[]; };
static struct block *blocks;

void *shelly_alloc(size_t size) {
    if (size > SIZE_MAX - sizeof(struct block) - 1) return NULL;
    /* Never empty, so that NULL means that no memory is left. */
    struct block *block = calloc(1, sizeof *block + (size ? size : 1));
    if (!block) return NULL;
    block->next = blocks;
    blocks = block;
    return block->values;
}

void *shelly_copy(const void *values, size_t size) {
    void *copy = shelly_alloc(size);
    if (copy && size) memcpy(copy, values, size);
    return copy;
}

void shelly_free_all(void) {
    while (blocks) {
        struct block *next = blocks->next;
        free(blocks);
        blocks = next;
    }
}

void *shelly_grown(void *list, size_t len, size_t *room, size_t size) {
    if (len < *room) return list;
    size_t more = *room ? *room * 2 : 4;
    if (more > SIZE_MAX / 2 / size) return NULL;
    void *larger = shelly_alloc(more * size);
    if (!larger) return NULL;
    if (len) memcpy(larger, list, len * size);
    *room = more;
    return larger;
}

/* --- texts and errors --- */

shelly_str shelly_text_of(const char *text) { return (shelly_str){text, strlen(text)}; }

bool shelly_equal(shelly_str text, const char *other) {
    return text.len == strlen(other) && (!text.len || !memcmp(text.ptr, other, text.len));
}

static bool is_space(char letter) { return letter == ' ' || (letter >= '\t' && letter <= '\r'); }

shelly_str shelly_trimmed(shelly_str text) {
    while (text.len && is_space(*text.ptr)) text.ptr++, text.len--;
    while (text.len && is_space(text.ptr[text.len - 1])) text.len--;
    return text;
}

/* Returns the bytes of the character that begins here; 0 if none does. */
static size_t character(const unsigned char *at, size_t left) {
    size_t length = *at < 0x80 ? 1 : *at >= 0xc2 && *at < 0xe0 ? 2 : *at >= 0xe0 && *at < 0xf0 ? 3
        : *at >= 0xf0 && *at < 0xf5 ? 4 : 0;
    if (!length || length > left) return 0;
    for (size_t i = 1; i < length; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    /* Numbers that have a shorter form, halves of pairs, and those beyond the last character. */
    bool is_wrong = (*at == 0xe0 && at[1] < 0xa0) || (*at == 0xed && at[1] >= 0xa0) || (*at == 0xf0 && at[1] < 0x90)
        || (*at == 0xf4 && at[1] >= 0x90);
    return is_wrong ? 0 : length;
}

shelly_str shelly_valid(shelly_str text) {
    char *copy = NULL;
    for (size_t at = 0, length; at < text.len; at += length ? length : 1) {
        length = character((const unsigned char *)text.ptr + at, text.len - at);
        if (length) continue;
        if (!copy) copy = shelly_copy(text.ptr, text.len);
        if (!copy) return (shelly_str){NULL, 0};
        copy[at] = '?';
    }
    return copy ? (shelly_str){copy, text.len} : text;
}

static shelly_str formatted(const char *format, va_list args) {
    va_list again;
    va_copy(again, args);
    int length = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = length < 0 ? NULL : shelly_alloc((size_t)length + 1);
    if (!text) return (shelly_str){NULL, 0};
    vsnprintf(text, (size_t)length + 1, format, args);
    return (shelly_str){text, (size_t)length};
}

shelly_str shelly_format(const char *format, ...) {
    va_list args;
    va_start(args, format);
    shelly_str text = formatted(format, args);
    va_end(args);
    return text;
}

bool shelly_fail(shelly_error *error, int kind, const char *format, ...) {
    va_list args;
    va_start(args, format);
    *error = (shelly_error){.kind = (uint8_t)kind, .is = {.message = formatted(format, args)}};
    va_end(args);
    if (!error->is.message.ptr) error->is.message = SHELLY_STR("no memory is left");
    return false;
}

bool shelly_no_memory(shelly_error *error) { return shelly_fail(error, SHELLY_EXHAUSTED, "no memory is left"); }

shelly_opt_str shelly_meta_get(shelly_meta meta, const char *key) {
    for (size_t i = 0; i < meta.len; i++)
        if (shelly_equal(meta.ptr[i].key, key)) return (shelly_opt_str){true, meta.ptr[i].value};
    return (shelly_opt_str){false, {NULL, 0}};
}

/* --- messages --- */

shelly_str shelly_text_in(shelly_parts parts) {
    size_t length = 0;
    for (size_t i = 0; i < parts.len; i++)
        if (parts.ptr[i].tag == SHELLY_TEXT_PART) length += parts.ptr[i].is.text.len;
    char *text = shelly_alloc(length);
    if (!text) return (shelly_str){NULL, 0};
    size_t at = 0;
    for (size_t i = 0; i < parts.len; i++) {
        shelly_str piece = parts.ptr[i].is.text;
        if (parts.ptr[i].tag != SHELLY_TEXT_PART || !piece.len) continue;
        memcpy(text + at, piece.ptr, piece.len);
        at += piece.len;
    }
    return (shelly_str){text, length};
}

shelly_message shelly_text_message(int role, shelly_str text) {
    shelly_message message = {.role = (uint8_t)role};
    shelly_part part = {.tag = SHELLY_TEXT_PART, .is = {.text = text}};
    message.parts.ptr = shelly_copy(&part, sizeof part);
    message.parts.len = message.parts.ptr ? 1 : 0;
    return message;
}

bool shelly_is_answer(const shelly_message *message) {
    shelly_opt_str ending = shelly_meta_get(message->meta, "shelly.ending");
    return !ending.has || (!shelly_equal(ending.value, "handed-over") && !shelly_equal(ending.value, "failed"));
}

shelly_ask shelly_ask_text(shelly_str text) {
    shelly_ask ask = {.model = {.has = false}};
    shelly_message message = shelly_text_message(SHELLY_USER, text);
    ask.request.messages.ptr = message.parts.len ? shelly_copy(&message, sizeof message) : NULL;
    ask.request.messages.len = ask.request.messages.ptr ? 1 : 0;
    return ask;
}

/* --- JSON that is written --- */

static void put(shelly_json *json, const char *text, size_t length) {
    if (json->failed) return;
    if (length > MOST_JSON - json->len) {
        json->failed = true;
        return;
    }
    if (json->len + length > json->room) {
        size_t room = json->len + length + json->room + 64;
        char *larger = shelly_alloc(room);
        if (!larger) {
            json->failed = true;
            return;
        }
        if (json->len) memcpy(larger, json->ptr, json->len);
        json->ptr = larger;
        json->room = room;
    }
    if (length) memcpy(json->ptr + json->len, text, length);
    json->len += length;
}

/* Puts a comma between two values. */
static void separate(shelly_json *json) {
    if (!json->len || json->failed) return;
    char last = json->ptr[json->len - 1];
    if (last != '{' && last != '[' && last != ':') put(json, ",", 1);
}

static void put_string(shelly_json *json, shelly_str text) {
    put(json, "\"", 1);
    for (size_t at = 0, begin = 0; at <= text.len; at++) {
        unsigned char byte = at < text.len ? (unsigned char)text.ptr[at] : 0;
        if (at < text.len && byte >= ' ' && byte != '"' && byte != '\\') continue;
        if (at > begin) put(json, text.ptr + begin, at - begin);
        begin = at + 1;
        if (at == text.len) break;
        char escape[8];
        if (byte < ' ') snprintf(escape, sizeof escape, "\\u%04x", byte);
        else snprintf(escape, sizeof escape, "\\%c", byte);
        put(json, escape, strlen(escape));
    }
    put(json, "\"", 1);
}

static void begin(shelly_json *json, const char *bracket) {
    separate(json);
    if (json->depth == MOST_WRITTEN_DEPTH) json->failed = true;
    else json->depth++;
    put(json, bracket, 1);
}

static void end(shelly_json *json, const char *bracket) {
    if (!json->depth) json->failed = true;
    else json->depth--;
    put(json, bracket, 1);
}

void shelly_json_object(shelly_json *json) { begin(json, "{"); }
void shelly_json_array(shelly_json *json) { begin(json, "["); }
void shelly_json_end_object(shelly_json *json) { end(json, "}"); }
void shelly_json_end_array(shelly_json *json) { end(json, "]"); }

void shelly_json_key(shelly_json *json, const char *key) {
    separate(json);
    put_string(json, shelly_text_of(key));
    put(json, ":", 1);
}

void shelly_json_string(shelly_json *json, shelly_str text) {
    separate(json);
    put_string(json, text);
}

static void put_word(shelly_json *json, const char *word) {
    separate(json);
    put(json, word, strlen(word));
}

void shelly_json_integer(shelly_json *json, int64_t number) {
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    put_word(json, digits);
}

void shelly_json_number(shelly_json *json, double number) {
    if (!isfinite(number)) json->failed = true;
    char digits[32];
    snprintf(digits, sizeof digits, "%.17g", number);
    put_word(json, digits);
}

void shelly_json_bool(shelly_json *json, bool value) { put_word(json, value ? "true" : "false"); }
void shelly_json_null(shelly_json *json) { put_word(json, "null"); }

/* --- JSON that is read --- */

/* A place in a text, and what is wrong there; NULL: nothing. */
struct reader { const char *at, *end, *wrong; };

static void skip_space(struct reader *reader) {
    while (reader->at < reader->end && memchr(" \t\r\n", *reader->at, 4)) reader->at++;
}

/* Returns the number of four hexadecimal digits; -1 if they are others, or not there. */
static long hex(const char *at, const char *end) {
    long code = 0;
    if (end - at < 4) return -1;
    for (int i = 0; i < 4; i++) {
        char digit = at[i];
        int value = digit >= '0' && digit <= '9' ? digit - '0'
            : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
            : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10 : -1;
        if (value < 0) return -1;
        code = code * 16 + value;
    }
    return code;
}

static void read_string(struct reader *reader) {
    for (reader->at++; reader->at < reader->end; reader->at++) {
        unsigned char byte = (unsigned char)*reader->at;
        if (byte == '"') {
            reader->at++;
            return;
        }
        if (byte < ' ') {
            reader->wrong = "a string contains a control character";
            return;
        }
        if (byte != '\\') continue;
        reader->at++;
        if (reader->at == reader->end) break;
        if (*reader->at == 'u' && hex(reader->at + 1, reader->end) >= 0) reader->at += 4;
        else if (!*reader->at || !strchr("\"\\/bfnrt", *reader->at)) {
            reader->wrong = "a string contains an unknown escape";
            return;
        }
    }
    reader->wrong = "a string has no end";
}

static bool is_digit(const struct reader *reader) {
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

static void read_digits(struct reader *reader) {
    if (!is_digit(reader)) reader->wrong = "a number lacks a digit";
    while (is_digit(reader)) reader->at++;
}

static void read_number(struct reader *reader) {
    if (*reader->at == '-') reader->at++;
    const char *first = reader->at;
    read_digits(reader);
    if (reader->at - first > 1 && *first == '0') reader->wrong = "a number begins with a zero";
    if (!reader->wrong && reader->at < reader->end && *reader->at == '.') {
        reader->at++;
        read_digits(reader);
    }
    if (!reader->wrong && reader->at < reader->end && (*reader->at == 'e' || *reader->at == 'E')) {
        reader->at++;
        if (reader->at < reader->end && (*reader->at == '+' || *reader->at == '-')) reader->at++;
        read_digits(reader);
    }
}

static void read_word(struct reader *reader, const char *word) {
    size_t length = strlen(word);
    bool is_there = (size_t)(reader->end - reader->at) >= length && !memcmp(reader->at, word, length);
    if (is_there) reader->at += length;
    else reader->wrong = "it is no JSON value";
}

static void read_value(struct reader *reader, unsigned depth);

/* Reads the elements of an array, or the keys and values of an object. */
static void read_elements(struct reader *reader, char last, unsigned depth) {
    if (depth == MOST_READ_DEPTH) {
        reader->wrong = "it is nested more than 64 levels deep";
        return;
    }
    reader->at++;
    skip_space(reader);
    if (reader->at < reader->end && *reader->at == last) {
        reader->at++;
        return;
    }
    while (!reader->wrong) {
        if (last == '}') {
            skip_space(reader);
            if (reader->at == reader->end || *reader->at != '"') {
                reader->wrong = "an object lacks a key";
                return;
            }
            read_string(reader);
            if (reader->wrong) return;
            skip_space(reader);
            if (reader->at == reader->end || *reader->at != ':') {
                reader->wrong = "a key lacks its colon";
                return;
            }
            reader->at++;
        }
        read_value(reader, depth + 1);
        if (reader->wrong) return;
        skip_space(reader);
        if (reader->at < reader->end && *reader->at == last) {
            reader->at++;
            return;
        }
        if (reader->at == reader->end || *reader->at != ',') reader->wrong = "a comma or a closing bracket is missing";
        else reader->at++;
    }
}

static void read_value(struct reader *reader, unsigned depth) {
    skip_space(reader);
    if (reader->at == reader->end) {
        reader->wrong = "a value is missing";
        return;
    }
    switch (*reader->at) {
    case '{': read_elements(reader, '}', depth); return;
    case '[': read_elements(reader, ']', depth); return;
    case '"': read_string(reader); return;
    case 't': read_word(reader, "true"); return;
    case 'f': read_word(reader, "false"); return;
    case 'n': read_word(reader, "null"); return;
    default:
        if (*reader->at == '-' || is_digit(reader)) read_number(reader);
        else reader->wrong = "it is no JSON value";
    }
}

bool shelly_parse(shelly_str text, shelly_value *value, shelly_error *error) {
    struct reader reader = {text.ptr, text.ptr + text.len, NULL};
    read_value(&reader, 0);
    const char *end = reader.at;
    if (!reader.wrong) {
        skip_space(&reader);
        if (reader.at != reader.end) reader.wrong = "something follows the value";
    }
    if (reader.wrong) {
        return shelly_fail(error, SHELLY_INVALID, "it is not valid JSON: at byte %zu: %s", (size_t)(reader.at - text.ptr),
                           reader.wrong);
    }
    struct reader first = {text.ptr, end, NULL};
    skip_space(&first);
    *value = (shelly_value){{first.at, (size_t)(end - first.at)}};
    return true;
}

int shelly_type_of(shelly_value value) {
    if (!value.text.len) return SHELLY_JSON_MISSING;
    switch (*value.text.ptr) {
    case '{': return SHELLY_JSON_OBJECT;
    case '[': return SHELLY_JSON_ARRAY;
    case '"': return SHELLY_JSON_STRING;
    case 't': case 'f': return SHELLY_JSON_BOOL;
    case 'n': return SHELLY_JSON_NULL;
    default: return SHELLY_JSON_NUMBER;
    }
}

bool shelly_next(shelly_value container, size_t *at, shelly_value *key, shelly_value *value) {
    int type = shelly_type_of(container);
    if (type != SHELLY_JSON_OBJECT && type != SHELLY_JSON_ARRAY) return false;
    struct reader reader = {container.text.ptr + (*at ? *at : 1), container.text.ptr + container.text.len, NULL};
    skip_space(&reader);
    if (*reader.at == ',') reader.at++, skip_space(&reader);
    if (*reader.at == '}' || *reader.at == ']') return false;
    if (type == SHELLY_JSON_OBJECT) {
        const char *begins = reader.at;
        read_string(&reader);
        if (key) *key = (shelly_value){{begins, (size_t)(reader.at - begins)}};
        skip_space(&reader);
        reader.at++;
        skip_space(&reader);
    }
    const char *begins = reader.at;
    read_value(&reader, 0);
    *value = (shelly_value){{begins, (size_t)(reader.at - begins)}};
    *at = (size_t)(reader.at - container.text.ptr);
    return true;
}

/* Returns the end of what was written. */
static char *put_utf8(char *to, unsigned long code) {
    if (code < 0x80) *to++ = (char)code;
    else if (code < 0x800) *to++ = (char)(0xc0 | code >> 6);
    else if (code < 0x10000) *to++ = (char)(0xe0 | code >> 12), *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    else {
        *to++ = (char)(0xf0 | code >> 18);
        *to++ = (char)(0x80 | (code >> 12 & 0x3f));
        *to++ = (char)(0x80 | (code >> 6 & 0x3f));
    }
    if (code >= 0x80) *to++ = (char)(0x80 | (code & 0x3f));
    return to;
}

bool shelly_as_string(shelly_value value, shelly_str *text) {
    if (shelly_type_of(value) != SHELLY_JSON_STRING) return false;
    if (!memchr(value.text.ptr, '\\', value.text.len)) {
        *text = (shelly_str){value.text.ptr + 1, value.text.len - 2};
        return true;
    }
    /* It is never longer than it is in JSON. */
    char *decoded = shelly_alloc(value.text.len), *to = decoded;
    if (!decoded) return false;
    const char *at = value.text.ptr + 1, *end = value.text.ptr + value.text.len - 1;
    while (at < end) {
        if (*at != '\\') {
            *to++ = *at++;
            continue;
        }
        const char *from = "bfnrt", *found = strchr(from, at[1]);
        if (at[1] != 'u') {
            *to++ = found ? "\b\f\n\r\t"[found - from] : at[1];
            at += 2;
            continue;
        }
        unsigned long code = (unsigned long)hex(at + 2, end);
        at += 6;
        /* Two escapes make one character beyond U+FFFF; half of such a pair is none. */
        if (code >= 0xd800 && code < 0xe000) {
            long low = end - at >= 6 && at[0] == '\\' && at[1] == 'u' ? hex(at + 2, end) : -1;
            if (code < 0xdc00 && low >= 0xdc00 && low < 0xe000) {
                code = 0x10000 + ((code - 0xd800) << 10) + ((unsigned long)low - 0xdc00);
                at += 6;
            } else code = 0xfffd;
        }
        to = put_utf8(to, code);
    }
    *text = (shelly_str){decoded, (size_t)(to - decoded)};
    return true;
}

/* Copies a number so that it ends with a zero byte. */
static bool copy_number(shelly_value value, char *digits, size_t room) {
    if (shelly_type_of(value) != SHELLY_JSON_NUMBER || value.text.len >= room) return false;
    memcpy(digits, value.text.ptr, value.text.len);
    digits[value.text.len] = 0;
    return true;
}

bool shelly_as_integer(shelly_value value, int64_t *number) {
    char digits[24], *end;
    if (!copy_number(value, digits, sizeof digits) || strpbrk(digits, ".eE")) return false;
    errno = 0;
    long long read = strtoll(digits, &end, 10);
    if (*end || errno) return false;
    *number = read;
    return true;
}

bool shelly_as_number(shelly_value value, double *number) {
    char digits[512], *end;
    if (!copy_number(value, digits, sizeof digits)) return false;
    double read = strtod(digits, &end);
    if (*end || !isfinite(read)) return false;
    *number = read;
    return true;
}

bool shelly_as_bool(shelly_value value, bool *is_true) {
    if (shelly_type_of(value) != SHELLY_JSON_BOOL) return false;
    *is_true = *value.text.ptr == 't';
    return true;
}

shelly_value shelly_field(shelly_value object, const char *key) {
    shelly_value found = {{NULL, 0}}, name, value;
    size_t at = 0;
    if (shelly_type_of(object) != SHELLY_JSON_OBJECT) return found;
    while (shelly_next(object, &at, &name, &value)) {
        shelly_str text;
        if (shelly_as_string(name, &text) && shelly_equal(text, key)) found = value;
    }
    return found;
}
