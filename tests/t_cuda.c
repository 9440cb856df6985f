/* SPDX-License-Identifier: MIT */
/* t_cuda.c: the host's side of the CUDA backend without a GPU. It tests sentences for missing
 * libraries or devices, compiling by NVRTC where it is installed, packs, and the cache against
 * damage and many writers. */
#include "engine/base/file.h"
#include "engine/base/thread.h"
#include "kernels/cuda/compile.h"
#include "tests/device_here.h"
#include "tests/t.h"
#include <glob.h>
#include <unistd.h>

static char cud_folder[64] = "/tmp/gyre-cuda-XXXXXX";

static void cud_path(char out[4096], const char *name) { gy_file_join(out, 4096, cud_folder, name, NULL); }

/* ---- loading ---- */

static void cud_load(void)
{
    struct gy_cuda_library lib = { .runtime = NULL };
    struct gy_error err = { 0 };
    const int status = gy_cuda_load(&lib, cud_folder, NULL, NULL, &err);
    if (status == GY_OK) {
        T_CHECK(lib.driver_version >= 11080 && lib.runtime_version >= 11080 && lib.runtime_name[0]);
    } else {
        T_CHECK_MSG(status == GY_E_NODEVICE && dh_says_why(err.text), "%d %s", status, err.text);
        /* which library, or where it was looked for */
        T_CHECK_MSG(strstr(err.text, strstr(err.text, "was not found") ? cud_folder : "libcudart.so"), "%s", err.text);
        printf("%s\n", err.text);
    }
    gy_cuda_unload(&lib);
    gy_cuda_unload(&lib); /* twice is harmless */
    T_CHECK(gy_cuda_load(&lib, NULL, "/no/such/libgyre-emu.so", NULL, &err) == GY_E_NODEVICE);
    T_CHECK(strstr(err.text, "/no/such/libgyre-emu.so") && !lib.runtime);
}

/* ---- the cache ---- */

static void cud_key(unsigned char key[32], int number)
{
    for (int i = 0; i < 32; i++)
        key[i] = (unsigned char)(number * 7 + i);
}

static int cud_image(struct gy_cuda_image *image, size_t bytes, int number, const char *text)
{
    if (gy_cuda_image_make(image, bytes, text ? strlen(text) : 0, NULL) != GY_OK)
        return 0;
    for (size_t i = 0; i < bytes; i++)
        image->bytes[i] = (unsigned char)(i * 31 + (size_t)number);
    if (text)
        memcpy(image->text, text, strlen(text));
    image->nvrtc = 13000;
    return 1;
}

static int cud_same(const struct gy_cuda_image *a, const struct gy_cuda_image *b)
{
    return a->size == b->size && memcmp(a->bytes, b->bytes, a->size) == 0 && a->nvrtc == b->nvrtc &&
           strcmp(a->text ? a->text : "", b->text ? b->text : "") == 0;
}

/* Is key number 1 found? */
static int cud_is_there(const char *folder)
{
    unsigned char key[32];
    struct gy_cuda_image got = { .bytes = NULL };
    cud_key(key, 1);
    const int found = gy_cuda_cache_get(folder, key, &got);
    gy_cuda_image_free(&got);
    return found;
}

static void cud_flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    if (!f || fseek(f, at, SEEK_SET) != 0)
        return;
    const int was = fgetc(f);
    fseek(f, at, SEEK_SET);
    fputc(was ^ 4, f);
    fclose(f);
}

static void cud_cache_damage(const char *folder, const char *path, long bytes)
{
    for (long at = 0; at < bytes; at += at < 100 ? 1 : 37) {
        cud_flip(path, at);
        T_CHECK(!cud_is_there(folder)); /* in the mark, key, sizes, hash or content */
        cud_flip(path, at);
    }
    T_CHECK(cud_is_there(folder));
    T_CHECK(truncate(path, bytes - 1) == 0 && !cud_is_there(folder));
    T_CHECK(truncate(path, 50) == 0 && !cud_is_there(folder));
    T_CHECK(truncate(path, 0) == 0 && !cud_is_there(folder));
}

