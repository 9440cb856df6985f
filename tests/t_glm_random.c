/* SPDX-License-Identifier: MIT */
/* t_glm_random.c: linear models drawn at random, trained through the public interface alone, beside
 * a slow exact second implementation. No bound is above the optimum, no objective one that the
 * file's weights do not have. No end has the wrong name, no refusal lacks a reason, nothing hangs.
 * A problem that fails is printed as the smallest that still fails. Problems run in processes of
 * their own: one that crashes is one that fails.
 *
 *     t_glm_random                   300 problems, planted faults
 *     --problems N --seed S          other problems
 *     --one TEXT                     one problem: "seed=17", or as a failing one is printed;
 *                                    says what comes out
 *     --seconds X                    of a training, at most (10)
 *     --plain                        failing problems are not made smaller */
#include "engine/gyre_job.h"
#include "tests/glm_attempt.h"
#include "tests/t.h"
#include <dirent.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#define GG_PROBLEMS 300
/* a training may take this many times its processor seconds by the clock: machines are busy */
#define GG_WALL 6
#define GG_RANKS 2
#define GG_TRIES 4000
#define GG_SHRUNK 2       /* of a kind that are made smaller */
#define GG_SHRINK_SECONDS 20.0
#define GG_KINDS 40
/* relative excess over the optimum that is far, for an objective that missed its gap */
#define GG_NEAR 1e-4
#define GG_FAR 20         /* of these, their seeds are printed */
#define GG_UNPROVED 5     /* percent of parts whose bound may miss by more than roundings */
#define GG_UNDECIDED 3    /* percent of problems whose optimum may stay unknown */

/* Faults that the test plants into what came out. */
enum gg_fault { GG_BOUND, GG_OBJECTIVE_DOWN, GG_OBJECTIVE_UP, GG_DIGIT, GG_LIE, GG_REFUSED, GG_NAN, GG_REPORT, GG_FAULTS };
static const char *const gg_fault_names[GG_FAULTS] = { "bound raised above the optimum", "objective lowered", "objective raised", "digit of a weight",
                                                       "\"gap\" that is not so", "refused without reason", "weight that is no number", "sum of the report" };

/* How often a solver said something. */
struct gg_kind {
    char solver[24], why[24];
    int count, missed;   /* missed: without reaching the gap */
    double farthest;     /* from the optimum, relative */
    int farthest_at;
};

/* What the processes share. */
struct gg_shared {
    int at, verified, unproved, undecided, decided, refused, stopped, streamed, ranks, missed_auto, far_auto;
    int far_at[GG_FAR];
    double slowest;
    int slowest_at;
    int planted[GG_FAULTS], seen[GG_FAULTS];
    struct gg_kind kind[GG_KINDS];
    struct gc_outcome out[2][GG_RANKS]; /* of a run that was stopped, and of the whole one */
    char why[GC_WHY];
};

static struct gg_shared *gg_shared;
static char gg_folder[200];
static double gg_seconds = 10;

enum gg_plant { GG_NONE, GG_HANGS, GG_CRASHES }; /* what rank 0 does in place of training */

struct gg_job {
    const struct gp_case *c;
    enum gg_plant plant;
    int counts; /* for what is printed in the end; and faults are planted */
};

static void gg_remove(const char *folder)
{
    DIR *const dir = opendir(folder);
    for (const struct dirent *e = dir ? readdir(dir) : NULL; e; e = readdir(dir)) {
        char path[700];
        struct stat st;
        snprintf(path, sizeof path, "%.400s/%.255s", folder, e->d_name);
        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 || lstat(path, &st) != 0)
            continue;
        if (S_ISDIR(st.st_mode))
            gg_remove(path);
        else
            unlink(path);
    }
    if (dir)
        closedir(dir);
    rmdir(folder);
}

/* ---- ranks ---- */

/* From now on this process has so many seconds; 0: as many as it wants. */
static void gg_limit(double seconds)
{
    const struct itimerval work = { { 0, 0 }, { (time_t)seconds, (suseconds_t)((seconds - floor(seconds)) * 1e6) } };
    setitimer(ITIMER_PROF, &work, NULL);
    alarm(seconds > 0 ? (unsigned)ceil(seconds * GG_WALL) : 0);
}

