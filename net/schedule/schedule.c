/* SPDX-License-Identifier: MIT */
/* schedule.c: builds schedules. Algorithms add steps message by message, in any order; at the end
 * three stable counting sorts lay them out by rank, lane and round. */
#include "net/schedule/schedule.h"

GY_INT void gy_net_open_schedule(struct gy_net_schedule *s, const struct gy_alloc *alloc, const char *name, int goal, int ranks,
                                 int32_t pieces, int lanes)
{
    *s = (struct gy_net_schedule){ .goal = goal, .ranks = ranks, .pieces = pieces, .lanes = lanes, .alloc = *alloc };
    snprintf(s->name, sizeof s->name, "%s", name);
}

GY_INT void gy_net_close_schedule(struct gy_net_schedule *s)
{
    if (s->room > 0) {
        gy_alloc_free(&s->alloc, s->steps, (size_t)s->room * sizeof *s->steps);
        gy_alloc_free(&s->alloc, s->rank_of, (size_t)s->room * sizeof *s->rank_of);
    }
    if (s->first)
        gy_alloc_free(&s->alloc, s->first, ((size_t)s->ranks + 1) * sizeof *s->first);
    *s = (struct gy_net_schedule){ .failed = 1 };
}

static int schedule_grow(struct gy_net_schedule *s)
{
    const int64_t room = s->room == 0 ? 1024 : 2 * s->room;
    struct gy_net_step *steps = gy_alloc_grow(&s->alloc, s->steps, (size_t)s->room, (size_t)room, sizeof *steps);
    if (!steps)
        return 0;
    s->steps = steps;
    int32_t *rank_of = gy_alloc_grow(&s->alloc, s->rank_of, (size_t)s->room, (size_t)room, sizeof *rank_of);
    if (!rank_of) { /* steps have room places already: give the size they really have */
        gy_alloc_free(&s->alloc, s->steps, (size_t)room * sizeof *steps);
        gy_alloc_free(&s->alloc, s->rank_of, (size_t)s->room * sizeof *rank_of);
        s->steps = NULL;
        s->rank_of = NULL;
        s->room = s->count = 0;
        return 0;
    }
    s->rank_of = rank_of;
    s->room = room;
    return 1;
}

GY_INT void gy_net_add(struct gy_net_schedule *s, int rank, int lane, int round, int kind, int peer, int32_t piece, int32_t pieces)
{
    if (s->failed || pieces == 0)
        return;
    if (round > UINT16_MAX || lane > UINT16_MAX || s->count >= GY_NET_STEPS_MOST ||
        (s->count == s->room && !schedule_grow(s))) {
        s->failed = 1;
        return;
    }
    s->rank_of[s->count] = rank;
    s->steps[s->count++] = (struct gy_net_step){ .lane = (uint16_t)lane, .round = (uint16_t)round, .kind = (uint8_t)kind,
                                                .peer = peer, .piece = piece, .pieces = pieces };
}

GY_INT void gy_net_move(struct gy_net_schedule *s, int lane, int round, int from, int to, int kind, int32_t piece, int32_t pieces)
{
    gy_net_add(s, from, lane, round, GY_NET_SEND, to, piece, pieces);
    gy_net_add(s, to, lane, round, kind, from, piece, pieces);
}

/* Steps and the rank of each. */
struct schedule_list {
    struct gy_net_step *steps;
    int32_t *rank_of;
};
enum schedule_key { SCHEDULE_ROUND, SCHEDULE_LANE, SCHEDULE_RANK };

static int schedule_key_of(const struct schedule_list *list, int64_t i, enum schedule_key key)
{
    return key == SCHEDULE_ROUND ? list->steps[i].round : key == SCHEDULE_LANE ? list->steps[i].lane : list->rank_of[i];
}

