/* SPDX-License-Identifier: MIT */
/* t_net_ucx_faults.c: the transport on UCX beside a stand-in for that library, of which the n-th
 * call fails. Nothing is sent; two ends of one process talk through lists. A failure is told with a
 * sentence, ends its requests, and leaves no context, worker, endpoint or request. Calls come back
 * at once, later, or while they are posted. Messages are cut or broken, a peer is lost, a cancelled
 * request never ends. */
#include "tests/t.h"

#if !defined(GY_NO_UCX)
#include <dlfcn.h>

/* ---- the stand-in ---- */

enum ux_way { UX_AT_ONCE, UX_LATER, UX_WHILE_POSTED, UX_WAYS };

struct ux_request {
    struct ux_request *next;
    int worker, peer_sends, over, status; /* of which worker; over: its callback was called */
    void *buffer;
    size_t bytes, length; /* length: of what came */
    uint64_t tag;
    void (*send)(void *, signed char, void *);
    void *receive_cb, *user;
};

struct ux_end {
    int worker, to;
    void (*broken)(void *arg, void *ep, signed char status);
    void *arg;
};

static struct {
    int64_t left;               /* calls that still go well; below 0: all do */
    const char *failed;         /* the call that did not */
    /* silent: cancelled requests do not end; cut: a byte is missing; spoil: a message ends in an
     * error */
    int way, silent, cut, spoil;
    int contexts, workers, ends, requests, configs, addresses; /* that are open */
    size_t address_bytes;
    const char *missing;        /* a symbol, or a library, that is not there */
    struct ux_request *posted;  /* receives, and sends that nobody took */
    struct ux_end *last;        /* the endpoint that was made last */
} ux;

static int ux_fails(const char *call)
{
    if (ux.left < 0 || ux.left-- > 0)
        return 0;
    ux.failed = call;
    return 1;
}

#define UX_ERROR ((signed char)-3) /* UCS_ERR_IO_ERROR */

static void *ux_dlopen(const char *name, int flags)
{
    (void)flags;
    return ux.missing && strcmp(ux.missing, name) == 0 ? NULL : (void *)&ux;
}

static char *ux_dlerror(void)
{
    static char text[] = "the stand-in is not there";
    return text;
}

static void *ux_dlsym(void *handle, const char *name);

#define dlopen ux_dlopen
#define dlsym ux_dlsym
#define dlerror ux_dlerror
#include "net/transport/ucx.c"
#undef dlopen
#undef dlsym
#undef dlerror

static void ux_version(unsigned *major, unsigned *minor, unsigned *release) { *major = 1, *minor = 13, *release = 0; }
static const char *ux_string(ucx_status status) { return status == UX_ERROR ? "Input/output error" : "another status"; }
static void ux_signals(void) {}
static ucx_status ux_option(const char *name, const char *value) { return name && value ? 0 : UX_ERROR; }

static ucx_status ux_config_read(const char *prefix, const char *file, void **config)
{
    (void)prefix, (void)file;
    if (ux_fails("config_read"))
        return UX_ERROR;
    ux.configs++;
    *config = &ux;
    return 0;
}

static ucx_status ux_config_modify(void *config, const char *name, const char *value)
{
    return ux_fails("config_modify") || config != &ux || !name || !value ? UX_ERROR : 0;
}

static void ux_config_release(void *config) { ux.configs -= config == &ux; }

static ucx_status ux_init(unsigned major, unsigned minor, const struct ucx_params *params, const void *config, void **context)
{
    if (ux_fails("init") || major != 1 || minor < 11 || config != &ux || !(params->features & UCX_FEATURE_TAG))
        return UX_ERROR;
    ux.contexts++;
    *context = &ux.contexts;
    return 0;
}

static void ux_cleanup(void *context) { ux.contexts -= context == &ux.contexts; }

static ucx_status ux_worker_create(void *context, const struct ucx_worker_params *params, void **worker)
{
    static int numbers[2] = { 0, 1 };
    (void)params;
    if (ux_fails("worker_create") || context != &ux.contexts)
        return UX_ERROR;
    *worker = &numbers[ux.workers++ % 2];
    return 0;
}

