/* SPDX-License-Identifier: MIT */
/* t_options.c: options of training in random company. Each combination trains five steps, on one or
 * two ranks, and every visible number is held against a second implementation (train_truth.h). A
 * net that is saved and loaded in every step must keep to the same bits. So must one with another
 * number of threads, with other buckets, with shards on other ranks. Options that cannot go
 * together must be refused in words.
 *
 *     t_options                              the quick suite
 *     t_options --runs N [FROM]              N combinations, from number FROM on
 *     t_options --one NUMBER                 one of them
 *     t_options --one NUMBER NAME=VALUE...   its samples with these options alone */
#include <math.h>
#include <unistd.h>

#include "tests/glm_ranks.h"
#include "tests/options.h"
#include "tests/train_truth.h"

#define OPT_QUICK 240       /* combinations of the quick suite */
#define OPT_FIRST 1         /* the first one's number */
#define OPT_LEAST 3         /* each value is seen so often in it, at least */

static struct opt_left *opt_main, *opt_twin; /* [OPT_RANKS] */
static char opt_folder[] = "/tmp/t_options.XXXXXX";

/* ---- a combination ---- */

/* Another number of ranks that shards can be dealt to: the same bits again. 0: there is none. */
static int opt_other_ranks(const struct opt_case *c)
{
    for (int ranks = OPT_RANKS; ranks > 0 && c->config.shards > 0; ranks /= 2) {
        const int own = c->config.shards / ranks;
        if (ranks != c->ranks && c->config.shards % ranks == 0 && (ranks == 1 || (own & (own - 1)) == 0))
            return ranks;
    }
    return 0;
}

static int opt_same_steps(const struct opt_left *a, const struct opt_left *b, int step)
{
    const struct opt_step *s = &a->step[step], *t = &b->step[step];
    /* a loss that is not finite leaves gradients undone */
    const size_t floats = s->status == GYRE_OK ? OPT_FLOATS : (size_t)a->floats;
    return s->status == t->status && opt_same_results(&s->result, &t->result) && memcmp(s->values, t->values, floats * sizeof(float)) == 0 &&
           memcmp(s->predicted, t->predicted, sizeof s->predicted) == 0 &&
           memcmp(s->scores, t->scores, OPT_BATCH * OPT_CLASSES * sizeof(float)) == 0;
}

static void opt_judge_twin(const struct opt_case *c, struct opt_case *twin, const char *what, struct opt_verdict *v)
{
    twin->resume = 0;
    if (!opt_run(twin, opt_folder, opt_twin))
        opt_says(v, -1, 0, what, "a rank of the twin did not end by itself");
    /* with other ranks, the samples of a rank differ */
    for (int r = 0; r < (c->ranks == twin->ranks ? c->ranks : 1); r++)
        for (int step = 0; step < OPT_STEPS; step++)
            if (!opt_same_steps(&opt_main[r], &opt_twin[r], step))
                opt_says(v, step, r, "other bits with another value of", what);
}

/* The same training with another value of an option that changes no bit. The case's number selects
 * the option. */
static void opt_judge_alike(const struct opt_case *c, struct opt_verdict *v)
{
    struct opt_case twin = *c;
    int row = (int)(c->seed % (uint64_t)opt_row_count);
    while (!opt_rows[row].alike)
        row = (row + 1) % opt_row_count;
    twin.pick[row] = (twin.pick[row] + 1) % opt_rows[row].count;
    opt_make(&twin);
    opt_judge_twin(c, &twin, opt_rows[row].name, v);
    twin = *c;
    twin.ranks = opt_other_ranks(c);
    twin.config.net = twin.text;
    if (twin.ranks > 0 && !v->wrong)
        opt_judge_twin(c, &twin, "ranks", v);
}

/* By the truth with a fault or without. */
static void opt_try(struct opt_case *c, int fault, struct opt_verdict *v)
{
    *v = (struct opt_verdict){ 0 };
    opt_make(c);
    if (!opt_run(c, opt_folder, opt_main))
        opt_says(v, -1, 0, "a rank", "it did not end by itself");
    else if (!opt_judge_refusal(c, opt_main, v))
        opt_judge_all(c, opt_main, fault, v);
    if (!v->wrong && !v->refused)
        opt_judge_alike(c, v);
}

static void opt_try_fault(const void *fault, struct opt_case *c, struct opt_verdict *v)
{
    opt_try(c, *(const int *)fault, v);
}

