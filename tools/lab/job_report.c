/* SPDX-License-Identifier: MIT */
/* job_report.c: what the ranks of a job spent their time on, at the end of a run. All of them send
 * their counters; rank 0 prints. tools/cmd_train.c calls it. The speed of one rank alone is
 * estimated from the time that ranks computed: it neither sums nor waits. */
#include "engine/base/public.h"
#include "engine/gyre_job.h"
#include "engine/job/gather.h"
#include "engine/job/recorder.h"
#include "tools/lab/lab.h"

#define REPORT_RANKS 16  /* lines of text; JSON has all */
#define REPORT_PART 0.1  /* of the run: who waits so much less than the others holds them up */
#define REPORT_LINKS 12

struct report {
    const struct gyre_job *job;
    int64_t *rows;       /* [ranks][columns]: counters, then bytes sent to each rank */
    int ranks, columns;
    double images;       /* of a step, of all ranks */
};

/* ---- figures ---- */

static struct gy_job_counters report_of(const struct report *r, int rank)
{
    struct gy_job_counters c;
    memcpy(&c, r->rows + (size_t)rank * (size_t)r->columns, sizeof c);
    return c;
}

static int64_t report_sent(const struct report *r, int from, int to)
{
    return r->rows[(size_t)from * (size_t)r->columns + GY_COUNTERS + (size_t)to];
}

static double report_seconds(int64_t ns) { return (double)ns * 1e-9; }
static int64_t report_compute(const struct gy_job_counters *c)
{
    return c->step_ns - c->sum_ns - c->wait_ns;
}

struct report_sums {
    /* seconds of a step, with its input; of that computing; means over ranks */
    double period, compute;
    double run, waits;      /* seconds */
    int steps, straggler;   /* straggler: -1: none */
};

/* The rank that waits least, where the others wait for much longer. */
static int report_straggler(const struct report *r, double run, double waits)
{
    int least = 0;
    for (int k = 1; k < r->ranks; k++)
        least = report_of(r, k).wait_ns < report_of(r, least).wait_ns ? k : least;
    const double own = report_seconds(report_of(r, least).wait_ns);
    const double others = (waits * r->ranks - own) / (r->ranks - 1);
    return others - own > REPORT_PART * run ? least : -1;
}

static struct report_sums report_add(const struct report *r)
{
    struct report_sums s = { .steps = 0 };
    for (int k = 0; k < r->ranks; k++) {
        const struct gy_job_counters c = report_of(r, k);
        const double steps = c.steps > 0 ? (double)c.steps : 1, part = 1.0 / r->ranks;
        s.steps += c.steps > 0;
        s.period += report_seconds(c.step_ns + c.batch_ns) / steps * part;
        s.compute += report_seconds(report_compute(&c)) / steps * part;
        s.run = report_seconds(c.run_ns) > s.run ? report_seconds(c.run_ns) : s.run;
        s.waits += report_seconds(c.wait_ns) * part;
    }
    s.straggler = report_straggler(r, s.run, s.waits);
    return s;
}

/* ---- text ---- */

static void report_links(const struct report *r, struct gy_sink *out)
{
    int64_t all = 0;
    int said = 0, links = 0;
    char size[32];
    for (int from = 0; from < r->ranks; from++)
        for (int to = 0; to < r->ranks; to++) {
            all += report_sent(r, from, to);
            links += report_sent(r, from, to) > 0;
        }
    if (all == 0)
        return;
    gy_sink_printf(out, "links:      %s over the network",
                   gy_text_bytes(size, sizeof size, (double)all));
    for (int from = 0; from < r->ranks && links <= REPORT_LINKS; from++)
        for (int to = 0; to < r->ranks; to++)
            if (report_sent(r, from, to) > 0)
                gy_sink_printf(out, "%s %d to %d %s", said++ ? "," : ":", from, to,
                               gy_text_bytes(size, sizeof size, (double)report_sent(r, from, to)));
    gy_sink_printf(out, links > REPORT_LINKS ? " on %d links (--json has each)\n" : "\n", links);
}

