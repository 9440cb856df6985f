/* SPDX-License-Identifier: MIT */
/* t_net_boot.c: how ranks find each other: codes against the RFC's vectors, launchers' variables,
 * keys in files. Then processes: gathering, fields that differ, a wrong key, strangers with noise
 * or silence, crowds of them. Also ranks of an earlier start, and a process that may open no more
 * files. */
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "net/comm/boot.h"
#include "net/transport/socket.h"
#include "net/transport/tcp_handshake.h"
#include "tests/t.h"

#define BOOT_WAIT 10000000000LL

static void boot_hmac(void)
{
    unsigned char key[GY_NET_KEY_BYTES] = {0}, mac[GY_NET_MAC_BYTES];
    char hex[65];
    memset(key, 0x0b, 20);
    const struct gy_net_part hi[] = {{"Hi ", 3}, {"There", 5}};
    gy_net_hmac(key, hi, 2, mac);
    gy_sha256_hex(mac, hex);
    T_CHECK(strcmp(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7") == 0);
    memset(key, 0, sizeof key);
    memcpy(key, "Jefe", 4);
    const struct gy_net_part want = {"what do ya want for nothing?", 28};
    gy_net_hmac(key, &want, 1, mac);
    gy_sha256_hex(mac, hex);
    T_CHECK(strcmp(hex, "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843") == 0);
}

/* name, value, ..., NULL: set before each use, by one thread */
static const char *const *boot_variables;

static const char *boot_get(const char *name)
{
    for (const char *const *v = boot_variables; *v != NULL; v += 2)
        if (strcmp(*v, name) == 0)
            return v[1];
    return NULL;
}

static int boot_place_of(const char *const *variables, struct gy_net_launcher *p)
{
    struct gy_error err = {0};
    boot_variables = variables;
    return gy_net_launcher_read(p, boot_get, &err);
}

static void boot_places(void)
{
    const char *const none[] = {NULL}, *const ompi[] = {"OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_SIZE", "8", "OMPI_COMM_WORLD_LOCAL_RANK", "1",
                                                        "GYRE_MASTER_HOST", "node7", "GYRE_MASTER_PORT", "4711", NULL};
    const char *const torch[] = {"RANK", "1", "WORLD_SIZE", "2", "MASTER_ADDR", "10.0.0.1", "MASTER_PORT", "29500", NULL};
    const char *const bad[] = {"SLURM_PROCID", "4", "SLURM_NTASKS", "4", NULL}, *const word[] = {"PMI_RANK", "one", "PMI_SIZE", "4", NULL};
    const char *const first[] = {"GYRE_RANK", "0", "GYRE_RANKS", "2", "RANK", "5", "WORLD_SIZE", "6", NULL};
    struct gy_net_launcher p;
    T_CHECK(boot_place_of(none, &p) == GY_OK && p.ranks == 1 && p.rank == 0 && !p.launcher);
    T_CHECK(boot_place_of(ompi, &p) == GY_OK && p.ranks == 8 && p.rank == 3 && p.local == 1 && p.port == 4711 && strcmp(p.host, "node7") == 0);
    T_CHECK(boot_place_of(torch, &p) == GY_OK && p.ranks == 2 && p.port == 29500 && strcmp(p.launcher, "torchrun") == 0);
    T_CHECK(boot_place_of(first, &p) == GY_OK && p.ranks == 2 && strcmp(p.launcher, "gyre") == 0);
    T_CHECK(boot_place_of(bad, &p) == GY_E_ARG);
    T_CHECK(boot_place_of(word, &p) == GY_E_ARG);
}

/* Where rank 0 is, out of Slurm's list of hosts; what was said goes before it. */
static void boot_lists(void)
{
    static const char *const rows[][2] = {
        {"n1", "n1"}, {"n[01-04,7],m3", "n01"}, {"n[7,01-04]", "n7"}, {"rack[1-2]-node[03-05].site", "rack1-node03.site"}, {"a,b", "a"}, {"n[12]", "n12"},
        {",b", NULL}, {"n[1-2", NULL}, {"", NULL}, {"n[", NULL},
    };
    struct gy_net_launcher p;
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const char *const list[] = {"SLURM_PROCID", "1", "SLURM_NTASKS", "4", "SLURM_JOB_NODELIST", rows[i][0], NULL};
        const int status = boot_place_of(list, &p);
        T_CHECK_MSG(rows[i][1] ? status == GY_OK && strcmp(p.host, rows[i][1]) == 0 : status == GY_E_ARG, "%s: %d %s", rows[i][0], status, p.host);
    }
    const char *const both[] = {"SLURM_PROCID", "1", "SLURM_NTASKS", "4", "SLURM_JOB_NODELIST", "n1,n2,n3", "SLURM_STEP_NODELIST", "n[2-3]", NULL};
    const char *const said[] = {"SLURM_PROCID", "1", "SLURM_NTASKS", "4", "SLURM_JOB_NODELIST", "n1,n2", "GYRE_MASTER_HOST", "10.0.0.1", NULL};
    const char *const pmix[] = {"PMIX_RANK", "1", "PMIX_NAMESPACE", "x", NULL}, *const counted[] = {"PMIX_RANK", "1", "GYRE_RANKS", "2", NULL};
    const char *const open[] = {"PMI_RANK", "0", "PMI_SIZE", "2", "HYDI_CONTROL_FD", "0", NULL};
    const char *const closed[] = {"PMI_RANK", "0", "PMI_SIZE", "2", "HYDI_CONTROL_FD", "1000000", NULL};
    struct stat input;
    char inode[32] = "0";
    if (fstat(0, &input) == 0)
        snprintf(inode, sizeof inode, "%" PRIu64, (uint64_t)input.st_ino);
    T_CHECK(boot_place_of(open, &p) == GY_OK && strcmp(p.job, inode) == 0);
    T_CHECK(boot_place_of(closed, &p) == GY_OK && strcmp(p.job, "1000000") == 0);
    T_CHECK(boot_place_of(both, &p) == GY_OK && strcmp(p.host, "n2") == 0);
    T_CHECK(boot_place_of(said, &p) == GY_OK && strcmp(p.host, "10.0.0.1") == 0);
    T_CHECK(boot_place_of(pmix, &p) == GY_E_ARG);
    T_CHECK(boot_place_of(counted, &p) == GY_OK && p.rank == 1 && p.ranks == 2 && strcmp(p.launcher, "PMIx") == 0);
}

static void boot_keys(void)
{
    char path[] = "/tmp/gyre-key-XXXXXX";
    char text[2 * GY_NET_KEY_BYTES + 2];
    unsigned char key[GY_NET_KEY_BYTES], again[GY_NET_KEY_BYTES];
    struct gy_error err = {0};
    const int fd = mkstemp(path);
    if (!T_CHECK(fd >= 0))
        return;
    T_CHECK(gy_net_random(key, sizeof key, &err) == GY_OK);
    gy_net_key_text(key, text);
    T_CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text) && close(fd) == 0);
    T_CHECK(gy_net_key_read(path, again, &err) == GY_OK && memcmp(key, again, sizeof key) == 0);
    T_CHECK(chmod(path, 0644) == 0 && gy_net_key_read(path, again, &err) == GY_E_ARG);
    T_CHECK(chmod(path, 0600) == 0 && truncate(path, 63) == 0 && gy_net_key_read(path, again, &err) == GY_E_FORMAT);
    FILE *const file = fopen(path, "r");
    T_CHECK(file && gy_net_key_take(fileno(file), again, &err) == GY_E_IO &&
            strstr(err.text, "gives 63") && strstr(err.text, "one job"));
    if (file)
        fclose(file);
    unlink(path);
}

