/* SPDX-License-Identifier: MIT */
/* tags.c: a hash table of message counts by tag; where a place is taken the next one is tried. */
#include "net/transport/tags.h"

#define TAGS_FIRST ((size_t)64)
#define TAGS_MOST ((size_t)1 << 20)

GY_INT struct gy_net_tag *gy_net_tags_find(const struct gy_net_tags *tags, uint32_t tag)
{
    size_t at = (size_t)(tag * 2654435761u >> 8) & (tags->room - 1);
    while (tags->slots[at].used && tags->slots[at].tag != tag)
        at = (at + 1) & (tags->room - 1);
    return &tags->slots[at];
}

static int tags_grow(struct gy_net_tags *tags, const struct gy_alloc *alloc)
{
    const size_t room = tags->room > 0 ? tags->room * 2 : TAGS_FIRST;
    struct gy_net_tags larger = {room <= TAGS_MOST ? gy_alloc_take(alloc, room, sizeof *larger.slots) : NULL, room, tags->used};
    if (!larger.slots)
        return -1;
    for (size_t i = 0; i < tags->room; i++)
        if (tags->slots[i].used)
            *gy_net_tags_find(&larger, tags->slots[i].tag) = tags->slots[i];
    gy_net_tags_free(tags, alloc);
    *tags = larger;
    return 0;
}

GY_INT struct gy_net_tag *gy_net_tags_take(struct gy_net_tags *tags, uint32_t tag, const struct gy_alloc *alloc)
{
    if (tags->used * 2 >= tags->room && tags_grow(tags, alloc) != 0)
        return NULL;
    struct gy_net_tag *const slot = gy_net_tags_find(tags, tag);
    tags->used += !slot->used;
    slot->tag = tag;
    slot->used = 1;
    return slot;
}

GY_INT void gy_net_tags_free(struct gy_net_tags *tags, const struct gy_alloc *alloc)
{
    gy_alloc_free(alloc, tags->slots, tags->room * sizeof *tags->slots);
    *tags = (struct gy_net_tags){0};
}
