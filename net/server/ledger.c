/* SPDX-License-Identifier: MIT */
/* ledger.c: one slice's book: counters and flags, no messages and no floats. */
#include "net/server/ledger.h"

GY_INT void gy_ledger_open(struct gy_ledger *ledger, const struct gy_ledger_rules *rules,
                           struct gy_ledger_worker *worker, int64_t version)
{
    *ledger = (struct gy_ledger){ .rules = *rules, .worker = worker, .version = version };
    for (int w = 0; w < rules->workers; w++)
        worker[w] = (struct gy_ledger_worker){ .version = version };
}

GY_INT int gy_ledger_push(struct gy_ledger *ledger, int worker, int64_t version,
                          struct gy_error *err)
{
    struct gy_ledger_worker *const w = &ledger->worker[worker];
    if (w->gone)
        return GY_FAIL(err, GY_E_MISMATCH, "worker %d has left, and sends a gradient", worker);
    if (w->here || w->owed)
        return GY_FAIL(err, GY_E_MISMATCH, "a gradient of worker %d came before the answer to its "
                       "last one", worker);
    if (version != w->version)
        return GY_FAIL(err, GY_E_MISMATCH, "a gradient of worker %d is of weights after %" PRId64
                       " updates; it was given those after %" PRId64, worker, version, w->version);
    w->clock++;
    if (version < ledger->version && !ledger->rules.any_age) {
        w->owed = 1;
        return GY_LEDGER_LATE;
    }
    w->here = 1;
    ledger->here++;
    return GY_LEDGER_TAKEN;
}

/* An update takes one gradient less for each worker that has gone. So those that are left never all
 * wait for each other (ledger.h), whoever made the last update. */
GY_INT int gy_ledger_is_due(const struct gy_ledger *ledger)
{
    int take = ledger->rules.take;
    for (int w = 0; w < ledger->rules.workers; w++)
        take -= ledger->worker[w].gone;
    return ledger->here > 0 && ledger->here >= take;
}

GY_INT void gy_ledger_updated(struct gy_ledger *ledger, int refused)
{
    ledger->version += !refused;
    ledger->here = 0;
    for (int w = 0; w < ledger->rules.workers; w++) {
        ledger->worker[w].owed |= ledger->worker[w].here;
        ledger->worker[w].here = 0;
    }
}

/* The clock of the slowest worker that is still there. */
static int64_t ledger_slowest(const struct gy_ledger *ledger)
{
    int64_t least = INT64_MAX;
    for (int w = 0; w < ledger->rules.workers; w++)
        if (!ledger->worker[w].gone && ledger->worker[w].clock < least)
            least = ledger->worker[w].clock;
    return least;
}

GY_INT int gy_ledger_may_answer(const struct gy_ledger *ledger, int worker)
{
    const struct gy_ledger_worker *const w = &ledger->worker[worker];
    if (!w->owed || w->gone)
        return 0;
    return ledger->rules.ahead < 0 || w->clock - ledger_slowest(ledger) <= ledger->rules.ahead;
}

GY_INT void gy_ledger_answered(struct gy_ledger *ledger, int worker)
{
    ledger->worker[worker].owed = 0;
    ledger->worker[worker].version = ledger->version;
}

GY_INT void gy_ledger_gone(struct gy_ledger *ledger, int worker)
{
    struct gy_ledger_worker *const w = &ledger->worker[worker];
    ledger->here -= w->here;
    w->here = w->owed = 0;
    w->gone = 1;
}

GY_INT void gy_ledger_back(struct gy_ledger *ledger, int worker, int fresh)
{
    struct gy_ledger_worker *const w = &ledger->worker[worker];
    const int64_t slowest = ledger_slowest(ledger);
    w->here = w->owed = w->gone = 0;
    if (!fresh)
        return;
    w->clock = slowest < INT64_MAX ? slowest : 0;
    w->version = ledger->version;
}
