/* SPDX-License-Identifier: MIT */
/* bench_rows.c: speed of converting rows. Usage: bench_rows FILE... (before a file: --zero-based,
 * --format NAME, --threads N). For each file it prints the text's MB a second and core, with the
 * block file written to $TMPDIR. Then it prints how fast its blocks are read again, in GB a second
 * of packed bytes and of unpacked ids. The least of several runs counts. */
#include "engine/base/clock.h"
#include "io/rows/blocks_file.h"
#include "io/rows/rows_text.h"

struct bench_case {
    const char *path, *format;
    int zero_based, threads, repeats;
};

static struct gy_error bench_err;

static double bench_seconds(int64_t since) { return (double)(gy_clock_ns() - since) * 1e-9; }

static int bench_convert(const struct bench_case *c, const char *to, double *best, struct gy_convert_report *report)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_pool *pool = NULL;
    int status = gy_pool_open(&pool, &alloc, c->threads, &bench_err);
    struct gy_convert_config config;
    memset(&config, 0, sizeof config);
    config.from = &c->path;
    config.files = 1;
    config.to = to;
    config.format = c->format;
    config.zero_based = c->zero_based;
    config.label_column = -1;
    config.header = -1;
    config.pool = pool;
    for (int i = 0; status == GY_OK && i < c->repeats; i++) {
        const int64_t start = gy_clock_ns();
        status = gy_convert(&config, &alloc, report, &bench_err);
        const double seconds = bench_seconds(start);
        *best = i == 0 || seconds < *best ? seconds : *best;
    }
    gy_pool_close(pool);
    return status;
}

static int bench_reload(const char *path, int repeats, double *best, int64_t *packed, int64_t *ids)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_blocks *blocks = NULL;
    struct gy_blocks_info info;
    struct gy_blocks_head head;
    const struct gy_blocks_entry *entry;
    int status = gy_blocks_open(&blocks, path, &alloc, &bench_err);
    if (status != GY_OK)
        return status;
    gy_blocks_get_info(blocks, &info);
    gy_blocks_get_head(blocks, &head, &entry);
    *packed = (int64_t)head.file_bytes;
    *ids = 4 * info.entries;
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    for (int k = 0; status == GY_OK && k < repeats; k++) {
        struct gy_rows rows;
        const int64_t start = gy_clock_ns();
        for (int64_t i = 0; status == GY_OK && i < info.blocks; i++)
            status = gy_blocks_read(blocks, i, &room, &rows, &bench_err);
        const double seconds = bench_seconds(start);
        *best = k == 0 || seconds < *best ? seconds : *best;
    }
    free(room.memory);
    gy_blocks_close(blocks);
    return status;
}

static int bench_file(const struct bench_case *c)
{
    const char *folder = getenv("TMPDIR");
    char to[4096];
    struct gy_convert_report report;
    double convert = 0, reload = 0;
    int64_t packed = 0, ids = 0;
    snprintf(to, sizeof to, "%s/bench_rows.gyb", folder ? folder : "/tmp");
    int status = bench_convert(c, to, &convert, &report);
    if (status == GY_OK)
        status = bench_reload(to, 10, &reload, &packed, &ids);
    remove(to);
    if (status != GY_OK) {
        printf("%s\n", bench_err.text);
        return status;
    }
    const double text = (double)report.bytes * 1e-6;
    printf("%-40s %9" PRId64 " rows %10" PRId64 " entries %7.1f MB text: %6.1f MB/s and core (%d); ", c->path, report.rows, report.entries, text,
           text / convert / c->threads, c->threads);
    printf("%6.1f MB packed: read %5.2f GB/s, ids out %5.2f GB/s\n", (double)packed * 1e-6, (double)packed * 1e-9 / reload, (double)ids * 1e-9 / reload);
    return status;
}

int main(int argc, char **argv)
{
    struct bench_case c = { NULL, NULL, 0, 1, 5 };
    int bad = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--zero-based") == 0)
            c.zero_based = 1;
        else if (strcmp(argv[i], "--format") == 0 && i + 1 < argc)
            c.format = argv[++i];
        else if (strcmp(argv[i], "--threads") == 0 && i + 1 < argc)
            c.threads = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--repeats") == 0 && i + 1 < argc)
            c.repeats = (int)strtol(argv[++i], NULL, 10);
        else {
            c.path = argv[i];
            bad |= bench_file(&c) != GY_OK;
            c.zero_based = 0;
            c.format = NULL;
        }
    }
    return bad;
}
