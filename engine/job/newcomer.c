/* SPDX-License-Identifier: MIT */
/* newcomer.c: walks the list of addresses until one answers. Only the rank that leads answers,
 * between two steps; the others stay silent. So each address gets its turn, and each round takes
 * twice as long as the last: a step may take long, too. */
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/knob.h"
#include "engine/base/text.h"
#include "engine/job/newcomer.h"
#include "net/transport/socket.h"

#define NEWCOMER_BOARD 128               /* bytes of an address */
#define NEWCOMER_FIRST_NS 1000000000     /* for an answer, in the first round */
#define NEWCOMER_TRIES_NS 15000000000LL  /* one address: who leads may change */
#define NEWCOMER_ROUNDS_NS 60000000000LL /* several */
#define NEWCOMER_PAUSE_NS 50000000       /* between two tries */

static int newcomer_number(const char *name, int64_t most, int64_t otherwise, int *out,
                           struct gy_error *err)
{
    const char *const text = gy_knob_get(name);
    int64_t value = otherwise;
    if (text && gy_text_int(text, 0, most, &value) != 0)
        return GY_FAIL(err, GY_E_ARG, "%s is \"%s\"; it must be a number from 0 to %" PRId64, name,
                       text, most);
    *out = (int)value;
    return GY_OK;
}

GY_INT int gy_newcomer_read(int *board, int *port, struct gy_error *err)
{
    GY_TRY(newcomer_number("GYRE_BOARD_FD", INT_MAX, -1, board, err));
    return newcomer_number("GYRE_JOIN_PORT", 61000, 0, port, err);
}

GY_INT void gy_newcomer_begin(struct gy_newcomer *n, const char *said, int64_t wait_ns)
{
    *n = (struct gy_newcomer) { .said = said, .count = 1, .most = wait_ns };
    for (const char *at = said; (at = strchr(at, ',')) != NULL; at++)
        n->count++;
    n->deadline = gy_clock_ns() + (n->count > 1 ? NEWCOMER_ROUNDS_NS : NEWCOMER_TRIES_NS);
}

/* One of the list; 0 is the first. */
static void newcomer_pick(const struct gy_newcomer *n, int which, char text[GY_NEWCOMER_HOST])
{
    const char *at = n->said;
    for (int i = 0; i < which; i++)
        at = strchr(at, ',') + 1;
    const size_t bytes = strcspn(at, ",");
    snprintf(text, GY_NEWCOMER_HOST, "%.*s", bytes < 255 ? (int)bytes : 255, at);
}

GY_INT int gy_newcomer_next(struct gy_newcomer *n, char host[GY_NEWCOMER_HOST], int *port,
                            int64_t *patience, struct gy_error *err)
{
    char text[GY_NEWCOMER_HOST];
    int board, first;
    GY_TRY(gy_newcomer_read(&board, &first, err));
    const ssize_t bytes = board >= 0 ? pread(board, text, NEWCOMER_BOARD, 0) : 0;
    text[bytes > 0 ? bytes : 0] = 0;
    if (text[0] == 0)
        newcomer_pick(n, n->turn % n->count, text);
    if (n->turn > 0)
        nanosleep(&(const struct timespec) { 0, NEWCOMER_PAUSE_NS }, NULL);
    *patience = n->most;
    for (int64_t ns = NEWCOMER_FIRST_NS, k = n->turn / n->count; n->count > 1; ns *= 2, k--)
        if (k == 0 || ns >= n->most) {
            *patience = gy_min64(ns, n->most);
            break;
        }
    n->turn++;
    return gy_net_address(text, host, GY_NEWCOMER_HOST, port, err);
}

GY_INT int gy_newcomer_is_late(const struct gy_newcomer *n) { return gy_clock_ns() > n->deadline; }

#undef NEWCOMER_BOARD
#undef NEWCOMER_FIRST_NS
#undef NEWCOMER_TRIES_NS
#undef NEWCOMER_ROUNDS_NS
#undef NEWCOMER_PAUSE_NS
