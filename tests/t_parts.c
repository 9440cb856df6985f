/* SPDX-License-Identifier: MIT */
/* t_parts.c: parts of a data set. Which splits a path has, in every format; one that it lacks is
 * refused, never taken from another. A share of each class that is held out is whole, disjoint, of
 * the right size, the same wherever it is computed. */
#include "io/images/data_set.h"
#include "tests/data_files.h"

static struct gy_alloc parts_alloc;
static struct gy_error parts_err;

/* ---- splits ---- */

static void parts_make_cifar(const char *name, int count)
{
    static unsigned char bytes[64 * 3073];
    memset(bytes, 7, sizeof bytes);
    for (int i = 0; i < count; i++)
        bytes[i * 3073] = (unsigned char)(i % 10);
    df_write(name, bytes, (size_t)count * 3073);
}

static void parts_pack(const char *from, const char *split, const char *to)
{
    const struct gy_pack_config config = {&parts_alloc, NULL, 0, 1, NULL, NULL};
    struct gy_data *data;
    T_CHECK_MSG(df_data(&data, df_path(from), split, 0, NULL, &parts_err) == GY_OK, "%s: %s", from, parts_err.text);
    T_CHECK_MSG(gy_data_pack(data, df_path(to), &config, &parts_err) == GY_OK, "%s", parts_err.text);
    gy_data_close(data);
}

/* NAME/CLASS/IMAGE.ppm; class number k has k + least images. */
static void parts_make_folder(const char *name, const char *const *classes, int least)
{
    char path[256];
    df_folder(name);
    for (int k = 0; classes[k]; k++) {
        snprintf(path, sizeof path, "%s/%s", name, classes[k]);
        df_folder(path);
        for (int i = 0; i < k + least; i++) {
            snprintf(path, sizeof path, "%s/%s/%02d.ppm", name, classes[k], i);
            df_write_pnm(path, i, 2, 2, 3);
        }
    }
}

static void parts_make_files(void)
{
    static const char *const two[] = {"a", "b", NULL}, *const vehicles[] = {"bus", "car", "train", NULL}, *const one[] = {"a", NULL};
    parts_make_folder("whole", two, 2);
    parts_make_folder("vehicles", vehicles, 1);
    df_folder("alone"), df_folder("both"), df_folder("flat"), df_folder("named"), df_folder("packs"), df_folder("idx"), df_folder("c10");
    parts_make_folder("alone/train", two, 2);
    df_write_pnm("alone/train/loose.ppm", 1, 2, 2, 3);
    parts_make_folder("both/train", two, 2);
    parts_make_folder("both/validation", two, 1);
    parts_make_folder("flat/train", two, 2);
    df_folder("flat/test");
    df_write_pnm("flat/test/0.ppm", 1, 2, 2, 3);
    parts_make_folder("named/fold7", one, 3);
    parts_pack("whole", "", "one.gyr");
    parts_pack("whole", "", "packs/train.gyr");
    df_write_idx("idx/train", 6, 3, 3, 2);
    df_write_idx("idx/alone", 4, 3, 3, 2);
    df_write_idx("id-train", 3, 3, 3, 2); /* a prefix */
    parts_make_cifar("c10/data_batch_1.bin", 12);
    for (int i = 2; i <= 5; i++) {
        char name[64];
        snprintf(name, sizeof name, "c10/data_batch_%d.bin", i);
        parts_make_cifar(name, 1);
    }
}

