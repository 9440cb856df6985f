/* SPDX-License-Identifier: MIT */
/* data.h: a data set is a numbered list of labelled images. Its files may be IDX (plain or .gz),
 * CIFAR binary, a folder of images per class, or Gyre's packed records. Opening reads names and
 * headers. Any thread may read a sample's pixels, into memory that the caller brings. Loader
 * and packing of this folder call it, and net_data.c and net_train.c of engine/train/. */
#ifndef GY_DATA_H
#define GY_DATA_H
#include "engine/base/log.h"
#include "engine/base/mem.h"
#include "io/images/decoder.h"

struct gy_data;

/* path: a folder with a folder for each class, or a CIFAR folder of data_batch_*.bin and
 * test_batch.bin. Or a folder or prefix with IDX files: "train-images-idx3-ubyte[.gz]" and its
 * labels, or "t10k-...". Or an .idx images file with its labels file beside it, or a packed .gyr
 * file. split: "train", "test" or another name that the path's files or folders bear. "" is
 * "train"; it is refused for a folder with folders of splits. A path without splits opens with ""
 * and "train". A split that is not there is GY_E_FORMAT. */
struct gy_data_config {
    const struct gy_alloc *alloc;
    const struct gy_log *log;
    const char *path, *split;
    /* unreadable samples that are named, counted and skipped before reading fails */
    int64_t max_bad;
    int64_t max_pixels;  /* per image; 0: 64 Mi */
    double hold_out;     /* 0; else this share of each class is held out, by hold_seed */
    uint64_t hold_seed;
    int held;            /* with hold_out: 1 the samples that are held out, 0 all others */
};

/* What was held out; share 0: nothing. */
struct gy_data_hold {
    double share;
    uint64_t seed;
    int64_t of;       /* samples of both parts together */
    /* A checksum of their labels. Data sets with the same checksum have the same parts. */
    uint32_t labels;
};

GY_INT int gy_data_open(struct gy_data **out, const struct gy_data_config *config, struct gy_error *err);
GY_INT void gy_data_close(struct gy_data *data); /* NULL is fine */
GY_INT int64_t gy_data_count(const struct gy_data *data);
GY_INT int32_t gy_data_classes(const struct gy_data *data);
/* Folder name or number; NULL out of range. */
GY_INT const char *gy_data_class_name(const struct gy_data *data, int32_t label);
GY_INT int32_t gy_data_label(const struct gy_data *data, int64_t index);
/* Logs a warning where classes have no sample; it names the first such class. A single wrong label
 * makes such classes. what: "the training data". */
GY_INT int gy_data_warn_empty(const struct gy_data *data, const char *what, const struct gy_alloc *alloc, const struct gy_log *log,
                              struct gy_error *err);
GY_INT int32_t gy_data_channels(const struct gy_data *data);                        /* 1 or 3 */
/* 1: samples are float32 (a folder of .pfm), all of one size */
GY_INT int gy_data_is_real(const struct gy_data *data);
/* 0 x 0 when images differ in size */
GY_INT void gy_data_side(const struct gy_data *data, int32_t *h, int32_t *w);
/* The split that was opened; "": the path is one whole. */
GY_INT const char *gy_data_split(const struct gy_data *data);
GY_INT struct gy_data_hold gy_data_hold(const struct gy_data *data);
/* "idx", "cifar", "folder", "packed" */
GY_INT const char *gy_data_format(const struct gy_data *data);
/* "train/cat/0042.jpg" or "train-images-idx3-ubyte.gz[17]", into room bytes; returns buf. */
GY_INT const char *gy_data_sample_name(const struct gy_data *data, int64_t index, char *buf, size_t room);
/* Different samples that loaders and gy_data_pack could not read so far. */
GY_INT int64_t gy_data_bad(const struct gy_data *data);

struct gy_image {
    const uint8_t *pixels;  /* [h][w][c], rows without gaps; in the decoder's memory */
    int32_t h, w, c;
    /* the same of a float set, in its own scale, usually 0 .. 1; pixels is NULL then */
    const float *values;
};
/* image is valid until the decoder's next use. GY_E_IMAGE, GY_E_TRUNCATED, GY_E_IO or GY_E_HASH for
 * a bad sample. A bad sample is neither counted nor logged here. */
GY_INT int gy_data_read(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                        struct gy_error *err);

/* Decodes a JPEG, PNG, BMP or PNM from bytes; name is for sentences. channels 0: 1 for gray images,
 * else 3. */
GY_INT int gy_image_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                           int32_t channels, int64_t max_pixels, struct gy_image *image, struct gy_error *err);
/* The same for a file. */
GY_INT int gy_image_read(struct gy_decoder *decoder, const char *path, int32_t channels, int64_t max_pixels,
                         struct gy_image *image, struct gy_error *err);
/* Fits an image as evaluation does: shorter side to `resize`, then a centre crop into out
 * [h][w][c]. resize 0: the image just covers h x w. Scratch comes from the decoder, in which image
 * may lie. */
GY_INT int gy_image_fit(const struct gy_image *image, int32_t h, int32_t w, int32_t c, int32_t resize, uint8_t *out,
                        struct gy_decoder *decoder, struct gy_error *err);
struct gy_pack_config {
    const struct gy_alloc *alloc;
    const struct gy_log *log;
    int32_t side;    /* shorter side after resizing; 0: keep the size */
    int threads;
    int (*progress)(void *user, int64_t done, int64_t total); /* may be NULL; non-zero stops */
    void *user;
};
/* Writes every sample of data as raw pixels into one file (checksummed, whole or absent). */
GY_INT int gy_data_pack(struct gy_data *data, const char *path, const struct gy_pack_config *config,
                        struct gy_error *err);

#endif
