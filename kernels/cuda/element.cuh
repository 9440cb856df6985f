/* SPDX-License-Identifier: MIT */
/* element.cuh: loads and stores activations. In memory they are f32, bf16 or f16, as the variant's
 * GY_DTYPE says; kernels compute in float. Both preludes include it: prelude.cuh for NVRTC,
 * tests/emu/prelude.cuh for the emulator. */
#if GY_DTYPE == 0
typedef float gy_t;
#define GY_T_BYTES 4
#define gy_widen(v) (v)
#define gy_narrow(v) (v)
#elif GY_DTYPE == 1
typedef uint16_t gy_t;
#define GY_T_BYTES 2
#define gy_widen(v) gy_from_bf16(v)
#define gy_narrow(v) gy_to_bf16(v)
#else
typedef uint16_t gy_t;
#define GY_T_BYTES 2
#define gy_widen(v) gy_from_f16(v)
#define gy_narrow(v) gy_to_f16(v)
#endif

#ifndef GY_STORE_GLOBAL
#define gy_store16_global(p, v) gy_store16(p, v)
#define gy_store8_global(p, v) gy_store8(p, v)
#endif

/* Two 16-bit numbers in a word; one instruction where the prelude has it. */
#if GY_DTYPE != 0
GY_FN uint32_t gy_narrow2(float low, float high)
{
#if defined GY_PAIRS && GY_DTYPE == 1
    return gy_to_bf16x2(low, high);
#elif defined GY_PAIRS
    return gy_to_f16x2(low, high);
#else
    return (uint32_t)gy_narrow(low) | (uint32_t)gy_narrow(high) << 16;
#endif
}
#endif

GY_FN float gy_get(const gy_t *p, int64_t i) { return gy_widen(p[i]); }
GY_FN void gy_put(gy_t *p, int64_t i, float v) { p[i] = gy_narrow(v); }

GY_FN struct gy_vec4 gy_get4(const gy_t *p, int64_t i)
{
    struct gy_vec4 out;
#if GY_DTYPE == 0
    const struct gy_raw16 r = gy_load16(p + i);
    GY_UNROLL for (int j = 0; j < 4; j++) out.v[j] = gy_float(r.w[j]);
#else
    const struct gy_raw8 r = gy_load8(p + i);
    GY_UNROLL for (int j = 0; j < 4; j++) out.v[j] = gy_widen((uint16_t)(r.w[j / 2] >> (j % 2 * 16)));
#endif
    return out;
}

GY_FN void gy_put4(gy_t *p, int64_t i, struct gy_vec4 x)
{
#if GY_DTYPE == 0
    struct gy_raw16 r;
    GY_UNROLL for (int j = 0; j < 4; j++) r.w[j] = gy_bits(x.v[j]);
    gy_store16_global(p + i, r);
#else
    struct gy_raw8 r;
    GY_UNROLL for (int j = 0; j < 2; j++) r.w[j] = gy_narrow2(x.v[2 * j], x.v[2 * j + 1]);
    gy_store8_global(p + i, r);
#endif
}

/* A variant that names GY_VEC (8 with 16-bit types, 4 or 1) works on GY_VEC neighbours. Their index
 * is divisible by it. */
#ifdef GY_VEC
struct gy_vec {
    float v[GY_VEC];
};
#define GY_EACH(j) GY_UNROLL for (int j = 0; j < GY_VEC; j++)

GY_FN struct gy_vec gy_get_vec(const gy_t *p, int64_t i)
{
    struct gy_vec out;
#if GY_VEC == 8
    const struct gy_raw16 r = gy_load16(p + i);
    GY_EACH(j) out.v[j] = gy_widen((uint16_t)(r.w[j / 2] >> (j % 2 * 16)));
#elif GY_VEC == 4
    const struct gy_vec4 four = gy_get4(p, i);
    GY_EACH(j) out.v[j] = four.v[j];
#else
    out.v[0] = gy_get(p, i);
#endif
    return out;
}

GY_FN void gy_put_vec(gy_t *p, int64_t i, struct gy_vec x)
{
#if GY_VEC == 8
    struct gy_raw16 r;
    GY_UNROLL for (int j = 0; j < 4; j++) r.w[j] = gy_narrow2(x.v[2 * j], x.v[2 * j + 1]);
    gy_store16_global(p + i, r);
#elif GY_VEC == 4
    struct gy_vec4 four;
    GY_EACH(j) four.v[j] = x.v[j];
    gy_put4(p, i, four);
#else
    gy_put(p, i, x.v[0]);
#endif
}

/* The same of a tensor of floats, whatever GY_DTYPE is. */
GY_FN struct gy_vec gy_get_floats(const float *p, int64_t i)
{
    struct gy_vec out;
#if GY_VEC >= 4
    GY_UNROLL for (int part = 0; part < GY_VEC / 4; part++) {
        const struct gy_raw16 r = gy_load16(p + i + 4 * part);
        GY_UNROLL for (int j = 0; j < 4; j++) out.v[4 * part + j] = gy_float(r.w[j]);
    }
#else
    out.v[0] = p[i];
#endif
    return out;
}

GY_FN void gy_put_floats(float *p, int64_t i, struct gy_vec x)
{
#if GY_VEC >= 4
    GY_UNROLL for (int part = 0; part < GY_VEC / 4; part++) {
        struct gy_raw16 r;
        GY_UNROLL for (int j = 0; j < 4; j++) r.w[j] = gy_bits(x.v[4 * part + j]);
        gy_store16_global(p + i + 4 * part, r);
    }
#else
    p[i] = x.v[0];
#endif
}
#endif

#ifndef GY_ACT_PARAM
#define GY_ACT_PARAM 0.0f
#endif

/* The variant's activation, and its gradient from the output y. All but one line fold away. */
GY_FN float gy_act_of(float v)
{
    if (GY_ACT == GY_ACT_RELU)
        return v > 0.0f || v != v ? v : 0.0f;
    if (GY_ACT == GY_ACT_RELU6)
        return v != v ? v : v < 0.0f ? 0.0f : v > 6.0f ? 6.0f : v;
    if (GY_ACT == GY_ACT_SIGMOID)
        return 1.0f / (1.0f + expf(-v));
    if (GY_ACT == GY_ACT_LEAKY)
        return v > 0.0f ? v : GY_ACT_PARAM * v;
    return GY_ACT == GY_ACT_TANH ? tanhf(v) : v;
}

GY_FN float gy_act_back(float dy, float y)
{
    if (GY_ACT == GY_ACT_RELU)
        return y > 0.0f ? dy : 0.0f;
    if (GY_ACT == GY_ACT_RELU6)
        return y > 0.0f && y < 6.0f ? dy : 0.0f;
    if (GY_ACT == GY_ACT_SIGMOID)
        return dy * y * (1.0f - y);
    if (GY_ACT == GY_ACT_LEAKY)
        return y > 0.0f ? dy : GY_ACT_PARAM * dy;
    return GY_ACT == GY_ACT_TANH ? dy * (1.0f - y * y) : dy;
}
