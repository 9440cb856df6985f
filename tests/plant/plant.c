/* SPDX-License-Identifier: MIT */
/* plant.c: loaded before a process's own libraries (LD_PRELOAD), it plants what PLANT says. "disk"
 * delays the opening of each image, "save" the sync of each file, "slow" each step, by PLANT_MS.
 * "hang" and "exit" end the work in step PLANT_STEP; "stuck" is a disk that stops answering then. A
 * step calls pow once, for its update. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int plant_opened, plant_steps;

static int plant_is(const char *what)
{
    const char *const said = getenv("PLANT");
    return said && strcmp(said, what) == 0;
}

static int plant_number(const char *name, int otherwise)
{
    const char *const text = getenv(name);
    return text ? (int)strtol(text, NULL, 10) : otherwise;
}

static void plant_sleep(int ms)
{
    const struct timespec time = { ms / 1000, ms % 1000 * 1000000L };
    nanosleep(&time, NULL);
}

static void plant_open(const char *path)
{
    const size_t bytes = strlen(path);
    if (bytes < 4 || strcmp(path + bytes - 4, ".ppm") != 0)
        return;
    plant_opened++;
    if (plant_is("disk"))
        plant_sleep(plant_number("PLANT_MS", 20));
    if (plant_is("stuck") && plant_opened > 8 * plant_number("PLANT_STEP", 50))
        plant_sleep(1000000);
}

int open(const char *path, int flags, ...)
{
    int (*const real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    va_list more;
    va_start(more, flags);
    const mode_t mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
    va_end(more);
    plant_open(path);
    return real(path, flags, mode);
}

int fsync(int fd)
{
    int (*const real)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (plant_is("save"))
        plant_sleep(plant_number("PLANT_MS", 200));
    return real(fd);
}

int fdatasync(int fd) { return fsync(fd); }

double pow(double x, double y)
{
    double (*const real)(double, double) = (double (*)(double, double))dlsym(RTLD_NEXT, "pow");
    const int now = ++plant_steps > 2 * plant_number("PLANT_STEP", 50);
    if (plant_is("slow"))
        plant_sleep(plant_number("PLANT_MS", 15));
    if (plant_is("hang") && now)
        plant_sleep(1000000);
    if (plant_is("exit") && now)
        _exit(0);
    return real(x, y);
}