static void ux_worker_destroy(void *worker) { ux.workers -= worker != NULL; }

static ucx_status ux_query(void *worker, struct ucx_worker_attr *attr)
{
    if (ux_fails("worker_query"))
        return UX_ERROR;
    attr->address_length = ux.address_bytes;
    attr->address = calloc(1, ux.address_bytes);
    memcpy(attr->address, worker, sizeof(int));
    ux.addresses++;
    return 0;
}

static void ux_release_address(void *worker, void *address)
{
    (void)worker;
    free(address);
    ux.addresses--;
}

static ucx_status ux_ep_create(void *worker, const struct ucx_ep_params *params, void **ep)
{
    if (ux_fails("ep_create"))
        return UX_ERROR;
    struct ux_end *const end = calloc(1, sizeof *end);
    end->worker = *(const int *)worker;
    memcpy(&end->to, params->address, sizeof end->to);
    end->broken = params->err_handler.cb;
    end->arg = params->err_handler.arg;
    ux.ends++;
    ux.last = end;
    *ep = end;
    return 0;
}

static struct ux_request *ux_new(int worker, const struct ucx_request_param *param)
{
    struct ux_request *const r = calloc(1, sizeof *r);
    r->worker = worker;
    r->user = param ? param->user_data : NULL;
    ux.requests++;
    return r;
}

static void ux_free(void *request)
{
    ux.requests--;
    free(request);
}

static void ux_over(struct ux_request *r, int status)
{
    struct ucx_tag_info info = { 0, r->length };
    struct ux_request **at = &ux.posted;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at)
        *at = r->next;
    r->over = 1;
    r->status = status;
    if (r->send)
        r->send(r, (ucx_status)status, r->user);
    else if (r->receive_cb) {
        void (*receive)(void *, ucx_status, const struct ucx_tag_info *, void *);
        memcpy(&receive, &r->receive_cb, sizeof receive);
        receive(r, (ucx_status)status, &info, r->user);
    }
}

static int ux_status(void)
{
    const int spoilt = ux.spoil;
    ux.spoil = 0;
    return spoilt ? UX_ERROR : 0;
}

/* Of a posted request one that fits, which is over then. 1: there was one. */
static int ux_match(struct ux_request *r, int sends)
{
    for (struct ux_request *o = ux.posted; o; o = o->next) {
        if (o->peer_sends == sends || o->worker == r->worker || o->tag != r->tag)
            continue;
        struct ux_request *const from = sends ? r : o, *const to = sends ? o : r;
        to->length = from->bytes - (size_t)ux.cut;
        memcpy(to->buffer, from->buffer, to->length < to->bytes ? to->length : to->bytes);
        ux_over(o, ux_status());
        return 1;
    }
    return 0;
}

/* NULL: over at once. */
static void *ux_post(struct ux_request *r, int sends, const struct ucx_request_param *param)
{
    r->peer_sends = sends;
    const int met = ux_match(r, sends);
    if (met && ux.way == UX_AT_ONCE) {
        if (!sends)
            *param->recv_info = (struct ucx_tag_info){ 0, r->length };
        ux_free(r);
        return NULL;
    }
    if (met && ux.way == UX_WHILE_POSTED) {
        ux_over(r, ux_status());
        return r;
    }
    r->next = ux.posted;
    ux.posted = r;
    if (met)
        r->tag = UINT64_MAX; /* nobody else's; over at the next progress */
    return r;
}

static void *ux_send_to(void *ep, const void *buffer, size_t count, uint64_t tag, const struct ucx_request_param *param)
{
    const struct ux_end *const end = ep;
    if (ux_fails("tag_send"))
        return (void *)(intptr_t)UX_ERROR;
    struct ux_request *const r = ux_new(end->worker, param);
    r->buffer = (void *)(uintptr_t)buffer;
    r->bytes = count;
    r->tag = tag;
    r->send = param->cb.send;
    return ux_post(r, 1, param);
}

