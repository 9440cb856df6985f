/* SPDX-License-Identifier: MIT */
/* boot.c: ranks call rank 0 and prove themselves by the handshake of tcp_handshake.h. Both nonces
 * make the session key of a connection. Rank 0 serves all callers at once (callers.h). A rank that
 * is sent away before it was let in calls again for a while: it may have been in the way of others.
 * A frame: length, bytes, HMAC(session key, direction, counter, length, bytes). Where the length is
 * all ones, a sentence follows: why rank 0 ends the job, so that every rank ends with the same. */
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/log.h"
#include "engine/base/text.h"
#include "net/comm/boot.h"
#include "net/transport/callers.h"
#include "net/transport/socket.h"

#define BOOT_FIELD (64 + GY_NET_MAC_BYTES)
#define BOOT_ANSWER_NS 2000000000   /* for rank 0 to answer the first call */
#define BOOT_PAUSE_NS 20000000      /* before the next one */
#define BOOT_AGAIN_NS 5000000000    /* how long a rank that is sent away calls again */
#define BOOT_LOOK_NS 500000000      /* while ranks are missing: are those here that came? */
/* The limit of an exchange once all ranks have come: they only have to open the network. */
#define BOOT_SILENCE_NS 30000000000
#define BOOT_WORDS_NS 200000000     /* to tell each rank that there will be no job */
/* A rank waits this much longer than rank 0 does, so that rank 0's last words can reach it. */
#define BOOT_GRACE_NS 5000000000
#define BOOT_WHOLE ((size_t)4096)   /* bytes of a frame that goes out at once */
#define BOOT_LAST UINT32_MAX
#define BOOT_WORDS 256

struct boot_link {
    int fd;
    unsigned char key[GY_NET_MAC_BYTES];
    uint64_t sent, received;
    int told; /* rank 0's last words have come */
};
struct gy_net_boot {
    struct gy_alloc alloc;
    struct gy_net_boot_config config;
    struct boot_link *links;  /* rank 0: [ranks]; others: [1], to rank 0 */
    unsigned char *room;      /* [ranks][BOOT_FIELD]: room for gy_net_boot_compare */
    struct gy_net_handshake_self self;
    int listener;
    int missing;              /* rank 0: ranks that are not here yet */
    int met;                  /* an exchange has ended well: all have come */
    char refusal[120];        /* why the last caller that was sent away was; empty: none */
};

static uint32_t boot_word(uint32_t v)
{
    unsigned char b[4] = {(unsigned char)v, (unsigned char)(v >> 8), (unsigned char)(v >> 16), (unsigned char)(v >> 24)};
    memcpy(&v, b, sizeof v);
    return v;
}

/* What the job's key is used for, beside what tcp_handshake.c does. */
static const char boot_session[] = "control, session", boot_field[] = "control, field", boot_secret[] = "control, secret";

/* ---- a rank ---- */

/* Both ends prove that they know the key. GY_E_MISMATCH: the other end has another key. GY_E_STATE:
 * the other end does not answer by `until`. A rank that has proved itself waits for rank 0's answer
 * until `deadline`, because rank 0 may have let it in already. */
static int boot_agree(struct gy_net_boot *boot, int fd, int64_t until, int64_t deadline, struct gy_error *err)
{
    struct gy_net_handshake call;
    int status;
    gy_net_handshake_begin(&call, fd, 0, deadline);
    while ((status = gy_net_handshake_go(&call, &boot->self)) == 0)
        if (!gy_net_wait(fd, call.step == GY_NET_HANDSHAKE_HOPES ? deadline : until))
            return GY_FAIL(err, GY_E_STATE, "it does not answer");
    if (status == -2)
        return GY_FAIL(err, GY_E_MISMATCH, "rank 0 does not have this job's key");
    if (status < 0)
        return GY_FAIL(err, GY_E_PEER, "%s", call.why);
    gy_net_handshake_key(&call, &boot->self, boot_session, boot->links[0].key);
    boot->links[0].fd = fd;
    return GY_OK;
}

/* After a try without an answer the next try may take twice as long. A rank gives up when rank 0
 * has sent it away for BOOT_AGAIN_NS. */
