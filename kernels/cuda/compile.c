/* SPDX-License-Identifier: MIT */
/* compile.c: runs the compiler in threads that do nothing else; the calling thread allocates, logs
 * and writes files. Options are the same for every kernel: exact arithmetic, fused multiply-add, no
 * debug lines. The architecture is the real one (sm_80; for 90 sm_90a), so that the result is
 * machine code and the driver has nothing left to compile. */
#include "kernels/cuda/compile.h"
#ifndef GY_NO_CUDA
#include "engine/base/clock.h"
#include "engine/base/hash.h"
#include "engine/base/thread.h"

#define COMPILE_OPTIONS 128
static const char *const compile_fixed[] = { "--std=c++17", "--fmad=true", "--ptxas-options=-v" };

/* Remarks which mean that a kernel is not what was written: products of warp groups are serialised
 * or waited for at other places, or register shares are ignored. Their numbers (C7504 to C7520)
 * have grown with the compiler; these words are in all of them. */
static const char *const compile_refused[] = { "Potential Performance Loss", "instructions are serialized", "'setmaxnreg' ignored",
                                               "warpgroup.wait is injected" };

/* ---- keys ---- */

static void compile_hash_text(struct gy_sha256 *sha, const char *text) { gy_sha256_add(sha, text, strlen(text) + 1); }

static int compile_is_header(const char *name)
{
    const size_t bytes = strlen(name);
    return bytes < 3 || strcmp(name + bytes - 3, ".cu") != 0;
}

static const char *compile_text(const struct gy_cuda_unit *unit) { return unit->text ? unit->text : gy_cuda_source(unit->file); }

GY_INT void gy_cuda_unit_hash(struct gy_cuda_unit *unit, const struct gy_cuda_compiler *compiler)
{
    struct gy_sha256 sha;
    const char *const text = compile_text(unit);
    gy_sha256_open(&sha);
    compile_hash_text(&sha, text ? text : "");
    for (int i = 0; gy_cuda_source_name(i); i++)
        if (compile_is_header(gy_cuda_source_name(i))) {
            compile_hash_text(&sha, gy_cuda_source_name(i));
            compile_hash_text(&sha, gy_cuda_source(gy_cuda_source_name(i)));
        }
    for (size_t i = 0; i < GY_COUNT(compile_fixed); i++)
        compile_hash_text(&sha, compile_fixed[i]);
    gy_sha256_add(&sha, unit->options, unit->option_bytes);
    gy_sha256_add(&sha, &unit->arch, sizeof unit->arch);
    gy_sha256_add(&sha, compiler->emulator, sizeof compiler->emulator);
    gy_sha256_close(&sha, unit->source);
}

static void compile_key(struct gy_cuda_unit *unit, const struct gy_cuda_library *lib)
{
    const int version[2] = { lib->nvrtc_major, lib->nvrtc_minor };
    struct gy_sha256 sha;
    gy_sha256_open(&sha);
    gy_sha256_add(&sha, unit->source, sizeof unit->source);
    gy_sha256_add(&sha, version, sizeof version);
    gy_sha256_close(&sha, unit->key);
}

/* ---- one unit ---- */

/* A unit on its way through the compiler. */
struct compile_task {
    struct gy_cuda_unit *unit;
    gy_nvrtc_program program;
    gy_cuda_error status;
};

static gy_cuda_error compile_create(const struct gy_cuda_api *api, const struct gy_cuda_unit *unit, gy_nvrtc_program *program)
{
    const char *names[32], *texts[32];
    int count = 0;
    for (int i = 0; gy_cuda_source_name(i) && count < (int)GY_COUNT(names); i++)
        if (compile_is_header(gy_cuda_source_name(i))) {
            names[count] = gy_cuda_source_name(i);
            texts[count++] = gy_cuda_source(gy_cuda_source_name(i));
        }
    return api->nv_create(program, compile_text(unit), unit->file, count, texts, names);
}

