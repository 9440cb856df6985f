/* SPDX-License-Identifier: MIT */
/* gy_net_handshake_go: it agrees to a connection only after the code of the right words agreed, all
 * of it. What comes stays in its room. A caller that is agreed to is a rank that may call this one;
 * one that is refused is told why. */
#include "tests/proof/proof.h"
#include <sys/socket.h>
#include "net/transport/tcp_handshake.c"

enum { PIECES = 3 };
static const char *words;  /* of the last code that was made */
/* agreed: the last compared code matched; pieces: reads of this step that gave bytes */
static int agreed, pieces;
static const struct gy_net_handshake *present;

/* Stands for HMAC: any code; the words are noted. */
void gy_net_hmac(const unsigned char key[GY_NET_KEY_BYTES], const struct gy_net_part *parts, size_t count, unsigned char mac[GY_NET_MAC_BYTES])
{
    PROOF_CLAIM(count == 3 && parts[1].count == sizeof(struct gy_net_handshake_hello) && parts[2].count == GY_NET_HANDSHAKE_NONCE);
    PROOF_CLAIM(parts[1].bytes == &present->hello && parts[2].bytes == present->nonce && key);
    words = parts[0].bytes;
    mac[nondet_size() % GY_NET_MAC_BYTES] = nondet_byte();
}

/* Stands for the comparison: either; which it was is noted. */
int gy_net_same(const unsigned char *a, const unsigned char *b, size_t count)
{
    PROOF_CLAIM(count == GY_NET_MAC_BYTES && __CPROVER_r_ok(a, count) && __CPROVER_r_ok(b, count));
    agreed = nondet_int() != 0;
    return agreed;
}

int gy_net_random(unsigned char *out, size_t count, struct gy_error *err)
{
    (void)err;
    PROOF_CLAIM(__CPROVER_w_ok(out, count));
    return nondet_int() ? GY_OK : GY_E_IO;
}

/* Stands for the system: nothing yet, the end, a failure, or some bytes. After PIECES reads all
 * bytes have come. */
ssize_t recv(int fd, void *to, size_t count, int flags)
{
    const ssize_t got = nondet_int();
    (void)fd, (void)flags;
    PROOF_CLAIM(count > 0 && __CPROVER_w_ok(to, count));
    PROOF_ASSUME(got >= -1 && got <= (ssize_t)count);
    if (got == -1)
        errno = nondet_int();
    pieces += got > 0;
    PROOF_ASSUME(got <= 0 || got == (ssize_t)count || pieces < PIECES);
    if (got == (ssize_t)count)
        pieces = 0;
    if (got > 0)
        ((unsigned char *)to)[nondet_size() % (size_t)got] = nondet_byte();
    return got;
}

ssize_t send(int fd, const void *from, size_t count, int flags)
{
    (void)fd, (void)flags;
    PROOF_CLAIM(__CPROVER_r_ok(from, count));
    return nondet_int() ? (ssize_t)count : -1;
}

struct gy_net_handshake_self nondet_self(void);

void proof(void)
{
    struct gy_net_handshake_self self = nondet_self();
    struct gy_net_handshake call;
    const int rank = nondet_int(), kind = nondet_int() != 0;
    int result = 0;
    PROOF_ASSUME(rank >= -1 && self.rank >= 0 && self.ranks > self.rank && rank < self.ranks);
    self.kind = kind ? GY_NET_HANDSHAKE_CONTROL : GY_NET_HANDSHAKE_DATA;
    self.missing = NULL;
    present = &call;
    gy_net_handshake_begin(&call, 3, rank, 0);
    for (int i = 0; i < 2 && result == 0; i++) {
        result = gy_net_handshake_go(&call, &self);
        PROOF_CLAIM(call.have < sizeof call.in && (result >= 0 || call.why));
    }
    if (result != 1)
        return;
    PROOF_CLAIM(agreed && words == (rank < 0 ? handshake_kinds[kind].caller : handshake_kinds[kind].taken));
    PROOF_CLAIM(rank >= 0 ? call.rank == rank : call.rank > self.rank && call.rank < self.ranks);
    PROOF_CLAIM(call.step == (rank < 0 ? GY_NET_HANDSHAKE_DOUBTS : GY_NET_HANDSHAKE_HOPES));
}
