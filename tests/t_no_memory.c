/* SPDX-License-Identifier: MIT */
/* t_no_memory.c: the n-th allocation fails, for every n, while a stranger's text is read. Inputs
 * are the corpora of every parser, from memory and from a file; text of rows also as .gz. They are
 * models, nets, schedules, checkpoints and their notes, data sets. A reader that fails says that
 * memory was short, holds nothing afterwards, and reads the same input as before when there is
 * memory again. `--all`: also with all later allocations failing, and with changes of each
 * input. */
#include "tools/lab/lab.h"
#include "tests/data_files.h"
#include "tests/faults.h"

#include <signal.h>

#include "engine/base/hash.h"
#include "engine/glm/glm_model.h"
#include "engine/text/layer.h"
#include "engine/plan/tuning_file.h"
#include "io/rows/blocks_file.h"
#include "io/images/data_set.h"
#include "io/report.h"
#include "io/rows/rows_text.h"
#include "io/safetensors.h"
#include "net/schedule/schedule.h"
#include "net/schedule/simulation.h"

#define NM_SECONDS 6 /* that one input may take */
#define NM_CHANGES 6
#define NM_ROOM ((size_t)1 << 16)

static const struct gy_alloc nm_alloc = { faults_hook, NULL };
static int nm_all;
static char nm_where[300]; /* for the hand that stops a reader that goes on for ever */

struct nm_input {
    const char *path; /* of a file with these bytes */
    const unsigned char *bytes;
    size_t count;
};

/* ---- readers: each gives its status, and holds nothing afterwards ---- */

static int nm_image(const struct nm_input *in, struct gy_error *err)
{
    struct gy_decoder *decoder = NULL;
    struct gy_image image;
    GY_TRY(gy_decoder_open(&decoder, &nm_alloc, NM_ROOM * 4, err));
    int status = gy_image_read_file(decoder, in->path, "image", 0, 16384, &image, err);
    if (status == GY_E_IMAGE || status == GY_E_FORMAT)
        status = gy_pfm_decode(decoder, in->bytes, in->count, "map", 16384, &image, err);
    gy_decoder_close(decoder);
    return status;
}

static int nm_gzip(const struct nm_input *in, struct gy_error *err)
{
    unsigned char *out = NULL;
    size_t bytes = 0;
    const int status = gy_gzip_read(&nm_alloc, in->bytes, in->count, "x.gz", (size_t)1 << 22, &out, &bytes, err);
    gy_alloc_free(&nm_alloc, out, bytes);
    return status;
}

/* A data set of any format; its samples are read once. */
static int nm_data(const struct nm_input *in, struct gy_error *err)
{
    struct gyre_error error = { 0 };
    struct gyre_data_config config;
    struct gyre_data *data = NULL;
    gyre_data_config_default(&config);
    config.path = in->path;
    config.memory.hook = faults_hook;
    const int status = gyre_open_data(&data, &config, &error);
    memcpy(err, &error, sizeof *err);
    gyre_close_data(data);
    return status;
}

static int nm_tensors(struct gy_st_file *file, int status)
{
    float real[4];
    for (int i = 0; status == GY_OK && i < gy_st_count(file); i++)
        (void)gy_st_read_f32(gy_st_at(file, i), 0, gy_min64(4, gy_st_at(file, i)->count), real, NULL);
    gy_st_close(file);
    return status;
}
static int nm_safetensors(const struct nm_input *in, struct gy_error *err)
{
    struct gy_st_file *file = NULL;
    const int status = gy_st_parse(&file, &nm_alloc, in->bytes, in->count, "x", err);
    return nm_tensors(status == GY_OK ? file : NULL, status);
}
static int nm_safetensors_file(const struct nm_input *in, struct gy_error *err)
{
    struct gy_st_file *file = NULL;
    const int status = gy_st_open(&file, &nm_alloc, in->path, err);
    return nm_tensors(status == GY_OK ? file : NULL, status);
}

