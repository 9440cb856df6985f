/* SPDX-License-Identifier: MIT */
/* t_doctor.c: flight records and the doctor. What was noted is what is read, wherever writing
 * breaks off. Jobs of random ranks, hosts and clocks are written as records. One rank of each has a
 * planted cause; the doctor must name that rank with that cause. */
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "tests/t.h"
#include "tools/lab/doctor.h"
#include "tools/lab/lab.h"

#define DT_MS INT64_C(1000000)
#define DT_RANKS 6
#define DT_STEPS 40
#define DT_BUCKETS 3

static char dt_folder[64];

static const char *dt_path(char path[128], const char *name)
{
    snprintf(path, 128, "%s/%s", dt_folder, name);
    return path;
}

static void dt_clean(void)
{
    char path[128], name[48];
    for (int r = 0; r < 12; r++)
        for (int old = 0; old < 2; old++) {
            snprintf(name, sizeof name, "flight.%d%s", r, old ? GY_FLIGHT_OLD : "");
            unlink(dt_path(path, name));
        }
}

static struct gy_flight_head dt_head(int rank, int ranks)
{
    struct gy_flight_head h = { .job = INT64_C(1795714000000000000), .rank = rank, .ranks = ranks,
                                .pid = 100 + rank, .met = gy_clock_ns() };
    h.came = h.met;
    snprintf(h.name, sizeof h.name, "host");
    return h;
}

/* ---- the ring ---- */

static void dt_ring(int count)
{
    const struct gy_flight_head head = dt_head(1, 3);
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_flight f = { .keeps = 1 };
    struct gy_flight_record r;
    struct gy_error err = { 0 };
    char path[128];
    dt_clean();
    T_CHECK(gy_flight_open(&f, dt_folder, &head, &err) == GY_OK);
    for (int i = 0; i < count; i++) {
        f.step = i;
        const struct gy_flight_event e = { .kind = (uint8_t)(i % GY_DOINGS), .bytes = i * 7,
                                          .peer = i % 3,
                                           .bucket = (int16_t)(i % 5), .sum = i + 1 };
        gy_flight_note(&f, &e);
    }
    gy_flight_end(&f, GY_FLIGHT_FAILED, GY_E_IO, "the disk is full");
    gy_flight_end(&f, GY_FLIGHT_WELL, GY_OK, NULL);
    gy_flight_close(&f);
    T_CHECK(gy_flight_read(&r, dt_path(path, "flight.1"), &alloc, &err) == GY_OK);
    const int kept = count < GY_FLIGHT_ROOM ? count : GY_FLIGHT_ROOM;
    T_CHECK_MSG(r.count == kept && r.damaged == 0, "%d of %d events, %d damaged", r.count, kept,
                r.damaged);
    int wrong = 0;
    for (int i = 0; i < r.count; i++) {
        const struct gy_flight_event *const e = &r.events[i];
        const int n = count - kept + i;
        wrong += e->number != (uint64_t)n + 1 || e->step != n || e->bytes != n * 7 ||
            e->peer != n % 3 ||
                 e->bucket != n % 5 || e->sum != n + 1 || e->kind != n % GY_DOINGS;
    }
    T_CHECK_MSG(wrong == 0, "%d events are not what was noted", wrong);
    T_CHECK(r.live.state == GY_FLIGHT_FAILED && strcmp(r.live.text, "the disk is full") == 0);
    gy_flight_drop(&r);
}

/* One that ends well leaves its file only where it was told to. */
static void dt_ends(void)
{
    const struct gy_flight_head head = dt_head(1, 3);
    struct gy_error err = { 0 };
    char path[128];
    for (int keeps = 0; keeps < 2; keeps++)
        for (int state = GY_FLIGHT_RUNS; state <= GY_FLIGHT_FAILED; state++) {
            struct gy_flight f = { .keeps = keeps };
            dt_clean();
            T_CHECK(gy_flight_open(&f, dt_folder, &head, &err) == GY_OK);
            if (state != GY_FLIGHT_RUNS)
                gy_flight_end(&f, state, GY_OK, NULL);
            gy_flight_close(&f);
            T_CHECK(gy_file_exists(dt_path(path, "flight.1")) == (keeps ||
                                                                  state != GY_FLIGHT_WELL));
        }
    struct gy_flight f = { .keeps = 0 };
    T_CHECK(gy_flight_open(&f, dt_folder, &head, &err) == GY_OK);
    gy_flight_close(&f);
    T_CHECK(gy_file_exists(dt_path(path, "flight.1" GY_FLIGHT_OLD)) == 1);
}

