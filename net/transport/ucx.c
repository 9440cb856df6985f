/* SPDX-License-Identifier: MIT */
/* ucx.c: a message's tag at UCX is (sender, tag) xor the job's secret; receives name both. UCX lets
 * in whoever reaches its port. A stranger's messages meet no receive, and others are checked
 * (sealed.h). Requests under way lie in one list; UCX calls back when one is over. When an endpoint
 * fails, the callback only marks the peer. The next progress cancels what is still to come from it
 * and closes the endpoint by force, which ends its sends. Endpoints work in UCX's peer mode:
 * without it a send to a lost peer would never end.
 *
 * UCX's own ways of sharing memory stay closed: ranks of one host use memory of ours. Its signal
 * handlers are taken back. Its TCP connections whose ends are both on this machine are found by
 * their ports and get the simplest congestion control. BBR, where a system has chosen it, costs
 * more than half of the rate there. */
#include "engine/base/clock.h"
#include "engine/base/file_line.h"
#include "net/transport/ports.h"
#include "net/transport/ucx.h"
#include "net/transport/ucx_api.h"

#ifndef GY_NO_UCX
#include <dirent.h>
#include <dlfcn.h>
#include <sched.h>
#include <time.h>

#define UCX_CLOSE_NS 2000000000 /* for what is under way at the end */
#define UCX_CANCEL_NS 1000000000
#define UCX_TURNS 16            /* progress calls in a row while they find something */
#define UCX_LOOKS 200           /* calls that find nothing before the processor is given away */
/* More such calls before this rank sleeps for a moment: it is far ahead of the others. */
#define UCX_LONG 4000
#define UCX_MOMENT_NS 50000
/* of TCP: 256 KiB with heads. 64 KiB (UCX's own) and 136 KiB are slower; 520 KiB are no faster. */
#define UCX_SEGMENT "264k"
#define UCX_PORTS 4             /* of a device that are looked at; adapters have one or two */
/* Posts; by then connections have come. They are looked for again each time the posts have
 * doubled. */
#define UCX_SETTLED 16

struct ucx_peer {
    struct gy_net_ucx *ucx;
    void *ep;
    int failed; /* 1: its endpoint broke; 2: and was closed */
};
struct ucx_address {
    unsigned char bytes[GY_NET_UCX_ADDRESS - sizeof(struct gy_net_ports) - sizeof(uint32_t)];
    struct gy_net_ports ports; /* on which its UCX listens */
    uint32_t rdma;             /* it has devices that move memory themselves */
};
struct gy_net_ucx {
    struct gy_alloc alloc;
    struct ucx_functions f;
    void *context, *worker;
    struct gy_net_ucx_config config;
    struct ucx_address own, *addresses; /* [ranks] */
    struct gy_net_port_set ports;       /* of all ranks */
    struct ucx_peer *peers;             /* [ranks] */
    int rdma;                           /* all ranks have them */
    struct gy_net_request *pending;
    int failed;                         /* peers whose failure is not dealt with */
    int idle;                           /* progress calls in a row that found nothing */
    unsigned posts, ended;              /* count requests, and those that are over */
    int broken;                         /* requests were given up: UCX must not run again */
};

/* ---- the library ---- */

struct ucx_symbol {
    const char *name;
    size_t at;
};
#define UCX_AT(member) offsetof(struct ucx_functions, member)
static const struct ucx_symbol ucx_ucp[] = {
    {"ucp_get_version", UCX_AT(get_version)}, {"ucp_config_read", UCX_AT(config_read)}, {"ucp_config_modify", UCX_AT(config_modify)},
    {"ucp_config_release", UCX_AT(config_release)}, {"ucp_init_version", UCX_AT(init_version)}, {"ucp_cleanup", UCX_AT(cleanup)},
    {"ucp_worker_create", UCX_AT(worker_create)}, {"ucp_worker_destroy", UCX_AT(worker_destroy)}, {"ucp_worker_query", UCX_AT(worker_query)},
    {"ucp_worker_release_address", UCX_AT(worker_release_address)}, {"ucp_worker_progress", UCX_AT(worker_progress)},
    {"ucp_ep_create", UCX_AT(ep_create)}, {"ucp_ep_close_nbx", UCX_AT(ep_close)}, {"ucp_tag_send_nbx", UCX_AT(tag_send)},
    {"ucp_tag_recv_nbx", UCX_AT(tag_recv)}, {"ucp_request_cancel", UCX_AT(request_cancel)}, {"ucp_request_free", UCX_AT(request_free)},
    {"ucp_request_check_status", UCX_AT(request_check)},
};
static const struct ucx_symbol ucx_ucs[] = {
    {"ucs_status_string", UCX_AT(status_string)}, {"ucs_debug_disable_signals", UCX_AT(disable_signals)},
    {"ucs_global_opts_set_value", UCX_AT(set_option)},
};

