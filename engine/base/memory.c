/* SPDX-License-Identifier: MIT */
/* memory.c: the system's account of memory: /proc/meminfo, and the control groups of both versions,
 * from the process's own up to the root. What a group has left is its limit less its use. Pages of
 * files, which are given back on demand, are not use (memory.stat: inactive_file, active_file). */
#include "engine/base/memory.h"
#include "engine/base/file_line.h"

struct memory_words { /* of one version of control groups */
    const char *folder, *limit, *use, *inactive, *active;
};
static const struct memory_words memory_versions[] = {
    { "/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file ", "active_file " },
    { "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file ", "total_active_file " },
};

/* The number behind `name`, which begins a line and may be "". UINT64_MAX: there is none. */
static uint64_t memory_number(const char *path, const char *name)
{
    char line[256];
    uint64_t value = UINT64_MAX;
    FILE *const file = fopen(path, "r");
    while (file && value == UINT64_MAX && gy_file_next(file, line, sizeof line)) {
        const char *at = line + strlen(name);
        if (strncmp(line, name, strlen(name)) != 0)
            continue;
        at += strspn(at, " \t");
        if (*at < '0' || *at > '9')
            break;
        value = strtoull(at, NULL, 10);
    }
    if (file)
        fclose(file);
    return value;
}

static uint64_t memory_least(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t memory_sum(uint64_t a, uint64_t b) { return b == UINT64_MAX || a > UINT64_MAX - b ? a : a + b; }

/* One group: what it may have and what it has left. */
static void memory_of_group(struct gy_memory *m, const struct memory_words *words, const char *folder)
{
    char path[1400];
    snprintf(path, sizeof path, "%.1300s/%s", folder, words->limit);
    const uint64_t limit = memory_number(path, "");
    if (limit == UINT64_MAX)
        return;
    snprintf(path, sizeof path, "%.1300s/%s", folder, words->use);
    uint64_t use = memory_number(path, "");
    snprintf(path, sizeof path, "%.1300s/memory.stat", folder);
    const uint64_t files = memory_sum(memory_sum(0, memory_number(path, words->inactive)), memory_number(path, words->active));
    use = use == UINT64_MAX || use < files ? 0 : use - files;
    m->total = memory_least(m->total, limit);
    m->available = memory_least(m->available, limit > use ? limit - use : 0);
}

/* The group in a line of /proc/self/cgroup: "0::/path" or "4:memory:/path". NULL: another one. */
static char *memory_group(char *line, int version)
{
    char *const name = strchr(line, ':'), *const path = name ? strchr(name + 1, ':') : NULL;
    if (!path)
        return NULL;
    *path = 0;
    char commas[128]; /* the controllers' names, each between commas */
    snprintf(commas, sizeof commas, ",%.120s,", name + 1);
    const int own = version == 0 ? name[1] == 0 : strstr(commas, ",memory,") != NULL;
    path[1 + strcspn(path + 1, "\n")] = 0;
    return own ? path + 1 : NULL;
}

/* The group and those above it may each have a limit. In a container the top may be its own. */
static void memory_of_groups(struct gy_memory *m, const struct memory_words *words, const char *root, char *group)
{
    char folder[1300];
    for (char *end = group + strlen(group);; end = strrchr(group, '/')) {
        if (end)
            *end = 0;
        snprintf(folder, sizeof folder, "%.200s%s%.1000s", root, words->folder, end ? group : "");
        memory_of_group(m, words, folder);
        if (!end || end == group)
            return;
    }
}

GY_INT void gy_memory_look(struct gy_memory *m, const char *root)
{
    char path[300], line[1100];
    snprintf(path, sizeof path, "%.200s/proc/meminfo", root);
    const uint64_t total = memory_number(path, "MemTotal:"), free_kb = memory_number(path, "MemAvailable:"), swap = memory_number(path, "SwapFree:");
    m->total = total > UINT64_MAX / 1024 ? UINT64_MAX : total * 1024;
    m->available = memory_sum(free_kb, swap) > UINT64_MAX / 1024 || free_kb == UINT64_MAX ? UINT64_MAX : memory_sum(free_kb, swap) * 1024;
    snprintf(path, sizeof path, "%.200s/proc/self/cgroup", root);
    FILE *const file = fopen(path, "r");
    while (file && gy_file_next(file, line, sizeof line))
        for (int version = 0; version < (int)GY_COUNT(memory_versions); version++) {
            char copy[1100];
            memcpy(copy, line, sizeof copy);
            char *const group = memory_group(copy, version);
            if (group)
                memory_of_groups(m, &memory_versions[version], root, group);
        }
    if (file)
        fclose(file);
}

GY_INT int gy_memory_short(uint64_t bytes, uint64_t *available)
{
    struct gy_memory m;
    if (bytes < GY_MEMORY_ASKED)
        return 0;
    gy_memory_look(&m, "");
    if (bytes <= m.available)
        return 0;
    *available = m.available;
    return 1;
}

GY_INT const char *gy_memory_words(char *text, size_t room, uint64_t bytes)
{
    uint64_t available;
    text[0] = 0;
    if (gy_memory_short(bytes, &available))
        snprintf(text, room, "; %" PRIu64 " are available", available);
    return text;
}
