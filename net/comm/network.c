/* SPDX-License-Identifier: MIT */
/* network.c: opens each transport, then all ranks learn each other's address of it. UCX handles its
 * own address. TCP takes that of a named interface, else the one where the job's control reaches
 * this rank. Where that is the loopback address, it takes the one where control reaches rank 0, on
 * the same host. */
#include "net/comm/network.h"
#include "net/transport/sealed.h"
#include "net/transport/tcp.h"
#include "net/transport/ucx.h"

struct gy_net_network {
    struct gy_alloc alloc;
    struct gy_net_network_config config;
    struct gy_net_ucx *ucx; /* one of both */
    struct gy_net_tcp *tcp;
    enum gy_net_code_kind code;
    unsigned char key[GY_NET_KEY_BYTES]; /* of this start, from which each use has its own */
    struct gy_net_sealed *sealed; /* on ucx */
};

static void network_key(const struct gy_net_network *n, const char *use, unsigned char key[GY_NET_KEY_BYTES])
{
    const struct gy_net_part part = {use, strlen(use) + 1};
    gy_net_hmac(n->key, &part, 1, key);
}

/* ---- UCX ---- */

static int network_ucx_open_by(struct gy_net_network *n, const char *transports, struct gy_error *err)
{
    struct gy_net_ucx_config config = { .rank = n->config.rank, .ranks = n->config.ranks, .transports = transports };
    unsigned char key[GY_NET_KEY_BYTES];
    network_key(n, "ucx, tags", key);
    memcpy(&config.secret, key, sizeof config.secret);
    return gy_net_ucx_open(&n->ucx, &config, &n->alloc, err);
}

static int network_ucx_open(struct gy_net_network *n, struct gy_error *err)
{
    return network_ucx_open_by(n, NULL, err);
}

/* The library's messages with a check of each. */
static int network_ucx_seal(struct gy_net_network *n, struct gy_net_end *out, struct gy_error *err)
{
    struct gy_net_sealed_config config = { .code = n->code };
    gy_net_ucx_end(n->ucx, &config.inner);
    network_key(n, "ucx, messages", config.key);
    GY_TRY(gy_net_sealed_open(&n->sealed, &config, &n->alloc, err));
    gy_net_sealed_end(n->sealed, out);
    return GY_OK;
}

static int network_ucx_meet(struct gy_net_network *n, struct gy_net_end *out, struct gy_error *err)
{
    unsigned char own[GY_NET_UCX_ADDRESS];
    char version[32] = "";
    const size_t bytes = (size_t)n->config.ranks * sizeof own;
    const struct gy_net_field field = {"the version of UCX", version};
    gy_net_ucx_version(n->ucx, version, sizeof version);
    GY_TRY(gy_net_boot_compare(n->config.boot, &field, 1, err));
    unsigned char *const all = gy_alloc_take(&n->alloc, 1, bytes);
    if (!all)
        return GY_NOMEM(err, "the ranks' addresses", bytes);
    gy_net_ucx_address(n->ucx, own);
    int status = gy_net_boot_gather(n->config.boot, own, sizeof own, all, err);
    status = status == GY_OK ? gy_net_ucx_connect(n->ucx, all, err) : status;
    gy_alloc_free(&n->alloc, all, bytes);
    return status == GY_OK ? network_ucx_seal(n, out, err) : status;
}

/* ---- TCP ---- */

/* Everybody's, to free: [ranks]. */
static int network_endpoints(const struct gy_net_network *n, const struct gy_net_endpoint *own, struct gy_net_endpoint **out, struct gy_error *err)
{
    const size_t ranks = (size_t)n->config.ranks;
    struct gy_net_endpoint *const all = gy_alloc_take(&n->alloc, ranks, sizeof *all);
    if (!all)
        return GY_NOMEM(err, "the ranks' addresses", ranks * sizeof *all);
    const int status = gy_net_boot_gather(n->config.boot, own, sizeof *own, all, err);
    if (status == GY_OK)
        *out = all;
    else
        gy_alloc_free(&n->alloc, all, ranks * sizeof *all);
    return status;
}

static int network_tcp_open(struct gy_net_network *n, struct gy_error *err)
{
    struct gy_net_tcp_config config = { .rank = n->config.rank, .ranks = n->config.ranks, .code = n->code, .wait_ns = n->config.wait_ns };
    struct gy_net_endpoint at, *all;
    const int named = n->config.interface && n->config.interface[0] != 0;
    gy_net_endpoint_loopback(&config.own);
    const int status = named ? gy_net_endpoint_interface(n->config.interface, &config.own, err) : GY_OK;
    for (int r = 0; r < config.ranks && !named && gy_net_endpoint_is_loopback(&config.own); r++)
        if (gy_net_boot_socket(n->config.boot, r) >= 0 && gy_net_endpoint_own(gy_net_boot_socket(n->config.boot, r), &at) == 0)
            config.own = at;
    GY_TRY(network_endpoints(n, &config.own, &all, err));
    if (!named && gy_net_endpoint_is_loopback(&config.own))
        config.own = all[0];
    gy_alloc_free(&n->alloc, all, (size_t)config.ranks * sizeof *all);
    GY_TRY(status);
    network_key(n, "data", config.key);
    return gy_net_tcp_open(&n->tcp, &config, &n->alloc, err);
}

