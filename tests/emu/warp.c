/* SPDX-License-Identifier: MIT */
/* warp.c: what the lanes of a warp do together. All operands lie on the lanes' stacks when
 * emu_group_run is called, so a word is a plain loop over lanes. Matrices are spread over registers
 * of lanes as the PTX manual's tables say. Here a fragment is gathered into a plain matrix,
 * multiplied by three loops, and handed back.
 *
 * A lane is 4 * group + pair. m16n8k8 and m16n8k16: a register holds two neighbours in k, at k = 2
 * * pair or 2 * pair + 8. They are of A (row group, or group + 8) or of B (column group). d holds
 * (group, 2 * pair), its right neighbour, and both of row group + 8. m8n8k4 (sm_70) is four
 * products of 8x8x4 at once; product q has the lanes 4q to 4q + 3 and those 16 above. */
#include "tests/emu/emu.h"

typedef float warp_decode(unsigned half);

static float warp_bits(unsigned bits)
{
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

float emu_bf16(unsigned half) { return warp_bits(half << 16); }

float emu_f16(unsigned half)
{
    const unsigned sign = (half & 0x8000u) << 16, low = half & 0x7fffu;
    if (low >= 0x7c00u)
        return warp_bits(sign | 0x7f800000u | (low & 0x3ffu) << 13);
    if (low >= 0x400u)
        return warp_bits(sign | ((low << 13) + (112u << 23)));
    const float small = (float)low * 5.9604644775390625e-8f; /* 2^-24 */
    return sign ? -small : small;
}

static void warp_shuffle(int word, struct emu_thread *lane)
{
    unsigned value[32];
    for (int i = 0; i < 32; i++)
        value[i] = ((const struct gy_emu_shfl *)lane[i].in)->value;
    for (int i = 0; i < 32; i++) {
        const int which = ((const struct gy_emu_shfl *)lane[i].in)->which;
        int from = which & 31;
        if (word == GY_EMU_SHFL_XOR)
            from = (i ^ which) < 32 && (i ^ which) >= 0 ? i ^ which : i;
        if (word == GY_EMU_SHFL_DOWN)
            from = i + which < 32 ? i + which : i; /* beyond the warp: its own value */
        *(unsigned *)lane[i].out = value[from];
    }
}

/* Four tiles of 8x8 16-bit numbers; lane i names row i % 8 of tile i / 8. Register t of a lane has
 * row `group`, columns 2 * pair and the next, of tile t. Turned, it has column `group`, rows 2 *
 * pair and the next. */
static void warp_ldmatrix(int word, struct emu_thread *lane)
{
    struct emu_block *b = emu_block();
    uint16_t tile[4][8][8];
    for (int i = 0; i < 32; i++) {
        const void *row = *(const void *const *)lane[i].in;
        b->acting = lane[i].tid;
        if ((uintptr_t)row % 16 != 0)
            emu_fail(lane[i].site, NULL, "a row of 8 numbers at %p, which is not divisible by 16", row);
        emu_check_shared(row, 16, 0, "ldmatrix reads", lane[i].site, NULL);
        memcpy(tile[i / 8][i % 8], row, 16);
    }
    for (int i = 0; i < 32; i++)
        for (int t = 0; t < 4; t++) {
            const int group = i / 4, pair = i % 4;
            const unsigned low = word == GY_EMU_LDMATRIX4 ? tile[t][group][2 * pair] : tile[t][2 * pair][group];
            const unsigned high = word == GY_EMU_LDMATRIX4 ? tile[t][group][2 * pair + 1] : tile[t][2 * pair + 1][group];
            ((unsigned *)lane[i].out)[t] = low | high << 16;
        }
}

static unsigned warp_half(const unsigned *registers, int i) { return registers[i / 2] >> (i % 2 * 16) & 0xffff; }

/* d[16][8] += a[16][k] b[k][8] */
static void warp_mma_16_8(struct emu_thread *lane, int k, warp_decode *decode)
{
    float a[16][16], b[16][8];
    for (int i = 0; i < 32; i++) {
        const struct gy_emu_mma *in = lane[i].in;
        const int group = i / 4, pair = i % 4;
        for (int e = 0; e < k / 2; e++)
            a[group + (e / 2 % 2 ? 8 : 0)][2 * pair + e % 2 + (e >= 4 ? 8 : 0)] = decode(warp_half(in->a, e));
        for (int e = 0; e < k / 4; e++)
            b[2 * pair + e % 2 + (e >= 2 ? 8 : 0)][group] = decode(warp_half(in->b, e));
    }
    for (int i = 0; i < 32; i++)
        for (int e = 0; e < 4; e++) {
            const int row = i / 4 + (e >= 2 ? 8 : 0), column = 2 * (i % 4) + e % 2;
            float sum = 0.0f;
            for (int j = 0; j < k; j++)
                sum += a[row][j] * b[j][column];
            ((float *)lane[i].out)[e] = ((const struct gy_emu_mma *)lane[i].in)->d[e] + sum;
        }
}

/* Four times d[8][8] += a[8][4] b[4][8] */
static void warp_mma_8_8_4(struct emu_thread *lane)
{
    for (int q = 0; q < 4; q++) {
        float a[8][4], b[4][8];
        for (int i = 0; i < 8; i++) {
            const struct gy_emu_mma *in = lane[4 * q + i % 4 + i / 4 * 16].in;
            for (int e = 0; e < 4; e++) {
                a[i][e] = emu_f16(warp_half(in->a, e));
                b[e][i] = emu_f16(warp_half(in->b, e));
            }
        }
        for (int i = 0; i < 8; i++) {
            const int at = 4 * q + i % 4 + i / 4 * 16;
            for (int e = 0; e < 8; e++) {
                const int row = (at & 1) + (e & 2) + (at >= 16 ? 4 : 0), column = (e & 4) + (at & 2) + (e & 1);
                float sum = 0.0f;
                for (int j = 0; j < 4; j++)
                    sum += a[row][j] * b[j][column];
                ((float *)lane[at].out)[e] = ((const struct gy_emu_mma *)lane[at].in)->d[e] + sum;
            }
        }
    }
}

int emu_group_lanes(int word)
{
    return word >= GY_EMU_WGMMA ? 128 : 32;
}

/* Everybody has seen what anybody did. */
static void warp_sync(struct emu_thread *lane)
{
    for (int i = 1; i < 32; i++)
        emu_clock_pass(lane[i].tid, lane[0].tid, 1);
    for (int i = 1; i < 32; i++)
        emu_clock_pass(lane[0].tid, lane[i].tid, 1);
}

void emu_group_run(int word, struct emu_thread *lane)
{
    switch (word) {
    case GY_EMU_LDMATRIX4:
    case GY_EMU_LDMATRIX4_TURNED: warp_ldmatrix(word, lane); break;
    case GY_EMU_MMA_8_8_4_F16: warp_mma_8_8_4(lane); break;
    case GY_EMU_MMA_16_8_8_F16: warp_mma_16_8(lane, 8, emu_f16); break;
    case GY_EMU_MMA_16_8_16_F16: warp_mma_16_8(lane, 16, emu_f16); break;
    case GY_EMU_MMA_16_8_16_BF16: warp_mma_16_8(lane, 16, emu_bf16); break;
    case GY_EMU_WARP_SYNC: warp_sync(lane); break;
    case GY_EMU_SHFL_XOR:
    case GY_EMU_SHFL_DOWN:
    case GY_EMU_SHFL: warp_shuffle(word, lane); break;
    default: emu_wgmma_run(word, lane);
    }
}
