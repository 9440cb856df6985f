/* SPDX-License-Identifier: MIT */
/* rendezvous.h: how the ranks of a job come to one address and one key. comm.c calls it, and for a
 * rank that is alone or joins late engine/job/job.c. The first way that exists:
 *
 *   GYRE_KEY_FD    our own launcher: the key comes through a pipe; rank 0 inherits the listening
 *                  socket or is told its port
 *   GYRE_KEY_FILE  a file of 64 hexadecimal digits that only its owner may read, and an address
 *                  from the launcher's variables
 *   one host       rank 0 leaves address and key in a file in shared memory, in a folder that only
 *                  its user may enter; the others find it. Where folder or file is not this
 *                  user's, every rank says at once whose it is */
#ifndef GY_NET_RENDEZVOUS_H
#define GY_NET_RENDEZVOUS_H
#include "net/comm/boot.h"

struct gy_net_rendezvous {
    char folder[64], name[32]; /* of the file that rank 0 left; name empty: none */
};
/* Fills key, listener, epoch and port of config; reads its place and wait_ns. get: variables of the
 * environment. GY_E_UNSUPPORTED: none of these ways. */
GY_INT int gy_net_rendezvous(struct gy_net_rendezvous *meeting, struct gy_net_boot_config *config, const char *(*get)(const char *name),
                             struct gy_error *err);
/* When all are together or nobody will come any more: takes the file away. Called whatever
 * gy_net_rendezvous returned. */
GY_INT void gy_net_rendezvous_end(struct gy_net_rendezvous *meeting);

#endif
