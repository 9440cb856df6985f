/* SPDX-License-Identifier: MIT */
/* report.c: the sentence that says what a kernel did wrong: kernel, file and line, block, thread,
 * what. Lines come from the DWARF of the compiled kernel through addr2line, which runs only for a
 * fault. */
#include "tests/emu/emu.h"

#include <stdarg.h>

static char report_text[1280];

const char *emu_sentence(void) { return report_text; }
int emu_refuse(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(report_text, sizeof report_text, format, arguments);
    va_end(arguments);
    return error;
}
void emu_sentence_clear(void) { report_text[0] = 0; }

/* The innermost line of an instruction that lies in the kernel's own file; if there is none, in a
 * file that it includes. */
void emu_report_line(const struct emu_module *m, const void *pc, char *out, size_t bytes)
{
    char command[600], line[400];
    snprintf(out, bytes, "instruction %p", pc);
    snprintf(command, sizeof command, "addr2line -i -e '%s' 0x%tx 2>/dev/null", m->path, (const unsigned char *)pc - 1 - m->base);
    FILE *f = popen(command, "r");
    if (!f)
        return;
    int own = 0;
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, " \n")] = 0;
        const char *slash = strrchr(line, '/'), *name = slash ? slash + 1 : line;
        if (name[0] == '?' || own)
            continue;
        own = !strstr(name, ".cuh:");
        snprintf(out, bytes, "%s", name);
    }
    pclose(f);
}

void emu_report(const struct emu_launch *launch, const struct emu_fault *fault, const int block[3])
{
    char where[400] = "", who[40];
    if (fault->site)
        snprintf(where, sizeof where, "%s", fault->site);
    else if (fault->pc)
        emu_report_line(launch->function->module, fault->pc, where, sizeof where);
    if (fault->tid >= EMU_AGENT_BAR)
        snprintf(who, sizeof who, "a bulk copy");
    else
        snprintf(who, sizeof who, fault->tid >= EMU_AGENT_GROUP ? "warp group %d" : "thread %d", fault->tid % EMU_AGENT_GROUP);
    snprintf(report_text, sizeof report_text, "kernel %s, %s%sblock %d %d %d, %s: %s", launch->function->name, where,
             where[0] ? ", " : "", block[0], block[1], block[2], who, fault->what);
    const char *quiet = getenv("GYRE_EMU_QUIET");
    if (!quiet || strcmp(quiet, "0") == 0)
        fprintf(stderr, "gyre emulator: %s\n", report_text);
}