static void compile_one(const struct gy_cuda_compiler *compiler, struct compile_task *task)
{
    const struct gy_cuda_api *api = &compiler->lib->api;
    const char *options[COMPILE_OPTIONS], *at = task->unit->options;
    char arch[48];
    int count = 0;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d%s", compiler->ptx ? "compute" : "sm", task->unit->arch,
             task->unit->arch == 90 ? "a" : "");
    options[count++] = arch;
    for (size_t i = 0; i < GY_COUNT(compile_fixed) - (compiler->ptx ? 1 : 0); i++)
        options[count++] = compile_fixed[i];
    for (int i = 0; i < task->unit->option_count; i++, at += strlen(at) + 1)
        options[count++] = at;
    task->status = compile_create(api, task->unit, &task->program);
    if (task->status == 0)
        task->status = api->nv_compile(task->program, count, options);
}

/* The program's log as text to free with gy_alloc_default; NULL when there is none. */
static char *compile_log(const struct gy_cuda_api *api, const struct compile_task *task)
{
    const struct gy_alloc alloc = gy_alloc_default();
    size_t bytes = 0;
    char *text = NULL;
    if (task->program && api->nv_log_size(task->program, &bytes) == 0 && bytes > 1)
        text = gy_alloc_take(&alloc, bytes + 1, 1);
    if (text && api->nv_log(task->program, text) != 0)
        text[0] = 0;
    return text;
}

/* The line of the log that says what is wrong: the first with the word, else the first. */
static const char *compile_line(const char *log, const char *word, int *length)
{
    const char *at = log ? strstr(log, word) : NULL;
    if (!at)
        at = log ? log : "";
    while (at > log && at[-1] != '\n')
        at--;
    *length = (int)gy_min64((int64_t)strcspn(at, "\n"), 300);
    return at;
}

static int compile_failed(const struct gy_cuda_library *lib, const struct compile_task *task, const char *log, struct gy_error *err)
{
    int length;
    const char *const line = compile_line(log, "error", &length);
    if (task->status == 5) /* NVRTC_ERROR_INVALID_OPTION */
        return GY_FAIL(err, GY_E_UNSUPPORTED, "NVRTC %d.%d (%s) does not compile for sm_%d: %.*s", lib->nvrtc_major, lib->nvrtc_minor,
                       lib->nvrtc_name, task->unit->arch, length, line);
    return GY_FAIL(err, GY_E_BUG, "kernel %s does not compile for sm_%d: %.*s", task->unit->file, task->unit->arch, length,
                   length ? line : lib->api.nv_error_text(task->status));
}

static int compile_check_remarks(const struct gy_cuda_unit *unit, const char *log, struct gy_error *err)
{
    for (size_t i = 0; log && i < GY_COUNT(compile_refused); i++)
        if (strstr(log, compile_refused[i])) {
            int length;
            const char *const line = compile_line(log, compile_refused[i], &length);
            return GY_FAIL(err, GY_E_BUG, "kernel %s for sm_%d: %.*s", unit->file, unit->arch, length, line);
        }
    return GY_OK;
}

static int compile_take(const struct gy_cuda_compiler *compiler, struct compile_task *task, const char *log, struct gy_error *err)
{
    const struct gy_cuda_api *api = &compiler->lib->api;
    struct gy_cuda_image *image = &task->unit->image;
    size_t size = 0;
    if (task->status != 0)
        return compile_failed(compiler->lib, task, log, err);
    GY_TRY(compile_check_remarks(task->unit, log, err));
    int status = compiler->ptx ? api->nv_ptx_size(task->program, &size) : api->nv_cubin_size(task->program, &size);
    if (status == 0)
        GY_TRY(gy_cuda_image_make(image, size, log ? strlen(log) : 0, err));
    if (status == 0)
        status = compiler->ptx ? api->nv_ptx(task->program, (char *)image->bytes) : api->nv_cubin(task->program, (char *)image->bytes);
    if (status != 0)
        return GY_FAIL(err, GY_E_BUG, "kernel %s: NVRTC gives no code: %s", task->unit->file, api->nv_error_text(status));
    if (image->text)
        memcpy(image->text, log, strlen(log));
    image->nvrtc = compiler->lib->nvrtc_major * 1000 + compiler->lib->nvrtc_minor * 10;
    task->unit->origin = GY_CUDA_COMPILED;
    return GY_OK;
}

