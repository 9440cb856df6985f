/* SPDX-License-Identifier: MIT */
/* t_glm_keep.c: a checkpoint of a linear training gives back what was written, also to another
 * number of ranks. A checkpoint of another run is refused with what differs. */
#include "engine/glm/glm_checkpoint.h"
#include "engine/glm/glm_stream.h"
#include "engine/glm/glm_train_state.h"
#include "tests/data_files.h"
#include "tests/glm_ranks.h"

enum { KT_ROWS = 1003, KT_WIDTH = 57 };

struct kt_run {
    float w[KT_WIDTH], dual[KT_ROWS];
    struct gy_glm_keep keep;
};

static struct gy_glm_keep_field kt_fields[] = { { "loss", "logistic" }, { "l2", "0.1" } };

static float kt_w(int i, int epoch) { return (float)sin(i * 0.7 + epoch); }
static float kt_dual(int64_t row, int epoch) { return (float)((double)row * 1.25 - 300 + epoch); }

static void kt_fill(struct kt_run *run, int rank, int ranks, int epoch, int duals)
{
    int64_t first, end;
    gy_glm_deal(KT_ROWS, rank, ranks, &first, &end);
    run->keep = (struct gy_glm_keep){ .data = 0xfedcba9876543210u, .seed = 42, .field = kt_fields, .fields = GY_COUNT(kt_fields), .width = KT_WIDTH,
        .rows = end - first, .first = first, .all_rows = KT_ROWS, .w = run->w, .dual = duals ? run->dual : NULL, .epoch = epoch };
    for (int i = 0; i < KT_WIDTH; i++)
        run->w[i] = kt_w(i, epoch);
    for (int64_t i = 0; i < end - first; i++)
        run->dual[i] = kt_dual(first + i, epoch);
}

static void kt_clear(struct kt_run *run)
{
    memset(run->w, 0, sizeof run->w);
    memset(run->dual, 0, sizeof run->dual);
    run->keep.epoch = 0;
    run->keep.exact = -1;
}

static int kt_as_filled(const struct kt_run *run, int epoch)
{
    int same = run->keep.epoch == epoch;
    for (int i = 0; i < KT_WIDTH; i++)
        same &= memcmp(&run->w[i], &(float){ kt_w(i, epoch) }, 4) == 0;
    for (int64_t i = 0; run->keep.dual && i < run->keep.rows; i++)
        same &= memcmp(&run->dual[i], &(float){ kt_dual(run->keep.first + i, epoch) }, 4) == 0;
    return same;
}

/* ---- one process ---- */

static void test_alone(void)
{
    static struct kt_run run;
    const struct gy_alloc alloc = gy_alloc_default();
    const char *const path = df_path("alone.safetensors");
    struct gy_error err = { 0 };
    for (int duals = 0; duals < 2; duals++) {
        kt_fill(&run, 0, 1, 7, duals);
        T_CHECK(gy_glm_keep_write(&run.keep, path, NULL, &alloc, &err) == GY_OK);
        kt_clear(&run);
        T_CHECK(gy_glm_keep_read(&run.keep, path, NULL, &alloc, &err) == GY_OK && run.keep.exact == 1 && kt_as_filled(&run, 7));
    }
    T_CHECK(!gy_file_exists(df_path("alone.safetensors.1")));
    /* written over: the new or the old one, never a mixture */
    kt_fill(&run, 0, 1, 8, 1);
    T_CHECK(gy_glm_keep_write(&run.keep, path, NULL, &alloc, &err) == GY_OK);
    kt_clear(&run);
    T_CHECK(gy_glm_keep_read(&run.keep, path, NULL, &alloc, &err) == GY_OK && kt_as_filled(&run, 8));
    T_CHECK(gy_glm_keep_write(&run.keep, "/nowhere/x.safetensors", NULL, &alloc, &err) == GY_E_IO && strstr(err.text, "/nowhere/"));
    T_CHECK(gy_glm_keep_read(&run.keep, df_path("none.safetensors"), NULL, &alloc, &err) == GY_E_IO && strstr(err.text, "none.safetensors"));
}

static void kt_refused(struct kt_run *run, const char *path, const char *what, const char *was, const char *now)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    const int status = gy_glm_keep_read(&run->keep, path, NULL, &alloc, &err);
    const int named = strstr(err.text, what) && strstr(err.text, was) && strstr(err.text, now) && strstr(err.text, path);
    T_CHECK_MSG(status == GY_E_MISMATCH && named, "%d %s", status, err.text);
    kt_fill(run, 0, 1, 3, 1);
}

