/* SPDX-License-Identifier: MIT */
/* t_base.c: the base layer. Random numbers and hashes give published answers. Memory runs out at
 * every place, threads run many tiny jobs, files meet a full disk, and text is tested at its
 * edges. */
#define _GNU_SOURCE 1 /* unshare, mount: a disk that is full */
#include "tests/comma.h"
#include "tests/t.h"
#include "engine/base/clock.h"
#include "engine/base/cpu.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/base/knob.h"
#include "engine/base/rng.h"
#include "engine/base/thread.h"
#include <dirent.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static struct gy_error base_err;

/* ---- memory ---- */

struct base_heap {
    int64_t live_bytes, calls, fail_at; /* fail_at 0: never */
};

/* Checks that every resize and release states the true size. */
static void *base_heap_fn(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct base_heap *heap = user;
    if (new_bytes && ++heap->calls == heap->fail_at)
        return NULL;
    heap->live_bytes += (int64_t)new_bytes - (int64_t)old_bytes;
    if (new_bytes)
        return realloc(ptr, new_bytes);
    free(ptr);
    return NULL;
}

static struct gy_alloc base_alloc(struct base_heap *heap, int64_t fail_at)
{
    *heap = (struct base_heap){ 0, 0, fail_at };
    return (struct gy_alloc){ base_heap_fn, heap };
}

static int base_is_zero(const void *bytes, size_t count)
{
    const unsigned char *p = bytes;
    for (size_t i = 0; i < count; i++)
        if (p[i] != 0)
            return 0;
    return 1;
}

static void base_test_sizes(void)
{
    size_t size = 7;
    int64_t count = 7;
    T_CHECK(gy_mul_size(SIZE_MAX / 2, 3, &size) == -1 && size == 7);
    T_CHECK(gy_mul_size(SIZE_MAX, 1, &size) == 0 && size == SIZE_MAX);
    T_CHECK(gy_mul_size(SIZE_MAX, 0, &size) == 0 && size == 0);
    T_CHECK(gy_add_size(SIZE_MAX, 1, &size) == -1 && size == 0);
    T_CHECK(gy_add_size(SIZE_MAX - 1, 1, &size) == 0 && size == SIZE_MAX);
    T_CHECK(gy_mul_count(INT64_MAX, 2, &count) == -1 && gy_mul_count(-1, 2, &count) == -1 && count == 7);
    T_CHECK(gy_mul_count(INT64_MAX, 1, &count) == 0 && count == INT64_MAX);
    T_CHECK(gy_align_up(0, 64) == 0 && gy_align_up(1, 64) == 64 && gy_align_up(64, 64) == 64);
    T_CHECK(gy_ceil_div(7, 2) == 4 && gy_ceil_div(8, 2) == 4 && gy_min64(1, 2) == 1 && gy_max64(1, 2) == 2);
}

static void base_test_alloc(void)
{
    struct base_heap heap;
    const struct gy_alloc plain = gy_alloc_default(), counted = base_alloc(&heap, 0);
    unsigned char *p = gy_alloc_take(&plain, 1000, 3);
    T_CHECK(p && base_is_zero(p, 3000));
    if (p)
        memset(p, 0xa5, 3000);
    unsigned char *q = gy_alloc_grow(&plain, p, 1000, 2000, 3);
    T_CHECK(q && q[0] == 0xa5 && q[2999] == 0xa5);
    gy_alloc_free(&plain, q ? q : p, 6000);
    gy_alloc_free(&plain, NULL, 5);
    T_CHECK(!gy_alloc_take(&plain, SIZE_MAX / 2, 3));
    T_CHECK(!gy_alloc_grow(&plain, NULL, 0, SIZE_MAX / 2, 3));

    void *none = gy_alloc_take(&counted, 0, 8);
    T_CHECK(none != NULL);
    gy_alloc_free(&counted, none, 0);
    T_CHECK(heap.live_bytes == 0);
    void *grown = gy_alloc_grow(&counted, gy_alloc_take(&counted, 0, 8), 0, 4, 8);
    T_CHECK(grown && heap.live_bytes == 32);
    gy_alloc_free(&counted, grown, 32);
    T_CHECK(heap.live_bytes == 0);
}

