/* SPDX-License-Identifier: MIT */
/* text_plain.c: escapes control characters in text that a stranger may have written. */
#include "engine/base/text_plain.h"

/* Is it a control character or part of one (U+0080-U+009F)? *more: bytes left of its character. */
static int text_is_control(const unsigned char *at, int *more)
{
    const int inside = *more > 0 && (*at & 0xC0) == 0x80;
    if (inside) {
        --*more;
        return 0;
    }
    *more = *at >= 0xF0 ? 3 : *at >= 0xE0 ? 2 : *at >= 0xC0 ? 1 : 0;
    return *at < 0x20 || *at == 0x7F || (*at >= 0x80 && *at < 0xA0) || (at[0] == 0xC2 && at[1] >= 0x80 && at[1] < 0xA0);
}

GY_INT void gy_text_plain(char *text, size_t room)
{
    static const char digits[] = "0123456789abcdef";
    size_t bytes = strlen(text);
    int more = 0;
    for (size_t i = 0; i < bytes; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (!text_is_control((const unsigned char *)text + i, &more))
            continue;
        if (i + 4 >= room) { /* no room for it */
            text[i] = 0;
            return;
        }
        more = 0;
        const size_t behind = bytes - i - 1, fits = behind < room - i - 5 ? behind : room - i - 5;
        memmove(text + i + 4, text + i + 1, fits);
        text[i] = '\\';
        text[i + 1] = 'x';
        text[i + 2] = digits[c >> 4];
        text[i + 3] = digits[c & 15];
        i += 3;
        bytes = i + 1 + fits;
        text[bytes] = 0;
    }
}
