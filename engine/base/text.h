/* SPDX-License-Identifier: MIT */
/* text.h: sends text to a sink that the caller supplies, and reads numbers and words from text.
 * Neither depends on the locale. Reports, file readers and the net language call it. */
#ifndef GY_TEXT_H
#define GY_TEXT_H
#include "engine/base/base.h"
#include "engine/base/mem.h"

/* Where reports go. write returns 0, or non-zero to stop (the printer returns GY_E_IO). */
struct gy_sink {
    int (*write)(void *user, const char *text, size_t bytes);
    void *user;
    int failed; /* set once write refused; later output is dropped */
};

/* As snprintf, for what files hold: numbers have a point in every locale. */
GY_INT int gy_text_print(char *text, size_t room, const char *fmt, ...) GY_PRINTF(3, 4);
GY_INT int gy_text_vprint(char *text, size_t room, const char *fmt, va_list args) GY_PRINTF(3, 0);
/* At most 4095 bytes a call; longer text is cut and counts as failed. */
GY_INT void gy_sink_printf(struct gy_sink *sink, const char *fmt, ...) GY_PRINTF(2, 3);
/* Length of the UTF-8 sequence at `at`, 1 to 4; 0: none (overlong, surrogate, too large, cut). */
GY_INT int gy_utf8_length(const unsigned char *at, const unsigned char *end);
GY_INT int gy_utf8_valid(const char *text);
/* As text of JSON, in quotes, escaped. A net's name may be a path: bytes that are not UTF-8 become
 * U+FFFD, so the output is always valid. */
GY_INT void gy_print_json_text(const char *text, struct gy_sink *sink);

/* A text buffer that grows through the hook. text ends with NUL once something was added. */
struct gy_buf {
    struct gy_alloc alloc;
    char *text;
    size_t bytes, room;
    int failed; /* an allocation failed: the content is incomplete */
};
GY_INT void gy_buf_open(struct gy_buf *buf, const struct gy_alloc *alloc);
GY_INT void gy_buf_add(struct gy_buf *buf, const void *bytes, size_t count);
/* 4095 bytes, as above */
GY_INT void gy_buf_printf(struct gy_buf *buf, const char *fmt, ...) GY_PRINTF(2, 3);
GY_INT void gy_buf_close(struct gy_buf *buf);
GY_INT struct gy_sink gy_sink_buf(struct gy_buf *buf);

/* Copies at most room - 1 bytes and terminates; returns 0, or -1 when it had to cut. */
GY_INT int gy_text_copy(char *dst, size_t room, const char *src);
/* All of text as a number in [lo, hi]; 0, or -1 with *out untouched. No locale, no hex floats. */
GY_INT int gy_text_int(const char *text, int64_t lo, int64_t hi, int64_t *out);
GY_INT int gy_text_real(const char *text, double lo, double hi, double *out);
/* Copies the next word of *at, up to a space, tab or line's end, and moves *at behind it. Returns
 * 0, or -1 at the end of the text or when room is too small. */
GY_INT int gy_text_word(const char **at, char *word, size_t room);
/* Reads at most count numbers between spaces. Returns how many stand there before the text ends or
 * something else comes. */
GY_INT int gy_text_reals(const char *text, double *out, int count);
/* The candidate nearest to word by edit distance, or NULL when none is near: for "did you mean". */
GY_INT const char *gy_text_nearest(const char *word, const char *const *candidates, size_t count);
/* "12.3 MB" style text of a byte count, into a buffer of at least 16 bytes; returns it. */
GY_INT const char *gy_text_bytes(char *buf, size_t room, double bytes);

#endif
