/* A component with a world of its own, wit/@{id}.wit: each function that it exports is a tool.
 * For other types than these see the canonical ABI of the component model, or let wit-bindgen write this file. */
#include <stdlib.h>

#include "text_counts.h"

/* The host asks here for the memory that it writes arguments to. An instance lives for one call: nothing is given back. */
__attribute__((export_name("cabi_realloc")))
void *cabi_realloc(void *old, size_t old_size, size_t align, size_t size) {
    (void)old_size;
    (void)align;
    return realloc(old, size);
}

/* The function `count`. A record of three u32 is this struct in memory. */
__attribute__((export_name("count")))
struct text_counts *count(const char *text, size_t length) {
    static struct text_counts counts;
    counts = count_text(text, length);
    return &counts;
}