/* ---- processes ---- */

struct boot_world {
    struct gy_net_boot_config config;
    int kind;           /* enum boot_kind */
};
enum boot_kind { BOOT_RIGHT, BOOT_FIELD, BOOT_KEY, BOOT_EPOCH, BOOT_DEATH, BOOT_EARLY };

/* All ranks of one start have the same secret. No other start and no other purpose has it. Returns
 * whether the ranks' secrets are equal. */
static int boot_secrets(struct gy_net_boot *boot, int ranks)
{
    struct gy_error err = {0};
    unsigned char key[3][GY_NET_KEY_BYTES], all[16][GY_NET_KEY_BYTES];
    static const char *const purposes[] = {"a purpose", "a purpose", "another purpose"};
    int right = 1;
    for (int k = 0; k < 3 && right; k++) {
        right = gy_net_boot_secret(boot, purposes[k], key[k], &err) == GY_OK && gy_net_boot_gather(boot, key[k], sizeof key[k], all, &err) == GY_OK;
        for (int r = 0; r < ranks; r++)
            right = right && memcmp(all[r], key[k], sizeof key[k]) == 0;
    }
    const int apart = memcmp(key[0], key[1], sizeof key[0]) != 0 && memcmp(key[1], key[2], sizeof key[0]) != 0;
    return right && apart;
}

