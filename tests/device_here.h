/* SPDX-License-Identifier: MIT */
/* device_here.h: says whether the device of a test is here. A device that is absent is a skip; one
 * that is present and cannot be opened is a failure. The emulator is present wherever its library
 * lies, which the build makes. */
#ifndef GY_DEVICE_HERE_H
#define GY_DEVICE_HERE_H
#include <dlfcn.h>
#include <unistd.h>

#include "engine/base/file.h"
#include "tests/t.h"

/* Finds the emulator's library: the file that GYRE_EMU names, else libgyre-emu.so in the program's
 * folder or one or two folders above. NULL: it is nowhere. */
static inline const char *dh_emulator(char *path, size_t room)
{
    static const char *const above[] = { "", "../", "../../" };
    const char *const named = getenv("GYRE_EMU");
    char program[3072];
    const ssize_t bytes = readlink("/proc/self/exe", program, sizeof program - 1);
    if (named && named[0])
        return named;
    program[bytes > 0 ? bytes : 0] = 0;
    char *const slash = strrchr(program, '/');
    if (!slash)
        return NULL;
    slash[1] = 0;
    for (size_t i = 0; i < GY_COUNT(above); i++)
        if (snprintf(path, room, "%s%slibgyre-emu.so", program, above[i]) < (int)room && gy_file_exists(path) == 1)
            return path;
    return NULL;
}

/* CUDA is not here, or has no such device: one of these sentences is true of the machine. */
static inline int dh_says_why(const char *text)
{
    static const char *const why[] = {
        "the CUDA runtime was not found: looked for libcudart.so.13, libcudart.so.12, ", "no NVIDIA driver: ", "the NVIDIA driver is too old: ",
        "no NVIDIA GPU: the driver (CUDA ", "NVIDIA's driver has no function ", "there is no device ",
    };
    int found = 0;
    for (size_t i = 0; i < GY_COUNT(why); i++)
        found |= strncmp(text, why[i], strlen(why[i])) == 0;
    return found;
}

/* What opening a device gave; 1: it is open. */
static inline int dh_opened(const char *device, int status, const char *text)
{
    char path[4096], why[600];
    if (status == GY_OK)
        return 1;
    const int absent = status == GY_E_NODEVICE && (strcmp(device, "emu") != 0 || !dh_emulator(path, sizeof path));
    snprintf(why, sizeof why, "the device %.40s is not there: %.500s", device, text);
    if (absent)
        T_SKIP(why);
    else
        T_CHECK_MSG(absent, "the device %.40s is there and is not opened: %d, %.500s", device, status, text);
    return 0;
}

#endif
