/* SPDX-License-Identifier: MIT */
/* t_ranks_same.c: ranks of nets and linear models that no longer have the same end together and say
 * so. A bit of what a rank reads from another host is flipped, at random. No rank continues; all
 * have one sentence, with both ranks, the way and the bucket. A rank has another weight: that is
 * found at the next checkpoint, which is not written. Ranks that have the same continue, also from
 * their last checkpoint. Ranks with parts of a net save where rank 0 has a folder, and end without
 * one. */
#include "engine/gyre_job.h"
#include "tests/data_files.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "engine/base/hash.h"
#include "engine/base/rng.h"
#include "engine/gyre.h"
#include "engine/gyre_glm.h"

static int rs_spoils; /* this rank's linear model becomes another before it is compared */

static uint32_t rs_sum(uint32_t crc, const float *weights, size_t bytes)
{
    float *own;
    memcpy(&own, &weights, sizeof own); /* the model's own memory */
    own[0] = rs_spoils ? nextafterf(own[0], 2) : own[0];
    return gy_crc32(crc, weights, bytes);
}

/* The file of the library with this sum of the weights in place of the library's. */
#define gy_crc32(crc, weights, bytes) rs_sum(crc, weights, bytes)
#include "engine/glm/glm_train.c"
#undef gy_crc32

#define RS_RANKS 4
/* bytes of a read that holds gradients; other messages of the ranks are shorter */
#define RS_LARGE 2048
#define RS_FLIPS 12

struct rs_case {
    const char *name;
    int ranks, odd;          /* odd: the rank with another weight; -1: none */
    const char *hosts, *code; /* GYRE_ALLREDUCE, GYRE_NET_CODE; NULL */
    int flip;                /* number of the large read of rank 1 that is changed; -1: none */
    uint32_t at;             /* which bit of it */
    int resume, glm;
    int parts;               /* 1: the ranks are stages; 2: they have slices of a layer */
    int bare;                /* so many of the last ranks have no folder */
};
struct rs_left {
    int status, reads;
    char text[480];
};
static struct rs_left *rs_left; /* [RS_RANKS], of all processes */

/* ---- what is read ---- */

#ifndef RTLD_NEXT
#define RTLD_NEXT ((void *)-1L) /* POSIX headers hide it */
#endif

static int rs_reads, rs_flip = -1; /* of this process */
static uint32_t rs_at;

static void rs_change(unsigned char *bytes, ssize_t count)
{
    if (count >= RS_LARGE && rs_reads++ == rs_flip)
        bytes[rs_at / 8 % (uint32_t)count] ^= (unsigned char)(1u << rs_at % 8);
}

ssize_t recv(int fd, void *bytes, size_t room, int flags)
{
    ssize_t (*next)(int, void *, size_t, int);
    void *const at = dlsym(RTLD_NEXT, "recv");
    memcpy(&next, &at, sizeof next);
    const ssize_t count = next(fd, bytes, room, flags);
    if (!(flags & MSG_PEEK))
        rs_change(bytes, count);
    return count;
}

ssize_t readv(int fd, const struct iovec *pieces, int count)
{
    ssize_t (*next)(int, const struct iovec *, int);
    void *const at = dlsym(RTLD_NEXT, "readv");
    memcpy(&next, &at, sizeof next);
    const ssize_t bytes = next(fd, pieces, count);
    const size_t first = pieces[0].iov_len;
    if (bytes >= RS_LARGE)
        rs_change(pieces[0].iov_base, bytes < (ssize_t)first ? bytes : (ssize_t)first);
    return bytes;
}

/* ---- ranks ---- */