static void test_other_runs(void)
{
    static struct kt_run run;
    const struct gy_alloc alloc = gy_alloc_default();
    const char *const path = df_path("other.safetensors");
    struct gy_error err = { 0 };
    struct gy_glm_keep_field other[] = { { "loss", "logistic" }, { "l2", "10" } }, more[] = { { "loss", "logistic" }, { "l2", "0.1" }, { "bias", "1" } };
    kt_fill(&run, 0, 1, 3, 1);
    T_CHECK(gy_glm_keep_write(&run.keep, path, NULL, &alloc, &err) == GY_OK);
    run.keep.seed = 43;
    kt_refused(&run, path, "the seed", "was 42", "now it is 43");
    run.keep.data = 5;
    kt_refused(&run, path, "the data set's id", "was 18364758544493064720", "now it is 5");
    run.keep.all_rows = 1004;
    kt_refused(&run, path, "the number of rows", "was 1003", "now it is 1004");
    run.keep.field = other;
    kt_refused(&run, path, "l2", "was 0.1", "now it is 10");
    run.keep.field = more;
    run.keep.fields = 3;
    kt_refused(&run, path, "bias", "was not set", "now it is 1");
    run.keep.width = KT_WIDTH - 1;
    kt_refused(&run, path, "'w'", "another shape", "56 numbers");
    /* no duals in it, but they are wanted */
    run.keep.dual = NULL;
    T_CHECK(gy_glm_keep_write(&run.keep, path, NULL, &alloc, &err) == GY_OK);
    run.keep.dual = run.dual;
    kt_refused(&run, path, "'dual'", "is missing", "1003 numbers");
    run.w[3] = NAN;
    T_CHECK(gy_glm_keep_write(&run.keep, path, NULL, &alloc, &err) == GY_OK);
    kt_refused(&run, path, "'w'", "nan", "element 3");
    df_write("text.safetensors", "hello, world", 12);
    T_CHECK(gy_glm_keep_read(&run.keep, df_path("text.safetensors"), NULL, &alloc, &err) != GY_OK && strstr(err.text, "text.safetensors"));
}

/* ---- ranks ---- */

struct kt_case {
    char path[512];
    int ranks, epoch, late; /* late: what ranks but the first write is of so many epochs later */
    int want_exact, good;   /* of reading */
};

static int kt_write_rank(void *user, struct gyre_job *job, int rank)
{
    static struct kt_run run;
    const struct kt_case *const c = user;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    kt_fill(&run, rank, c->ranks, c->epoch, 1);
    run.keep.epoch += rank > 0 ? c->late : 0;
    return gy_glm_keep_write(&run.keep, c->path, job, &alloc, &err) == GY_OK;
}

/* No rank believes that all was written, and every one names the file. */
static int kt_write_refused(void *user, struct gyre_job *job, int rank)
{
    static struct kt_run run;
    const struct kt_case *const c = user;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    kt_fill(&run, rank, c->ranks, c->epoch, 1);
    return gy_glm_keep_write(&run.keep, c->path, job, &alloc, &err) == GY_E_IO && strstr(err.text, c->path);
}

static int kt_read_rank(void *user, struct gyre_job *job, int rank)
{
    static struct kt_run run;
    const struct kt_case *const c = user;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    kt_fill(&run, rank, c->ranks, 0, 1);
    kt_clear(&run);
    const int status = gy_glm_keep_read(&run.keep, c->path, job, &alloc, &err);
    if (!c->good)
        return status != GY_OK && err.text[0];
    return status == GY_OK && run.keep.exact == c->want_exact && kt_as_filled(&run, c->epoch);
}

static void test_ranks(void)
{
    struct kt_case c = { .epoch = 5, .good = 1 };
    static const int ranks[] = { 1, 2, 3, 4 };
    char other[600];
    snprintf(c.path, sizeof c.path, "%s", df_path("ranks.safetensors"));
    for (size_t a = 0; a < GY_COUNT(ranks); a++)
        for (int late = 0; late < (a > 0 ? 2 : 1); late++) {
            c.ranks = ranks[a];
            c.late = late;
            T_CHECK(gr_run(c.ranks, kt_write_rank, &c));
            for (size_t b = 0; b < GY_COUNT(ranks); b++) {
                c.ranks = ranks[b];
                c.want_exact = !late;
                T_CHECK_MSG(gr_run(c.ranks, kt_read_rank, &c), "from %d ranks to %d, late %d", ranks[a], ranks[b], late);
            }
        }
    /* a rank's file of another run, and one that is gone: all ranks hear of it */
    c.good = 0;
    snprintf(other, sizeof other, "%s.2", c.path);
    T_CHECK(unlink(other) == 0);
    c.ranks = 2;
    T_CHECK(gr_run(2, kt_read_rank, &c));
}

/* Of one rank, of another, or of all the file cannot be written. */
static void test_ranks_refused(void)
{
    static const char *const folder[] = { "first.safetensors", "second.safetensors.1", "third.safetensors.2" };
    static const char *const path[] = { "first.safetensors", "second.safetensors", "third.safetensors" };
    struct kt_case c = { .ranks = 3, .epoch = 5 };
    for (size_t i = 0; i < GY_COUNT(folder); i++) {
        T_CHECK(mkdir(df_path(folder[i]), 0755) == 0);
        snprintf(c.path, sizeof c.path, "%s", df_path(path[i]));
        T_CHECK_MSG(gr_run(c.ranks, kt_write_refused, &c), "%s", folder[i]);
    }
    snprintf(c.path, sizeof c.path, "/nowhere/ranks.safetensors");
    T_CHECK(gr_run(c.ranks, kt_write_refused, &c));
}

/* ---- memory ---- */

/* Ranks of a host share its memory; what the caller says is a rank's own. */
static void test_memory(void)
{
    struct gyre_job job = { .ranks = 8, .local = 1, .locals = 4 };
    struct gyre_glm_config c;
    gyre_glm_config_default(&c);
    const double alone = (double)gy_glm_train_memory(&c);
    c.job = &job;
    const double shared = (double)gy_glm_train_memory(&c);
    T_CHECK_MSG(alone > 0 && fabs(4 * shared - alone) <= 0.01 * alone, "alone %g, of four %g", alone,
                shared);
    c.memory_bytes = 12345;
    T_CHECK(gy_glm_train_memory(&c) == 12345);
}

int main(void)
{
    df_open();
    test_alone();
    test_other_runs();
    test_ranks();
    test_ranks_refused();
    df_remove(df_root);
    test_memory();
    T_END("t_glm_keep");
}