/* Another process on the same folder takes nothing from one that runs. */
static void dt_taken(void)
{
    const struct gy_flight_head head = dt_head(1, 3);
    struct gy_flight f = { .keeps = 0 };
    struct gy_error err = { 0 };
    char path[128];
    int ends[2];
    dt_clean();
    T_CHECK(pipe(ends) == 0);
    fflush(stdout);
    const pid_t pid = fork();
    if (pid == 0) {
        const char ok = gy_flight_open(&f, dt_folder, &head, &err) == GY_OK;
        if (write(ends[1], &ok, 1) == 1)
            pause();
        _exit(0);
    }
    char ok = 0;
    T_CHECK(read(ends[0], &ok, 1) == 1 && ok);
    T_CHECK(gy_flight_open(&f, dt_folder, &head, &err) == GY_E_STATE &&
            strstr(err.text, "that still runs"));
    gy_flight_close(&f);
    T_CHECK(gy_file_exists(dt_path(path, "flight.1")) == 1);
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    T_CHECK(gy_flight_open(&f, dt_folder, &head, &err) == GY_OK);
    gy_flight_close(&f);
    T_CHECK(gy_file_exists(dt_path(path, "flight.1" GY_FLIGHT_OLD)) == 1);
    close(ends[0]);
    close(ends[1]);
}

/* A note costs less than a step would feel: the best of many rounds, since others run here, too. */
static void dt_cost(void)
{
    const struct gy_flight_head head = dt_head(0, 2);
    const struct gy_flight_event e = { .kind = GY_DOES_SUM, .peer = -1 };
    struct gy_flight f = { .keeps = 0 };
    struct gy_error err = { 0 };
    const int count = 1000;
    int64_t best = INT64_MAX;
    T_CHECK(gy_flight_open(&f, dt_folder, &head, &err) == GY_OK);
    for (int round = 0; round < 2000; round++) {
        const int64_t began = gy_clock_ns();
        for (int i = 0; i < count; i++)
            gy_flight_note(&f, &e);
        best = gy_min64(best, gy_clock_ns() - began);
    }
    gy_flight_end(&f, GY_FLIGHT_WELL, GY_OK, NULL);
    gy_flight_close(&f);
    printf("an event: %.1f ns\n", (double)best / count);
    T_CHECK(best / count < 5000);
}

/* ---- files that are not what they should be ---- */

static char *dt_read(const char *path, size_t *bytes)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *text = NULL;
    T_CHECK(gy_file_read(&alloc, path, (size_t)1 << 24, &text, bytes, NULL) == GY_OK);
    return text;
}

