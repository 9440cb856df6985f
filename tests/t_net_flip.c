/* SPDX-License-Identifier: MIT */
/* t_net_flip.c: between two ranks on TCP stands a proxy that understands their lines. At random it
 * changes one byte of one message, leaves a message out, repeats one or swaps two. No sum that a
 * rank believes is wrong; both ranks end, and one of them names the other. A handshake that was
 * changed or is repeated from an earlier connection ends so, too, or in right sums. */
#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/rng.h"
#include "net/schedule/exec.h"
#include "net/transport/socket.h"
#include "net/transport/tcp.h"
#include "net/transport/tcp_handshake.h"
#include "tests/net_algorithms.h"
#include "tests/t.h"

#define TF_MOST 70001
#define TF_TURNS 100
#define TF_ALGORITHMS 32 /* at most */
#define TF_WAIT 30000000000LL
#define TF_LINE 64
#define TF_ROOM ((size_t)1 << 20)

enum tf_way { TF_UP /* from rank 1 */, TF_DOWN, TF_WAYS };
/* What both ends say before there are lines: tcp_handshake.h. */
static const size_t tf_hello[TF_WAYS] = {sizeof(struct gy_net_handshake_hello) + GY_NET_MAC_BYTES, GY_NET_HANDSHAKE_NONCE + 2 * GY_NET_MAC_BYTES};

enum tf_harm { TF_NONE, TF_HEAD, TF_BYTES, TF_END, TF_OUT, TF_TWICE, TF_SWAP, TF_HELLO, TF_HARMS };
static const char *const tf_harms[] = {"nothing", "a byte of a head", "a byte of a body", "a byte of an end", "a message left out",
                                       "a message twice", "two messages swapped", "a byte of the handshake"};
struct tf_plan {
    enum tf_harm harm;
    enum tf_way way;
    uint32_t message, at;       /* which one, and where, modulo what there is */
    unsigned char with;         /* not 0: to change a byte with */
};
struct tf_lane {                /* one direction */
    /* room: bytes of an incomplete unit; held: the first of two units that are swapped */
    unsigned char room[2 * TF_ROOM], held[TF_ROOM];
    size_t there, held_bytes, passed;               /* passed: of the handshake */
    uint32_t messages;
    unsigned char first[128];   /* the handshake */
};
struct tf_world {
    unsigned char key[GY_NET_KEY_BYTES];
    enum gy_net_code_kind code;
    struct tf_plan plan;
    struct gy_net_endpoint address[2], proxy;
    int met, wrong, listener, harmed, over, failed;
    const unsigned char *replay; /* tf_hello[TF_UP] bytes of an earlier caller, or NULL */
    char text[2][480];
    int status[2];
    const char *algorithm;
};
static struct tf_lane tf_lanes[TF_WAYS];

/* ---- the proxy ---- */

static int tf_put(int fd, const void *bytes, size_t count)
{
    return gy_net_write(fd, bytes, count, gy_clock_ns() + TF_WAIT, NULL) == GY_OK ? 0 : -1;
}

/* Passes on a whole line, or a message with its two lines, with the harm that the plan has for it.
 * -1: the receiver is gone. */
static int tf_pass(struct tf_world *w, struct tf_lane *lane, enum tf_way way, unsigned char *unit, size_t bytes, int to)
{
    const struct tf_plan *const p = &w->plan;
    const int message = bytes > TF_LINE;
    const size_t body = message ? bytes - 2 * TF_LINE : 0;
    const int now = message && way == p->way && lane->messages >= p->message && !w->harmed && (p->harm != TF_BYTES || body > 0);
    lane->messages += (uint32_t)message;
    if (message && lane->held_bytes > 0) {
        const int sent = tf_put(to, unit, bytes) < 0 ? -1 : tf_put(to, lane->held, lane->held_bytes);
        lane->held_bytes = 0;
        return sent;
    }
    if (!now || p->harm == TF_NONE || p->harm == TF_HELLO)
        return tf_put(to, unit, bytes);
    w->harmed = 1;
    if (p->harm == TF_OUT)
        return 0;
    if (p->harm == TF_TWICE)
        return tf_put(to, unit, bytes) < 0 ? -1 : tf_put(to, unit, bytes);
    if (p->harm == TF_SWAP) {
        memcpy(lane->held, unit, lane->held_bytes = bytes);
        return 0;
    }
    unit[p->harm == TF_HEAD ? p->at % TF_LINE : p->harm == TF_END ? bytes - 1 - p->at % TF_LINE : TF_LINE + p->at % body] ^= p->with;
    return tf_put(to, unit, bytes);
}

