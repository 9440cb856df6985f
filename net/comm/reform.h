/* SPDX-License-Identifier: MIT */
/* reform.h: brings the ranks of a job together again when one is lost, without a launcher.
 * engine/job/job.c opens it and meets; served_server.c looks for newcomers. Each rank keeps a
 * socket on which the others can call it, and a list of all: the members. After a loss the first
 * live member of the list gathers the live ones, settles who continues, and tells them. Their
 * connections are then a boot (boot.h) as at the start. Strangers with the job's key, which were
 * lost before or are new, may join.
 *
 * No two halves continue. A leader continues if the processes of all absent members are gone
 * (nobody listens at their address). Or it has more than half of all, or half and the first of
 * them. In any case config.least must have come. */
#ifndef GY_NET_REFORM_H
#define GY_NET_REFORM_H
#include "net/comm/boot.h"
#include "net/transport/socket.h"

#define GY_NET_MEMBERS 64 /* RANKS_MOST of tools/cmd_ranks.c is the same */
#define GY_NET_MEMBER_IDS 4095

struct gy_net_reform_config {
    unsigned char key[GY_NET_KEY_BYTES];
    uint32_t epoch;             /* of the start of the job */
    int id;                     /* of this process, for its life, and of no other: below
                                 * GY_NET_MEMBER_IDS */
    int least, most;            /* members that a job needs, and may have */
    struct gy_net_endpoint at;  /* the address on which it listens */
    int port;                   /* and the port, where it is free; else, and with 0: any */
    int64_t wait_ns;            /* how long a newcomer waits */
    int board;                  /* an open file into which who leads writes its address, or -1 */
};

/* What a member is called by. */
struct gy_net_member {
    int32_t id;
    struct gy_net_endpoint at;
};

struct gy_net_reform;
GY_INT int gy_net_reform_open(struct gy_net_reform **out, const struct gy_net_reform_config *config,
                              const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_net_reform_close(struct gy_net_reform *reform); /* NULL is fine */
/* Called before gy_net_reform_close where the job has failed. A leader then removes its own address
 * from the board. NULL is fine. */
GY_INT void gy_net_reform_give_up(const struct gy_net_reform *reform);
GY_INT struct gy_net_member gy_net_reform_self(const struct gy_net_reform *reform);
/* Who they are as the job starts, in the order of their ranks; this process is one. count: at most
 * GY_NET_MEMBERS. */
GY_INT void gy_net_reform_know(struct gy_net_reform *reform, const struct gy_net_member *members,
                               int count);

/* All members that live call this together. *boot: between those who go on, in new ranks; NULL: it
 * is alone. GY_E_PEER: one was lost meanwhile: again. GY_E_STATE: it must not go on. */
GY_INT int gy_net_reform_meet(struct gy_net_reform *reform, struct gy_net_boot **boot,
                              struct gy_net_launcher *place, struct gy_error *err);
/* The address by which this process reaches another: where it can be reached itself. */
GY_INT int gy_net_reform_near(const char *host, int port, struct gy_net_endpoint *out,
                              struct gy_error *err);
/* A newcomer: waits at the member that leads until it is let in. GY_E_PEER: nobody listens there,
 * who does has not answered for patience ns, has refused, or was lost. */
GY_INT int gy_net_reform_join(struct gy_net_reform *reform, const char *host, int port,
                              int64_t patience, struct gy_net_boot **boot,
                              struct gy_net_launcher *place, struct gy_error *err);
/* Of who leads, between two meetings: how many wait to be let in. 0 where the `present` members
 * that live are config.most already. Does not wait. */
GY_INT int gy_net_reform_look(struct gy_net_reform *reform, int present);

#endif
