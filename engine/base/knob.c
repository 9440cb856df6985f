/* SPDX-License-Identifier: MIT */
/* knob.c: the table of environment variables, and the search for ones that it does not have. */
#include "engine/base/knob.h"

extern char **environ;

static const struct gy_knob knob_rows[] = {
    { "GYRE_THREADS", "count", "all processors", "threads of the CPU backend" },
    { "GYRE_ISA", "text", "native", "kernel set: ref, avx2, avx512, avx512bf16, amx, vsx, mma" },
    { "GYRE_PIN", "text", "auto", "on: threads are bound to processors; auto: kept apart when they fill the machine; off" },
    { "GYRE_TUNE", "path", "in ~/.cache/gyre", "file of gyre tune; off: none" },
    { "GYRE_CUDA_PATH", "path", "", "folder in which CUDA's libraries are looked for first" },
    { "GYRE_KERNEL_CACHE", "path", "in ~/.cache/gyre", "folder of compiled GPU kernels; off: none" },
    { "GYRE_KERNEL_PACK", "path", "", "file of gyre kernels pack: compiled GPU kernels, read first" },
    { "GYRE_EMU", "path", "", "the CUDA emulator's library, for --device emu" },
    { "GYRE_EMU_ARCH", "number", "80", "emulator: the architecture it shows: 60, 70, 75, 80, 90" },
    { "GYRE_EMU_DEVICES", "count", "1", "emulator: devices that it shows" },
    { "GYRE_EMU_SEED", "number", "1", "emulator: decides the order in which a block's threads run" },
    { "GYRE_EMU_CC", "text", "CC, cc", "emulator: the C compiler that makes kernels" },
    { "GYRE_EMU_CFLAGS", "text", "", "emulator: more of its options, as -O0 for a debugger; caches do not know of it" },
    { "GYRE_EMU_KEEP", "path", "", "emulator: existing folder in which sources of compiled kernels are left, for a debugger" },
    { "GYRE_EMU_QUIET", "flag", "0", "emulator: 1: a kernel's fault is only returned as an error's text, not printed" },
    { "GYRE_EMU_HIDE", "flag", "1", "emulator: 0: the program may touch device memory" },
    { "GYRE_EMU_CLOCK", "flag", "", "emulator: 1: its own slow running counts as the device's time, to test what measures" },
    { "GYRE_EMU_TSAN", "flag", "0", "emulator: 1: ThreadSanitizer checks kernels, in a program built with it" },
    { "GYRE_RANK", "count", "0", "this process in its job; set by gyre launch, as what follows" },
    { "GYRE_RANKS", "count", "1", "processes of the job" },
    { "GYRE_SERVERS", "count", "0", "so many of them, the first ones, are parameter servers" },
    { "GYRE_LOCAL_RANK", "count", "", "this process among those of its host" },
    { "GYRE_LOCAL_RANKS", "count", "", "processes of this host" },
    { "GYRE_BIND", "flag", "0", "1: each process of a host keeps to its part of the processors, whole cores, near each other" },
    { "GYRE_JOB", "text", "", "name of the job, for ranks of one host that no launcher started" },
    { "GYRE_MASTER_HOST", "text", "", "where rank 0 listens" },
    { "GYRE_MASTER_PORT", "count", "47201", "on which port" },
    { "GYRE_LISTEN_FD", "count", "", "rank 0: the open socket that listens already" },
    { "GYRE_KEY_FD", "count", "", "the open file from which the job's key is read" },
    { "GYRE_KEY_FILE", "path", "", "file of the job's key, 64 hexadecimal digits, that its owner alone may read" },
    { "GYRE_EPOCH", "count", "0", "how often the job was started again" },
    { "GYRE_ELASTIC", "text", "", "MIN:MAX processes with which a job goes on (train --elastic)" },
    { "GYRE_JOIN", "text", "", "HOST:PORT, ... of ranks of a job, which this process joins: one of them leads" },
    { "GYRE_BOARD_FD", "count", "", "the open file into which that rank writes where it listens" },
    { "GYRE_JOIN_PORT", "count", "", "newcomers call this port + the process's number; taken: another" },
    { "GYRE_ALLREDUCE", "text", "by size", "algorithm between hosts: ring, multiring:4 ..., file:PATH, fastest; flat/ring: each rank as a host" },
    { "GYRE_TRANSPORT", "text", "by devices", "between hosts: tcp, our own; ucx, the library, without being said only where RDMA devices are" },
    { "GYRE_INTERFACE", "text", "rank 0's", "for tcp between hosts: the network interface, as eth1 (ucx: UCX_NET_DEVICES)" },
    { "GYRE_NET_CODE", "text", "crc", "of messages between hosts: crc finds what went wrong; hmac, slower, also what somebody changed" },
    { "GYRE_FLIGHT", "path", "the run's folder",
      "folder of the ranks' flight records, which stay there; off: none" },
    { "GYRE_TOPOLOGY", "path", "", "file that says what the system cannot: dims 4x8x8, racks of hosts, sockets 4 4" },
    { "GYRE_NO_INSTALL", "flag", "0", "1: build.sh installs no packages (read by build.sh alone)" },
    { "GYRE_TEST_ALL", "flag", "0", "1: the whole op test (read by tests alone)" },
    { "GYRE_TEST_DATA", "path", "", "real data for tests (read by tests alone)" },
};

GY_INT const struct gy_knob *gy_knob_table(size_t *count)
{
    *count = GY_COUNT(knob_rows);
    return knob_rows;
}

static int knob_known(const char *name, size_t bytes)
{
    for (size_t i = 0; i < GY_COUNT(knob_rows); i++)
        if (strlen(knob_rows[i].name) == bytes && memcmp(knob_rows[i].name, name, bytes) == 0)
            return 1;
    return 0;
}

GY_INT const char *gy_knob_get(const char *name)
{
    const char *value = knob_known(name, strlen(name)) ? getenv(name) : NULL;
    return value && value[0] ? value : NULL;
}

static void knob_warn(const struct gy_log *log, const char *name)
{
    const char *names[GY_COUNT(knob_rows)];
    for (size_t i = 0; i < GY_COUNT(knob_rows); i++)
        names[i] = knob_rows[i].name;
    const char *near = gy_text_nearest(name, names, GY_COUNT(names));
    gy_log_write(log, GY_LOG_WARN, near ? "environment variable %s is not known; did you mean %s?"
                                        : "environment variable %s is not known%s", name, near ? near : "");
}

GY_INT int gy_knob_warn_unknown(const struct gy_log *log)
{
    int unknown = 0;
    for (char **e = environ; e && *e; e++) {
        const size_t bytes = strcspn(*e, "=");
        char name[64];
        if (strncmp(*e, "GYRE_", 5) != 0 || knob_known(*e, bytes))
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(bytes < sizeof name ? bytes : sizeof name - 1), *e);
        knob_warn(log, name);
        unknown++;
    }
    return unknown;
}

GY_INT void gy_knob_print(struct gy_sink *sink)
{
    for (size_t i = 0; i < GY_COUNT(knob_rows); i++)
        gy_sink_printf(sink, "%-17s %-6s %-16s %s\n", knob_rows[i].name, knob_rows[i].type, knob_rows[i].initial,
                       knob_rows[i].help);
}
