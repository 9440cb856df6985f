/* SPDX-License-Identifier: MIT */
/* doctor.c: finds out what happened to a job, from the records of its ranks. A cause is a row of a
 * table: a function that tests whether it holds and for whom, and words for it. Rows are asked in
 * their order; the first that holds is the verdict. Beside it stands what others waited for,
 * whatever the cause.
 *
 * Signs of life tell a process that stood still from one that hangs: they come from another thread
 * than the one that computes. */
#include "tools/lab/doctor.h"

#define DOCTOR_RANKS 65536
#define DOCTOR_STILL (GY_NET_SILENT_NS - 3 * GY_NET_BEAT_NS) /* silent for so long: not killed */
#define DOCTOR_STALL GY_TIMELINE_SECOND      /* waits below are ordinary */
#define DOCTOR_LATE (2 * GY_TIMELINE_SECOND) /* at the meeting */
#define DOCTOR_PAUSE (8 * INT64_C(100000000)) /* a longer gap between signs of life is long */
#define DOCTOR_GONE (3 * GY_TIMELINE_SECOND / 2) /* nobody noticed its end */
#define DOCTOR_PART 0.2 /* of a step: what one rank spends more than others do */

/* ---- helpers ---- */

static int doctor_blame(struct gy_doctor *d, int rank)
{
    if (rank >= 0 && rank < d->t->all)
        d->guilty[rank] = 1;
    return 1;
}

/* The rank with which the ranks' common sentence of a loss begins; -1. */
static int doctor_named(const struct gy_timeline_rank *r)
{
    const char *const text = r->record.live.text, *at = text + 5;
    char word[16];
    int64_t rank = -1;
    if (r->record.live.status != GY_E_PEER || strncmp(text, "rank ", 5) != 0)
        return -1;
    if (gy_text_word(&at, word, sizeof word) != 0 || gy_text_int(word, 0, DOCTOR_RANKS, &rank) != 0)
        return -1;
    return (int)rank;
}

/* When others had lost patience, or the job's last moment. */
static int64_t doctor_until(const struct gy_timeline *t) { return t->failed ? t->failed : t->end; }

/* Neither ended nor alive: for how long its signs had stopped then. */
static int64_t doctor_silence(const struct gy_timeline *t, const struct gy_timeline_rank *r)
{
    return r->record.live.state == GY_FLIGHT_RUNS ? doctor_until(t) - r->sign : 0;
}

static int doctor_waits_in_sum(const struct gy_timeline_rank *r)
{
    return r->doing == GY_DOES_WAIT || r->doing == GY_DOES_MEET || r->doing == GY_DOES_AGREE;
}

/* ---- causes ---- */

/* Ranks that compared another value than most did; rank 0's counts where there is no most. */
static int doctor_differs(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    int most = 0;
    int64_t value = 0;
    for (int i = 0; i < t->count && !d->said; i++)
        if (t->ranks[i].record.live.status == GY_E_MISMATCH)
            d->said = t->ranks[i].record.live.text;
    if (!d->said)
        return 0;
    for (int i = 0; i < t->count; i++) {
        int same = 0;
        for (int k = 0; k < t->count; k++)
            same += t->ranks[k].agrees && t->ranks[k].agreed == t->ranks[i].agreed;
        if (t->ranks[i].agrees && same > most) {
            most = same;
            value = t->ranks[i].agreed;
        }
    }
    for (int i = 0; i < t->count; i++)
        if (t->ranks[i].agrees && t->ranks[i].agreed != value)
            doctor_blame(d, t->ranks[i].rank);
    return 1;
}

/* The first that failed of itself. */
static int doctor_fails(struct gy_doctor *d)
{
    const struct gy_timeline_rank *first = NULL;
    for (int i = 0; i < d->t->count; i++) {
        const struct gy_timeline_rank *const r = &d->t->ranks[i];
        const struct gy_flight_live *const l = &r->record.live;
        const int follows = l->status == GY_E_PEER || l->status == GY_E_STOPPED;
        if (l->state == GY_FLIGHT_FAILED && !follows && (!first || r->ended < first->ended))
            first = r;
    }
    if (!first)
        return 0;
    d->said = first->record.live.text;
    return doctor_blame(d, first->rank);
}

/* Closed its job without having failed, while others went on. */
static int doctor_leaves(struct gy_doctor *d)
{
    int found = 0;
    for (int i = 0; i < d->t->count; i++)
        if (d->t->ranks[i].record.live.state == GY_FLIGHT_LEFT)
            found = doctor_blame(d, d->t->ranks[i].rank);
    return found;
}