static int boot_join(struct gy_net_boot *boot, struct gy_error *err)
{
    const struct gy_net_launcher *p = &boot->config.place;
    const char *const host = p->host[0] ? p->host : "127.0.0.1";
    const int64_t deadline = gy_clock_ns() + boot->config.wait_ns;
    int64_t until = deadline;
    int status, fd;
    for (int64_t patience = BOOT_ANSWER_NS;;) {
        struct gy_error why = {0};
        GY_TRY(gy_net_connect(host, p->port, deadline, &fd, err));
        const int64_t now = gy_clock_ns();
        status = boot_agree(boot, fd, patience < deadline - now ? now + patience : deadline, deadline, &why);
        if (status == GY_OK)
            return GY_OK;
        close(fd);
        patience *= status == GY_E_STATE && patience < deadline - now ? 2 : 1;
        until = status == GY_E_PEER ? gy_min64(until, now + BOOT_AGAIN_NS) : until;
        if (status == GY_E_MISMATCH || gy_clock_ns() >= until)
            return GY_FAIL(err, status == GY_E_MISMATCH ? status : GY_E_PEER, "rank %d was not accepted by rank 0 at %s port %d: %s", p->rank, host,
                           p->port, why.text);
        nanosleep(&(const struct timespec){0, BOOT_PAUSE_NS}, NULL);
    }
}

/* ---- rank 0 ---- */

static int boot_is_missing(void *owner, int rank)
{
    const struct gy_net_boot *const boot = owner;
    return boot->links[rank].fd < 0;
}

static int boot_let_in(void *owner, struct gy_net_handshake *call)
{
    struct gy_net_boot *const boot = owner;
    struct boot_link *const link = &boot->links[call->rank];
    if (link->fd >= 0 || gy_net_handshake_take(call, &boot->self) != 0)
        return -1;
    gy_net_handshake_key(call, &boot->self, boot_session, link->key);
    link->fd = call->fd;
    boot->missing--;
    return 0;
}

/* Strangers are not worth more than a rank's mistake. */
static void boot_refuse(void *owner, const struct gy_net_handshake *call, const char *why)
{
    struct gy_net_boot *const boot = owner;
    if (call->hello.from != 0 && call->hello.ranks != 0)
        snprintf(boot->refusal, sizeof boot->refusal, "; a caller that says it is rank %" PRIu32 " was sent away: %s", call->hello.from, why);
    else if (boot->refusal[0] == 0)
        snprintf(boot->refusal, sizeof boot->refusal, "; a caller was sent away: %s", why);
}

static int boot_missing(const struct gy_net_boot *boot, struct gy_error *err)
{
    int missing = 0, first = 0;
    for (int r = boot->config.place.ranks - 1; r > 0; r--)
        if (boot->links[r].fd < 0) {
            missing++;
            first = r;
        }
    return GY_FAIL(err, GY_E_PEER, "%d of %d ranks did not come within %.1f s, rank %d first%s", missing, boot->config.place.ranks,
                   (double)boot->config.wait_ns * 1e-9, first, boot->refusal);
}

/* ---- frames ---- */

static void boot_frame_code(const struct boot_link *link, int to_client, uint64_t counter, uint32_t mark, const void *bytes, size_t count,
                            unsigned char *mac)
{
    const char *const way = to_client ? "to client" : "to server";
    unsigned char number[8];
    for (int i = 0; i < 8; i++)
        number[i] = (unsigned char)(counter >> (8 * i));
    const uint32_t length = boot_word(mark);
    const struct gy_net_part parts[] = {{way, strlen(way)}, {number, sizeof number}, {&length, sizeof length}, {bytes, count}};
    gy_net_hmac(link->key, parts, GY_COUNT(parts), mac);
}

/* A small frame goes out whole: whoever stops or dies leaves no half of it. */
static int boot_put(struct boot_link *link, int server, uint32_t mark, const void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    unsigned char whole[sizeof mark + BOOT_WHOLE + GY_NET_MAC_BYTES], *const end = whole + sizeof mark + (count <= BOOT_WHOLE ? count : 0);
    const uint32_t length = boot_word(mark);
    memcpy(whole, &length, sizeof length);
    boot_frame_code(link, server, link->sent++, mark, bytes, count, end);
    if (count <= BOOT_WHOLE) {
        memcpy(whole + sizeof mark, bytes, count);
        return gy_net_write(link->fd, whole, sizeof mark + count + GY_NET_MAC_BYTES, deadline, err);
    }
    GY_TRY(gy_net_write(link->fd, &length, sizeof length, deadline, err));
    GY_TRY(gy_net_write(link->fd, bytes, count, deadline, err));
    return gy_net_write(link->fd, end, GY_NET_MAC_BYTES, deadline, err);
}

static int boot_send(struct boot_link *link, int server, const void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    return boot_put(link, server, (uint32_t)count, bytes, count, deadline, err);
}

