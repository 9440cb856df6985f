/* SPDX-License-Identifier: MIT */
/* t.h: the test harness. A test is a program. Checks count; a failure prints one line with file,
 * line and values. The program ends with T_END, whose exit code is non-zero when a check failed or
 * none ran. A program that runs for long prints now and then which check it has reached. */
#ifndef GY_T_H
#define GY_T_H
#include <time.h>
#include "engine/base/base.h"

static int t_passed, t_failed, t_skipped;

#define T_QUIET 10 /* seconds without a word at first; then at least so many between two */
#define T_EVERY 5

static inline void t_where(const char *file, int line)
{
    static time_t began, said;
    const time_t now = time(NULL);
    if (!began)
        began = said = now;
    if (now - began < T_QUIET || now - said < T_EVERY)
        return;
    said = now;
    printf("  after %d s: %s:%d, %d checks\n", (int)(now - began), file, line, t_passed + t_failed);
    fflush(stdout);
}

static inline int t_note(int ok, const char *file, int line, const char *what)
{
    t_where(file, line);
    if (ok) {
        t_passed++;
        return 1;
    }
    t_failed++;
    printf("%s:%d: failed: %s\n", file, line, what);
    return 0;
}

/* Counts one check; evaluates to whether it held. */
#define T_CHECK(cond) t_note((cond) ? 1 : 0, __FILE__, __LINE__, #cond)

/* Counts one check with a printed reason. */
#define T_CHECK_MSG(cond, ...)                                                                                         \
    do {                                                                                                               \
        if (!t_note((cond) ? 1 : 0, __FILE__, __LINE__, #cond)) {                                                      \
            printf("    ");                                                                                            \
            printf(__VA_ARGS__);                                                                                       \
            printf("\n");                                                                                              \
        }                                                                                                              \
    } while (0)

#define T_SKIP(why)                                                                                                    \
    do {                                                                                                               \
        t_skipped++;                                                                                                   \
        printf("skipped: %s\n", (why));                                                                                \
    } while (0)

static inline int t_end(const char *program)
{
    printf("%s: %d passed, %d failed, %d skipped\n", program, t_passed, t_failed, t_skipped);
    return t_failed != 0 || t_passed + t_skipped == 0;
}
#define T_END(program) return t_end(program)

#endif
