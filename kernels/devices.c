/* SPDX-License-Identifier: MIT */
/* devices.c: which backend a net runs on. Only this file knows backends by name. */
#include "kernels/devices.h"
#include "engine/base/file.h"
#include "engine/base/knob.h"
#include <unistd.h>

#ifdef GY_NO_CUDA
static const struct gy_backend *device_cuda(void) { return NULL; }
#else
static const struct gy_backend *device_cuda(void) { return gy_cuda_backend(); }
#endif

GY_INT int gy_device_parse(const char *text, struct gy_device *out)
{
    static const struct { const char *name; int kind, number; const char *mark; } names[] = {
        { "cpu", GY_DEVICE_CPU, 0, NULL }, { "cuda", GY_DEVICE_CUDA, 0, "cuda:" }, { "emu", GY_DEVICE_EMU, 0, NULL },
        { "auto", GY_DEVICE_AUTO, 0, NULL }, { "sm_", GY_DEVICE_ARCH, 0, "sm_" },
    };
    for (size_t i = 0; i < GY_COUNT(names); i++) {
        const size_t bytes = names[i].mark ? strlen(names[i].mark) : 0; /* a number follows mark */
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

/* What is to be opened, and how. */
struct device_wish {
    const char *name;
    struct gy_backend_config *config;
    int env, own; /* knobs of the environment are read; which GPU, where nobody says */
    const struct gy_backend **backend;
    void **self;
};

static int device_open_as(const struct device_wish *wish, const struct gy_backend *backend, struct gy_error *err)
{
    if (!backend)
        return GY_FAIL(err, GY_E_NODEVICE,
                       "device '%s': this build has no CUDA; the profile all has it", wish->name);
    GY_TRY(backend->open(wish->self, wish->config, err));
    *wish->backend = backend;
    return GY_OK;
}

static int device_open_emulator(const struct device_wish *wish, struct gy_error *err)
{
    char path[4096];
    wish->config->emulator = wish->env ? gy_knob_get("GYRE_EMU") : NULL;
    if (!wish->config->emulator && device_find_emulator(path, sizeof path) != 0)
        return GY_FAIL(err, GY_E_NODEVICE, "device 'emu': libgyre-emu.so is not beside the program; './build.sh' makes it, and "
                       "GYRE_EMU names it");
    if (!wish->config->emulator)
        wish->config->emulator = path;
    return device_open_as(wish, device_cuda(), err);
}

static int device_open_auto(const struct device_wish *wish, struct gy_error *err)
{
    struct gy_error why = { 0 };
    wish->config->device = wish->own;
    if (device_open_as(wish, device_cuda(), &why) == GY_OK)
        return GY_OK;
    gy_log_write(wish->config->log, GY_LOG_INFO, "device auto: the CPU, because %s", why.text);
    return device_open_as(wish, gy_cpu_backend(), err);
}

GY_INT int gy_device_open_backend(const char *name, struct gy_backend_config *config, int use_env, int own, const struct gy_backend **backend,
                                  void **self, struct gy_error *err)
{
    const struct device_wish wish = { name, config, use_env, own, backend, self };
    struct gy_device device;
    if (gy_device_parse(name, &device) != 0)
        return GY_FAIL(err, GY_E_NODEVICE, "device '%.40s' is not known", name);
    config->cuda_path = use_env ? gy_knob_get("GYRE_CUDA_PATH") : NULL;
    if (!config->kernel_cache && use_env)
        config->kernel_cache = gy_knob_get("GYRE_KERNEL_CACHE");
    if (!config->kernel_pack && use_env)
        config->kernel_pack = gy_knob_get("GYRE_KERNEL_PACK");
    switch (device.kind) {
    case GY_DEVICE_AUTO: return device_open_auto(&wish, err);
    case GY_DEVICE_EMU: return device_open_emulator(&wish, err);
    case GY_DEVICE_ARCH: config->arch = device.number; break;
    case GY_DEVICE_CUDA: config->device = strcmp(name, "cuda") == 0 ? own : device.number; break;
    default: return device_open_as(&wish, gy_cpu_backend(), err);
    }
    return device_open_as(&wish, device_cuda(), err);
}
