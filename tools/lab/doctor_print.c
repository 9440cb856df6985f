/* SPDX-License-Identifier: MIT */
/* doctor_print.c: gyre net doctor's page and its JSON object: every rank's last act, who waited for
 * whom, the cause, what to look at. tools/cmd_network.c calls it. */
#include "engine/base/clock.h"
#include "engine/base/public.h"
#include "tools/lab/lab.h"
#include "tools/lab/doctor.h"

#define DOCTOR_LONG_PAUSE (8 * INT64_C(100000000)) /* longer gaps between signs are named */

/* ---- words ---- */

static void print_set(const struct gy_doctor *d, const unsigned char *set, struct gy_sink *out)
{
    int count = 0, said = 0;
    for (int r = 0; r < d->t->all; r++)
        count += set[r];
    gy_sink_printf(out, count == 1 ? "rank" : "ranks");
    for (int r = 0; r < d->t->all; r++)
        if (set[r]) {
            gy_sink_printf(out, "%s%d", said == 0 ? " " : said == count - 1 ? " and " : ", ", r);
            said++;
        }
}

/* What a rank had begun last, behind "it ". */
static void print_doing(const struct gy_timeline_rank *r, struct gy_sink *out)
{
    static const char *const words[GY_DOINGS] = {
        [GY_DOES_BATCH] = "waited for a batch behind", [GY_DOES_SAVE] = "wrote the checkpoint of",
        [GY_DOES_TEST] = "tested behind", [GY_DOES_MEET] = "met the other ranks behind",
        [GY_DOES_AGREE] = "compared options, behind",
        [GY_DOES_END] = "was through, and waited for the others to end, behind",
    };
    static const char *const programs[] = { "began", "was in the forward pass of",
                                            "was in the backward pass of", "was in the update of" };
    if (r->doing == GY_DOES_STEP)
        gy_sink_printf(out, "%s step %" PRId64, programs[r->program + 1], r->step + 1);
    else if (r->doing == GY_DOES_WAIT)
        gy_sink_printf(out, "waited for bucket %d of step %" PRId64 " (sum %" PRId64 ")", r->bucket,
                       r->step + 1, r->sum);
    else if (r->doing == GY_DOES_MESSAGE)
        gy_sink_printf(out, "waited for a message with rank %d behind step %"
                       PRId64, r->peer, r->step);
    else
        gy_sink_printf(out, "%s step %" PRId64,
                       r->doing >= 0 && words[r->doing] ? words[r->doing] : "was behind", r->step);
}

static void print_rank(const struct gy_doctor *d, const struct gy_timeline_rank *r,
                       struct gy_sink *out)
{
    static const char *const ends[] = { "no word of its end", "ended well", "failed",
                                        "left without a word" };
    char since[32], sign[32];
    const struct gy_flight_record *const rec = &r->record;
    gy_sink_printf(out, "rank %d on %s (process %d) ", r->rank, rec->head.name, (int)rec->head.pid);
    print_doing(r, out);
    gy_sink_printf(out, " since %s; last sign of life %s; %s",
                   gy_timeline_clock(d->t, r->since, since),
                   gy_timeline_clock(d->t, r->sign, sign), ends[rec->live.state]);
    if (rec->live.text[0])
        gy_sink_printf(out, ": %s", rec->live.text);
    if (rec->live.beat.gap > DOCTOR_LONG_PAUSE)
        gy_sink_printf(out, "; its signs of life paused for up to %.1f s",
                       (double)rec->live.beat.gap * 1e-9);
    if (rec->damaged > 1)
        gy_sink_printf(out, "; %d of its events are damaged", rec->damaged);
    gy_sink_printf(out, "\n");
}

static void print_waits(const struct gy_doctor *d, struct gy_sink *out)
{
    char since[32];
    print_set(d, d->waits, out);
    gy_sink_printf(out, " waited for ");
    print_set(d, d->guilty, out);
    gy_sink_printf(out, " since %s, for %.2f s", gy_timeline_clock(d->t, d->since, since),
                   (double)(d->until - d->since) * 1e-9);
    if (d->bucket >= 0)
        gy_sink_printf(out, ", in bucket %d of step %" PRId64 " (sum %" PRId64 ")\n", d->bucket,
                       d->step + 1, d->sum);
    else
        gy_sink_printf(out, ", behind step %" PRId64 " (sum %" PRId64 ")\n", d->step, d->sum);
}