/* What stands behind the length. */
static int boot_take_rest(struct boot_link *link, int server, uint32_t mark, void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    unsigned char mac[GY_NET_MAC_BYTES], claimed[GY_NET_MAC_BYTES];
    GY_TRY(gy_net_read(link->fd, bytes, count, deadline, err));
    GY_TRY(gy_net_read(link->fd, claimed, sizeof claimed, deadline, err));
    boot_frame_code(link, !server, link->received++, mark, bytes, count, mac);
    return gy_net_same(mac, claimed, sizeof mac) ? GY_OK : GY_FAIL(err, GY_E_PEER, "a frame's code is wrong");
}

static int boot_take_words(struct boot_link *link, int64_t deadline, struct gy_error *err)
{
    char words[BOOT_WORDS];
    GY_TRY(boot_take_rest(link, 0, BOOT_LAST, words, sizeof words, deadline, err));
    words[sizeof words - 1] = 0;
    link->told = 1;
    return GY_FAIL(err, GY_E_PEER, "%s", words);
}

static int boot_take(struct boot_link *link, int server, void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    uint32_t length;
    GY_TRY(gy_net_read(link->fd, &length, sizeof length, deadline, err));
    if (boot_word(length) == BOOT_LAST && !server)
        return boot_take_words(link, deadline, err);
    if (boot_word(length) != count)
        return GY_FAIL(err, GY_E_PEER, "a frame of %u bytes, not of %zu: the ranks do not do the same", boot_word(length), count);
    return boot_take_rest(link, server, (uint32_t)count, bytes, count, deadline, err);
}

/* Rank 0's last words are its own sentence. Returns status. */
static int boot_tell(struct gy_net_boot *boot, const char *sentence, int status)
{
    char words[BOOT_WORDS] = {0};
    gy_text_copy(words, sizeof words, sentence);
    for (int r = 1; r < boot->config.place.ranks && boot->config.place.rank == 0; r++)
        if (boot->links[r].fd >= 0)
            boot_put(&boot->links[r], 1, BOOT_LAST, words, sizeof words, gy_clock_ns() + BOOT_WORDS_NS, NULL);
    return status;
}

static int boot_lost(struct gy_net_boot *boot, int rank, int status, struct gy_error *err)
{
    char words[BOOT_WORDS];
    if (boot->config.place.rank > 0 && boot->links[0].told)
        return status;
    snprintf(words, sizeof words, "rank %d was lost while the ranks met: %.180s", rank, err ? err->text : "");
    return boot_tell(boot, words, GY_FAIL(err, status, "%s", words));
}

/* ---- all together ---- */

/* A rank that was accepted and has gone since: there will be no job. -1: none. */
static int boot_gone(const struct gy_net_boot *boot)
{
    for (int r = 1; r < boot->config.place.ranks; r++) {
        char first;
        const ssize_t n = boot->links[r].fd >= 0 ? recv(boot->links[r].fd, &first, 1, MSG_PEEK) : 1;
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
            return r;
    }
    return -1;
}

/* Until all are there. */
static int boot_receive(struct gy_net_boot *boot, struct gy_net_callers *callers, struct gy_error *err)
{
    const int64_t deadline = gy_clock_ns() + boot->config.wait_ns;
    int64_t look = 0;
    while (boot->missing > 0) {
        const int64_t now = gy_clock_ns();
        const int gone = now >= look ? boot_gone(boot) : -1;
        if (gone > 0)
            return boot_lost(boot, gone, GY_FAIL(err, GY_E_PEER, "it came and has ended"), err);
        if (now >= deadline)
            return boot_missing(boot, err);
        look = now >= look ? now + BOOT_LOOK_NS : look;
        GY_TRY(gy_net_callers_serve(callers, gy_min64(deadline, look), err));
    }
    return GY_OK;
}

static int boot_receive_all(struct gy_net_boot *boot, struct gy_error *err)
{
    const struct gy_net_callers_config config = { .listener = boot->listener, .wake = -1, .self = &boot->self, .take = boot_let_in,
                                                 .refuse = boot_refuse, .owner = boot };
    struct gy_net_callers *callers;
    struct gy_error why = {0};
    boot->missing = boot->config.place.ranks - 1;
    if (boot->missing == 0)
        return GY_OK;
    GY_TRY(gy_net_callers_open(&callers, &config, &boot->alloc, err));
    const int status = boot_receive(boot, callers, &why);
    gy_net_callers_close(callers);
    return status == GY_OK ? GY_OK : boot_tell(boot, why.text, GY_FAIL(err, status, "%s", why.text));
}

/* A rank that came early waits in its first exchange until the last rank has come. The other ranks
 * wait longer than rank 0, so that rank 0 gives up first. */
