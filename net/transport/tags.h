/* SPDX-License-Identifier: MIT */
/* tags.h: counts by tag of the messages between two ranks. stream.c, shared.c and sealed.c keep
 * them. */
#ifndef GY_NET_TAGS_H
#define GY_NET_TAGS_H
#include "engine/base/mem.h"

struct gy_net_tag {
    uint32_t tag, used;
    uint64_t sent, wanted;  /* messages to the peer: those that went out, those that it asked for */
    uint64_t posted, asked; /* receives: all, and those that the peer was asked for */
};
struct gy_net_tags {
    struct gy_net_tag *slots; /* [room], a power of two, at most half of them used */
    size_t room, used;
};
/* NULL: no memory, or more tags than there can be. The place holds until the next call. */
GY_INT struct gy_net_tag *gy_net_tags_take(struct gy_net_tags *tags, uint32_t tag, const struct gy_alloc *alloc);
/* The tag must have been taken before. */
GY_INT struct gy_net_tag *gy_net_tags_find(const struct gy_net_tags *tags, uint32_t tag);
GY_INT void gy_net_tags_free(struct gy_net_tags *tags, const struct gy_alloc *alloc);

#endif