static void opt_complain(const struct opt_case *c, const struct opt_verdict *v)
{
    struct opt_case small = *c;
    struct opt_verdict other = *v;
    const int right = TRAIN_RIGHT;
    char all[600], few[600];
    opt_print(c, all, sizeof all);
    opt_shrink(&small, opt_try_fault, &right, &other);
    opt_print(&small, few, sizeof few);
    printf("    number %" PRIu64 " (%s): %s\n    t_options --one %" PRIu64 " %s\n    %s\n", c->seed, all, v->what, c->seed, few, other.what);
}

/* ---- many ---- */

/* What was seen: values, and pairs of values that are no defaults. */
struct opt_tally {
    int refused, seen[OPT_ROWS][OPT_VALUES];
    unsigned char pair[OPT_ROWS * OPT_VALUES][OPT_ROWS * OPT_VALUES];
    int64_t numbers, tight;
};

static void opt_count_values(const struct opt_case *c, struct opt_tally *tally)
{
    for (int i = 0; i < opt_row_count; i++) {
        tally->seen[i][c->pick[i]]++;
        for (int k = 0; k < i && c->pick[i] > 0; k++)
            if (c->pick[k] > 0)
                tally->pair[i * OPT_VALUES + c->pick[i]][k * OPT_VALUES + c->pick[k]] = 1;
    }
}

static void opt_print_pairs(const struct opt_tally *tally)
{
    int seen = 0, all = 0;
    for (int i = 0; i < opt_row_count; i++)
        for (int k = 0; k < i; k++)
            all += (opt_rows[i].count - 1) * (opt_rows[k].count - 1);
    for (int i = 0; i < OPT_ROWS * OPT_VALUES; i++)
        for (int k = 0; k < OPT_ROWS * OPT_VALUES; k++)
            seen += tally->pair[i][k];
    printf("t_options: %d of %d pairs of values, %d combinations refused\n", seen, all, tally->refused);
}

static void opt_many(uint64_t from, int count, struct opt_tally *tally)
{
    for (uint64_t n = from; n < from + (uint64_t)count; n++) {
        struct opt_case c;
        struct opt_verdict v;
        opt_draw(&c, n);
        opt_try(&c, TRAIN_RIGHT, &v);
        opt_count_values(&c, tally);
        tally->refused += v.refused;
        tally->numbers += v.numbers;
        tally->tight += v.tight;
        if (!T_CHECK(!v.wrong))
            opt_complain(&c, &v);
    }
    opt_print_pairs(tally);
}

/* No value is left out, and what numbers may be off is little: of most of them a ten thousandth. */
static void opt_check_seen(const struct opt_tally *tally)
{
    char value[32];
    for (int i = 0; i < opt_row_count; i++)
        T_CHECK_MSG(strcmp(opt_rows[i].name, "optimizer") != 0 || opt_rows[i].count == GYRE_OPTIMIZERS,
                    "options_table.c has %d optimisers of %d", opt_rows[i].count, GYRE_OPTIMIZERS);
    for (int i = 0; i < opt_row_count; i++)
        for (int k = 0; k < opt_rows[i].count; k++)
            T_CHECK_MSG(tally->seen[i][k] >= OPT_LEAST, "%s=%s was seen %d times", opt_rows[i].name, opt_value_name(i, k, value, sizeof value),
                        tally->seen[i][k]);
    T_CHECK_MSG((double)tally->tight >= 0.8 * (double)tally->numbers, "%" PRId64 " of %" PRId64 " numbers are held to 1e-4", tally->tight,
                tally->numbers);
}

/* ---- faults ---- */