static void *ux_receive(void *worker, void *buffer, size_t count, uint64_t tag, uint64_t mask, const struct ucx_request_param *param)
{
    if (ux_fails("tag_recv") || mask != UINT64_MAX)
        return (void *)(intptr_t)UX_ERROR;
    struct ux_request *const r = ux_new(*(const int *)worker, param);
    r->buffer = buffer;
    r->bytes = count;
    r->tag = tag;
    memcpy(&r->receive_cb, &param->cb.recv, sizeof r->receive_cb);
    return ux_post(r, 0, param);
}

static unsigned ux_progress(void *worker)
{
    for (struct ux_request *r = ux.posted; r; r = r->next)
        if (r->tag == UINT64_MAX && r->worker == *(const int *)worker) {
            ux_over(r, ux_status());
            return 1;
        }
    return 0;
}

static void ux_cancel(void *worker, void *request)
{
    (void)worker;
    if (!ux.silent)
        ux_over(request, -16); /* UCS_ERR_CANCELED */
}

/* By force, what was sent through it ends. */
static void *ux_ep_close(void *ep, const struct ucx_request_param *param)
{
    const struct ux_end *const end = ep;
    for (struct ux_request *r = ux.posted, *next; r && (param->flags & UCX_CLOSE_FORCE) && !ux.silent; r = next) {
        next = r->next;
        if (r->peer_sends && r->worker == end->worker)
            ux_over(r, -16);
    }
    ux.ends--;
    free(ep);
    if (ux_fails("ep_close"))
        return (void *)(intptr_t)UX_ERROR;
    return ux.way == UX_AT_ONCE ? NULL : ux_new(0, NULL);
}

static ucx_status ux_check(void *request) /* in progress once */
{
    struct ux_request *const r = request;
    return r->over++ == 0 ? UCX_IN_PROGRESS : 0;
}

typedef void (*ux_any)(void);

static void *ux_dlsym(void *handle, const char *name)
{
    static const struct {
        const char *name;
        ux_any function;
    } rows[] = {
        { "ucp_get_version", (ux_any)ux_version }, { "ucp_config_read", (ux_any)ux_config_read },
        { "ucp_config_modify", (ux_any)ux_config_modify }, { "ucp_config_release", (ux_any)ux_config_release },
        { "ucp_init_version", (ux_any)ux_init }, { "ucp_cleanup", (ux_any)ux_cleanup }, { "ucp_worker_create", (ux_any)ux_worker_create },
        { "ucp_worker_destroy", (ux_any)ux_worker_destroy }, { "ucp_worker_query", (ux_any)ux_query },
        { "ucp_worker_release_address", (ux_any)ux_release_address }, { "ucp_worker_progress", (ux_any)ux_progress },
        { "ucp_ep_create", (ux_any)ux_ep_create }, { "ucp_ep_close_nbx", (ux_any)ux_ep_close }, { "ucp_tag_send_nbx", (ux_any)ux_send_to },
        { "ucp_tag_recv_nbx", (ux_any)ux_receive }, { "ucp_request_cancel", (ux_any)ux_cancel }, { "ucp_request_free", (ux_any)ux_free },
        { "ucp_request_check_status", (ux_any)ux_check }, { "ucs_status_string", (ux_any)ux_string },
        { "ucs_debug_disable_signals", (ux_any)ux_signals }, { "ucs_global_opts_set_value", (ux_any)ux_option },
    };
    void *address = NULL;
    for (size_t i = 0; i < GY_COUNT(rows) && handle == &ux && !(ux.missing && strcmp(ux.missing, name) == 0); i++)
        if (strcmp(rows[i].name, name) == 0)
            memcpy(&address, &rows[i].function, sizeof address);
    return address;
}

/* ---- two ends ---- */

struct ux_pair {
    struct gy_net_ucx *ucx[2];
    struct gy_net_end end[2];
};

static void ux_reset(int way, int64_t left)
{
    memset(&ux, 0, sizeof ux);
    ux.way = way;
    ux.left = left;
    ux.address_bytes = 40;
}

