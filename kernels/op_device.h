/* SPDX-License-Identifier: MIT */
/* op_device.h: the part of the op set that kernels compiled at run time read, too. It has tensor
 * roles, types, activations, and the block of what changes per step. op.h and cuda/sources.c give
 * it to host and kernels unchanged. So it includes nothing, and uses only types that every compiler
 * of kernels knows (int32_t, uint64_t, float). */
#ifndef GY_OP_DEVICE_H
#define GY_OP_DEVICE_H

enum gy_dtype { GY_F32, GY_BF16, GY_F16, GY_I32, GY_U8, GY_DTYPES };

/* Which tensor of an op. A role that an op does not use is NULL in ptr and -1 in tensor. */
enum gy_role {
    GY_X, GY_Y, GY_W, GY_BIAS, GY_RES,         /* input, output, weights, bias, residual input */
    GY_STATS,                                  /* batch mean [C], sum of squared deviations [C] */
    GY_GAMMA, GY_BETA, GY_SCALE, GY_SHIFT,     /* batch norm, each [C]; y = x * scale + shift */
    GY_RES_SCALE, GY_RES_SHIFT,                /* [C]: res * res_scale + res_shift is added */
    GY_MEAN, GY_RSTD, GY_RUN_MEAN, GY_RUN_VAR, /* [C] each */
    GY_ARG,                                    /* small integers, from forward for backward */
    GY_LABEL, GY_MIX, GY_TARGET, GY_LOSS,      /* i32 [N]; struct gy_mix [N]; f32 [N][C], [N] */
    GY_DX, GY_DY, GY_DW, GY_DBIAS, GY_DRES,    /* gradients of the above */
    GY_SUMS, GY_DGAMMA, GY_DBETA,              /* two a channel or a span; gradients [C] */
    GY_AGAIN,                                  /* an output of forward, which backward remakes */
    GY_M, GY_V, GY_EMA,                        /* optimiser state, laid out as the parameters */
    GY_SCRATCH,                                /* op->scratch_bytes; its content is undefined */
    GY_ROLES
};

enum gy_act { GY_ACT_NONE, GY_ACT_RELU, GY_ACT_RELU6, GY_ACT_SIGMOID, GY_ACT_TANH, GY_ACT_LEAKY, GY_ACTS };

enum gy_op_flags {
    GY_F_ADD_DX = 1,   /* DX += instead of DX = */
    GY_F_ADD_DRES = 2, /* DRES += instead of DRES = */
    GY_F_U8 = 4,       /* GY_OP_INPUT reads bytes */
    GY_F_NESTEROV = 8,
    GY_F_SKIP = 16,    /* no update while the sum of squared gradients is not finite */
    GY_F_PARTIAL = 32, /* the engine runs the op only when samples of the batch are absent */
    GY_F_UNSCALED = 64 /* LARS: rate and ratio multiply the momentum, not what enters it */
};

/* Constants of the update ops, by position in f[]. */
enum gy_update_constant { GY_C_MOMENTUM, GY_C_DECAY, GY_C_BETA1, GY_C_BETA2, GY_C_EPS, GY_C_ETA, GY_C_CLIP };

/* How sample i of the batch is made: moved by its own dy and dx (zeros come in), mirrored, then
 * mixed with sample `partner`. mixup: the box is the whole image; cutmix: inside is 0. */
struct gy_mix {
    int32_t partner;        /* index in the batch; i itself: not mixed */
    float inside, label;    /* weight of the own pixel inside the box; weight of the own label */
    int32_t h0, w0, h1, w1; /* box [h0,h1) x [w0,w1); outside it the own pixel counts fully */
    int32_t dy, dx, flip;   /* pixel (h, w) is that of (h - dy, w - dx); flip mirrors w */
};

/* A contiguous piece of the parameter region: one tensor. */
struct gy_span {
    int64_t first, count; /* elements; first is a multiple of 16 */
    float decay, rate;    /* multiply weight decay and rate; batch norm, biases: decay 0 */
    int32_t adapt;        /* the ratio of LARS and LAMB applies */
};

/* What changes per step. */
struct gy_uniform {
    uint64_t seed, step; /* of random numbers; step counts micro-batches of the whole run */
    float lr;            /* this step's learning rate */
    float loss_scale;    /* multiplies the loss's gradient */
    float grad_scale;    /* of updates: 1 / (loss_scale * labelled samples in the gradients / N) */
    float bias1, bias2;  /* AdamW, LAMB: 1 - beta^t */
    float keep;          /* weight of the old average of weights in this update */
    int32_t accumulate;  /* weight gradients add instead of overwriting */
    int32_t absent;      /* samples absent at the end: no label, not in batch norm's statistics */
};

#endif
