/* SPDX-License-Identifier: MIT */
/* st_values.c: converts elements of safetensors data to and from numbers of this machine. Shifts
 * put bytes together, so the host's own byte order and alignment do not matter. Where they agree
 * with the file's, float data is copied. */
#include "io/safetensors.h"

#define STV_PIECE 4096 /* bytes that are converted at a time */

static uint64_t stv_load(const unsigned char *at, int bytes)
{
    uint64_t bits = 0;
    for (int i = bytes; i-- > 0;)
        bits = bits << 8 | at[i];
    return bits;
}

static void stv_store(unsigned char *at, uint64_t bits, int bytes)
{
    for (int i = 0; i < bytes; i++)
        at[i] = (unsigned char)(bits >> 8 * i);
}

static int stv_host_is_little(void)
{
    const uint16_t probe = 1;
    unsigned char first;
    memcpy(&first, &probe, 1);
    return first;
}

static float stv_f32(uint64_t bits)
{
    const uint32_t word = (uint32_t)bits;
    float value;
    memcpy(&value, &word, sizeof value);
    return value;
}

static float stv_f64(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

static float stv_bf16(uint64_t bits) { return stv_f32(bits << 16); }

/* IEEE half: subnormals are mantissa * 2^-24; exponent 31 is infinity or NaN, payload kept. */
static float stv_f16(uint64_t bits)
{
    const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, exponent = bits >> 10 & 31, mantissa = bits & 1023;
    if (exponent == 0) {
        const float value = (float)mantissa * (1.0f / 16777216.0f);
        return sign ? -value : value;
    }
    return stv_f32(sign | (exponent == 31 ? 255 : exponent + 112) << 23 | mantissa << 13);
}

static float (*stv_reader(int type))(uint64_t)
{
    switch (type) {
    case GY_ST_F32: return stv_f32;
    case GY_ST_F16: return stv_f16;
    case GY_ST_BF16: return stv_bf16;
    case GY_ST_F64: return stv_f64;
    default: return NULL;
    }
}

static int stv_check(const struct gy_st_tensor *tensor, int64_t first, int64_t count, int fits,
                     struct gy_error *err)
{
    char show[128];
    if (!fits)
        return GY_FAIL(err, GY_E_FORMAT, "tensor \"%s\" holds %s, not real numbers", gy_st_show(show, tensor->name),
                       tensor->dtype);
    if (first < 0 || count < 0 || first > tensor->count || count > tensor->count - first)
        return GY_FAIL(err, GY_E_ARG, "tensor \"%s\" has %" PRId64 " elements; %" PRId64 " from %" PRId64
                       " were asked for", gy_st_show(show, tensor->name), tensor->count, count, first);
    return GY_OK;
}

GY_INT int gy_st_read_bytes(const struct gy_st_tensor *tensor, size_t from, size_t bytes, void *to, struct gy_error *err)
{
    if (!tensor->data)
        return gy_file_read_at(tensor->file, tensor->at + from, to, bytes, err);
    if (bytes > 0)
        memcpy(to, tensor->data + from, bytes);
    return GY_OK;
}

/* As many elements as the piece has room for; *part of the count. */
static int stv_piece(const struct gy_st_tensor *tensor, int64_t first, int64_t count, unsigned char piece[STV_PIECE], int64_t *part,
                     struct gy_error *err)
{
    const size_t bytes = (size_t)gy_st_element_bytes(tensor->type);
    *part = gy_min64(count, (int64_t)(STV_PIECE / bytes));
    return gy_st_read_bytes(tensor, (size_t)first * bytes, (size_t)*part * bytes, piece, err);
}

GY_INT int gy_st_read_f32(const struct gy_st_tensor *tensor, int64_t first, int64_t count, float *out,
                          struct gy_error *err)
{
    float (*const reader)(uint64_t) = stv_reader(tensor->type);
    GY_TRY(stv_check(tensor, first, count, reader != NULL, err));
    const int bytes = gy_st_element_bytes(tensor->type);
    unsigned char piece[STV_PIECE];
    if (tensor->type == GY_ST_F32 && stv_host_is_little())
        return gy_st_read_bytes(tensor, (size_t)first * sizeof(float), (size_t)count * sizeof(float), out, err);
    for (int64_t done = 0, part; done < count; done += part) {
        GY_TRY(stv_piece(tensor, first + done, count - done, piece, &part, err));
        for (int64_t i = 0; i < part; i++)
            out[done + i] = reader(stv_load(piece + i * bytes, bytes));
    }
    return GY_OK;
}

GY_INT int gy_st_write_f32(struct gy_st_writer *writer, const float *values, int64_t count, struct gy_error *err)
{
    unsigned char piece[STV_PIECE];
    if (stv_host_is_little())
        return gy_st_write(writer, values, (size_t)count * sizeof(float), err);
    while (count > 0) {
        const int64_t part = gy_min64(count, (int64_t)sizeof piece / 4);
        for (int64_t i = 0; i < part; i++) {
            uint32_t bits;
            memcpy(&bits, &values[i], sizeof bits);
            stv_store(piece + 4 * i, bits, 4);
        }
        GY_TRY(gy_st_write(writer, piece, (size_t)part * 4, err));
        values += part;
        count -= part;
    }
    return GY_OK;
}

GY_INT int gy_st_write_i64(struct gy_st_writer *writer, const int64_t *values, int64_t count, struct gy_error *err)
{
    unsigned char piece[STV_PIECE];
    while (count > 0) {
        const int64_t part = gy_min64(count, (int64_t)sizeof piece / 8);
        for (int64_t i = 0; i < part; i++)
            stv_store(piece + 8 * i, (uint64_t)values[i], 8);
        GY_TRY(gy_st_write(writer, piece, (size_t)part * 8, err));
        values += part;
        count -= part;
    }
    return GY_OK;
}