/* A combination in which a rule that is done wrongly must show. */
struct opt_fault {
    int fault;
    const char *options;
};
static const struct opt_fault opt_faults[] = {
    { TRAIN_NO_MOMENTUM, "" },
    { TRAIN_RATE_IN_MOMENTUM, "schedule=steps" },
    { TRAIN_NO_NESTEROV, "nesterov=1" },
    { TRAIN_NO_DECAY, "decay=0.1" },
    { TRAIN_DECAY_BIASES, "decay=0.1 body=norms" },
    { TRAIN_DECAY_NO_BIASES, "decay=0.1 decay_all=1 body=norms" },
    { TRAIN_DECAY_AS_L2, "optimizer=adamw decay=0.1" },
    { TRAIN_NO_CORRECTION, "optimizer=adamw" },
    { TRAIN_BETAS_SWAPPED, "optimizer=adamw" },
    { TRAIN_EPS_INSIDE, "optimizer=adamw eps=0.001" },
    { TRAIN_NO_RATIO, "optimizer=lars" },
    { TRAIN_NO_RATIO, "optimizer=lars labels=none ranks=2" },
    { TRAIN_RATIO_UNCUT, "optimizer=lars clip=0.1 decay=0.1" },
    { TRAIN_RATIO_NO_DECAY, "optimizer=lars decay=0.1" },
    { TRAIN_RATIO_OF_BIASES, "optimizer=lars body=norms" },
    { TRAIN_OTHER_LARS, "optimizer=lars schedule=steps" },
    { TRAIN_OTHER_LARS, "optimizer=unscaled schedule=steps" },
    { TRAIN_NO_RATIO, "optimizer=unscaled" },
    { TRAIN_RATIO_UNCUT, "optimizer=unscaled clip=0.1 decay=0.1" },
    { TRAIN_NO_RATIO, "optimizer=lamb" },
    { TRAIN_NO_CORRECTION, "optimizer=lamb" },
    { TRAIN_BETAS_SWAPPED, "optimizer=lamb" },
    { TRAIN_NO_DECAY, "optimizer=lamb decay=0.1" },
    { TRAIN_RATIO_OF_BIASES, "optimizer=lamb body=norms" },
    { TRAIN_NO_CLIP, "optimizer=lamb clip=0.1" },
    { TRAIN_NO_CLIP, "clip=0.1" },
    { TRAIN_CLIP_EACH, "clip=0.1 body=conv" },
    { TRAIN_CLIP_ALWAYS, "clip=1000" },
    { TRAIN_CLIP_SUM, "clip=0.5 accumulate=2" },
    { TRAIN_NO_RAMP, "ema=0.998" },
    { TRAIN_AVERAGE_BEFORE, "ema=0.998" },
    { TRAIN_AVERAGE_UNUSED, "ema=0.998" },
    { TRAIN_RATE_LATE, "schedule=cosine" },
    { TRAIN_NO_WARMUP, "warmup=3" },
    { TRAIN_WARMUP_FROM_0, "warmup=3 warmup_from=0.2" },
    { TRAIN_WARMUP_COUNTS, "warmup=1 schedule=cosine steps=10" },
    { TRAIN_MILESTONE_LATE, "schedule=steps" },
    { TRAIN_FINAL_0, "schedule=cosine final=0.02" },
    { TRAIN_POWER_1, "schedule=poly" },
    { TRAIN_PAST_END, "schedule=cosine" },
    { TRAIN_MEAN_OF_MEANS, "accumulate=3 labels=some" },
    { TRAIN_MEAN_OF_MEANS, "accumulate=3 brief=some body=norms" },
    { TRAIN_MEAN_OF_MEANS, "ranks=2 labels=some" },
    { TRAIN_MEAN_OF_MEANS, "ranks=2 brief=some" },
    { TRAIN_MEAN_OF_MEANS, "shards=4 labels=few body=norms" },
    { TRAIN_MEAN_OF_MEANS, "ranks=2 sync_bn=1 labels=few body=norms" },
    { TRAIN_SUM_OF_CALLS, "accumulate=2" },
    { TRAIN_LAST_CALL, "accumulate=2" },
    { TRAIN_SUM_OF_SHARDS, "shards=2" },
    { TRAIN_LAST_STATE, "shards=2 body=norms" },
    { TRAIN_SHARDS_TOGETHER, "shards=2 body=norms" },
    { TRAIN_SUM_OF_RANKS, "ranks=2" },
    { TRAIN_OWN_STATISTICS, "ranks=2 sync_bn=1 body=norms" },
    { TRAIN_OWN_LOSS, "ranks=2" },
    { TRAIN_SAME_DROPOUT, "dropout=0.3" },
    { TRAIN_RANKS_DROP_ALIKE, "dropout=0.3 ranks=2" },
    { TRAIN_SAME_DROPOUT, "dropout=0.3 accumulate=2" },
    { TRAIN_RANKS_DROP_ALIKE, "dropout=0.3 shards=4" },
    { TRAIN_RANKS_DROP_ALIKE, "dropout=0.3 shards=4 ranks=2" },
    { TRAIN_EVAL_DROPS, "dropout=0.3" },
    { TRAIN_LABELS_UNMIXED, "mix=mixup" },
    { TRAIN_PIXELS_UNMIXED, "mix=cutmix" },
    { TRAIN_NO_FLIP, "mix=flip" },
    { TRAIN_MOVED_BACK, "mix=move" },
    { TRAIN_NO_SMOOTHING, "loss=smooth" },
    { TRAIN_UNLABELLED_COUNT, "labels=some" },
    { TRAIN_TARGETS_IGNORED, "loss=mse targets=own" },
    { TRAIN_FILLED_UP, "brief=some body=norms" },
    { TRAIN_FILLED_UP, "brief=some body=norms bad=second" },
    { TRAIN_FILLED_UP, "brief=one body=residual" },
    { TRAIN_BYTES_WHOLE, "input=u8" },
    { TRAIN_NO_MEAN, "mean=own" },
    { TRAIN_STD_FIRST, "mean=own" },
    { TRAIN_PROBE_COUNTS, "dropout=0.3 between=gradient" },
    { TRAIN_SET_ALONE, "ema=0.998 between=set" },
};