static void rs_set(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static int rs_train(const struct rs_case *c, struct gyre_net *net, struct gyre_data *data, int rank)
{
    struct gyre_train_config config;
    float weight[5 * 32];
    gyre_train_config_default(&config);
    config.train = data;
    config.epochs = 2;
    config.folder = rank < c->ranks - c->bare ? df_path("run") : NULL;
    config.checkpoint_steps = rank == 0 ? 2 : 0; /* rank 0's is taken */
    config.resume = c->resume;
    config.overwrite = !c->resume;
    if (rank == c->odd) {
        if (gyre_get_tensor(net, "fc.weight", weight, 5 * 32) != GYRE_OK)
            return GYRE_E_BUG;
        weight[7] = nextafterf(weight[7], 2);
        if (gyre_set_tensor(net, "fc.weight", weight, 5 * 32) != GYRE_OK)
            return GYRE_E_BUG;
    }
    rs_reads = 0;
    rs_flip = rank == 1 ? c->flip : -1;
    rs_at = c->at;
    const int status = gyre_train(net, &config);
    rs_flip = -1;
    return status;
}

static int rs_glm(const struct rs_case *c, struct gyre_job *job, int rank, struct gyre_error *error)
{
    static int64_t start[401];
    static uint32_t id[800];
    static float value[800], label[400];
    struct gyre_glm_data rows;
    struct gyre_glm_config config;
    struct gyre_glm *model = NULL;
    for (int i = 0; i < 400; i++) {
        id[2 * i] = (uint32_t)i % 5;
        id[2 * i + 1] = 5 + (uint32_t)(i * 7) % 6;
        value[2 * i] = value[2 * i + 1] = 1;
        label[i] = (i * 11) % 13 > i % 5 ? 1.0f : -1.0f;
        start[i + 1] = 2 * (i + 1);
    }
    gyre_glm_data_default(&rows);
    rows.rows = 400;
    rows.start = start;
    rows.id = id;
    rows.value = value;
    rows.label = label;
    gyre_glm_config_default(&config);
    config.train = &rows;
    config.threads = 1;
    config.job = job;
    config.gap = 0.01;
    rs_spoils = rank == c->odd;
    const int status = gyre_glm_train(&model, &config, NULL, error);
    gyre_glm_close(model);
    return status;
}

static void rs_rank(const struct rs_case *c, int rank, const char *name)
{
    const struct gyre_job_config wait = { .size = sizeof wait, .wait_seconds = 30,
                                          .messages = c->parts > 0 };
    struct rs_left *const left = &rs_left[rank];
    struct gyre_config config;
    struct gyre_data_config d;
    struct gyre_error error = { 0 };
    struct gyre_job *job = NULL;
    struct gyre_net *net = NULL;
    struct gyre_data *data = NULL;
    rs_set("GYRE_RANK", rank);
    rs_set("GYRE_LOCAL_RANK", rank);
    rs_set("GYRE_RANKS", c->ranks);
    rs_set("GYRE_LOCAL_RANKS", c->ranks);
    setenv("GYRE_JOB", name, 1);
    if (c->hosts)
        setenv("GYRE_ALLREDUCE", c->hosts, 1);
    if (c->code)
        setenv("GYRE_NET_CODE", c->code, 1);
    gyre_config_default(&config);
    config.net = "input 8x8x1\nconv 32 3x3\nrelu\nconv 32 3x3\nrelu\ngap\nfc: linear 5\nsoftmax\n";
    if (c->parts == 1)
        config.pipeline = config.accumulate = 2;
    if (c->parts == 2)
        config.net = "input 8x8x1\nconv 4 3x3\nrelu\ngap\nlinear 6 split\nlinear 5\nsoftmax\n";
    config.batch = 4;
    config.input = GYRE_INPUT_U8;
    config.threads = 1;
    config.bucket_bytes = 8192;
    gyre_data_config_default(&d);
    d.path = df_root;
    d.split = "train";
    left->status = gyre_job_open(&job, &wait, &error);
    config.job = job;
    if (left->status == GYRE_OK && c->glm) {
        left->status = rs_glm(c, job, rank, &error);
        memcpy(left->text, error.text, sizeof left->text);
        gyre_job_close(job);
        return;
    }
    if (left->status == GYRE_OK)
        left->status = gyre_open_data(&data, &d, &error);
    if (left->status == GYRE_OK)
        left->status = gyre_open(&net, &config, &error);
    if (left->status == GYRE_OK) {
        left->status = rs_train(c, net, data, rank);
        error = *gyre_last_error(net);
    }
    left->reads = rs_reads;
    memcpy(left->text, left->status == GYRE_OK ? "" : error.text, left->status == GYRE_OK ? 1 : sizeof left->text);
    gyre_close(net);
    gyre_close_data(data);
    gyre_job_close(job);
}

static void rs_run(const struct rs_case *c)
{
    static int jobs;
    char name[64];
    snprintf(name, sizeof name, "t_ranks_same %ld %d", (long)getpid(), jobs++);
    memset(rs_left, 0, RS_RANKS * sizeof *rs_left);
    fflush(stdout);
    for (int r = 0; r < c->ranks; r++)
        if (fork() == 0) {
            rs_rank(c, r, name);
            _exit(0);
        }
    for (int r = 0; r < c->ranks; r++) {
        int code = -1;
        wait(&code);
        T_CHECK_MSG(WIFEXITED(code) && WEXITSTATUS(code) == 0, "%s: a rank's process ended with %d", c->name, code);
    }
}

static int rs_has_checkpoint(void)
{
    char path[1024];
    return gyre_find_checkpoint(df_path("run"), path, sizeof path, NULL) == GYRE_OK;
}

/* All ranks end with GYRE_E_PEER and rank 0's sentence. */
static void rs_check_all(const struct rs_case *c)
{
    for (int r = 0; r < c->ranks; r++)
        T_CHECK_MSG(rs_left[r].status == GYRE_E_PEER && strcmp(rs_left[r].text, rs_left[0].text) == 0, "%s: rank %d says %d, '%s'; rank 0 '%s'", c->name,
                    r, rs_left[r].status, rs_left[r].text, rs_left[0].text);
}

/* ---- cases ---- */

static void rs_check_weights(const char *hosts)
{
    static const struct {
        int ranks, odd;
        const char *says;
    } rows[] = { { 2, 1, "rank 1 has not the same as rank 0: the weights after step 2, of which no checkpoint is written" },
                 { 2, 0, "rank 1 has not the same as rank 0: the weights after step 2, of which no checkpoint is written" },
                 { 3, 2, "rank 2 has not the same as rank 0: the weights after step 2" },
                 { 4, 0, "ranks 1, 2, 3 have not the same as rank 0: the weights after step 2" } };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        struct rs_case c = { .name = "another weight", .ranks = rows[i].ranks, .odd = rows[i].odd, .hosts = hosts, .flip = -1 };
        df_remove(df_path("run"));
        rs_run(&c);
        rs_check_all(&c);
        T_CHECK_MSG(strncmp(rs_left[0].text, rows[i].says, strlen(rows[i].says)) == 0 && !rs_has_checkpoint(), "%d ranks: '%s', %s checkpoint",
                    rows[i].ranks, rs_left[0].text, rs_has_checkpoint() ? "a" : "no");
    }
}

