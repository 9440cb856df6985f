/* SPDX-License-Identifier: MIT */
/* t_cut.c: files that are cut or replaced while they are in use. What was checked when they were
 * opened stands; what is gone is refused with the file's name. A process that had mapped them would
 * be ended by a signal, or led outside of the file. */
#include "io/rows/blocks_write.h"
#include "io/images/data.h"
#include "io/safetensors.h"
#include "tests/data_files.h"

static struct gy_alloc cut_alloc;
static struct gy_error cut_err;
static struct gy_decoder *cut_decoder;

#define CUT_REFUSED(call, word)                                                                                        \
    do {                                                                                                               \
        const int got_ = (call);                                                                                       \
        T_CHECK_MSG(got_ == GY_E_TRUNCATED && strstr(cut_err.text, (word)), "%d '%s'", got_, cut_err.text);            \
    } while (0)

static void cut_write_cifar(const char *name, int records, int label_bytes, int bad_label)
{
    static unsigned char bytes[4 * 3074];
    unsigned char *at = bytes;
    for (int r = 0; r < records; r++) {
        if (label_bytes == 2)
            *at++ = 99;
        *at++ = (unsigned char)(bad_label >= 0 ? bad_label : r);
        for (int c = 0; c < 3; c++)
            for (int i = 0; i < 1024; i++)
                *at++ = df_pixel(r, i / 32, i % 32, c);
    }
    df_write(name, bytes, (size_t)(at - bytes));
}

/* ---- files that change while they are in use ---- */

/* A file that became shorter. Samples before the cut are read as before, others are refused with
 * its name. Labels and names stay. */
static void cut_data(const char *set, const char *split, const char *file, off_t bytes, int64_t good, int64_t gone)
{
    struct gy_data *data;
    struct gy_image image;
    char name[64];
    if (!T_CHECK(df_data(&data, df_path(set), split, 0, NULL, &cut_err) == GY_OK))
        return;
    const int32_t label = gy_data_label(data, gone);
    T_CHECK(truncate(df_path(file), bytes) == 0);
    T_CHECK_MSG(gy_data_read(data, good, cut_decoder, &image, &cut_err) == GY_OK, "%s", cut_err.text);
    CUT_REFUSED(gy_data_read(data, gone, cut_decoder, &image, &cut_err), "bytes when it was opened");
    T_CHECK_MSG(strstr(cut_err.text, file) != NULL, "%s", cut_err.text);
    T_CHECK(truncate(df_path(file), 0) == 0);
    CUT_REFUSED(gy_data_read(data, good, cut_decoder, &image, &cut_err), "nothing is at byte ");
    T_CHECK(gy_data_label(data, gone) == label && gy_data_sample_name(data, gone, name, sizeof name)[0] != 0);
    gy_data_close(data);
}

static void cut_test_data(void)
{
    char name[64];
    df_folder("c10c");
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "c10c/data_batch_%d.bin", i);
        cut_write_cifar(name, 3, 1, -1);
    }
    cut_data("c10c", "train", "c10c/data_batch_2.bin", 3073 + 100, 3, 4);
    df_folder("idxc");
    df_write_idx("idxc/train", 13, 50, 70, 4);
    cut_data("idxc", "train", "idxc/train-images-idx3-ubyte", 16 + 5 * 3500, 4, 5);
    df_write_idx("idxc/train", 13, 50, 70, 4);
    struct gy_data *data;
    T_CHECK(df_data(&data, df_path("idxc"), "train", 0, NULL, &cut_err) == GY_OK);
    T_CHECK(truncate(df_path("idxc/train-labels-idx1-ubyte"), 3) == 0 && gy_data_label(data, 7) == 3);
    gy_data_close(data);
    df_write_idx("idxc/train", 13, 50, 70, 4);
    const struct gy_pack_config config = {&cut_alloc, NULL, 0, 1, NULL, NULL};
    T_CHECK(df_data(&data, df_path("idxc"), "train", 0, NULL, &cut_err) == GY_OK);
    T_CHECK(gy_data_pack(data, df_path("cut.gyr"), &config, &cut_err) == GY_OK);
    gy_data_close(data);
    cut_data("cut.gyr", "", "cut.gyr", 96 + 5 * 3500, 4, 5);
}

/* What was checked does not change with the file. A packed file whose index changes later is read
 * by the index as it was. */
static void cut_test_changed(void)
{
    static unsigned char wild[65536];
    struct gy_data *data;
    struct gy_image image;
    const struct gy_pack_config config = {&cut_alloc, NULL, 0, 1, NULL, NULL};
    memset(wild, 0xff, sizeof wild);
    T_CHECK(df_data(&data, df_path("idxc"), "train", 0, NULL, &cut_err) == GY_OK);
    T_CHECK(gy_data_pack(data, df_path("changed.gyr"), &config, &cut_err) == GY_OK);
    gy_data_close(data);
    T_CHECK(df_data(&data, df_path("changed.gyr"), "", 0, NULL, &cut_err) == GY_OK);
    FILE *f = fopen(df_path("changed.gyr"), "r+b");
    T_CHECK(f && fseek(f, 96 + 13 * 3500, SEEK_SET) == 0 && fwrite(wild, 1, sizeof wild, f) == sizeof wild && fclose(f) == 0);
    T_CHECK_MSG(gy_data_read(data, 12, cut_decoder, &image, &cut_err) == GY_OK && gy_data_label(data, 6) == 2, "%s", cut_err.text);
    T_CHECK(image.h == 50 && image.w == 70 && image.pixels[3499] == df_pixel(12, 49, 69, 0));
    f = fopen(df_path("changed.gyr"), "r+b");
    T_CHECK(f && fseek(f, 96, SEEK_SET) == 0 && fwrite(wild, 1, 10, f) == 10 && fclose(f) == 0);
    T_CHECK(gy_data_read(data, 0, cut_decoder, &image, &cut_err) == GY_E_HASH && strstr(cut_err.text, "checksum of sample 0"));
    gy_data_close(data);
}