static int64_t boot_deadline(const struct gy_net_boot *boot)
{
    const int64_t wait = boot->config.wait_ns;
    if (boot->config.place.rank == 0)
        return gy_clock_ns() + gy_min64(wait, BOOT_SILENCE_NS);
    return gy_clock_ns() + (boot->met ? gy_min64(wait, BOOT_SILENCE_NS) : wait) + BOOT_GRACE_NS;
}

GY_INT int gy_net_boot_gather(struct gy_net_boot *boot, const void *own, size_t bytes, void *all, struct gy_error *err)
{
    const int ranks = boot->config.place.ranks, rank = boot->config.place.rank;
    const size_t total = bytes * (size_t)ranks;
    const int64_t deadline = boot_deadline(boot);
    unsigned char *out = all;
    if (bytes > GY_NET_BLOB_MOST || total > GY_NET_BLOB_MOST)
        return GY_FAIL(err, GY_E_ARG, "%zu bytes of each of %d ranks; together there may be %d", bytes, ranks, GY_NET_BLOB_MOST);
    memcpy(out + (size_t)rank * bytes, own, bytes);
    if (rank > 0) {
        const int status = boot_send(boot->links, 0, own, bytes, deadline, err);
        const int taken = status == GY_OK ? boot_take(boot->links, 0, out, total, deadline, err) : status;
        boot->met |= taken == GY_OK;
        return taken == GY_OK ? GY_OK : boot_lost(boot, 0, taken, err);
    }
    for (int r = 1; r < ranks; r++) {
        const int status = boot_take(&boot->links[r], 1, out + (size_t)r * bytes, bytes, deadline, err);
        if (status != GY_OK)
            return boot_lost(boot, r, status, err);
    }
    for (int r = 1; r < ranks; r++) {
        const int status = boot_send(&boot->links[r], 1, all, total, deadline, err);
        if (status != GY_OK)
            return boot_lost(boot, r, status, err);
    }
    return GY_OK;
}

/* One field at a time, in full where it is short: its first 63 bytes and a hash decide. */
GY_INT int gy_net_boot_compare(struct gy_net_boot *boot, const struct gy_net_field *fields, int count, struct gy_error *err)
{
    const int ranks = boot->config.place.ranks;
    for (int f = 0; f < count; f++) {
        unsigned char own[BOOT_FIELD] = {0};
        const struct gy_net_part parts[] = {{boot_field, sizeof boot_field}, {fields[f].value, strlen(fields[f].value)}};
        snprintf((char *)own, 64, "%s", fields[f].value);
        gy_net_hmac(boot->config.key, parts, GY_COUNT(parts), own + 64);
        GY_TRY(gy_net_boot_gather(boot, own, sizeof own, boot->room, err));
        for (int r = 1; r < ranks; r++) {
            const unsigned char *other = boot->room + (size_t)r * sizeof own;
            if (memcmp(other, boot->room, sizeof own) != 0)
                return GY_FAIL(err, GY_E_MISMATCH, "%s differs: rank 0 has \"%.63s\", rank %d has \"%.63s\"", fields[f].name,
                               (const char *)boot->room, r, (const char *)other);
        }
    }
    return GY_OK;
}

/* A key from a file serves many starts of jobs. Random bytes of all ranks make this key unique to
 * this start. */
GY_INT int gy_net_boot_secret(struct gy_net_boot *boot, const char *purpose, unsigned char key[GY_NET_KEY_BYTES], struct gy_error *err)
{
    const uint32_t epoch = boot_word(boot->config.epoch);
    unsigned char own[GY_NET_KEY_BYTES];
    GY_TRY(gy_net_random(own, sizeof own, err));
    GY_TRY(gy_net_boot_gather(boot, own, sizeof own, boot->room, err));
    const struct gy_net_part parts[] = {{boot_secret, sizeof boot_secret}, {purpose, strlen(purpose) + 1}, {&epoch, sizeof epoch},
                                        {boot->room, (size_t)boot->config.place.ranks * sizeof own}};
    gy_net_hmac(boot->config.key, parts, GY_COUNT(parts), key);
    return GY_OK;
}

/* ---- open and close ---- */

static void boot_listen_no_more(struct gy_net_boot *boot)
{
    if (boot->listener >= 0)
        close(boot->listener);
    boot->listener = -1;
}

/* Nobody listens once all ranks are connected. The same job may then start again on this port while
 * an old rank 0 that hangs is about to end. */
static int boot_connect(struct gy_net_boot *boot, struct gy_error *err)
{
    const struct gy_net_launcher *p = &boot->config.place;
    if (p->rank > 0)
        return boot_join(boot, err);
    int port;
    if (p->ranks > 1 && boot->listener < 0)
        GY_TRY(gy_net_listen(p->host[0] ? p->host : NULL, p->port, &boot->listener, &port, err));
    GY_TRY(boot_receive_all(boot, err));
    boot_listen_no_more(boot);
    return GY_OK;
}