static int nm_read_blocks(struct gy_blocks *blocks, struct gy_error *err)
{
    struct gy_blocks_info info;
    struct gy_rows rows;
    int status = GY_OK;
    gy_blocks_get_info(blocks, &info);
    const struct gy_blocks_room room = { malloc(gy_blocks_room_bytes(blocks, -1)), gy_blocks_room_bytes(blocks, -1) };
    for (int64_t i = 0; i < info.blocks && status == GY_OK; i++)
        status = gy_blocks_read(blocks, i, &room, &rows, err);
    free(room.memory);
    gy_blocks_close(blocks);
    return status;
}
static int nm_blocks(const struct nm_input *in, struct gy_error *err)
{
    struct gy_blocks *blocks;
    GY_TRY(gy_blocks_open_memory(&blocks, in->bytes, in->count, "x", &nm_alloc, NULL, 0, err));
    return nm_read_blocks(blocks, err);
}
static int nm_blocks_file(const struct nm_input *in, struct gy_error *err)
{
    struct gy_blocks *blocks;
    GY_TRY(gy_blocks_open(&blocks, in->path, &nm_alloc, err));
    return nm_read_blocks(blocks, err);
}

/* As the fuzz target: the first byte chooses the format. */
static void nm_rows_config(struct gy_convert_config *config, const struct nm_input *in)
{
    static const char *const formats[] = { "svmlight", "libffm", "criteo", "csv", NULL };
    const unsigned how = in->count > 0 ? in->bytes[0] : 0;
    memset(config, 0, sizeof *config);
    config->format = formats[how % 5];
    config->hash_bits = (how >> 5 & 1) != 0 && how % 5 < 3 ? 9 : 0;
    config->label_column = how >> 6 & 1 ? 0 : -1;
    config->header = how >> 7 & 1 ? -1 : 0;
    config->lenient = 1;
    config->block_rows = 3;
}
static int nm_rows(const struct nm_input *in, struct gy_error *err)
{
    const struct gy_rows_bytes text = { "x", in->bytes + (in->count > 0), in->count - (in->count > 0) };
    struct gy_convert_config config;
    struct gy_convert_report report;
    struct gy_blocks *blocks = NULL;
    nm_rows_config(&config, in);
    GY_TRY(gy_convert_bytes(&blocks, &config, &text, &nm_alloc, &report, err));
    return nm_read_blocks(blocks, err);
}

/* The text behind the first byte, plain or wrapped in .gz without compression, from file to
 * file. */
static size_t nm_gz(unsigned char *out, const unsigned char *bytes, uint16_t count)
{
    static const unsigned char head[10] = { 0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3 };
    const uint32_t crc = gy_crc32(0, bytes, count);
    const unsigned char sizes[5] = { 1, (unsigned char)count, (unsigned char)(count >> 8), (unsigned char)~count, (unsigned char)(~count >> 8) };
    memcpy(out, head, 10);
    memcpy(out + 10, sizes, 5);
    memcpy(out + 15, bytes, count);
    for (int i = 0; i < 4; i++) {
        out[15 + count + i] = (unsigned char)(crc >> 8 * i);
        out[19 + count + i] = (unsigned char)((uint32_t)count >> 8 * i);
    }
    return 23u + count;
}
static int nm_rows_of_file(const struct nm_input *in, const char *name, struct gy_error *err)
{
    char from[600], to[600];
    struct gy_convert_config config;
    struct gy_convert_report report;
    snprintf(from, sizeof from, "%s", df_path(name));
    snprintf(to, sizeof to, "%s", df_path("rows.blocks"));
    const char *const files[1] = { from };
    nm_rows_config(&config, in);
    config.from = files;
    config.files = 1;
    config.to = to;
    return gy_convert(&config, &nm_alloc, &report, err);
}
static int nm_rows_file(const struct nm_input *in, struct gy_error *err)
{
    if (faults.kinds == 0)
        df_write("rows.txt", in->bytes + (in->count > 0), in->count - (in->count > 0));
    return nm_rows_of_file(in, "rows.txt", err);
}
static int nm_rows_gz(const struct nm_input *in, struct gy_error *err)
{
    static unsigned char packed[NM_ROOM + 64];
    const size_t count = in->count > 0 ? in->count - 1 : 0;
    if (faults.kinds == 0)
        df_write("rows.txt.gz", packed, nm_gz(packed, in->bytes + (in->count > 0), (uint16_t)(count < 65535 ? count : 65535)));
    return nm_rows_of_file(in, "rows.txt.gz", err);
}