static void base_test_arena_fixed(void)
{
    static unsigned char block[1024 + 3];
    struct gy_arena arena;
    memset(block, 0xff, sizeof block);
    gy_arena_open_fixed(&arena, block + 3, 1024);
    T_CHECK(arena.reserved == 1024);
    unsigned char *a = gy_arena_take(&arena, 100, 1);
    unsigned char *b = gy_arena_take(&arena, 0, 1);
    T_CHECK(a && b && a != b && (uintptr_t)a % GY_CACHE_LINE == 0 && (uintptr_t)b % GY_CACHE_LINE == 0);
    T_CHECK(a && base_is_zero(a, 100) && a >= block + 3);
    T_CHECK(arena.used == 128 + 64);
    const size_t left = arena.left;
    T_CHECK(!gy_arena_take(&arena, left + 1, 1) && arena.left == left);
    T_CHECK(!gy_arena_take(&arena, SIZE_MAX, 2) && !gy_arena_take(&arena, SIZE_MAX, 1));
    int taken = 0;
    while (taken < 100 && gy_arena_take(&arena, 1, 1))
        taken++;
    T_CHECK(taken < 100 && block[0] == 0xff && block[2] == 0xff);
    gy_arena_close(&arena);
    gy_arena_open_fixed(&arena, NULL, 0);
    T_CHECK(!gy_arena_take(&arena, 1, 1));
    gy_arena_open_fixed(&arena, block + 1, 3);
    T_CHECK(!gy_arena_take(&arena, 1, 1));
    gy_arena_close(&arena);
}

static void base_test_arena_hook(void)
{
    struct base_heap heap;
    struct gy_arena arena;
    const struct gy_alloc alloc = base_alloc(&heap, 0);
    gy_arena_open_hook(&arena, &alloc);
    size_t sum = 0;
    int good = 1;
    for (size_t i = 0; i < 300; i++) {
        const size_t bytes = i % 17 == 0 ? 100000 + i : i * 7;
        unsigned char *p = gy_arena_take(&arena, bytes, 1);
        good &= p && (uintptr_t)p % GY_CACHE_LINE == 0 && base_is_zero(p, bytes);
        if (p)
            memset(p, 0xee, bytes);
        sum += gy_align_up(bytes ? bytes : 1, GY_CACHE_LINE);
    }
    T_CHECK(good);
    T_CHECK(arena.used == sum && arena.reserved == (size_t)heap.live_bytes && arena.reserved >= sum);
    const char *text = gy_arena_text(&arena, "abcdef", 3), *empty = gy_arena_text(&arena, NULL, 0);
    T_CHECK(text && strcmp(text, "abc") == 0 && empty && empty[0] == 0);
    T_CHECK(!gy_arena_text(&arena, "x", SIZE_MAX));
    const int64_t calls = heap.calls;
    gy_arena_freeze(&arena);
    T_CHECK(!gy_arena_take(&arena, 1, 1) && !gy_arena_text(&arena, "x", 1));
    T_CHECK(arena.refused_after_freeze == 2 && heap.calls == calls);
    gy_arena_close(&arena);
    T_CHECK(heap.live_bytes == 0);
    gy_arena_close(&arena);
    T_CHECK(heap.live_bytes == 0);
}

/* Everything that allocates; GY_OK, or the first failure. Nothing may stay taken either way. */
static int base_use_memory(const struct gy_alloc *alloc, const char *path)
{
    struct gy_arena arena;
    struct gy_buf buf;
    struct gy_pool *pool = NULL;
    char *data = NULL;
    size_t bytes = 0;
    gy_arena_open_hook(&arena, alloc);
    int ok = gy_arena_take(&arena, 40000, 1) && gy_arena_take(&arena, 40000, 1) && gy_arena_take(&arena, 1, 200000);
    gy_arena_close(&arena);
    gy_buf_open(&buf, alloc);
    for (int i = 0; i < 300; i++)
        gy_buf_printf(&buf, "%d,", i);
    ok = ok && !buf.failed;
    gy_buf_close(&buf);
    int status = gy_pool_open(&pool, alloc, 2, &base_err);
    gy_pool_close(pool);
    if (status == GY_OK)
        status = gy_file_read(alloc, path, 1 << 20, &data, &bytes, &base_err);
    gy_alloc_free(alloc, data, bytes + 1);
    return ok && status == GY_OK ? GY_OK : GY_E_NOMEM;
}

static void base_test_nomem(const char *path)
{
    struct base_heap heap;
    struct gy_alloc alloc = base_alloc(&heap, 0);
    T_CHECK(base_use_memory(&alloc, path) == GY_OK);
    T_CHECK(heap.live_bytes == 0);
    const int64_t calls = heap.calls;
    T_CHECK(calls >= 8);
    for (int64_t n = 1; n <= calls; n++) {
        alloc = base_alloc(&heap, n);
        const int status = base_use_memory(&alloc, path);
        T_CHECK_MSG(status == GY_E_NOMEM && heap.live_bytes == 0, "call %d: status %d, %d bytes stay taken", (int)n,
                    status, (int)heap.live_bytes);
    }
}

/* ---- status and log ---- */

