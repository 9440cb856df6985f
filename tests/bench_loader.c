/* SPDX-License-Identifier: MIT */
/* bench_loader.c: speed of the input side on one core. It times decoding, then decoding and
 * augmentation (random resized crop to 224, flip), from a folder of JPEG files and from packed
 * records. libjpeg-turbo runs beside it where its header and library are here. All variants take
 * turns; the median of the rounds counts. Then it times the loader as training uses it, by threads.
 * Not part of the tests.
 *
 * bench_loader [FOLDER with a folder of images per class] [rounds]; without a folder: the
 * photographs and the CIFAR images of GYRE_TEST_DATA. */
#include "engine/base/clock.h"
#include "io/images/augment.h"
#include "tests/data_files.h"

#if defined(__has_include)
#if __has_include(<jpeglib.h>)
#include <dlfcn.h>
#include <jpeglib.h>
#define BENCH_TURBO 1
#endif
#endif

enum { BENCH_ROUNDS = 32, BENCH_FILES = 2000 };

struct bench_file {
    unsigned char *bytes;
    size_t count;
};

struct bench_input {
    struct gy_alloc alloc;
    struct gy_data *folder, *packed;
    struct gy_decoder *decoder;
    struct gy_augment augment;
    struct bench_file *files; /* the folder's, in memory */
    int64_t count;
    int32_t side;             /* of a training sample */
    double megapixels;        /* of the whole folder */
    uint8_t *sample, *room;   /* room: a whole decoded image */
    size_t room_bytes;
    struct gy_error err;
};

static void bench_stop(const char *what)
{
    fprintf(stderr, "bench_loader: %s\n", what);
    exit(1);
}

/* ---- libjpeg-turbo ---- */

#ifdef BENCH_TURBO
static struct bench_turbo {
    struct jpeg_error_mgr *(*std_error)(struct jpeg_error_mgr *);
    void (*create)(j_decompress_ptr, int, size_t);
    void (*memory)(j_decompress_ptr, const unsigned char *, unsigned long);
    int (*header)(j_decompress_ptr, boolean);
    boolean (*start)(j_decompress_ptr);
    JDIMENSION (*lines)(j_decompress_ptr, JSAMPARRAY, JDIMENSION);
    boolean (*finish)(j_decompress_ptr);
    void (*destroy)(j_decompress_ptr);
} turbo;

