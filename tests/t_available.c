/* SPDX-License-Identifier: MIT */
/* t_available.c: how much memory there is, from control groups of both versions, in a folder that
 * looks like the system's. Memory that the machine does not have is not taken. */
#include "tests/data_files.h"

#include "engine/base/mem.h"
#include "engine/gyre_glm.h"

/* A file below the test's folder, which has proc and sys as the system has them. */
static void av_says(const char *name, const char *text)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s", df_path(name));
    *strrchr(folder, '/') = 0;
    T_CHECK(gy_file_make_folder(folder, NULL) == GY_OK);
    df_write(name, text, strlen(text));
}

static void av_check_memory(uint64_t total, uint64_t available)
{
    struct gy_memory m;
    gy_memory_look(&m, df_root);
    T_CHECK_MSG(m.total == total && m.available == available, "%" PRIu64 " and %" PRIu64 ", not %" PRIu64 " and %" PRIu64, m.total, m.available, total,
                available);
}

/* Control groups of version 2: the group's own limit, one above it, one that is met already. */
static void av_groups(void)
{
    av_says("proc/self/cgroup", "1:name=systemd:/x\n0::/job.slice/run\n");
    av_says("sys/fs/cgroup/job.slice/run/memory.max", "max\n");
    av_check_memory(8192000, 5120000);
    av_says("sys/fs/cgroup/job.slice/memory.max", "4000000\n");
    av_says("sys/fs/cgroup/job.slice/memory.current", "3000000\n");
    av_check_memory(4000000, 1000000);
    av_says("sys/fs/cgroup/job.slice/memory.stat", "anon 1900000\nfile 1100000\ninactive_anon 0\ninactive_file 600000\nactive_file 300000\n");
    av_check_memory(4000000, 1900000);
    av_says("sys/fs/cgroup/job.slice/run/memory.max", "500000\n");
    av_says("sys/fs/cgroup/job.slice/run/memory.current", "500000\n");
    av_check_memory(500000, 0);
    av_says("proc/self/cgroup", "0::/elsewhere/of/the/host\n");
    av_check_memory(8192000, 5120000);
    av_says("sys/fs/cgroup/memory.max", "6000000\n");
    av_check_memory(6000000, 5120000);
}

/* Version 1: only the memory controller's group counts, and no limit is a very large one. */
static void av_old_groups(void)
{
    av_says("proc/self/cgroup", "5:cpu:/a\n4:devices,memory:/a\n3:memoryless:/b\n");
    av_says("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    av_says("sys/fs/cgroup/memory/b/memory.limit_in_bytes", "1\n");
    av_check_memory(8192000, 5120000);
    av_says("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "3000000\n");
    av_says("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "2500000\n");
    av_says("sys/fs/cgroup/memory/a/memory.stat", "inactive_file 1\ntotal_inactive_file 200000\ntotal_active_file 100000\n");
    av_check_memory(3000000, 800000);
}

/* What the machine does not have is not taken, though the system would promise it. */
static void av_machine(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_memory m;
    struct gy_error err;
    char words[64];
    uint64_t available = 7;
    gy_memory_look(&m, "");
    T_CHECK(m.available > 0);
    if (m.available == UINT64_MAX) {
        T_SKIP("the system does not say how much memory there is");
        return;
    }
    T_CHECK(m.total > (uint64_t)16 << 20 && m.total < (uint64_t)1 << 50);
    T_CHECK(!gy_memory_short(1, &available) && available == 7 && gy_memory_short((uint64_t)1 << 50, &available) && available <= m.total + ((uint64_t)1 << 40));
    const size_t few = (size_t)64 << 20, beyond = (size_t)m.available + 2 * few;
    void *const taken = gy_alloc_grow(&alloc, NULL, 0, beyond, 1);
    T_CHECK_MSG(!taken, "%zu bytes were taken, %" PRIu64 " are available", beyond, m.available);
    gy_alloc_free(&alloc, taken, beyond);
    T_CHECK(GY_NOMEM(&err, "a test", (uint64_t)1 << 50) == GY_E_NOMEM && strstr(err.text, "1125899906842624 bytes; ") &&
            strstr(err.text, " are available"));
    T_CHECK(GY_NOMEM(&err, "a test", 12) == GY_E_NOMEM && strcmp(err.text, "out of memory: a test needs 12 bytes") == 0);
    T_CHECK(gy_memory_words(words, sizeof words, 12)[0] == 0);
}

struct av_held {
    size_t now, most;
};
static void *av_hook(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct av_held *const held = user;
    const struct gy_alloc plain = gy_alloc_default();
    held->now += new_bytes - old_bytes;
    held->most = held->now > held->most ? held->now : held->most;
    return plain.fn(plain.user, ptr, old_bytes, new_bytes);
}

/* Training is refused if memory lacks 32 bytes for each feature. Every solver really needs that
 * much. */
static void av_features(void)
{
    static const char *const solvers[] = { "sdca", "newton", "l1" };
    static const int64_t start[] = { 0, 1, 2 };
    static const uint32_t id[] = { 3, 999999 };
    static const float label[] = { -1, 1 };
    for (size_t i = 0; i < GY_COUNT(solvers); i++) {
        struct av_held held = { 0, 0 };
        struct gyre_glm_data data;
        struct gyre_glm_config config;
        struct gyre_error error = { 0 };
        struct gyre_glm *model = NULL;
        gyre_glm_data_default(&data);
        gyre_glm_config_default(&config);
        data.rows = 2;
        data.start = start;
        data.id = id;
        data.label = label;
        config.train = &data;
        config.solver = solvers[i];
        config.l1 = i == 2 ? .1 : 0;
        config.threads = 1;
        config.memory.hook = av_hook;
        config.memory.user = &held;
        T_CHECK_MSG(gyre_glm_train(&model, &config, NULL, &error) == GYRE_OK, "%s", error.text);
        gyre_glm_close(model);
        T_CHECK_MSG(held.most >= (size_t)32 * 1000000, "%s: %zu bytes", solvers[i], held.most);
        T_CHECK(held.now == 0);
    }
}

int main(void)
{
    df_open();
    av_check_memory(UINT64_MAX, UINT64_MAX);
    av_says("proc/meminfo", "MemTotal:        8000 kB\nMemFree:  1 kB\nMemAvailable:    4000 kB\nSwapFree:        1000 kB\n");
    av_check_memory(8192000, 5120000);
    av_groups();
    av_old_groups();
    df_remove(df_root);
    av_machine();
    av_features();
    T_END("t_available");
}