static void base_test_status(void)
{
    char longer[1000];
    memset(longer, 'x', sizeof longer - 1);
    longer[sizeof longer - 1] = 0;
    T_CHECK(GY_FAIL(&base_err, GY_E_ARG, "a %d", 5) == GY_E_ARG && strcmp(base_err.text, "a 5") == 0);
    T_CHECK(base_err.status == GY_E_ARG && base_err.line > 0 && strstr(base_err.file, "t_base.c"));
    T_CHECK(GY_FAIL(&base_err, GY_E_IO, "%s", longer) == GY_E_IO && strlen(base_err.text) == sizeof base_err.text - 1);
    T_CHECK(GY_FAIL(NULL, GY_E_IO, "%s", longer) == GY_E_IO);
    T_CHECK(GY_NOMEM(&base_err, "a tensor", 12) == GY_E_NOMEM && strstr(base_err.text, "a tensor needs 12 bytes"));
    T_CHECK(strcmp(gy_status_name(GY_E_NOMEM), "out of memory") == 0 && strcmp(gy_status_name(GY_OK), "ok") == 0);
    T_CHECK(strcmp(gy_status_name(12345), "unknown status") == 0);
}

struct base_lines {
    int count, level;
    char last[2048];
};

static void base_note_line(void *user, int level, const char *text)
{
    struct base_lines *lines = user;
    lines->count++;
    lines->level = level;
    (void)gy_text_copy(lines->last, sizeof lines->last, text);
}

static void base_test_log(void)
{
    struct base_lines lines = { 0, 0, "" };
    const struct gy_log log = { base_note_line, &lines, GY_LOG_WARN }, silent = { NULL, NULL, GY_LOG_DEBUG };
    gy_log_write(NULL, GY_LOG_ERROR, "x");
    gy_log_write(&silent, GY_LOG_ERROR, "x");
    gy_log_write(&log, GY_LOG_INFO, "x");
    T_CHECK(lines.count == 0);
    gy_log_write(&log, GY_LOG_WARN, "%d of %s", 3, "four");
    T_CHECK(lines.count == 1 && lines.level == GY_LOG_WARN && strcmp(lines.last, "3 of four") == 0);
    gy_log_write(&log, GY_LOG_ERROR, "%3000d", 1);
    T_CHECK(lines.count == 2 && strlen(lines.last) == 1023);
}

/* ---- text ---- */

static int base_refuse(void *user, const char *text, size_t bytes)
{
    (void)text;
    (void)bytes;
    ++*(int *)user;
    return 1;
}

static void base_test_sinks(void)
{
    int refused = 0;
    struct gy_buf buf;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_sink no = { base_refuse, &refused, 0 };
    gy_sink_printf(&no, "a");
    gy_sink_printf(&no, "b");
    T_CHECK(no.failed && refused == 1);
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    for (int i = 0; i < 1000; i++)
        gy_sink_printf(&sink, "%03d", i);
    T_CHECK(!sink.failed && buf.bytes == 3000 && buf.text && memcmp(buf.text + 2997, "999", 4) == 0);
    gy_buf_add(&buf, NULL, 0);
    T_CHECK(!buf.failed && buf.bytes == 3000);
    gy_sink_printf(&sink, "%4095d", 1);
    T_CHECK(!sink.failed && buf.bytes == 7095);
    gy_sink_printf(&sink, "%4096d", 1);
    T_CHECK(sink.failed);
    gy_buf_printf(&buf, "%5000d", 1);
    T_CHECK(buf.failed);
    gy_buf_close(&buf);
    T_CHECK(!buf.text && buf.bytes == 0);
}

static void base_test_copy(void)
{
    char small[4] = "zzz";
    T_CHECK(gy_text_copy(small, 4, "abc") == 0 && strcmp(small, "abc") == 0);
    T_CHECK(gy_text_copy(small, 4, "defg") == -1 && strcmp(small, "def") == 0);
    T_CHECK(gy_text_copy(small, 1, "q") == -1 && small[0] == 0 && gy_text_copy(small, 1, "") == 0);
    small[0] = 'k';
    T_CHECK(gy_text_copy(small, 0, "") == -1 && small[0] == 'k');
}

static void base_test_int(void)
{
    static const struct { const char *text; int64_t value; } good[] = {
        { "0", 0 }, { "-0", 0 }, { "+5", 5 }, { "007", 7 }, { "9223372036854775807", INT64_MAX },
        { "-9223372036854775808", INT64_MIN }, { "-9223372036854775807", -INT64_MAX },
    };
    static const char *const bad[] = { "", "-", "+", " 1", "1 ", "1.0", "0x10", "1e3", "--1", "9223372036854775808",
                                       "-9223372036854775809", "99999999999999999999", "1\n" };
    int64_t value;
    for (size_t i = 0; i < GY_COUNT(good); i++)
        T_CHECK_MSG(gy_text_int(good[i].text, INT64_MIN, INT64_MAX, &value) == 0 && value == good[i].value, "'%s'",
                    good[i].text);
    value = 77;
    for (size_t i = 0; i < GY_COUNT(bad); i++)
        T_CHECK_MSG(gy_text_int(bad[i], INT64_MIN, INT64_MAX, &value) == -1 && value == 77, "'%s'", bad[i]);
    T_CHECK(gy_text_int("5", 5, 5, &value) == 0 && gy_text_int("4", 5, 9, &value) == -1);
    T_CHECK(gy_text_int("10", 5, 9, &value) == -1 && value == 5);
}