static void opt_check_fault(const struct opt_fault *f, uint64_t number)
{
    struct opt_case c;
    struct opt_verdict right = { 0 }, wrong = { 0 };
    opt_plain(&c, number);
    T_CHECK(opt_set(&c, f->options) == 0);
    opt_make(&c);
    T_CHECK(opt_run(&c, opt_folder, opt_main) && !opt_judge_refusal(&c, opt_main, &right));
    opt_judge_all(&c, opt_main, TRAIN_RIGHT, &right);
    opt_judge_all(&c, opt_main, f->fault, &wrong);
    T_CHECK_MSG(!right.wrong, "%s: %s", f->options, right.what);
    T_CHECK_MSG(wrong.wrong, "fault %d is not noticed with %s", f->fault, f->options);
}

static void opt_check_faults(void)
{
    int seen[TRAIN_FAULTS] = { 1 };
    for (size_t i = 0; i < GY_COUNT(opt_faults); i++) {
        opt_check_fault(&opt_faults[i], 1000 + i);
        seen[opt_faults[i].fault] = 1;
    }
    for (int k = 0; k < TRAIN_FAULTS; k++)
        T_CHECK_MSG(seen[k], "fault %d is never planted", k);
}

/* The way back of a failure: of a combination with nesterov and others nesterov is left. */
static void opt_check_shrink(void)
{
    struct opt_case c;
    struct opt_verdict v = { 0 };
    const int fault = TRAIN_NO_NESTEROV;
    char text[600] = "";
    for (uint64_t n = 2000; n < 4000 && !v.wrong; n++) {
        opt_draw(&c, n);
        opt_print(&c, text, sizeof text);
        if (strstr(text, "nesterov=1") && strlen(text) > 60)
            opt_try(&c, fault, &v);
    }
    T_CHECK(v.wrong);
    opt_shrink(&c, opt_try_fault, &fault, &v);
    opt_print(&c, text, sizeof text);
    T_CHECK_MSG(v.wrong && strcmp(text, "nesterov=1") == 0, "shrunk to %s", text);
}

static int opt_one(uint64_t number, int count, char **words)
{
    struct opt_case c;
    struct opt_verdict v;
    char text[600];
    opt_draw(&c, number);
    if (count > 0)
        opt_plain(&c, number);
    for (int i = 0; i < count; i++)
        if (opt_set(&c, words[i]) != 0) {
            printf("%s: no such option or value\n", words[i]);
            return 1;
        }
    opt_try(&c, TRAIN_RIGHT, &v);
    opt_print(&c, text, sizeof text);
    printf("number %" PRIu64 " (%s): %s\n", number, text, v.refused ? "refused" : v.wrong ? "wrong" : "right");
    printf("    %s%s\n    %" PRId64 " of %" PRId64 " numbers are held to 1e-4\n", v.wrong ? "" : "nearest to the limit: ", v.what, v.tight, v.numbers);
    return v.wrong;
}

static void opt_leave(void)
{
    char path[300];
    for (int r = 0; r < OPT_RANKS; r++) {
        snprintf(path, sizeof path, "%s/rank%d", opt_folder, r);
        unlink(path);
        snprintf(path, sizeof path, "%s/weights%d", opt_folder, r);
        unlink(path);
    }
    rmdir(opt_folder);
}

/* The quick suite, or what the words say. 0: it went well. */
static int opt_command(int argc, char **argv)
{
    static struct opt_tally tally;
    if (argc > 2 && strcmp(argv[1], "--one") == 0)
        return opt_one(strtoull(argv[2], NULL, 10), argc - 3, argv + 3);
    if (argc > 2 && strcmp(argv[1], "--runs") == 0) {
        opt_many(argc > 3 ? strtoull(argv[3], NULL, 10) : OPT_FIRST, atoi(argv[2]), &tally);
    } else {
        opt_many(OPT_FIRST, OPT_QUICK, &tally);
        opt_check_seen(&tally);
        opt_check_faults();
        opt_check_shrink();
    }
    return t_end("t_options");
}

int main(int argc, char **argv)
{
    opt_main = gr_memory(OPT_RANKS * sizeof *opt_main);
    opt_twin = gr_memory(OPT_RANKS * sizeof *opt_twin);
    if (!mkdtemp(opt_folder))
        return 2;
    const int status = opt_command(argc, argv);
    opt_leave();
    return status;
}