/* Of what is there the handshake, then whole units. */
static int tf_units(struct tf_world *w, struct tf_lane *lane, enum tf_way way, int to)
{
    const size_t left = tf_hello[way] - lane->passed, first = left < lane->there ? left : lane->there;
    size_t at = first;
    memcpy(lane->first + lane->passed, lane->room, first);
    for (size_t i = 0; i < first; i++)
        if (w->plan.harm == TF_HELLO && w->plan.way == way && lane->passed + i == w->plan.at % tf_hello[way] && !w->harmed) {
            lane->room[i] ^= w->plan.with;
            w->harmed = 1;
        }
    lane->passed += first;
    int status = first > 0 ? tf_put(to, lane->room, first) : 0;
    while (status == 0 && lane->there - at >= TF_LINE) {
        uint32_t kind;
        uint64_t value;
        memcpy(&kind, lane->room + at, sizeof kind);
        memcpy(&value, lane->room + at + 8, sizeof value);
        const size_t bytes = kind == 1 ? (size_t)value + 2 * TF_LINE : TF_LINE;
        if (value > TF_ROOM)
            return -1; /* none of ours */
        if (lane->there - at < bytes)
            break;
        status = tf_pass(w, lane, way, lane->room + at, bytes, to);
        at += bytes;
    }
    memmove(lane->room, lane->room + at, lane->there - at);
    lane->there -= at;
    return status;
}

/* Both ways, until an end closes. */
static void tf_between(struct tf_world *w, int up, int down)
{
    const int from[TF_WAYS] = {up, down}, to[TF_WAYS] = {down, up};
    int open = 1;
    for (int way = 0; way < TF_WAYS; way++)
        tf_lanes[way].there = tf_lanes[way].passed = tf_lanes[way].held_bytes = tf_lanes[way].messages = 0;
    while (open && !__atomic_load_n(&w->over, __ATOMIC_ACQUIRE)) {
        struct pollfd polled[TF_WAYS] = {{ .fd = up, .events = POLLIN }, { .fd = down, .events = POLLIN }};
        if (poll(polled, TF_WAYS, 2) <= 0)
            continue;
        for (int way = 0; way < TF_WAYS && open; way++) {
            struct tf_lane *const lane = &tf_lanes[way];
            if (polled[way].revents == 0)
                continue;
            const ssize_t n = recv(from[way], lane->room + lane->there, sizeof lane->room - lane->there, 0);
            lane->there += n > 0 ? (size_t)n : 0;
            open = n > 0 ? tf_units(w, lane, (enum tf_way)way, to[way]) == 0 : n < 0 && errno == EAGAIN;
        }
    }
    close(up);
    close(down);
}

static int tf_dial(const struct gy_net_endpoint *to)
{
    int fd = -1;
    if (gy_net_connect_begin(to, &fd) != 0)
        return -1;
    struct pollfd p = { .fd = fd, .events = POLLOUT };
    return poll(&p, 1, 5000) > 0 ? fd : -1;
}

static void *tf_proxy(void *user)
{
    struct tf_world *const w = user;
    int replayed = -1, fd;
    while (__atomic_load_n(&w->met, __ATOMIC_ACQUIRE) < 2)
        nanosleep(&(const struct timespec){0, 100000}, NULL);
    if (w->replay && (replayed = tf_dial(&w->address[0])) >= 0)
        (void)tf_put(replayed, w->replay, tf_hello[TF_UP]);
    while (!__atomic_load_n(&w->over, __ATOMIC_ACQUIRE)) {
        struct pollfd p = { .fd = w->listener, .events = POLLIN };
        if (poll(&p, 1, 2) <= 0 || gy_net_accept_now(w->listener, &fd) != 0)
            continue;
        const int to = tf_dial(&w->address[0]);
        if (to >= 0)
            tf_between(w, fd, to);
        else
            close(fd);
    }
    if (replayed >= 0)
        close(replayed);
    return NULL;
}

/* ---- the ranks ---- */

static float tf_value(int rank, int64_t i)
{
    return (float)((i * 7 + rank * 13) % 101 - 50); /* sums are exact, whatever their order */
}