static int nm_glm_model(const struct nm_input *in, struct gy_error *err)
{
    struct gyre_glm *model = NULL;
    const int status = gy_glm_model_parse(&model, in->bytes, in->count, "x", &nm_alloc, err);
    gyre_glm_close(model);
    return status;
}

static int nm_net(const struct nm_input *in, struct gy_error *err)
{
    struct gy_arena arena;
    struct gy_graph graph = { 0 };
    gy_arena_open_hook(&arena, &nm_alloc);
    const int status = gy_graph_parse(&graph, &arena, (const char *)in->bytes, in->count, "x", err);
    gy_arena_close(&arena);
    return status;
}

/* Read, proved, printed into memory, read again. */
static int nm_schedule(const struct nm_input *in, struct gy_error *err)
{
    struct gy_net_schedule s = { 0 }, again = { 0 };
    struct gy_net_proof proof = { 0 };
    struct gy_buf buf;
    gy_buf_open(&buf, &nm_alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    int status = gy_net_read_schedule(&s, (const char *)in->bytes, in->count, "x", &nm_alloc, err);
    if (status == GY_OK)
        status = gy_net_verify(&s, &proof, err);
    if (status == GY_OK)
        gy_net_print(&s, &proof, -1, &sink);
    if (status == GY_OK && (buf.failed || sink.failed))
        status = GY_NOMEM(err, "a schedule's text", 0);
    if (status == GY_OK)
        status = gy_net_read_schedule(&again, buf.text, buf.bytes, "again", &nm_alloc, err);
    gy_net_close_schedule(&again);
    gy_net_close_schedule(&s);
    gy_buf_close(&buf);
    return status;
}

static int nm_csv(const struct nm_input *in, struct gy_error *err)
{
    struct gy_csv *csv = NULL;
    if (faults.kinds == 0)
        df_write("metrics.csv", in->bytes, in->count);
    GY_TRY(gy_csv_open(&csv, &nm_alloc, df_path("metrics.csv"), "step,loss", 1 << 20, err));
    return gy_csv_close(csv, err);
}

/* A file or a pipe, whole; what a pipe holds grows as it comes. */
static int nm_whole(const char *path, struct gy_error *err)
{
    char *text = NULL;
    size_t bytes = 0;
    const int status = gy_file_read(&nm_alloc, path, NM_ROOM, &text, &bytes, err);
    gy_alloc_free(&nm_alloc, text, bytes + 1);
    return status;
}
static int nm_file(const struct nm_input *in, struct gy_error *err) { return nm_whole(in->path, err); }
static int nm_pipe(const struct nm_input *in, struct gy_error *err)
{
    char path[40];
    int ends[2];
    if (pipe(ends) != 0 || write(ends[1], in->bytes, in->count < 60000 ? in->count : 60000) < 0)
        return GY_E_BUG;
    close(ends[1]);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[0]);
    const int status = nm_whole(path, err);
    close(ends[0]);
    return status;
}