static void report_rank(const struct report *r, int rank, struct gy_sink *out)
{
    const struct gy_job_counters c = report_of(r, rank);
    gy_sink_printf(out, "  rank %-3d  compute %.2f s, sums %.2f s, waits %.2f s, input %.2f s",
                   rank, report_seconds(report_compute(&c)), report_seconds(c.sum_ns),
                   report_seconds(c.wait_ns), report_seconds(c.batch_ns));
    if (c.save_ns > 0)
        gy_sink_printf(out, ", checkpoints %.2f s", report_seconds(c.save_ns));
    if (c.test_ns > 0)
        gy_sink_printf(out, ", tests %.2f s", report_seconds(c.test_ns));
    gy_sink_printf(out, ", between steps %.2f s", report_seconds(c.meet_ns));
    if (c.dropped || c.stale)
        gy_sink_printf(out, ", gradients %" PRId64 " dropped, %"
                       PRId64 " stale", c.dropped, c.stale);
    gy_sink_printf(out, "\n");
}

static double report_work(const struct report *r, int rank, int work)
{
    const struct gy_job_counters c = report_of(r, rank);
    const int64_t ns[] = { c.wait_ns, report_compute(&c), c.batch_ns, c.save_ns, c.test_ns };
    return report_seconds(ns[work]);
}

static double report_others(const struct report *r, int but, int work)
{
    double sum = 0;
    for (int k = 0; k < r->ranks; k++)
        sum += k == but ? 0 : report_work(r, k, work);
    return sum / (r->ranks - 1);
}

/* Who, and what it does longest of all that the others do shorter. */
static void report_print_straggler(const struct report *r, int rank, struct gy_sink *out)
{
    static const char *const works[] = { "waits", "computes", "waits for input",
                                         "writes checkpoints", "tests" };
    int most = 1;
    double more = 0;
    for (int w = 1; w < (int)GY_COUNT(works); w++)
        if (report_work(r, rank, w) - report_others(r, rank, w) > more) {
            more = report_work(r, rank, w) - report_others(r, rank, w);
            most = w;
        }
    gy_sink_printf(out, "straggler:  rank %d: it waits for %.2f s, the others for %.2f s; it %s "
                   "for %.2f s, the others %.2f s\n", rank, report_work(r, rank, 0),
                   report_others(r, rank, 0), works[most], report_work(r, rank, most),
                   report_others(r, rank, most));
}

static void report_text(const struct report *r, const struct report_sums *s, struct gy_sink *out)
{
    char size[32];
    const struct gy_job_counters first = report_of(r, 0);
    gy_sink_printf(out, "ranks:      %.0f images/s in steps, %.0f over the run; %.2f times one "
                   "rank (estimated: computing alone)\n", r->images / s->period,
                   r->images * (double)first.steps / s->run, r->ranks * s->compute / s->period);
    for (int k = 0; k < r->ranks && k < REPORT_RANKS; k++)
        report_rank(r, k, out);
    if (r->ranks > REPORT_RANKS)
        gy_sink_printf(out, "  and %d more ranks (--json has each)\n", r->ranks - REPORT_RANKS);
    if (s->straggler >= 0)
        report_print_straggler(r, s->straggler, out);
    gy_sink_printf(out, "sums:       %" PRId64 " of each rank, %s\n", first.sums,
                   gy_text_bytes(size, sizeof size, (double)first.sum_bytes));
    report_links(r, out);
}

/* ---- JSON ---- */

static void report_json_rank(const struct report *r, int rank, struct gy_sink *out)
{
    const struct gy_job_counters c = report_of(r, rank);
    const struct {
        const char *name;
        double seconds;
    } times[] = {
        { "compute", report_seconds(report_compute(&c)) }, { "sums", report_seconds(c.sum_ns) },
        { "waits", report_seconds(c.wait_ns) }, { "input", report_seconds(c.batch_ns) },
        { "checkpoints", report_seconds(c.save_ns) }, { "tests", report_seconds(c.test_ns) },
        { "between", report_seconds(c.meet_ns) }, { "run", report_seconds(c.run_ns) },
    };
    const struct {
        const char *name;
        int64_t count;
    } counts[] = {
        { "steps", c.steps }, { "sums", c.sums }, { "sum_bytes", c.sum_bytes },
            { "messages", c.messages },
        { "message_bytes", c.message_bytes }, { "dropped", c.dropped }, { "stale", c.stale },
    };
    gy_sink_printf(out, "%s{\"rank\":%d", rank ? "," : "", rank);
    for (size_t i = 0; i < GY_COUNT(times); i++)
        gy_sink_printf(out, ",\"%s_seconds\":%.6f", times[i].name, times[i].seconds);
    for (size_t i = 0; i < GY_COUNT(counts); i++)
        gy_sink_printf(out, ",\"%s\":%" PRId64, counts[i].name, counts[i].count);
    gy_sink_printf(out, "}");
}

