/* SPDX-License-Identifier: MIT */
/* staging.c: carries gradients between a device with memory of its own and the memory in which
 * ranks sum (parallel.c). Backward records a mark where a bucket is complete. The queue for peers
 * waits for it and copies the bucket out during the rest of backward. The host then begins its sum.
 * Sums return in the same queue, and the update of a bucket waits for its own sum alone. */
#include "engine/run/engine.h"

#define BRIDGE_MARKS (GY_MARK_FETCHED - GY_MARK_BUCKET)

/* A bucket's mark, from 0 on. Of very many buckets neighbours share one: the later one's mark. */
static unsigned bridge_slot(const struct gyre_net *net, int bucket)
{
    const int count = net->plan.bucket_count;
    return (unsigned)(count > BRIDGE_MARKS ? (int64_t)bucket * BRIDGE_MARKS / count : bucket);
}

static const struct gy_tensor *bridge_tensor(const struct gyre_net *net, int bucket)
{
    return &net->plan.tensors[net->plan.buckets[bucket].tensor];
}

/* One bucket between the device and the ranks' memory, in the queue for peers. */
static int bridge_copy(struct gyre_net *net, int bucket, int kind)
{
    const struct gy_tensor *t = bridge_tensor(net, bucket);
    void *const here = (unsigned char *)net->shared + t->offset, *const there = (unsigned char *)net->base[GY_AT_GRAD] + t->offset;
    const int out = kind == GY_COPY_TO_HOST;
    return net->backend->copy_on(net->backend_self, GY_QUEUE_PEERS, out ? here : there, out ? there : here, t->bytes, kind);
}

GY_INT int gy_bridge_is(const struct gyre_net *net) { return net->pinned && net->shared; }

GY_INT int gy_bridge_mark(struct gyre_net *net, int bucket)
{
    return net->backend->mark(net->backend_self, GY_QUEUE_WORK, GY_MARK_BUCKET + bridge_slot(net, bucket));
}

GY_INT int gy_bridge_fetch(struct gyre_net *net)
{
    const struct gy_backend *b = net->backend;
    for (int k = 0; k < net->plan.bucket_count; k++) {
        GY_TRY(b->wait(net->backend_self, GY_QUEUE_PEERS, GY_MARK_BUCKET + bridge_slot(net, k)));
        GY_TRY(bridge_copy(net, k, GY_COPY_TO_HOST));
        GY_TRY(b->mark(net->backend_self, GY_QUEUE_PEERS, GY_MARK_FETCHED + bridge_slot(net, k)));
    }
    return GY_OK;
}

GY_INT int gy_bridge_take(struct gyre_net *net, int bucket, float **data)
{
    GY_TRY(net->backend->reach(net->backend_self, GY_MARK_FETCHED + bridge_slot(net, bucket)));
    *data = (float *)(void *)((unsigned char *)net->shared + bridge_tensor(net, bucket)->offset);
    return GY_OK;
}

GY_INT int gy_bridge_return(struct gyre_net *net, int bucket)
{
    GY_TRY(bridge_copy(net, bucket, GY_COPY_TO_DEVICE));
    GY_TRY(net->backend->mark(net->backend_self, GY_QUEUE_PEERS, GY_MARK_SUMMED));
    return net->backend->wait(net->backend_self, GY_QUEUE_WORK, GY_MARK_SUMMED);
}