/* A connection also breaks where a process ends; then its record ends well before, or stops. */
static int doctor_lived(const struct gy_timeline *t, int rank, int64_t at)
{
    const struct gy_timeline_rank *const r = gy_timeline_rank(t, rank);
    if (r && r->record.live.state == GY_FLIGHT_FAILED)
        return r->ended + GY_TIMELINE_SECOND > at;
    return r && r->record.live.state == GY_FLIGHT_RUNS && doctor_silence(t, r) < 0;
}

/* Ranks that each say of the other that no data comes through, or one that many say it of. */
static int doctor_cut(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    int *const count = gy_alloc_take(&t->alloc, (size_t)t->all, sizeof *count);
    int most = 0;
    for (int i = 0; i < t->count && count; i++)
        for (int k = 0; k < t->ranks[i].record.count; k++) {
            const struct gy_flight_event *const e = &t->ranks[i].record.events[k];
            if (e->kind != GY_DOES_CUT || e->peer < 0 ||
                !doctor_lived(t, e->peer, e->mono + t->ranks[i].shift))
                continue;
            count[t->ranks[i].rank]++;
            count[e->peer]++;
        }
    for (int r = 0; r < t->all && count; r++)
        most = count[r] > most ? count[r] : most;
    for (int r = 0; r < t->all && most > 0; r++)
        if (count[r] == most)
            doctor_blame(d, r);
    gy_alloc_free(&t->alloc, count, (size_t)t->all * sizeof *count);
    return most > 0;
}

/* Others lost it for its silence, but its own record goes on: it lived, and heard nothing of
 * them. */
static int doctor_unreachable(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    for (int i = 0; i < t->count && t->hosts > 1; i++) {
        const struct gy_timeline_rank *const r = &t->ranks[i];
        const struct gy_timeline_rank *const named = gy_timeline_rank(t, doctor_named(r));
        int lost_it = 0; /* whoever is cut off loses rank 0: a minority */
        if (!named || named == r || !strstr(r->record.live.text, "is silent"))
            continue;
        for (int k = 0; k < t->count; k++)
            lost_it += doctor_named(&t->ranks[k]) == named->rank;
        if (named->sign + GY_TIMELINE_SECOND > r->ended && 2 * lost_it >= t->count - 1)
            return doctor_blame(d, named->rank);
    }
    return 0;
}

static int doctor_stands(struct gy_doctor *d)
{
    int found = 0;
    for (int i = 0; i < d->t->count; i++)
        if (doctor_silence(d->t, &d->t->ranks[i]) > DOCTOR_STILL)
            found = doctor_blame(d, d->t->ranks[i].rank);
    return found;
}

/* Its end was noticed at once: its signs stop where others failed, and it did not say why. */
static int doctor_dies(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    for (int i = 0; i < t->count; i++) {
        const struct gy_timeline_rank *const r = &t->ranks[i];
        const struct gy_timeline_rank *const named = gy_timeline_rank(t, doctor_named(r));
        if (named && named->record.live.state == GY_FLIGHT_RUNS)
            return doctor_blame(d, named->rank);
    }
    for (int i = 0; i < t->count; i++)
        if (doctor_silence(t, &t->ranks[i]) > DOCTOR_GONE)
            return doctor_blame(d, t->ranks[i].rank);
    return 0;
}

/* A rank that the sum needs and that is elsewhere: it has not begun it, or, where all have, not
 * done its part. */
static int doctor_holds_up(const struct gy_timeline_rank *r, int64_t sum, int all_begun)
{
    if (doctor_waits_in_sum(r))
        return 0;
    return all_begun ? !gy_timeline_has_done(r, sum) : r->sum_begun < sum;
}

/* Ranks that hold up the first sum in which others wait, while they do so. doing: enum gy_doing;
 * -1: anything that is none of a step's work. 0: nobody waits long. */
static int doctor_stall(struct gy_doctor *d, int doing)
{
    const struct gy_timeline *const t = d->t;
    const struct gy_timeline_rank *waits = NULL;
    int found = 0, all_begun = 1;
    for (int i = 0; i < t->count; i++)
        if (doctor_waits_in_sum(&t->ranks[i]) && (!waits || t->ranks[i].sum < waits->sum))
            waits = &t->ranks[i];
    if (!waits || t->end - waits->since < DOCTOR_STALL)
        return 0;
    for (int i = 0; i < t->count; i++)
        all_begun = all_begun && !doctor_holds_up(&t->ranks[i], waits->sum, 0);
    for (int i = 0; i < t->count; i++) {
        const struct gy_timeline_rank *const r = &t->ranks[i];
        const int other = r->doing < GY_DOES_STEP || r->doing > GY_DOES_TEST;
        if (doctor_holds_up(r, waits->sum, all_begun) && (doing < 0 ? other : r->doing == doing))
            found = doctor_blame(d, r->rank);
    }
    return found;
}