static void base_check_reals(const char *where)
{
    static const struct { const char *text; double value; } good[] = {
        { "0", 0 }, { "1.5", 1.5 }, { ".5", 0.5 }, { "5.", 5 }, { "-2.25e1", -22.5 }, { "+1E-3", 1e-3 },
        { "1e+2", 100 },
        { "0.1", 0.1 }, { "123456789.123456789", 123456789.123456789 },
        { "1.7976931348623157e308", 1.7976931348623157e308 },
        { "4.9406564584124654e-324", 4.9406564584124654e-324 }, { "1e-99999999999", 0 }, { "0e99999999999", 0 },
        { "0.1000000000000000055511151231257827021181583404541015625", 0.1 },
        { "2.2250738585072011e-308", 2.2250738585072011e-308 },
    };
    static const char *const bad[] = { "", ".", "-", "-.", "e5", "1e", "1e+", "1e5.0", "1..2", "1.2.3", "0x1p3", "inf",
                                       "nan", "-inf", " 1", "1 ", "1,5", "1e999", "-1e999", "1e99999999999", "1.5f",
                                       "1_0" };
    double value;
    for (size_t i = 0; i < GY_COUNT(good); i++) {
        value = -777;
        T_CHECK_MSG(gy_text_real(good[i].text, -1e308 * 1.7976931348623157, 1.7976931348623157e308, &value) == 0 &&
                    memcmp(&value, &good[i].value, sizeof value) == 0, "%s: '%s' gives %.17g", where, good[i].text,
                    value);
    }
    value = 77;
    for (size_t i = 0; i < GY_COUNT(bad); i++)
        T_CHECK_MSG(gy_text_real(bad[i], -1e300, 1e300, &value) == -1 && fabs(value - 77) < 1e-9, "%s: '%s'", where,
                    bad[i]);
}

static void base_test_real(void)
{
    char many[3000];
    double value = 0;
    base_check_reals("locale C");
    T_CHECK(gy_text_real("2", 0, 1, &value) == -1 && gy_text_real("-1", 0, 1, &value) == -1);
    T_CHECK(gy_text_real("1", 0, 1, &value) == 0 && value > 0.5);
    snprintf(many, sizeof many, "1.%0*d", 1100, 0);
    T_CHECK(gy_text_real(many, 0, 1, &value) == 0 && value > 0.5);
    snprintf(many, sizeof many, "1.%0*d", 2500, 0);
    T_CHECK(gy_text_real(many, 0, 1, &value) == -1);
    if (!test_comma()) {
        T_SKIP("no locale with a decimal comma is installed, and localedef makes none");
        return;
    }
    base_check_reals("a decimal comma");
    setlocale(LC_ALL, "C");
}

static int base_suggests(const char *word, const char *expected)
{
    static const char *const words[] = { "conv", "linear", "stride", "relu", "dropout" };
    const char *found = gy_text_nearest(word, words, GY_COUNT(words));
    return expected ? found && strcmp(found, expected) == 0 : !found;
}

static void base_test_nearest(void)
{
    static const char *const swap[] = { "abXd", "abdc" }, *const turned[] = { "ba" };
    char word[200];
    memset(word, 'a', sizeof word - 1);
    word[sizeof word - 1] = 0;
    T_CHECK(base_suggests("convv", "conv") && base_suggests("con", "conv") && base_suggests("cnov", "conv"));
    T_CHECK(base_suggests("liner", "linear") && base_suggests("relu", "relu") && base_suggests("srtide", "stride"));
    T_CHECK(base_suggests("zzzzzz", NULL) && base_suggests("", NULL) && base_suggests(word, NULL));
    T_CHECK(gy_text_nearest("ab", turned, 1) == turned[0]); /* one swap, but two changes */
    /* both are one edit away: the first wins */
    T_CHECK(gy_text_nearest("abcd", swap, 2) == swap[0]);
    T_CHECK(gy_text_nearest("abcd", swap + 1, 1) == swap[1] && !gy_text_nearest("abcd", swap, 0));
}

static void base_test_bytes(void)
{
    static const struct { double bytes; const char *text; } rows[] = {
        { 0, "0 B" }, { 999, "999 B" }, { 1000, "1.0 kB" }, { 12345678, "12.3 MB" }, { 999960, "1.0 MB" },
        { 5e9, "5.0 GB" }, { 3e12, "3.0 TB" },
    };
    char buf[16];
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        T_CHECK_MSG(strcmp(gy_text_bytes(buf, sizeof buf, rows[i].bytes), rows[i].text) == 0, "%s", buf);
}

/* ---- random numbers ---- */

