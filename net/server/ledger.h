/* SPDX-License-Identifier: MIT */
/* ledger.h: what a server knows of its workers, for one slice of the parameters. It tells who has
 * pushed a gradient, whether an update is due, and who waits for an answer. served_server.c keeps
 * one for each slice, and asks these two questions after every entry.
 *
 * The first `take` gradients of a step make an update. With as many as there are workers that is
 * synchronous training. With fewer the others are late: their weights have been updated meanwhile,
 * so their gradients are dropped (Chen et al. 2016). Asynchronous training takes each gradient by
 * itself, however old its weights are. A worker that is too far ahead of the slowest one gets no
 * answer yet (stale synchronous parallel, Ho et al. 2013).
 *
 * Workers never all wait for each other, on different slices. With take 1 each gradient is an
 * update. With take > 1, suppose that they all wait. Look at the worker whose step began first, and
 * at the slice that it waits for. Of those that made the slice's last update, some worker must
 * still be in that step, else enough gradients would be there. But that step began before: a
 * contradiction. */
#ifndef GY_NET_SERVER_LEDGER_H
#define GY_NET_SERVER_LEDGER_H
#include "engine/base/mem.h"

struct gy_ledger_rules {
    int workers;
    int take;          /* gradients of an update; one less for each worker that has gone */
    int any_age;       /* a gradient of older weights is taken, too */
    int64_t ahead;     /* steps that a worker may be ahead of the slowest; -1: any number */
};

struct gy_ledger_worker {
    int64_t clock;     /* gradients of it that were taken or dropped */
    int64_t version;   /* of the weights that it was given last */
    /* its gradient waits for an update; it waits for an answer; it has left */
    int here, owed, gone;
};

struct gy_ledger {
    struct gy_ledger_rules rules;
    struct gy_ledger_worker *worker; /* [workers], the caller's */
    int64_t version;                 /* updates of the slice */
    int here;                        /* gradients that wait */
};

enum gy_ledger_verdict { GY_LEDGER_TAKEN, GY_LEDGER_LATE };

GY_INT void gy_ledger_open(struct gy_ledger *ledger, const struct gy_ledger_rules *rules,
                           struct gy_ledger_worker *worker, int64_t version);
/* A gradient came, of weights of this version. Returns enum gy_ledger_verdict, or GY_E_MISMATCH
 * with a sentence: the worker has left, has no answer yet, or never had these weights. */
GY_INT int gy_ledger_push(struct gy_ledger *ledger, int worker, int64_t version,
                          struct gy_error *err);
GY_INT int gy_ledger_is_due(const struct gy_ledger *ledger); /* enough gradients wait */
/* The update was made, or refused: those that wait are owed an answer. */
GY_INT void gy_ledger_updated(struct gy_ledger *ledger, int refused);
GY_INT int gy_ledger_may_answer(const struct gy_ledger *ledger, int worker);
GY_INT void gy_ledger_answered(struct gy_ledger *ledger, int worker);
GY_INT void gy_ledger_gone(struct gy_ledger *ledger, int worker); /* has left, or is lost */
/* A worker that was gone is there again. fresh: a new one, which stands where the slowest does. */
GY_INT void gy_ledger_back(struct gy_ledger *ledger, int worker, int fresh);

#endif
