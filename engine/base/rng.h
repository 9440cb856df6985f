/* SPDX-License-Identifier: MIT */
/* rng.h: random numbers by counting, not by state: Philox4x32-10 (Salmon et al., "Parallel random
 * numbers: as easy as 1, 2, 3", SC 2011). A number is a pure function of (seed, stream, step,
 * element), so any one can be drawn again alone, on any device. First weights, dropout, loaders and
 * solvers of linear models draw. Each use has a stream of its own: a new use needs a new one. */
#ifndef GY_RNG_H
#define GY_RNG_H
#include "engine/base/base.h"

enum gy_rng_stream {
    GY_RNG_INIT = 1,    /* step = parameter's index, element = four of its weights */
    GY_RNG_ORDER = 2,   /* order of samples or rows, step = epoch */
    GY_RNG_AUGMENT = 3, /* step = position in the run, element = draw */
    GY_RNG_HOLD_OUT = 4, /* a data set's parts, step = class */
    GY_RNG_DROPOUT = 16 /* + layer number */
};

/* Four 32-bit words. Counter = (element low, high, step low, high ^ stream), key = seed. */
GY_INT void gy_rng_words(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, uint32_t out[4]);
/* The words of count elements that follow each other, out [count][4]. */
GY_INT void gy_rng_draws(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, int64_t count, uint32_t *out);
/* In [0, 1): 24 bits of word 0. */
GY_INT float gy_rng_uniform(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element);
/* Four standard normals from one draw: Box-Muller in double on words 0, 1 and 2, 3. */
GY_INT void gy_rng_normals(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element, float out[4]);
/* The first of those four. */
GY_INT float gy_rng_normal(uint64_t seed, uint32_t stream, uint64_t step, uint64_t element);
/* A permutation of [0, count) without a table, of (seed, stream, step): cycle-walking Feistel. */
GY_INT int64_t gy_rng_permute(uint64_t seed, uint32_t stream, uint64_t step, int64_t count, int64_t index);

#endif