static void base_test_philox(void)
{
    /* Random123's kat_vectors: counter, key, answer */
    static const struct { uint32_t c[4], k[2], answer[4]; } rows[] = {
        { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
        { { ~0u, ~0u, ~0u, ~0u }, { ~0u, ~0u }, { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
        { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
          { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
    };
    uint32_t w[4], many[44];
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const uint64_t element = (uint64_t)rows[i].c[1] << 32 | rows[i].c[0];
        const uint64_t step = (uint64_t)rows[i].c[3] << 32 | rows[i].c[2];
        const uint64_t seed = (uint64_t)rows[i].k[1] << 32 | rows[i].k[0];
        gy_rng_words(seed, 0, step, element, w);
        T_CHECK_MSG(memcmp(w, rows[i].answer, sizeof w) == 0, "%08x %08x %08x %08x", w[0], w[1], w[2], w[3]);
        gy_rng_words(seed, 0x1234, step ^ (uint64_t)0x1234 << 32, element, w);
        /* the stream is in the counter's last word */
        T_CHECK(memcmp(w, rows[i].answer, sizeof w) == 0);
    }
    for (uint64_t from = UINT32_MAX - 6; from < (uint64_t)UINT32_MAX + 3; from++) {
        gy_rng_draws(7, 9, 5, from, 11, many);
        for (uint64_t i = 0; i < 11; i++) {
            gy_rng_words(7, 9, 5, from + i, w);
            T_CHECK(memcmp(w, many + 4 * i, sizeof w) == 0);
        }
    }
}

static void base_test_draws(void)
{
    enum { draws = 200000 };
    double sum = 0, square = 0, mean = 0;
    float four[4];
    int inside = 1, same = 1;
    for (int i = 0; i < draws; i++) {
        const float u = gy_rng_uniform(42, GY_RNG_AUGMENT, 3, (uint64_t)i);
        inside &= u >= 0 && u < 1;
        mean += (double)u / draws;
    }
    T_CHECK(inside);
    T_CHECK_MSG(fabs(mean - 0.5) < 0.003, "mean %g", mean); /* 4.6 standard errors */
    for (int i = 0; i < draws / 4; i++) {
        gy_rng_normals(42, GY_RNG_INIT, 0, (uint64_t)i, four);
        const float first = gy_rng_normal(42, GY_RNG_INIT, 0, (uint64_t)i);
        same &= memcmp(&first, four, sizeof first) == 0;
        for (int k = 0; k < 4; k++) {
            inside &= isfinite(four[k]) != 0;
            sum += (double)four[k];
            square += (double)four[k] * (double)four[k];
        }
    }
    T_CHECK(same && inside);
    T_CHECK_MSG(fabs(sum / draws) < 0.012 && fabs(square / draws - 1) < 0.016, "%g %g", sum / draws, square / draws);
}

static void base_test_permute(void)
{
    static const int64_t counts[] = { 1, 2, 3, 10, 1000, 65536, 65537 };
    static unsigned char hit[65537];
    for (size_t n = 0; n < GY_COUNT(counts); n++)
        for (uint64_t step = 0; step < 2; step++) {
            int64_t doubles = 0, outside = 0, fixed = 0;
            memset(hit, 0, sizeof hit);
            for (int64_t i = 0; i < counts[n]; i++) {
                const int64_t to = gy_rng_permute(9, GY_RNG_ORDER, step, counts[n], i);
                if (to < 0 || to >= counts[n]) {
                    outside++;
                    continue;
                }
                doubles += hit[to]++;
                fixed += to == i;
            }
            T_CHECK_MSG(outside == 0 && doubles == 0, "count %d", (int)counts[n]);
            T_CHECK_MSG(counts[n] < 1000 || fixed < 20, "count %d: %d stay", (int)counts[n], (int)fixed);
        }
    const int64_t far = (int64_t)1 << 40, image = gy_rng_permute(9, GY_RNG_ORDER, 0, far, far - 1);
    T_CHECK(image >= 0 && image < far);
}

/* ---- hashes ---- */

static int base_sha_is(const void *bytes, size_t count, size_t piece, const char *expected)
{
    struct gy_sha256 sha;
    unsigned char digest[32];
    char hex[65];
    gy_sha256_open(&sha);
    for (size_t at = 0; at < count; at += piece)
        gy_sha256_add(&sha, (const char *)bytes + at, count - at < piece ? count - at : piece);
    gy_sha256_close(&sha, digest);
    gy_sha256_hex(digest, hex);
    return strcmp(hex, expected) == 0;
}

static void base_test_sha(void)
{
    static char million[1000000];
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    static const char four[] = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnop"
                               "qklmnopqrlmnopqrsmnopqrstnopqrstu";
    static const char of_million[] = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
    memset(million, 'a', sizeof million);
    T_CHECK(base_sha_is("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"));
    T_CHECK(base_sha_is("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"));
    T_CHECK(base_sha_is(two, 56, 56, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
    T_CHECK(base_sha_is(two, 56, 1, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"));
    T_CHECK(base_sha_is(four, 112, 7, "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1"));
    T_CHECK(base_sha_is(million, sizeof million, sizeof million, of_million));
    T_CHECK(base_sha_is(million, sizeof million, 63, of_million));
    T_CHECK(base_sha_is(million, sizeof million, 129, of_million));
}

static uint32_t base_crc_by_bits(uint32_t polynomial, const unsigned char *p, size_t count)
{
    uint32_t crc = ~0u;
    for (size_t i = 0; i < count; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? polynomial : 0);
    }
    return ~crc;
}

static void base_test_crc(void)
{
    unsigned char bytes[8000], zeros[32] = { 0 };
    int whole = 1, pieces = 1;
    T_CHECK(gy_crc32c(0, "123456789", 9) == 0xe3069283 && gy_crc32(0, "123456789", 9) == 0xcbf43926);
    T_CHECK(gy_crc32c(0, zeros, 32) == 0x8a9136aa); /* RFC 3720, B.4 */
    T_CHECK(gy_crc32c(0, "", 0) == 0 && gy_crc32(0, NULL, 0) == 0);
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(i * 131 + (i >> 3));
    for (size_t at = 0; at < 9; at++)
        /* sizes from 3072 on are computed in several lanes */
        for (size_t n = 0; n + at <= sizeof bytes; n += n < 300 ? 1 : 611) {
            const uint32_t c = base_crc_by_bits(0x82f63b78, bytes + at, n);
            const uint32_t z = base_crc_by_bits(0xedb88320, bytes + at, n);
            whole &= gy_crc32c(0, bytes + at, n) == c && gy_crc32(0, bytes + at, n) == z;
            pieces &= gy_crc32c(gy_crc32c(0, bytes + at, n / 3), bytes + at + n / 3, n - n / 3) == c &&
                      gy_crc32c_join(gy_crc32c(0, bytes + at, n / 3), gy_crc32c(0, bytes + at + n / 3, n - n / 3), n - n / 3) == c &&
                      gy_crc32(gy_crc32(0, bytes + at, n / 3), bytes + at + n / 3, n - n / 3) == z;
        }
    T_CHECK(whole && pieces);
}

/* ---- threads ---- */

struct base_job {
    int64_t tiles;
    int threads, bad, parity;
    unsigned char ran[1000];
    int64_t by_thread[16][8]; /* a cache line each */
};

static void base_tile(void *user, int64_t tile, int thread)
{
    struct base_job *job = user;
    if (tile < 0 || tile >= job->tiles || thread < 0 || thread >= job->threads) {
        __atomic_store_n(&job->bad, 1, __ATOMIC_RELAXED);
        return;
    }
    job->ran[tile]++;
    job->by_thread[thread][0]++;
}

static void base_test_pool(int threads)
{
    static const int64_t tiles[] = { 0, 1, 2, 7, 1000 };
    static struct base_job job;
    struct base_heap heap;
    struct gy_pool *pool = NULL;
    const struct gy_alloc alloc = base_alloc(&heap, 0);
    if (!T_CHECK(gy_pool_open(&pool, &alloc, threads, &base_err) == GY_OK && pool))
        return;
    T_CHECK(gy_pool_threads(pool) == threads);
    const int64_t calls = heap.calls;
    for (size_t t = 0; t < GY_COUNT(tiles); t++) {
        const int jobs = tiles[t] == 1000 ? 100 : 10000;
        int wrong = 0;
        memset(&job, 0, sizeof job);
        job.tiles = tiles[t];
        job.threads = threads;
        for (int n = 0; n < jobs; n++) {
            memset(job.ran, 0, sizeof job.ran);
            gy_pool_run(pool, base_tile, &job, tiles[t]);
            for (int64_t i = 0; i < tiles[t]; i++)
                wrong += job.ran[i] != 1;
        }
        int64_t sum = 0;
        for (int i = 0; i < 16; i++)
            sum += job.by_thread[i][0];
        T_CHECK_MSG(wrong == 0 && !job.bad && sum == jobs * tiles[t], "%d threads, %d tiles: %d tiles not run once",
                    threads, (int)tiles[t], wrong);
    }
    usleep(2000); /* long enough for everybody to fall asleep */
    memset(&job, 0, sizeof job);
    job.tiles = 50;
    job.threads = threads;
    gy_pool_run(pool, base_tile, &job, 50);
    T_CHECK(job.ran[0] == 1 && job.ran[49] == 1 && heap.calls == calls);
    gy_pool_close(pool);
    T_CHECK(heap.live_bytes == 0);
}

/* Tiles that wait for each other: they end only if two threads really work at the same time. */
static void base_meet(void *user, int64_t tile, int thread)
{
    int *here = user, *done = here + 1 + tile;
    __atomic_add_fetch(here, 1, __ATOMIC_ACQ_REL);
    for (int i = 0; i < 20000 && __atomic_load_n(here, __ATOMIC_ACQUIRE) < 2; i++)
        usleep(500);
    if (thread != 0)
        usleep(20000); /* the caller is through and must wait */
    *done = 1;
}

static void base_test_pool_edges(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_pool *pool = NULL;
    T_CHECK(gy_pool_open(&pool, &alloc, -1, &base_err) == GY_E_ARG && !pool);
    T_CHECK(gy_pool_open(&pool, &alloc, 1000000, &base_err) == GY_E_ARG && !pool);
    gy_pool_close(NULL);
    T_CHECK(gy_thread_count_available() >= 1);
    if (T_CHECK(gy_pool_open(&pool, &alloc, 0, &base_err) == GY_OK))
        T_CHECK(gy_pool_threads(pool) == gy_thread_count_available());
    gy_pool_close(pool);
    for (int i = 0; i < 50; i++) { /* closed before its threads have come up */
        pool = NULL;
        T_CHECK(gy_pool_open(&pool, &alloc, 4, &base_err) == GY_OK);
        gy_pool_close(pool);
    }
    if (!T_CHECK(gy_pool_open(&pool, &alloc, 2, &base_err) == GY_OK))
        return;
    for (int sleepy = 0; sleepy < 2; sleepy++) {
        int here[3] = { 0, 0, 0 };
        usleep(sleepy ? 5000 : 0);
        const int64_t start = gy_clock_ns();
        gy_pool_run(pool, base_meet, here, 2);
        T_CHECK(here[1] == 1 && here[2] == 1);
        T_CHECK_MSG(gy_clock_ns() - start < (int64_t)9 * 1000000000, "the second thread never took a tile");
    }
    gy_pool_close(pool);
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define BASE_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BASE_SANITIZED 1
#endif
#endif

#if !defined(BASE_SANITIZED)
/* Runs in a child whose memory has no room for that many stacks. 0: cleanly refused; 1: it worked;
 * 2: wrong. */
static int base_starved_pool(void)
{
    struct rlimit limit = { (rlim_t)1 << 28, (rlim_t)1 << 28 };
    struct base_heap heap;
    struct gy_pool *pool = NULL;
    const struct gy_alloc alloc = base_alloc(&heap, 0);
    if (setrlimit(RLIMIT_AS, &limit) != 0)
        return 1;
    const int status = gy_pool_open(&pool, &alloc, 300, &base_err);
    if (status == GY_OK)
        return 1;
    return status == GY_E_NOMEM && !pool && heap.live_bytes == 0 && strstr(base_err.text, "of 300") ? 0 : 2;
}
#endif

static void base_test_pool_starved(void)
{
#if defined(BASE_SANITIZED)
    T_SKIP("threads that cannot start: the sanitizer needs the address space");
#else
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(base_starved_pool());
    T_CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) != 2);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
        T_SKIP("threads that cannot start: the limit of address space is not obeyed here");
#endif
}

/* ---- processor, clock, knobs ---- */

static void base_test_cpu(void)
{
    static const struct { const char *name; unsigned mask; } rows[] = {
        { "ref", 0 }, { "avx2", GY_CPU_AVX2 }, { "avx512", GY_CPU_AVX2 | GY_CPU_AVX512 },
        { "avx512bf16", GY_CPU_AVX2 | GY_CPU_AVX512 | GY_CPU_AVX512BF16 },
        { "amx", GY_CPU_AVX2 | GY_CPU_AVX512 | GY_CPU_AVX512BF16 | GY_CPU_AMX }, { "vsx", GY_CPU_VSX },
        { "mma", GY_CPU_VSX | GY_CPU_MMA }, { "native", ~0u }, { "", ~0u }, { NULL, ~0u },
    };
    unsigned mask = 99;
    char model[64], tiny[4];
    for (size_t i = 0; i < GY_COUNT(rows); i++)
        T_CHECK_MSG(gy_cpu_mask(rows[i].name, &mask) == 0 && mask == rows[i].mask, "%s",
                    rows[i].name ? rows[i].name : "");
    mask = 99;
    T_CHECK(gy_cpu_mask("AVX2", &mask) == -1 && gy_cpu_mask("avx", &mask) == -1 && mask == 99);
    const unsigned bits = gy_cpu_bits();
    T_CHECK(bits == gy_cpu_bits());
#if defined(__x86_64__)
    T_CHECK((bits & (GY_CPU_VSX | GY_CPU_MMA)) == 0);
    T_CHECK(!(bits & GY_CPU_AVX2) == !(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")));
    T_CHECK(!(bits & GY_CPU_AVX512) == !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")));
#elif defined(__powerpc64__)
    T_CHECK((bits & (GY_CPU_AVX2 | GY_CPU_AVX512)) == 0);
    T_CHECK(!(bits & GY_CPU_VSX) == !__builtin_cpu_supports("vsx"));
#endif
    T_CHECK(strlen(gy_cpu_model(model, sizeof model)) > 0 && !strchr(model, '\n'));
    T_CHECK(strlen(gy_cpu_model(tiny, sizeof tiny)) <= 3);
    T_CHECK(gy_cpu_cache_bytes(1) >= 4096 && gy_cpu_cache_bytes(2) >= 65536 && gy_cpu_cache_bytes(3) >= 65536);
    T_CHECK(gy_cpu_cache_bytes(0) == 0 && gy_cpu_cache_bytes(4) == 0);
}

static void base_test_clock(void)
{
    const int64_t start = gy_clock_ns();
    int back = 0;
    for (int64_t i = 0, last = start; i < 10000; i++) {
        const int64_t now = gy_clock_ns();
        back += now < last;
        last = now;
    }
    usleep(1000);
    T_CHECK(back == 0 && gy_clock_ns() - start >= 1000000);
    T_CHECK(gy_clock_wall() > 1.6e9 && gy_clock_wall() < 1e11);
    int wrong = 0; /* every day of 400 years and more, beside the system's */
    for (int64_t day = 0; day < 150000; day++) {
        const time_t wall = (time_t)(day * 86400 + day % 86400);
        struct tm tm;
        char here[32], there[32];
        strftime(there, sizeof there, "%Y-%m-%d", gmtime_r(&wall, &tm));
        wrong += strcmp(gy_clock_date((double)wall, here), there) != 0;
    }
    T_CHECK(wrong == 0);
}

static void base_test_words(void)
{
    const char *at = "  one\ttwo\r\n";
    char word[5];
    double real[4] = { 7, 7, 7, 7 };
    T_CHECK(gy_text_word(&at, word, sizeof word) == 0 && strcmp(word, "one") == 0);
    T_CHECK(gy_text_word(&at, word, 3) == -1 && gy_text_word(&at, word, 4) == 0 && strcmp(word, "two") == 0);
    T_CHECK(gy_text_word(&at, word, sizeof word) == -1);
    T_CHECK(gy_text_reals("1 -2.5e1\t3", real, 4) == 3 && real[0] == 1 && real[1] == -25 && real[2] == 3 && real[3] == 7);
    T_CHECK(gy_text_reals("1 2 x 3", real, 4) == 2 && gy_text_reals("1 2 3 4 5", real, 2) == 2 && gy_text_reals("nan", real, 1) == 0);
}

static void base_test_knobs(void)
{
    size_t count = 0;
    struct base_lines lines = { 0, 0, "" };
    struct gy_buf buf;
    const struct gy_log log = { base_note_line, &lines, GY_LOG_WARN };
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_knob *table = gy_knob_table(&count);
    T_CHECK(count >= 5 && strcmp(table[0].name, "GYRE_THREADS") == 0);
    for (size_t i = 0; i < count; i++)
        T_CHECK_MSG(strncmp(table[i].name, "GYRE_", 5) == 0 && table[i].type[0] && table[i].help[0], "row %d", (int)i);
    unsetenv("GYRE_THREADS");
    T_CHECK(!gy_knob_get("GYRE_THREADS"));
    setenv("GYRE_THREADS", "", 1);
    T_CHECK(!gy_knob_get("GYRE_THREADS"));
    setenv("GYRE_THREADS", "3", 1);
    const char *value = gy_knob_get("GYRE_THREADS");
    T_CHECK(value && strcmp(value, "3") == 0 && !gy_knob_get("PATH"));
    const int before = gy_knob_warn_unknown(&log);
    setenv("GYRE_THREDS", "3", 1);
    T_CHECK(gy_knob_warn_unknown(&log) == before + 1);
    if (before == 0)
        T_CHECK_MSG(strstr(lines.last, "GYRE_THREDS") && strstr(lines.last, "did you mean GYRE_THREADS?"), "%s",
                    lines.last);
    unsetenv("GYRE_THREDS");
    unsetenv("GYRE_THREADS");
    T_CHECK(gy_knob_warn_unknown(NULL) == before);
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_knob_print(&sink);
    T_CHECK(!sink.failed && buf.text && strstr(buf.text, "GYRE_TEST_DATA") && strstr(buf.text, "GYRE_NO_INSTALL"));
    gy_buf_close(&buf);
}

#include "tests/base_files.h"
#include "tests/base_machine.h"

int main(void)
{
    static void (*const tests[])(void) = {
        base_test_sizes, base_test_alloc, base_test_arena_fixed, base_test_arena_hook, base_test_status, base_test_log,
        base_test_sinks, base_test_copy, base_test_int, base_test_real, base_test_nearest, base_test_bytes,
        base_test_philox, base_test_draws, base_test_permute, base_test_sha, base_test_crc, base_test_cpu,
        base_test_clock, base_test_words, base_test_knobs, base_test_files, base_test_pool_edges, base_test_pool_starved,
        base_test_caches, base_test_pin_order, base_test_pin, base_test_pin_masked,
    };
    static const int threads[] = { 1, 2, 3, 8 };
    for (size_t i = 0; i < GY_COUNT(tests); i++)
        tests[i]();
    for (size_t i = 0; i < GY_COUNT(threads); i++)
        base_test_pool(threads[i]);
    T_END("t_base");
}
