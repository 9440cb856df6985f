/* SPDX-License-Identifier: MIT */
/* replay.c: runs a fuzz target over stored inputs without a fuzzer. `fuzz_x FOLDER` takes every
 * file of the folder, and also cuts and changes of each that a fixed generator makes, the same in
 * every run. A target that accepts everything without a crash passes; the closing line counts
 * stored files. */
#include "engine/base/base.h"
#include <dirent.h>
#include <sys/stat.h>

#define REPLAY_CHANGES 32 /* variants of each stored file */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

struct replay_rng {
    uint64_t state;
};

static uint64_t replay_next(struct replay_rng *rng)
{
    rng->state ^= rng->state << 13;
    rng->state ^= rng->state >> 7;
    rng->state ^= rng->state << 17;
    return rng->state;
}

/* A heap block of exactly count bytes, so that a checker sees a read beyond the end. */
static int replay_run(const uint8_t *bytes, size_t count)
{
    uint8_t *exact = malloc(count ? count : 1);
    if (!exact)
        return -1;
    if (count)
        memcpy(exact, bytes, count);
    (void)LLVMFuzzerTestOneInput(exact, count);
    free(exact);
    return 0;
}

static int replay_changed(uint8_t *scratch, const uint8_t *bytes, size_t count, struct replay_rng *rng)
{
    memcpy(scratch, bytes, count);
    const uint64_t kind = replay_next(rng) % 4;
    if (kind == 0)
        return replay_run(scratch, (size_t)(replay_next(rng) % count));
    for (uint64_t change = 0; change < kind; change++)
        scratch[replay_next(rng) % count] = (uint8_t)replay_next(rng);
    return replay_run(scratch, count);
}

static int replay_bytes(const uint8_t *bytes, size_t count)
{
    int bad = replay_run(bytes, count);
    if (bad || count == 0)
        return bad;
    uint8_t *scratch = malloc(count);
    if (!scratch)
        return -1;
    struct replay_rng rng = { 0x9e3779b97f4a7c15u ^ count };
    for (int i = 0; i < REPLAY_CHANGES && !bad; i++)
        bad = replay_changed(scratch, bytes, count, &rng);
    free(scratch);
    return bad;
}

static int replay_file(const char *path)
{
    struct stat info;
    FILE *file = fopen(path, "rb");
    if (!file)
        return -1;
    int bad = fstat(fileno(file), &info);
    const size_t count = bad ? 0 : (size_t)info.st_size;
    uint8_t *bytes = malloc(count + 1);
    bad = bad || !bytes || fread(bytes, 1, count, file) != count || replay_bytes(bytes, count);
    free(bytes);
    fclose(file);
    return bad;
}

int main(int argc, char **argv)
{
    int passed = 0, failed = 0;
    DIR *folder = argc == 2 ? opendir(argv[1]) : NULL;
    if (!folder) {
        printf("usage: %s FOLDER (of stored inputs)\n", argv[0]);
        return 2;
    }
    for (const struct dirent *entry = readdir(folder); entry; entry = readdir(folder)) {
        char path[4096];
        if (entry->d_name[0] == '.')
            continue;
        const int length = snprintf(path, sizeof path, "%s/%s", argv[1], entry->d_name);
        const int bad = length < 0 || (size_t)length >= sizeof path || replay_file(path);
        if (bad)
            printf("%s: could not be replayed\n", entry->d_name);
        passed += !bad;
        failed += bad;
    }
    closedir(folder);
    const char *slash = strrchr(argv[0], '/');
    printf("%s: %d passed, %d failed\n", slash ? slash + 1 : argv[0], passed, failed);
    return failed != 0 || passed == 0;
}
