/* SPDX-License-Identifier: MIT */
/* auth.h: who may talk. A job has one secret key of 32 bytes. Its launcher makes it and passes it
 * by a pipe or a file that only its owner may read, never by a command line. Both ends of a
 * connection prove that they know it (HMAC-SHA-256 of both nonces and of what they claim), and get
 * a session key. Every frame of boot.c carries a counter and a code made with that key, so that
 * nothing can be added, repeated or changed. code.h has the codes of data frames. rendezvous.c
 * reads keys; all that makes or checks a code calls gy_net_hmac. Sources: RFC 2104, RFC 4231 (test
 * vectors). */
#ifndef GY_NET_AUTH_H
#define GY_NET_AUTH_H
#include "engine/base/hash.h"
#include "engine/base/status.h"

#define GY_NET_KEY_BYTES 32
#define GY_NET_MAC_BYTES 32

/* mac = HMAC-SHA-256(key, parts, one after another). */
struct gy_net_part {
    const void *bytes;
    size_t count;
};
GY_INT void gy_net_hmac(const unsigned char key[GY_NET_KEY_BYTES], const struct gy_net_part *parts, size_t count,
                        unsigned char mac[GY_NET_MAC_BYTES]);
/* The same for data that comes in pieces: open, then gy_sha256_add, then close. */
GY_INT void gy_net_hmac_open(struct gy_sha256 *sha, const unsigned char key[GY_NET_KEY_BYTES]);
GY_INT void gy_net_hmac_close(struct gy_sha256 *sha, const unsigned char key[GY_NET_KEY_BYTES], unsigned char mac[GY_NET_MAC_BYTES]);
/* 1: equal. The time does not tell where they differ. */
GY_INT int gy_net_same(const unsigned char *a, const unsigned char *b, size_t count);
/* random bytes of the system */
GY_INT int gy_net_random(unsigned char *out, size_t count, struct gy_error *err);
/* A file of 64 hexadecimal digits that nobody but its owner may read. */
GY_INT int gy_net_key_read(const char *path, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err);
/* The same digits from an open file, such as a pipe; reads no more than they and one newline. */
GY_INT int gy_net_key_take(int fd, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err);
GY_INT void gy_net_key_text(const unsigned char key[GY_NET_KEY_BYTES], char text[2 * GY_NET_KEY_BYTES + 1]);

#endif