static const struct {
    const char *path, *split;
    int count;           /* samples; 0: refused */
    const char *name;    /* of the split that was opened, or a word of the refusal */
} parts_rows[] = {
    {"whole", "", 5, ""}, {"whole", "train", 5, ""}, {"whole", "test", 0, "whole has no split \"test\""},
    {"whole", "val", 0, "no split \"val\""}, {"whole/", "test", 0, "no split \"test\""}, {"whole/a", "test", 0, "no split \"test\""},
    {"alone", "", 0, "choose a split, such as \"train\""}, {"alone", "train", 5, "train"}, {"alone", "test", 0, "no split \"test\""},
    {"alone/train", "", 5, ""}, {"alone/train", "test", 0, "no split"}, {"both", "train", 5, "train"}, {"both", "test", 3, "test"},
    {"both", "validation", 3, "validation"}, {"both", "dev", 0, "no split \"dev\""}, {"flat", "train", 5, "train"},
    {"flat", "test", 0, "no split \"test\""}, {"vehicles", "", 6, ""}, {"vehicles", "train", 6, ""},
    {"vehicles", "test", 0, "no split \"test\""}, {"named", "fold7", 3, "fold7"}, {"named", "fold8", 0, "no split \"fold8\""},
    {"named", "test", 0, "no split \"test\""}, {"one.gyr", "", 5, ""}, {"one.gyr", "train", 5, ""},
    {"one.gyr", "test", 0, "one.gyr has no split \"test\""}, {"one.gyr", "val", 0, "no split"}, {"packs", "", 5, "train"},
    {"packs", "train", 5, "train"}, {"packs", "test", 0, "no split \"test\""}, {"idx", "", 6, "train"}, {"idx", "train", 6, "train"},
    {"idx", "test", 0, "no split \"test\""}, {"idx/train", "", 6, ""}, {"id", "train", 3, "train"},
    {"id", "test", 0, "id has no split \"test\""}, {"idx/train", "train", 6, ""}, {"idx/train", "test", 0, "no split \"test\""},
    {"idx/alone-images-idx3-ubyte", "", 4, ""}, {"idx/alone-images-idx3-ubyte", "train", 4, ""},
    {"idx/alone-images-idx3-ubyte", "test", 0, "no split \"test\""}, {"c10", "", 16, "train"}, {"c10", "train", 16, "train"},
    {"c10", "test", 0, "no split \"test\""}, {"c10", "val", 0, "no split \"val\""},
};

static void test_splits(void)
{
    for (size_t i = 0; i < GY_COUNT(parts_rows); i++) {
        struct gy_data *data;
        parts_err.text[0] = 0;
        const int status = df_data(&data, df_path(parts_rows[i].path), parts_rows[i].split, 0, NULL, &parts_err);
        const char *what = status == GY_OK ? gy_data_split(data) : parts_err.text;
        const int count = status == GY_OK ? (int)gy_data_count(data) : 0;
        const int named = parts_rows[i].count ? strcmp(what, parts_rows[i].name) == 0 : strstr(what, parts_rows[i].name) != NULL;
        T_CHECK_MSG((status == GY_OK || status == GY_E_FORMAT) && count == parts_rows[i].count && named, "%s, split \"%s\": status %d, %d samples, \"%s\"",
                    parts_rows[i].path, parts_rows[i].split, status, count, what);
        gy_data_close(data);
    }
}

/* ---- holding out ---- */

static int parts_open(struct gy_data **data, const char *path, double share, uint64_t seed, int held)
{
    const struct gy_data_config config = { .alloc = &parts_alloc, .path = path, .split = "train", .hold_out = share, .hold_seed = seed, .held = held };
    *data = NULL;
    parts_err.text[0] = 0;
    return gy_data_open(data, &config, &parts_err);
}

static int64_t parts_of_class(const struct gy_data *data, int32_t label)
{
    int64_t count = 0;
    for (int64_t i = 0; i < gy_data_count(data); i++)
        count += gy_data_label(data, i) == label;
    return count;
}

/* Does part hold only samples of all, in their order, with their names and labels? Marks them in
 * taken, a flag for each sample of all. A marked sample may not come again. */
static int parts_inside(const struct gy_data *all, const struct gy_data *part, unsigned char *taken)
{
    int64_t at = 0;
    for (int64_t i = 0; i < gy_data_count(all) && at < gy_data_count(part); i++) {
        char want[256], got[256];
        gy_data_sample_name(all, i, want, sizeof want);
        gy_data_sample_name(part, at, got, sizeof got);
        if (strcmp(want, got) != 0)
            continue;
        if (taken[i]++ || gy_data_label(all, i) != gy_data_label(part, at))
            return 0;
        at++;
    }
    return at == gy_data_count(part);
}

