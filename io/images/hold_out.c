/* SPDX-License-Identifier: MIT */
/* hold_out.c: leaves one of two parts of a data set, when data_open.c has opened it: the samples
 * that are held out, to test on, or all others. Of each class the same share is held out. Which
 * samples these are is a function of (seed, class, number within the class) in integers alone. It
 * is the same on every machine and in every process, and every sample is in one part. */
#include "engine/base/hash.h"
#include "engine/base/rng.h"
#include "io/images/data_set.h"

#define HOLD_WHOLE 1000000 /* shares are counted in millionths */

struct hold_class {
    int64_t samples, held; /* of the class; how many of them are held out */
    int64_t seen;          /* samples that were decided so far */
};

/* Rounded to the nearest; one sample of a class at least stays for training. */
static int64_t hold_share(int64_t samples, int64_t millionths)
{
    const int64_t share = (samples * millionths + HOLD_WHOLE / 2) / HOLD_WHOLE;
    return share < samples ? share : gy_max64(samples - 1, 0);
}

/* Returns how many are held out in all; *labels: a checksum of the labels, so data sets where it
 * is equal have the same parts. */
static int64_t hold_count(const struct gy_data *data, struct hold_class *classes, int64_t millionths, uint32_t *labels)
{
    unsigned char bytes[4];
    int64_t all = 0;
    for (int64_t i = 0; i < data->count; i++) {
        const int32_t label = gy_data_label(data, i);
        classes[label].samples++;
        gy_put_le32(bytes, (uint32_t)label);
        *labels = gy_crc32c(*labels, bytes, sizeof bytes);
    }
    for (int32_t c = 0; c < data->classes; c++)
        all += classes[c].held = hold_share(classes[c].samples, millionths);
    return all;
}

/* The samples of a class are permuted; the first ones are held out. */
static void hold_choose(const struct gy_data *data, struct hold_class *classes, uint64_t seed, int held, int64_t *chosen)
{
    int64_t at = 0;
    for (int64_t i = 0; i < data->count; i++) {
        const int32_t label = gy_data_label(data, i);
        struct hold_class *c = &classes[label];
        if ((gy_rng_permute(seed, GY_RNG_HOLD_OUT, (uint64_t)label, c->samples, c->seen++) < c->held) == held)
            chosen[at++] = i;
    }
}

static int hold_make(struct gy_data *data, const struct gy_data_config *config, struct hold_class *classes, struct gy_error *err)
{
    const int64_t millionths = (int64_t)(config->hold_out * HOLD_WHOLE + 0.5);
    uint32_t labels = 0;
    const int64_t out = hold_count(data, classes, millionths, &labels), count = config->held ? out : data->count - out;
    if (out == 0)
        return GY_FAIL(err, GY_E_ARG, "%s: hold_out of %g is none of %" PRId64 " samples in %" PRId32 " classes", config->path,
                       config->hold_out, data->count, data->classes);
    int64_t *chosen = gy_alloc_take(&data->alloc, (size_t)count, sizeof *chosen);
    if (!chosen)
        return GY_NOMEM(err, "the list of a part's samples", (size_t)count * sizeof *chosen);
    hold_choose(data, classes, config->hold_seed, config->held, chosen);
    data->hold = (struct gy_data_hold){(double)millionths / HOLD_WHOLE, config->hold_seed, data->count, labels};
    data->chosen = chosen;
    data->count = count;
    return GY_OK;
}

GY_INT int gy_data_hold_out(struct gy_data *data, const struct gy_data_config *config, struct gy_error *err)
{
    const size_t bytes = (size_t)data->classes * sizeof(struct hold_class);
    struct hold_class *classes = gy_alloc_take(&data->alloc, (size_t)data->classes, sizeof *classes);
    if (!classes)
        return GY_NOMEM(err, "samples of each class", bytes);
    const int status = hold_make(data, config, classes, err);
    gy_alloc_free(&data->alloc, classes, bytes);
    return status;
}