/* Public calls that take no hook: their memory is realloc's, which fails as well. */
static int nm_public(int status, const struct gyre_error *error, struct gy_error *err)
{
    memcpy(err, error, sizeof *err);
    return status;
}
static int nm_notes(const struct nm_input *in, struct gy_error *err)
{
    static char text[NM_ROOM];
    struct gyre_error error = { 0 };
    struct gyre_config config;
    gyre_config_default(&config);
    int status = gyre_read_net(in->path, text, sizeof text, NULL, &error);
    if (status == GYRE_OK || (status != GYRE_E_NOMEM && !faults.hit))
        status = gyre_read_note(in->path, "what", text, sizeof text, &error);
    if (status == GYRE_OK || (status != GYRE_E_NOMEM && !faults.hit))
        status = gyre_read_input(in->path, &config, &error);
    return nm_public(status, &error, err);
}
static int nm_audit(const struct nm_input *in, struct gy_error *err)
{
    static const struct gyre_sink nowhere = { NULL, NULL };
    struct gyre_error error = { 0 };
    return nm_public(gyre_print_audit(in->path, NULL, &nowhere, &error), &error, err);
}
static int nm_import(const struct nm_input *in, struct gy_error *err)
{
    static struct gyre_net *net; /* one for all inputs */
    struct gyre_config config;
    struct gyre_error error = { 0 };
    gyre_config_default(&config);
    config.net = "input 2x2x1\nlinear 2\nsoftmax\n";
    config.threads = 1;
    config.memory.hook = faults_hook;
    int status = gyre_open(&net, &config, &error);
    if (status != GYRE_OK)
        return nm_public(status, &error, err);
    status = gyre_import(net, in->path, 1, NULL);
    memcpy(err, gyre_last_error(net), sizeof *err);
    gyre_close(net);
    return status;
}

/* ---- the sweep ---- */

static const struct nm_reader {
    const char *name, *corpus; /* a folder of tests/corpus, or one that this program writes */
    int (*read)(const struct nm_input *in, struct gy_error *err);
} nm_readers[] = {
    { "images", "tests/corpus/image", nm_image },
    { "idx", "tests/corpus/idx", nm_gzip },
    { "packed", "tests/corpus/packed", nm_data },
    { "safetensors", "tests/corpus/safetensors", nm_safetensors },
    { "safetensors of files", "tests/corpus/safetensors", nm_safetensors_file },
    { "notes of checkpoints", "tests/corpus/safetensors", nm_notes },
    { "import", "tests/corpus/safetensors", nm_import },
    { "blocks", "tests/corpus/blocks", nm_blocks },
    { "blocks, a file", "tests/corpus/blocks", nm_blocks_file },
    { "rows", "tests/corpus/rows", nm_rows },
    { "rows of files", "tests/corpus/rows", nm_rows_file },
    { "rows of .gz files", "tests/corpus/rows", nm_rows_gz },
    { "linear models", "tests/corpus/glm_model", nm_glm_model },
    { "nets", "tests/corpus/net", nm_net },
    { "schedules", "tests/corpus/schedule", nm_schedule },
    { "data sets", "data", nm_data },
    { "checkpoints", "checkpoints", nm_notes },
    { "audits", "checkpoints", nm_audit },
    { "imports", "checkpoints", nm_import },
    { "blocks of a real file", "blocks", nm_blocks_file },
    { "metrics.csv", "metrics", nm_csv },
    { "whole files", "tests/corpus/net", nm_file },
    { "pipes", "tests/corpus/net", nm_pipe },
    { "a large pipe", "blocks", nm_pipe },
};

/* allocations that failed; those of them that were reported; those that were not needed */
static int64_t nm_calls, nm_refused, nm_needless;

