/* SPDX-License-Identifier: MIT */
/* events.c: writes TensorBoard event files. A record is: length (8 bytes), masked CRC of the
 * length, the message, masked CRC of the message. The message is a protocol buffer of four kinds,
 * written by hand:
 *
 *     Event      { double wall_time = 1; int64 step = 2; string file_version = 3;
 *                  Summary summary = 5; SessionLog session_log = 7 }
 *     Summary    { repeated Value value = 1 }
 *     Value      { string tag = 1; float simple_value = 2 }
 *     SessionLog { status = 1 } */
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "io/report.h"
#include <fcntl.h>
#include <unistd.h>

#define EV_TAG 400     /* bytes of a tag */
#define EV_MESSAGE 512 /* bytes of a message: tag and all else */

struct gy_events {
    struct gy_alloc alloc;
    int open, fd;
    char path[4096];
};

struct ev_message {
    unsigned char bytes[EV_MESSAGE];
    size_t count;
};

static void ev_byte(struct ev_message *message, int byte) { message->bytes[message->count++] = (unsigned char)byte; }

static void ev_fixed(struct ev_message *message, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++)
        ev_byte(message, (int)(bits >> 8 * i & 255));
}

static void ev_varint(struct ev_message *message, uint64_t value)
{
    for (; value > 127; value >>= 7)
        ev_byte(message, (int)(value & 127) | 128);
    ev_byte(message, (int)value);
}

static void ev_bytes(struct ev_message *message, int field, const void *bytes, size_t count)
{
    ev_byte(message, field << 3 | 2);
    ev_varint(message, count);
    memcpy(message->bytes + message->count, bytes, count);
    message->count += count;
}

/* wall_time and step: what every event begins with. */
static void ev_begin(struct ev_message *message, int64_t step)
{
    const double wall = gy_clock_wall();
    uint64_t bits;
    memcpy(&bits, &wall, sizeof bits);
    message->count = 0;
    ev_byte(message, 1 << 3 | 1);
    ev_fixed(message, bits, 8);
    if (step != 0) {
        ev_byte(message, 2 << 3);
        ev_varint(message, (uint64_t)step);
    }
}

static uint32_t ev_masked_crc(const void *bytes, size_t count)
{
    const uint32_t crc = gy_crc32c(0, bytes, count);
    return (crc >> 15 | crc << 17) + 0xA282EAD8u;
}

/* Frames the message, writes it at once. */
static int ev_write(struct gy_events *events, const struct ev_message *message, struct gy_error *err)
{
    struct ev_message head = {{0}, 0}, tail = {{0}, 0};
    ev_fixed(&head, message->count, 8);
    ev_fixed(&head, ev_masked_crc(head.bytes, 8), 4);
    ev_fixed(&tail, ev_masked_crc(message->bytes, message->count), 4);
    unsigned char record[12 + EV_MESSAGE + 4];
    char why[160];
    memcpy(record, head.bytes, head.count);
    memcpy(record + head.count, message->bytes, message->count);
    memcpy(record + head.count + message->count, tail.bytes, tail.count);
    if (gy_file_write_all(events->fd, record, head.count + message->count + tail.count) != 0)
        return GY_FAIL(err, GY_E_IO, "%s: cannot write: %s", events->path, gy_file_reason(errno, why));
    return GY_OK;
}

/* Opens a file that did not exist: a later second when this one's name is taken. */
static int ev_create(struct gy_events *events, const char *folder, struct gy_error *err)
{
    char host[128] = "", name[256];
    if (gethostname(host, sizeof host - 1) != 0 || host[0] == 0)
        memcpy(host, "localhost", 10);
    for (char *at = host; *at != 0; at++)
        if (*at == '/' || (unsigned char)*at < 0x21)
            *at = '_';
    const int64_t now = (int64_t)gy_clock_wall();
    int handle = -1;
    for (int64_t later = 0; handle < 0 && later < 1000; later++) {
        snprintf(name, sizeof name, "events.out.tfevents.%010" PRId64 ".%s", now + later, host);
        GY_TRY(gy_file_join(events->path, sizeof events->path, folder, name, err));
        handle = open(events->path, O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
        if (handle < 0 && errno != EEXIST)
            break;
    }
    if (handle < 0)
        return GY_FAIL(err, GY_E_IO, "%s: cannot create: %s", events->path, strerror(errno));
    events->fd = handle;
    events->open = 1;
    return GY_OK;
}

GY_INT int gy_events_open(struct gy_events **out, const struct gy_alloc *alloc, const char *folder,
                          struct gy_error *err)
{
    static const char version[] = "brain.Event:2";
    struct ev_message message;
    struct gy_events *events = gy_alloc_take(alloc, 1, sizeof *events);
    if (!events)
        return GY_NOMEM(err, "event file", sizeof *events);
    events->alloc = *alloc;
    int status = ev_create(events, folder, err);
    if (status == GY_OK) {
        ev_begin(&message, 0);
        ev_bytes(&message, 3, version, sizeof version - 1);
        status = ev_write(events, &message, err);
    }
    if (status != GY_OK)
        gy_events_close(events, NULL);
    else
        *out = events;
    return status;
}

GY_INT int gy_events_scalar(struct gy_events *events, int64_t step, const char *tag, double value, struct gy_error *err)
{
    struct ev_message message, summary = {{0}, 0}, entry = {{0}, 0};
    const size_t length = strlen(tag);
    const float single = (float)value;
    uint32_t bits;
    if (length > EV_TAG)
        return GY_FAIL(err, GY_E_ARG, "%s: a tag of %zu bytes, at most %d allowed", events->path, length, EV_TAG);
    memcpy(&bits, &single, sizeof bits);
    ev_bytes(&entry, 1, tag, length);
    ev_byte(&entry, 2 << 3 | 5);
    ev_fixed(&entry, bits, 4);
    ev_bytes(&summary, 1, entry.bytes, entry.count);
    ev_begin(&message, step);
    ev_bytes(&message, 5, summary.bytes, summary.count);
    return ev_write(events, &message, err);
}

GY_INT int gy_events_restart(struct gy_events *events, int64_t step, struct gy_error *err)
{
    static const unsigned char start[] = {1 << 3, 1}; /* status = START */
    struct ev_message message;
    ev_begin(&message, step);
    ev_bytes(&message, 7, start, sizeof start);
    return ev_write(events, &message, err);
}

GY_INT int gy_events_close(struct gy_events *events, struct gy_error *err)
{
    if (!events)
        return GY_OK;
    const struct gy_alloc alloc = events->alloc;
    const int bad = events->open && close(events->fd) != 0 && errno != EINTR;
    const int status = bad ? GY_FAIL(err, GY_E_IO, "%s: cannot write: %s", events->path, strerror(errno)) : GY_OK;
    gy_alloc_free(&alloc, events, sizeof *events);
    return status;
}