static int boot_talk(struct gy_net_boot *boot, int rank, int ranks, int kind)
{
    struct gy_error err = {0};
    uint32_t own = 1000u + (uint32_t)rank, all[16];
    int right = 1;
    for (int round = 0; round < 20; round++, own += 7) {
        right &= gy_net_boot_gather(boot, &own, sizeof own, all, &err) == GY_OK;
        for (int r = 0; r < ranks; r++)
            right &= all[r] == own - (uint32_t)rank + (uint32_t)r;
    }
    const struct gy_net_field fields[] = {{"version", "1.2"}, {"seed", kind == BOOT_FIELD && rank == 2 ? "8" : "7"}};
    const int status = gy_net_boot_compare(boot, fields, 2, &err);
    right &= boot_secrets(boot, ranks);
    if (kind != BOOT_FIELD)
        return right && status == GY_OK;
    return right && status == GY_E_MISMATCH && strstr(err.text, "seed") && strstr(err.text, "rank 2");
}

/* Rank 2 dies between two exchanges: every other rank has the same sentence. */
static int boot_bereaved(struct gy_net_boot *boot, int rank)
{
    struct gy_error err = {0};
    uint32_t own = 1, all[16];
    if (gy_net_boot_gather(boot, &own, sizeof own, all, &err) != GY_OK)
        return 0;
    if (rank == 2)
        raise(SIGKILL);
    const int status = gy_net_boot_gather(boot, &own, sizeof own, all, &err);
    const int right = status == GY_E_PEER && strncmp(err.text, "rank 2 was lost while the ranks met: ", 37) == 0;
    if (!right)
        fprintf(stderr, "rank %d: %d %s\n", rank, status, err.text);
    return right;
}

/* Rank 2 comes and dies; rank 3 never comes: rank 1 hears of it. */
static int boot_came(struct gy_net_boot *boot, int rank, int status, struct gy_error *err)
{
    uint32_t own = 1, all[16];
    if (status != GY_OK || rank == 2)
        raise(SIGKILL);
    return gy_net_boot_gather(boot, &own, sizeof own, all, err) == GY_E_PEER && strncmp(err->text, "rank 2 was lost while the ranks met: it came", 44) == 0;
}