/* A stable counting sort by one key below keys; at has keys + 1 places. */
static void schedule_sort(const struct schedule_list *from, const struct schedule_list *to, int64_t count, enum schedule_key key,
                          int64_t *at, int64_t keys)
{
    memset(at, 0, ((size_t)keys + 1) * sizeof *at);
    for (int64_t i = 0; i < count; i++)
        at[schedule_key_of(from, i, key) + 1]++;
    for (int64_t k = 0; k < keys; k++)
        at[k + 1] += at[k];
    for (int64_t i = 0; i < count; i++) {
        const int64_t place = at[schedule_key_of(from, i, key)]++;
        to->steps[place] = from->steps[i];
        to->rank_of[place] = from->rank_of[i];
    }
}

static void schedule_order(struct gy_net_schedule *s, const struct schedule_list *other, int64_t *at)
{
    const struct schedule_list own = {s->steps, s->rank_of};
    schedule_sort(&own, other, s->count, SCHEDULE_ROUND, at, UINT16_MAX + 1);
    schedule_sort(other, &own, s->count, SCHEDULE_LANE, at, UINT16_MAX + 1);
    schedule_sort(&own, other, s->count, SCHEDULE_RANK, at, s->ranks);
    s->steps = other->steps;
    s->rank_of = other->rank_of;
    for (int64_t i = 0; i < s->count; i++)
        s->first[s->rank_of[i] + 1]++;
    for (int r = 0; r < s->ranks; r++)
        s->first[r + 1] += s->first[r];
}

GY_INT int gy_net_finish(struct gy_net_schedule *s, struct gy_error *err)
{
    if (s->failed || (s->room == 0 && !schedule_grow(s)))
        return GY_FAIL(err, GY_E_NOMEM, "the schedule %s for %d ranks takes more than %" PRId64 " steps or all memory", s->name,
                       s->ranks, GY_NET_STEPS_MOST);
    const size_t room = (size_t)s->room, keys = (size_t)gy_max64(UINT16_MAX + 2, s->ranks + 1);
    struct schedule_list other = {gy_alloc_take(&s->alloc, room, sizeof *s->steps),
                                  gy_alloc_take(&s->alloc, room, sizeof *s->rank_of)};
    const struct schedule_list built = {s->steps, s->rank_of};
    int64_t *at = gy_alloc_take(&s->alloc, keys, sizeof *at);
    s->first = gy_alloc_take(&s->alloc, (size_t)s->ranks + 1, sizeof *s->first);
    const int there = other.steps && other.rank_of && at && s->first;
    if (there) {
        schedule_order(s, &other, at);
        other = built;
    }
    gy_alloc_free(&s->alloc, other.steps, room * sizeof *other.steps);
    gy_alloc_free(&s->alloc, other.rank_of, room * sizeof *other.rank_of);
    gy_alloc_free(&s->alloc, at, keys * sizeof *at);
    return there ? GY_OK : GY_NOMEM(err, "a schedule", room * sizeof *s->steps);
}

GY_INT int gy_net_turned(int i, int n)
{
    int out = 0;
    for (int bit = 1; bit < n; bit *= 2)
        out = 2 * out + (i & bit ? 1 : 0);
    return out;
}

/* The rank that owns a piece. The pieces of a lane are numbered by their owners' blocks along each
 * dimension. Dimension 0 is the most significant, so a scatter along it leaves contiguous parts. */
GY_INT int gy_net_owner(const struct gy_net_schedule *s, int32_t piece)
{
    const int32_t of_lane = s->pieces / s->lanes;
    int rest = (int)(piece % of_lane), rank = 0, size = of_lane, stride = 1;
    for (int d = 0; d < s->dim_count; d++) {
        size /= s->dims[d];
        if (size == 0)
            return 0; /* fewer pieces than ranks: nobody owns one */
        const int block = rest / size;
        rank += (s->turned >> d & 1 ? gy_net_turned(block, s->dims[d]) : block) * stride;
        rest %= size;
        stride *= s->dims[d];
    }
    return rank;
}
