/* SPDX-License-Identifier: MIT */
/* rows_case.h: what tests of text that becomes rows share: a conversion from memory, its rows as
 * text, random rows, and a folder for files. */
#ifndef GY_ROWS_CASE_H
#define GY_ROWS_CASE_H
#include "engine/base/text.h"
#include "io/rows/rows_text.h"
#include "tests/t.h"
#include <unistd.h>

#define TXT_LENIENT 1
#define TXT_ZERO 2
#define TXT_HEADER 4 /* csv: the first line has names; without it: by its look */
#define TXT_FIRST 8  /* csv: the label is column 0 */
#define TXT_FEW 16   /* 4 features */

static struct gy_error txt_err;
static char txt_folder[256];

/* One check; when it fails, what it was about and the last sentence are shown. */
#define TXT_OK(cond, what, why) txt_holds((cond), __LINE__, (what), (why))

static inline int txt_holds(int ok, int line, const char *what, const char *why)
{
    if (!ok)
        printf("    %s: %s\n", what, why);
    return t_note(ok, __FILE__, line, "it is converted");
}

static inline struct gy_convert_config txt_config(const char *format, int flags)
{
    struct gy_convert_config c;
    memset(&c, 0, sizeof c);
    c.format = format;
    c.lenient = (flags & TXT_LENIENT) != 0;
    c.zero_based = (flags & TXT_ZERO) != 0;
    c.header = flags & TXT_HEADER ? 1 : -1;
    c.label_column = flags & TXT_FIRST ? 0 : -1;
    c.features = flags & TXT_FEW ? 4 : 0;
    return c;
}

/* All rows as text, in buf. */
static inline void txt_print(const struct gy_blocks *blocks, struct gy_buf *buf)
{
    struct gy_blocks_info info;
    struct gy_rows rows;
    gy_blocks_get_info(blocks, &info);
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    gy_buf_printf(buf, "%s", "");
    for (int64_t b = 0; b < info.blocks; b++) {
        if (gy_blocks_read(blocks, b, &room, &rows, &txt_err) != GY_OK)
            gy_buf_printf(buf, "%s", txt_err.text);
        else
            for (int32_t i = 0; i < rows.count; i++) {
                gy_buf_printf(buf, "%.9g", (double)rows.label[i]);
                for (uint32_t k = gy_rows_begin(&rows, i); k < gy_rows_end(&rows, i); k++)
                    gy_buf_printf(buf, " %" PRIu32 ":%.9g", rows.id[k], (double)(rows.value ? rows.value[k] : rows.same));
                gy_buf_printf(buf, ";");
            }
    }
    free(room.memory);
}

static inline int txt_convert(struct gy_blocks **out, const struct gy_convert_config *config, const char *text, size_t count,
                              struct gy_convert_report *report)
{
    const struct gy_alloc alloc = gy_alloc_default();
    /* exact size, so that a sanitizer sees a read beyond the end */
    unsigned char *exact = malloc(count ? count : 1);
    if (count > 0)
        memcpy(exact, text, count);
    const struct gy_rows_bytes bytes = { "text", exact, count };
    *out = NULL;
    const int status = gy_convert_bytes(out, config, &bytes, &alloc, report, &txt_err);
    free(exact);
    return status;
}

/* Rows of a text, or what was wrong; closed with gy_buf_close. */
static inline int txt_rows(const struct gy_convert_config *config, const char *text, size_t count, struct gy_buf *buf, struct gy_convert_report *report)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *blocks;
    const int status = txt_convert(&blocks, config, text, count, report);
    gy_buf_open(buf, &alloc);
    if (status == GY_OK)
        txt_print(blocks, buf);
    gy_blocks_close(blocks);
    return status;
}

static uint64_t txt_state = 88172645463325252u;

static inline uint64_t txt_next(void)
{
    txt_state ^= txt_state << 13;
    txt_state ^= txt_state >> 7;
    txt_state ^= txt_state << 17;
    return txt_state;
}

static inline const char *txt_path(char path[320], const char *name)
{
    snprintf(path, 320, "%s/%s", txt_folder, name);
    return path;
}

static inline int txt_write_file(const char *path, const void *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");
    const int bad = !file || fwrite(bytes, 1, count, file) != count;
    return (file && fclose(file) != 0) || bad;
}

/* About 3 MB of rows, of any length, values and labels as kind says. */
static inline void txt_make_text(struct gy_buf *text, size_t bytes, int kind)
{
    for (int64_t row = 0; text->bytes < bytes; row++) {
        uint64_t id = 0;
        gy_buf_printf(text, "%d", row % 3 ? 1 : -1);
        for (uint64_t n = txt_next() % 30; n > 0; n--) {
            id += 1 + txt_next() % 1000;
            gy_buf_printf(text, kind ? " %" PRIu64 ":%.4g" : " %" PRIu64 ":%.0f", id, kind ? (double)(txt_next() % 100000) / 1e4 : 1.0);
        }
        gy_buf_printf(text, row % 7 == 0 ? " \r\n" : "\n");
    }
}

#endif
