/* SPDX-License-Identifier: MIT */
/* data_set.h: what the formats of a data set and of images share, for the files of io/images/
 * alone. data_open.c zeroes a struct gy_data; a format fills it with counts, class names and a
 * table of four functions. An open set is read-only, so any thread may read it. Only the record of
 * unreadable samples changes, under a lock. */
#ifndef GY_DATA_SET_H
#define GY_DATA_SET_H
#include <pthread.h>

#include "engine/base/file.h"
#include "io/byte_order.h"
#include "io/images/data.h"

#define GY_IMAGE_SIDE 16384                   /* longest side that is read */
#define GY_IMAGE_PIXELS ((int64_t)64 << 20)   /* pixels of an image when the caller sets no limit */

/* ---- images ---- */

/* As gy_image_decode, but keeps what the decoder holds already (bytes may lie there). */
GY_INT int gy_image_decode_kept(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                                int32_t channels, int64_t max_pixels, struct gy_image *image, struct gy_error *err);
/* Reads the file at path into the decoder's memory and decodes it. */
GY_INT int gy_image_read_file(struct gy_decoder *decoder, const char *path, const char *name, int32_t channels,
                              int64_t max_pixels, struct gy_image *image, struct gy_error *err);
/* h, w within the sides and pixels allowed; GY_E_IMAGE otherwise. */
GY_INT int gy_image_check_size(int64_t h, int64_t w, int64_t max_pixels, const char *name, struct gy_error *err);

struct gy_image_head { /* what the bytes of a file say before they are decoded */
    int64_t h, w;
    int32_t gray;      /* 1: gray */
};
/* Walk the whole structure of a file: size, checksums, end mark. Pixels are not looked at. */
GY_INT int gy_jpeg_check(const unsigned char *bytes, size_t count, const char *name, struct gy_image_head *head,
                         struct gy_error *err);
GY_INT int gy_png_check(const unsigned char *bytes, size_t count, const char *name, struct gy_image_head *head,
                        struct gy_error *err);
GY_INT int gy_bmp_check(const unsigned char *bytes, size_t count, const char *name, struct gy_image_head *head,
                        struct gy_error *err);
GY_INT int gy_pnm_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int32_t channels, int64_t max_pixels, struct gy_image *image, struct gy_error *err);

/* A Portable Float Map: values as they are, also those that are not finite, rows from the top. The
 * sizes must agree with the file's end to the byte. GY_E_IMAGE, or GY_E_TRUNCATED for a cut
 * file. */
GY_INT int gy_pfm_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int64_t max_pixels, struct gy_image *image, struct gy_error *err);
/* The same for the file at path; what the decoder held is forgotten. */
GY_INT int gy_pfm_read_file(struct gy_decoder *decoder, const char *path, int64_t max_pixels, struct gy_image *image,
                            struct gy_error *err);
/* The content of the file at path, in the decoder's memory, which is reset first. */
GY_INT int gy_image_load_file(struct gy_decoder *decoder, const char *path, const char *name, unsigned char **bytes,
                              size_t *count, struct gy_error *err);

/* The bridge to stb_image; GY_E_UNSUPPORTED where it was left out of the build. */
GY_INT int gy_stb_decode(struct gy_decoder *decoder, const unsigned char *bytes, size_t count, const char *name,
                         int32_t channels, struct gy_image *image, struct gy_error *err);
/* Raw deflate data into exactly out_bytes bytes; GY_E_FORMAT when it gives fewer, more, or is
 * damaged. At least 4 bytes of count must lie behind the end of the data (a trailer). Reason:
 * stb_image reads ahead and takes the end of its input for damage. */
GY_INT int gy_stb_inflate(const unsigned char *bytes, size_t count, unsigned char *out, size_t out_bytes,
                          const char *name, struct gy_error *err);

/* The content of a .gz file, checked against its length and CRC-32; freed with gy_alloc_free(*out,
 * *out_bytes). */
GY_INT int gy_gzip_read(const struct gy_alloc *alloc, const unsigned char *bytes, size_t count, const char *name,
                        size_t limit, unsigned char **out, size_t *out_bytes, struct gy_error *err);

/* ---- data sets ---- */

