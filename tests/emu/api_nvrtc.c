/* SPDX-License-Identifier: MIT */
/* api_nvrtc.c: NVRTC. A program's files are written to a folder of their own, with the emulator's
 * prelude in place of CUDA's. The host's C compiler (GYRE_EMU_CC, CC or cc) makes a shared object
 * of them. Its messages are the log, its output is the 'cubin'. Any number of threads may compile
 * at once. GYRE_EMU_CFLAGS ("-O0") are added. GYRE_EMU_KEEP=FOLDER keeps the sources there. */
#include "tests/emu/emu.h"

#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NVRTC_OK, NVRTC_NO_MEMORY = 1, NVRTC_INVALID_INPUT = 3, NVRTC_INVALID_PROGRAM = 4, NVRTC_COMPILATION = 6, NVRTC_INTERNAL = 11 };

struct nvrtc_file {
    char *name, *text;
};
struct nvrtc_program {
    struct nvrtc_file *file; /* the source, then the headers */
    int files;
    char *log, *binary;
    size_t log_bytes, binary_bytes;
};

/* The files of this folder with which kernels are compiled, as of the build of the emulator. */
extern const char emu_prelude_begin[], emu_prelude_end[], emu_words_begin[], emu_words_end[],
    emu_hopper_begin[], emu_hopper_end[];
#define NVRTC_EMBED(name, path)                                                                                        \
    __asm__(".section .rodata\n.globl " name "_begin\n.hidden " name "_begin\n.globl " name "_end\n.hidden " name "_end\n"       \
            name "_begin:\n.incbin \"" path "\"\n" name "_end:\n.byte 0\n.previous\n")
NVRTC_EMBED("emu_prelude", "tests/emu/prelude.cuh");
NVRTC_EMBED("emu_words", "tests/emu/words.h");
NVRTC_EMBED("emu_hopper", "tests/emu/hopper.cuh");

EMU_API int nvrtcVersion(int *major, int *minor);
EMU_API int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *header_sources,
                               const char *const *header_names);
EMU_API int nvrtcDestroyProgram(void **program);
EMU_API int nvrtcCompileProgram(void *program, int options, const char *const *option);
EMU_API int nvrtcGetProgramLogSize(void *program, size_t *bytes);
EMU_API int nvrtcGetProgramLog(void *program, char *log);
EMU_API int nvrtcGetCUBINSize(void *program, size_t *bytes);
EMU_API int nvrtcGetCUBIN(void *program, char *cubin);
EMU_API int nvrtcGetPTXSize(void *program, size_t *bytes);
EMU_API int nvrtcGetPTX(void *program, char *ptx);
EMU_API const char *nvrtcGetErrorString(int error);

int nvrtcVersion(int *major, int *minor) { return *major = 12, *minor = 9, NVRTC_OK; }

/* ---- programs ---- */

static int nvrtc_file_set(struct nvrtc_file *f, const char *name, const char *text)
{
    f->name = strdup(name);
    f->text = strdup(text);
    return f->name && f->text ? 0 : -1;
}

int nvrtcDestroyProgram(void **program)
{
    struct nvrtc_program *p = *program;
    if (!p)
        return NVRTC_INVALID_PROGRAM;
    for (int i = 0; i < p->files; i++) {
        free(p->file[i].name);
        free(p->file[i].text);
    }
    free(p->file);
    free(p->log);
    free(p->binary);
    free(p);
    *program = NULL;
    return NVRTC_OK;
}

int nvrtcCreateProgram(void **program, const char *source, const char *name, int headers, const char *const *header_sources,
                       const char *const *header_names)
{
    struct nvrtc_program *p = calloc(1, sizeof *p);
    if (!p)
        return NVRTC_NO_MEMORY;
    p->file = calloc((size_t)headers + 1, sizeof *p->file);
    p->files = p->file ? headers + 1 : 0;
    int bad = !p->file || nvrtc_file_set(&p->file[0], name ? name : "default_program", source);
    for (int i = 0; !bad && i < headers; i++)
        bad = nvrtc_file_set(&p->file[i + 1], header_names[i], header_sources[i]);
    void *made = p;
    if (bad)
        return nvrtcDestroyProgram(&made), NVRTC_NO_MEMORY;
    *program = p;
    return NVRTC_OK;
}

