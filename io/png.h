/* SPDX-License-Identifier: MIT */
/* png.h: writes an image as PNG. engine/train/net_data.c does so for contact sheets. */
#ifndef GY_PNG_H
#define GY_PNG_H
#include "engine/base/mem.h"

/* pixels [h][w][c], c 1 or 3, as PNG; written whole or not at all. GY_E_ARG: a row has more than
 * 65534 bytes, or the image 2 GB. alloc is not used. */
GY_INT int gy_image_write_png(const char *path, const uint8_t *pixels, int32_t h, int32_t w, int32_t c,
                              const struct gy_alloc *alloc, struct gy_error *err);

#endif