/* Every sample is in one of both parts, and each class gives its share. */
static void parts_check(const char *path, double share, uint64_t seed)
{
    struct gy_data *all, *kept, *held;
    static unsigned char taken[4096];
    const int opened = parts_open(&all, path, 0, 1, 0) == GY_OK && parts_open(&kept, path, share, seed, 0) == GY_OK &&
                       parts_open(&held, path, share, seed, 1) == GY_OK;
    T_CHECK_MSG(opened, "%s: %s", path, parts_err.text);
    if (!opened)
        return;
    memset(taken, 0, sizeof taken);
    T_CHECK_MSG(parts_inside(all, kept, taken) && parts_inside(all, held, taken), "%s: a sample twice, or in another order", path);
    T_CHECK_MSG(gy_data_count(kept) + gy_data_count(held) == gy_data_count(all) && gy_data_hold(kept).of == gy_data_count(all) &&
                gy_data_hold(held).labels == gy_data_hold(kept).labels, "%s: %d and %d of %d", path, (int)gy_data_count(kept),
                (int)gy_data_count(held), (int)gy_data_count(all));
    int64_t right = 0;
    for (int32_t c = 0; c < gy_data_classes(all); c++) {
        const int64_t n = parts_of_class(all, c), want = (int64_t)((double)n * share + 0.5);
        right += parts_of_class(held, c) == (want < n ? want : gy_max64(n - 1, 0));
    }
    T_CHECK_MSG(right == gy_data_classes(all), "%s, share %g: %d of %d classes", path, share, (int)right, (int)gy_data_classes(all));
    gy_data_close(all), gy_data_close(kept), gy_data_close(held);
}

static void test_hold_out(void)
{
    static const char *const classes[] = {"a", "b", "c", "d", NULL}, *const paths[] = {"many", "many.gyr", "more", "c10"};
    static const double shares[] = {0.1, 0.25, 0.5, 0.99};
    df_folder("many"), df_folder("more");
    parts_make_folder("many/train", classes, 9);
    parts_make_folder("many/test", classes, 2);
    parts_pack("many", "train", "many.gyr");
    df_write_idx("more/train", 211, 2, 2, 7);
    for (size_t p = 0; p < GY_COUNT(paths); p++)
        for (size_t s = 0; s < GY_COUNT(shares); s++)
            parts_check(df_path(paths[p]), shares[s], 1 + s);
}

static void parts_list(const char *path, uint64_t seed, char *text, size_t room)
{
    struct gy_data *data;
    size_t used = 0;
    text[0] = 0;
    T_CHECK_MSG(parts_open(&data, df_path(path), 0.25, seed, 1) == GY_OK, "%s", parts_err.text);
    for (int64_t i = 0; data && i < gy_data_count(data) && used < room; i++) {
        char name[256];
        used += (size_t)snprintf(text + used, room - used, "%s ", gy_data_sample_name(data, i, name, sizeof name));
    }
    gy_data_close(data);
}

/* The list is the same on every machine, so it is written here. A packed copy has the folder's
 * parts; another seed has others. */
static void test_known(void)
{
    static const char known[] = "train/a/00.ppm train/a/05.ppm train/b/05.ppm train/b/07.ppm train/b/09.ppm train/c/01.ppm train/c/04.ppm train/c/09.ppm "
                                "train/d/00.ppm train/d/03.ppm train/d/05.ppm ";
    char folder[1024], packed[1024], other[1024];
    parts_list("many", 1, folder, sizeof folder);
    parts_list("many.gyr", 1, packed, sizeof packed);
    parts_list("many", 2, other, sizeof other);
    T_CHECK_MSG(strcmp(folder, known) == 0, "%s", folder);
    T_CHECK_MSG(strcmp(packed, folder) == 0, "%s", packed);
    T_CHECK(strcmp(other, folder) != 0);
}

