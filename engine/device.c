/* SPDX-License-Identifier: MIT */
/* Which backend a net runs on. This is the only file that knows them by name. */
#include "device.h"
#include "base/file.h"
#include "base/knob.h"
#include <unistd.h>

GY_INT int gy_device_parse(const char *text, struct gy_device *out)
{
    static const struct { const char *name; int kind, number; /* a number follows: */ const char *mark; } names[] = {
        { "cpu", GY_DEVICE_CPU, 0, NULL }, { "cuda", GY_DEVICE_CUDA, 0, "cuda:" }, { "emu", GY_DEVICE_EMU, 0, NULL },
        { "auto", GY_DEVICE_AUTO, 0, NULL }, { "sm_", GY_DEVICE_ARCH, 0, "sm_" },
    };
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        const size_t bytes = names[i].mark ? strlen(names[i].mark) : 0;
        int64_t number = 0;
        if (names[i].kind != GY_DEVICE_ARCH && strcmp(text, names[i].name) == 0) {
            *out = (struct gy_device){ names[i].kind, 0 };
            return 0;
        }
        if (bytes && strncmp(text, names[i].mark, bytes) == 0 && gy_text_int(text + bytes, 0, 999, &number) == 0) {
            *out = (struct gy_device){ names[i].kind, (int)number };
            return 0;
        }
    }
    return -1;
}

/* The emulator lies beside the program, or one or two folders above it, where the build puts it. */
static int device_find_emulator(char *path, size_t room)
{
    static const char *const above[] = { "", "../", "../../" };
    char program[3072];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (bytes <= 0)
        return -1;
    program[bytes] = 0;
    char *const slash = strrchr(program, '/');
    if (!slash)
        return -1;
    slash[1] = 0;
    for (size_t i = 0; i < GY_COUNT(above); i++)
        if (snprintf(path, room, "%s%slibgyre-emu.so", program, above[i]) < (int)room && gy_file_exists(path) == 1)
            return 0;
    return -1;
}

/* A knob of the environment, when the caller allows it to be read. */
static const char *device_knob(const struct gyre_net *net, const char *name)
{
    return net->config.use_env ? gy_knob_get(name) : NULL;
}

static int device_open_backend(struct gyre_net *net, const struct gy_backend *backend, const struct gy_backend_config *config,
                               struct gy_error *err)
{
    if (!backend)
        return GY_FAIL(err, GY_E_NODEVICE, "device '%s': this build has no CUDA", net->config.device);
    GY_TRY(backend->open(&net->backend_self, config, err));
    net->backend = backend;
    net->backend->caps(net->backend_self, &net->caps);
    return GY_OK;
}

static int device_open_emulator(struct gyre_net *net, struct gy_backend_config *config)
{
    char path[4096];
    config->emulator = device_knob(net, "GYRE_EMU");
    if (!config->emulator && device_find_emulator(path, sizeof path) != 0)
        return GY_FAIL(&net->error, GY_E_NODEVICE, "device 'emu': libgyre-emu.so is not beside the program; './build.sh' makes it, and "
                       "GYRE_EMU names it");
    if (!config->emulator)
        config->emulator = path;
    return device_open_backend(net, gy_cuda_backend(), config, &net->error);
}

/* Where nobody says which GPU: each rank of a host has its own. */
static int device_own(const struct gyre_net *net)
{
    const struct gyre_job *job = net->config.job;
    return job && job->locals > 1 ? job->local : 0;
}

static int device_open_auto(struct gyre_net *net, struct gy_backend_config *config)
{
    struct gy_error why = { 0 };
    config->device = device_own(net);
    if (device_open_backend(net, gy_cuda_backend(), config, &why) == GY_OK)
        return GY_OK;
    gy_log_write(&net->log, GY_LOG_INFO, "device auto: the CPU, because %s", why.text);
    return device_open_backend(net, gy_cpu_backend(), config, &net->error);
}

GY_INT int gy_device_open(struct gyre_net *net)
{
    struct gy_device device;
    if (gy_device_parse(net->config.device, &device) != 0)
        return GY_FAIL(&net->error, GY_E_NODEVICE, "device '%.40s' is not known", net->config.device);
    struct gy_backend_config config = { .alloc = &net->alloc, .log = &net->log, .isa = net->config.isa, .threads = net->config.threads,
                                        .pin = net->config.pin, .kernel_cache = net->config.kernel_cache,
                                        .kernel_pack = net->config.kernel_pack, .cuda_path = device_knob(net, "GYRE_CUDA_PATH") };
    if (!config.kernel_cache)
        config.kernel_cache = device_knob(net, "GYRE_KERNEL_CACHE");
    if (!config.kernel_pack)
        config.kernel_pack = device_knob(net, "GYRE_KERNEL_PACK");
    switch (device.kind) {
    case GY_DEVICE_AUTO: return device_open_auto(net, &config);
    case GY_DEVICE_EMU: return device_open_emulator(net, &config);
    case GY_DEVICE_ARCH: config.arch = device.number; break;
    case GY_DEVICE_CUDA: config.device = strcmp(net->config.device, "cuda") == 0 ? device_own(net) : device.number; break;
    default: return device_open_backend(net, gy_cpu_backend(), &config, &net->error);
    }
    return device_open_backend(net, gy_cuda_backend(), &config, &net->error);
}