static void cud_cache(void)
{
    char folder[4096], path[4096], hex[65];
    unsigned char key[32], other[32];
    struct gy_cuda_image image, got = { .bytes = NULL };
    cud_path(folder, "cache/kernels");
    cud_key(key, 1);
    cud_key(other, 2);
    T_CHECK(!gy_cuda_cache_get(folder, key, &got) && !gy_cuda_cache_get("", key, &got));
    if (!T_CHECK(cud_image(&image, 1000, 1, "ptxas info: Used 3 registers\n")))
        return;
    gy_cuda_cache_put(folder, key, &image, NULL);
    T_CHECK(gy_cuda_cache_get(folder, key, &got) && cud_same(&image, &got));
    gy_cuda_image_free(&got);
    T_CHECK(!gy_cuda_cache_get(folder, other, &got));
    for (int i = 0; i < 32; i++)
        snprintf(hex + 2 * i, 3, "%02x", key[i]);
    gy_file_join(path, sizeof path, folder, hex, NULL);
    cud_cache_damage(folder, path, 96 + 1000 + 30);
    gy_cuda_cache_put(folder, key, &image, NULL); /* written over what is damaged */
    T_CHECK(cud_is_there(folder));
    gy_cuda_cache_put("/proc/no/such/folder", key, &image, NULL); /* only said in the log */
    gy_cuda_image_free(&image);
}

struct cud_writers {
    const char *folder;
    int wrong;
};

/* Every tile writes key 1 + tile % 3 and reads all three: whole, or not yet there. */
static void cud_write_tile(void *arg, int64_t tile, int thread)
{
    struct cud_writers *w = arg;
    unsigned char key[32];
    (void)thread;
    for (int k = 0; k < 3; k++) {
        struct gy_cuda_image image, got = { .bytes = NULL };
        const int number = 10 + (k + (int)tile) % 3;
        cud_key(key, number);
        if (!cud_image(&image, 20000, number, NULL))
            continue;
        if (k == 0)
            gy_cuda_cache_put(w->folder, key, &image, NULL);
        if (gy_cuda_cache_get(w->folder, key, &got) && !cud_same(&image, &got))
            __atomic_fetch_add(&w->wrong, 1, __ATOMIC_RELAXED);
        gy_cuda_image_free(&got);
        gy_cuda_image_free(&image);
    }
}

static void cud_cache_writers(void)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char folder[4096];
    struct gy_pool *pool;
    struct cud_writers w = { .folder = folder };
    cud_path(folder, "many");
    if (!T_CHECK(gy_pool_open(&pool, &alloc, 4, NULL) == GY_OK))
        return;
    gy_pool_run(pool, cud_write_tile, &w, 60);
    gy_pool_close(pool);
    T_CHECK(w.wrong == 0);
}

static void cud_cache_place(void)
{
    char out[256], small[8];
    gy_cuda_cache_folder("/somewhere", out, sizeof out);
    T_CHECK(strcmp(out, "/somewhere") == 0);
    gy_cuda_cache_folder("", out, sizeof out);
    T_CHECK(out[0] == 0);
    gy_cuda_cache_folder("off", out, sizeof out);
    T_CHECK(out[0] == 0);
    gy_cuda_cache_folder("/a/path/too/long", small, sizeof small);
    T_CHECK(small[0] == 0);
    setenv("XDG_CACHE_HOME", "/xdg", 1);
    gy_cuda_cache_folder(NULL, out, sizeof out);
    T_CHECK(strcmp(out, "/xdg/gyre/kernels") == 0);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/x", 1);
    gy_cuda_cache_folder(NULL, out, sizeof out);
    T_CHECK(strcmp(out, "/home/x/.cache/gyre/kernels") == 0);
}

/* ---- packs ---- */

