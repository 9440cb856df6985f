/* SPDX-License-Identifier: MIT */
/* api_driver.c: the driver's functions, reached through cudaGetDriverEntryPoint. The image of a
 * module is a shared object of the host. It is written to a file in this process's folder and
 * opened with dlopen. */
#include "tests/emu/order.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>

EMU_API int cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, int *status);
EMU_API int cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags,
                                             int *status);

/* ---- this process's folder ---- */

static char driver_folder[128];

static struct emu_module *driver_modules; /* loaded ones */

static void driver_forget_folder(void)
{
    for (const struct emu_module *m = driver_modules; m; m = m->next)
        unlink(m->path);
    if (driver_folder[0])
        rmdir(driver_folder);
}

const char *emu_folder(void)
{
    emu_lock();
    if (!driver_folder[0]) {
        const char *top = getenv("TMPDIR");
        snprintf(driver_folder, sizeof driver_folder, "%s/gyre-emu-XXXXXX", top && strlen(top) < 80 ? top : "/tmp");
        if (!mkdtemp(driver_folder))
            driver_folder[0] = 0;
        else
            atexit(driver_forget_folder);
    }
    emu_unlock();
    return driver_folder;
}

int emu_write_file(const char *path, const void *data, size_t bytes)
{
    FILE *f = fopen(path, "wb");
    if (!f)
        return -1;
    const int bad = fwrite(data, 1, bytes, f) != bytes;
    return fclose(f) != 0 || bad ? -1 : 0;
}

/* ---- modules ---- */

/* Bytes of an ELF file in memory: its section headers come last, or its last section. 0: no ELF
 * file of this machine. */
static size_t driver_image_bytes(const void *image)
{
    const ElfW(Ehdr) *head = image;
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) != 0 || head->e_type != ET_DYN || head->e_ident[EI_CLASS] != ELFCLASS64)
        return 0;
    size_t end = head->e_shoff + (size_t)head->e_shnum * head->e_shentsize;
    for (int i = 0; i < head->e_shnum; i++) {
        const ElfW(Shdr) *s = (const void *)((const char *)image + head->e_shoff + (size_t)i * head->e_shentsize);
        if (s->sh_type != SHT_NOBITS && s->sh_offset + s->sh_size > end)
            end = s->sh_offset + s->sh_size;
    }
    return end;
}

/* dl_iterate_phdr: finds the object at m->base and notes where it ends. */
static int driver_extent(struct dl_phdr_info *info, size_t bytes, void *user)
{
    (void)bytes;
    struct emu_module *m = user;
    if ((const unsigned char *)info->dlpi_addr != m->base)
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const unsigned char *end = m->base + info->dlpi_phdr[i].p_vaddr + info->dlpi_phdr[i].p_memsz;
        if (info->dlpi_phdr[i].p_type == PT_LOAD && end > m->limit)
            m->limit = end;
    }
    return 1;
}

static int cu_module_unload(void *module)
{
    struct emu_module *m = module;
    emu_lock();
    for (struct emu_module **p = &driver_modules; *p; p = &(*p)->next)
        if (*p == m) {
            *p = m->next;
            break;
        }
    emu_unlock();
    dlclose(m->handle);
    unlink(m->path);
    for (struct emu_function *f = m->functions, *next; f; f = next) {
        next = f->next;
        free(f);
    }
    free(m);
    return EMU_OK;
}

static int cu_module_load(void **module, const void *image, unsigned options, int *names, void **values)
{
    (void)options, (void)names, (void)values;
    static unsigned long count;
    const size_t bytes = driver_image_bytes(image);
    const char *folder = emu_folder();
    if (bytes == 0 || !folder[0])
        return EMU_BAD_IMAGE;
    struct emu_module *m = calloc(1, sizeof *m);
    if (!m)
        return EMU_NO_MEMORY;
    emu_lock();
    snprintf(m->path, sizeof m->path, "%s/module%lu.so", folder, count++);
    emu_unlock();
    if (emu_write_file(m->path, image, bytes) == 0)
        m->handle = dlopen(m->path, RTLD_NOW | RTLD_LOCAL);
    void (*open)(struct gy_emu_words *) = NULL;
    void *symbol = m->handle ? dlsym(m->handle, "gy_emu_open") : NULL;
    Dl_info info;
    if (!symbol || !dladdr(symbol, &info)) {
        const char *why = dlerror();
        fprintf(stderr, "gyre emulator: a module cannot be opened: %s\n", why ? why : "it has no gy_emu_open");
        if (m->handle)
            dlclose(m->handle);
        unlink(m->path);
        free(m);
        return EMU_BAD_IMAGE;
    }
    m->base = m->limit = info.dli_fbase;
    dl_iterate_phdr(driver_extent, m);
    memcpy(&open, &symbol, sizeof open);
    open(emu_words());
    emu_lock();
    m->next = driver_modules;
    driver_modules = m;
    emu_unlock();
    *module = m;
    return EMU_OK;
}