static void dt_write(const char *path, const void *bytes, size_t count)
{
    FILE *const file = fopen(path, "wb");
    T_CHECK(file && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

static void dt_refused(char *text, size_t bytes, size_t at, int to, const char *sentence)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_flight_record r;
    struct gy_error err = { 0 };
    char path[128];
    const char was = text[at];
    text[at] = (char)to;
    dt_write(dt_path(path, "flight.1"), text, bytes);
    const int status = gy_flight_read(&r, path, &alloc, &err);
    T_CHECK_MSG(status < 0 && strstr(err.text, sentence), "byte %zu of %zu: %d, '%s'", at, bytes,
                status, err.text);
    if (status == GY_OK)
        gy_flight_drop(&r);
    text[at] = was;
}

static void dt_damaged(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_flight_record r;
    struct gy_error err = { 0 };
    size_t bytes;
    char path[128];
    dt_ring(100);
    char *const text = dt_read(dt_path(path, "flight.1"), &bytes);
    T_CHECK(bytes == GY_FLIGHT_BYTES);
    dt_refused(text, bytes, 0, 'g', "this is no flight record");
    dt_refused(text, 100, 0, 'G', "ends in its head");
    dt_refused(text, bytes, 8, 2, "of version 2; this program reads version 1");
    dt_refused(text, bytes, 24, 1, "head is damaged");
    dt_refused(text, bytes - 1, 0, 'G', "are not what its head says");
    struct gy_flight_head *const h = (struct gy_flight_head *)(void *)text;
    h->version = 1u << 24;
    dt_refused(text, bytes, 0, 'G', "the other order of bytes");
    h->version = GY_FLIGHT_VERSION;
    h->rank = 3;
    h->crc = gy_flight_crc(h, &h->crc);
    dt_refused(text, bytes, 0, 'G', "are not what its head says");
    h->rank = 1;
    h->crc = gy_flight_crc(h, &h->crc);
    /* a torn event is passed over; a torn end is none */
    text[GY_FLIGHT_PAGE + 50 * 64 + 8] ^= 1;
    text[GY_FLIGHT_LIVE + offsetof(struct gy_flight_live, text)] ^= 1;
    dt_write(path, text, bytes);
    T_CHECK(gy_flight_read(&r, path, &alloc, &err) == GY_OK);
    T_CHECK(r.count == 99 && r.damaged == 1 && r.live.state == GY_FLIGHT_RUNS &&
            r.live.text[0] == 0);
    gy_flight_drop(&r);
    gy_alloc_free(&alloc, text, bytes + 1);
}

/* ---- jobs with something planted ---- */

enum dt_cause { DT_NONE, DT_STOPPED, DT_KILLED, DT_HANG, DT_INPUT, DT_SAVE, DT_CUT, DT_FAILS,
               DT_OPTIONS,
                DT_MISSING, DT_LATE, DT_SLOW_COMPUTE, DT_SLOW_INPUT, DT_LEFT, DT_CAUSES };
static const char *const dt_names[] = { "none", "stopped", "ended", "hang", "slow input",
                                       "slow checkpoint",
                                        "cut link", "failure", "options", "missing", "late",
                                            "slow rank",
                                        "slow input", "left" };

struct dt_case {
    uint64_t state;
    int cause, ranks, guilty, other, steps; /* other: of the cut link; steps: before it happens */
    int host[DT_RANKS];
    int64_t shift[DT_RANKS], now[DT_RANKS]; /* now: on the true clock */
    int64_t step;
    uint64_t number[DT_RANKS];
    int64_t sum;
    unsigned char *file[DT_RANKS];
};

static uint64_t dt_random(struct dt_case *c) /* splitmix64 */
{
    uint64_t x = c->state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static int64_t dt_below(struct dt_case *c,
                        int64_t most) { return (int64_t)(dt_random(c) % (uint64_t)most); }

static struct gy_flight_live *dt_live(struct dt_case *c, int r)
{
    return (struct gy_flight_live *)(void *)(c->file[r] + GY_FLIGHT_LIVE);
}

static void dt_note(struct dt_case *c, int r, int kind, int phase, int64_t sum, int more)
{
    struct gy_flight_event e = { .number = ++c->number[r], .mono = c->now[r] + c->shift[r],
                                .step = c->step,
                                 .sum = sum, .peer = -1, .bucket = -1, .kind = (uint8_t)kind,
                                 .phase = (uint8_t)phase };
    e.wall = e.mono + INT64_C(1795000000000000000) - c->shift[r];
    if (kind == GY_DOES_WAIT)
        e.bucket = (int16_t)more;
    else if (kind == GY_DOES_CUT)
        e.peer = more;
    else
        e.bytes = more;
    e.crc = gy_flight_crc(&e, &e.crc);
    memcpy(c->file[r] + GY_FLIGHT_PAGE + e.number % GY_FLIGHT_ROOM * sizeof e, &e, sizeof e);
}

/* A rank gives signs of life until then, and says how it ends. */
static void dt_end(struct dt_case *c, int r, int64_t at, int state, int status, const char *text)
{
    struct gy_flight_live *const l = dt_live(c, r);
    l->beat.last = gy_max64(c->now[r], at - dt_below(c, 250) * DT_MS) + c->shift[r];
    l->ended = state == GY_FLIGHT_RUNS ? 0 : at + c->shift[r];
    l->state = state;
    l->status = status;
    snprintf(l->text, sizeof l->text, "%s", text ? text : "");
    l->crc = gy_flight_crc(&l->ended, &l->crc);
}

static void dt_open(struct dt_case *c)
{
    int64_t host_shift[3];
    for (int h = 0; h < 3; h++)
        host_shift[h] = dt_below(c, 1000000) * DT_MS * 10;
    for (int r = 0; r < c->ranks; r++) {
        c->now[r] = 5000 * DT_MS + dt_below(c, 3 * DT_MS);
        c->shift[r] = host_shift[c->host[r]];
        c->file[r] = calloc(1, GY_FLIGHT_BYTES);
        struct gy_flight_head h = dt_head(r, c->ranks);
        memcpy(h.magic, GY_FLIGHT_MAGIC, sizeof h.magic);
        h.version = GY_FLIGHT_VERSION;
        h.head_bytes = GY_FLIGHT_PAGE;
        h.event_bytes = sizeof(struct gy_flight_event);
        h.room = GY_FLIGHT_ROOM;
        h.host[0] = (unsigned char)c->host[r];
        h.met = c->now[r] + c->shift[r];
        h.came = h.met - dt_below(c, 900) * DT_MS - (c->cause == DT_LATE && r != c->guilty
                                                     ? 5000 * DT_MS : 0);
        h.wall = h.met + INT64_C(1795000000000000000) - c->shift[r] + dt_below(c, 200) * DT_MS;
        h.crc = gy_flight_crc(&h, &h.crc);
        memcpy(c->file[r], &h, sizeof h);
    }
}

/* All begin the sum, and leave it together. stays: this rank does not come; -1. */
static void dt_together(struct dt_case *c, int kind, int bucket, int value_of, int stays)
{
    int64_t last = 0;
    c->sum += kind != GY_DOES_WAIT;
    const int64_t sum = kind == GY_DOES_WAIT ? c->sum - DT_BUCKETS + bucket : c->sum;
    for (int r = 0; r < c->ranks; r++) {
        if (r == stays)
            continue;
        dt_note(c, r, kind, GY_FLIGHT_BEGAN, sum, kind == GY_DOES_WAIT ? bucket : r == value_of
                ? 7 : 5);
        last = gy_max64(last, c->now[r]);
    }
    for (int r = 0; r < c->ranks && stays < 0; r++) {
        c->now[r] = last + 1000 + dt_below(c, DT_MS / 10);
        dt_note(c, r, kind, GY_FLIGHT_ENDED, sum, bucket);
        if (kind == GY_DOES_WAIT)
            dt_note(c, r, GY_DOES_SUM, GY_FLIGHT_ENDED, sum, 0);
    }
}

static void dt_pass(struct dt_case *c, int r, int kind, int64_t ns)
{
    dt_note(c, r, kind, GY_FLIGHT_BEGAN, 0, 0);
    c->now[r] += ns + dt_below(c, DT_MS / 5);
}

/* One rank up to its sums; halts: amid the input or the pass of that kind; -1. */
static void dt_compute(struct dt_case *c, int r, int halts)
{
    const int slow = r == c->guilty;
    dt_pass(c, r, GY_DOES_BATCH, slow && c->cause == DT_SLOW_INPUT ? 9 * DT_MS : DT_MS / 10);
    if (halts == GY_DOES_BATCH)
        return;
    dt_note(c, r, GY_DOES_BATCH, GY_FLIGHT_ENDED, 0, 0);
    dt_note(c, r, GY_DOES_STEP, GY_FLIGHT_BEGAN, 0, 0);
    for (int k = GY_DOES_FORWARD; k <= GY_DOES_BACKWARD; k++) {
        dt_pass(c, r, k, slow && c->cause == DT_SLOW_COMPUTE ? 6 * DT_MS : 2 * DT_MS);
        if (halts == k)
            return;
    }
    for (int b = 0; b < DT_BUCKETS; b++)
        dt_note(c, r, GY_DOES_SUM, GY_FLIGHT_BEGAN, c->sum + 1 + b, 4096);
    dt_note(c, r, GY_DOES_UPDATE, GY_FLIGHT_BEGAN, 0, 0);
}

static void dt_step(struct dt_case *c)
{
    for (int r = 0; r < c->ranks; r++)
        dt_compute(c, r, -1);
    c->sum += DT_BUCKETS;
    dt_together(c, GY_DOES_MEET, -1, -1, -1); /* results, before the buckets are awaited */
    for (int b = 0; b < DT_BUCKETS; b++)
        dt_together(c, GY_DOES_WAIT, b, -1, -1);
    c->step++;
    for (int r = 0; r < c->ranks; r++)
        dt_note(c, r, GY_DOES_STEP, GY_FLIGHT_ENDED, 0, 0);
}

/* The last step: the guilty one halts in it, the others wait in its first sum. */
static void dt_halt(struct dt_case *c, int halts)
{
    if (halts == GY_DOES_SAVE)
        dt_note(c, c->guilty, GY_DOES_SAVE, GY_FLIGHT_BEGAN, 0, 0);
    for (int r = 0; r < c->ranks; r++)
        if (r != c->guilty || halts != GY_DOES_SAVE)
            dt_compute(c, r, r == c->guilty ? halts : -1);
    c->sum += DT_BUCKETS;
    if (halts < 0 || halts == GY_DOES_UPDATE)
        dt_together(c, GY_DOES_MEET, -1, -1, -1);
    for (int r = 0; r < c->ranks; r++)
        if (r != c->guilty || halts < 0)
            dt_note(c, r, GY_DOES_WAIT, GY_FLIGHT_BEGAN,
                    c->sum - DT_BUCKETS + (halts >= 0 && halts != GY_DOES_UPDATE), 0);
}

static int64_t dt_last(const struct dt_case *c)
{
    int64_t last = 0;
    for (int r = 0; r < c->ranks; r++)
        last = gy_max64(last, c->now[r]);
    return last;
}

static void dt_lose(struct dt_case *c, int64_t after, const char *how)
{
    char text[200];
    const int64_t at = dt_last(c) + after;
    snprintf(text, sizeof text, "rank %d on host (process %d) %s; it has not entered sum 9",
             c->guilty, 100 + c->guilty, how);
    for (int r = 0; r < c->ranks; r++)
        if (r != c->guilty)
            dt_end(c, r, at + dt_below(c, 9) * DT_MS, GY_FLIGHT_FAILED, GY_E_PEER, text);
}

/* The last moments of each cause. */
static void dt_plant(struct dt_case *c)
{
    const int program = (int)dt_below(c, 2), g = c->guilty;
    switch (c->cause) {
    case DT_STOPPED:
        dt_halt(c, program ? GY_DOES_BACKWARD : GY_DOES_BATCH);
        dt_end(c, g, c->now[g], GY_FLIGHT_RUNS, 0, NULL);
        dt_lose(c, 2500 * DT_MS, "is silent for 2.5 seconds: it stands still or cannot be reached");
        break;
    case DT_KILLED:
        dt_halt(c, program ? GY_DOES_FORWARD : GY_DOES_BATCH);
        dt_end(c, g, c->now[g], GY_FLIGHT_RUNS, 0, NULL);
        dt_lose(c, 5 * DT_MS, "has ended");
        break;
    case DT_FAILS:
        dt_halt(c, GY_DOES_BATCH);
        dt_end(c, g, c->now[g], GY_FLIGHT_FAILED, GY_E_IO, "a.ppm: cannot be read");
        dt_lose(c, 5 * DT_MS, "has left the job");
        break;
    case DT_LEFT:
        dt_halt(c, GY_DOES_BATCH);
        dt_end(c, g, c->now[g], GY_FLIGHT_LEFT, 0, NULL);
        dt_lose(c, 5 * DT_MS, "has left the job");
        break;
    case DT_CUT:
        dt_halt(c, -1);
        dt_note(c, g, GY_DOES_CUT, GY_FLIGHT_BEGAN, 0, c->other);
        dt_note(c, c->other, GY_DOES_CUT, GY_FLIGHT_BEGAN, 0, g);
        for (int r = 0; r < c->ranks; r++)
            dt_end(c, r, dt_last(c) + 2000 * DT_MS, GY_FLIGHT_FAILED, GY_E_PEER,
                   "no data comes through between them");
        break;
    case DT_OPTIONS:
        dt_together(c, GY_DOES_AGREE, -1, g, -1);
        for (int r = 0; r < c->ranks; r++)
            dt_end(c, r, c->now[r] + DT_MS, GY_FLIGHT_FAILED, GY_E_MISMATCH,
                   "rank 9 has not the same as rank 0: batch");
        break;
    case DT_HANG: case DT_INPUT: case DT_SAVE: case DT_MISSING:
        dt_halt(c, c->cause == DT_HANG && program ? GY_DOES_UPDATE : c->cause == DT_INPUT
                ? GY_DOES_BATCH : c->cause == DT_SAVE ? GY_DOES_SAVE
                : GY_DOES_FORWARD);
        for (int r = 0; r < c->ranks; r++)
            dt_end(c, r, dt_last(c) + 8000 * DT_MS, GY_FLIGHT_RUNS, 0, NULL);
        break;
    default:
        for (int r = 0; r < c->ranks; r++)
            dt_end(c, r, c->now[r] + 10 * DT_MS, GY_FLIGHT_WELL, 0, NULL);
    }
}

static void dt_make(struct dt_case *c)
{
    char path[128], name[32];
    dt_clean();
    dt_open(c);
    dt_together(c, GY_DOES_MEET, -1, -1, -1);
    for (int s = 0; s < c->steps && c->cause != DT_OPTIONS; s++)
        dt_step(c);
    dt_plant(c);
    for (int r = 0; r < c->ranks; r++) {
        snprintf(name, sizeof name, "flight.%d", r);
        if (c->cause != DT_MISSING || r != c->guilty)
            dt_write(dt_path(path, name), c->file[r], GY_FLIGHT_BYTES);
        free(c->file[r]);
    }
}

static void dt_say(void *user, const char *text) { (void)user, (void)text; }

static void dt_judge(const struct dt_case *c, uint64_t seed)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_timeline t;
    struct gy_error err = { 0 };
    unsigned char sets[2 * DT_RANKS] = { 0 };
    if (!T_CHECK(gy_timeline_open(&t, dt_folder, 0, dt_say, NULL, &alloc, &err) == GY_OK))
        return;
    struct gy_doctor d = { .t = &t, .guilty = sets, .waits = sets + DT_RANKS };
    const int waiters = gy_doctor_judge(&d);
    const char *const said = d.cause ? d.cause->name : "none";
    int right = strcmp(said, dt_names[c->cause]) == 0;
    for (int r = 0; r < c->ranks; r++)
        right = right && d.guilty[r] == (c->cause != DT_NONE &&
                                         (r == c->guilty || (c->cause == DT_CUT && r == c->other)));
    T_CHECK_MSG(right, "seed %d: %s of rank %d of %d after %d steps; said: %s, rank %d", (int)seed,
                dt_names[c->cause], c->guilty, c->ranks, c->steps, said, d.guilty[c->guilty]);
    const int stall = c->cause == DT_STOPPED || c->cause == DT_HANG || c->cause == DT_INPUT ||
        c->cause == DT_SAVE;
    if (stall) {
        T_CHECK_MSG(waiters == c->ranks - 1, "seed %d: %d of %d wait", (int)seed, waiters,
                    c->ranks - 1);
        T_CHECK_MSG(d.step == c->step && d.bucket == 0, "seed %d: in bucket %d of step %d, not %d",
                    (int)seed, d.bucket, (int)d.step, (int)c->step);
    }
    if (c->cause != DT_OPTIONS) /* clocks of hosts are set by sums */
        for (int i = 0; i < t.count; i++) {
            const int64_t apart =
                t.ranks[i].shift - (c->shift[t.ranks[0].rank] - c->shift[t.ranks[i].rank]);
            T_CHECK_MSG(llabs((long long)apart) < DT_MS, "seed %d: the clock of rank %d is %.3f ms "
                        "off", (int)seed, t.ranks[i].rank, (double)apart * 1e-6);
        }
    gy_timeline_close(&t);
}

static void dt_jobs(uint64_t first, int count)
{
    for (uint64_t seed = first; seed < first + (uint64_t)count; seed++) {
        struct dt_case c = { .state = seed, .cause = (int)(seed % DT_CAUSES) };
        const int hosts = 1 + (int)dt_below(&c, 3);
        c.ranks = 3 + (int)dt_below(&c, DT_RANKS - 2);
        c.guilty = c.cause == DT_OPTIONS ? 1 + (int)dt_below(&c, c.ranks - 1)
            : (int)dt_below(&c, c.ranks);
        c.other = (c.guilty + 1 + (int)dt_below(&c, c.ranks - 1)) % c.ranks;
        c.steps = 3 + (int)dt_below(&c, DT_STEPS);
        for (int r = 0; r < c.ranks; r++)
            c.host[r] = r % hosts;
        dt_make(&c);
        dt_judge(&c, seed);
    }
    printf("jobs: seeds %d to %d\n", (int)first, (int)first + count - 1);
}

/* ---- the page ---- */

static int dt_print(void *user, const char *text, size_t bytes)
{
    struct gy_buf *const buf = user;
    gy_buf_add(buf, text, bytes);
    return 0;
}

/* Files of another start, of another name, and damaged ones are named and left out. */
static void dt_others(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct dt_case c = { .state = 5, .cause = DT_HANG, .ranks = 3, .guilty = 1, .steps = 9 };
    struct gyre_error error;
    struct gy_buf page;
    char path[128], other[128];
    size_t bytes;
    dt_make(&c);
    char *const text = dt_read(dt_path(path, "flight.2"), &bytes);
    struct gy_flight_head *const h = (struct gy_flight_head *)(void *)text;
    dt_write(dt_path(other, "flight.9"), text, bytes);
    dt_write(dt_path(other, "flight.8"), "GYFLIGHT", 8);
    h->job -= 1000 * INT64_C(1000000000);
    h->rank = 5;
    h->ranks = 6;
    h->crc = gy_flight_crc(h, &h->crc);
    dt_write(dt_path(other, "flight.5"), text, bytes);
    gy_alloc_free(&alloc, text, bytes + 1);
    gy_buf_open(&page, &alloc);
    const struct gyre_sink sink = { dt_print, &page };
    T_CHECK(gyre_print_doctor(dt_folder, 0, 0, &sink, &error) == GYRE_OK);
    const char *const said[] =
        { "flight.9: the record of rank 2 under another name: it is left out",
                                 "flight.8: a flight record that ends in its head: it is left out",
                                 "flight.5: a record of another start of a job",
                                 "ranks 0 and 2 waited for rank 1 since",
                                     "cause:      hang: rank 1 hung" };
    for (size_t i = 0; i < GY_COUNT(said); i++)
        T_CHECK_MSG(page.text && strstr(page.text, said[i]), "no '%s' in\n%s", said[i], page.text
                    ? page.text : "");
    gy_buf_close(&page);
    /* the start before the last one */
    char old[128];
    for (int r = 0; r < 3; r++) {
        char name[32];
        snprintf(name, sizeof name, "flight.%d", r);
        dt_path(path, name);
        snprintf(name, sizeof name, "flight.%d" GY_FLIGHT_OLD, r);
        T_CHECK(rename(path, dt_path(old, name)) == 0);
    }
    gy_buf_open(&page, &alloc);
    T_CHECK(gyre_print_doctor(dt_folder, 1, 1, &sink, &error) == GYRE_OK);
    T_CHECK(page.text && strstr(page.text,
                                "\"cause\":\"hang\",\"culprits\":[1],\"waiting\":[0,2]"));
    gy_buf_close(&page);
    dt_clean();
    T_CHECK(gyre_print_doctor(dt_folder, 0, 0, &sink, &error) == GYRE_E_IO &&
            strstr(error.text, "no flight record here"));
    dt_write(dt_path(path, "flight.0"), "what", 4);
    T_CHECK(gyre_print_doctor(dt_folder, 0, 0, &sink, &error) == GYRE_E_IO &&
            strstr(error.text, "this is no flight record"));
}

int main(void)
{
    snprintf(dt_folder, sizeof dt_folder, "/tmp/t_doctor.%ld", (long)getpid());
    if (!T_CHECK(mkdir(dt_folder, 0700) == 0))
        return 1;
    dt_ring(100);
    dt_ring(GY_FLIGHT_ROOM);
    dt_ring(3 * GY_FLIGHT_ROOM + 17);
    dt_ends();
    dt_taken();
    dt_cost();
    dt_damaged();
    dt_jobs(1, 280);
    dt_others();
    dt_clean();
    rmdir(dt_folder);
    T_END("t_doctor");
}