/* The cause as one sentence. */
static void print_cause(const struct gy_doctor *d, struct gy_sink *out)
{
    const struct gy_doctor_cause *const c = d->cause;
    int guilty = 0;
    for (int r = 0; r < d->t->all; r++)
        guilty += d->guilty[r];
    if (!c || !c->what) {
        gy_sink_printf(out, c ? "the job was asked to stop, and did" : "no rank stands out");
        return;
    }
    if (guilty)
        print_set(d, d->guilty, out);
    else
        gy_sink_printf(out, "one of the ranks");
    gy_sink_printf(out, " %s", c->what);
    if (strcmp(c->name, "stopped") == 0)
        gy_sink_printf(out, ", without a sign of life for %.1f s", (double)d->silent * 1e-9);
    if (strcmp(c->name, "late") == 0)
        gy_sink_printf(out, ", %.1f s behind the last of the others", d->here * 1e-3);
    if (d->share >= 0)
        gy_sink_printf(out, ": %.1f ms a step, the others %.1f ms, and these wait for %.1f ms",
                       d->here, d->others, d->waited);
    if (d->said)
        gy_sink_printf(out, ": %s", d->said);
}

static void print_page(const struct gy_doctor *d, int waiters, const struct gy_buf *left_out,
                       struct gy_sink *out)
{
    const struct gy_timeline *const t = d->t;
    char day[32], clock[32];
    gy_clock_date((double)t->ranks[0].record.head.job * 1e-9, day);
    gy_sink_printf(out, "job of %d ranks on %d host%s, met %s %s UTC; %d record%s\n",
                   t->all, t->hosts, t->hosts == 1 ? "" : "s", day,
                   gy_timeline_clock(t, t->ranks[0].record.head.met, clock), t->count,
                   t->count == 1 ? "" : "s");
    if (left_out->bytes)
        out->failed |= out->write(out->user, left_out->text, left_out->bytes) != 0;
    for (int i = 0; i < t->count; i++) {
        gy_sink_printf(out, "  ");
        print_rank(d, &t->ranks[i], out);
    }
    if (waiters) {
        gy_sink_printf(out, "who waited: ");
        print_waits(d, out);
    }
    gy_sink_printf(out, "cause:      %s%s", d->cause && d->cause->what ? d->cause->name : "",
                   d->cause && d->cause->what ? ": " : "");
    print_cause(d, out);
    gy_sink_printf(out, "\n");
    if (!d->cause || !d->cause->look)
        return;
    gy_sink_printf(out, "look at:    ");
    for (int i = 0; i < t->count; i++)
        if (d->guilty[t->ranks[i].rank])
            gy_sink_printf(out, "process %d on %s, ", (int)t->ranks[i].record.head.pid,
                           t->ranks[i].record.head.name);
    gy_sink_printf(out, "%s\n", d->cause->look);
}

/* ---- JSON ---- */

static void json_set(const struct gy_doctor *d, const char *name, const unsigned char *set,
                     struct gy_sink *out)
{
    int said = 0;
    gy_sink_printf(out, ",\"%s\":[", name);
    for (int r = 0; r < d->t->all; r++)
        if (set[r])
            gy_sink_printf(out, "%s%d", said++ ? "," : "", r);
    gy_sink_printf(out, "]");
}

static void json_rank(const struct gy_doctor *d, const struct gy_timeline_rank *r,
                      struct gy_sink *out)
{
    static const char *const states[] = { "runs", "well", "failed", "left" };
    static const char *const doings[GY_DOINGS] = { "forward", "backward", "update", "eval", "step",
        "batch", "save", "test", "sum", "wait", "meet", "agree", "message", "end", "lost", "cut" };
    static const char *const shares[GY_SHARES] = { "compute", "batch", "save", "test",
                                                   "rest", "wait" };
    const struct gy_flight_record *const rec = &r->record;
    gy_sink_printf(out, "{\"rank\":%d,\"host\":", r->rank);
    gy_print_json_text(rec->head.name, out);
    gy_sink_printf(out, ",\"process\":%d,\"state\":\"%s\",\"doing\":\"%s\",\"step\":%"
                   PRId64 ",\"since\":%.6f,\"sign\":%.6f", (int)rec->head.pid,
                   states[rec->live.state], r->doing >= 0 ? doings[r->doing] : "", r->step,
                   (double)(r->since + d->t->wall) * 1e-9, (double)(r->sign + d->t->wall) * 1e-9);
    gy_sink_printf(out, ",\"pause\":%.3f,\"damaged\":%d,\"steps\":%" PRId64,
                   (double)rec->live.beat.gap * 1e-9, rec->damaged, r->steps);
    for (int s = 0; s < GY_SHARES; s++)
        gy_sink_printf(out, ",\"%s_ms\":%.3f", shares[s],
                       r->steps ? (double)r->share[s] * 1e-6 / (double)r->steps : 0.0);
    gy_sink_printf(out, ",\"text\":");
    gy_print_json_text(rec->live.text, out);
    gy_sink_printf(out, "}");
}

