/* SPDX-License-Identifier: MIT */
/* flight.c: the ring in a mapped file. Each recorder makes a new file and never truncates an old
 * one: another process may have mapped it. The file's blocks are allocated before it is mapped, so
 * a full disk is an error now and no signal later. The system writes the pages back by itself. They
 * outlive the process without the disk, as long as the system lives. */
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/file.h"
#include "engine/base/hash.h"
#include "engine/job/flight.h"

GY_INT uint32_t gy_flight_crc(const void *from, const void *crc)
{
    const unsigned char *const begin = from, *const end = crc;
    return gy_crc32c(0, begin, (size_t)(end - begin));
}

static int64_t flight_wall(int64_t mono) { return (int64_t)(gy_clock_wall() * 1e9) - mono; }

/* A job that still runs keeps its records, whoever starts another one on its folder. */
static int flight_is_free(const char *path, struct gy_error *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const int taken = fd >= 0 && fcntl(fd, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
    if (fd >= 0)
        close(fd);
    return taken ? GY_FAIL(err, GY_E_STATE,
                           "%.300s is the record of a job that still runs (process "
                           "%ld)", path, (long)lock.l_pid) : GY_OK;
}

static int flight_make(struct gy_flight *f, struct gy_error *err)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    char old[sizeof f->path + sizeof GY_FLIGHT_OLD];
    snprintf(old, sizeof old, "%s%s", f->path, GY_FLIGHT_OLD);
    GY_TRY(flight_is_free(f->path, err));
    if (rename(f->path, old) != 0 && errno != ENOENT)
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot be renamed: %s", f->path, strerror(errno));
    const int fd = open(f->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0)
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot be made: %s", f->path, strerror(errno));
    const int reason = posix_fallocate(fd, 0, (off_t)GY_FLIGHT_BYTES);
    void *const base = reason ? MAP_FAILED : mmap(NULL, GY_FLIGHT_BYTES, PROT_READ | PROT_WRITE,
                                                  MAP_SHARED, fd, 0);
    const int why = reason ? reason : errno;
    (void)fcntl(fd, F_SETLK, &lock); /* a file system without locks: others are not held back */
    if (base == MAP_FAILED) {
        close(fd);
        unlink(f->path);
        return GY_FAIL(err, GY_E_IO, "%.300s: cannot have %zu bytes: %s", f->path,
                       (size_t)GY_FLIGHT_BYTES, strerror(why));
    }
    f->fd = fd;
    f->head = base;
    f->live = (struct gy_flight_live *)(void *)((unsigned char *)base + GY_FLIGHT_LIVE);
    f->events = (struct gy_flight_event *)(void *)((unsigned char *)base + GY_FLIGHT_PAGE);
    return GY_OK;
}

GY_INT int gy_flight_open(struct gy_flight *f, const char *folder,
                          const struct gy_flight_head *head, struct gy_error *err)
{
    char name[32];
    snprintf(name, sizeof name, "flight.%" PRId32, head->rank);
    GY_TRY(gy_file_make_folder(folder, err));
    GY_TRY(gy_file_join(f->path, sizeof f->path, folder, name, err));
    GY_TRY(flight_make(f, err));
    struct gy_flight_head *const h = f->head;
    *h = *head;
    memcpy(h->magic, GY_FLIGHT_MAGIC, sizeof h->magic);
    h->version = GY_FLIGHT_VERSION;
    h->head_bytes = GY_FLIGHT_PAGE;
    h->event_bytes = sizeof *f->events;
    h->room = GY_FLIGHT_ROOM;
    f->wall = flight_wall(gy_clock_ns());
    h->wall = h->met + f->wall;
    h->crc = gy_flight_crc(h, &h->crc);
    f->live->beat.last = h->met;
    f->live->crc = gy_flight_crc(&f->live->ended, &f->live->crc);
    return GY_OK;
}

GY_INT int64_t gy_flight_note(struct gy_flight *f, const struct gy_flight_event *event)
{
    const int64_t now = gy_clock_ns();
    if (!f->head)
        return now;
    struct gy_flight_event e = *event;
    if (e.kind == GY_DOES_STEP && e.phase == GY_FLIGHT_BEGAN)
        f->wall = flight_wall(now);
    e.number = ++f->count;
    e.mono = now;
    e.wall = now + f->wall;
    e.step = f->step;
    e.crc = gy_flight_crc(&e, &e.crc);
    f->events[e.number % GY_FLIGHT_ROOM] = e;
    return now;
}

GY_INT void gy_flight_end(struct gy_flight *f, int state, int status, const char *text)
{
    struct gy_flight_live *const l = f->live;
    if (!f->head || l->state > GY_FLIGHT_WELL)
        return;
    l->ended = gy_clock_ns();
    l->status = status;
    snprintf(l->text, sizeof l->text, "%s", text ? text : "");
    l->state = state;
    l->crc = gy_flight_crc(&l->ended, &l->crc);
}

GY_INT void gy_flight_close(struct gy_flight *f)
{
    if (!f->head)
        return;
    if (f->live->state == GY_FLIGHT_RUNS)
        gy_flight_end(f, GY_FLIGHT_LEFT, GY_OK, NULL);
    const int well = f->live->state == GY_FLIGHT_WELL;
    munmap(f->head, GY_FLIGHT_BYTES);
    close(f->fd);
    f->head = NULL;
    if (well && !f->keeps)
        unlink(f->path);
}