static void gg_variable(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void gg_rank(const struct gg_job *job, struct gyre_job *ranks)
{
    const int rank = gyre_job_rank(ranks);
    if (job->plant == GG_HANGS && rank == 0)
        pause();
    if (job->plant == GG_CRASHES)
        kill(getpid(), SIGKILL);
    ga_rank(job->c, ranks, gg_folder, &gg_shared->out[0][rank], &gg_shared->out[1][rank]);
}

static void gg_rank_process(const struct gg_job *job, int rank, const char *name, double seconds)
{
    struct gyre_job_config wait;
    struct gyre_job *ranks = NULL;
    struct gyre_error error = { 0 };
    gg_limit(seconds);
    gg_variable("GYRE_RANK", rank);
    gg_variable("GYRE_LOCAL_RANK", rank);
    gg_variable("GYRE_RANKS", GG_RANKS);
    gg_variable("GYRE_LOCAL_RANKS", GG_RANKS);
    setenv("GYRE_JOB", name, 1);
    gyre_job_config_default(&wait);
    wait.wait_seconds = seconds * GG_WALL * 2;
    if (gyre_job_open(&ranks, &wait, &error) != GYRE_OK) {
        gg_shared->out[1][rank].status = error.status;
        snprintf(gg_shared->out[1][rank].text, sizeof gg_shared->out[1][rank].text, "%s", error.text);
        _exit(0);
    }
    gg_rank(job, ranks);
    gyre_job_close(ranks);
    exit(0);
}

/* How a process came to its end. 0: by itself, with nothing to say. */
static int gg_end(int status, const struct gp_case *c, double seconds, char why[GC_WHY])
{
    static const char *const solvers[] = { "automatic", "sdca", "newton", "l1" };
    const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0, code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    const char *const kind = signal == SIGALRM ? "hang" : signal == SIGPROF ? "slow" : "crash";
    if (signal || code)
        snprintf(why, GC_WHY, "%s (%s): %d ranks, signal %d, exit %d within %g seconds of processor time, %g by the clock", kind,
                 solvers[(int)c->option[GP_SOLVER]], (int)c->option[GP_RANKS], signal, code, seconds, seconds * GG_WALL);
    return signal || code;
}

/* 0: all came to an end, by themselves. */
static int gg_ranks(const struct gg_job *job, double seconds, char why[GC_WHY])
{
    static int jobs;
    char name[64];
    pid_t child[GG_RANKS];
    int failed = 0;
    snprintf(name, sizeof name, "t_glm_random %ld %d", (long)getpid(), jobs++);
    fflush(stdout);
    for (int r = 0; r < GG_RANKS; r++) {
        child[r] = fork();
        if (child[r] == 0)
            gg_rank_process(job, r, name, seconds);
    }
    for (int r = 0; r < GG_RANKS; r++) {
        int status = 0;
        if (child[r] < 0 || waitpid(child[r], &status, 0) != child[r])
            return snprintf(why, GC_WHY, "crash (test): a rank could not be started"), 1;
        if (!failed)
            failed = gg_end(status, job->c, seconds, why);
    }
    return failed;
}

/* Both ranks found the same. */
static int gg_ranks_agree(const struct gc_outcome *a, const struct gc_outcome *b, char why[GC_WHY])
{
    int same = a->status == b->status && strcmp(a->why, b->why) == 0 && ga_same(a->objective, b->objective) && ga_same(a->bound, b->bound)
               && a->models == b->models;
    for (int k = 0; k < a->models && k < GP_CLASSES && same; k++)
        same &= memcmp(a->part[k].weight, b->part[k].weight, sizeof a->part[k].weight) == 0 && ga_same(a->part[k].objective, b->part[k].objective);
    if (!same)
        snprintf(why, GC_WHY, "ranks (%s): rank 0 has status %d, %s, %.17g, %.17g; rank 1 %d, %s, %.17g, %.17g or other weights; %.200s", a->solver, a->status,
                 a->why, a->objective, a->bound, b->status, b->why, b->objective, b->bound, b->text);
    return !same;
}

/* ---- planted faults ---- */

/* The first digit of a weight is another one; 0: there is no weight that anything depends on. */
static int gg_break_digit(const struct gc_truth *truth, struct gc_outcome *o)
{
    const struct gt_problem *const t = &truth->problem[0];
    long double most = 0;
    int at = -1;
    for (int j = 0; j < t->width; j++) {
        long double sum = 0;
        for (int i = 0; i < t->rows; i++)
            sum += t->c[i] * fabsl(t->x[i * t->width + j] * (long double)o->part[0].weight[j]);
        at = sum > most ? j : at;
        most = sum > most ? sum : most;
    }
    if (at < 0)
        return 0;
    o->part[0].weight[at] *= 1.5f;
    return 1;
}

/* 0: it cannot have this one. */
static int gg_break(const struct gp_case *c, const struct gc_truth *truth, struct gc_outcome *o, int fault)
{
    struct gc_part *const p = &o->part[0];
    const double upper = (double)truth->optimum[0].upper, gap = c->option[GP_GAP];
    const int decided = truth->undecided == 0 && upper > 0;
    switch (fault) {
    case GG_BOUND: p->bound = upper * (1 + 1e-9); return decided;
    case GG_OBJECTIVE_DOWN: p->objective *= 1 - 1e-9; return p->objective > 1e-20;
    case GG_OBJECTIVE_UP: p->objective *= 1 + 1e-3; return p->objective > 1e-20;
    case GG_DIGIT: return p->objective > 1e-20 && gg_break_digit(truth, o);
    case GG_LIE:
        p->bound = p->objective * (1 - 2 * gap);
        snprintf(o->why, sizeof o->why, "gap");
        snprintf(p->why, sizeof p->why, "gap");
        return p->objective > 1e-20;
    case GG_REFUSED: o->status = GYRE_E_UNSUPPORTED; return 1;
    case GG_NAN: p->weight[0] = NAN; return truth->problem[0].width > 0;
    default: o->objective *= 1.01; return p->objective > 1e-20;
    }
}

static void gg_plant(const struct gp_case *c, const struct gc_truth *truth, const struct gc_outcome *good)
{
    static struct gc_outcome bad;
    char why[GC_WHY];
    if (good->status != GYRE_OK)
        return;
    for (int fault = 0; fault < GG_FAULTS; fault++) {
        bad = *good;
        if (!gg_break(c, truth, &bad, fault))
            continue;
        gg_shared->planted[fault]++;
        gg_shared->seen[fault] += gc_judge(c, truth, &bad, why);
    }
}

/* ---- one problem ---- */

static struct gg_kind *gg_kind_of(const struct gc_outcome *o)
{
    struct gg_kind *k = gg_shared->kind;
    while (k->solver[0] && (strcmp(k->solver, o->solver) != 0 || strcmp(k->why, o->why) != 0) && k + 1 < gg_shared->kind + GG_KINDS)
        k++;
    snprintf(k->solver, sizeof k->solver, "%s", o->solver);
    snprintf(k->why, sizeof k->why, "%s", o->why);
    return k;
}

static void gg_count(const struct gp_case *c, const struct gc_truth *truth, const struct gc_outcome *o)
{
    struct gg_shared *const s = gg_shared;
    s->stopped += s->out[0][0].status == GYRE_E_STOPPED;
    s->refused += !gc_is_model(o);
    if (o->seconds > s->slowest) {
        s->slowest = o->seconds;
        s->slowest_at = s->at;
    }
    if (!gc_is_model(o))
        return;
    struct gg_kind *const k = gg_kind_of(o);
    const int missed = !gc_reaches(c, o);
    const int free_run = !gp_on(c, GP_SOLVER) && c->option[GP_EPOCHS] >= 1000 && !gp_on(c, GP_SECONDS) && !gp_on(c, GP_TARGET) && !gp_on(c, GP_VALIDATION);
    const double distance = missed ? gc_distance(truth, o) : 0;
    k->count++;
    k->missed += missed;
    k->farthest_at = distance > k->farthest ? s->at : k->farthest_at;
    k->farthest = distance > k->farthest ? distance : k->farthest;
    s->missed_auto += missed && free_run;
    if (free_run && distance > GG_NEAR)
        s->far_at[s->far_auto++ % GG_FAR] = s->at;
    for (int p = 0; p < truth->parts && o->verified; p++) {
        s->verified++;
        s->unproved += gc_is_unproved(&o->verdict[p]);
    }
    s->undecided += truth->undecided > 0;
    s->decided += truth->undecided == 0;
    s->streamed += o->streamed;
    s->ranks += o->ranks > 1;
}

/* Judges what is there. 1: *why says what is wrong. */
static int gg_judge(const struct gp_case *c, const struct gc_outcome *o, int counts, char why[GC_WHY])
{
    static struct gc_truth truth;
    int wrong = 0;
    alarm(600);
    if (gc_truth_open(&truth, c, o) != 0)
        return snprintf(why, GC_WHY, "test (none): out of memory"), 1;
    wrong = gc_judge(c, &truth, o, why);
    if (counts && !wrong) {
        gg_count(c, &truth, o);
        gg_plant(c, &truth, o);
    }
    gc_truth_close(&truth);
    return wrong;
}

static int gg_check(const struct gg_job *job, double seconds, char why[GC_WHY])
{
    const struct gp_case *const c = job->c;
    struct gyre_error error = { 0 };
    char run[400];
    struct gc_outcome (*const out)[GG_RANKS] = gg_shared->out;
    memset(out, 0, sizeof gg_shared->out);
    gg_shared->why[0] = 0;
    snprintf(run, sizeof run, "%s/run", gg_folder);
    gg_remove(run);
    if (gp_on(c, GP_SOURCE) && ga_write_blocks(c, gg_folder, &error) != GYRE_OK)
        return snprintf(why, GC_WHY, "conversion (none): %.600s", error.text), 1;
    if (c->option[GP_RANKS] > 1) {
        if (gg_ranks(job, seconds, why) || gg_ranks_agree(&out[1][0], &out[1][1], why) || gg_ranks_agree(&out[0][0], &out[0][1], why))
            return 1;
    } else {
        gg_limit(seconds);
        gg_rank(job, NULL);
        gg_limit(0);
    }
    if (gp_on(c, GP_STOP) && out[0][0].status == GYRE_E_STOPPED && gg_judge(c, &out[0][0], 0, why))
        return 1;
    return gg_judge(c, &out[1][0], job->counts, why);
}

/* What a process that has checked problems says: its last words, or how it ended. */
static int gg_said(int status, const struct gp_case *c, double seconds, char why[GC_WHY])
{
    snprintf(why, GC_WHY, "%s", gg_shared->why);
    return WIFEXITED(status) && why[0] ? WEXITSTATUS(status) != 0 : gg_end(status, c, seconds, why);
}

/* The same in a process of its own. */
static int gg_alone(const struct gg_job *job, double seconds, char why[GC_WHY])
{
    int status = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        /* exit runs a sanitizer's last checks */
        exit(gg_check(job, seconds, gg_shared->why));
    if (child < 0 || waitpid(child, &status, 0) != child)
        return snprintf(why, GC_WHY, "test (none): no process"), 1;
    return gg_said(status, job->c, seconds, why);
}

/* ---- those that fail ---- */

struct gg_failing {
    char why[GC_WHY];
    double seconds;
};

/* "kind (solver" */
static size_t gg_class(const char *why) { return strcspn(why, ":"); }

static int gg_same_class(const char *a, const char *b) { return gg_class(a) == gg_class(b) && strncmp(a, b, gg_class(a)) == 0; }

static int gg_fails(void *user, const struct gp_case *c)
{
    const struct gg_failing *const f = user;
    const struct gg_job job = { c, GG_NONE, 0 };
    char why[GC_WHY];
    return gg_alone(&job, f->seconds, why) && gg_same_class(why, f->why);
}

static void gg_show(const struct gp_case *c, const char *why)
{
    static char text[GP_TEXT];
    gp_print(c, text, sizeof text);
    printf("    %s\n    t_glm_random --one '%s'\n", why, text);
    if (c->rows > 40 || c->weighted)
        return;
    gp_command(c, text, sizeof text);
    printf("    %s\n    d.svm:\n", text);
    gp_svmlight(c, stdout);
}

static void gg_smaller(struct gp_case *c, const char *why)
{
    const int slow = strncmp(why, "hang", 4) == 0 || strncmp(why, "slow", 4) == 0;
    struct gg_failing f = { .seconds = slow ? gg_seconds / 10 : gg_seconds };
    const struct gg_job job = { c, GG_NONE, 0 };
    char last[GC_WHY] = "";
    snprintf(f.why, sizeof f.why, "%s", why);
    if (!gg_alone(&job, f.seconds, last) || !gg_same_class(last, why)) {
        printf("    not again when it runs alone: %s\n", last);
        return;
    }
    const int calls = gp_shrink(c, gg_fails, &f, GG_TRIES, GG_SHRINK_SECONDS);
    gg_alone(&job, f.seconds, last);
    printf("    the smallest that fails so, of %d:\n", calls);
    gg_show(c, last);
}

static struct gp_case gg_case;

struct gg_options {
    uint64_t seed;
    int problems, counted, plain;
    const char *one;
};

/* How often this class has failed, this time counted. */
static int gg_times(const char *why)
{
    static char seen[64][GC_WHY];
    static int count[64], classes;
    int k = 0;
    while (k < classes && !gg_same_class(seen[k], why))
        k++;
    if (k == classes && classes < 64)
        snprintf(seen[classes++], GC_WHY, "%s", why);
    return k < 64 ? ++count[k] : 64;
}

static void gg_failed(const struct gg_options *o, uint64_t seed, const char *why)
{
    printf("problem seed=%" PRIu64 ": %s\n", seed, why);
    gp_draw(&gg_case, seed);
    if (gg_times(why) <= GG_SHRUNK && !o->plain)
        gg_smaller(&gg_case, why);
    fflush(stdout);
}

/* Problems one after the other, in one process until one fails; the next one goes on behind it. */
static int gg_problems(const struct gg_options *o)
{
    int failed = 0;
    for (int i = 0; i < o->problems;) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0) {
            for (; i < o->problems; i++) {
                const struct gg_job job = { &gg_case, GG_NONE, 1 };
                gp_draw(&gg_case, o->seed + (uint64_t)i);
                gg_shared->at = i;
                if (gg_check(&job, gg_seconds, gg_shared->why))
                    exit(1);
            }
            exit(0);
        }
        int status = 0;
        char why[GC_WHY];
        if (child < 0 || waitpid(child, &status, 0) != child)
            return o->problems;
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
            break;
        i = gg_shared->at;
        gp_draw(&gg_case, o->seed + (uint64_t)i);
        gg_said(status, &gg_case, gg_seconds, why);
        gg_failed(o, o->seed + (uint64_t)i, why);
        failed++;
        i++;
    }
    return failed;
}

