#include <stddef.h>
#include <stdint.h>

struct text_counts { uint32_t words, lines, characters; };

/* Counts in a text of UTF-8. */
static struct text_counts count_text(const char *text, size_t length) {
    struct text_counts counts = {0, 0, 0};
    int in_word = 0;
    for (size_t at = 0; at < length; at++) {
        unsigned char byte = (unsigned char)text[at];
        int is_space = byte == ' ' || (byte >= '\t' && byte <= '\r');
        counts.words += !is_space && !in_word;
        in_word = !is_space;
        counts.lines += byte == '\n';
        /* The other bytes of a character begin with the bits 10. */
        counts.characters += (byte & 0xc0) != 0x80;
    }
    counts.lines += length > 0 && text[length - 1] != '\n';
    return counts;
}