static void ux_clean(const char *what, int64_t n)
{
    T_CHECK_MSG(ux.contexts == 0 && ux.workers == 0 && ux.ends == 0 && ux.requests == 0 && ux.configs == 0 && ux.addresses == 0,
                "%s, call %" PRId64 " (%s): left are %d contexts, %d workers, %d endpoints, %d requests, %d configurations, %d addresses", what, n,
                ux.failed ? ux.failed : "none", ux.contexts, ux.workers, ux.ends, ux.requests, ux.configs, ux.addresses);
}

static void ux_close(struct ux_pair *p)
{
    gy_net_ucx_close(p->ucx[0]);
    gy_net_ucx_close(p->ucx[1]);
}

static int ux_open(struct ux_pair *p, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    unsigned char all[2][GY_NET_UCX_ADDRESS];
    memset(p, 0, sizeof *p);
    for (int r = 0; r < 2; r++) {
        const struct gy_net_ucx_config config = { r, 2, NULL, 0x123456789abcdef };
        GY_TRY(gy_net_ucx_open(&p->ucx[r], &config, &alloc, err));
        gy_net_ucx_address(p->ucx[r], all[r]);
    }
    for (int r = 0; r < 2; r++) {
        GY_TRY(gy_net_ucx_connect(p->ucx[r], &all[0][0], err));
        gy_net_ucx_end(p->ucx[r], &p->end[r]);
    }
    return GY_OK;
}

static struct gy_net_request ux_message(int sends, int peer, uint32_t tag, void *buffer, size_t bytes)
{
    return (struct gy_net_request){ .sends = sends, .peer = peer, .tag = tag, .buffer = buffer, .bytes = bytes };
}

static int ux_post_to(struct ux_pair *p, int rank, struct gy_net_request *r, struct gy_error *err)
{
    return p->end[rank].transport->post(p->end[rank].self, r, err);
}

static int ux_turn(struct ux_pair *p, int rank, struct gy_error *err) { return p->end[rank].transport->progress(p->end[rank].self, err); }

/* Sends a message each way, with the receive first and with the send first. What is not done is
 * lost; a call that fails says so. */
static int ux_talk(struct ux_pair *p, int *done, struct gy_error *err)
{
    char out[2][16] = { "from 0", "from 1" }, in[2][16] = { "", "" };
    struct gy_net_request send[2], receive[2];
    int status = GY_OK, posted = 0;
    *done = 0;
    for (int r = 0; r < 2; r++) {
        send[r] = ux_message(1, 1 - r, 7, out[r], 16);
        receive[r] = ux_message(0, 1 - r, 7, in[r], 16);
    }
    struct gy_net_request *const order[4] = { &receive[1], &send[0], &send[1], &receive[0] };
    static const int who[4] = { 1, 0, 1, 0 };
    for (; posted < 4 && status == GY_OK; posted++)
        status = ux_post_to(p, who[posted], order[posted], err);
    for (int turn = 0; turn < 4 && status == GY_OK; turn++)
        status = ux_turn(p, turn % 2, err);
    if (status != GY_OK) /* whoever is told gives up */
        for (int r = 0; r < 2; r++)
            p->end[r].transport->cancel(p->end[r].self, -1);
    for (int i = 0; i < 4; i++)
        *done += order[i]->state == GY_NET_DONE;
    for (int i = 0; i < posted && status != GY_OK; i++)
        T_CHECK_MSG(order[i]->state != GY_NET_PENDING, "request %d is pending after %s", i, ux.failed);
    for (int r = 0; r < 2 && status == GY_OK; r++)
        T_CHECK_MSG(send[r].state == GY_NET_DONE && receive[r].state == GY_NET_DONE && strcmp(in[r], out[1 - r]) == 0, "rank %d got '%s': %d, %d", r,
                    in[r], send[r].state, receive[r].state);
    return status;
}

