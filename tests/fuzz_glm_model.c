/* SPDX-License-Identifier: MIT */
/* fuzz_glm_model.c: any bytes as a linear model's text. A model that is read can be written, and
 * read again it is the same. */
#include "engine/glm/glm_model.h"

#define FUZZ_REQUIRE(cond) ((cond) ? (void)0 : abort())

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count);

static void fuzz_again(const struct gyre_glm *model, const struct gy_alloc *alloc)
{
    struct gyre_glm *again = NULL;
    struct gy_error err = { 0 };
    struct gy_buf buf;
    gy_buf_open(&buf, alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_glm_model_print(model, &sink);
    FUZZ_REQUIRE(!buf.failed && gy_glm_model_parse(&again, (const unsigned char *)buf.text, buf.bytes, "again", alloc, &err) == GY_OK);
    gy_buf_close(&buf);
    FUZZ_REQUIRE(again->width == model->width && again->info.models == model->info.models && again->info.loss == model->info.loss);
    FUZZ_REQUIRE(memcmp(again->w, model->w, (size_t)model->info.models * (size_t)model->width * sizeof *model->w) == 0);
    gyre_glm_close(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gyre_glm *model = NULL;
    struct gy_error err = { 0 };
    const int status = gy_glm_model_parse(&model, bytes, count, "fuzz", &alloc, &err);
    FUZZ_REQUIRE(status == GY_OK || (!model && err.status == status && err.text[0] != 0));
    if (status != GY_OK)
        return 0;
    for (int64_t i = 0; i < model->info.models * model->width; i++)
        FUZZ_REQUIRE(isfinite(model->w[i]));
    if (model->width < 1000)
        fuzz_again(model, &alloc);
    gyre_glm_close(model);
    return 0;
}
