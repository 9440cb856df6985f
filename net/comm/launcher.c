/* SPDX-License-Identifier: MIT */
/* launcher.c: rank and number of ranks as a launcher left them in the environment. The first row
 * whose rank is set decides. A PMIx server alone has no variable with the number of ranks; its
 * other values need its library. There the user sets GYRE_RANKS. */
#include <sys/stat.h>

#include "engine/base/text.h"
#include "net/comm/boot.h"

struct launcher_row {
    const char *launcher, *rank, *ranks, *local, *locals, *host, *port;
    /* Together they tell the launcher's jobs and their restarts apart. A star marks the number of
     * an open file that all ranks have. */
    const char *job[3];
    /* names of its hosts, rank 0's first; the first variable that is set counts */
    const char *nodes[2];
};
static const struct launcher_row launcher_rows[] = {
    {"gyre", "GYRE_RANK", "GYRE_RANKS", "GYRE_LOCAL_RANK", "GYRE_LOCAL_RANKS", "GYRE_MASTER_HOST", "GYRE_MASTER_PORT", {"GYRE_JOB"}, {NULL}},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", NULL, NULL,
     {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", NULL}, {NULL}},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT",
     {"TORCHELASTIC_RUN_ID", "MASTER_PORT", "TORCHELASTIC_RESTART_COUNT"}, {NULL}},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", NULL, NULL,
     {"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}, {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}},
    {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL, NULL, {"PMI_JOBID", "PMI_PORT", "*HYDI_CONTROL_FD"},
     {NULL}},
    {"PMIx", "PMIX_RANK", "GYRE_RANKS", "GYRE_LOCAL_RANK", "GYRE_LOCAL_RANKS", NULL, NULL, {"PMIX_NAMESPACE"}, {NULL}},
};

static int launcher_number(const char *(*get)(const char *), const char *name, int64_t lo, int64_t hi, int *out, struct gy_error *err)
{
    const char *text = name ? get(name) : NULL;
    int64_t value;
    if (!text || text[0] == 0)
        return GY_OK;
    if (gy_text_int(text, lo, hi, &value) != 0)
        return GY_FAIL(err, GY_E_ARG, "%s is \"%s\"; it must be a number from %" PRId64 " to %" PRId64, name, text, lo, hi);
    *out = (int)value;
    return GY_OK;
}

/* Slurm writes 4 or 4(x2) when all hosts have the same number, and 4,2 when they differ. Texts with
 * "(" or "," leave the number unknown. */
static int launcher_locals(const char *(*get)(const char *), const char *name, int *out, struct gy_error *err)
{
    const char *text = name ? get(name) : NULL;
    if (text && strpbrk(text, "(,"))
        return GY_OK;
    return launcher_number(get, name, 1, 4096, out, err);
}

/* Identifies an open file among all files of this host by its inode. The descriptor's number alone
 * would not do: other jobs use it, too. */
static const char *launcher_file(const char *number, char *text, size_t room)
{
    struct stat st;
    int64_t fd;
    if (gy_text_int(number, 0, INT_MAX, &fd) != 0 || fstat((int)fd, &st) != 0)
        return number;
    snprintf(text, room, "%" PRIu64, (uint64_t)st.st_ino);
    return text;
}

static void launcher_job(const char *(*get)(const char *), const struct launcher_row *row, struct gy_net_launcher *p)
{
    size_t at = 0;
    for (size_t i = 0; i < GY_COUNT(row->job) && row->job[i]; i++) {
        const int file = row->job[i][0] == '*';
        const char *value = get(row->job[i] + file);
        char text[32];
        if (file && value)
            value = launcher_file(value, text, sizeof text);
        if (value && value[0] != 0 && at < sizeof p->job)
            at += (size_t)snprintf(p->job + at, sizeof p->job - at, "%s%s", at > 0 ? "/" : "", value);
    }
}

/* The first name of a list like n[01-04,7],m3: n01. Every bracket stands for its first number. */
static int launcher_first(const char *list, char *out, size_t room)
{
    size_t at = 0;
    for (const char *p = list; *p != 0 && *p != ','; p++) {
        const int open = *p == '[';
        const size_t bytes = open ? strcspn(p + 1, "-,]") : 1;
        if (at + bytes >= room)
            return -1;
        memcpy(out + at, p + open, bytes);
        at += bytes;
        if (open && !(p = strchr(p, ']')))
            return -1;
    }
    out[at] = 0;
    return at > 0 ? 0 : -1;
}

/* The host on which rank 0 listens: GYRE_MASTER_HOST or the launcher's own variable, else the first
 * of the launcher's hosts. Every rank finds the same. */
static int launcher_host(const char *(*get)(const char *), const struct launcher_row *row, struct gy_net_launcher *p, struct gy_error *err)
{
    const char *const host = get(row->host ? row->host : "GYRE_MASTER_HOST"), *list = NULL;
    if (host)
        return gy_text_copy(p->host, sizeof p->host, host) == 0
                   ? GY_OK : GY_FAIL(err, GY_E_ARG, "the host name of rank 0 has more than %zu bytes", sizeof p->host - 1);
    for (size_t i = GY_COUNT(row->nodes); i-- > 0;)
        if (row->nodes[i] && get(row->nodes[i]))
            list = get(row->nodes[i]);
    if (list && launcher_first(list, p->host, sizeof p->host) != 0)
        return GY_FAIL(err, GY_E_ARG, "the list of hosts \"%.80s\" of %s does not begin with a name; GYRE_MASTER_HOST says where rank 0 is", list,
                       row->launcher);
    return GY_OK;
}

static int launcher_fill(struct gy_net_launcher *p, const struct launcher_row *row, const char *(*get)(const char *), struct gy_error *err)
{
    p->launcher = row->launcher;
    p->ranks = 0;
    GY_TRY(launcher_number(get, row->rank, 0, 4095, &p->rank, err));
    GY_TRY(launcher_number(get, row->ranks, 1, 4096, &p->ranks, err));
    GY_TRY(launcher_number(get, row->local, 0, 4095, &p->local, err));
    GY_TRY(launcher_locals(get, row->locals, &p->locals, err));
    launcher_job(get, row, p);
    GY_TRY(launcher_number(get, row->port ? row->port : "GYRE_MASTER_PORT", 1, 65535, &p->port, err));
    GY_TRY(launcher_host(get, row, p, err));
    if (p->ranks == 0)
        return GY_FAIL(err, GY_E_ARG, "%s says rank %d (%s), but not how many there are: %s is not set", row->launcher, p->rank, row->rank, row->ranks);
    if (p->rank >= p->ranks)
        return GY_FAIL(err, GY_E_ARG, "%s says rank %d of %d ranks (%s, %s)", row->launcher, p->rank, p->ranks, row->rank, row->ranks);
    return GY_OK;
}

GY_INT int gy_net_launcher_read(struct gy_net_launcher *out, const char *(*get)(const char *name), struct gy_error *err)
{
    struct gy_net_launcher p = { .ranks = 1, .local = -1, .locals = -1 };
    for (size_t i = 0; i < GY_COUNT(launcher_rows) && !p.launcher; i++) {
        const char *rank = get(launcher_rows[i].rank);
        if (rank && rank[0] != 0)
            GY_TRY(launcher_fill(&p, &launcher_rows[i], get, err));
    }
    *out = p;
    return GY_OK;
}