static int tf_sums(struct tf_world *w, int rank, const struct gy_net_end *end, struct gy_error *err)
{
    static const int64_t counts[] = {17, TF_MOST, 1, 4099, 0, 50000};
    static float room[2][TF_MOST];
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_net_shape shape = { .ranks = 2, .lanes = 2 };
    const int64_t deadline = gy_clock_ns() + TF_WAIT;
    struct gy_net_schedule s = {0};
    struct gy_net_exec *exec = NULL;
    struct gy_net_proof proof;
    int status = gy_net_build(&s, w->algorithm, &shape, GY_NET_ALLREDUCE, &alloc, err);
    status = status == GY_OK ? gy_net_verify(&s, &proof, err) : status;
    status = status == GY_OK ? gy_net_exec_open(&exec, &s, end, TF_MOST, 1, NULL, &alloc, err) : status;
    for (size_t k = 0; k < 2 * GY_COUNT(counts) && status == GY_OK; k++) {
        const int64_t count = counts[k % GY_COUNT(counts)];
        for (int64_t i = 0; i < count; i++)
            room[rank][i] = tf_value(rank, i);
        status = gy_net_exec_start(exec, room[rank], count, err);
        while (status == 0 && gy_clock_ns() < deadline && !__atomic_load_n(&w->failed, __ATOMIC_ACQUIRE))
            status = gy_net_exec_test(exec, err);
        /* like the guard of a job */
        if (status == 0 && __atomic_load_n(&w->failed, __ATOMIC_ACQUIRE))
            status = GY_FAIL(err, GY_E_PEER, "rank %d has failed", 1 - rank);
        status = status == 1 ? GY_OK : status == 0 ? GY_FAIL(err, GY_E_BUG, "no end of sum %zu", k) : status;
        for (int64_t i = 0; i < count && status == GY_OK; i++)
            if (room[rank][i] != tf_value(0, i) + tf_value(1, i)) {
                __atomic_add_fetch(&w->wrong, 1, __ATOMIC_ACQ_REL);
                status = GY_FAIL(err, GY_E_BUG, "sum %zu is wrong at %" PRId64, k, i);
            }
    }
    __atomic_or_fetch(&w->failed, status != GY_OK, __ATOMIC_ACQ_REL);
    gy_net_exec_close(exec);
    gy_net_close_schedule(&s);
    return status;
}

struct tf_rank {
    struct tf_world *world;
    int rank;
};

static void *tf_thread(void *user)
{
    const struct tf_rank *const own = user;
    struct tf_world *const w = own->world;
    struct gy_net_tcp_config config = { .rank = own->rank, .ranks = 2, .code = w->code };
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = {0};
    struct gy_net_tcp *tcp = NULL;
    struct gy_net_end end;
    memcpy(config.key, w->key, sizeof config.key);
    gy_net_endpoint_loopback(&config.own);
    int status = gy_net_tcp_open(&tcp, &config, &alloc, &err);
    if (status == GY_OK)
        gy_net_tcp_address(tcp, &w->address[own->rank]);
    __atomic_add_fetch(&w->met, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&w->met, __ATOMIC_ACQUIRE) < 2)
        nanosleep(&(const struct timespec){0, 100000}, NULL);
    if (status == GY_OK) {
        struct gy_net_endpoint addresses[2] = {own->rank == 0 ? w->address[0] : w->proxy, w->address[1]};
        (void)gy_net_tcp_connect(tcp, addresses, &err);
        gy_net_tcp_end(tcp, &end);
        status = tf_sums(w, own->rank, &end, &err);
    }
    w->status[own->rank] = status;
    memcpy(w->text[own->rank], err.text, sizeof err.text);
    gy_net_tcp_close(tcp);
    return NULL;
}

static void tf_run(struct tf_world *w)
{
    struct tf_rank own[2] = {{w, 0}, {w, 1}};
    struct gy_net_endpoint loopback;
    struct gy_error err = {0};
    pthread_t threads[3];
    memset(w->key, 9, sizeof w->key);
    gy_net_endpoint_loopback(&loopback);
    if (!T_CHECK(gy_net_listen_at(&loopback, &w->listener, &w->proxy, &err) == GY_OK))
        return;
    pthread_create(&threads[2], NULL, tf_proxy, w);
    for (int r = 0; r < 2; r++)
        pthread_create(&threads[r], NULL, tf_thread, &own[r]);
    for (int r = 0; r < 2; r++)
        pthread_join(threads[r], NULL);
    __atomic_store_n(&w->over, 1, __ATOMIC_RELEASE);
    pthread_join(threads[2], NULL);
    close(w->listener);
}

