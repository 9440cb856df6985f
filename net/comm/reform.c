/* SPDX-License-Identifier: MIT */
/* reform.c: a member calls those before it in the list, one after the other. Where nobody listens,
 * that member is gone; one that does not answer for REFORM_ANSWER_NS is skipped. The first that
 * answers leads; where none is left, the member itself leads. A leader serves all callers, and
 * checks meanwhile whether missing members are gone. Then each that came gets a verdict: its rank
 * and all members, or why it may not continue.
 *
 *     caller  who it is, by the handshake of tcp_handshake.h; its card: on which address it listens
 *     leader  the verdict
 *
 * Cards and verdicts carry a code made with a key of their connection. */
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "net/comm/reform.h"
#include "net/transport/callers.h"

#define REFORM_CONNECT_NS 2000000000    /* for another system to answer */
#define REFORM_NEAR_NS 500000000        /* for a newcomer's first connection */
#define REFORM_ANSWER_NS 12000000000LL  /* for a member to come by: it may be at a checkpoint */
#define REFORM_LATE_NS 10000000000LL    /* how long a leader waits for members that may live */
#define REFORM_VERDICT_NS 15000000000LL /* a member that was let in waits longer than that */
#define REFORM_CARD_NS 1000000000
#define REFORM_LOOK_NS 50000000         /* between looks at those that are missing */
#define REFORM_LOOK_MOST_NS 1000000000
#define REFORM_SERVE_NS 20000000
#define REFORM_BOARD 128                /* bytes of the address on the board */
#define REFORM_TEXT 300

static const char reform_session[] = "again, session", reform_paper[] = "again, paper";

/* The verdict. */
struct reform_verdict {
    int32_t rank, count;          /* count 0: it may not go on; text says why */
    struct gy_net_member member[GY_NET_MEMBERS];
    char text[REFORM_TEXT];
};

/* Who has called and was let in. */
struct reform_guest {
    int32_t id;
    struct gy_net_boot_link link; /* fd -1: a free place */
    unsigned char paper[GY_NET_KEY_BYTES];
    struct gy_net_endpoint at;
};

struct gy_net_reform {
    struct gy_alloc alloc;
    struct gy_net_reform_config config;
    struct gy_net_handshake_self called, calls; /* this process as both ends */
    struct gy_net_callers *callers;
    struct gy_net_endpoint own;
    int listener, count, index;   /* index: of this process among the members */
    struct gy_net_member member[GY_NET_MEMBERS];
    unsigned char gone[GY_NET_MEMBERS];
    struct reform_guest guest[GY_NET_MEMBERS];
};

/* ---- who calls ---- */

static void reform_dismiss(struct reform_guest *g)
{
    if (g->link.fd >= 0)
        close(g->link.fd);
    g->link.fd = -1;
}

static struct reform_guest *reform_guest_of(struct gy_net_reform *f, int32_t id)
{
    for (int i = 0; i < GY_NET_MEMBERS; i++)
        if (f->guest[i].link.fd >= 0 && f->guest[i].id == id)
            return &f->guest[i];
    return NULL;
}

/* In the handshake a process is number id + 1, and whoever is called is 0. Only those with a higher
 * id than this process may call it. */
static int reform_is_missing(void *owner, int number)
{
    const struct gy_net_reform *const f = owner;
    return number - 1 > f->config.id;
}

/* The last connection of a process counts. */
static int reform_let_in(void *owner, struct gy_net_handshake *call)
{
    struct gy_net_reform *const f = owner;
    struct reform_guest *g = reform_guest_of(f, call->rank - 1);
    for (int i = 0; i < GY_NET_MEMBERS && !g; i++)
        g = f->guest[i].link.fd < 0 ? &f->guest[i] : NULL;
    if (!g || gy_net_handshake_take(call, &f->called) != 0)
        return -1;
    reform_dismiss(g);
    *g = (struct reform_guest){ .id = call->rank - 1, .link.fd = call->fd };
    gy_net_handshake_key(call, &f->called, reform_session, g->link.key);
    gy_net_handshake_key(call, &f->called, reform_paper, g->paper);
    return 0;
}