/* ---- the program ---- */

/* What the test itself must see: a rank that does not come, a process that dies. */
static void gg_planted_ends(void)
{
    static const char rows[] = "features=1 ranks=2 folder=1 | 1 1:1 | -1 1:-1";
    char why[GC_WHY] = "";
    T_CHECK(gp_parse(&gg_case, rows, why, sizeof why) == 0);
    const struct gg_job hangs = { &gg_case, GG_HANGS, 0 }, crashes = { &gg_case, GG_CRASHES, 0 };
    T_CHECK_MSG(gg_alone(&hangs, 0.2, why) && strncmp(why, "hang", 4) == 0, "a rank that does not come: %s", why);
    T_CHECK_MSG(gg_alone(&crashes, 2, why) && strncmp(why, "crash", 5) == 0, "ranks that die: %s", why);
    gg_case.option[GP_RANKS] = 1;
    T_CHECK_MSG(gg_alone(&hangs, 0.2, why) && strncmp(why, "hang", 4) == 0, "one that stands still: %s", why);
}

/* Problems as texts, whose optimum has a closed form or comes from a search in one dimension. */
static const struct {
    const char *text;
    double optimum;
} gg_known[] = {
    { "features=1 loss=squared l2=2 | 3 1:1 | 1 1:1", 3 },                    /* w = 1: 2 + 0 + 1 */
    { "features=1 loss=squared l2=0 l1=1 | 3 1:1", 2.5 },                       /* w = 2: 1/2 + 2 */
    { "features=1 loss=squared l2=1 bias=1 free=1 | 3 1:0 | 5 1:0", 1 },         /* bias 4 */
    { "features=1 loss=hinge l2=1 | 1 1:0.5 | -1", 1.875 },             /* w = 1/2: 3/4 + 1 + 1/8 */
    { "features=1 loss=hinge l2=1e-4 | 1 1:-1 | -1 1:100", 5e-5 }, /* w = -1 */
    { "features=1 loss=squared-hinge l2=2 | 1 1:1 | -1 1:-1", 2.0 / 3 },    /* w = 2/3: 2/9 + 4/9 */
    { "features=0 bias=1 free=1 | 1 | 1 | -1", 1.9095425048844386 },         /* 3 log 3 - 2 log 2 */
    { "features=0 softmax=1 bias=1 free=1 | 1 | 2 | 3", 3.2958368660043291 },    /* 3 log 3 */
};

