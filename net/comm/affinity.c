/* SPDX-License-Identifier: MIT */
/* affinity.c: a process belongs to the NUMA node and the socket that contain all processors it may
 * use. Its own processors among several processes are a cut of an order: sockets, nodes, cores.
 * That is not everywhere the order of their numbers. */
#include "net/comm/affinity.h"
#include "engine/base/file_line.h"
#include "engine/base/text.h"

#define AFFINITY_NODES 256 /* numbers of NUMA nodes may have gaps */
#define AFFINITY_LIST (5 * GY_PIN_PROCESSORS) /* bytes: each number by itself */

static int32_t affinity_node(const char *root, const struct gy_pin_set *allowed)
{
    char path[512], list[AFFINITY_LIST];
    int32_t found = -1;
    for (int n = 0; n < AFFINITY_NODES; n++) {
        snprintf(path, sizeof path, "%.400s/node/node%d/cpulist", root, n);
        if (gy_pin_list_first(gy_file_line(path, list, sizeof list), allowed) < 0)
            continue;
        if (found >= 0)
            return -1;
        found = n;
    }
    return found;
}

static int32_t affinity_socket(const char *root, const struct gy_pin_set *allowed)
{
    char path[512], line[64];
    int64_t found = -1, number;
    for (int cpu = 0; cpu < GY_PIN_PROCESSORS; cpu++) {
        if (!gy_pin_has(allowed, cpu))
            continue;
        snprintf(path, sizeof path, "%.400s/cpu/cpu%d/topology/physical_package_id", root, cpu);
        gy_file_line(path, line, sizeof line);
        line[strcspn(line, "\n")] = 0;
        if (gy_text_int(line, 0, INT32_MAX, &number) != 0 || (found >= 0 && number != found))
            return -1;
        found = number;
    }
    return (int32_t)found;
}

GY_INT void gy_net_affinity_read(const char *root, const struct gy_pin_set *allowed, struct gy_net_affinity *out)
{
    out->node = affinity_node(root, allowed);
    out->socket = affinity_socket(root, allowed);
}

/* ---- shares ---- */

struct affinity_cpu { /* in the order of comparison */
    int32_t socket, node, core, cpu;
};

static int affinity_compare(const void *a, const void *b)
{
    const int32_t *x = a, *y = b;
    for (size_t i = 0; i < sizeof(struct affinity_cpu) / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static struct gy_pin_set affinity_one(int cpu)
{
    struct gy_pin_set one = {{0}};
    one.bits[cpu / 64] = (uint64_t)1 << (cpu % 64);
    return one;
}

/* Returns how many; the core is that of its first allowed processor. */
static int affinity_list(const char *root, const struct gy_pin_set *allowed, struct affinity_cpu *list)
{
    char path[512], line[AFFINITY_LIST];
    int count = 0;
    for (int cpu = 0; cpu < GY_PIN_PROCESSORS; cpu++) {
        if (!gy_pin_has(allowed, cpu))
            continue;
        const struct gy_pin_set one = affinity_one(cpu);
        snprintf(path, sizeof path, "%.400s/cpu/cpu%d/topology/thread_siblings_list", root, cpu);
        const int core = gy_pin_list_first(gy_file_line(path, line, sizeof line), allowed);
        list[count++] = (struct affinity_cpu){affinity_socket(root, &one), -1, core < 0 ? cpu : core, cpu};
    }
    for (int n = 0; n < AFFINITY_NODES; n++) {
        snprintf(path, sizeof path, "%.400s/node/node%d/cpulist", root, n);
        gy_file_line(path, line, sizeof line);
        for (int i = 0; i < count && line[0] != 0; i++) {
            const struct gy_pin_set one = affinity_one(list[i].cpu);
            list[i].node = gy_pin_list_first(line, &one) >= 0 ? n : list[i].node;
        }
    }
    qsort(list, (size_t)count, sizeof *list, affinity_compare);
    return count;
}

GY_INT int gy_net_affinity_share(const char *root, const struct gy_pin_set *allowed, int part, int parts, struct gy_pin_set *out,
                                 const struct gy_alloc *alloc, struct gy_error *err)
{
    const size_t bytes = GY_PIN_PROCESSORS * sizeof(struct affinity_cpu);
    struct affinity_cpu *const list = gy_alloc_take(alloc, 1, bytes);
    int cores = 0, at = -1;
    if (!list)
        return GY_NOMEM(err, "a list of the processors", bytes);
    const int count = affinity_list(root, allowed, list);
    for (int i = 0; i < count; i++)
        cores += i == 0 || list[i].core != list[i - 1].core;
    const int whole = cores >= parts, units = whole ? cores : count;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < count; i++) {
        at += !whole || i == 0 || list[i].core != list[i - 1].core;
        if ((int64_t)at * parts / gy_max64(units, parts) == part || (units < parts && at == part % units))
            out->bits[list[i].cpu / 64] |= (uint64_t)1 << (list[i].cpu % 64);
    }
    gy_alloc_free(alloc, list, bytes);
    return count > 0 ? GY_OK : GY_FAIL(err, GY_E_UNSUPPORTED, "the system does not say which processors this process may use");
}