static int boot_child(struct boot_world *w, int rank, int port)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_boot *boot = NULL;
    int all[4];
    w->config.place.rank = rank;
    w->config.place.port = port;
    w->config.listener = -1;
    /* rank 0 is late, as on a loaded machine; its sentence still comes */
    w->config.wait_ns -= w->kind == BOOT_KEY || w->kind == BOOT_EPOCH ? 500000000 : 0;
    w->config.key[0] ^= w->kind == BOOT_KEY && rank == 1;
    w->config.epoch += w->kind == BOOT_EPOCH && rank == 1;
    if (w->kind == BOOT_EARLY && rank == 3)
        return 1;
    const int status = gy_net_boot_open(&boot, &w->config, &alloc, &err);
    /* rank 2 waits for the others, until rank 0 gives up */
    if (w->kind == BOOT_KEY || w->kind == BOOT_EPOCH)
        return rank == 1 ? status == GY_E_MISMATCH || status == GY_E_PEER
                         : status == GY_OK && gy_net_boot_gather(boot, &rank, sizeof rank, all, &err) == GY_E_PEER &&
                               strncmp(err.text, "1 of 3 ranks did not come", 25) == 0;
    if (w->kind == BOOT_EARLY)
        return boot_came(boot, rank, status, &err);
    const int right = status == GY_OK && (w->kind == BOOT_DEATH ? boot_bereaved(boot, rank) : boot_talk(boot, rank, w->config.place.ranks, w->kind));
    gy_net_boot_close(boot);
    return right;
}

static int boot_server(struct boot_world *w, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_boot *boot = NULL;
    const int status = gy_net_boot_open(&boot, &w->config, &alloc, err);
    const int right = status == GY_OK && (w->kind == BOOT_DEATH ? boot_bereaved(boot, 0) : boot_talk(boot, 0, w->config.place.ranks, w->kind));
    gy_net_boot_close(boot);
    return status != GY_OK ? status : right;
}

/* Strangers come before and between the ranks: noise, and one that sends a byte and waits. */
static void boot_strangers(int port)
{
    struct gy_error err = {0};
    unsigned char noise[48];
    int fd;
    memset(noise, 0x55, sizeof noise);
    for (int k = 0; k < 3; k++) {
        if (gy_net_connect("127.0.0.1", port, gy_clock_ns() + BOOT_WAIT, &fd, &err) != GY_OK)
            continue;
        gy_net_write(fd, noise, k == 2 ? 1 : sizeof noise, gy_clock_ns() + BOOT_WAIT, &err);
        if (k < 2)
            close(fd); /* the third stays open, silent, until this process ends */
    }
}

static void boot_world_run(int ranks, int kind, int strangers)
{
    struct boot_world w = { .kind = kind };
    struct gy_error err = {0};
    int port = 0, bad = 0;
    pid_t pids[8] = {0};
    w.config = (struct gy_net_boot_config){ .place = { .ranks = ranks }, .wait_ns = kind == BOOT_KEY || kind == BOOT_EPOCH ? 3000000000 : BOOT_WAIT,
                                           .epoch = 4 };
    memset(w.config.key, 0x42, sizeof w.config.key);
    if (!T_CHECK(gy_net_listen(NULL, 0, &w.config.listener, &port, &err) == GY_OK))
        return;
    fflush(stdout);
    for (int r = strangers ? 0 : 1; r < ranks; r++)
        if ((pids[r] = fork()) == 0) {
            close(w.config.listener);
            if (r == 0) {
                boot_strangers(port);
                pause();
            }
            _exit(boot_child(&w, r, port) ? 0 : 1);
        }
    const int status = boot_server(&w, &err);
    for (int r = 1; r < ranks; r++) {
        int code = -1;
        waitpid(pids[r], &code, 0);
        bad += (kind == BOOT_DEATH || kind == BOOT_EARLY) && r == 2 ? !WIFSIGNALED(code) : !WIFEXITED(code) || WEXITSTATUS(code) != 0;
    }
    if (strangers) {
        kill(pids[0], SIGKILL);
        waitpid(pids[0], NULL, 0);
    }
    const int wanted = kind == BOOT_KEY || kind == BOOT_EPOCH || kind == BOOT_EARLY ? GY_E_PEER : 1;
    T_CHECK_MSG(status == wanted && bad == 0, "%d ranks, case %d: %d, %d bad: %s", ranks, kind, status, bad, err.text);
    if (kind == BOOT_KEY)
        T_CHECK_MSG(strstr(err.text, "rank 1 first; a caller that says it is rank 1 was sent away: it has another key") != NULL, "%s", err.text);
    if (kind == BOOT_EARLY)
        T_CHECK_MSG(strcmp(err.text, "rank 2 was lost while the ranks met: it came and has ended") == 0, "%s", err.text);
    if (kind == BOOT_EPOCH)
        T_CHECK_MSG(strstr(err.text, "sent away: it is of another start of the job") != NULL, "%s", err.text);
}

