/* SPDX-License-Identifier: MIT */
/* op_cover.h: records which CUDA kernels were executed, in four lists. The first has every row of
 * the variant tables on every class of architectures with every type that it serves. The second has
 * every way in which a row cuts its work: which kernels it launches, which tile and vector sizes it
 * asks for. The others have every kernel in a source, and every word of the dialect for several
 * threads. For each entry of the first two a case of the op table is chosen that executes it, at
 * random except for its size. */
#ifndef GY_OP_COVER_H
#define GY_OP_COVER_H
#include "kernels/cuda/cuda_state.h"
#include "kernels/cuda/variants_conv.h"
#include "kernels/cuda/variants_ops.h"
#include "tests/op_half.h"

#include <dlfcn.h>

#define COVER_ROWS 512
#define COVER_CLASSES 6
#define COVER_WAYS 4096
#define COVER_KERNELS 256
/* multiplications: a larger case scores lowest, one below a hundredth of this scores less */
#define COVER_WORK 3000000

/* Compute capabilities that the emulator acts as; it can be any. The other cases of a row run on
 * the first of these that the row supports. 120 is newer than every row. */
static const int cover_archs[COVER_CLASSES] = { 80, 90, 75, 70, 60, 120 };

struct cover_pick {
    int which;    /* case, or -1 */
    double score; /* the larger the better */
};

struct cover_cell { /* a row on a class with a type */
    int fits, ran, wrong;
    struct cover_pick pick;
};

struct cover_way {
    uint64_t hash;
    int row, ran, class; /* the class on which its case is */
    struct cover_pick pick;
    char text[200];
};

struct cover_kernel {
    char file[32], name[48];
    int ran;
};

struct cover {
    struct cover_cell cell[COVER_ROWS][COVER_CLASSES][GY_DTYPES];
    int home[COVER_ROWS]; /* 1 + the class on which the row was met first */
    int registers[COVER_ROWS], spilled[COVER_ROWS];
    struct cover_way way[COVER_WAYS];
    int ways, slot[2 * COVER_WAYS]; /* by hash: 1 + the way */
    struct cover_kernel kernel[COVER_KERNELS];
    int kernels;
    uint64_t seed;
};
static struct cover cover;

/* ---- rows ---- */

static const struct gy_cuda_row *cover_row_at(int index)
{
    int i = 0;
    for (int k = 0; gy_cuda_row_at(k); k++, i++)
        if (i == index)
            return gy_cuda_row_at(k);
    for (int k = 0; gy_cuda_conv_row_at(k); k++, i++)
        if (i == index)
            return gy_cuda_conv_row_at(k);
    return NULL;
}

static int cover_row_index(const struct gy_cuda_row *row)
{
    for (int i = 0; cover_row_at(i); i++)
        if (cover_row_at(i) == row)
            return i < COVER_ROWS ? i : COVER_ROWS - 1;
    return COVER_ROWS - 1;
}

static int cover_row_fits(const struct gy_cuda_row *row, const struct gy_op *op, const struct gy_cuda_device *d)
{
    return row->code == op->code && row->arch <= d->arch && (row->dtypes >> op->dtype & 1) && (!row->fits || row->fits(op, d));
}

/* The case's op as prepare sees it, without memory. spans: room for the case's. */
static struct gy_op cover_op(const struct op_case *c, struct gy_span spans[8])
{
    const uint64_t used = (gy_op_row(c->code)->reads | gy_op_row(c->code)->writes) & ~c->without;
    struct gy_op op = gy_op_make(c->code, "case", &c->geom);
    op.dtype = c->dtype;
    op.act = c->act;
    op.act_param = OP_ACT_PARAM;
    op.flags = c->flags;
    op.span_count = c->spans;
    op.spans = c->spans ? spans : NULL;
    for (int i = 0; i < c->spans; i++)
        spans[i] = (struct gy_span){ .first = (int64_t)i * op_span_room(c),
                                     .count = i + 1 == c->spans ? op_span_room(c) + 37 : op_span_room(c) - i };
    memcpy(op.f, c->f, sizeof op.f);
    for (int role = 0; role < GY_ROLES; role++)
        if (used >> role & 1)
            op.tensor[role] = role;
    return op;
}

/* ---- ways ---- */

static void cover_add_text(char *text, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
static void cover_add_text(char *text, size_t room, const char *format, ...)
{
    const size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, room - used, format, arguments);
    va_end(arguments);
}

/* What tells one compiled program from another: its kernels, and the macros that select pieces of
 * code. */
static void cover_way_text(const struct gy_cuda_cut *cut, char *text, size_t room)
{
    static const char *const macros[] = { "GY_VEC", "GY_PER", "GY_TILED", "GY_LINES", "GY_STAGES", "GY_BM", "GY_BN", "GY_BLOCKS" };
    text[0] = 0;
    for (int i = 0; i < cut->launches; i++)
        cover_add_text(text, room, "%s ", cut->launch[i].entry);
    for (int i = 0; i < cut->defines; i++)
        for (size_t k = 0; k < GY_COUNT(macros); k++)
            if (strcmp(cut->define[i].name, macros[k]) == 0)
                cover_add_text(text, room, "%s=%d ", macros[k] + 3, (int)cut->define[i].value);
}