/* 1: a call failed. */
static int ux_once(int way, int64_t n)
{
    struct ux_pair p;
    struct gy_error err = { 0 };
    int done = 0;
    ux_reset(way, n);
    int status = ux_open(&p, &err);
    const int opened = status == GY_OK;
    if (opened)
        status = ux_talk(&p, &done, &err);
    const char *const failed = ux.failed;
    const int closing = !failed;
    ux_close(&p);
    ux_clean("a talk", n);
    if (closing) { /* what fails when endpoints close is nobody's loss */
        T_CHECK_MSG(status == GY_OK && done == 4, "call %" PRId64 ": %d, '%s', %d done", n, status, err.text, done);
        return ux.failed != NULL;
    }
    T_CHECK_MSG(status == (opened ? GY_E_PEER : GY_E_UNSUPPORTED) && strstr(err.text, "Input/output error"), "call %" PRId64 " (%s): %d, '%s'", n,
                failed, status, err.text);
    return 1;
}

static void ux_counts(void)
{
    static const char *const names[UX_WAYS] = { "at once", "later", "while posted" };
    for (int way = 0; way < UX_WAYS; way++) {
        int64_t n = 0;
        while (ux_once(way, n))
            n++;
        printf("%" PRId64 " calls of UCX failed, of requests that are over %s\n", n, names[way]);
        T_CHECK(n >= 26);
    }
}

/* ---- a library that lacks something ---- */

static void ux_lacks(void)
{
    static const struct {
        const char *what, *says; /* says NULL: it is not needed */
    } rows[] = { { "libucs.so.0", "GYRE_TRANSPORT=ucx needs the library UCX (Debian: libucx0): the stand-in is not there" },
                 { "libucp.so.0", "GYRE_TRANSPORT=ucx needs the library UCX (Debian: libucx0): the stand-in is not there" },
                 { "ucp_tag_send_nbx", "UCX's libucp.so.0 has no ucp_tag_send_nbx; Gyre needs 1.11 or later" },
                 { "ucp_request_check_status", "UCX's libucp.so.0 has no ucp_request_check_status; Gyre needs 1.11 or later" },
                 { "ucs_status_string", "UCX's libucs.so.0 has no ucs_status_string; Gyre needs 1.11 or later" },
                 { "ucs_debug_disable_signals", NULL }, { "ucs_global_opts_set_value", NULL } };
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        struct ux_pair p;
        struct gy_error err = { 0 };
        ux_reset(UX_AT_ONCE, -1);
        ux.missing = rows[i].what;
        const int status = ux_open(&p, &err);
        T_CHECK_MSG(status == (rows[i].says ? GY_E_UNSUPPORTED : GY_OK) && (!rows[i].says || strstr(err.text, rows[i].says)), "without %s: %d, '%s'",
                    rows[i].what, status, err.text);
        ux_close(&p);
        ux_clean(rows[i].what, -1);
    }
    struct ux_pair p;
    struct gy_error err = { 0 };
    ux_reset(UX_AT_ONCE, -1);
    ux.address_bytes = GY_NET_UCX_ADDRESS;
    T_CHECK_MSG(ux_open(&p, &err) == GY_E_UNSUPPORTED && strstr(err.text, "UCX's address has 1024 bytes; there is room for"), "%s", err.text);
    ux_close(&p);
    ux_clean("a long address", -1);
}

/* ---- messages that end badly ---- */

/* cut: fewer bytes come than were asked for; else the library reports that the message failed. The
 * receive is posted first. */
static void ux_bad_message(int way, int cut)
{
    char out[16] = "x", in[16];
    struct ux_pair p;
    struct gy_error err = { 0 };
    struct gy_net_request send = ux_message(1, 1, 3, out, 16), receive = ux_message(0, 0, 3, in, 16);
    ux_reset(way, -1);
    if (!T_CHECK(ux_open(&p, &err) == GY_OK))
        return;
    ux.cut = cut;
    ux.spoil = !cut;
    T_CHECK(ux_post_to(&p, 1, &receive, &err) == GY_OK && receive.state == GY_NET_PENDING);
    T_CHECK(ux_post_to(&p, 0, &send, &err) == GY_OK && receive.state == GY_NET_LOST);
    T_CHECK(ux_turn(&p, 0, &err) == GY_OK && send.state == GY_NET_DONE);
    ux.cut = cut; /* the send first: the receive is over in the call that posts it, or later */
    ux.spoil = !cut && way != UX_AT_ONCE;
    T_CHECK(ux_post_to(&p, 0, &send, &err) == GY_OK && send.state == GY_NET_PENDING);
    T_CHECK(ux_post_to(&p, 1, &receive, &err) == GY_OK && ux_turn(&p, 1, &err) == GY_OK && ux_turn(&p, 0, &err) == GY_OK);
    T_CHECK_MSG(cut ? receive.state == GY_NET_LOST && send.state == GY_NET_DONE
                    : (send.state == GY_NET_LOST || receive.state == GY_NET_LOST) == (way != UX_AT_ONCE), "way %d: %d, %d", way, send.state, receive.state);
    ux_close(&p);
    ux_clean("a bad message", way);
}

