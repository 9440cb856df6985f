/* SPDX-License-Identifier: MIT */
/* base_machine.h: the part of t_base.c that tests what the machine says of itself, apart for its
 * length. It tests sizes of caches and places of threads, from true sources and from odd ones. Uses
 * base_path of base_files.h. */
#ifndef GY_TEST_BASE_MACHINE_H
#define GY_TEST_BASE_MACHINE_H

static void base_test_caches(void)
{
    static const struct { const char *text; size_t bytes; } texts[] = {
        { "32768K", 33554432 }, { "32768K\n", 33554432 }, { "1M", 1048576 }, { "2G", (size_t)2 << 30 }, { "512", 512 }, { "0K", 0 },
        { "", 0 }, { "K", 0 }, { "-1K", 0 }, { "12x", 0 }, { "12KB", 0 }, { "12 K", 0 }, { "99999999999999999999999999K", 0 },
        { "18446744073709551615G", 0 }, { "unlimited", 0 },
    };
    for (size_t i = 0; i < GY_COUNT(texts); i++)
        T_CHECK_MSG(gy_cpu_cache_text(texts[i].text) == texts[i].bytes, "'%s': %zu", texts[i].text, gy_cpu_cache_text(texts[i].text));
    /* 64-byte lines. third: 16 ways, 32768 sets, 32 MiB of level 3. data: 8 ways, 64 sets, 32 KiB
     * of level 1. code: the same size, for instructions. */
    static const uint32_t third[3] = { 0x163, 15u << 22 | 63, 32767 }, data[3] = { 0x121, 7u << 22 | 63, 63 };
    static const uint32_t code[3] = { 0x122, 7u << 22 | 63, 63 }, all[3] = { ~0u, ~0u, ~0u }, none[3] = { 0, 0, 0 };
    static const uint32_t vast[3] = { 0x163, ~0u, (1u << 28) - 1 };
    T_CHECK(gy_cpu_cache_leaf(third, 3) == 33554432 && gy_cpu_cache_leaf(third, 2) == 0);
    T_CHECK(gy_cpu_cache_leaf(data, 1) == 32768 && gy_cpu_cache_leaf(code, 1) == 0);
    for (int level = 0; level < 9; level++)
        T_CHECK(gy_cpu_cache_leaf(all, level) == 0 && gy_cpu_cache_leaf(none, level) == 0);
    T_CHECK(gy_cpu_cache_leaf(vast, 3) > (size_t)1 << 40 || sizeof(size_t) < 8);
    /* the least that can be: a package's sum, zero and nonsense do not count */
    const size_t said[4] = { 33554432, 0, 335544320, SIZE_MAX }, odd[3] = { 1, 4096, (size_t)1 << 31 };
    T_CHECK(gy_cpu_cache_choose(3, said, 4) == 33554432 && gy_cpu_cache_choose(3, said + 2, 1) == 335544320);
    T_CHECK(gy_cpu_cache_choose(3, odd, 3) == gy_cpu_cache_choose(3, NULL, 0) && gy_cpu_cache_choose(3, NULL, 0) >= 1048576);
    T_CHECK(gy_cpu_cache_choose(1, odd, 3) == 4096 && gy_cpu_cache_choose(1, NULL, 0) == 32768);
    T_CHECK(gy_cpu_cache_choose(0, said, 4) == 0 && gy_cpu_cache_choose(-1, said, 4) == 0 && gy_cpu_cache_choose(4, said, 4) == 0);
    T_CHECK(gy_cpu_cache_bytes(1) <= gy_cpu_cache_bytes(2) && gy_cpu_cache_bytes(3) <= (size_t)512 << 20);
}

static struct gy_pin_set base_set(const int *cpu, int count)
{
    struct gy_pin_set set = { { 0 } };
    for (int i = 0; i < count; i++)
        set.bits[cpu[i] / 64] |= (uint64_t)1 << (cpu[i] % 64);
    return set;
}

/* cpu's file of siblings in a folder like the system's. */
static void base_siblings(int cpu, const char *list)
{
    char name[80];
    snprintf(name, sizeof name, "cpus/cpu%d/topology", cpu);
    T_CHECK(gy_file_make_folder(base_path(name), &base_err) == GY_OK);
    snprintf(name, sizeof name, "cpus/cpu%d/topology/thread_siblings_list", cpu);
    FILE *file = fopen(base_path(name), "wb");
    if (T_CHECK(file != NULL)) {
        T_CHECK(fputs(list, file) >= 0);
        fclose(file);
    }
}

