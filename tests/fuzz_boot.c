/* SPDX-License-Identifier: MIT */
/* fuzz_boot.c: what comes from the network before and after the handshake. The first byte chooses.
 * Any bytes come as a stranger's greeting, as the answer of a false rank 0, or as a frame (none may
 * be taken). Or a true frame comes with some of its bytes changed; it is taken only when no bit
 * differs. Where it carries as many bytes as rank 0's last words, it comes once more as those. The
 * handshake's functions are file-local, so the file itself is part of this one. */
#include "net/comm/boot.c"
#include <stdlib.h>
#include <sys/socket.h>

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())
#define FUZZ_FRAME 4096

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

/* One end of a connection whose other end sent these bytes and nothing more. */
static int fuzz_sent(const uint8_t *bytes, size_t count, int *other)
{
    int ends[2];
    const int room = 1 << 20;
    FUZZ_REQUIRE(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    FUZZ_REQUIRE(setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room) == 0);
    while (count > 0) {
        const ssize_t sent = write(ends[1], bytes, count);
        FUZZ_REQUIRE(sent > 0);
        bytes += sent;
        count -= (size_t)sent;
    }
    FUZZ_REQUIRE(shutdown(ends[1], SHUT_WR) == 0);
    *other = ends[1];
    return ends[0];
}

static void fuzz_end(int fd, int other)
{
    close(fd);
    close(other);
}

static int64_t fuzz_deadline(void) { return gy_clock_ns() + 1000000000; }

static void fuzz_greeting(struct gy_net_boot *boot, const uint8_t *bytes, size_t count)
{
    int other;
    const int fd = fuzz_sent(bytes, count, &other);
    boot->config.place.rank = boot->self.rank = 0;
    struct gy_net_handshake call;
    int status;
    gy_net_handshake_begin(&call, fd, -1, 0);
    while ((status = gy_net_handshake_go(&call, &boot->self)) == 0 && gy_net_wait(fd, fuzz_deadline()))
        continue;
    FUZZ_REQUIRE(status < 0 && call.why);
    for (int r = 0; r < boot->config.place.ranks; r++)
        FUZZ_REQUIRE(boot->links[r].fd == -1);
    fuzz_end(fd, other);
}

static void fuzz_answer(struct gy_net_boot *boot, const uint8_t *bytes, size_t count)
{
    struct gy_error err = {0};
    int other;
    const int fd = fuzz_sent(bytes, count, &other);
    boot->config.place.rank = boot->self.rank = 1;
    FUZZ_REQUIRE(boot_agree(boot, fd, fuzz_deadline(), fuzz_deadline(), &err) != GY_OK && err.text[0] != 0 && boot->links[0].fd == -1);
    fuzz_end(fd, other);
}

static void fuzz_frame(const struct boot_link *key, int server, const uint8_t *bytes, size_t count)
{
    unsigned char room[FUZZ_FRAME];
    struct gy_error err = {0};
    struct boot_link link = *key;
    int other;
    link.fd = fuzz_sent(bytes, count, &other);
    const size_t wanted = count > 4 ? gy_min64((int64_t)count - 4, FUZZ_FRAME) : 16;
    FUZZ_REQUIRE(boot_take(&link, server, room, wanted, fuzz_deadline(), &err) != GY_OK && err.text[0] != 0 && !link.told);
    fuzz_end(link.fd, other);
}

/* Some of these bytes become others; 1: they did, 0: changes have undone each other. */
static int fuzz_change(unsigned char *frame, size_t whole, const uint8_t *changes, size_t count)
{
    unsigned char before[4 + FUZZ_FRAME + GY_NET_MAC_BYTES];
    memcpy(before, frame, whole);
    for (size_t i = 0; i < count; i++)
        frame[(changes[3 * i] * 256u + changes[1 + 3 * i]) % whole] ^= changes[2 + 3 * i];
    return memcmp(before, frame, whole) != 0;
}

/* words: the frame is sent as rank 0's last words. bytes: the first says how many bytes of the
 * frame change. Three bytes follow for each change: its place (two bytes), and the value for an
 * exclusive or. The rest is what the frame carries. */
static void fuzz_changed(const struct boot_link *key, int words, const uint8_t *bytes, size_t count)
{
    unsigned char frame[4 + FUZZ_FRAME + GY_NET_MAC_BYTES], room[FUZZ_FRAME];
    const size_t changes = count > 0 ? bytes[0] % 6 : 0, head = 1 + 3 * changes;
    if (count < head || count - head > FUZZ_FRAME || (words && count - head != BOOT_WORDS))
        return;
    const size_t carried = count - head, whole = 4 + carried + GY_NET_MAC_BYTES;
    struct boot_link link = *key;
    struct gy_error err = {0};
    int other;
    link.fd = fuzz_sent(NULL, 0, &other);
    FUZZ_REQUIRE(boot_put(&link, words, words ? BOOT_LAST : (uint32_t)carried, bytes + head, carried, fuzz_deadline(), &err) == GY_OK);
    FUZZ_REQUIRE(gy_net_read(other, frame, whole, fuzz_deadline(), &err) == GY_OK);
    fuzz_end(link.fd, other);
    const int changed = fuzz_change(frame, whole, bytes + 1, changes);
    struct boot_link taker = *key;
    taker.fd = fuzz_sent(frame, whole, &other);
    const int taken = boot_take(&taker, !words, room, carried, fuzz_deadline(), &err) == GY_OK;
    FUZZ_REQUIRE(words ? !taken && taker.told == !changed : taken == !changed);
    FUZZ_REQUIRE(words || changed || memcmp(room, bytes + head, carried) == 0);
    fuzz_end(taker.fd, other);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    struct boot_link links[3] = {{ .fd = -1 }, { .fd = -1 }, { .fd = -1 }};
    struct gy_net_boot boot = { .links = links, .listener = -1 };
    if (count == 0 || count > 8192)
        return 0;
    boot.config.place.ranks = 3;
    boot.config.epoch = 5;
    for (size_t i = 0; i < sizeof boot.config.key; i++)
        boot.config.key[i] = (unsigned char)(i * 37 + 11);
    boot.self = (struct gy_net_handshake_self){ .kind = GY_NET_HANDSHAKE_CONTROL, .ranks = 3, .epoch = 5, .missing = boot_is_missing, .owner = &boot };
    memcpy(boot.self.key, boot.config.key, sizeof boot.self.key);
    const struct boot_link key = { .fd = -1, .key = {1, 2, 3}, .sent = 7, .received = 7 };
    switch (bytes[0] % 4) {
    case 0: fuzz_greeting(&boot, bytes + 1, count - 1); break;
    case 1: fuzz_answer(&boot, bytes + 1, count - 1); break;
    case 2:
        fuzz_frame(&key, 0, bytes + 1, count - 1);
        fuzz_frame(&key, 1, bytes + 1, count - 1);
        break;
    default:
        fuzz_changed(&key, 0, bytes + 1, count - 1);
        fuzz_changed(&key, 1, bytes + 1, count - 1);
    }
    return 0;
}