static int doctor_hangs(struct gy_doctor *d) { return doctor_stall(d, GY_DOES_STEP); }
static int doctor_starves(struct gy_doctor *d) { return doctor_stall(d, GY_DOES_BATCH); }
static int doctor_saves(struct gy_doctor *d) { return doctor_stall(d, GY_DOES_SAVE); }
static int doctor_tests(struct gy_doctor *d) { return doctor_stall(d, GY_DOES_TEST); }
static int doctor_elsewhere(struct gy_doctor *d) { return doctor_stall(d, -1); }

/* No record, and others fail or wait. */
static int doctor_missing(struct gy_doctor *d)
{
    int found = 0;
    for (int r = 0; r < d->t->all; r++)
        if (!gy_timeline_rank(d->t, r))
            found = doctor_blame(d, r);
    return found;
}

static int doctor_same_sum(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    for (int i = 0; i < t->count; i++)
        if (!doctor_waits_in_sum(&t->ranks[i]) || t->end - t->ranks[i].since < DOCTOR_STALL)
            return 0;
    for (int i = 0; i < t->count; i++)
        doctor_blame(d, t->ranks[i].rank);
    return 1;
}

static int doctor_late(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    const struct gy_timeline_rank *last = &t->ranks[0];
    int64_t late = INT64_MAX;
    for (int i = 1; i < t->count; i++)
        last = t->ranks[i].came > last->came ? &t->ranks[i] : last;
    for (int i = 0; i < t->count; i++)
        late = &t->ranks[i] == last ? late : gy_min64(late, last->came - t->ranks[i].came);
    if (t->count < 2 || late < DOCTOR_LATE ||
        (double)late < DOCTOR_PART * (double)(t->end - last->came))
        return 0;
    d->here = (double)late * 1e-6;
    return doctor_blame(d, last->rank);
}

/* Its own thread of signs stood still now and then, and those of no other rank. */
static int doctor_paused(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    for (int i = 0; i < t->count; i++) {
        int64_t others = DOCTOR_PAUSE / 2;
        for (int k = 0; k < t->count; k++)
            others = k == i ? others : gy_max64(others, t->ranks[k].record.live.beat.gap);
        if (t->count > 1 && t->ranks[i].record.live.beat.gap > 2 * others)
            return doctor_blame(d, t->ranks[i].rank);
    }
    return 0;
}

/* Nanoseconds a step. */
static double doctor_share(const struct gy_timeline_rank *r, int share)
{
    return r->steps > 0 ? (double)r->share[share] / (double)r->steps : 0;
}

static double doctor_others(const struct gy_timeline *t, int but, int share)
{
    double sum = 0;
    for (int i = 0; i < t->count; i++)
        sum += i == but ? 0 : doctor_share(&t->ranks[i], share);
    return sum / (t->count > 1 ? t->count - 1 : 1);
}

/* The rank whose share is most above the others' mean: its place, or -1; *part: of a step. */
static int doctor_most(const struct gy_doctor *d, int share, double *part)
{
    const struct gy_timeline *const t = d->t;
    double most = 0, period = 1;
    int who = -1;
    for (int i = 0; i < t->count; i++) {
        const double more = doctor_share(&t->ranks[i], share) - doctor_others(t, i, share);
        double all = 0;
        for (int s = 0; s < GY_SHARES; s++)
            all += doctor_share(&t->ranks[i], s);
        period = all > period ? all : period;
        if (more > most) {
            most = more;
            who = i;
        }
    }
    *part = most / period;
    return t->count > 1 && *part > DOCTOR_PART ? who : -1;
}

static int doctor_slow(struct gy_doctor *d, int share)
{
    double best = 0, part = 0;
    int which = -1, who = -1;
    for (int s = 0; s < GY_SHARE_WAIT; s++) {
        const int most = doctor_most(d, s, &part);
        if (most >= 0 && part > best) {
            best = part;
            which = s;
            who = most;
        }
    }
    if (which != share)
        return 0;
    d->share = share;
    d->here = doctor_share(&d->t->ranks[who], share) * 1e-6;
    d->others = doctor_others(d->t, who, share) * 1e-6;
    d->waited = doctor_others(d->t, who, GY_SHARE_WAIT) * 1e-6;
    return doctor_blame(d, d->t->ranks[who].rank);
}

static int doctor_slow_batch(struct gy_doctor *d) { return doctor_slow(d, GY_SHARE_BATCH); }
static int doctor_slow_save(struct gy_doctor *d) { return doctor_slow(d, GY_SHARE_SAVE); }
static int doctor_slow_test(struct gy_doctor *d) { return doctor_slow(d, GY_SHARE_TEST); }
static int doctor_slow_rest(struct gy_doctor *d) { return doctor_slow(d, GY_SHARE_REST); }
static int doctor_slow_compute(struct gy_doctor *d) { return doctor_slow(d, GY_SHARE_COMPUTE); }

