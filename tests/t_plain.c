/* SPDX-License-Identifier: MIT */
/* t_plain.c: a stranger's names in sentences. Control characters are escaped in errors and in the
 * log, and nothing else is changed. What files hold has a decimal point in every locale. */
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "engine/base/text.h"
#include "engine/base/text_plain.h"
#include "tests/comma.h"
#include "tests/t.h"

static void plain_test_text(void)
{
    static const struct {
        const char *from, *to;
    } rows[] = {
        { "", "" }, { "a name", "a name" }, { "\033[31m", "\\x1b[31m" }, { "a\nb\tc\r", "a\\x0ab\\x09c\\x0d" }, { "\177", "\\x7f" },
        /* bytes of 128 to 159 inside characters stay */
        { "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
        { "\xc2\x9b" "31m", "\\xc2\\x9b31m" }, { "\x9b" "31m", "\\x9b31m" }, { "\xe9t\xe9\x9b", "\xe9t\xe9\x9b" }, { "\xc2\xa0", "\xc2\xa0" },
        { "\\x1b", "\\x1b" },
    };
    char text[64];
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        snprintf(text, sizeof text, "%s", rows[i].from);
        gy_text_plain(text, sizeof text);
        T_CHECK_MSG(strcmp(text, rows[i].to) == 0, "row %zu: '%s'", i, text);
        gy_text_plain(text, sizeof text);
        T_CHECK(strcmp(text, rows[i].to) == 0); /* twice is once */
    }
}

/* Every length beside every room: what does not fit is cut behind a whole escape. */
static void plain_test_room(void)
{
    for (size_t room = 1; room < 24; room++)
        for (size_t bytes = 0; bytes < room; bytes++)
            for (int kind = 0; kind < 3; kind++) {
                char *const text = malloc(room);
                for (size_t i = 0; i < bytes; i++)
                    text[i] = kind == 0 || (kind == 1 && i % 2) ? '\001' : 'x';
                text[bytes] = 0;
                gy_text_plain(text, room);
                const char *at = text;
                while (*at)
                    at += strncmp(at, "\\x01", 4) == 0 ? 4 : *at == 'x' ? 1 : 999;
                T_CHECK_MSG((size_t)(at - text) < room && (kind != 2 || (size_t)(at - text) == bytes), "%zu of %zu: '%s'", bytes, room, text);
                free(text);
            }
}

static void plain_log(void *user, int level, const char *text)
{
    (void)level;
    snprintf(user, 64, "%s", text);
}

static void plain_test_sentences(void)
{
    struct gy_error err;
    char said[64] = "";
    const struct gy_log log = { plain_log, said, GY_LOG_INFO };
    T_CHECK(GY_FAIL(&err, GY_E_IO, "%s: cannot be read", "a\033[2J\nb") == GY_E_IO && strcmp(err.text, "a\\x1b[2J\\x0ab: cannot be read") == 0);
    gy_log_write(&log, GY_LOG_WARN, "skipped %s", "x\033y");
    T_CHECK(strcmp(said, "skipped x\\x1by") == 0);
}

/* What is printed has a point where the program's locale has a comma, and leaves that locale. */
static void plain_test_comma(void)
{
    struct gy_buf buf;
    if (!test_comma()) {
        T_SKIP("no locale with a decimal comma is installed, and localedef makes none");
        return;
    }
    const struct gy_alloc alloc = gy_alloc_default();
    char text[40];
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_sink_printf(&sink, "%g;%s;", 0.5, "1,5");
    gy_buf_printf(&buf, "%.3f;", -2.25);
    T_CHECK_MSG(buf.text && strcmp(buf.text, "0.5;1,5;-2.250;") == 0, "%s", buf.text);
    gy_buf_close(&buf);
    T_CHECK(snprintf(text, sizeof text, "%g", 0.5) == 3 && strcmp(text, "0,5") == 0);
    setlocale(LC_ALL, "C");
}

int main(void)
{
    plain_test_text();
    plain_test_room();
    plain_test_sentences();
    plain_test_comma();
    T_END("t_plain");
}