static int ucx_symbols(struct ucx_functions *f, const char *library, const struct ucx_symbol *symbols, size_t count, struct gy_error *err)
{
    void *const handle = dlopen(library, RTLD_NOW | RTLD_LOCAL); /* stays: UCX cannot be unloaded */
    if (!handle)
        return GY_FAIL(err, GY_E_UNSUPPORTED, "GYRE_TRANSPORT=ucx needs the library UCX (Debian: libucx0): %s", dlerror());
    for (size_t i = 0; i < count; i++) {
        void *const address = dlsym(handle, symbols[i].name);
        if (!address && symbols[i].at < UCX_AT(disable_signals))
            return GY_FAIL(err, GY_E_UNSUPPORTED, "UCX's %s has no %s; Gyre needs 1.11 or later", library, symbols[i].name);
        memcpy((unsigned char *)f + symbols[i].at, &address, sizeof address);
    }
    return GY_OK;
}

static int ucx_load(struct ucx_functions *f, struct gy_error *err)
{
    GY_TRY(ucx_symbols(f, "libucs.so.0", ucx_ucs, GY_COUNT(ucx_ucs), err));
    GY_TRY(ucx_symbols(f, "libucp.so.0", ucx_ucp, GY_COUNT(ucx_ucp), err));
    if (f->disable_signals)
        f->disable_signals();
    if (f->set_option && !getenv("UCX_LOG_LEVEL"))
        f->set_option("LOG_LEVEL", "error"); /* what breaks off is told by us */
    return GY_OK;
}

static int ucx_fail(const struct gy_net_ucx *u, int status, const char *what, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_UNSUPPORTED, "UCX: %s: %s", what, u->f.status_string((ucx_status)status));
}

/* ---- requests ---- */

static int ucx_is_error(const void *p)
{
    return (uintptr_t)p >= (uintptr_t)(intptr_t)-100;
}

/* A request's stamp is UCX's handle. While the request is being posted it is UCX_POSTING, or how
 * the request ended before the posting call came back. */
enum ucx_stamp { UCX_POSTING, UCX_OVER, UCX_FAILED };

static void ucx_link(struct gy_net_ucx *u, struct gy_net_request *request, void *handle)
{
    request->stamp = (int64_t)(intptr_t)handle;
    request->prev = NULL;
    request->next = u->pending;
    if (u->pending)
        u->pending->prev = request;
    u->pending = request;
}

static void ucx_end_request(struct gy_net_request *request, int state)
{
    struct gy_net_ucx *u = request->owner;
    if (request->prev)
        request->prev->next = request->next;
    else
        u->pending = request->next;
    if (request->next)
        request->next->prev = request->prev;
    u->ended++;
    __atomic_store_n(&request->state, state, __ATOMIC_RELEASE);
}

static void ucx_on_end(void *handle, struct gy_net_request *request, int good)
{
    const struct gy_net_ucx *u = request->owner;
    /* the call that posts it has not come back, and handles the rest */
    if (request->stamp == UCX_POSTING) {
        request->stamp = good ? UCX_OVER : UCX_FAILED;
        return;
    }
    ucx_end_request(request, good ? GY_NET_DONE : GY_NET_LOST);
    u->f.request_free(handle);
}

static void ucx_on_send(void *handle, ucx_status status, void *user_data)
{
    ucx_on_end(handle, user_data, status == 0);
}

static void ucx_on_receive(void *handle, ucx_status status, const struct ucx_tag_info *info, void *user_data)
{
    const struct gy_net_request *request = user_data;
    ucx_on_end(handle, user_data, status == 0 && info->length == request->bytes);
}

