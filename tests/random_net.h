/* SPDX-License-Identifier: MIT */
/* random_net.h: nets drawn at random, as texts. They have every layer in any legal order. What
 * fusion and recomputation look for comes more often than by chance. The way back makes a net that
 * fails as small as it still fails. */
#ifndef GY_RANDOM_NET_H
#define GY_RANDOM_NET_H
#include "engine/text/graph.h"

#define RANDOM_TEXT 8192
/* A batch norm's statistics have at least this many values; fewer say nothing. */
#define RANDOM_NORM_LEAST 6

/* SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA
 * 2014). */
struct random_draw {
    uint64_t state;
};
uint64_t random_word(struct random_draw *d);
int random_below(struct random_draw *d, int n);                /* 0 .. n - 1 */
int random_percent(struct random_draw *d, int percent);        /* true so often */
double random_real(struct random_draw *d, double lo, double hi);

struct random_net {
    char text[RANDOM_TEXT];
    int batch;
};

/* The same seed gives the same net, on every machine. What it writes is legal. */
void random_net_make(struct random_net *net, uint64_t seed);

/* The words of a layer as net text has them, defaults left out; not those of named inputs. */
void random_net_words(const struct gy_node *node, char *words, size_t room);

/* Makes *net smaller as long as fails(user, net) says yes to it, in at most `tries` calls: fewer
 * layers, inputs, channels, pixels, samples, plainer options. It fails at the beginning. Returns
 * the calls. */
int random_net_shrink(struct random_net *net, int (*fails)(void *user, const struct random_net *net),
                      void *user, int tries);

#endif