/* ---- what must come of it ---- */

static int tf_names(const struct tf_world *w, int rank)
{
    char here[64], there[64];
    snprintf(here, sizeof here, "rank %d got a ", rank);
    snprintf(there, sizeof there, "from rank %d by TCP, 127.0.0.1:", 1 - rank);
    return strncmp(w->text[rank], here, strlen(here)) == 0 && strstr(w->text[rank], there) && strstr(w->text[rank], "not what was sent");
}

static void tf_judge(const struct tf_world *w, uint32_t turn)
{
    const int finder = w->plan.way == TF_UP ? 0 : 1;
    const char *const what = tf_harms[w->plan.harm];
    T_CHECK_MSG(w->wrong == 0, "turn %u, %s: a wrong sum was believed", turn, what);
    if (w->plan.harm == TF_HELLO) {
        T_CHECK_MSG(w->harmed && (w->status[0] == GY_OK || w->status[0] == GY_E_PEER) && (w->status[1] == GY_OK || w->status[1] == GY_E_PEER),
                    "turn %u, %s: %d '%s', %d '%s'", turn, what, w->status[0], w->text[0], w->status[1], w->text[1]);
        return;
    }
    /* who sent the last message may be through */
    const int other = w->status[1 - finder], lost = w->plan.harm == TF_OUT && strstr(w->text[finder], "was lost");
    T_CHECK_MSG(w->harmed && w->status[finder] == GY_E_PEER && (other == GY_OK || other == GY_E_PEER) && (lost || tf_names(w, finder)),
                "turn %u, %s of message %u, at %u: %d '%s', %d '%s'", turn, what, w->plan.message, w->plan.at, w->status[0], w->text[0],
                w->status[1], w->text[1]);
}

/* Untouched: right sums; returns how many messages went the one and the other way. */
static void tf_clean(enum gy_net_code_kind code, const char *algorithm, uint32_t messages[TF_WAYS], const unsigned char *replay)
{
    static struct tf_world w;
    w = (struct tf_world){ .code = code, .algorithm = algorithm, .replay = replay };
    tf_run(&w);
    T_CHECK_MSG(w.status[0] == GY_OK && w.status[1] == GY_OK, "untouched: '%s', '%s'", w.text[0], w.text[1]);
    for (int way = 0; way < TF_WAYS; way++)
        messages[way] = tf_lanes[way].messages;
}

static void tf_all(enum gy_net_code_kind code)
{
    static struct tf_world w;
    uint32_t messages[TF_ALGORITHMS][TF_WAYS], words[4], more[4], algorithms = 0;
    unsigned char earlier[128];
    int count[TF_HARMS] = {0}, turns[TF_ALGORITHMS] = {0};
    for (; net_allreduce((int)algorithms) && T_CHECK(algorithms < TF_ALGORITHMS); algorithms++)
        tf_clean(code, net_allreduce((int)algorithms), messages[algorithms], NULL);
    memcpy(earlier, tf_lanes[TF_UP].first, sizeof earlier);
    tf_clean(code, net_allreduce(0), messages[0], earlier);
    for (uint32_t turn = 0; turn < TF_TURNS; turn++) {
        gy_rng_words(31, code, turn, 0, words);
        gy_rng_words(32, code, turn, 0, more);
        const uint32_t a = words[0] % algorithms;
        const enum tf_way way = words[1] % 2;
        /* half of them in bodies; two that are swapped need a second one */
        const enum tf_harm harm = more[2] % 2 ? TF_BYTES : (enum tf_harm)(1 + more[1] % (TF_HARMS - 1));
        w = (struct tf_world){ .code = code, .algorithm = net_allreduce((int)a) };
        w.plan = (struct tf_plan){harm, way, words[2] % (messages[a][way] - (harm == TF_SWAP)), words[3], (unsigned char)(1u << more[0] % 8)};
        tf_run(&w);
        tf_judge(&w, turn);
        count[harm]++;
        turns[a]++;
    }
    for (int h = 1; h < TF_HARMS; h++)
        T_CHECK_MSG(count[h] > 0, "never: %s", tf_harms[h]);
    for (uint32_t a = 0; a < algorithms; a++)
        T_CHECK_MSG(turns[a] > 0, "never: %s", net_allreduce((int)a));
}

int main(void)
{
    tf_all(GY_NET_CODE_CRC);
    tf_all(GY_NET_CODE_HMAC);
    T_END("t_net_flip");
}