static size_t boot_links(const struct gy_net_boot_config *c)
{
    return c->place.rank == 0 ? (size_t)c->place.ranks : 1;
}

/* Without a connection. NULL: out of memory. */
static struct gy_net_boot *boot_new(const struct gy_net_boot_config *config,
                                    const struct gy_alloc *alloc, struct gy_error *err)
{
    const size_t links = boot_links(config);
    struct gy_net_boot *boot = gy_alloc_take(alloc, 1, sizeof *boot);
    if (!boot) {
        GY_NOMEM(err, "the job's control", sizeof *boot);
        return NULL;
    }
    *boot = (struct gy_net_boot){ .alloc = *alloc, .config = *config, .listener = config->listener };
    boot->self = (struct gy_net_handshake_self){ .kind = GY_NET_HANDSHAKE_CONTROL, .rank = config->place.rank,
                                                .ranks = config->place.ranks, .epoch = config->epoch, .missing = boot_is_missing, .owner = boot };
    memcpy(boot->self.key, config->key, sizeof boot->self.key);
    boot->links = gy_alloc_take(alloc, links, sizeof *boot->links);
    boot->room = gy_alloc_take(alloc, (size_t)config->place.ranks, BOOT_FIELD);
    for (size_t i = 0; boot->links != NULL && i < links; i++)
        boot->links[i].fd = -1;
    if (boot->links && boot->room)
        return boot;
    GY_NOMEM(err, "the job's control", (size_t)config->place.ranks * BOOT_FIELD);
    gy_net_boot_close(boot);
    return NULL;
}

GY_INT int gy_net_boot_open(struct gy_net_boot **out, const struct gy_net_boot_config *config,
                            const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_boot *const boot = boot_new(config, alloc, err);
    const int status = boot ? boot_connect(boot, err) : GY_E_NOMEM;
    if (status == GY_OK)
        *out = boot;
    else
        gy_net_boot_close(boot);
    return status;
}

GY_INT int gy_net_boot_adopt(struct gy_net_boot **out, const struct gy_net_boot_config *config,
                             const struct gy_net_boot_link *links, const struct gy_alloc *alloc,
                             struct gy_error *err)
{
    const size_t count = boot_links(config);
    struct gy_net_boot *const boot = boot_new(config, alloc, err);
    for (size_t i = 0; i < count; i++)
        if (boot) {
            boot->links[i].fd = links[i].fd;
            memcpy(boot->links[i].key, links[i].key, sizeof links[i].key);
        } else if (links[i].fd >= 0)
            close(links[i].fd);
    *out = boot;
    return boot ? GY_OK : GY_E_NOMEM;
}

GY_INT void gy_net_boot_close(struct gy_net_boot *boot)
{
    if (!boot)
        return;
    const struct gy_alloc alloc = boot->alloc;
    const size_t links = boot_links(&boot->config);
    for (size_t i = 0; boot->links != NULL && i < links; i++)
        if (boot->links[i].fd >= 0)
            close(boot->links[i].fd);
    boot_listen_no_more(boot);
    gy_alloc_free(&alloc, boot->links, links * sizeof *boot->links);
    gy_alloc_free(&alloc, boot->room, (size_t)boot->config.place.ranks * BOOT_FIELD);
    gy_alloc_free(&alloc, boot, sizeof *boot);
}

static struct boot_link *boot_link_of(struct gy_net_boot *boot, int rank)
{
    return &boot->links[boot->config.place.rank == 0 ? rank : 0];
}

GY_INT int gy_net_boot_send(struct gy_net_boot *boot, int rank, const void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    return boot_send(boot_link_of(boot, rank), boot->config.place.rank == 0, bytes, count, deadline, err);
}

GY_INT int gy_net_boot_take(struct gy_net_boot *boot, int rank, void *bytes, size_t count, int64_t deadline, struct gy_error *err)
{
    return boot_take(boot_link_of(boot, rank), boot->config.place.rank == 0, bytes, count, deadline, err);
}

GY_INT void gy_net_boot_drop(struct gy_net_boot *boot, int rank)
{
    struct boot_link *link = boot_link_of(boot, rank);
    if (link->fd >= 0)
        close(link->fd);
    link->fd = -1;
}

GY_INT int gy_net_boot_socket(const struct gy_net_boot *boot, int rank)
{
    const int own = boot->config.place.rank;
    return own == 0 ? boot->links[rank].fd : rank == 0 ? boot->links[0].fd : -1;
}