/* dlsym gives an object pointer: its bytes are those of a function pointer. */
static int bench_find(void *library, const char *name, void *function)
{
    void *const found = library ? dlsym(library, name) : NULL;
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

static int bench_open_turbo(void)
{
    void *library = dlopen("libjpeg.so.62", RTLD_NOW);
    library = library ? library : dlopen("libjpeg.so.8", RTLD_NOW);
    return bench_find(library, "jpeg_std_error", &turbo.std_error) && bench_find(library, "jpeg_CreateDecompress", &turbo.create) &&
           bench_find(library, "jpeg_mem_src", &turbo.memory) && bench_find(library, "jpeg_read_header", &turbo.header) &&
           bench_find(library, "jpeg_start_decompress", &turbo.start) && bench_find(library, "jpeg_read_scanlines", &turbo.lines) &&
           bench_find(library, "jpeg_finish_decompress", &turbo.finish) && bench_find(library, "jpeg_destroy_decompress", &turbo.destroy);
}

/* Uses libjpeg-turbo's default settings: accurate inverse DCT and smooth chroma. Errors end the
 * program, as is the library's default. */
static void bench_turbo_decode(struct bench_input *in, int64_t i, struct gy_image *image)
{
    struct jpeg_decompress_struct d;
    struct jpeg_error_mgr error;
    d.err = turbo.std_error(&error);
    turbo.create(&d, JPEG_LIB_VERSION, sizeof d);
    turbo.memory(&d, in->files[i].bytes, (unsigned long)in->files[i].count);
    turbo.header(&d, TRUE);
    d.out_color_space = JCS_RGB;
    turbo.start(&d);
    const size_t stride = (size_t)d.output_width * 3;
    if (stride * d.output_height > in->room_bytes)
        bench_stop("an image is larger than those that were opened");
    while (d.output_scanline < d.output_height) {
        JSAMPROW row = in->room + stride * d.output_scanline;
        turbo.lines(&d, &row, 1);
    }
    *image = (struct gy_image){ .pixels = in->room, .h = (int32_t)d.output_height, .w = (int32_t)d.output_width, .c = 3 };
    turbo.finish(&d);
    turbo.destroy(&d);
}
#else
static int bench_open_turbo(void) { return 0; }
static void bench_turbo_decode(struct bench_input *in, int64_t i, struct gy_image *image)
{
    (void)in;
    (void)i;
    (void)image;
}
#endif

/* ---- what is measured, an image at a time ---- */

static void bench_augment(struct bench_input *in, int64_t i, const struct gy_image *image)
{
    if (gy_augment_sample(&in->augment, image, 1, i, in->side, in->side, 3, in->sample, in->decoder, &in->err) != GY_OK)
        bench_stop(in->err.text);
}

static void bench_decode(struct bench_input *in, int64_t i, struct gy_image *image)
{
    if (gy_image_decode(in->decoder, in->files[i].bytes, in->files[i].count, "a file", 3, INT64_C(1) << 26, image, &in->err) != GY_OK)
        bench_stop(in->err.text);
}

static void bench_read(struct bench_input *in, struct gy_data *data, int64_t i)
{
    struct gy_image image;
    if (gy_data_read(data, i, in->decoder, &image, &in->err) != GY_OK)
        bench_stop(in->err.text);
    bench_augment(in, i, &image);
}

static void bench_gyre_decode(struct bench_input *in, int64_t i)
{
    struct gy_image image;
    bench_decode(in, i, &image);
}
static void bench_turbo_alone(struct bench_input *in, int64_t i)
{
    struct gy_image image;
    bench_turbo_decode(in, i, &image);
}
/* The decoder's memory holds the filter's scratch. libjpeg-turbo does not touch that memory, so
 * decoding the smallest file resets it. */
static void bench_turbo_sample(struct bench_input *in, int64_t i)
{
    struct gy_image image;
    static const unsigned char dot[] = "P6 1 1 255\nabc";
    if (gy_image_decode(in->decoder, dot, sizeof dot - 1, "a dot", 3, 16, &image, &in->err) != GY_OK)
        bench_stop(in->err.text);
    bench_turbo_decode(in, i, &image);
    bench_augment(in, i, &image);
}
static void bench_folder_sample(struct bench_input *in, int64_t i) { bench_read(in, in->folder, i); }
static void bench_packed_sample(struct bench_input *in, int64_t i) { bench_read(in, in->packed, i); }

static const struct bench_way {
    const char *name;
    int turbo, base; /* base: the row that the ratio compares with */
    void (*run)(struct bench_input *in, int64_t i);
} bench_ways[] = {
    { "decode, libjpeg-turbo", 1, 0, bench_turbo_alone },
    { "decode, Gyre", 0, 0, bench_gyre_decode },
    { "decode and augment, libjpeg-turbo", 1, 2, bench_turbo_sample },
    { "decode and augment, Gyre, JPEG files", 0, 2, bench_folder_sample },
    { "augment, Gyre, packed records", 0, 2, bench_packed_sample },
};

static int bench_compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double bench_median(const double *values, int count)
{
    double sorted[BENCH_ROUNDS];
    memcpy(sorted, values, (size_t)count * sizeof *values);
    qsort(sorted, (size_t)count, sizeof *sorted, bench_compare);
    return (sorted[(count - 1) / 2] + sorted[count / 2]) / 2;
}

static void bench_rounds(struct bench_input *in, int rounds, int has_turbo)
{
    double seconds[GY_COUNT(bench_ways)][BENCH_ROUNDS] = { { 0 } };
    for (int round = -1; round < rounds; round++) /* the first warms up */
        for (size_t way = 0; way < GY_COUNT(bench_ways); way++) {
            const int64_t began = gy_clock_ns();
            for (int64_t i = 0; i < in->count && (has_turbo || !bench_ways[way].turbo); i++)
                bench_ways[way].run(in, i);
            if (round >= 0)
                seconds[way][round] = (double)(gy_clock_ns() - began) * 1e-9;
        }
    for (size_t way = 0; way < GY_COUNT(bench_ways); way++) {
        double ratio[BENCH_ROUNDS];
        if (bench_ways[way].turbo && !has_turbo)
            continue;
        for (int round = 0; round < rounds; round++)
            ratio[round] = seconds[bench_ways[way].base][round] / seconds[way][round];
        const double median = bench_median(seconds[way], rounds);
        printf("  %-40s %9.1f images/s  %7.1f MP/s", bench_ways[way].name, (double)in->count / median, in->megapixels / median);
        if (has_turbo)
            printf("  x%.2f", bench_median(ratio, rounds));
        putchar('\n');
    }
}

/* ---- the loader ---- */

/* Images a second of a loader whose batches nobody uses. */
static double bench_loader(struct bench_input *in, struct gy_data *data, int threads)
{
    struct gy_loader *loader;
    struct gy_batch batch;
    const struct gy_loader_config config = { .alloc = &in->alloc, .batch = 16, .h = in->side, .w = in->side, .c = 3, .training = 1,
                                             .augment = in->augment, .seed = 1, .threads = threads, .depth = 4 };
    if (gy_loader_open(&loader, data, &config, &in->err) != GY_OK)
        bench_stop(in->err.text);
    int64_t done = 0, began = gy_clock_ns();
    for (int i = 0; done < 2 * in->count; i++) {
        if (gy_loader_next(loader, &batch, &in->err) != GY_OK)
            bench_stop(in->err.text);
        done = i < 4 ? 0 : done + batch.count; /* the first ones warm up */
        began = i < 4 ? gy_clock_ns() : began;
    }
    const double seconds = (double)(gy_clock_ns() - began) * 1e-9;
    gy_loader_close(loader);
    return (double)done / seconds;
}

/* ---- opening ---- */

static void bench_read_file(struct bench_file *file, const char *path)
{
    FILE *f = fopen(path, "rb");
    long bytes = -1;
    if (f && fseek(f, 0, SEEK_END) == 0)
        bytes = ftell(f);
    file->bytes = bytes > 0 ? malloc((size_t)bytes) : NULL;
    if (!file->bytes || fseek(f, 0, SEEK_SET) != 0 || fread(file->bytes, 1, (size_t)bytes, f) != (size_t)bytes)
        bench_stop(path);
    file->count = (size_t)bytes;
    fclose(f);
}

static void bench_read_files(struct bench_input *in, const char *folder)
{
    char name[512], path[1024];
    struct gy_image image;
    in->count = gy_min64(gy_data_count(in->folder), BENCH_FILES);
    in->files = calloc((size_t)in->count, sizeof *in->files);
    if (!in->files)
        bench_stop("out of memory");
    for (int64_t i = 0; i < in->count; i++) {
        gy_data_sample_name(in->folder, i, name, sizeof name); /* "FOLDER/CLASS/FILE" */
        if (!strchr(name, '/') || gy_file_join(path, sizeof path, folder, strchr(name, '/') + 1, &in->err) != GY_OK)
            bench_stop("a file's path is too long");
        bench_read_file(&in->files[i], path);
        bench_decode(in, i, &image);
        in->megapixels += 1e-6 * image.h * image.w;
        const size_t bytes = (size_t)image.h * (size_t)image.w * 3;
        in->room_bytes = bytes > in->room_bytes ? bytes : in->room_bytes;
    }
    in->room = malloc(in->room_bytes);
    in->sample = malloc((size_t)in->side * (size_t)in->side * 3);
    if (!in->room || !in->sample)
        bench_stop("out of memory");
}

/* The packed file holds images of the size that training reads: large ones have a shorter side of
 * 256. */
static void bench_pack(struct bench_input *in)
{
    const struct gy_pack_config pack = { .alloc = &in->alloc, .side = in->side > 64 ? 256 : 0, .threads = 2 };
    const struct gy_data_config data = { .alloc = &in->alloc, .path = df_path("all.gyr"), .split = "" };
    if (gy_data_pack(in->folder, data.path, &pack, &in->err) != GY_OK || gy_data_open(&in->packed, &data, &in->err) != GY_OK)
        bench_stop(in->err.text);
}

static void bench_folder(const char *folder, int32_t side, int rounds)
{
    struct bench_input in = { .alloc = gy_alloc_default(), .side = side };
    const struct gy_data_config data = { .alloc = &in.alloc, .path = folder, .split = "" };
    in.augment = (struct gy_augment){ .resized_crop = 1, .scale_min = .08f, .scale_max = 1, .ratio_min = .75f, .ratio_max = 4.f / 3,
                                      .flip = .5f };
    if (side <= 64)
        in.augment = (struct gy_augment){ .pad = 4, .flip = .5f };
    if (gy_data_open(&in.folder, &data, &in.err) != GY_OK ||
        gy_decoder_open(&in.decoder, &in.alloc, GY_DECODER_BYTES, &in.err) != GY_OK)
        bench_stop(in.err.text);
    bench_read_files(&in, folder);
    bench_pack(&in);
    const int has_turbo = bench_open_turbo();
    printf("%" PRId64 " images of %.3f MP on average to %dx%d, one core, median of %d rounds%s\n", in.count,
           in.megapixels / (double)in.count, (int)side, (int)side, rounds, has_turbo ? "; x: beside libjpeg-turbo" : "; libjpeg-turbo is not here");
    bench_rounds(&in, rounds, has_turbo);
    for (int threads = 1; threads <= 2; threads++)
        printf("  loader, %d thread%s: JPEG files %.1f images/s, packed records %.1f images/s\n", threads, threads > 1 ? "s" : "",
               bench_loader(&in, in.folder, threads), bench_loader(&in, in.packed, threads));
    for (int64_t i = 0; i < in.count; i++)
        free(in.files[i].bytes);
    free(in.files);
    free(in.room);
    free(in.sample);
    gy_decoder_close(in.decoder);
    gy_data_close(in.packed);
    gy_data_close(in.folder);
}

/* Some images of an archive of the test data as FOLDER/all; 0: it is not there. */
static int bench_unpack(const char *archive, const char *members, const char *folder)
{
    char command[1024];
    const char *root = getenv("GYRE_TEST_DATA");
    const char *to = df_path(folder);
    if (!root)
        return 0;
    snprintf(command, sizeof command, "mkdir -p %s && tar xf %s/images/%s -C %s %s 2>/dev/null", to, root, archive, to, members);
    return system(command) == 0;
}

int main(int argc, char **argv)
{
    const long given = argc > 2 ? strtol(argv[2], NULL, 10) : 5;
    const int rounds = given < 1 ? 1 : given > BENCH_ROUNDS ? BENCH_ROUNDS : (int)given;
    df_open();
    if (argc > 1)
        bench_folder(argv[1], 224, rounds);
    else if (bench_unpack("imagenet-120.tar", "", "photos/all") && bench_unpack("cifar10-jpeg.tar.gz", "test/cat test/dog", "cifar")) {
        bench_folder(df_path("photos"), 224, rounds);
        bench_folder(df_path("cifar/test"), 32, rounds);
    } else
        printf("bench_loader: skipped: no folder given, and GYRE_TEST_DATA has no photographs\n");
    df_remove(df_root);
    return 0;
}
