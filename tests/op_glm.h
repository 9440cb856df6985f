/* SPDX-License-Identifier: MIT */
/* op_glm.h: the kernels of linear models in the test of the op table. They stand in a table of
 * their own and have no cases there (t_cuda_glm tests what they compute). Here all of them are
 * compiled, for any architecture, and run once each. */
#ifndef GY_OP_GLM_H
#define GY_OP_GLM_H
#include "engine/glm/solve/glm_device_window.h"
#include "kernels/cuda/cuda_list.h"
#include "tests/op_cover.h"

enum { OP_GLM_CODES = GY_OP_GLM_END - GY_OP_GLM_STEP };

/* All ops with this loss; returns 1 when they are prepared. */
static int op_glm_prepare(struct gy_cuda_backend *self, struct gy_op op[OP_GLM_CODES], int loss, int rows_at_a_time, const struct gy_uniform *u)
{
    struct gy_error err = { 0 };
    int status = GY_OK;
    for (int i = 0; i < OP_GLM_CODES && status == GY_OK; i++) {
        op[i] = (struct gy_op){ .code = GY_OP_GLM_STEP + i, .act = loss, .geom = { .n = rows_at_a_time, .k = 5000 }, .u = u };
        status = gy_cuda_prepare(self, &op[i], &err);
    }
    T_CHECK_MSG(status == GY_OK, "%s", err.text);
    return status == GY_OK;
}

/* Compiles them and looks at what the compiler said. whole: also for one warp. */
static void op_glm_compile(struct gy_cuda_backend *self, int whole)
{
    struct gy_op op[2 * GY_GLM_LOSSES][OP_GLM_CODES];
    struct gy_error err = { 0 };
    struct gy_kernel_info k;
    const int sets = whole ? 2 * GY_GLM_LOSSES : GY_GLM_LOSSES;
    for (int set = 0; set < sets; set++)
        if (!op_glm_prepare(self, op[set], set % GY_GLM_LOSSES, set < GY_GLM_LOSSES ? 4096 : 1, NULL))
            return;
    if (!T_CHECK(gy_cuda_ready(self, &err) == GY_OK)) {
        printf("%s\n", err.text);
        return;
    }
    for (int i = 0; i < OP_GLM_CODES; i++) {
        int compiled = 0, registers = 0, spilled = 0;
        for (int set = 0; set < sets; set++)
            for (int launch = 0; gy_cuda_list_info(self, &op[set][i], launch, &k); launch++) {
                T_CHECK(k.reported && k.registers > 0);
                compiled += launch == 0;
                registers = k.registers > registers ? k.registers : registers;
                spilled += k.spilled;
            }
        T_CHECK_MSG(compiled == sets && spilled == 0, "%s: %d bytes spilled", op[0][i].variant, spilled);
        gy_cuda_list_info(self, &op[0][i], 0, &k);
        printf("%-16s %-20s sm_%d: %d of %d cases compiled, at most %d registers, %d bytes spilled\n", k.entry, k.row, self->device.arch, compiled,
               sets, registers, spilled);
    }
}

/* Each of them once, on three rows. */
static void op_glm_run(const struct gy_backend *backend, struct gy_cuda_backend *self)
{
    static const uint32_t start[] = { 0, 2, 3, 1103 };
    static const float label[] = { 1, 0, 1 };
    const struct gy_glm_problem problem = { .loss = GY_GLM_HINGE, .l2 = 1, .target = GY_GLM_TARGET_CLASS, .positive = 1, .class_weight = { 1, 1 } };
    const struct gy_uniform u = { .seed = 1, .lr = 1, .loss_scale = 2 };
    uint32_t id[1103];
    unsigned char window[8192];
    float w[1103];
    struct gy_op op[OP_GLM_CODES];
    struct gy_error err = { 0 };
    void *p[6] = { NULL };
    for (int i = 0; i < 1103; i++)
        id[i] = (uint32_t)(i < 3 ? i : i - 3);
    const struct gy_rows rows = { .count = 3, .start = start, .id = id, .same = 0.5f, .label = label };
    const struct gy_glm_pack how = { .problem = &problem, .features = 1103, .room = sizeof window, .most_rows = 3 };
    struct gy_glm_piece piece = { .rows = &rows, .count = 3 };
    const struct gy_glm_packed in = gy_glm_pack(&how, &piece, 1, window);
    const size_t bytes[6] = { sizeof window, sizeof w, 12, 12, 32, 16384 };
    if (!T_CHECK(in.rows == 3 && in.longs == 1) || !op_glm_prepare(self, op, problem.loss, 16, &u) || !T_CHECK(gy_cuda_ready(self, &err) == GY_OK))
        return;
    for (int i = 0; i < 6; i++)
        T_CHECK(backend->mem_get(self, bytes[i], GY_MEM_DEVICE, &p[i], &err) == GY_OK);
    T_CHECK(backend->copy(self, p[0], window, in.bytes, GY_COPY_TO_DEVICE) == GY_OK && op[OP_GLM_CODES - 1].scratch_bytes <= bytes[5]);
    for (int i = 0; i < OP_GLM_CODES; i++) {
        const struct gy_cuda_plan *plan;
        op[i].ptr[GY_X] = p[0], op[i].ptr[GY_W] = p[1], op[i].ptr[GY_M] = p[2], op[i].ptr[GY_Y] = p[3], op[i].ptr[GY_SUMS] = p[4];
        op[i].ptr[GY_SCRATCH] = p[5];
        T_CHECK(backend->run(self, &op[i]) == GY_OK && backend->sync(self) == GY_OK);
        memcpy(&plan, &op[i].kernel, sizeof plan);
        for (int launch = 0; launch < plan->cut.launches; launch++)
            cover_kernel_ran(plan->cut.launch[launch].entry);
    }
    T_CHECK(backend->copy(self, w, p[1], sizeof w, GY_COPY_TO_HOST) == GY_OK && w[0] > 0);
    for (int i = 0; i < 6; i++)
        backend->mem_put(self, p[i], bytes[i], GY_MEM_DEVICE);
}

#endif