static void cud_pack(void)
{
    char path[4096];
    unsigned char keys[3][32], absent[32];
    struct gy_cuda_image images[3], got = { .bytes = NULL };
    struct gy_cuda_pack pack = { .data = NULL };
    struct gy_error err = { 0 };
    cud_path(path, "kernels.pack");
    for (int i = 0; i < 3; i++) {
        cud_key(keys[i], i + 40);
        if (!T_CHECK(cud_image(&images[i], 100 + 50 * (size_t)i, i, i == 1 ? "said" : NULL)))
            return;
    }
    cud_key(absent, 99);
    T_CHECK(gy_cuda_pack_write(path, keys, images, 3, &err) == GY_OK);
    T_CHECK(gy_cuda_pack_open(&pack, path, &err) == GY_OK && pack.count == 3);
    for (int i = 0; i < 3; i++) {
        T_CHECK(gy_cuda_pack_get(&pack, keys[i], &got) && cud_same(&got, &images[i]));
        gy_cuda_image_free(&got);
    }
    T_CHECK(!gy_cuda_pack_get(&pack, absent, &got));
    gy_cuda_pack_close(&pack);
    for (long at = 8; at < 700; at += 61) {
        cud_flip(path, at);
        T_CHECK(gy_cuda_pack_open(&pack, path, &err) == GY_E_HASH && strstr(err.text, path));
        cud_flip(path, at);
    }
    cud_flip(path, 3);
    T_CHECK(gy_cuda_pack_open(&pack, path, &err) == GY_E_FORMAT);
    cud_flip(path, 3);
    T_CHECK(truncate(path, 300) == 0 && gy_cuda_pack_open(&pack, path, &err) == GY_E_HASH);
    T_CHECK(gy_cuda_pack_open(&pack, "/no/such/pack", &err) == GY_E_IO);
    for (int i = 0; i < 3; i++)
        gy_cuda_image_free(&images[i]);
}

/* ---- the compiler's words ---- */

static void cud_report(void)
{
    static const char log[] = "ptxas info    : 0 bytes gmem\n"
                              "ptxas info    : Compiling entry function 'conv_sum' for 'sm_80'\n"
                              "ptxas info    : Function properties for conv_sum\n"
                              "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                              "ptxas info    : Used 18 registers, used 0 barriers, 372 bytes cmem[0]\n"
                              "ptxas info    : Compiling entry function 'conv' for 'sm_80'\n"
                              "ptxas info    : Function properties for conv\n"
                              "    24 bytes stack frame, 40 bytes spill stores, 36 bytes spill loads\n"
                              "ptxas info    : Used 255 registers, used 1 barriers, 24 bytes cumulative stack size, 96 bytes smem\n";
    struct gy_cuda_report r;
    T_CHECK(gy_cuda_report_of(log, "conv", &r) && r.registers == 255 && r.stack == 24 && r.spill_stores == 40 && r.spill_loads == 36 &&
            r.shared == 96);
    T_CHECK(gy_cuda_report_of(log, "conv_sum", &r) && r.registers == 18 && r.stack == 0 && r.spill_stores == 0 && r.shared == 0);
    T_CHECK(!gy_cuda_report_of(log, "con", &r) && !gy_cuda_report_of(NULL, "conv", &r));
}

/* ---- compiling ---- */

static const char cud_good[] = "#include \"prelude.cuh\"\n"
                               "GY_KERNEL(twice) { GY_P(float, GY_Y)[GY_TID] = CUD_BY * GY_P(float, GY_X)[GY_TID]; }\n";
static const char cud_bad[] = "#include \"prelude.cuh\"\n\nGY_KERNEL(twice) { GY_P(float, GY_Y)[GY_TID] = no_such_name; }\n";
static const char cud_options[] = "-DGY_ARCH=80\0-DGY_THREADS=32\0-DGY_SHARED_BYTES=0\0-DGY_DTYPE=0\0-DGY_ACT=0\0-DGY_FLAGS=0\0-DCUD_BY=2";

static struct gy_cuda_unit cud_unit(const char *text)
{
    return (struct gy_cuda_unit){ .file = "twice.cu", .text = text, .options = cud_options, .option_bytes = sizeof cud_options,
                                  .option_count = 7, .arch = 80 };
}