static int doctor_stopped(struct gy_doctor *d)
{
    for (int i = 0; i < d->t->count; i++)
        if (d->t->ranks[i].record.live.status == GY_E_STOPPED)
            return 1;
    return 0;
}

#define LOOK_INPUT "the disk or file system of its data, --loader-threads, 'gyre pack'"
#define LOOK_SAVE "the disk or file system of --out, --checkpoint-every"
#define LOOK_TEST "the size of the test data, --test-data none"
static const struct gy_doctor_cause doctor_causes[] = {
    { "options", doctor_differs, "started otherwise than the others",
      "the command lines and files: options, net, version" },
    { "failure", doctor_fails, "failed without the others", "what the sentence names" },
    { "left", doctor_leaves, "left the job before the others were through",
      "the output of that process, and its number of steps" },
    { "cut host", doctor_unreachable, "lived, but the others heard nothing of it",
      "the network of the host: cable, switch, interface" },
    { "cut link", doctor_cut, "lived, but no data came through",
      "the link, switch and firewall between these hosts and the others" },
    { "stopped", doctor_stands, "stood still",
      "whether its process is stopped (State: T in /proc/PID/status; kill -CONT), or its host" },
    { "ended", doctor_dies, "ended without a word: the process is gone",
      "who killed it: the kernel's log (out of memory), the batch system, a core file" },
    { "slow input", doctor_starves, "waited for a batch from the loader", LOOK_INPUT },
    { "slow checkpoint", doctor_saves, "wrote a checkpoint", LOOK_SAVE },
    { "long test", doctor_tests, "tested, while the others waited", LOOK_TEST },
    { "hang", doctor_hangs, "hung in the computation of a step",
      "its threads (gdb -p PID, 'thread apply all bt') and the load of its host" },
    { "elsewhere", doctor_elsewhere, "did something else than the others",
      "whether all ranks run the same command with as many steps" },
    { "missing", doctor_missing, "left no record",
      "whether it was started, and the folder on its host" },
    { "network", doctor_same_sum, "waited in one sum, which did not end", "the network" },
    { "late", doctor_late, "came late to the ranks' meeting",
      "what came before: its host, the launcher, its start-up files" },
    { "paused", doctor_paused, "stood still for a while, or got no processor",
      "who stopped it (job control, a debugger), the load and the memory of its host" },
    { "slow input", doctor_slow_batch, "waited longer for batches than the others", LOOK_INPUT },
    { "slow checkpoint", doctor_slow_save, "took long to write checkpoints", LOOK_SAVE },
    { "long test", doctor_slow_test, "tested, while the others waited", LOOK_TEST },
    { "slow rank", doctor_slow_compute, "computed longer than the others",
      "the load and clock rate of its host, and whether its images are larger" },
    { "slow files", doctor_slow_rest, "took long between steps",
      "the disk or file system of --out: metrics and the curve are written there" },
    { "stop", doctor_stopped, NULL, NULL },
};
#undef LOOK_INPUT
#undef LOOK_SAVE
#undef LOOK_TEST

/* ---- who waited ---- */

/* Ranks that wait in a sum that a guilty rank has not begun, or for its message. */
static int doctor_waiters(struct gy_doctor *d)
{
    const struct gy_timeline *const t = d->t;
    int count = 0;
    d->since = INT64_MAX;
    for (int i = 0; i < t->count; i++) {
        const struct gy_timeline_rank *const r = &t->ranks[i];
        int late = r->doing == GY_DOES_MESSAGE && r->peer >= 0 && d->guilty[r->peer];
        for (int g = 0; g < t->all && !late; g++) {
            const struct gy_timeline_rank *const at = d->guilty[g] ? gy_timeline_rank(t, g) : NULL;
            late = d->guilty[g] && doctor_waits_in_sum(r) &&
                   (!at || !gy_timeline_has_done(at, r->sum));
        }
        if (!late || d->guilty[r->rank])
            continue;
        d->waits[r->rank] = 1;
        count++;
        if (r->since < d->since) {
            d->since = r->since;
            d->sum = r->sum;
            d->bucket = r->bucket;
            d->step = r->step;
        }
    }
    return count;
}

GY_INT int gy_doctor_judge(struct gy_doctor *d)
{
    d->share = -1;
    d->bucket = -1;
    for (size_t i = 0; i < GY_COUNT(doctor_causes) && !d->cause; i++)
        if (doctor_causes[i].holds(d))
            d->cause = &doctor_causes[i];
    for (int i = 0; i < d->t->count && d->cause; i++)
        if (d->guilty[d->t->ranks[i].rank])
            d->silent = gy_max64(d->silent, doctor_silence(d->t, &d->t->ranks[i]));
    d->until = doctor_until(d->t);
    return doctor_waiters(d);
}