/* ---- crowds ---- */

#define BOOT_CROWD 300

/* Strangers call the port and stay: they say nothing, or that they are rank 1, and no more. */
static void boot_crowd(int port, int count, int names, int fds[BOOT_CROWD])
{
    const struct gy_net_handshake_hello hello = { .magic = {'G', 'Y', 'R', 'E'}, .version = 3, .epoch = 4, .ranks = 4, .from = 1 };
    for (int k = 0; k < count; k++) {
        fds[k] = -1;
        if (gy_net_connect("127.0.0.1", port, gy_clock_ns() + 100000000, &fds[k], NULL) == GY_OK && names)
            gy_net_write(fds[k], &hello, sizeof hello, gy_clock_ns() + BOOT_WAIT, NULL);
    }
}

static void boot_crowded(int names)
{
    struct boot_world w = { .kind = BOOT_RIGHT };
    struct gy_error err = {0};
    int port = 0, bad = 0, fds[BOOT_CROWD];
    pid_t pids[4];
    w.config = (struct gy_net_boot_config){ .place = { .ranks = 4 }, .wait_ns = BOOT_WAIT, .epoch = 4 };
    memset(w.config.key, 0x42, sizeof w.config.key);
    if (!T_CHECK(gy_net_listen(NULL, 0, &w.config.listener, &port, &err) == GY_OK))
        return;
    boot_crowd(port, BOOT_CROWD, names, fds);
    fflush(stdout);
    for (int r = 1; r < 4; r++)
        if ((pids[r] = fork()) == 0)
            _exit(boot_child(&w, r, port) ? 0 : 1);
    const int64_t began = gy_clock_ns();
    const int status = boot_server(&w, &err);
    const double seconds = (double)(gy_clock_ns() - began) * 1e-9;
    for (int r = 1; r < 4; r++) {
        int code = -1;
        waitpid(pids[r], &code, 0);
        bad += !WIFEXITED(code) || WEXITSTATUS(code) != 0;
    }
    for (int k = 0; k < BOOT_CROWD; k++)
        if (fds[k] >= 0)
            close(fds[k]);
    T_CHECK_MSG(status == 1 && bad == 0 && seconds < 5, "%d strangers who %s: %d, %d bad, %.1f s: %s", BOOT_CROWD, names ? "name a rank" : "say nothing",
                status, bad, seconds, err.text);
}

/* ---- no more files ---- */