static struct cover_way *cover_way_of(int row, const struct gy_cuda_cut *cut)
{
    char text[200];
    uint64_t hash = 14695981039346656037u + (uint64_t)row;
    cover_way_text(cut, text, sizeof text);
    for (const char *p = text; *p; p++)
        hash = (hash ^ (unsigned char)*p) * 1099511628211u;
    size_t at = (size_t)(hash % GY_COUNT(cover.slot));
    for (; cover.slot[at]; at = (at + 1) % GY_COUNT(cover.slot))
        if (cover.way[cover.slot[at] - 1].hash == hash)
            return &cover.way[cover.slot[at] - 1];
    /* the last entry serves all ways that find no room; the test reports it */
    if (cover.ways + 1 < COVER_WAYS)
        cover.slot[at] = ++cover.ways;
    struct cover_way *way = &cover.way[cover.ways - 1];
    *way = (struct cover_way){ .hash = hash, .row = row, .class = -1, .pick = { -1, -1 } };
    snprintf(way->text, sizeof way->text, "%s", text);
    return way;
}

/* ---- kernels ---- */

/* Every GY_KERNEL(name) that begins a line of a source. */
static void cover_list_kernels(void)
{
    for (int i = 0; gy_cuda_source_name(i); i++) {
        const char *file = gy_cuda_source_name(i), *at = gy_cuda_source(file);
        while ((at = strstr(at, "\nGY_KERNEL("))) {
            struct cover_kernel *k = &cover.kernel[cover.kernels];
            at += strlen("\nGY_KERNEL(");
            snprintf(k->file, sizeof k->file, "%s", file);
            snprintf(k->name, sizeof k->name, "%.*s", (int)strcspn(at, ")"), at);
            int known = 0;
            for (int j = 0; j < cover.kernels; j++)
                known |= strcmp(cover.kernel[j].name, k->name) == 0 && strcmp(cover.kernel[j].file, file) == 0;
            cover.kernels += !known && cover.kernels + 1 < COVER_KERNELS;
        }
    }
}

static void cover_kernel_ran(const char *name)
{
    for (int i = 0; i < cover.kernels; i++)
        if (strcmp(cover.kernel[i].name, name) == 0)
            cover.kernel[i].ran++;
}

/* ---- choosing ---- */

static double cover_case_work(const struct op_case *c)
{
    const struct gy_op op = gy_op_make(c->code, "", &c->geom);
    const double sums = (double)gy_op_flops(&op) / 2, in = (double)op_count(c, GY_X);
    return sums > in ? sums : in;
}

/* Whole numbers: how welcome the size is; fraction: luck. */
static double cover_score(const struct op_case *c, int which, int row)
{
    const double work = cover_case_work(c), luck = 0.4 * (op_bell(cover.seed + (uint64_t)row, 0, which) + 3.5) / 7;
    if (work > COVER_WORK)
        return 0.5 - work / (work + 1e7) * 0.4;
    return luck + (work >= COVER_WORK / 100.0 ? 2 : 1) + (c->values == OP_NORMAL ? 0.5 : 0);
}

static void cover_prefer(struct cover_pick *pick, int which, double score)
{
    if (pick->which < 0 || score > pick->score)
        *pick = (struct cover_pick){ which, score };
}

/* Looks at all cases on the device, which stands for the class. */
static void cover_choose(const struct op_cases *cases, const struct gy_cuda_device *d, int class)
{
    struct gy_span spans[8];
    for (int row = 0; cover_row_at(row) && row < COVER_ROWS; row++)
        for (int dtype = 0; dtype < GY_DTYPES; dtype++)
            cover.cell[row][class][dtype].pick.which = -1;
    for (int i = 0; i < cases->count; i++) {
        const struct gy_op op = cover_op(&cases->list[i], spans);
        for (int row = 0; cover_row_at(row) && row < COVER_ROWS; row++) {
            struct gy_cuda_cut cut;
            if (!cover_row_fits(cover_row_at(row), &op, d))
                continue;
            memset(&cut, 0, sizeof cut);
            cover_row_at(row)->cut(&op, d, &cut);
            struct cover_way *way = cover_way_of(row, &cut);
            const double score = cover_score(&cases->list[i], i, row);
            cover.cell[row][class][op.dtype].fits++;
            cover_prefer(&cover.cell[row][class][op.dtype].pick, i, score);
            if (way->class < 0)
                way->class = class;
            if (way->class == class)
                cover_prefer(&way->pick, i, score);
            if (!cover.home[row])
                cover.home[row] = class + 1;
        }
    }
}

/* Is case number `which` the chosen one for this row, class and type, or for its way to cut? every
 * 0: only the best of the row's types counts. */