static void json_text_of(const struct gy_doctor *d, struct gy_sink *out)
{
    struct gy_buf text;
    gy_buf_open(&text, &d->t->alloc);
    struct gy_sink sink = gy_sink_buf(&text);
    print_cause(d, &sink);
    gy_print_json_text(text.text ? text.text : "", out);
    gy_buf_close(&text);
}

static void print_object(const struct gy_doctor *d, int waiters, struct gy_sink *out)
{
    const struct gy_timeline *const t = d->t;
    gy_sink_printf(out, "{\"ranks\":%d,\"hosts\":%d,\"records\":[", t->all, t->hosts);
    for (int i = 0; i < t->count; i++) {
        gy_sink_printf(out, i ? "," : "");
        json_rank(d, &t->ranks[i], out);
    }
    gy_sink_printf(out, "],\"cause\":\"%s\"", d->cause ? d->cause->name : "none");
    json_set(d, "culprits", d->guilty, out);
    json_set(d, "waiting", d->waits, out);
    if (waiters)
        gy_sink_printf(out, ",\"sum\":%" PRId64 ",\"bucket\":%d,\"step\":%"
                       PRId64 ",\"waited\":%.3f",
                       d->sum, d->bucket, d->step, (double)(d->until - d->since) * 1e-9);
    gy_sink_printf(out, ",\"sentence\":");
    json_text_of(d, out);
    gy_sink_printf(out, ",\"look\":");
    gy_print_json_text(d->cause && d->cause->look ? d->cause->look : "", out);
    gy_sink_printf(out, "}\n");
}

/* ---- all of it ---- */

static void print_left_out(void *user, const char *text) { gy_buf_printf(user, "  %s\n", text); }

static int print_judged(const struct gy_timeline *t, int json, const struct gy_buf *left_out,
                        struct gy_sink *out, struct gy_error *err)
{
    struct gy_doctor d = { .t = t };
    d.guilty = gy_alloc_take(&t->alloc, (size_t)t->all, 2);
    if (!d.guilty)
        return GY_NOMEM(err, "the ranks of the records", (size_t)t->all * 2);
    d.waits = d.guilty + t->all;
    const int waiters = gy_doctor_judge(&d);
    if (json)
        print_object(&d, waiters, out);
    else
        print_page(&d, waiters, left_out, out);
    gy_alloc_free(&t->alloc, d.guilty, (size_t)t->all * 2);
    return out->failed ? GY_FAIL(err, GY_E_IO, "the output cannot be written") : GY_OK;
}

GYRE_API int gyre_print_doctor(const char *folder, int before, int json,
                               const struct gyre_sink *sink, struct gyre_error *error)
{
    GY_TRY(gy_given(folder, "gyre_print_doctor: folder", error));
    GY_TRY(gy_given(sink, "gyre_print_doctor: sink", error));
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_sink out = gy_sink_of(sink);
    struct gy_error err = { 0 };
    struct gy_timeline t = { .count = 0 };
    struct gy_buf left_out;
    gy_buf_open(&left_out, &alloc);
    int status = gy_timeline_open(&t, folder, before, print_left_out, &left_out, &alloc, &err);
    if (status == GY_OK)
        status = print_judged(&t, json, &left_out, &out, &err);
    else if (left_out.bytes) /* why no file could be read */
        status = GY_FAIL(&err, status, "%.300s: none of its flight records can be read; %.*s",
                         folder, (int)strcspn(left_out.text + 2, "\n"), left_out.text + 2);
    gy_timeline_close(&t);
    gy_buf_close(&left_out);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

#undef DOCTOR_LONG_PAUSE
