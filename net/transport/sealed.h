/* SPDX-License-Identifier: MIT */
/* sealed.h: a transport on another one that checks nothing, such as a library's; network.c puts it
 * on UCX. Each message carries a word that needs the key: of the ranks, the tag, how many messages
 * the tag had before, and the bytes. A message with another word is lost; from then on progress
 * fails and says so. Small messages contain the word; behind a large one it is a message of its
 * own. */
#ifndef GY_NET_SEALED_H
#define GY_NET_SEALED_H
#include "net/transport/code.h"
#include "net/transport/transport.h"

struct gy_net_sealed_config {
    struct gy_net_end inner;
    /* crc: the word covers the CRC-32C of the bytes; hmac: it covers the bytes */
    enum gy_net_code_kind code;
    unsigned char key[GY_NET_KEY_BYTES]; /* of this start of the job, and of nothing else */
};

struct gy_net_sealed;
GY_INT int gy_net_sealed_open(struct gy_net_sealed **out, const struct gy_net_sealed_config *config, const struct gy_alloc *alloc,
                              struct gy_error *err);
/* Cancels what is pending. It is closed before the inner transport. NULL is fine. */
GY_INT void gy_net_sealed_close(struct gy_net_sealed *sealed);
GY_INT void gy_net_sealed_end(struct gy_net_sealed *sealed, struct gy_net_end *out);
/* The text may be empty. */
GY_INT const struct gy_net_fault *gy_net_sealed_fault(const struct gy_net_sealed *sealed);

#endif
