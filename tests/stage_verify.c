/* SPDX-License-Identifier: MIT */
/* stage_verify.c: checks a pipeline's schedule. It plays it, action by action, in plain code that
 * knows nothing of how it was made. A stage's next action waits for its input and for places of
 * what it sends. Sends are the strictest there are. One begins when its receiver has a place free;
 * else the sender keeps it in one of its own few places. When no stage can go on before all are
 * done, they wait for each other. */
#include "tests/stage_verify.h"

/* Of one stage: micro-batches by their numbers. */
struct play_stage {
    int at;            /* its next action */
    int forward, back; /* done; both in order */
    int held, peak;
};

struct play {
    const struct gy_stage_action *action;
    const int *slots;
    int stages, micros;
    struct play_stage *s;
    struct gy_error *err;
};

/* Every earlier stage has sent its activations, or every later one its gradients; and each receiver
 * of what this action makes has used so much that one more finds a place, with it or here. */
static int play_can(const struct play *v, int stage, const struct gy_stage_action *a)
{
    for (int other = 0; other < v->stages; other++) {
        const struct play_stage *s = &v->s[stage], *o = &v->s[other];
        const int apart = other < stage ? stage - other : other - stage,
                  done = a->back ? o->back : o->forward;
        const int sends = a->back ? other > stage : other < stage;
        if (other == stage)
            continue;
        if (sends ? done <= a->micro : (a->back ? s->back : s->forward) - done >= 2 * (apart + 1))
            return 0;
    }
    return 1;
}

static int play_forward(struct play *v, int stage, int micro)
{
    struct play_stage *s = &v->s[stage];
    if (micro != s->forward)
        return GY_FAIL(v->err, GY_E_BUG, "schedule: stage %d does forward %d when %d is due", stage,
                       micro, s->forward);
    s->forward++;
    if (++s->held > s->peak)
        s->peak = s->held;
    if (s->held > v->slots[stage])
        return GY_FAIL(
            v->err, GY_E_BUG,
            "schedule: stage %d keeps the activations of %d micro-batches; it has %d slots", stage,
            s->held, v->slots[stage]);
    return GY_OK;
}

static int play_back(struct play *v, int stage, int micro)
{
    struct play_stage *s = &v->s[stage];
    if (micro != s->back)
        return GY_FAIL(v->err, GY_E_BUG, "schedule: stage %d does backward %d when %d is due",
                       stage, micro, s->back);
    if (micro >= s->forward)
        return GY_FAIL(v->err, GY_E_BUG, "schedule: stage %d does backward %d before forward %d",
                       stage, micro, micro);
    s->back++;
    s->held--;
    return GY_OK;
}

/* One action of a stage, where it can: 1; 0: it cannot; or a status. */
static int play_step(struct play *v, int stage)
{
    struct play_stage *s = &v->s[stage];
    if (s->at == 2 * v->micros)
        return 0;
    const struct gy_stage_action *a = &v->action[stage * 2 * v->micros + s->at];
    if (a->micro < 0 || a->micro >= v->micros)
        return GY_FAIL(v->err, GY_E_BUG, "schedule: stage %d has micro-batch %d of %d", stage,
                       a->micro, v->micros);
    if (!play_can(v, stage, a))
        return 0;
    GY_TRY(a->back ? play_back(v, stage, a->micro) : play_forward(v, stage, a->micro));
    s->at++;
    return 1;
}

static int play_all(struct play *v)
{
    int moved = 1, done = 0;
    while (moved) {
        moved = 0;
        for (int stage = 0; stage < v->stages; stage++) {
            const int one = play_step(v, stage);
            if (one < 0)
                return one;
            moved += one;
        }
        done += moved;
    }
    for (int stage = 0; stage < v->stages; stage++)
        if (v->s[stage].at < 2 * v->micros)
            return GY_FAIL(v->err, GY_E_BUG, "schedule: after %d actions the stages wait for each "
                           "other; stage %d at its action %d", done, stage, v->s[stage].at);
    return GY_OK;
}

int stage_verify(const struct gy_stage_action *action, int stages, int micros, const int *slots,
                 int *peak, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct play v = {
        .action = action, .slots = slots, .stages = stages, .micros = micros, .err = err
    };
    v.s = gy_alloc_take(alloc, (size_t)stages, sizeof *v.s);
    if (!v.s)
        return GY_NOMEM(err, "the stages of a schedule", (size_t)stages * sizeof *v.s);
    const int status = play_all(&v);
    for (int stage = 0; stage < stages && peak; stage++)
        peak[stage] = v.s[stage].peak;
    gy_alloc_free(alloc, v.s, (size_t)stages * sizeof *v.s);
    return status;
}