/* 1: the other end of the connection is gone. */
static int reform_broke(int fd)
{
    char first;
    const ssize_t n = recv(fd, &first, 1, MSG_PEEK | MSG_DONTWAIT);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static int reform_serve(struct gy_net_reform *f, int64_t until, struct gy_error *err)
{
    const int status = gy_net_callers_serve(f->callers, until, err);
    for (int i = 0; i < GY_NET_MEMBERS; i++)
        if (f->guest[i].link.fd >= 0 && reform_broke(f->guest[i].link.fd))
            reform_dismiss(&f->guest[i]);
    return status;
}

/* ---- papers: cards and verdicts ---- */

static void reform_code(const unsigned char key[GY_NET_KEY_BYTES], const void *paper, size_t bytes,
                        unsigned char mac[GY_NET_MAC_BYTES])
{
    const struct gy_net_part parts[] = { { paper, bytes } };
    gy_net_hmac(key, parts, GY_COUNT(parts), mac);
}

static int reform_send(int fd, const unsigned char key[GY_NET_KEY_BYTES], const void *paper,
                       size_t bytes, struct gy_error *err)
{
    unsigned char mac[GY_NET_MAC_BYTES];
    const int64_t deadline = gy_clock_ns() + REFORM_CARD_NS;
    reform_code(key, paper, bytes, mac);
    GY_TRY(gy_net_write(fd, paper, bytes, deadline, err));
    return gy_net_write(fd, mac, sizeof mac, deadline, err);
}

static int reform_take(int fd, const unsigned char key[GY_NET_KEY_BYTES], void *paper,
                       size_t bytes, int64_t deadline, struct gy_error *err)
{
    unsigned char mac[GY_NET_MAC_BYTES], claimed[GY_NET_MAC_BYTES];
    GY_TRY(gy_net_read(fd, paper, bytes, deadline, err));
    GY_TRY(gy_net_read(fd, claimed, sizeof claimed, deadline, err));
    reform_code(key, paper, bytes, mac);
    if (gy_net_same(mac, claimed, sizeof mac))
        return GY_OK;
    return GY_FAIL(err, GY_E_PEER, "a paper's code is wrong");
}

static int reform_is_address(const struct gy_net_endpoint *at)
{
    return at->count > 0 && at->count <= sizeof at->bytes && gy_net_endpoint_port(at) > 0 &&
           gy_net_endpoint_same_host(at, at);
}

/* ---- calling ---- */

enum reform_answer { REFORM_GONE, REFORM_SILENT, REFORM_BROKE, REFORM_LET_IN };

/* A connection, or why there is none. */
static enum reform_answer reform_connect(const struct gy_net_endpoint *to, int *fd)
{
    if (gy_net_connect_begin(to, fd) != 0)
        return errno == ECONNREFUSED ? REFORM_GONE : REFORM_SILENT;
    const int problem = gy_net_connect_wait(*fd, gy_clock_ns() + REFORM_CONNECT_NS);
    if (problem == 0)
        return REFORM_LET_IN;
    close(*fd);
    return problem == ECONNREFUSED ? REFORM_GONE : REFORM_SILENT;
}

static enum reform_answer reform_handshake(struct gy_net_reform *f, struct gy_net_handshake *call,
                                           int64_t deadline)
{
    int status;
    while ((status = gy_net_handshake_go(call, &f->calls)) == 0)
        if (!gy_net_wait(call->fd, deadline))
            return REFORM_SILENT;
    return status == 1 ? REFORM_LET_IN : REFORM_BROKE;
}

/* Calls one that may lead, and hands over the card. */
static enum reform_answer reform_call(struct gy_net_reform *f, const struct gy_net_endpoint *to,
                                      int64_t patience, struct reform_guest *link)
{
    struct gy_net_handshake call;
    int fd = -1;
    enum reform_answer answer = reform_connect(to, &fd);
    if (answer != REFORM_LET_IN)
        return answer;
    const int64_t deadline = gy_clock_ns() + patience;
    gy_net_handshake_begin(&call, fd, 0, deadline);
    answer = reform_handshake(f, &call, deadline);
    if (answer == REFORM_LET_IN) {
        *link = (struct reform_guest){ .link.fd = fd };
        gy_net_handshake_key(&call, &f->calls, reform_session, link->link.key);
        gy_net_handshake_key(&call, &f->calls, reform_paper, link->paper);
        if (reform_send(fd, link->paper, &f->own, sizeof f->own, NULL) != GY_OK)
            answer = REFORM_BROKE;
    }
    if (answer != REFORM_LET_IN)
        close(fd);
    return answer;
}

/* ---- what is settled ---- */

static int reform_adopt(struct gy_net_reform *f, int rank, const struct gy_net_boot_link *links,
                        struct gy_net_boot **boot, struct gy_net_launcher *place,
                        struct gy_error *err)
{
    struct gy_net_boot_config c = { .listener = -1, .wait_ns = REFORM_VERDICT_NS,
                                    .epoch = f->config.epoch };
    c.place = (struct gy_net_launcher){ .rank = rank, .ranks = f->count, .local = -1, .locals = -1,
                                        .launcher = "gyre" };
    memcpy(c.key, f->config.key, sizeof c.key);
    *place = c.place;
    *boot = NULL;
    f->index = rank;
    memset(f->gone, 0, sizeof f->gone);
    return f->count == 1 ? GY_OK : gy_net_boot_adopt(boot, &c, links, &f->alloc, err);
}

static int reform_is_member(const struct gy_net_member *m)
{
    return m->id >= 0 && m->id < GY_NET_MEMBER_IDS && reform_is_address(&m->at);
}

/* Who wrote it has the job's key, and may be of another build all the same. */
static int reform_is_verdict(const struct gy_net_reform *f, const struct reform_verdict *v)
{
    if (v->count == 0)
        return memchr(v->text, 0, sizeof v->text) != NULL;
    if (v->count < 0 || v->count > GY_NET_MEMBERS || v->rank < 1 || v->rank >= v->count)
        return 0;
    for (int r = 0; r < v->count; r++)
        if (!reform_is_member(&v->member[r]))
            return 0;
    return v->member[v->rank].id == f->config.id;
}

static int reform_await_verdict(struct gy_net_reform *f, struct reform_guest *link,
                                int64_t deadline, struct gy_net_boot **boot,
                                struct gy_net_launcher *place, struct gy_error *err)
{
    struct reform_verdict v;
    int status = reform_take(link->link.fd, link->paper, &v, sizeof v, deadline, err);
    if (status != GY_OK)
        status = GY_E_PEER;
    else if (!reform_is_verdict(f, &v))
        status = GY_FAIL(err, GY_E_PEER, "a verdict on who goes on is none");
    else if (v.count == 0)
        status = GY_FAIL(err, GY_E_STATE, "%s", v.text);
    if (status != GY_OK) {
        close(link->link.fd);
        return status;
    }
    f->count = v.count;
    memcpy(f->member, v.member, sizeof f->member);
    return reform_adopt(f, v.rank, &link->link, boot, place, err);
}

/* ---- leading ---- */

/* Members that have not come and may live. */
static int reform_awaited(struct gy_net_reform *f)
{
    int count = 0;
    for (int i = 0; i < f->count; i++)
        count += i != f->index && !f->gone[i] && !reform_guest_of(f, f->member[i].id);
    return count;
}

/* Where nobody listens any more the process is gone. */
static void reform_probe(struct gy_net_reform *f)
{
    for (int i = 0; i < f->count; i++) {
        int fd = -1;
        if (i == f->index || f->gone[i] || reform_guest_of(f, f->member[i].id))
            continue;
        const enum reform_answer answer = reform_connect(&f->member[i].at, &fd);
        f->gone[i] = answer == REFORM_GONE;
        if (answer == REFORM_LET_IN)
            close(fd);
    }
}

/* All that live have come, or their time is over. */
static int reform_gather(struct gy_net_reform *f, struct gy_error *err)
{
    const int64_t deadline = gy_clock_ns() + REFORM_LATE_NS;
    int64_t look = 0, pause = REFORM_LOOK_NS; /* ever longer: who is busy keeps all calls */
    GY_TRY(reform_serve(f, gy_clock_ns(), err));
    while (reform_awaited(f) > 0 && gy_clock_ns() < deadline) {
        if (gy_clock_ns() >= look) {
            reform_probe(f);
            look = gy_clock_ns() + pause;
            pause = gy_min64(2 * pause, REFORM_LOOK_MOST_NS);
        }
        if (reform_awaited(f) > 0)
            GY_TRY(reform_serve(f, gy_clock_ns() + REFORM_SERVE_NS, err));
    }
    return GY_OK;
}

/* May those that came go on without those that did not? */
static int reform_judge(struct gy_net_reform *f, int came, struct gy_error *err)
{
    int present = 0, silent = 0;
    for (int i = 0; i < f->count; i++) {
        const int here = i == f->index || reform_guest_of(f, f->member[i].id) != NULL;
        present += here;
        silent += !here && !f->gone[i];
    }
    if (silent > 0 && 2 * present < f->count + (f->index > 0))
        return GY_FAIL(err, GY_E_STATE, "%d of %d ranks cannot be reached and may have gone on "
                       "without this one: it ends", silent, f->count);
    if (came < f->config.least)
        return GY_FAIL(err, GY_E_STATE, "%d of %d ranks are left; the job needs %d", came, f->count,
                       f->config.least);
    return GY_OK;
}

static int reform_was_member(const struct gy_net_reform *f, int32_t id)
{
    for (int i = 0; i < f->count; i++)
        if (f->member[i].id == id)
            return 1;
    return 0;
}

/* The next to be numbered: members before others, the lowest first. NULL: no more, or no room. */
static struct reform_guest *reform_next(struct gy_net_reform *f, const unsigned char *taken,
                                        int count)
{
    struct reform_guest *best = NULL;
    for (int i = 0; i < GY_NET_MEMBERS; i++) {
        struct reform_guest *const g = &f->guest[i];
        const int member = reform_was_member(f, g->id);
        if (g->link.fd < 0 || taken[i] || (!member && count >= f->config.most))
            continue;
        const int before = best && reform_was_member(f, best->id);
        if (!best || (member && !before) || (member == before && g->id < best->id))
            best = g;
    }
    return best;
}

/* Reads a guest's card. 1: it is there. */
static int reform_card(struct reform_guest *g)
{
    const int64_t deadline = gy_clock_ns() + REFORM_CARD_NS;
    struct gy_net_endpoint at;
    if (g->at.count > 0)
        return 1;
    if (reform_take(g->link.fd, g->paper, &at, sizeof at, deadline, NULL) != GY_OK ||
        !reform_is_address(&at))
        return 0;
    g->at = at;
    return 1;
}

/* Who comes, in the order of the new ranks. A card that is late keeps its sender out. Returns how
 * many there are, this process among them. */
static int reform_seat(struct gy_net_reform *f, struct reform_guest **seat)
{
    unsigned char taken[GY_NET_MEMBERS] = { 0 };
    int count = 1;
    seat[0] = NULL;
    while (count < GY_NET_MEMBERS) {
        struct reform_guest *const g = reform_next(f, taken, count);
        if (!g)
            break;
        taken[g - f->guest] = 1;
        if (reform_card(g))
            seat[count++] = g;
        else
            reform_dismiss(g);
    }
    return count;
}

/* One that is gone is noticed by what follows. */
static void reform_tell(struct reform_guest *const *seat, int count, struct reform_verdict *v)
{
    for (int r = 1; r < count; r++) {
        v->rank = r;
        (void)reform_send(seat[r]->link.fd, seat[r]->paper, v, sizeof *v, NULL);
    }
}

/* For who starts newcomers. */
static void reform_write_board(const struct gy_net_reform *f)
{
    char text[REFORM_BOARD] = "";
    gy_net_endpoint_text(&f->own, text, sizeof text);
    if (f->config.board >= 0 && pwrite(f->config.board, text, sizeof text, 0) < 0)
        return; /* then none are started */
}

static int reform_lead(struct gy_net_reform *f, struct gy_net_boot **boot,
                       struct gy_net_launcher *place, struct gy_error *err)
{
    struct reform_verdict v = { .count = 0 };
    struct reform_guest *seat[GY_NET_MEMBERS + 1];
    struct gy_net_boot_link links[GY_NET_MEMBERS];
    GY_TRY(reform_gather(f, err));
    const int count = reform_seat(f, seat), status = reform_judge(f, count, err);
    if (status != GY_OK) {
        gy_text_copy(v.text, sizeof v.text, err ? err->text : "");
        reform_tell(seat, count, &v);
        return status;
    }
    v.count = count;
    v.member[0] = gy_net_reform_self(f);
    links[0].fd = -1;
    for (int r = 1; r < count; r++) {
        v.member[r] = (struct gy_net_member){ seat[r]->id, seat[r]->at };
        links[r] = seat[r]->link;
    }
    reform_tell(seat, count, &v);
    for (int r = 1; r < count; r++)
        seat[r]->link.fd = -1; /* the boot's now */
    f->count = count;
    memcpy(f->member, v.member, sizeof f->member);
    reform_write_board(f);
    return reform_adopt(f, 0, links, boot, place, err);
}

/* ---- the calls ---- */

GY_INT int gy_net_reform_meet(struct gy_net_reform *f, struct gy_net_boot **boot,
                              struct gy_net_launcher *place, struct gy_error *err)
{
    struct reform_guest link;
    for (int i = 0; i < f->index; i++) {
        const struct gy_net_endpoint *const at = &f->member[i].at;
        const enum reform_answer answer =
            f->gone[i] ? REFORM_GONE : reform_call(f, at, REFORM_ANSWER_NS, &link);
        const int64_t deadline = gy_clock_ns() + REFORM_VERDICT_NS;
        f->gone[i] = answer == REFORM_GONE;
        if (answer == REFORM_LET_IN)
            return reform_await_verdict(f, &link, deadline, boot, place, err);
        if (answer == REFORM_BROKE)
            return GY_FAIL(err, GY_E_PEER, "the rank that gathers the others was lost");
    }
    return reform_lead(f, boot, place, err);
}

static int reform_fail_address(const char *host, int port, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_PEER, "the address %s port %d of the job cannot be used", host, port);
}