static void base_test_pin_order(void)
{
    static const int few[4] = { 2, 3, 66, 4095 }, eight[8] = { 0, 1, 2, 3, 4, 5, 6, 7 }, part[3] = { 4, 5, 7 };
    const struct gy_pin_set set = base_set(few, 4), all = base_set(eight, 8), some = base_set(part, 3);
    int order[16], cores = 0;
    T_CHECK(gy_pin_list_first("2,66", &set) == 2 && gy_pin_list_first("0-3\n", &set) == 2 && gy_pin_list_first("60-70", &set) == 66);
    T_CHECK(gy_pin_list_first("0,1", &set) == -1 && gy_pin_list_first("0-99999", &set) == -1 && gy_pin_list_first("4095", &set) == 4095);
    T_CHECK(gy_pin_list_first("", &set) == -1 && gy_pin_list_first("-3", &set) == -1 && gy_pin_list_first("3-2", &set) == -1);
    T_CHECK(gy_pin_list_first("2,", &set) == -1 && gy_pin_list_first("2 3", &set) == -1 && gy_pin_list_first("x", &set) == -1);
    const char *const parent = getenv("TMPDIR");
    snprintf(base_folder, sizeof base_folder, "%.150s/gyre-base-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (!T_CHECK(mkdtemp(base_folder) != NULL))
        return;
    /* Four cores of two threads. The siblings are numbered side by side (0-1) first, later apart
     * (0,4); one file is broken then. */
    for (int cpu = 0; cpu < 8; cpu++)
        base_siblings(cpu, cpu < 2 ? "0-1\n" : cpu < 4 ? "2-3\n" : cpu < 6 ? "4,5\n" : "6,7");
    char root[400];
    snprintf(root, sizeof root, "%s", base_path("cpus"));
    T_CHECK(gy_pin_order(root, &all, order, 16, &cores) == 8 && cores == 4);
    T_CHECK(order[0] == 0 && order[1] == 2 && order[2] == 4 && order[3] == 6 && order[4] == 1 && order[7] == 7);
    T_CHECK(gy_pin_order(root, &some, order, 16, &cores) == 3 && cores == 2 && order[0] == 4 && order[1] == 7 && order[2] == 5);
    T_CHECK(gy_pin_order(root, &all, order, 3, &cores) == 3 && cores == 4 && order[2] == 4);
    for (int cpu = 0; cpu < 8; cpu++)
        base_siblings(cpu, cpu % 4 == 3 ? "nonsense" : cpu % 4 == 0 ? "0,4" : cpu % 4 == 1 ? "1,5" : "2,6");
    T_CHECK(gy_pin_order(root, &all, order, 16, &cores) == 8 && cores == 5 && order[3] == 3 && order[4] == 7 && order[5] == 4);
    T_CHECK(gy_pin_order("/nowhere", &all, order, 16, &cores) == 8 && cores == 8 && order[7] == 7);
    for (int cpu = 0; cpu < 8; cpu++) {
        char name[80];
        static const char *const parts[] = { "/topology/thread_siblings_list", "/topology", "" };
        for (size_t i = 0; i < GY_COUNT(parts); i++) {
            snprintf(name, sizeof name, "cpus/cpu%d%s", cpu, parts[i]);
            remove(base_path(name));
        }
    }
    T_CHECK(remove(base_path("cpus")) == 0 && remove(base_folder) == 0);
    T_CHECK(gy_pin_quota_limits("200000 100000\n") && !gy_pin_quota_limits("max 100000\n") && !gy_pin_quota_limits("-1\n") &&
            !gy_pin_quota_limits(""));
}

struct base_places {
    struct gy_pin_set allowed[8]; /* by thread */
    int count[8], ran[8];
};

static void base_note_place(void *user, int64_t tile, int thread)
{
    struct base_places *p = user;
    (void)tile;
    p->count[thread] = gy_pin_allowed(&p->allowed[thread]);
    __atomic_store_n(&p->ran[thread], 1, __ATOMIC_RELEASE);
    for (int i = 0; i < 2000 && !__atomic_load_n(&p->ran[!thread], __ATOMIC_ACQUIRE); i++)
        usleep(500); /* both threads take a tile */
}

/* A pool of two in a process that may use two processors or more: bound, kept apart, or free. */
static void base_check_pinned(int how)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_pool *pool = NULL;
    struct base_places places;
    struct gy_pin_set before, after;
    const char *why = NULL;
    const int allowed = gy_pin_allowed(&before);
    memset(&places, 0, sizeof places);
    if (!T_CHECK(gy_pool_open_compute(&pool, &alloc, 2, how, &why, &base_err) == GY_OK))
        return;
    T_CHECK(gy_pool_threads(pool) == 2 && gy_pool_running(pool) == 2 && gy_pool_is_pinned(pool) == (how == GY_PIN_ON) && why);
    for (int i = 0; i < 20; i++)
        gy_pool_run(pool, base_note_place, &places, 2);
    T_CHECK(places.count[0] == allowed && places.count[1] == (how == GY_PIN_ON ? 1 : allowed));
    gy_pool_close(pool);
    T_CHECK(gy_pin_allowed(&after) == allowed && memcmp(&before, &after, sizeof before) == 0);
}

