/* SPDX-License-Identifier: MIT */
/* proof.h: what the proofs share (CBMC). A harness is a function `proof`. It calls one function of
 * the library with arbitrary values, assumes what callers guarantee, and claims what the function
 * promises. nondet_X gives any value of its type. contract_F replaces F where the table of proofs
 * says so. */
#ifndef PROOF_H
#define PROOF_H
#include "engine/base/status.h"

#define PROOF_ASSUME(cond) __CPROVER_assume(cond)
#define PROOF_CLAIM(cond) __CPROVER_assert(cond, #cond)
#define PROOF_MOST ((size_t)1 << 47) /* bytes of a file: what an address has */

typedef unsigned __int128 proof_wide;

int nondet_int(void);
int64_t nondet_int64(void);
uint32_t nondet_uint32(void);
uint64_t nondet_uint64(void);
size_t nondet_size(void);
unsigned char nondet_byte(void);
double nondet_double(void);

/* Stands for the writing of sentences: it says the status, and nothing of the text. */
int gy_error_set(struct gy_error *err, int status, const char *file, int line, const char *fmt, ...)
{
    (void)file, (void)line, (void)fmt;
    if (err)
        err->status = status;
    return status;
}

/* Replace gy_mul_count and gy_mul_size, whose division is slow for a solver; they have a proof of
 * their own. */
int contract_gy_mul_count(int64_t a, int64_t b, int64_t *out)
{
    if (a < 0 || b < 0 || (proof_wide)a * (proof_wide)b > INT64_MAX)
        return -1;
    *out = a * b;
    return 0;
}

int contract_gy_mul_size(size_t a, size_t b, size_t *out)
{
    if ((proof_wide)a * b > SIZE_MAX)
        return -1;
    *out = a * b;
    return 0;
}

/* Stands for memchr: NULL, or any place that has the byte. */
static inline void *proof_memchr(const void *at, int byte, size_t count)
{
    const size_t place = nondet_size();
    PROOF_CLAIM(count == 0 || __CPROVER_r_ok(at, count));
    if (place >= count || ((const unsigned char *)at)[place] != byte)
        return NULL;
    return (unsigned char *)at + place;
}

/* Stands for strchr in a text that fills its array. */
static inline char *proof_strchr(const char *text, int letter)
{
    const size_t place = nondet_size();
    if (place >= __CPROVER_OBJECT_SIZE(text) || text[place] != letter)
        return NULL;
    return (char *)text + place;
}

/* Stands for memcpy of at most four bytes. */
static inline void *proof_memcpy(void *to, const void *from, size_t count)
{
    PROOF_CLAIM(count <= 4);
    for (size_t i = 0; i < 4; i++)
        if (i < count)
            ((unsigned char *)to)[i] = ((const unsigned char *)from)[i];
    return to;
}

#endif