GY_INT int gy_net_reform_join(struct gy_net_reform *f, const char *host, int port,
                              int64_t patience, struct gy_net_boot **boot,
                              struct gy_net_launcher *place, struct gy_error *err)
{
    const int64_t deadline = gy_clock_ns() + f->config.wait_ns, late = gy_clock_ns() + patience;
    struct gy_net_endpoint at;
    struct reform_guest link;
    int fd = -1;
    GY_TRY(gy_net_connect(host, port, gy_clock_ns() + REFORM_CONNECT_NS, &fd, err));
    const int known = gy_net_endpoint_peer(fd, &at);
    close(fd);
    if (known < 0)
        return reform_fail_address(host, port, err);
    for (enum reform_answer answer = REFORM_SILENT; answer != REFORM_LET_IN;) {
        answer = reform_call(f, &at, late - gy_clock_ns(), &link);
        if (answer == REFORM_GONE || (answer != REFORM_LET_IN && gy_clock_ns() > late))
            return GY_FAIL(err, GY_E_PEER, "the job at %s port %d is gone: nobody lets this "
                           "process in", host, port);
        if (answer != REFORM_LET_IN)
            nanosleep(&(const struct timespec){ 0, REFORM_LOOK_NS }, NULL);
    }
    const int status = reform_await_verdict(f, &link, deadline, boot, place, err);
    return status == GY_E_STATE ? GY_E_PEER : status;
}

