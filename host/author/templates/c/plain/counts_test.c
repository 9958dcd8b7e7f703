#include "../text_counts.h"

#include <stdio.h>
#include <string.h>

static int failed;

static void check(const char *text, uint32_t words, uint32_t lines, uint32_t characters) {
    struct text_counts counts = count_text(text, strlen(text));
    if (counts.words == words && counts.lines == lines && counts.characters == characters) return;
    fprintf(stderr, "`%s`: %u words, %u lines, %u characters\n", text, (unsigned)counts.words, (unsigned)counts.lines,
            (unsigned)counts.characters);
    failed = 1;
}

int main(void) {
    check("to be\nor not", 4, 2, 12);
    check("süß\n", 1, 1, 4);
    check("", 0, 0, 0);
    return failed;
}