/* ---- many ---- */

struct compile_job {
    const struct gy_cuda_compiler *compiler;
    struct compile_task *tasks;
    int count;
    int64_t began, said; /* clock */
    int64_t done;        /* as the calling thread sees it; accessed with __atomic */
};

static void compile_say(struct compile_job *job, int64_t done)
{
    const int64_t now = gy_clock_ns();
    if (now - job->said < 2000000000)
        return;
    job->said = now;
    gy_log_write(job->compiler->log, GY_LOG_INFO, "compiling kernels: %" PRId64 " of %d after %.0f s", done, job->count,
                 (double)(now - job->began) * 1e-9);
}

static void compile_tile(void *arg, int64_t tile, int thread)
{
    struct compile_job *job = arg;
    compile_one(job->compiler, &job->tasks[tile]);
    const int64_t done = __atomic_add_fetch(&job->done, 1, __ATOMIC_RELAXED);
    if (thread == 0) /* the calling thread */
        compile_say(job, done);
}

static int compile_finish(struct gy_cuda_compiler *compiler, struct compile_job *job, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const struct gy_cuda_api *api = &compiler->lib->api;
    int status = GY_OK;
    for (int i = 0; i < job->count; i++) {
        struct compile_task *task = &job->tasks[i];
        char *const log = compile_log(api, task);
        if (status == GY_OK) {
            status = compile_take(compiler, task, log, err);
            if (status == GY_OK && !compiler->ptx)
                gy_cuda_cache_put(compiler->folder, task->unit->key, &task->unit->image, compiler->log);
        }
        gy_alloc_free(&alloc, log, 0);
        if (task->program)
            api->nv_destroy(&task->program);
    }
    return status;
}

static int compile_all(struct gy_cuda_compiler *compiler, struct compile_job *job, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_pool *pool;
    const int most = compiler->threads ? compiler->threads : gy_thread_count_available();
    GY_TRY(gy_pool_open(&pool, &alloc, (int)gy_min64(most, job->count), err));
    job->began = job->said = gy_clock_ns();
    gy_pool_run(pool, compile_tile, job, job->count);
    gy_pool_close(pool);
    const int status = compile_finish(compiler, job, err);
    if (status == GY_OK)
        gy_log_write(compiler->log, GY_LOG_INFO, "compiled %d kernels in %.1f s", job->count,
                     (double)(gy_clock_ns() - job->began) * 1e-9);
    return status;
}

/* Units that neither pack nor cache has. */
static int compile_missing(struct gy_cuda_compiler *compiler, struct gy_cuda_unit *const *units, int count, int missing,
                           struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct compile_job job = { .compiler = compiler };
    job.tasks = gy_alloc_take(&alloc, (size_t)missing, sizeof *job.tasks);
    if (!job.tasks)
        return GY_NOMEM(err, "the list of kernels", (size_t)missing * sizeof *job.tasks);
    for (int i = 0; i < count; i++)
        if (units[i]->origin == GY_CUDA_MISSING)
            job.tasks[job.count++].unit = units[i];
    const int status = compile_all(compiler, &job, err);
    gy_alloc_free(&alloc, job.tasks, (size_t)missing * sizeof *job.tasks);
    return status;
}

