/* The world `words` with wasi-libc. Its types are simple enough to be written down by hand: see the canonical ABI. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Whoever calls with a text asks here for the memory that it goes to. */
__attribute__((export_name("cabi_realloc")))
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    return realloc(old, size);
}

struct counted { uint32_t words; const char *longest; size_t length; };

__attribute__((export_name("count-words")))
struct counted *count_words(const char *text, size_t size) {
    static struct counted counted;
    counted = (struct counted){0, text, 0};
    for (size_t at = 0; at < size;) {
        while (at < size && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t')) at++;
        size_t begin = at;
        while (at < size && text[at] != ' ' && text[at] != '\n' && text[at] != '\t') at++;
        if (at == begin) continue;
        counted.words++;
        if (at - begin > counted.length) counted.longest = text + begin, counted.length = at - begin;
    }
    printf("%u words in C\n", counted.words);
    fflush(stdout);
    return &counted;
}