static void gg_known_optima(void)
{
    for (size_t k = 0; k < GY_COUNT(gg_known); k++) {
        struct gt_problem t;
        struct gt_optimum o = { 0, 0, 0 };
        char why[200] = "";
        const int there = gp_parse(&gg_case, gg_known[k].text, why, sizeof why) == 0 && gt_open(&t, &gg_case, 0, gg_case.features) == 0;
        if (there) {
            gt_optimum_of(&t, 1e7, &o);
            gt_close(&t);
        }
        T_CHECK_MSG(there && o.lower <= (long double)gg_known[k].optimum * (1 + 1e-12L) && o.upper >= (long double)gg_known[k].optimum * (1 - 1e-12L)
                        && o.upper - o.lower < 1e-11L * o.upper, "%s: [%.17Lg, %.17Lg], %.17g is right; %s", gg_known[k].text, o.lower, o.upper,
                    gg_known[k].optimum, why);
    }
}

static int gg_read_options(struct gg_options *o, int argc, char **argv)
{
    *o = (struct gg_options){ .seed = 1, .problems = GG_PROBLEMS, .counted = 1 };
    for (int i = 1; i < argc; i++) {
        const int more = i + 1 < argc;
        if (strcmp(argv[i], "--problems") == 0 && more)
            o->problems = (int)strtol(argv[++i], NULL, 10), o->counted = o->problems >= GG_PROBLEMS;
        else if (strcmp(argv[i], "--seed") == 0 && more)
            o->seed = strtoull(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--one") == 0 && more)
            o->one = argv[++i];
        else if (strcmp(argv[i], "--seconds") == 0 && more)
            gg_seconds = strtod(argv[++i], NULL);
        else if (strcmp(argv[i], "--plain") == 0)
            o->plain = 1;
        else
            return 0;
    }
    return gg_seconds > 0;
}

static int gg_one(const struct gg_options *o)
{
    char why[GC_WHY] = "";
    if (gp_parse(&gg_case, o->one, why, sizeof why) != 0)
        return printf("%s\n", why), 2;
    const struct gg_job job = { &gg_case, GG_NONE, 0 };
    const int failed = gg_alone(&job, gg_seconds, why);
    for (int run = 0; run < 2; run++)
        if (gg_shared->out[run][0].solver[0] || gg_shared->out[run][0].status != GYRE_OK) {
            struct gc_truth truth;
            printf("%s\n", run ? "the end:" : "where it was stopped:");
            if (gc_truth_open(&truth, &gg_case, &gg_shared->out[run][0]) == 0)
                gc_print(&truth, &gg_shared->out[run][0]);
            gc_truth_close(&truth);
        }
    T_CHECK_MSG(!failed, "%s", why);
    if (failed && !o->plain)
        gg_smaller(&gg_case, why);
    T_END("t_glm_random");
}

static void gg_counts(const struct gg_options *o)
{
    const struct gg_shared *const s = gg_shared;
    printf("%d problems: %d refused, %d stopped and resumed, %d streamed, %d by ranks; the slowest took %.2f s (seed=%" PRIu64 ")\n", o->problems, s->refused,
           s->stopped, s->streamed, s->ranks, s->slowest, o->seed + (uint64_t)s->slowest_at);
    printf("without the gap that was asked for, by solver and what it said:\n");
    for (const struct gg_kind *k = s->kind; k < s->kind + GG_KINDS && k->solver[0]; k++)
        printf("    %-16s %-12s %5d, %d without the gap, at most %.3g of it above the optimum (seed=%" PRIu64 ")\n", k->solver, k->why, k->count, k->missed,
               k->farthest, o->seed + (uint64_t)k->farthest_at);
    printf("automatic choice, as many epochs as it wants: %d without the gap, %d more than %g above the optimum:", s->missed_auto, s->far_auto, GG_NEAR);
    for (int k = 0; k < s->far_auto && k < GG_FAR; k++)
        printf(" seed=%" PRIu64, o->seed + (uint64_t)s->far_at[k]);
    printf("\n");
    printf("the optimum is known of %d, unknown of %d\n", s->decided, s->undecided);
    printf("verified: %d parts, the bound of %d was not proved\n", s->verified, s->unproved);
    T_CHECK_MSG(s->unproved * 100 <= s->verified * GG_UNPROVED + 100, "%d of %d", s->unproved, s->verified);
    for (int k = 0; k < GG_FAULTS; k++) {
        printf("planted: %s: %d, seen %d\n", gg_fault_names[k], s->planted[k], s->seen[k]);
        T_CHECK_MSG(!o->counted || (s->planted[k] > o->problems / 4 && s->seen[k] * 100 >= s->planted[k] * (k == GG_DIGIT || k == GG_OBJECTIVE_UP ? 97 : 100)),
                    "%s: %d of %d", gg_fault_names[k], s->seen[k], s->planted[k]);
    }
    T_CHECK_MSG(!o->counted || s->undecided * 100 <= (s->decided + s->undecided) * GG_UNDECIDED, "%d of %d have no known optimum", s->undecided,
                s->decided + s->undecided);
    T_CHECK_MSG(!o->counted || (s->streamed >= o->problems / 50 && s->ranks >= o->problems / 20 && s->stopped >= o->problems / 50), "%d, %d, %d", s->streamed,
                s->ranks, s->stopped);
}

static int gg_main(const struct gg_options *o)
{
    if (o->one)
        return gg_one(o);
    gg_known_optima();
    gg_planted_ends();
    const int failed = gg_problems(o);
    T_CHECK_MSG(failed == 0, "%d of %d problems", failed, o->problems);
    gg_counts(o);
    T_END("t_glm_random");
}

int main(int argc, char **argv)
{
    struct gg_options o;
    if (!gg_read_options(&o, argc, argv))
        return printf("t_glm_random [--problems N] [--seed S] [--one TEXT] [--seconds X] [--plain]\n"), 2;
    FILE *const file = tmpfile();
    if (!file || ftruncate(fileno(file), sizeof *gg_shared) != 0)
        return printf("no file for what several processes share\n"), 1;
    gg_shared = mmap(NULL, sizeof *gg_shared, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    const char *const tmp = getenv("TMPDIR");
    snprintf(gg_folder, sizeof gg_folder, "%.150s/t_glm_random.XXXXXX", tmp && tmp[0] ? tmp : "/tmp");
    if (gg_shared == MAP_FAILED || !mkdtemp(gg_folder))
        return printf("no memory for what several processes share, or no folder %s\n", gg_folder), 1;
    const int status = gg_main(&o);
    gg_remove(gg_folder);
    return status;
}
