/* SPDX-License-Identifier: MIT */
/* Which NUMA node and which socket a process runs on: those in which all the processors lie that it may use. */
#include "../engine/base/file.h"
#include "../engine/base/text.h"
#include "topology.h"

#define NEAR_NODES 256 /* numbers of NUMA nodes may have gaps */

static int32_t near_node(const char *root, const struct gy_pin_set *allowed)
{
    char path[512], list[1024];
    int32_t found = -1;
    for (int n = 0; n < NEAR_NODES; n++) {
        snprintf(path, sizeof(path), "%.400s/node/node%d/cpulist", root, n);
        if (gy_pin_list_first(gy_file_line(path, list, sizeof(list)), allowed) < 0)
            continue;
        if (found >= 0)
            return -1;
        found = n;
    }
    return found;
}

static int32_t near_socket(const char *root, const struct gy_pin_set *allowed)
{
    char path[512], line[64];
    int64_t found = -1, number;
    for (int cpu = 0; cpu < GY_PIN_PROCESSORS; cpu++) {
        if (!gy_pin_has(allowed, cpu))
            continue;
        snprintf(path, sizeof(path), "%.400s/cpu/cpu%d/topology/physical_package_id", root, cpu);
        gy_file_line(path, line, sizeof(line));
        line[strcspn(line, "\n")] = 0;
        if (gy_text_int(line, 0, INT32_MAX, &number) != 0 || (found >= 0 && number != found))
            return -1;
        found = number;
    }
    return (int32_t)found;
}

GY_INT void gy_net_near_read(const char *root, const struct gy_pin_set *allowed, struct gy_net_near *out)
{
    out->node = near_node(root, allowed);
    out->socket = near_socket(root, allowed);
}

#undef NEAR_NODES