struct gy_data_format {
    const char *name;
    int (*read)(struct gy_data *data, int64_t index, struct gy_decoder *decoder, struct gy_image *image,
                struct gy_error *err);
    int32_t (*label)(const struct gy_data *data, int64_t index);
    void (*sample_name)(const struct gy_data *data, int64_t index, char *buf, size_t room);
    void (*close)(struct gy_data *data); /* also of a half-open one: own may be NULL */
};

struct gy_data {
    const struct gy_data_format *format;
    struct gy_alloc alloc;
    struct gy_log log;
    struct gy_arena arena;          /* names and small tables */
    const char **class_names;       /* [classes], in the arena */
    int64_t count, max_bad, max_pixels;
    int32_t classes, channels;
    int32_t h, w;                   /* 0 x 0: images differ */
    int32_t max_h, max_w;           /* largest sample; 0: unknown before it is decoded */
    size_t decode_bytes;            /* decoder memory that reading a sample can need */
    int real;                       /* 1: samples are float, all h x w x channels */
    int costly;                     /* 1: samples are decoded, 0: they only are copied */
    int has_splits; /* 1: the samples are one split of the path, 0: all that it has */
    const char *split;              /* its name, in the arena; "": the path has none */
    void *own;                      /* the format's */
    int64_t *chosen; /* [count]: numbers that the format knows the samples by; NULL: all */
    struct gy_data_hold hold;
    pthread_mutex_t bad_lock;
    unsigned char *bad_map;         /* a bit a sample */
    int64_t bad;
};

/* Each fills data and sets *found when path is of its format; GY_OK with *found 0 when it is
 * not. */
GY_INT int gy_packed_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err);
GY_INT int gy_cifar_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err);
GY_INT int gy_idx_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err);
GY_INT int gy_folder_open(struct gy_data *data, const char *path, const char *split, int *found, struct gy_error *err);

/* The names that a split has in file systems: number 0, 1, ... of them, or NULL behind the last.
 * "test": "test", "t10k", "val", "valid", "validation"; "train": "train", "training". */
GY_INT const char *gy_data_split_alias(const char *split, int number);
/* May the split stand for a path that has none? "" and "train" do. */
GY_INT int gy_data_is_whole(const char *split);
/* GY_E_FORMAT: the path has no such split. */
GY_INT int gy_data_no_split(const char *path, const char *split, struct gy_error *err);
/* Leaves one of two parts of an opened set: config->hold_out, hold_seed, held. */
GY_INT int gy_data_hold_out(struct gy_data *data, const struct gy_data_config *config, struct gy_error *err);
/* Classes "0", "1", ... */
GY_INT int gy_data_number_classes(struct gy_data *data, int32_t classes, struct gy_error *err);
/* Counts an unreadable sample once and names it in the log; above max_bad it is an error. why: what
 * reading said. */
GY_INT int gy_data_note_bad(struct gy_data *data, int64_t index, const struct gy_error *why, struct gy_error *err);
GY_INT int gy_data_is_bad_status(int status); /* 1: this sample's fault, others may be fine */

/* ---- formats that are parsed from memory (also by the fuzz targets) ---- */

struct gy_idx_view {
    int32_t dims;
    int64_t shape[4];
    size_t at; /* offset of the cells: u8, row-major */
};
/* bytes: the first GY_IDX_HEAD of a file of count, or all of a shorter one. */
#define GY_IDX_HEAD 20
GY_INT int gy_idx_parse(const unsigned char *bytes, size_t count, const char *name, struct gy_idx_view *view,
                        struct gy_error *err);

struct gy_packed_view {
    int64_t count;
    int32_t classes, channels, h, w, max_h, max_w;
    /* first index entry: a copy of all behind the pixels, so that it stays as it was checked */
    unsigned char *index;
    size_t index_bytes;                 /* of that copy */
    uint64_t index_at;                  /* where the pixels end */
    size_t most_bytes;                  /* pixels of the largest sample */
    const char *class_names;            /* classes names, each with its NUL */
    const char *names;                  /* sample names, each with its NUL */
};
struct gy_packed_record {
    uint64_t at; /* of its pixels in the file */
    const char *name;
    int32_t h, w, label;
    uint32_t crc;
};
/* view->index is freed with gy_alloc_free(alloc, view->index, view->index_bytes). */
GY_INT int gy_packed_parse(const struct gy_file *file, const struct gy_alloc *alloc, struct gy_packed_view *view,
                           struct gy_error *err);
GY_INT void gy_packed_at(const struct gy_packed_view *view, int64_t index, struct gy_packed_record *record);

#endif
