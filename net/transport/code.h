/* SPDX-License-Identifier: MIT */
/* code.h: the code of a message, by which its receiver knows that it is what was sent. A CRC-32C
 * finds faults of the way. An HMAC-SHA-256 with a key of one direction of one connection also finds
 * changes by an attacker. Both cover the number of the code, counted from the connection's start,
 * so that nothing can be left out, repeated or moved. tcp_handshake.c opens them, stream.c adds and
 * closes. */
#ifndef GY_NET_CODE_H
#define GY_NET_CODE_H
#include "engine/base/hash.h"
#include "net/transport/auth.h"

#define GY_NET_CODE_BYTES GY_NET_MAC_BYTES /* of a CRC all but the first four are 0 */

enum gy_net_code_kind { GY_NET_CODE_CRC, GY_NET_CODE_HMAC };
struct gy_net_code {
    enum gy_net_code_kind kind;
    unsigned char key[GY_NET_KEY_BYTES]; /* HMAC's */
    uint64_t made;                       /* codes begun, this one included */
    uint32_t crc;
    struct gy_sha256 sha;
};
/* "crc" or "hmac"; NULL or empty: crc. */
GY_INT int gy_net_code_parse(const char *name, enum gy_net_code_kind *out, struct gy_error *err);
GY_INT void gy_net_code_open(struct gy_net_code *code, enum gy_net_code_kind kind, const unsigned char key[GY_NET_KEY_BYTES]);
GY_INT void gy_net_code_add(struct gy_net_code *code, const void *bytes, size_t count);
/* The code of all that was added; the next one begins. */
GY_INT void gy_net_code_close(struct gy_net_code *code, unsigned char out[GY_NET_CODE_BYTES]);

#endif