/* One input, all its allocations. */
static void nm_sweep(const struct nm_reader *reader, const struct nm_input *in, const char *name, int mode)
{
    struct gy_error err = { 0 };
    const int usual = reader->read(in, &err), before = t_failed;
    T_CHECK_MSG(faults.bytes == 0, "%s, %s: %" PRId64 " bytes are held", reader->name, name, faults.bytes);
    for (int64_t n = 0, hit = 1; hit && t_failed == before; n++) {
        snprintf(nm_where, sizeof nm_where, "%.100s, %.120s, allocation %" PRId64, reader->name, name, n);
        alarm(NM_SECONDS);
        memset(&err, 0, sizeof err);
        faults_begin(FAULTS_MEMORY, mode, n);
        const int status = reader->read(in, &err);
        hit = faults_end();
        nm_calls += hit;
        nm_refused += hit && status == GY_E_NOMEM;
        nm_needless += hit && status == usual;
        T_CHECK_MSG(status == usual || (hit && status == GY_E_NOMEM && strstr(err.text, "memory")), "%s: status %d, '%s'; with memory %d", nm_where,
                    status, err.text, usual);
        T_CHECK_MSG(faults.bytes == 0, "%s: %" PRId64 " bytes are held", nm_where, faults.bytes);
    }
    alarm(0);
    faults.bytes = 0;
    T_CHECK_MSG(reader->read(in, &err) == usual, "%s, %s: with memory again it is another status", reader->name, name);
}

static void nm_both(const struct nm_reader *reader, const struct nm_input *in, const char *name)
{
    nm_sweep(reader, in, name, FAULTS_ONCE);
    if (nm_all)
        nm_sweep(reader, in, name, FAULTS_ON);
}

/* The input, and with --all what becomes of it by a few changes. */
static void nm_input(const struct nm_reader *reader, const char *path, const char *name)
{
    const struct gy_alloc plain = gy_alloc_default();
    char *bytes, copy[600];
    size_t count;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        const struct nm_input folder = { path, NULL, 0 };
        nm_both(reader, &folder, name);
        return;
    }
    if (!T_CHECK(gy_file_read(&plain, path, NM_ROOM * 16, &bytes, &count, NULL) == GY_OK))
        return;
    unsigned char *const exact = malloc(count + 1);
    memcpy(exact, bytes, count);
    uint64_t state = 0x9e3779b97f4a7c15u ^ count;
    snprintf(copy, sizeof copy, "%s", df_path("input"));
    for (int change = 0; change <= (nm_all && count > 0 ? NM_CHANGES : 0); change++) {
        const struct nm_input in = { change ? copy : path, exact, count };
        if (change) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            exact[(state >> 20) % count] ^= (unsigned char)(state >> 50);
            df_write("input", exact, count);
        }
        nm_both(reader, &in, name);
    }
    free(exact);
    gy_alloc_free(&plain, bytes, count + 1);
}

