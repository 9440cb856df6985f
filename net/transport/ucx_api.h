/* SPDX-License-Identifier: MIT */
/* ucx_api.h: the part of UCX's interface (1.11 and later) that ucx.c uses, declared here so that
 * building needs no package. A struct's field_mask says which members count, so later versions read
 * these as they are. A test compares sizes and offsets with UCX's own headers where they are
 * installed. */
#ifndef GY_NET_UCX_API_H
#define GY_NET_UCX_API_H
#include "engine/base/base.h"

#define UCX_API_MAJOR 1
#define UCX_API_MINOR 11
#define UCX_IN_PROGRESS 1

typedef signed char ucx_status; /* 0, 1: in progress, < 0 */

#define UCX_PARAM_FEATURES ((uint64_t)1)
#define UCX_PARAM_RANKS ((uint64_t)1 << 6)
#define UCX_FEATURE_TAG ((uint64_t)1)
struct ucx_params {
    uint64_t field_mask, features;
    size_t request_size;
    void (*request_init)(void *), (*request_cleanup)(void *);
    uint64_t tag_sender_mask;
    int mt_workers_shared;
    size_t estimated_num_eps, estimated_num_ppn;
    const char *name;
};

#define UCX_WORKER_THREAD_MODE ((uint64_t)1)
#define UCX_THREAD_SERIALIZED 1
struct ucx_worker_params {
    uint64_t field_mask;
    int thread_mode;
    unsigned long cpu_mask[1024 / (8 * sizeof(unsigned long))];
    unsigned events;
    void *user_data;
    int event_fd;
    uint64_t flags;
    const char *name;
    size_t am_alignment;
    uint64_t client_id;
};

#define UCX_WORKER_ATTR_ADDRESS ((uint64_t)1 << 1)
struct ucx_worker_attr {
    uint64_t field_mask;
    int thread_mode;
    uint32_t address_flags;
    void *address;
    size_t address_length, max_am_header;
    char name[32];
    size_t max_debug_string;
};

#define UCX_EP_ADDRESS ((uint64_t)1)
#define UCX_EP_ERR_MODE ((uint64_t)1 << 1)
#define UCX_EP_ERR_HANDLER ((uint64_t)1 << 2)
#define UCX_ERR_MODE_PEER 1
struct ucx_sock_addr {
    const void *addr;
    uint32_t addrlen;
};
struct ucx_err_handler {
    void (*cb)(void *arg, void *ep, ucx_status status);
    void *arg;
};
struct ucx_ep_params {
    uint64_t field_mask;
    const void *address;
    int err_mode;
    struct ucx_err_handler err_handler;
    void *user_data;
    unsigned flags;
    struct ucx_sock_addr sockaddr;
    void *conn_request;
    const char *name;
    struct ucx_sock_addr local_sockaddr;
};

struct ucx_tag_info {
    uint64_t sender_tag;
    size_t length;
};

#define UCX_OP_CALLBACK 2u
#define UCX_OP_USER_DATA 4u
#define UCX_OP_FLAGS (1u << 4)
#define UCX_OP_MEMORY_TYPE (1u << 6)
#define UCX_OP_RECV_INFO (1u << 7)
#define UCX_CLOSE_FORCE 1u
struct ucx_request_param {
    uint32_t op_attr_mask, flags;
    void *request;
    union {
        void (*send)(void *request, ucx_status status, void *user_data);
        void (*recv)(void *request, ucx_status status, const struct ucx_tag_info *info, void *user_data);
    } cb;
    uint64_t datatype;
    void *user_data, *reply_buffer;
    int memory_type; /* 0: the host's */
    struct ucx_tag_info *recv_info;
    void *memh;
};

struct ucx_functions {
    void (*get_version)(unsigned *major, unsigned *minor, unsigned *release);
    ucx_status (*config_read)(const char *prefix, const char *file, void **config);
    ucx_status (*config_modify)(void *config, const char *name, const char *value);
    void (*config_release)(void *config);
    ucx_status (*init_version)(unsigned major, unsigned minor, const struct ucx_params *params, const void *config, void **context);
    void (*cleanup)(void *context);
    ucx_status (*worker_create)(void *context, const struct ucx_worker_params *params, void **worker);
    void (*worker_destroy)(void *worker);
    ucx_status (*worker_query)(void *worker, struct ucx_worker_attr *attr);
    void (*worker_release_address)(void *worker, void *address);
    unsigned (*worker_progress)(void *worker);
    ucx_status (*ep_create)(void *worker, const struct ucx_ep_params *params, void **ep);
    void *(*ep_close)(void *ep, const struct ucx_request_param *param);
    void *(*tag_send)(void *ep, const void *buffer, size_t count, uint64_t tag, const struct ucx_request_param *param);
    void *(*tag_recv)(void *worker, void *buffer, size_t count, uint64_t tag, uint64_t mask, const struct ucx_request_param *param);
    void (*request_cancel)(void *worker, void *request);
    void (*request_free)(void *request);
    ucx_status (*request_check)(void *request);
    const char *(*status_string)(ucx_status status); /* libucs */
    /* libucs; NULL where it has none, as the next ones */
    void (*disable_signals)(void);
    ucx_status (*set_option)(const char *name, const char *value);
};

#endif