static void rs_check_models(void)
{
    for (int odd = -1; odd < 3; odd++) {
        const struct rs_case c = { .name = "another linear model", .ranks = 3, .odd = odd, .flip = -1, .glm = 1 };
        const char *const says = odd == 0 ? "ranks 1, 2 have not the same as rank 0" : odd == 1 ? "rank 1 has not the same as rank 0"
                                                                                                  : "rank 2 has not the same as rank 0";
        rs_run(&c);
        if (odd >= 0) {
            rs_check_all(&c);
            T_CHECK_MSG(strncmp(rs_left[0].text, says, strlen(says)) == 0 && strstr(rs_left[0].text, ": the weights of the linear model"), "'%s'",
                        rs_left[0].text);
        }
        for (int r = 0; odd < 0 && r < c.ranks; r++)
            T_CHECK_MSG(rs_left[r].status == GYRE_OK, "%s: rank %d says %d, '%s'", c.name, r, rs_left[r].status, rs_left[r].text);
    }
}

static void rs_check_good(const char *hosts)
{
    struct rs_case c = { .name = "the same weights", .ranks = 2, .odd = -1, .hosts = hosts, .flip = -1 };
    for (c.resume = 0; c.resume < 2; c.resume++) { /* the second run finds all steps done */
        rs_run(&c);
        for (int r = 0; r < c.ranks; r++)
            T_CHECK_MSG(rs_left[r].status == GYRE_OK, "%s, rank %d: %d, '%s'", c.name, r, rs_left[r].status, rs_left[r].text);
        T_CHECK(rs_has_checkpoint());
    }
}