static void cud_compile_again(struct gy_cuda_compiler *c, const struct gy_cuda_unit *first)
{
    struct gy_cuda_unit again = cud_unit(cud_good), changed = cud_unit(cud_good);
    struct gy_cuda_unit *list[] = { &again }, *list2[] = { &changed };
    char options[sizeof cud_options];
    T_CHECK(gy_cuda_compile(c, list, 1, NULL) == GY_OK && again.origin == GY_CUDA_FROM_CACHE);
    T_CHECK(again.image.size == first->image.size && memcmp(again.image.bytes, first->image.bytes, first->image.size) == 0);
    memcpy(options, cud_options, sizeof options);
    options[sizeof options - 2] = '3'; /* another macro is another kernel */
    changed.options = options;
    T_CHECK(gy_cuda_compile(c, list2, 1, NULL) == GY_OK && changed.origin == GY_CUDA_COMPILED);
    T_CHECK(memcmp(changed.source, first->source, 32) != 0);
    gy_cuda_image_free(&again.image);
    gy_cuda_image_free(&changed.image);
}

static void cud_compile_errors(struct gy_cuda_compiler *c)
{
    struct gy_cuda_unit bad = cud_unit(cud_bad), old = cud_unit(cud_good), none = cud_unit(NULL);
    struct gy_cuda_unit *list[] = { &bad }, *list2[] = { &old }, *list3[] = { &none };
    struct gy_error err = { 0 };
    T_CHECK(gy_cuda_compile(c, list, 1, &err) == GY_E_BUG);
    T_CHECK_MSG(strstr(err.text, "twice.cu(3)") && strstr(err.text, "no_such_name"), "%s", err.text);
    old.arch = 10;
    T_CHECK(gy_cuda_compile(c, list2, 1, &err) == GY_E_UNSUPPORTED);
    T_CHECK_MSG(strstr(err.text, "sm_10") && strstr(err.text, "NVRTC"), "%s", err.text);
    none.file = "no_such_file.cu";
    T_CHECK(gy_cuda_compile(c, list3, 1, &err) == GY_E_BUG && strstr(err.text, "no_such_file.cu"));
}

/* Kernels that the compiler does not build as written, with a remark alone. It ignores setmaxnreg,
 * and serializes products whose sum is touched while they are in flight. */
static void cud_compile_remarks(struct gy_cuda_compiler *c)
{
    static const char options[] = "-DGY_ARCH=90\0-DGY_THREADS=128\0-DGY_SHARED_BYTES=0\0-DGY_DTYPE=1\0-DGY_ACT=0\0-DGY_FLAGS=0";
    static const char *const texts[] = {
        "extern \"C\" __global__ void remark(float *y) { asm volatile(\"setmaxnreg.inc.sync.aligned.u32 160;\"); y[threadIdx.x] = 1; }\n",
        "extern \"C\" __global__ void __launch_bounds__(128) remark(float *y, unsigned long long p, unsigned long long q)\n{\n"
        "    float d[4] = { y[0], y[1], y[2], y[3] };\n    asm volatile(\"wgmma.fence.sync.aligned;\" ::: \"memory\");\n"
        "    for (int i = 0; i < 2; i++) {\n        asm volatile(\"{ .reg .pred t; setp.ne.b32 t, 1, 0; \"\n"
        "                     \"wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%0,%1,%2,%3}, %4, %5, t, 1, 1, 0, 0; }\"\n"
        "                     : \"+f\"(d[0]), \"+f\"(d[1]), \"+f\"(d[2]), \"+f\"(d[3]) : \"l\"(p), \"l\"(q));\n"
        "        d[1] += y[i];\n    }\n    asm volatile(\"wgmma.commit_group.sync.aligned;\" ::: \"memory\");\n"
        "    asm volatile(\"wgmma.wait_group.sync.aligned 0;\" ::: \"memory\");\n    y[threadIdx.x] = d[0] + d[1] + d[2] + d[3];\n}\n",
    };
    static const char *const said[] = { "setmaxnreg", "wgmma.mma_async instructions are serialized" };
    for (size_t i = 0; i < GY_COUNT(texts); i++) {
        struct gy_cuda_unit unit = { .file = "remark.cu", .text = texts[i], .options = options, .option_bytes = sizeof options,
                                     .option_count = 6, .arch = 90 };
        struct gy_cuda_unit *list[] = { &unit };
        struct gy_error err = { 0 };
        T_CHECK(gy_cuda_compile(c, list, 1, &err) == GY_E_BUG && !unit.image.bytes);
        T_CHECK_MSG(strstr(err.text, "remark.cu for sm_90: ") && strstr(err.text, said[i]), "%s", err.text);
        gy_cuda_image_free(&unit.image);
    }
}