static int cover_is_chosen(int which, int row, const struct gy_op *op, const struct gy_cuda_device *d, int class, int every)
{
    struct gy_cuda_cut cut;
    int better = 0;
    for (int dtype = 0; dtype < GY_DTYPES; dtype++)
        better |= cover.cell[row][class][dtype].pick.which >= 0 &&
                  cover.cell[row][class][dtype].pick.score > cover.cell[row][class][op->dtype].pick.score;
    if (cover.cell[row][class][op->dtype].pick.which == which && (every || !better))
        return 1;
    if (!every)
        return 0;
    memset(&cut, 0, sizeof cut);
    cover_row_at(row)->cut(op, d, &cut);
    const struct cover_way *way = cover_way_of(row, &cut);
    return way->class == class && way->pick.which == which;
}

/* A case has been executed with this plan. */
static void cover_note(const struct gy_op *op, const struct gy_cuda_plan *plan, int class, int wrong)
{
    const int row = cover_row_index(plan->row);
    cover.cell[row][class][op->dtype].ran++;
    cover.cell[row][class][op->dtype].wrong += wrong > 0;
    cover_way_of(row, &plan->cut)->ran++;
    for (int i = 0; i < plan->cut.launches; i++)
        cover_kernel_ran(plan->cut.launch[i].entry);
}

/* ---- the lists in the end ---- */

static const char *const cover_types[GY_DTYPES] = { "f32", "bf16", "f16" };

/* Prints a line for a row: where it ran, and how often. Returns how many cells the row serves; *ran
 * gets how many of them ran. */
static int cover_print_row(int row, int classes, const int *archs, int *ran)
{
    int served = 0, wrong = 0;
    char text[400] = "";
    for (int class = 0; class < classes; class++) {
        int here = 0;
        for (int dtype = 0; dtype < GY_DTYPES; dtype++) {
            const struct cover_cell *cell = &cover.cell[row][class][dtype];
            if (!cell->fits)
                continue;
            if (!here++)
                cover_add_text(text, sizeof text, "  sm_%d", archs[class]);
            cover_add_text(text, sizeof text, " %s %d", cover_types[dtype], cell->ran);
            served++;
            *ran += cell->ran > 0;
            wrong += cell->wrong;
        }
    }
    const struct gy_cuda_row *r = cover_row_at(row);
    printf("%-16s %-14s%s%s", gy_op_row(r->code)->name, r->name, served ? text : "  fits no case", wrong ? "" : "\n");
    if (wrong)
        printf("  %d WRONG\n", wrong);
    return served;
}

/* Every type that the row is for must have had a case wherever any type had one. */
static void cover_check_row(int row, int classes, const int *archs)
{
    const struct gy_cuda_row *r = cover_row_at(row);
    T_CHECK_MSG(cover.home[row] > 0, "row %s of %s fits no case on any architecture", r->name, gy_op_row(r->code)->name);
    for (int class = 0; class < classes; class++) {
        int here = 0;
        for (int dtype = 0; dtype < GY_DTYPES; dtype++)
            here += cover.cell[row][class][dtype].fits;
        for (int dtype = 0; dtype < GY_DTYPES && here; dtype++)
            if (r->dtypes >> dtype & 1)
                T_CHECK_MSG(cover.cell[row][class][dtype].ran > 0, "row %s of %s never ran on sm_%d with %s", r->name,
                            gy_op_row(r->code)->name, archs[class], cover_types[dtype]);
    }
}

static void cover_check_ways(void)
{
    int ran = 0;
    for (int i = 0; i < cover.ways; i++) {
        const struct cover_way *way = &cover.way[i];
        const struct gy_cuda_row *r = cover_row_at(way->row);
        ran += way->ran > 0;
        T_CHECK_MSG(way->ran > 0, "row %s of %s never ran as %s", r->name, gy_op_row(r->code)->name, way->text);
    }
    T_CHECK(cover.ways + 1 < COVER_WAYS);
    printf("%d of %d ways to cut ran\n", ran, cover.ways);
}

/* every: each kernel; else only each file. */
static void cover_check_kernels(int every)
{
    int ran = 0;
    for (int i = 0; i < cover.kernels; i++) {
        int in_file = 0;
        for (int j = 0; j < cover.kernels; j++)
            in_file += strcmp(cover.kernel[i].file, cover.kernel[j].file) == 0 ? cover.kernel[j].ran : 0;
        ran += cover.kernel[i].ran > 0;
        T_CHECK_MSG(every ? cover.kernel[i].ran > 0 : in_file > 0, "kernel %s of %s never ran", cover.kernel[i].name,
                    cover.kernel[i].file);
    }
    printf("%d of %d kernels ran\n", ran, cover.kernels);
}

/* Lists how often the emulator executed each instruction that involves several threads.
 * Instructions of the matrix units must have run. */
static void cover_check_words(void *library)
{
    const char *(*word)(int, unsigned long long *) = NULL;
    void *const symbol = dlsym(library, "gyre_emu_word");
    unsigned long long times = 0;
    memcpy(&word, &symbol, sizeof symbol);
    if (!T_CHECK(word != NULL))
        return;
    for (int i = 0; word(i, &times); i++) {
        const char *const name = word(i, &times);
        printf("%-28s %llu times\n", name, times);
        if (strstr(name, "mma") || strstr(name, "copy"))
            T_CHECK_MSG(times > 0, "%s was never executed", name);
    }
}

#endif