GY_INT int gy_net_reform_near(const char *host, int port, struct gy_net_endpoint *out,
                              struct gy_error *err)
{
    int fd = -1;
    GY_TRY(gy_net_connect(host, port, gy_clock_ns() + REFORM_NEAR_NS, &fd, err));
    const int known = gy_net_endpoint_own(fd, out);
    close(fd);
    return known < 0 ? reform_fail_address(host, port, err) : GY_OK;
}

GY_INT int gy_net_reform_look(struct gy_net_reform *f, int present)
{
    int wait = 0;
    if (reform_serve(f, gy_clock_ns(), NULL) != GY_OK)
        return 0;
    for (int i = 0; i < GY_NET_MEMBERS; i++)
        wait += f->guest[i].link.fd >= 0;
    return present < f->config.most ? wait : 0;
}

GY_INT struct gy_net_member gy_net_reform_self(const struct gy_net_reform *f)
{
    return (struct gy_net_member){ f->config.id, f->own };
}

GY_INT void gy_net_reform_know(struct gy_net_reform *f, const struct gy_net_member *members,
                               int count)
{
    f->count = count;
    memcpy(f->member, members, (size_t)count * sizeof *members);
    for (int i = 0; i < count; i++)
        f->index = members[i].id == f->config.id ? i : f->index;
    if (f->index == 0)
        reform_write_board(f);
}