static void nm_corpus(const struct nm_reader *reader)
{
    char folder[600];
    snprintf(folder, sizeof folder, "%s", strchr(reader->corpus, '/') ? reader->corpus : df_path(reader->corpus));
    DIR *const dir = opendir(folder);
    int inputs = 0;
    const int64_t calls = nm_calls;
    for (const struct dirent *e; dir && (e = readdir(dir));) {
        char path[1000];
        if (e->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
        nm_input(reader, path, e->d_name);
        inputs++;
    }
    if (dir)
        closedir(dir);
    printf("%-30s %4d inputs, %6" PRId64 " allocations failed\n", reader->name, inputs, nm_calls - calls);
    T_CHECK_MSG(inputs > 0, "%s: no inputs in %s", reader->name, folder);
}

/* ---- what this program writes ---- */

static void nm_write_checkpoint(void)
{
    static const char config_note[] = "0 2 0 0 0 0 0 0 0 1 1 1 1 0 .9 0 0 0 .9 .999 1e-8 .001 0 0";
    static const unsigned char x[2 * 4];
    static const int32_t label[2] = { 0, 1 };
    struct gyre_config config;
    struct gyre_net *net = NULL;
    struct gyre_error error;
    df_folder("checkpoints");
    gyre_config_default(&config);
    config.net = "input 2x2x1\nlinear 2\nsoftmax\n";
    config.batch = 2;
    config.threads = 1;
    config.input = GYRE_INPUT_U8;
    const struct gyre_batch batch = { .x = x, .label = label, .count = 2 };
    T_CHECK_MSG(gyre_open(&net, &config, &error) == GYRE_OK, "%s", error.text);
    T_CHECK(gyre_step(net, &batch, NULL) == GYRE_OK && gyre_note(net, "what", "a note") == GYRE_OK);
    T_CHECK(gyre_save(net, df_path("checkpoints/plain.safetensors")) == GYRE_OK);
    /* as of a device that no machine has: an audit reads all and then fails */
    T_CHECK(gyre_note(net, "kernels", "toaster 3 abcdef abcdef") == GYRE_OK && gyre_note(net, "kernels.config", config_note) == GYRE_OK);
    T_CHECK(gyre_note(net, "kernels.tune", "a row\nanother\n") == GYRE_OK && gyre_save(net, df_path("checkpoints/audit.safetensors")) == GYRE_OK);
    gyre_close(net);
}

static void nm_write_data(void)
{
    static const char *const folders[] = { "data", "data/folder", "data/folder/a", "data/folder/b", "data/idx", "data/cifar" };
    static unsigned char records[3 * 3073];
    char name[80];
    for (size_t i = 0; i < GY_COUNT(folders); i++)
        df_folder(folders[i]);
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "data/folder/%c/%d.ppm", "ab"[i % 2], i);
        df_write_pnm(name, i, 4, 4, 3);
    }
    df_write_idx("data/idx/train", 5, 4, 4, 3);
    for (int i = 0; i < 3; i++)
        records[i * 3073] = (unsigned char)i;
    df_write("data/cifar/data_batch_1.bin", records, sizeof records);
    df_write("data/cifar/test_batch.bin", records, sizeof records);
}

static void nm_write_rest(void)
{
    static const char text[] = "x+1 1:1 3:2\n-1 2:1\n+1 1:2\n-1 2:.5 3:-1\n0 4:4\n", metrics[] = "step,loss\n1,2\n2,1.5\n3,1\n";
    const struct nm_input in = { NULL, (const unsigned char *)text, sizeof text - 1 };
    static const char large[50000];
    struct gy_error err = { 0 };
    df_folder("blocks");
    df_folder("metrics");
    df_write("blocks/large", large, sizeof large); /* no block file, but many reads of a pipe */
    df_write("metrics/metrics.csv", metrics, sizeof metrics - 1);
    df_write("rows.txt", text + 1, sizeof text - 2);
    T_CHECK_MSG(nm_rows_of_file(&in, "rows.txt", &err) == GY_OK, "%s", err.text);
    T_CHECK(rename(df_path("rows.blocks"), df_path("blocks/a.blocks")) == 0);
}

/* A reader that does not come to an end. */
static void nm_stop(int signal)
{
    (void)signal;
    const char *const words = "goes on for ever: ";
    if (write(1, words, strlen(words)) < 0 || write(1, nm_where, strlen(nm_where)) < 0 || write(1, "\n", 1) < 0)
        _exit(3);
    _exit(2);
}

int main(int argc, char **argv)
{
    nm_all = argc > 1 && strcmp(argv[1], "--all") == 0;
    const char *const only = argc > 1 + nm_all ? argv[1 + nm_all] : NULL;
    signal(SIGALRM, nm_stop);
    setvbuf(stdout, NULL, _IOLBF, 0);
    faults_folder(df_root, sizeof df_root);
    nm_write_checkpoint();
    nm_write_data();
    nm_write_rest();
    for (size_t i = 0; i < GY_COUNT(nm_readers); i++)
        if (!only || strcmp(only, nm_readers[i].name) == 0)
            nm_corpus(&nm_readers[i]);
    printf("%" PRId64 " allocations failed: %" PRId64 " were told, %" PRId64 " were not needed\n", nm_calls, nm_refused, nm_needless);
    df_remove(df_root);
    T_END("t_no_memory");
}