/* Processor seconds of this process. */
static double boot_spent(void)
{
    struct rusage used;
    getrusage(RUSAGE_SELF, &used);
    return (double)used.ru_utime.tv_sec + (double)used.ru_stime.tv_sec + (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* Rank 0 may open so many files more, and strangers may call. */
static int boot_starve(int room, struct gy_net_boot_config *config)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_boot *boot = NULL;
    struct gy_error err = {0};
    struct rlimit limit;
    int all[2], own = 0;
    const int next = dup(config->listener);
    close(next);
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = (rlim_t)(next + room);
    setrlimit(RLIMIT_NOFILE, &limit);
    const double before = boot_spent();
    const int64_t began = gy_clock_ns();
    const int status = gy_net_boot_open(&boot, config, &alloc, &err);
    const double spent = boot_spent() - before, seconds = (double)(gy_clock_ns() - began) * 1e-9;
    const int good = (room > 0 ? status == GY_OK && gy_net_boot_gather(boot, &own, sizeof own, all, &err) == GY_OK
                               : status == GY_E_IO && strcmp(err.text, "other ranks cannot be let in: Too many open files") == 0) &&
                     spent < 0.3 && seconds < 4;
    if (!good)
        printf("    %d, '%s' after %.1f s, in which the processor worked for %.2f\n", status, err.text, seconds, spent);
    gy_net_boot_close(boot);
    return good;
}

/* Rank 1, behind a crowd. */
static int boot_behind(int port, int room, int strangers, struct gy_net_boot_config *config)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_boot *boot = NULL;
    struct gy_error err = {0};
    int all[2], own = 1, fds[BOOT_CROWD];
    boot_crowd(port, strangers, 0, fds);
    config->place.rank = 1;
    config->place.port = port;
    config->wait_ns = room > 0 ? BOOT_WAIT / 2 : BOOT_WAIT / 8;
    const int status = gy_net_boot_open(&boot, config, &alloc, &err);
    return status == GY_OK && gy_net_boot_gather(boot, &own, sizeof own, all, &err) == GY_OK;
}

static void boot_starved(int room, int strangers)
{
    struct gy_net_boot_config config = { .place = { .ranks = 2 }, .wait_ns = BOOT_WAIT, .epoch = 4 };
    struct gy_error err = {0};
    int port = 0, code = -1;
    pid_t pids[2];
    memset(config.key, 0x42, sizeof config.key);
    if (!T_CHECK(gy_net_listen(NULL, 0, &config.listener, &port, &err) == GY_OK))
        return;
    fflush(stdout);
    for (int r = 0; r < 2; r++)
        if ((pids[r] = fork()) == 0) {
            const int good = r == 0 ? boot_starve(room, &config) : boot_behind(port, room, strangers, &config);
            fflush(stdout);
            _exit(good ? 0 : 1);
        }
    close(config.listener);
    for (int r = 0; r < 2; r++) {
        waitpid(pids[r], &code, 0);
        T_CHECK_MSG((WIFEXITED(code) && WEXITSTATUS(code) == 0) == (r == 0 || room > 0), "rank %d, %d files free, %d strangers", r, room, strangers);
    }
}

static void boot_addresses(void)
{
    char host[16];
    int port;
    struct gy_error err = {0};
    T_CHECK(gy_net_address("node1:4000", host, sizeof host, &port, &err) == GY_OK && strcmp(host, "node1") == 0 && port == 4000);
    T_CHECK(gy_net_address("[::1]:80", host, sizeof host, &port, &err) == GY_OK && strcmp(host, "::1") == 0);
    T_CHECK(gy_net_address("node1", host, sizeof host, &port, &err) == GY_E_ARG);
    T_CHECK(gy_net_address("a-name-that-is-long:1", host, sizeof host, &port, &err) == GY_E_ARG);
    T_CHECK(gy_net_address("node1:70000", host, sizeof host, &port, &err) == GY_E_ARG);
    T_CHECK(gy_net_connect("127.0.0.1", 1, gy_clock_ns() + 100000000, &port, &err) == GY_E_PEER);
}

int main(void)
{
    boot_hmac();
    boot_places();
    boot_lists();
    boot_keys();
    boot_addresses();
    boot_world_run(1, BOOT_RIGHT, 0);
    boot_world_run(4, BOOT_RIGHT, 0);
    boot_world_run(4, BOOT_RIGHT, 1);
    boot_world_run(4, BOOT_FIELD, 0);
    boot_world_run(3, BOOT_KEY, 0);
    boot_world_run(3, BOOT_EPOCH, 0);
    boot_world_run(4, BOOT_DEATH, 0);
    boot_world_run(4, BOOT_EARLY, 0);
    boot_crowded(0);
    boot_crowded(1);
    boot_starved(0, 0);
    boot_starved(4, 40);
    T_END("t_net_boot");
}