/* ---- compiling ---- */

static char *nvrtc_read(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    const long size = ftell(f);
    rewind(f);
    char *data = size < 0 ? NULL : malloc((size_t)size + 1);
    if (data && fread(data, 1, (size_t)size, f) != (size_t)size) {
        free(data);
        data = NULL;
    }
    fclose(f);
    if (data)
        data[size] = 0;
    *bytes = data ? (size_t)size : 0;
    return data;
}

static int nvrtc_put(const char *folder, const char *name, const char *text, size_t bytes)
{
    char path[512];
    const char *slash = strrchr(name, '/');
    snprintf(path, sizeof path, "%s/%s", folder, slash ? slash + 1 : name);
    return emu_write_file(path, text, bytes);
}

/* Writes what is compiled; the emulator's own prelude last, over CUDA's. */
static int nvrtc_write_files(const struct nvrtc_program *p, const char *folder)
{
    for (int i = 0; i < p->files; i++)
        if (nvrtc_put(folder, p->file[i].name, p->file[i].text, strlen(p->file[i].text)) != 0)
            return -1;
    return nvrtc_put(folder, "prelude.cuh", emu_prelude_begin, (size_t)(emu_prelude_end - emu_prelude_begin)) |
           nvrtc_put(folder, "hopper.cuh", emu_hopper_begin, (size_t)(emu_hopper_end - emu_hopper_begin)) |
           nvrtc_put(folder, "words.h", emu_words_begin, (size_t)(emu_words_end - emu_words_begin));
}

static const char *nvrtc_compiler(void)
{
    const char *cc = getenv("GYRE_EMU_CC");
    if (!cc || !cc[0])
        cc = getenv("CC");
    return cc && cc[0] ? cc : "cc";
}

/* Runs the compiler in the folder; its words go to 'log' there. Returns its exit status. */
static int nvrtc_run(const char *folder, const char *source, const char *const *option, int options)
{
    extern char **environ;
    static const char script[] =
        "folder=$1 cc=$2 source=$3\nshift 3\ncd \"$folder\" &&\n"
        "exec $cc -std=gnu99 -O1 -g -gdwarf-4 -fPIC -shared -nodefaultlibs -fsanitize=thread -fno-strict-aliasing "
        "-ffp-contract=off -fstack-clash-protection -fno-var-tracking -fvisibility=default -fdebug-prefix-map=\"$folder\"=. "
        "-Wall -Wno-unused-function -Wno-unknown-pragmas -Wno-unused-variable -Wno-unused-but-set-variable -Wno-psabi "
        "-Wno-unknown-warning-option -Wno-builtin-declaration-mismatch -Werror=implicit-function-declaration "
        "\"$@\" ${GYRE_EMU_CFLAGS:-} -I . -o out.so -x c \"$source\" >log 2>&1";
    const char **argv = calloc((size_t)options + 16, sizeof *argv);
    if (!argv)
        return -1;
    int n = 0;
    argv[n++] = "sh";
    argv[n++] = "-c";
    argv[n++] = script;
    argv[n++] = "sh";
    argv[n++] = folder;
    argv[n++] = nvrtc_compiler();
    argv[n++] = source;
    if (emu_tsan())
        argv[n++] = "-DGY_EMU_TSAN";
#if defined(__x86_64__)
    if (__builtin_cpu_supports("fma"))
        argv[n++] = "-mfma";
#endif
    for (int i = 0; i < options; i++)
        if (strncmp(option[i], "-D", 2) == 0) {
            argv[n++] = option[i];
            if (option[i][2] == 0 && i + 1 < options)
                argv[n++] = option[++i];
        }
    pid_t pid;
    int status = -1;
    char *const *arguments;
    memcpy(&arguments, &argv, sizeof arguments);
    if (posix_spawnp(&pid, "sh", NULL, NULL, arguments, environ) == 0)
        waitpid(pid, &status, 0);
    free(argv);
    return status;
}