static void base_test_pin(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_pin_set allowed;
    struct gy_pool *pool = NULL;
    const int count = gy_pin_allowed(&allowed);
    int processor[GY_PIN_PROCESSORS];
    const char *why = NULL;
    T_CHECK(gy_thread_count_available() == (count ? count : gy_thread_count_available()));
    T_CHECK(!gy_pin_choose(GY_PIN_OFF, 1, processor, &why) && why);
    T_CHECK(!gy_pin_choose(GY_PIN_ON, count + 1, processor, &why) && why);
    T_CHECK(gy_pin_here(-1) == -1 && gy_pin_here(GY_PIN_PROCESSORS) == -1);
    gy_pin_move(-1);
    /* many more threads than processors: only so many run, all tiles are done */
    struct base_job job = { .tiles = 100, .threads = 300 };
    if (T_CHECK(gy_pool_open_compute(&pool, &alloc, 300, GY_PIN_AUTO, NULL, &base_err) == GY_OK)) {
        T_CHECK(gy_pool_threads(pool) == 300 && gy_pool_running(pool) <= gy_thread_count_available());
        gy_pool_close(pool);
    }
    pool = NULL;
    if (T_CHECK(gy_pool_open_compute(&pool, &alloc, 16, GY_PIN_ON, &why, &base_err) == GY_OK)) {
        job.threads = 16;
        gy_pool_run(pool, base_tile, &job, 100);
        int wrong = job.bad;
        for (int i = 0; i < 100; i++)
            wrong += job.ran[i] != 1;
        T_CHECK(wrong == 0);
        gy_pool_close(pool);
    }
    if (count < 2) {
        T_SKIP("threads on processors of their own: this process has one processor");
        return;
    }
    T_CHECK(gy_pin_choose(GY_PIN_ON, 2, processor, &why) && processor[0] != processor[1] && gy_pin_has(&allowed, processor[0]) &&
            gy_pin_has(&allowed, processor[1]));
    base_check_pinned(GY_PIN_OFF);
    base_check_pinned(GY_PIN_AUTO);
    base_check_pinned(GY_PIN_ON);
}

/* In a child that may use one processor only: the mask is obeyed. */
static void base_test_pin_masked(void)
{
    int status = -1;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        const struct gy_alloc alloc = gy_alloc_default();
        struct gy_pin_set allowed, one;
        struct gy_pool *pool = NULL;
        const char *why = NULL;
        int first = 0;
        if (gy_pin_allowed(&allowed) == 0)
            _exit(0);
        while (!gy_pin_has(&allowed, first))
            first++;
        if (gy_pin_here(first) != 0)
            _exit(0);
        int wrong = gy_pin_allowed(&one) != 1 || gy_thread_count_available() != 1;
        wrong += gy_pool_open_compute(&pool, &alloc, 2, GY_PIN_ON, &why, &base_err) != GY_OK;
        wrong += gy_pool_is_pinned(pool) || gy_pool_running(pool) != 1 || gy_pool_threads(pool) != 2;
        gy_pool_close(pool);
        _exit(wrong != 0);
    }
    T_CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

#endif
