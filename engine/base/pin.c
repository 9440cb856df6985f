/* SPDX-License-Identifier: MIT */
/* pin.c: Linux: affinity masks, cores from /sys, limits of the control group. Elsewhere nothing. */
#include "engine/base/pin.h"
#include "engine/base/file_line.h"
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
long syscall(long number, ...); /* not declared under strict POSIX */
int sched_getcpu(void);
#endif

#if defined(__linux__) && defined(SYS_sched_setaffinity)
/* 0 names the calling thread. */
GY_INT int gy_pin_allowed(struct gy_pin_set *set)
{
    int count = 0;
    memset(set, 0, sizeof *set);
    if (syscall(SYS_sched_getaffinity, 0, sizeof set->bits, set->bits) <= 0)
        return 0;
    for (size_t i = 0; i < GY_COUNT(set->bits); i++)
        count += __builtin_popcountll(set->bits[i]);
    return count;
}

GY_INT int gy_pin_to(const struct gy_pin_set *set)
{
    return syscall(SYS_sched_setaffinity, 0, sizeof set->bits, set->bits) == 0 ? 0 : -1;
}

GY_INT int gy_pin_here(int cpu)
{
    struct gy_pin_set one = { { 0 } };
    if (cpu < 0 || cpu >= GY_PIN_PROCESSORS)
        return -1;
    one.bits[cpu / 64] = (uint64_t)1 << (cpu % 64);
    return gy_pin_to(&one);
}

GY_INT void gy_pin_move(int cpu)
{
    struct gy_pin_set before;
    if (cpu >= 0 && cpu < GY_PIN_PROCESSORS && gy_pin_allowed(&before) > 1 && gy_pin_has(&before, cpu) && gy_pin_here(cpu) == 0)
        gy_pin_to(&before);
}

GY_INT int gy_pin_current(void) { return sched_getcpu(); }
#else
GY_INT int gy_pin_allowed(struct gy_pin_set *set)
{
    memset(set, 0, sizeof *set);
    return 0;
}

GY_INT int gy_pin_to(const struct gy_pin_set *set)
{
    (void)set;
    return -1;
}

GY_INT int gy_pin_here(int cpu)
{
    (void)cpu;
    return -1;
}

GY_INT void gy_pin_move(int cpu) { (void)cpu; }
GY_INT int gy_pin_current(void) { return -1; }
#endif

/* A number at *text in 0 .. GY_PIN_PROCESSORS - 1, or -1. */
static int pin_number(const char **text)
{
    int value = 0, digits = 0;
    for (; **text >= '0' && **text <= '9'; ++*text, digits++)
        if (value < GY_PIN_PROCESSORS)
            value = value * 10 + (**text - '0');
    return digits > 0 && value < GY_PIN_PROCESSORS ? value : -1;
}

GY_INT int gy_pin_list_first(const char *list, const struct gy_pin_set *allowed)
{
    int first = -1;
    for (;;) {
        const int from = pin_number(&list);
        int to = from;
        if (from >= 0 && *list == '-') {
            list++;
            to = pin_number(&list);
        }
        if (from < 0 || to < from)
            return -1;
        for (int cpu = from; cpu <= to; cpu++)
            if (gy_pin_has(allowed, cpu) && (first < 0 || cpu < first))
                first = cpu;
        if (*list != ',')
            return *list == 0 || *list == '\n' ? first : -1;
        list++;
    }
}

/* Is it its core's first allowed processor? Each is a core where the system does not say. */
static int pin_leads(const char *root, const struct gy_pin_set *allowed, int cpu)
{
    char path[512], list[512];
    snprintf(path, sizeof path, "%.400s/cpu%d/topology/thread_siblings_list", root, cpu);
    const int first = gy_pin_list_first(gy_file_line(path, list, sizeof list), allowed);
    return first < 0 || first == cpu;
}

GY_INT int gy_pin_order(const char *root, const struct gy_pin_set *allowed, int *order, int room, int *cores)
{
    struct gy_pin_set others = { { 0 } };
    int count = 0;
    *cores = 0;
    for (int cpu = 0; cpu < GY_PIN_PROCESSORS; cpu++) {
        if (!gy_pin_has(allowed, cpu))
            continue;
        if (!pin_leads(root, allowed, cpu)) {
            others.bits[cpu / 64] |= (uint64_t)1 << (cpu % 64);
            continue;
        }
        ++*cores;
        if (count < room)
            order[count++] = cpu;
    }
    for (int cpu = 0; cpu < GY_PIN_PROCESSORS && count < room; cpu++)
        if (gy_pin_has(&others, cpu))
            order[count++] = cpu;
    return count;
}

GY_INT int gy_pin_quota_limits(const char *text)
{
    return text[0] >= '0' && text[0] <= '9';
}

static int pin_is_limited(int allowed)
{
    char line[64];
    const long online = sysconf(_SC_NPROCESSORS_ONLN);
    if (online > 0 && allowed < online)
        return 1;
    return gy_pin_quota_limits(gy_file_line("/sys/fs/cgroup/cpu.max", line, sizeof line)) ||
           gy_pin_quota_limits(gy_file_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", line, sizeof line));
}

GY_INT int gy_pin_choose(int how, int threads, int *processor, const char **why)
{
    struct gy_pin_set allowed;
    int cores = 0;
    const int count = how == GY_PIN_OFF ? 0 : gy_pin_allowed(&allowed);
    *why = "by request";
    if (how == GY_PIN_OFF)
        return 0;
    *why = "the system does not say where they may run";
    if (count == 0)
        return 0;
    *why = "they are more than the processors";
    if (threads > count)
        return 0;
    *why = "the process has a part of the machine only";
    if (how == GY_PIN_AUTO && pin_is_limited(count))
        return 0;
    gy_pin_order("/sys/devices/system/cpu", &allowed, processor, threads, &cores);
    *why = "they do not fill the machine";
    return how == GY_PIN_ON || threads == count || threads == cores;
}
