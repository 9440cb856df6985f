/* SPDX-License-Identifier: MIT */
/* frame.c: seals a frame, and refuses one that is not expected, with a sentence that says why. */
#include "net/server/frame.h"
#include "engine/base/hash.h"

#define FRAME_MAGIC 0x31535947u /* GYS1 */

GY_STATIC_ASSERT(sizeof(struct gy_server_frame) == 64, server_frame_bytes);

static uint32_t frame_code(const struct gy_server_frame *frame)
{
    return gy_crc32c(0, frame, offsetof(struct gy_server_frame, check));
}

GY_INT void gy_server_seal(struct gy_server_frame *frame)
{
    frame->magic = FRAME_MAGIC;
    frame->check = frame_code(frame);
}

static const char *frame_kind(int kind)
{
    static const char *const name[GY_SERVER_KINDS] = {
        "message", "gradient", "answer", "sum", "fetch", "leave", "meeting", "farewell"
    };
    return name[kind > 0 && kind < GY_SERVER_KINDS ? kind : 0];
}

/* A number that is not the next one: a frame that came before, or one that leaves some out. */
static int frame_number(const struct gy_server_frame *frame, const struct gy_server_frame *want,
                        struct gy_error *err)
{
    if (frame->number == want->number)
        return GY_OK;
    if (frame->number == want->number - 1)
        return GY_FAIL(err, GY_E_MISMATCH, "the %s %" PRId64 " of worker %d, slice %d, came twice",
                       frame_kind(want->kind), frame->number, want->worker, want->slice);
    return GY_FAIL(err, GY_E_MISMATCH, "a %s of worker %d, slice %d, has the number %" PRId64
                   "; the next is %" PRId64 ": it is a replayed one, or some are missing",
                   frame_kind(want->kind), want->worker, want->slice, frame->number, want->number);
}

GY_INT int gy_server_check(const struct gy_server_frame *frame, const struct gy_server_frame *want,
                           struct gy_error *err)
{
    if (frame->magic != FRAME_MAGIC || frame->check != frame_code(frame))
        return GY_FAIL(err, GY_E_HASH, "a %s of worker %d, slice %d, is damaged",
                       frame_kind(want->kind), want->worker, want->slice);
    if (frame->run != want->run)
        return GY_FAIL(err, GY_E_MISMATCH, "a %s of worker %d is of another run: %016" PRIx64
                       ", not %016" PRIx64, frame_kind(want->kind), want->worker, frame->run,
                           want->run);
    if (frame->kind != want->kind || frame->worker != want->worker || frame->slice != want->slice)
        return GY_FAIL(err, GY_E_MISMATCH, "a %s of worker %d, slice %d, came instead of the %s of "
                       "worker %d, slice %d", frame_kind(frame->kind), frame->worker, frame->slice,
                       frame_kind(want->kind), want->worker, want->slice);
    if (frame->count != want->count)
        return GY_FAIL(err, GY_E_MISMATCH, "a %s of worker %d, slice %d, has %" PRId64
                       " floats; there must be %" PRId64, frame_kind(want->kind), want->worker,
                       want->slice, frame->count, want->count);
    return frame_number(frame, want, err);
}