static void report_json(const struct report *r, const struct report_sums *s, struct gy_sink *out)
{
    const struct gy_job_counters first = report_of(r, 0);
    int said = 0;
    gy_sink_printf(out, "{\"event\":\"ranks\",\"images_per_second\":%.3f,"
                   "\"images_per_second_run\":%.3f,\"speedup\":%.4f,\"straggler\":",
                   r->images / s->period,
                   r->images * (double)first.steps / s->run, r->ranks * s->compute / s->period);
    if (s->straggler >= 0)
        gy_sink_printf(out, "%d", s->straggler);
    else
        gy_sink_printf(out, "null");
    gy_sink_printf(out, ",\"ranks\":[");
    for (int k = 0; k < r->ranks; k++)
        report_json_rank(r, k, out);
    gy_sink_printf(out, "],\"links\":[");
    for (int from = 0; from < r->ranks; from++)
        for (int to = 0; to < r->ranks; to++)
            if (report_sent(r, from, to) > 0)
                gy_sink_printf(out, "%s{\"from\":%d,\"to\":%d,\"bytes\":%" PRId64 "}",
                               said++ ? "," : "", from, to, report_sent(r, from, to));
    gy_sink_printf(out, "]}\n");
}

/* ---- all of it ---- */

static int report_gather(struct report *r, struct gyre_job *job, struct gy_error *err)
{
    const int64_t *const sent = gy_net_comm_sent(job->world);
    const struct gy_alloc alloc = gy_alloc_default();
    int64_t *const row = gy_alloc_take(&alloc, (size_t)r->columns, sizeof *row);
    if (!row)
        return GY_NOMEM(err, "this rank's figures", (size_t)r->columns * sizeof *row);
    memcpy(row, &job->recorder->counters, sizeof job->recorder->counters);
    for (int k = 0; k < r->ranks && sent; k++)
        row[GY_COUNTERS + (size_t)k] = sent[k];
    const int status = gy_job_gather(job, row, r->columns, r->rows, err);
    gy_alloc_free(&alloc, row, (size_t)r->columns * sizeof *row);
    return status;
}

GYRE_API int gyre_print_ranks(struct gyre_job *job, int64_t images, int json,
                              const struct gyre_sink *sink, struct gyre_error *error)
{
    GY_TRY(gy_given(sink, "gyre_print_ranks: sink", error));
    struct gy_error err = { 0 };
    struct gy_sink out = gy_sink_of(sink);
    struct report r = { .job = job, .ranks = gyre_job_ranks(job), .images = (double)images };
    const struct gy_alloc alloc = gy_alloc_default();
    if (r.ranks == 1 || !job->recorder)
        return GYRE_OK;
    r.columns = (int)GY_COUNTERS + r.ranks;
    const size_t count = (size_t)r.ranks * (size_t)r.columns;
    r.rows = gy_alloc_take(&alloc, count, sizeof *r.rows);
    int status = r.rows ? report_gather(&r, job, &err)
                        : GY_NOMEM(&err, "the ranks' figures", count * sizeof *r.rows);
    if (status == GY_OK && gyre_job_rank(job) == 0) {
        const struct report_sums s = report_add(&r);
        if (s.steps == r.ranks && s.period > 0 && s.run > 0)
            (json ? report_json : report_text)(&r, &s, &out);
    }
    gy_alloc_free(&alloc, r.rows, count * sizeof *r.rows);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

#undef REPORT_RANKS
#undef REPORT_PART
#undef REPORT_LINKS
