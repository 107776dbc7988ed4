/* See text.h. */
#include "base/text.h"

#include <stdint.h>
#include <string.h>

/* The code points of a sequence of n bytes; smaller ones take fewer bytes. */
static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};

#define MOST UINT32_C(0x10ffff)

/* The bytes of the character at `at`; 0: not a character, or one that is not printed. */
static size_t character_size(const uint8_t *at)
{
    size_t n = at[0] < 0x80   ? 1
               : at[0] < 0xc0 ? 0
               : at[0] < 0xe0 ? 2
               : at[0] < 0xf0 ? 3
                              : 4;
    uint32_t code = n == 1 ? at[0] : n > 1 ? at[0] & (0x7fu >> n) : 0;

    if (n == 0 || at[0] >= 0xf8)
        return 0;
    for (size_t i = 1; i < n; i++) { /* a zero at the end of the text is no such byte */
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (at[i] & 0x3f);
    }
    if (code < least[n] || code > MOST || (code >= 0xd800 && code < 0xe000))
        return 0;
    /* Controls, of the second set too, and what turns the direction of the text around. */
    if (code < 0x20 || (code >= 0x7f && code < 0xa0) ||
        (code >= 0x2028 && code < 0x202f) || (code >= 0x2066 && code < 0x206a))
        return 0;
    return n;
}

void am_text_clean(char *text)
{
    while (*text != '\0') {
        size_t n = character_size((const uint8_t *)text);

        if (n == 0)
            *text = '?';
        text += n > 0 ? n : 1;
    }
}

const char *am_text_copy(char *to, size_t size, const char *from, size_t n)
{
    n = strnlen(from, n < size - 1 ? n : size - 1);
    memcpy(to, from, n);
    to[n] = '\0';
    am_text_clean(to);
    return to;
}
