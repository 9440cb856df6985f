/* SPDX-License-Identifier: MIT */
/* fuzz_reform.c: the messages with which ranks come together again. The first byte chooses. Any
 * bytes come as a verdict or a card, which are never taken without their code. One comes with some
 * bytes changed and the right code, of which only what makes sense is taken. Or one comes with the
 * old code, which is taken only when no bit differs. The functions are file-local, so the file
 * itself is part of this one. */
#include "net/comm/reform.c"
#include <stdlib.h>

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_COUNT 5 /* members of a verdict */
#define FUZZ_ID 3    /* of this process */

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static const unsigned char fuzz_key[GY_NET_KEY_BYTES] = { 1, 2, 3, 4, 5, 6, 7, 8 };

/* One end of a connection whose other end sent these bytes, then a code, and nothing more. */
static int fuzz_sent(const void *bytes, size_t count, const unsigned char *mac)
{
    int ends[2];
    const int room = 1 << 20;
    FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    FUZZ_REQUIRE(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    FUZZ_REQUIRE(count == 0 || write(ends[1], bytes, count) == (ssize_t)count);
    if (mac)
        FUZZ_REQUIRE(write(ends[1], mac, GY_NET_MAC_BYTES) == GY_NET_MAC_BYTES);
    close(ends[1]);
    return ends[0];
}

static struct gy_net_endpoint fuzz_address(int port)
{
    struct gy_net_endpoint at;
    gy_net_endpoint_loopback(&at);
    at.bytes[2] = (unsigned char)(port >> 8);
    at.bytes[3] = (unsigned char)port;
    return at;
}

/* Changes of three bytes each: where, and by which exclusive or. 1: a bit is another. */
static int fuzz_change(void *paper, size_t whole, const uint8_t *changes, size_t count)
{
    static unsigned char before[sizeof(struct reform_verdict)];
    unsigned char *const at = paper;
    memcpy(before, paper, whole);
    for (size_t i = 0; i + 3 <= count; i += 3)
        at[(changes[i] * 256u + changes[i + 1]) % whole] ^= changes[i + 2];
    return memcmp(before, paper, whole) != 0;
}

static void fuzz_open(struct gy_net_reform *f)
{
    memset(f, 0, sizeof *f);
    f->alloc = gy_alloc_default();
    f->config.id = FUZZ_ID;
    f->listener = -1;
}

static void fuzz_member(const struct gy_net_member *m)
{
    struct sockaddr_storage at = { .ss_family = 0 };
    FUZZ_REQUIRE(m->id >= 0 && m->id < GY_NET_MEMBER_IDS && m->at.count <= sizeof m->at.bytes);
    memcpy(&at, m->at.bytes, m->at.count);
    FUZZ_REQUIRE(at.ss_family == AF_INET || at.ss_family == AF_INET6);
}

/* Returns 1 where it was taken. */
static int fuzz_verdict(int fd)
{
    static struct gy_net_reform f;
    struct reform_guest link = { .link.fd = fd };
    struct gy_net_launcher place;
    struct gy_net_boot *boot = NULL;
    struct gy_error err = { 0 };
    fuzz_open(&f);
    memcpy(link.paper, fuzz_key, sizeof fuzz_key);
    const int status =
        reform_await_verdict(&f, &link, gy_clock_ns() + 1000000000, &boot, &place, &err);
    if (status == GY_E_STATE)
        return 1; /* it may not go on, and that is why */
    if (status != GY_OK) {
        FUZZ_REQUIRE(err.text[0] != 0 && !boot && f.count == 0);
        return 0;
    }
    FUZZ_REQUIRE(boot && place.rank > 0 && place.rank < place.ranks && place.ranks == f.count);
    FUZZ_REQUIRE(f.count <= GY_NET_MEMBERS && f.member[place.rank].id == FUZZ_ID);
    for (int r = 0; r < f.count; r++)
        fuzz_member(&f.member[r]);
    gy_net_boot_close(boot);
    return 1;
}

static int fuzz_card(int fd)
{
    struct reform_guest g = { .link.fd = fd };
    memcpy(g.paper, fuzz_key, sizeof fuzz_key);
    const int there = reform_card(&g);
    const struct gy_net_member m = { 0, g.at };
    FUZZ_REQUIRE(there == (g.at.count > 0));
    if (there)
        fuzz_member(&m);
    close(fd);
    return there;
}

static void fuzz_papers(struct reform_verdict *v, struct gy_net_endpoint *card)
{
    memset(v, 0, sizeof *v);
    v->rank = 2;
    v->count = FUZZ_COUNT;
    for (int r = 0; r < FUZZ_COUNT; r++) {
        v->member[r].id = r + 1;
        v->member[r].at = fuzz_address(4000 + r);
    }
    snprintf(v->text, sizeof v->text, "2 of 3 ranks are left");
    *card = fuzz_address(5000);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    static struct reform_verdict v;
    struct gy_net_endpoint card;
    unsigned char mac[GY_NET_MAC_BYTES];
    if (count == 0 || count > 16384)
        return 0;
    const int old = bytes[0] >> 1 & 1, is_card = bytes[0] >> 2 & 1;
    if (bytes[0] & 1) {
        FUZZ_REQUIRE(!fuzz_verdict(fuzz_sent(bytes + 1, count - 1, NULL)));
        FUZZ_REQUIRE(!fuzz_card(fuzz_sent(bytes + 1, count - 1, NULL)));
        return 0;
    }
    fuzz_papers(&v, &card);
    if (bytes[0] & 8)
        v.count = 0;
    void *const paper = is_card ? (void *)&card : (void *)&v;
    const size_t whole = is_card ? sizeof card : sizeof v;
    reform_code(fuzz_key, paper, whole, mac);
    const int changed = fuzz_change(paper, whole, bytes + 1, count - 1);
    if (!old)
        reform_code(fuzz_key, paper, whole, mac);
    const int fd = fuzz_sent(paper, whole, mac), taken = is_card ? fuzz_card(fd) : fuzz_verdict(fd);
    FUZZ_REQUIRE(changed ? !old || !taken : taken);
    return 0;
}