/* Functions live as long as their module. */
static int cu_module_function(void **function, void *module, const char *name)
{
    struct emu_module *m = module;
    void *symbol = dlsym(m->handle, name);
    if (!symbol)
        return EMU_NOT_FOUND;
    struct emu_function *f = calloc(1, sizeof *f);
    if (!f)
        return EMU_NO_MEMORY;
    f->module = m;
    memcpy(&f->entry, &symbol, sizeof symbol);
    snprintf(f->name, sizeof f->name, "%s", name);
    f->shared_most = 48 * 1024;
    emu_lock();
    f->next = m->functions;
    m->functions = f;
    emu_unlock();
    *function = f;
    return EMU_OK;
}

/* ---- functions ---- */

static int driver_attribute(int attribute, int device)
{
    EMU_API int cudaDeviceGetAttribute(int *value, int a, int d);
    int value = 0;
    cudaDeviceGetAttribute(&value, attribute, device);
    return value;
}

/* CUfunction_attribute: 0 most threads, 1 shared, 3 local, 4 registers, 5 PTX, 6 binary version, 8
 * most dynamic shared memory. */
static int cu_function_get(int *value, int attribute, void *function)
{
    const struct emu_function *f = function;
    const int table[] = {1024, 0, 0, 0, 32, emu_arch(), emu_arch(), 0, f->shared_most};
    if (attribute < 0 || attribute > 8)
        return EMU_INVALID_VALUE;
    *value = table[attribute];
    return EMU_OK;
}

static int cu_function_set(void *function, int attribute, int value)
{
    struct emu_function *f = function;
    if (attribute == 8) {
        if (value < 0 || value > driver_attribute(97, 0))
            return EMU_INVALID_VALUE;
        f->shared_most = value;
    }
    return EMU_OK;
}

static int cu_launch_kernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                            unsigned shared, void *stream, void **parameters, void **extra)
{
    struct emu_function *f = function;
    if (!f || !parameters || extra)
        return emu_refuse(EMU_INVALID_VALUE, "a launch without a function or its parameter");
    if ( by != 1 || bz != 1 || bx == 0 || bx > EMU_THREADS_MOST || gx == 0 || gy == 0 || gz == 0 ||
        gx > 2147483647u || gy > 65535 || gz > 65535 || shared > (unsigned)f->shared_most)
        return emu_refuse(EMU_INVALID_VALUE, "kernel %s: a grid of %u x %u x %u blocks of %u x %u x %u threads with %u bytes of %d", f->name,
                          gx, gy, gz, bx, by, bz, shared, f->shared_most);
    struct emu_launch launch = { .function = f, .grid = {(int)gx, (int)gy, (int)gz}, .threads = (int)bx, .shared = shared };
    memcpy(&launch.args, parameters[0], sizeof launch.args);
    emu_lock();
    int error = emu_failed();
    if (!error && !emu_capture(stream, &launch, NULL, &error)) {
        emu_order_issue(emu_stream_of(stream), 1);
        error = emu_launch(&launch);
        if (error)
            emu_set_failed(error);
    }
    emu_unlock();
    return error;
}

static int cu_occupancy(int *blocks, void *function, int threads, size_t shared)
{
    (void)function;
    const int by_threads = 2048 / (threads > 0 ? threads : 1), by_shared = shared ? (int)((size_t)driver_attribute(81, 0) / shared) : 32;
    *blocks = by_threads < by_shared ? by_threads : by_shared;
    return EMU_OK;
}

static int cu_device_name(char *name, int bytes, int device)
{
    (void)device;
    snprintf(name, (size_t)bytes, "emulated sm_%d", emu_arch());
    return EMU_OK;
}

static int cu_error_text(int error, const char **text)
{
    EMU_API const char *cudaGetErrorString(int e);
    *text = cudaGetErrorString(error);
    return EMU_OK;
}

/* ---- by name ---- */

struct driver_entry {
    const char *name;
    void (*function)(void);
};
#define DRIVER_ENTRY(name, function) {name, (void (*)(void))(function)}
static const struct driver_entry driver_entries[] = {
    DRIVER_ENTRY("cuModuleLoadDataEx", cu_module_load),
    DRIVER_ENTRY("cuModuleUnload", cu_module_unload),
    DRIVER_ENTRY("cuModuleGetFunction", cu_module_function),
    DRIVER_ENTRY("cuFuncGetAttribute", cu_function_get),
    DRIVER_ENTRY("cuFuncSetAttribute", cu_function_set),
    DRIVER_ENTRY("cuLaunchKernel", cu_launch_kernel),
    DRIVER_ENTRY("cuOccupancyMaxActiveBlocksPerMultiprocessor", cu_occupancy),
    DRIVER_ENTRY("cuDeviceGetName", cu_device_name),
    DRIVER_ENTRY("cuGetErrorString", cu_error_text),
    DRIVER_ENTRY("cuTensorMapEncodeTiled", emu_map_tiled),
    DRIVER_ENTRY("cuTensorMapEncodeIm2col", emu_map_im2col),
};

int cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, int *status)
{
    (void)flags;
    *function = NULL;
    for (size_t i = 0; i < sizeof driver_entries / sizeof *driver_entries; i++)
        if (strcmp(driver_entries[i].name, symbol) == 0)
            memcpy(function, &driver_entries[i].function, sizeof *function);
    if (status)
        *status = *function ? 0 : 1; /* cudaDriverEntryPointSymbolNotFound */
    return EMU_OK;
}

int cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags, int *status)
{
    (void)version;
    return cudaGetDriverEntryPoint(symbol, function, flags, status);
}