/* The kernels that measure a device stand in no variant's row. */
static void cud_compile_ceiling(struct gy_cuda_compiler *c)
{
    static const char options[] = "-DGY_ARCH=80\0-DGY_THREADS=256\0-DGY_SHARED_BYTES=0\0-DGY_DTYPE=0\0-DGY_ACT=0\0-DGY_FLAGS=0\0"
                                  "-DGY_ITEMS=1000\0-DGY_TURNS=2\0-DGY_MULTIPLIES=100";
    static const char *const entries[] = { "ceiling_copy", "ceiling_read", "ceiling_multiply" };
    struct gy_cuda_unit unit = { .file = "ceiling.cu", .options = options, .option_bytes = sizeof options, .option_count = 9, .arch = 80 };
    struct gy_cuda_unit *list[] = { &unit };
    struct gy_cuda_report r;
    struct gy_error err = { 0 };
    T_CHECK_MSG(gy_cuda_compile(c, list, 1, &err) == GY_OK, "%s", err.text);
    for (size_t i = 0; i < GY_COUNT(entries); i++)
        T_CHECK(gy_cuda_report_of(unit.image.text, entries[i], &r) && r.registers > 4 && r.spill_stores == 0);
    gy_cuda_image_free(&unit.image);
}

static void cud_compile(void)
{
    struct gy_cuda_library lib = { .runtime = NULL };
    struct gy_cuda_compiler c = { .lib = &lib, .where = getenv("GYRE_CUDA_PATH"), .threads = 2 };
    struct gy_cuda_unit unit = cud_unit(cud_good), *list[] = { &unit };
    struct gy_cuda_report r;
    struct gy_error err = { 0 };
    cud_path(c.folder, "nvrtc");
    if (gy_cuda_load_compiler(&lib, c.where, NULL, &err) != GY_OK) {
        T_CHECK(strstr(err.text, "NVRTC") && strstr(err.text, "libnvrtc.so.12"));
        T_SKIP("no NVRTC");
        return;
    }
    printf("%s: NVRTC %d.%d\n", lib.nvrtc_name, lib.nvrtc_major, lib.nvrtc_minor);
    if (T_CHECK(gy_cuda_compile(&c, list, 1, &err) == GY_OK)) {
        T_CHECK(unit.origin == GY_CUDA_COMPILED && unit.image.size > 500 && memcmp(unit.image.bytes, "\177ELF", 4) == 0);
        T_CHECK(gy_cuda_report_of(unit.image.text, "twice", &r) && r.registers > 0 && r.registers < 64 && r.spill_stores == 0);
        cud_compile_again(&c, &unit);
    }
    cud_compile_errors(&c);
    cud_compile_remarks(&c);
    cud_compile_ceiling(&c);
    gy_cuda_image_free(&unit.image);
    gy_cuda_unload(&lib);
}

static void cud_clean(void)
{
    static const char *const below[] = { "/*/*/*", "/*/*", "/*", "" };
    char pattern[128];
    for (size_t i = 0; i < GY_COUNT(below); i++) {
        glob_t found;
        snprintf(pattern, sizeof pattern, "%s%s", cud_folder, below[i]);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t k = 0; k < found.gl_pathc; k++)
                remove(found.gl_pathv[k]);
        globfree(&found);
    }
}

int main(void)
{
    if (!T_CHECK(mkdtemp(cud_folder) != NULL))
        T_END("t_cuda");
    cud_load();
    cud_cache();
    cud_cache_writers();
    cud_pack();
    cud_report();
    cud_compile();
    cud_clean();
    cud_cache_place(); /* changes the environment */
    T_END("t_cuda");
}