static int compile_look_up(struct gy_cuda_compiler *compiler, struct gy_cuda_unit *unit, struct gy_error *err)
{
    if (!compile_text(unit))
        return GY_FAIL(err, GY_E_BUG, "there is no kernel file '%s'", unit->file);
    if (unit->option_count > COMPILE_OPTIONS - 1 - (int)GY_COUNT(compile_fixed))
        return GY_FAIL(err, GY_E_BUG, "kernel %s has %d macros; there is room for %d", unit->file, unit->option_count,
                       COMPILE_OPTIONS - 1 - (int)GY_COUNT(compile_fixed));
    gy_cuda_unit_hash(unit, compiler);
    if (!compiler->ptx && gy_cuda_pack_get(&compiler->pack, unit->source, &unit->image))
        unit->origin = GY_CUDA_FROM_PACK;
    return GY_OK;
}

/* Opens NVRTC. It names a pack that lacks kernels, for example of another architecture: once, or in
 * the sentence if there is no compiler. */
static int compile_open(struct gy_cuda_compiler *compiler, int missing, int arch, struct gy_error *err)
{
    struct gy_error why = { 0 };
    char lacks[96] = "";
    const int status = gy_cuda_load_compiler(compiler->lib, compiler->where, compiler->log, &why);
    if (compiler->pack.count)
        snprintf(lacks, sizeof lacks, "the pack of %d kernels lacks %d that sm_%d needs", compiler->pack.count, missing, arch);
    if (status != GY_OK)
        return GY_FAIL(err, status, "%s%s%s", lacks, lacks[0] ? ", and " : "", why.text);
    if (lacks[0] && !compiler->lacked)
        gy_log_write(compiler->log, GY_LOG_WARN, "%s; they are compiled", lacks);
    compiler->lacked = 1;
    return GY_OK;
}

GY_INT int gy_cuda_compile(struct gy_cuda_compiler *compiler, struct gy_cuda_unit *const *units, int count, struct gy_error *err)
{
    int missing = 0;
    for (int i = 0; i < count; i++)
        if (units[i]->origin == GY_CUDA_MISSING) {
            GY_TRY(compile_look_up(compiler, units[i], err));
            missing += units[i]->origin == GY_CUDA_MISSING;
        }
    if (missing == 0)
        return GY_OK;
    GY_TRY(compile_open(compiler, missing, units[0]->arch, err));
    for (int i = 0; i < count; i++) {
        if (units[i]->origin != GY_CUDA_MISSING)
            continue;
        compile_key(units[i], compiler->lib);
        if (!compiler->ptx && gy_cuda_cache_get(compiler->folder, units[i]->key, &units[i]->image)) {
            units[i]->origin = GY_CUDA_FROM_CACHE;
            missing--;
        }
    }
    return missing ? compile_missing(compiler, units, count, missing, err) : GY_OK;
}

/* ---- what the compiler said ---- */

static int compile_number_before(const char *line, const char *end, const char *what)
{
    const char *at = line;
    while ((at = strstr(at, what)) && at < end) {
        const char *digit = at;
        while (digit > line && digit[-1] >= '0' && digit[-1] <= '9')
            digit--;
        if (digit < at)
            return (int)strtol(digit, NULL, 10);
        at++;
    }
    return 0;
}

GY_INT int gy_cuda_report_of(const char *log, const char *entry, struct gy_cuda_report *out)
{
    char head[160];
    snprintf(head, sizeof head, "entry function '%s'", entry);
    const char *const at = log ? strstr(log, head) : NULL;
    if (!at)
        return 0;
    const char *const next = strstr(at + 1, "entry function"), *const end = next ? next : at + strlen(at);
    *out = (struct gy_cuda_report){ .registers = compile_number_before(at, end, " registers"),
                                    .stack = compile_number_before(at, end, " bytes stack frame"),
                                    .spill_stores = compile_number_before(at, end, " bytes spill stores"),
                                    .spill_loads = compile_number_before(at, end, " bytes spill loads"),
                                    .shared = compile_number_before(at, end, " bytes smem") };
    return 1;
}

#endif