/* An endpoint breaks. Requests from and to that rank are lost, and nothing more goes there. */
static void ux_lost_peer(int way)
{
    char out[16] = "x", in[16];
    struct ux_pair p;
    struct gy_error err = { 0 };
    struct gy_net_request send = ux_message(1, 1, 3, out, 16), receive = ux_message(0, 1, 4, in, 16), more = ux_message(1, 1, 5, out, 16);
    ux_reset(way, -1);
    if (!T_CHECK(ux_open(&p, &err) == GY_OK && ux_post_to(&p, 0, &receive, &err) == GY_OK && ux_post_to(&p, 0, &send, &err) == GY_OK))
        return;
    ux.last->broken(ux.last->arg, ux.last, UX_ERROR);
    ux.last->broken(ux.last->arg, ux.last, UX_ERROR); /* twice: it counts once */
    T_CHECK(send.state == GY_NET_PENDING && receive.state == GY_NET_PENDING);
    T_CHECK(ux_turn(&p, 0, &err) == GY_OK && send.state == GY_NET_LOST && receive.state == GY_NET_LOST && ux.ends == 0);
    T_CHECK_MSG(ux_post_to(&p, 0, &more, &err) == GY_E_PEER && more.state == GY_NET_LOST && strcmp(err.text, "rank 1 is gone") == 0, "%s", err.text);
    T_CHECK(ux_turn(&p, 0, &err) == GY_OK);
    ux_close(&p);
    ux_clean("a lost peer", way);
}

/* A cancelled request does not end. It is given up after a second. Then UCX is left alone, as it
 * might still write. */
static void ux_never_ends(void)
{
    char out[16] = "x", in[16];
    struct ux_pair p;
    struct gy_error err = { 0 };
    struct gy_net_request receive = ux_message(0, 1, 4, in, 16), more = ux_message(1, 1, 5, out, 16);
    ux_reset(UX_LATER, -1);
    if (!T_CHECK(ux_open(&p, &err) == GY_OK && ux_post_to(&p, 0, &receive, &err) == GY_OK))
        return;
    ux.silent = 1;
    const int64_t began = gy_clock_ns();
    p.end[0].transport->cancel(p.end[0].self, 1);
    T_CHECK(receive.state == GY_NET_LOST && gy_clock_ns() - began > 900000000 && gy_clock_ns() - began < 5000000000);
    T_CHECK(ux_turn(&p, 0, &err) == GY_E_PEER && strcmp(err.text, "the connection by UCX is broken") == 0);
    T_CHECK(ux_post_to(&p, 0, &more, &err) == GY_E_PEER && strcmp(err.text, "rank 1 is gone") == 0);
    p.end[0].transport->cancel(p.end[0].self, -1);
    ux_close(&p);
    T_CHECK_MSG(ux.contexts == 1 && ux.workers == 1 && ux.requests == 1 && ux.ends == 0, "%d contexts, %d workers, %d requests, %d endpoints", ux.contexts,
                ux.workers, ux.requests, ux.ends);
    free(ux.posted);
}

int main(void)
{
    setenv("UCX_LOG_LEVEL", "error", 0);
    ux_counts();
    ux_lacks();
    for (int way = 0; way < UX_WAYS; way++) {
        ux_bad_message(way, 1);
        ux_bad_message(way, 0);
        ux_lost_peer(way);
    }
    ux_never_ends();
    T_END("t_net_ucx_faults");
}

#else
int main(void)
{
    T_SKIP("this build has no UCX");
    T_END("t_net_ucx_faults");
}
#endif