static void ucx_on_error(void *arg, void *ep, ucx_status status)
{
    struct ucx_peer *peer = arg;
    (void)ep, (void)status;
    peer->ucx->failed += peer->failed == 0;
    peer->failed = peer->failed == 0 ? 1 : peer->failed;
}

static int ucx_endpoint(struct gy_net_ucx *u, int rank, struct gy_error *err)
{
    struct ucx_peer *peer = &u->peers[rank];
    if (peer->ep)
        return GY_OK;
    const struct ucx_ep_params params = { .field_mask = UCX_EP_ADDRESS | UCX_EP_ERR_MODE | UCX_EP_ERR_HANDLER,
                                         .address = u->addresses[rank].bytes, .err_mode = UCX_ERR_MODE_PEER,
                                         .err_handler = {ucx_on_error, peer} };
    const ucx_status status = u->f.ep_create(u->worker, &params, &peer->ep);
    if (status == 0)
        return GY_OK;
    peer->ep = NULL;
    return GY_FAIL(err, GY_E_PEER, "rank %d cannot be reached by UCX: %s", rank, u->f.status_string(status));
}

static uint64_t ucx_tag(const struct gy_net_ucx *u, int sender, uint32_t tag)
{
    return ((uint64_t)sender << 32 | tag) ^ u->config.secret;
}

static void *ucx_send(const struct gy_net_ucx *u, struct gy_net_request *r)
{
    const struct ucx_request_param param = { .op_attr_mask = UCX_OP_CALLBACK | UCX_OP_USER_DATA | UCX_OP_MEMORY_TYPE,
                                            .cb = { .send = ucx_on_send }, .user_data = r };
    return u->f.tag_send(u->peers[r->peer].ep, r->buffer, r->bytes, ucx_tag(u, u->config.rank, r->tag), &param);
}

static void *ucx_receive(const struct gy_net_ucx *u, struct gy_net_request *r, struct ucx_tag_info *info)
{
    const struct ucx_request_param param = { .op_attr_mask = UCX_OP_CALLBACK | UCX_OP_USER_DATA | UCX_OP_MEMORY_TYPE | UCX_OP_RECV_INFO,
                                            .cb = { .recv = ucx_on_receive }, .user_data = r, .recv_info = info };
    return u->f.tag_recv(u->worker, r->buffer, r->bytes, ucx_tag(u, r->peer, r->tag), UINT64_MAX, &param);
}

static int ucx_post(void *self, struct gy_net_request *r, struct gy_error *err)
{
    struct gy_net_ucx *u = self;
    struct ucx_tag_info info = {0};
    r->state = GY_NET_LOST;
    if (u->broken || u->peers[r->peer].failed)
        return GY_FAIL(err, GY_E_PEER, "rank %d is gone", r->peer);
    GY_TRY(ucx_endpoint(u, r->peer, err));
    if (++u->posts >= UCX_SETTLED && (u->posts & (u->posts - 1)) == 0)
        gy_net_ports_near(&u->ports);
    info.length = r->bytes;
    r->owner = u;
    r->stamp = UCX_POSTING;
    void *const handle = r->sends ? ucx_send(u, r) : ucx_receive(u, r, &info);
    if (ucx_is_error(handle))
        return GY_FAIL(err, GY_E_PEER, "rank %d cannot be reached by UCX: %s", r->peer, u->f.status_string((ucx_status)(intptr_t)handle));
    if (!handle)
        r->state = info.length == r->bytes ? GY_NET_DONE : GY_NET_LOST;
    else if (r->stamp == UCX_POSTING) {
        r->state = GY_NET_PENDING;
        ucx_link(u, r, handle);
    } else {
        r->state = r->stamp == UCX_OVER ? GY_NET_DONE : GY_NET_LOST;
        u->f.request_free(handle);
    }
    return GY_OK;
}

/* ---- progress and its end ---- */

/* Until the handle of a closing endpoint is over; no longer than the deadline. */
static void ucx_finish(struct gy_net_ucx *u, void *handle, int64_t deadline)
{
    if (!handle || ucx_is_error(handle))
        return;
    while (u->f.request_check(handle) == UCX_IN_PROGRESS && gy_clock_ns() < deadline)
        u->f.worker_progress(u->worker);
    u->f.request_free(handle);
}

