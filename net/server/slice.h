/* SPDX-License-Identifier: MIT */
/* slice.h: a part of the parameters that one server holds; engine/job/served.h and slices.h use
 * it. */
#ifndef GY_NET_SERVER_SLICE_H
#define GY_NET_SERVER_SLICE_H
#include "engine/base/base.h"

struct gy_server_slice {
    int64_t first, count; /* floats */
    int server;
};

#endif