static int network_tcp_meet(struct gy_net_network *n, struct gy_net_end *out, struct gy_error *err)
{
    struct gy_net_endpoint own, *all;
    gy_net_tcp_address(n->tcp, &own);
    GY_TRY(network_endpoints(n, &own, &all, err));
    const int status = gy_net_tcp_connect(n->tcp, all, err);
    gy_net_tcp_end(n->tcp, out);
    gy_alloc_free(&n->alloc, all, (size_t)n->config.ranks * sizeof *all);
    return status;
}

/* ---- one of them ---- */

enum network_way { NETWORK_UCX, NETWORK_TCP, NETWORK_WAYS };
static const struct {
    const char *name;
    int (*open)(struct gy_net_network *n, struct gy_error *err);
    int (*meet)(struct gy_net_network *n, struct gy_net_end *out, struct gy_error *err);
} network_ways[NETWORK_WAYS] = {
    [NETWORK_UCX] = {"ucx", network_ucx_open, network_ucx_meet},
    [NETWORK_TCP] = {"tcp", network_tcp_open, network_tcp_meet},
};

/* UCX, if every rank has a device for it, and the library; else TCP. */
static int network_choose(struct gy_net_network *n, enum network_way *out, struct gy_error *err)
{
    const size_t ranks = (size_t)n->config.ranks;
    int32_t able = gy_net_ucx_has_rdma() && network_ucx_open_by(n, GY_NET_UCX_RDMA, NULL) == GY_OK, *const all = gy_alloc_take(&n->alloc, ranks, sizeof *all);
    if (!all)
        return GY_NOMEM(err, "the ranks' votes", ranks * sizeof *all);
    const int status = gy_net_boot_gather(n->config.boot, &able, sizeof able, all, err);
    for (size_t r = 0; r < ranks; r++)
        able = able && all[r];
    gy_alloc_free(&n->alloc, all, ranks * sizeof *all);
    *out = able ? NETWORK_UCX : NETWORK_TCP;
    return status;
}

static int network_start(struct gy_net_network *n, struct gy_error *err)
{
    enum network_way way = 0;
    const char *const name = n->config.name ? n->config.name : "";
    const struct gy_net_field fields[] = {{"the transport (GYRE_TRANSPORT)", name},
                                          {"the code of messages (GYRE_NET_CODE)", n->config.code ? n->config.code : ""}};
    GY_TRY(gy_net_boot_compare(n->config.boot, fields, GY_COUNT(fields), err));
    GY_TRY(gy_net_code_parse(n->config.code, &n->code, err));
    GY_TRY(gy_net_boot_secret(n->config.boot, "network", n->key, err));
    while (name[0] != 0 && way < NETWORK_WAYS && strcmp(name, network_ways[way].name) != 0)
        way++;
    if (way == NETWORK_WAYS)
        return GY_FAIL(err, GY_E_ARG, "GYRE_TRANSPORT is \"%.60s\"; it must be ucx or tcp", name);
    if (name[0] == 0)
        GY_TRY(network_choose(n, &way, err));
    if (way == NETWORK_UCX && n->ucx)
        return GY_OK;
    gy_net_ucx_close(n->ucx);
    n->ucx = NULL;
    return network_ways[way].open(n, err);
}

GY_INT int gy_net_network_open(struct gy_net_network **out, const struct gy_net_network_config *config, const struct gy_alloc *alloc,
                               struct gy_error *err)
{
    struct gy_net_network *n = gy_alloc_take(alloc, 1, sizeof *n);
    if (!n)
        return GY_NOMEM(err, "the network between hosts", sizeof *n);
    n->alloc = *alloc;
    n->config = *config;
    const int status = network_start(n, err);
    if (status == GY_OK)
        *out = n;
    else
        gy_net_network_close(n);
    return status;
}

GY_INT int gy_net_network_meet(struct gy_net_network *n, struct gy_net_end *out, struct gy_error *err)
{
    return network_ways[n->ucx != NULL ? NETWORK_UCX : NETWORK_TCP].meet(n, out, err);
}

GY_INT const struct gy_net_fault *gy_net_network_fault(const struct gy_net_network *n)
{
    const struct gy_net_fault *const fault = n->tcp ? gy_net_tcp_fault(n->tcp) : n->sealed ? gy_net_sealed_fault(n->sealed) : NULL;
    return fault && fault->text[0] != 0 ? fault : NULL;
}

GY_INT int gy_net_network_cut(struct gy_net_network *n)
{
    return n->tcp ? gy_net_tcp_cut(n->tcp) : -1;
}

GY_INT void gy_net_network_close(struct gy_net_network *n)
{
    if (!n)
        return;
    const struct gy_alloc alloc = n->alloc;
    gy_net_sealed_close(n->sealed);
    gy_net_ucx_close(n->ucx);
    gy_net_tcp_close(n->tcp);
    gy_alloc_free(&alloc, n, sizeof *n);
}