/* On its own port, or, where somebody has that, on any. */
static int reform_listen(struct gy_net_reform *f, struct gy_error *err)
{
    char text[REFORM_BOARD], host[REFORM_BOARD];
    int port;
    gy_net_endpoint_text(&f->config.at, text, sizeof text);
    if (f->config.port > 0 && gy_net_address(text, host, sizeof host, &port, NULL) == GY_OK &&
        gy_net_listen(host, f->config.port, &f->listener, &port, NULL) == GY_OK &&
        gy_net_endpoint_own(f->listener, &f->own) == 0)
        return GY_OK;
    return gy_net_listen_at(&f->config.at, &f->listener, &f->own, err);
}

GY_INT int gy_net_reform_open(struct gy_net_reform **out, const struct gy_net_reform_config *config,
                              const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_net_reform *const f = gy_alloc_take(alloc, 1, sizeof *f);
    if (!f)
        return GY_NOMEM(err, "what ranks that go on know of each other", sizeof *f);
    *f = (struct gy_net_reform){ .alloc = *alloc, .config = *config, .listener = -1, .count = 1 };
    for (int i = 0; i < GY_NET_MEMBERS; i++)
        f->guest[i].link.fd = -1;
    f->called = (struct gy_net_handshake_self){ .kind = GY_NET_HANDSHAKE_AGAIN,
                                                .ranks = GY_NET_MEMBER_IDS + 1,
                                                .epoch = config->epoch,
                                                .missing = reform_is_missing, .owner = f };
    memcpy(f->called.key, config->key, sizeof f->called.key);
    f->calls = f->called;
    f->calls.rank = config->id + 1;
    int status = reform_listen(f, err);
    if (status == GY_OK) {
        const struct gy_net_callers_config callers = { .listener = f->listener, .wake = -1,
                                                       .self = &f->called, .take = reform_let_in,
                                                       .owner = f };
        status = gy_net_callers_open(&f->callers, &callers, alloc, err);
    }
    f->member[0] = gy_net_reform_self(f);
    if (status == GY_OK)
        *out = f;
    else
        gy_net_reform_close(f);
    return status;
}

GY_INT void gy_net_reform_give_up(const struct gy_net_reform *f)
{
    static const char none[REFORM_BOARD];
    char own[REFORM_BOARD] = "", said[REFORM_BOARD] = "";
    if (!f || f->config.board < 0)
        return;
    gy_net_endpoint_text(&f->own, own, sizeof own);
    const ssize_t bytes = pread(f->config.board, said, sizeof said, 0);
    if (bytes == (ssize_t)sizeof said && memcmp(own, said, sizeof said) == 0 &&
        pwrite(f->config.board, none, sizeof none, 0) < 0)
        return; /* then newcomers find that nobody listens */
}

GY_INT void gy_net_reform_close(struct gy_net_reform *f)
{
    if (!f)
        return;
    const struct gy_alloc alloc = f->alloc;
    gy_net_callers_close(f->callers);
    for (int i = 0; i < GY_NET_MEMBERS; i++)
        reform_dismiss(&f->guest[i]);
    if (f->listener >= 0)
        close(f->listener);
    gy_alloc_free(&alloc, f, sizeof *f);
}