static void ucx_close_peer(struct gy_net_ucx *u, int rank, unsigned flags, int64_t deadline)
{
    const struct ucx_request_param param = { .op_attr_mask = UCX_OP_FLAGS, .flags = flags };
    void *const ep = u->peers[rank].ep;
    u->peers[rank].ep = NULL;
    if (ep)
        ucx_finish(u, u->f.ep_close(ep, &param), deadline);
}

static int ucx_waits_for(const struct gy_net_ucx *u, int peer)
{
    for (const struct gy_net_request *r = u->pending; r != NULL; r = r->next)
        if (peer < 0 || r->peer == peer)
            return 1;
    return 0;
}

static void ucx_cancel_receives(struct gy_net_ucx *u, int peer)
{
    struct gy_net_request *next;
    for (struct gy_net_request *r = u->pending; r != NULL; r = next) {
        next = r->next; /* a cancelled one may leave the list at once */
        if (!r->sends && (peer < 0 || r->peer == peer))
            u->f.request_cancel(u->worker, (void *)(intptr_t)r->stamp);
    }
}

/* What does not end in time is given up, and the worker with it: it might still write. */
static void ucx_cancel(void *self, int peer)
{
    struct gy_net_ucx *u = self;
    const int64_t deadline = gy_clock_ns() + UCX_CANCEL_NS;
    if (u->broken)
        return;
    ucx_cancel_receives(u, peer);
    for (int r = 0; r < u->config.ranks; r++)
        if (peer == r || (peer < 0 && u->peers[r].ep)) {
            u->failed -= u->peers[r].failed == 1;
            u->peers[r].failed = 2;
            ucx_close_peer(u, r, UCX_CLOSE_FORCE, deadline);
        }
    while (ucx_waits_for(u, peer) && gy_clock_ns() < deadline)
        u->f.worker_progress(u->worker);
    if (!ucx_waits_for(u, peer))
        return;
    u->broken = 1;
    while (u->pending)
        ucx_end_request(u->pending, GY_NET_LOST);
}

static int ucx_progress(void *self, struct gy_error *err)
{
    struct gy_net_ucx *u = self;
    if (u->broken)
        return GY_FAIL(err, GY_E_PEER, "the connection by UCX is broken");
    const unsigned ended = u->ended;
    int turns = 0;
    while (turns < UCX_TURNS && u->ended == ended && u->f.worker_progress(u->worker) > 0)
        turns++; /* whoever waits for what came looks at it while it is in a cache */
    u->idle = turns > 0 ? 0 : u->idle + 1;
    if (u->idle > UCX_LONG)
        nanosleep(&(const struct timespec){0, UCX_MOMENT_NS}, NULL);
    else if (u->idle > UCX_LOOKS)
        sched_yield();
    for (int r = 0; r < u->config.ranks && u->failed > 0; r++)
        if (u->peers[r].failed == 1)
            ucx_cancel(u, r);
    return GY_OK;
}

/* ---- open and close ---- */

/* Has one of the device's ports the state "4: ACTIVE"? */
static int ucx_is_active(const char *device)
{
    char path[320], line[64];
    for (int port = 1; port <= UCX_PORTS; port++) {
        snprintf(path, sizeof path, "/sys/class/infiniband/%.200s/ports/%d/state", device, port);
        if (strstr(gy_file_line(path, line, sizeof line), "ACTIVE"))
            return 1;
    }
    return 0;
}

GY_INT int gy_net_ucx_has_rdma(void)
{
    DIR *const folder = opendir("/sys/class/infiniband");
    int found = 0;
    for (const struct dirent *d; folder != NULL && !found && (d = readdir(folder));)
        found = d->d_name[0] != '.' && ucx_is_active(d->d_name);
    if (folder)
        closedir(folder);
    return found;
}

/* The user's own variables win. No sent segment of TCP may be longer than a received one, and both
 * ends must have the same. So where the user sets one of the two lengths, neither is changed here.
 * UCX 1.13 knows these options here by the names without TCP_. */