static void nvrtc_remove(const struct nvrtc_program *p, const char *folder)
{
    static const char *const more[] = {"prelude.cuh", "hopper.cuh", "words.h", "log", "out.so"};
    char path[512];
    for (int i = 0; i < p->files + 5; i++) {
        const char *name = i < p->files ? p->file[i].name : more[i - p->files], *slash = strrchr(name, '/');
        snprintf(path, sizeof path, "%s/%s", folder, slash ? slash + 1 : name);
        unlink(path);
    }
    rmdir(folder);
}

int nvrtcCompileProgram(void *program, int options, const char *const *option)
{
    struct nvrtc_program *p = program;
    static unsigned long count;
    char folder[256], path[300];
    emu_lock();
    const unsigned long number = count++;
    emu_unlock();
    const char *keep = getenv("GYRE_EMU_KEEP"), *top = keep && keep[0] ? keep : emu_folder();
    snprintf(folder, sizeof folder, "%s/%ld-%lu", top, (long)getpid(), number);
    if (!top[0] || mkdir(folder, 0700) != 0)
        return NVRTC_INTERNAL;
    int status = -1;
    const char *slash = strrchr(p->file[0].name, '/');
    if (nvrtc_write_files(p, folder) == 0)
        status = nvrtc_run(folder, slash ? slash + 1 : p->file[0].name, option, options);
    free(p->log);
    free(p->binary);
    snprintf(path, sizeof path, "%s/log", folder);
    p->log = nvrtc_read(path, &p->log_bytes);
    snprintf(path, sizeof path, "%s/out.so", folder);
    p->binary = status == 0 ? nvrtc_read(path, &p->binary_bytes) : NULL;
    if (!keep || !keep[0])
        nvrtc_remove(p, folder);
    return p->binary ? NVRTC_OK : NVRTC_COMPILATION;
}

/* ---- results ---- */

static const char nvrtc_ptx[] = "// emulated: kernels are compiled by the host's C compiler, there is no PTX\n";

int nvrtcGetProgramLogSize(void *program, size_t *bytes)
{
    const struct nvrtc_program *p = program;
    return *bytes = p->log ? p->log_bytes + 1 : 1, NVRTC_OK;
}

int nvrtcGetProgramLog(void *program, char *log)
{
    const struct nvrtc_program *p = program;
    memcpy(log, p->log ? p->log : "", p->log ? p->log_bytes + 1 : 1);
    return NVRTC_OK;
}

int nvrtcGetCUBINSize(void *program, size_t *bytes)
{
    const struct nvrtc_program *p = program;
    return *bytes = p->binary_bytes, p->binary ? NVRTC_OK : NVRTC_INVALID_PROGRAM;
}

int nvrtcGetCUBIN(void *program, char *cubin)
{
    const struct nvrtc_program *p = program;
    if (!p->binary)
        return NVRTC_INVALID_PROGRAM;
    memcpy(cubin, p->binary, p->binary_bytes);
    return NVRTC_OK;
}

int nvrtcGetPTXSize(void *program, size_t *bytes) { return (void)program, *bytes = sizeof nvrtc_ptx, NVRTC_OK; }
int nvrtcGetPTX(void *program, char *ptx) { return (void)program, memcpy(ptx, nvrtc_ptx, sizeof nvrtc_ptx), NVRTC_OK; }

const char *nvrtcGetErrorString(int error)
{
    static const char *const text[] = {"NVRTC_SUCCESS", "NVRTC_ERROR_OUT_OF_MEMORY", "NVRTC_ERROR_PROGRAM_CREATION_FAILURE",
                                       "NVRTC_ERROR_INVALID_INPUT", "NVRTC_ERROR_INVALID_PROGRAM", "NVRTC_ERROR_INVALID_OPTION",
                                       "NVRTC_ERROR_COMPILATION"};
    return error >= 0 && error < 7 ? text[error] : "NVRTC_ERROR_INTERNAL_ERROR";
}