/* ---- tensors and rows ---- */

static void cut_test_tensors(void)
{
    enum { COUNT = 20000 };
    static float values[COUNT];
    const int64_t shape = COUNT;
    struct gy_st_writer *writer;
    struct gy_st_file *file;
    const char *const path = df_path("w.safetensors");
    T_CHECK(gy_st_create(&writer, &cut_alloc, path, &cut_err) == GY_OK && gy_st_add_meta(writer, "key", "value", &cut_err) == GY_OK);
    T_CHECK(gy_st_declare(writer, "a", GY_ST_F32, &shape, 1, &cut_err) == GY_OK && gy_st_declare(writer, "b", GY_ST_F16, &shape, 1, &cut_err) == GY_OK);
    T_CHECK(gy_st_write_f32(writer, values, COUNT, &cut_err) == GY_OK && gy_st_write(writer, values, 2 * COUNT, &cut_err) == GY_OK);
    T_CHECK(gy_st_commit(writer, &cut_err) == GY_OK);
    if (!T_CHECK(gy_st_open(&file, &cut_alloc, path, &cut_err) == GY_OK))
        return;
    T_CHECK(truncate(path, 40000) == 0);
    T_CHECK(gy_st_read_f32(gy_st_find(file, "a"), 0, 8000, values, &cut_err) == GY_OK);
    CUT_REFUSED(gy_st_read_f32(gy_st_find(file, "a"), 8000, 12000, values, &cut_err), "w.safetensors: nothing is at byte 40000 any more; it had 1201");
    CUT_REFUSED(gy_st_read_f32(gy_st_find(file, "b"), 0, COUNT, values, &cut_err), "w.safetensors: nothing is at byte ");
    T_CHECK(strcmp(gy_st_meta(file, "key"), "value") == 0);
    gy_st_close(file);
}

static void cut_test_rows(void)
{
    enum { ROWS = 4000 };
    static uint32_t start[ROWS + 1], id[ROWS];
    static float value[ROWS], label[ROWS];
    struct gy_blocks_packed *packed = NULL;
    struct gy_blocks_writer *writer;
    struct gy_blocks *blocks;
    struct gy_rows got, rows = { .count = 1000, .start = start, .id = id, .value = value, .label = label };
    const char *const path = df_path("rows.blocks");
    const struct gy_blocks_write config = { .path = path, .alloc = &cut_alloc };
    for (uint32_t i = 0; i < ROWS; i++) {
        start[i + 1] = i + 1;
        id[i] = i * 7 % 1000;
        value[i] = (float)i * 0.3f;
        label[i] = (float)(i % 2);
    }
    T_CHECK(gy_blocks_create(&writer, &config, &cut_err) == GY_OK);
    for (int i = 0; i < 4; i++)
        T_CHECK(gy_blocks_pack(&packed, &rows, 1, &cut_alloc, &cut_err) == GY_OK && gy_blocks_put(writer, packed, &cut_err) == GY_OK);
    gy_blocks_drop(packed, &cut_alloc);
    T_CHECK(gy_blocks_finish(writer, NULL, &cut_err) == GY_OK);
    if (!T_CHECK(gy_blocks_open(&blocks, path, &cut_alloc, &cut_err) == GY_OK))
        return;
    const size_t bytes = gy_blocks_room_bytes(blocks, -1);
    const struct gy_blocks_room room = { malloc(bytes), bytes };
    T_CHECK(truncate(path, 16384) == 0 && gy_blocks_read(blocks, 0, &room, &got, &cut_err) == GY_OK && got.count == 1000);
    CUT_REFUSED(gy_blocks_read(blocks, 3, &room, &got, &cut_err), "rows.blocks: nothing is at byte ");
    T_CHECK(truncate(path, 0) == 0);
    CUT_REFUSED(gy_blocks_read(blocks, 0, &room, &got, &cut_err), "rows.blocks: nothing is at byte ");
    free(room.memory);
    gy_blocks_close(blocks);
}

int main(void)
{
    cut_alloc = gy_alloc_default();
    df_open();
    if (gy_decoder_open(&cut_decoder, &cut_alloc, (size_t)1 << 20, &cut_err))
        return 2;
    cut_test_data();
    cut_test_changed();
    cut_test_tensors();
    cut_test_rows();
    gy_decoder_close(cut_decoder);
    df_remove(df_root);
    T_END("t_cut");
}