/* Rank 0's folder decides whether the others lend it their weights. */
static void rs_check_parts(void)
{
    struct rs_case c = { .name = "parts of a net", .ranks = 2, .odd = -1, .flip = -1 };
    for (c.parts = 1; c.parts <= 2; c.parts++)
        for (c.bare = 0; c.bare <= 2; c.bare++) {
            df_remove(df_path("run"));
            rs_run(&c);
            for (int r = 0; r < c.ranks; r++)
                T_CHECK_MSG(rs_left[r].status == GYRE_OK,
                            "%s %d, %d without a folder, rank %d: %d, '%s'", c.name, c.parts,
                            c.bare, r, rs_left[r].status, rs_left[r].text);
            T_CHECK_MSG(rs_has_checkpoint() == (c.bare < 2),
                        "%s %d, %d without a folder: %s checkpoint", c.name, c.parts, c.bare,
                        rs_has_checkpoint() ? "a" : "no");
        }
}

static void rs_check_flips(const char *code)
{
    struct rs_case c = { .name = "a bit of what was read", .ranks = 2, .odd = -1, .hosts = "flat/", .code = code, .flip = -1 };
    int buckets = 0;
    rs_run(&c);
    const int reads = rs_left[1].reads;
    T_CHECK_MSG(rs_left[0].status == GYRE_OK && rs_left[1].status == GYRE_OK && reads > 10, "%d, %d: %s; %d reads", rs_left[0].status, rs_left[1].status,
                rs_left[1].text, reads);
    for (uint32_t k = 0; k < RS_FLIPS && reads > 0; k++) {
        uint32_t words[4];
        gy_rng_words(51, k, 0, 0, words);
        /* half the reads: how data is cut into reads differs a little from run to run */
        c.flip = (int)(words[0] % (uint32_t)(reads / 2));
        c.at = words[1];
        rs_run(&c);
        rs_check_all(&c);
        T_CHECK_MSG(strncmp(rs_left[0].text, "rank 1 got a ", 13) == 0 && strstr(rs_left[0].text, " from rank 0 by TCP, ") &&
                        strstr(rs_left[0].text, "is not what was sent (tag "), "flip %u at read %d: '%s'", k, c.flip, rs_left[0].text);
        buckets += strstr(rs_left[0].text, ", bucket ") != NULL;
    }
    T_CHECK_MSG(buckets > RS_FLIPS / 2, "%d of %d name a bucket", buckets, RS_FLIPS);
}

int main(void)
{
    FILE *const file = tmpfile();
    rs_left = file && ftruncate(fileno(file), RS_RANKS * sizeof *rs_left) == 0
                  ? mmap(NULL, RS_RANKS * sizeof *rs_left, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0) : MAP_FAILED;
    if (!T_CHECK(rs_left != MAP_FAILED))
        return 1;
    setenv("GYRE_TRANSPORT", "tcp", 1);
    df_open();
    df_write_idx("train", 40, 8, 8, 5);
    rs_check_good(NULL);
    rs_check_good("flat/");
    rs_check_weights(NULL);
    rs_check_weights("flat/");
    rs_check_models();
    rs_check_parts();
    rs_check_flips("crc");
    rs_check_flips("hmac");
    df_remove(df_root);
    T_END("t_ranks_same");
}