static int ucx_configure(const struct gy_net_ucx *u, void *config, struct gy_error *err)
{
    const char *const transports = u->config.transports ? u->config.transports : "^sm";
    /* asking first costs time over TCP */
    const char *const ask = gy_net_ucx_has_rdma() ? "auto" : "inf";
    const char *const segment = getenv("UCX_TCP_TX_SEG_SIZE") ? "UCX_TCP_TX_SEG_SIZE" : "UCX_TCP_RX_SEG_SIZE";
    const struct {
        const char *variable, *name, *value;
    } rows[] = {{"UCX_TLS", "TLS", transports}, {"UCX_KEEPALIVE_INTERVAL", "KEEPALIVE_INTERVAL", "1000s"}, {"UCX_RNDV_THRESH", "RNDV_THRESH", ask},
                {segment, "TCP_TX_SEG_SIZE", UCX_SEGMENT}, {segment, "TX_SEG_SIZE", UCX_SEGMENT},
                {segment, "TCP_RX_SEG_SIZE", UCX_SEGMENT}, {segment, "RX_SEG_SIZE", UCX_SEGMENT}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        const ucx_status status = !getenv(rows[i].variable) ? u->f.config_modify(config, rows[i].name, rows[i].value) : 0;
        if (status != 0)
            return ucx_fail(u, status, rows[i].variable, err);
    }
    return GY_OK;
}

/* What this process listens on from here on is UCX's. */
static int ucx_open_worker(struct gy_net_ucx *u, struct gy_error *err)
{
    const struct ucx_worker_params worker = { .field_mask = UCX_WORKER_THREAD_MODE, .thread_mode = UCX_THREAD_SERIALIZED };
    struct gy_net_ports before;
    gy_net_ports_read(&before);
    const ucx_status status = u->f.worker_create(u->context, &worker, &u->worker);
    if (status != 0)
        return ucx_fail(u, status, "no worker", err);
    gy_net_ports_read(&u->own.ports);
    gy_net_ports_less(&u->own.ports, &before);
    return GY_OK;
}

static int ucx_start(struct gy_net_ucx *u, void *config, struct gy_error *err)
{
    const struct ucx_params params = { .field_mask = UCX_PARAM_FEATURES | UCX_PARAM_RANKS, .features = UCX_FEATURE_TAG,
                                      .estimated_num_eps = (size_t)u->config.ranks };
    struct ucx_worker_attr attr = { .field_mask = UCX_WORKER_ATTR_ADDRESS };
    GY_TRY(ucx_configure(u, config, err));
    ucx_status status = u->f.init_version(UCX_API_MAJOR, UCX_API_MINOR, &params, config, &u->context);
    if (status != 0)
        return ucx_fail(u, status, "no context", err);
    GY_TRY(ucx_open_worker(u, err));
    status = u->f.worker_query(u->worker, &attr);
    if (status != 0)
        return ucx_fail(u, status, "no address", err);
    const size_t bytes = attr.address_length, room = sizeof u->own.bytes;
    if (bytes <= room)
        memcpy(u->own.bytes, attr.address, bytes);
    u->f.worker_release_address(u->worker, attr.address);
    u->own.rdma = (uint32_t)gy_net_ucx_has_rdma();
    return bytes <= room ? GY_OK : GY_FAIL(err, GY_E_UNSUPPORTED, "UCX's address has %zu bytes; there is room for %zu. UCX_TLS or UCX_NET_DEVICES can "
                                           "name fewer ways", bytes, room);
}

static int ucx_fill(struct gy_net_ucx *u, struct gy_error *err)
{
    void *config = NULL;
    const size_t ranks = (size_t)u->config.ranks;
    u->addresses = gy_alloc_take(&u->alloc, ranks, sizeof *u->addresses);
    u->peers = gy_alloc_take(&u->alloc, ranks, sizeof *u->peers);
    if (!u->addresses || !u->peers)
        return GY_NOMEM(err, "the ranks' addresses", ranks * GY_NET_UCX_ADDRESS);
    for (size_t r = 0; r < ranks; r++)
        u->peers[r].ucx = u;
    GY_TRY(ucx_load(&u->f, err));
    const ucx_status status = u->f.config_read(NULL, NULL, &config);
    if (status != 0)
        return ucx_fail(u, status, "no configuration", err);
    const int started = ucx_start(u, config, err);
    u->f.config_release(config);
    return started;
}

