/* SPDX-License-Identifier: MIT */
/* net_case.h: a net beside its truth. A case is a net with all that is drawn for it. Its answer is
 * every number that a net gives: gradients, running statistics, scores and losses, in training and
 * in evaluation. */
#ifndef GY_NET_CASE_H
#define GY_NET_CASE_H
#include "engine/run/engine.h"
#include "tests/net_truth.h"
#include "tests/random_net.h"

#define NET_WHY 600

struct net_case {
    struct random_net net;
    uint64_t seed;      /* of weights, samples, labels, dropout */
    int count;          /* samples of the batch: at most net.batch; the rest is padding */
    int recompute, optimizer, nesterov, decay_all; /* as in struct gyre_config */
    int u8, moved, mixed, targets, unlabelled;     /* of the samples */
    int tight;          /* a smaller block than was measured is refused */
    /* 1: memory of activations holds NaN before each call; 0: it holds what another batch left */
    int poison;
    int accumulate;     /* batches an update: the same one again, with other dropouts */
    int saves;          /* a saved and loaded net goes on to the same bits */
    int infers;         /* a net opened for inference gives the same scores, to the bit */
};
void net_case_draw(struct net_case *c, uint64_t seed); /* the net too */
void net_case_plain(struct net_case *c);               /* the same net, nothing special */

/* A piece of the answer. What an update made is compared with the rule, and bits among runs. */
enum net_part_kind { NET_OUTPUT, NET_GRADIENT, NET_RUNNING, NET_UPDATED };
struct net_part {
    char name[120];
    int64_t first, count;
    int kind, node;     /* enum net_part_kind; layer */
};

struct net_test {
    const struct net_case *c;
    int draw;
    struct gy_arena arena;
    struct gy_graph graph;
    struct gyre_batch batch, other;
    struct truth_batch exact;
    int u8;             /* samples are bytes, normalised by: */
    float mean[4], std[4];
    float **param;
    struct net_part *part;
    int part_count;
    int64_t count;      /* numbers of an answer */
    double *truth, *noisy;
    double *size;       /* of each part: what rounding errors are measured by */
    /* [f32, bf16][parts]: norm of the rounding error of each part, the largest of all draws */
    double *noise[2];
    int noise_draws;
    int64_t kinks;      /* places where rounding may turn a decision */
};

/* draw: other samples and weights of the same case. 0, or -1: *why says why. */
int net_test_open(struct net_test *t, const struct net_case *c, int draw, char *why);
void net_test_close(struct net_test *t);

/* Measures what rounding does once more. -1: out of memory. */
int net_test_add_noise(struct net_test *t, int dtype);

/* How the engine is run. */
struct net_run {
    const char *isa;    /* NULL: the best */
    int dtype, threads; /* enum gyre_dtype */
    /* NULL, or changes the open net; 0: there is nothing to change, and the run ends with 1. */
    int (*fault)(void *user, struct gyre_net *net);
    void *user;
    void (*look)(const struct gyre_net *net); /* NULL, or sees the open net */
};
/* answer [t->count]. 0; 1: no fault to plant; -1: something was refused or broke a promise, *why
 * says what. */
int net_test_run(const struct net_test *t, const struct net_run *run, double *answer, char *why);
/* 1: rounding errors are about as large as gradients, so the comparison allows nearly everything */
int net_test_is_ill(const struct net_test *t, int dtype);
/* How far the answer is from the truth; 1 is the largest distance that rounding may cause. *why
 * names the part that is furthest off. The result may be NaN or infinity. */
double net_test_off(const struct net_test *t, int dtype, const double *answer, char *why);
/* 0: weights after the update are what the optimiser's rule makes of the answer's gradients; else
 * *why says which is not. */
int net_test_updated(const struct net_test *t, const double *answer, char *why);

/* -- shared by net_case.c, net_run.c and net_compare.c -- */
#define NET_RATE 0.0625f /* of the update */
struct gyre_optimizer net_case_optimizer(const struct net_case *c);
int net_test_truths(struct net_test *t);                /* fills truth and size; 0: out of memory */

#endif