static void test_refused(void)
{
    static const struct {
        double share;
        int held;
        const char *word;
    } rows[] = {{-0.1, 0, "hold_out is -0.1"}, {1, 0, "hold_out is 1"}, {0.995, 1, "0.995"}, {1e-7, 0, "1e-07"}, {(double)NAN, 0, "nan"}, {0.1, 2, "held is 2"},
                {0.1, -1, "held is -1"}, {0.01, 0, "0.01 is none of 42 samples in 4 classes"}};
    for (size_t i = 0; i < GY_COUNT(rows); i++) {
        struct gy_data *data;
        const int status = parts_open(&data, df_path("many"), rows[i].share, 1, rows[i].held);
        T_CHECK_MSG(status == GY_E_ARG && strstr(parts_err.text, rows[i].word), "%g: %d, %s", rows[i].share, status, parts_err.text);
        gy_data_close(data);
    }
}

struct parts_budget {
    int left;     /* allocations that still succeed */
    int64_t live; /* bytes */
};

static void *parts_limited(void *user, void *ptr, size_t old_bytes, size_t new_bytes)
{
    struct parts_budget *budget = user;
    if (new_bytes == 0) {
        free(ptr);
        budget->live -= ptr ? (int64_t)old_bytes : 0;
        return NULL;
    }
    void *grown = budget->left-- > 0 ? realloc(ptr, new_bytes) : NULL;
    if (grown && !ptr)
        memset(grown, 0, new_bytes);
    budget->live += grown ? (int64_t)new_bytes - (ptr ? (int64_t)old_bytes : 0) : 0;
    return grown;
}

/* Every allocation of opening a part fails once: a clean error, and nothing is left. */
static void test_memory(void)
{
    int opened = 0, failed = 0;
    for (int left = 0; left < 200 && !opened; left++) {
        struct parts_budget budget = {left, 0};
        const struct gy_alloc alloc = {parts_limited, &budget};
        const struct gy_data_config config = { .alloc = &alloc, .path = df_path("many"), .split = "train", .hold_out = 0.25, .hold_seed = 1 };
        struct gy_data *data = NULL;
        const int status = gy_data_open(&data, &config, &parts_err);
        opened = status == GY_OK;
        failed += !opened;
        gy_data_close(data);
        T_CHECK_MSG((opened || status == GY_E_NOMEM) && budget.live == 0, "%d: %d, %d bytes are left", left, status, (int)budget.live);
    }
    T_CHECK_MSG(opened && failed > 5, "%d", failed);
}

/* A loader sees the part's samples alone. */
static void test_loader(void)
{
    struct gy_data *data;
    struct gy_loader *loader;
    struct gy_batch batch;
    int seen[4] = {0};
    T_CHECK_MSG(parts_open(&data, df_path("many"), 0.25, 1, 0) == GY_OK, "%s", parts_err.text);
    const struct gy_loader_config config = { .alloc = &parts_alloc, .batch = 31, .h = 2, .w = 2, .c = 3, .training = 1, .seed = 3, .threads = 1, .depth = 2 };
    T_CHECK_MSG(gy_loader_open(&loader, data, &config, &parts_err) == GY_OK, "%s", parts_err.text);
    T_CHECK(gy_loader_batches_per_epoch(loader) == 1 && gy_data_count(data) == 31);
    T_CHECK_MSG(gy_loader_next(loader, &batch, &parts_err) == GY_OK && batch.count == 31, "%s", parts_err.text);
    for (int32_t i = 0; i < batch.count; i++)
        seen[batch.labels[i]]++;
    for (int32_t c = 0; c < 4; c++)
        T_CHECK_MSG(seen[c] == parts_of_class(data, c), "class %d: %d", (int)c, seen[c]);
    gy_loader_close(loader);
    gy_data_close(data);
}

int main(void)
{
    parts_alloc = gy_alloc_default();
    df_open();
    parts_make_files();
    test_splits();
    test_hold_out(), test_known(), test_refused(), test_memory(), test_loader();
    df_remove(df_root);
    T_END("t_parts");
}