GY_INT int gy_net_ucx_open(struct gy_net_ucx **out, const struct gy_net_ucx_config *config, const struct gy_alloc *alloc,
                           struct gy_error *err)
{
    struct gy_net_ucx *u = gy_alloc_take(alloc, 1, sizeof *u);
    if (!u)
        return GY_NOMEM(err, "the connection by UCX", sizeof *u);
    u->alloc = *alloc;
    u->config = *config;
    const int status = ucx_fill(u, err);
    if (status == GY_OK)
        *out = u;
    else
        gy_net_ucx_close(u);
    return status;
}

GY_INT void gy_net_ucx_close(struct gy_net_ucx *u)
{
    if (!u)
        return;
    const struct gy_alloc alloc = u->alloc;
    const int64_t deadline = gy_clock_ns() + UCX_CLOSE_NS;
    if (ucx_waits_for(u, -1))
        ucx_cancel(u, -1);
    for (int r = 0; u->peers != NULL && !u->broken && r < u->config.ranks; r++)
        ucx_close_peer(u, r, u->peers[r].failed ? UCX_CLOSE_FORCE : 0, deadline);
    if (u->worker && !u->broken)
        u->f.worker_destroy(u->worker);
    if (u->context && !u->broken)
        u->f.cleanup(u->context);
    gy_alloc_free(&alloc, u->addresses, (size_t)u->config.ranks * sizeof *u->addresses);
    gy_alloc_free(&alloc, u->peers, (size_t)u->config.ranks * sizeof *u->peers);
    gy_alloc_free(&alloc, u, sizeof *u);
}

GY_INT void gy_net_ucx_address(const struct gy_net_ucx *u, unsigned char *address)
{
    memcpy(address, &u->own, sizeof u->own);
}

GY_INT int gy_net_ucx_connect(struct gy_net_ucx *u, const unsigned char *addresses, struct gy_error *err)
{
    (void)err;
    memcpy(u->addresses, addresses, (size_t)u->config.ranks * sizeof *u->addresses);
    u->rdma = 1;
    for (int r = 0; r < u->config.ranks; r++) {
        gy_net_ports_add(&u->ports, &u->addresses[r].ports);
        u->rdma = u->rdma && u->addresses[r].rdma;
    }
    return GY_OK;
}

GY_INT void gy_net_ucx_end(struct gy_net_ucx *u, struct gy_net_end *out)
{
    /* Over TCP the processor itself moves the bytes: fewer and longer messages. */
    static const struct gy_net_transport rdma = {ucx_post, ucx_progress, ucx_cancel, "ucx", 1 << 16, 0};
    static const struct gy_net_transport plain = {ucx_post, ucx_progress, ucx_cancel, "ucx", 1 << 17, 1};
    *out = (struct gy_net_end){u->rdma ? &rdma : &plain, u, u->config.rank, u->config.ranks, 0};
}

GY_INT void gy_net_ucx_version(const struct gy_net_ucx *u, char *text, size_t room)
{
    unsigned major, minor, release;
    u->f.get_version(&major, &minor, &release);
    snprintf(text, room, "%u.%u", major, minor);
}

#else

GY_INT int gy_net_ucx_open(struct gy_net_ucx **out, const struct gy_net_ucx_config *config, const struct gy_alloc *alloc,
                           struct gy_error *err)
{
    (void)out, (void)config, (void)alloc;
    return GY_FAIL(err, GY_E_UNSUPPORTED, "this build has no UCX; GYRE_TRANSPORT=tcp works without it");
}
GY_INT void gy_net_ucx_close(struct gy_net_ucx *u) { (void)u; }
GY_INT int gy_net_ucx_has_rdma(void) { return 0; }
GY_INT void gy_net_ucx_address(const struct gy_net_ucx *u, unsigned char *address) { (void)u, (void)address; }
GY_INT int gy_net_ucx_connect(struct gy_net_ucx *u, const unsigned char *addresses, struct gy_error *err)
{
    (void)u, (void)addresses;
    return GY_FAIL(err, GY_E_UNSUPPORTED, "this build has no UCX");
}
GY_INT void gy_net_ucx_end(struct gy_net_ucx *u, struct gy_net_end *out) { (void)u, (void)out; }
GY_INT void gy_net_ucx_version(const struct gy_net_ucx *u, char *text, size_t room) { (void)u, (void)text, (void)room; }

#endif
