/* SPDX-License-Identifier: MIT */
/* try_text.c: parses the lines of a user's kernel. A line is words; the first names a row of a
 * table, the others go to its function. */
#include "tools/lab/try_text.h"
#include "engine/base/text.h"
#include "kernels/op_table.h"
#ifndef GY_NO_CUDA

#define TRY_MARK "// gyre:"
#define TRY_WORDS 40
#define TRY_MOST ((int64_t)1 << 40) /* largest number that may come up */

struct try_line {
    struct gy_try *t;
    char *word[TRY_WORDS + 1];
    int count, at;
    struct gy_error *err;
};

static int try_wrong(const struct try_line *l, const char *what, const char *found)
{
    return GY_FAIL(l->err, GY_E_FORMAT, "%.200s:%d: %.160s%s%.60s%s", l->t->path, l->t->line, what, found ? ", not '" : "",
                   found ? found : "", found ? "'" : "");
}

static const char *try_next(struct try_line *l) { return l->at < l->count ? l->word[l->at++] : NULL; }

/* ---- numbers that are computed ---- */

struct try_number {
    const char *at;
    const struct gy_geom *g;
    int64_t bytes;
    int bad;
};

static int64_t try_sum(struct try_number *n);

static int64_t try_held(struct try_number *n, double exact, int64_t value)
{
    n->bad |= !(fabs(exact) <= (double)TRY_MOST);
    return n->bad ? 0 : value;
}

static int64_t try_take(struct try_number *n, char c)
{
    n->bad |= *n->at != c;
    n->at += *n->at == c;
    return 0;
}

static int64_t try_divide(struct try_number *n, int64_t a, int64_t b, int what)
{
    n->bad |= b <= 0;
    if (n->bad)
        return 0;
    return what == '/' ? a / b : what == '%' ? a % b : try_held(n, (double)a + (double)b, (a + b - 1) / b);
}

/* "(a,b)" behind up, min or max */
static int64_t try_pair(struct try_number *n, char what)
{
    try_take(n, '(');
    const int64_t a = try_sum(n);
    try_take(n, ',');
    const int64_t b = try_sum(n);
    try_take(n, ')');
    return what == 'u' ? try_divide(n, a, b, 'u') : what == 'i' ? gy_min64(a, b) : gy_max64(a, b);
}

static int64_t try_name(struct try_number *n)
{
    const struct gy_geom *g = n->g;
    const struct { const char *name; int64_t value; } names[] = {
        { "N", g->n }, { "H", g->h }, { "W", g->w }, { "C", g->c }, { "P", g->p }, { "Q", g->q }, { "K", g->k },
        { "R", g->r }, { "S", g->s }, { "GROUPS", g->groups }, { "BYTES", n->bytes },
    };
    const size_t bytes = strspn(n->at, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    for (size_t i = 0; i < GY_COUNT(names); i++)
        if (strlen(names[i].name) == bytes && memcmp(names[i].name, n->at, bytes) == 0) {
            n->at += bytes;
            return names[i].value;
        }
    n->bad = 1;
    return 0;
}

static int64_t try_digits(struct try_number *n)
{
    int64_t value = 0;
    for (; *n->at >= '0' && *n->at <= '9'; n->at++)
        value = try_held(n, 10.0 * (double)value, value * 10 + (*n->at - '0'));
    return value;
}

static int64_t try_factor(struct try_number *n)
{
    static const char *const pairs[] = { "up", "min", "max" };
    for (size_t i = 0; i < GY_COUNT(pairs); i++)
        if (strncmp(n->at, pairs[i], strlen(pairs[i])) == 0) {
            n->at += strlen(pairs[i]);
            return try_pair(n, "uix"[i]);
        }
    if (*n->at == '(') {
        n->at++;
        const int64_t value = try_sum(n);
        return value + try_take(n, ')');
    }
    return *n->at >= '0' && *n->at <= '9' ? try_digits(n) : try_name(n);
}

static int64_t try_product(struct try_number *n)
{
    int64_t value = try_factor(n);
    while (!n->bad && (*n->at == '*' || *n->at == '/' || *n->at == '%')) {
        const char what = *n->at++;
        const int64_t other = try_factor(n);
        value = what == '*' ? try_held(n, (double)value * (double)other, n->bad ? 0 : value * other) : try_divide(n, value, other, what);
    }
    return value;
}

static int64_t try_sum(struct try_number *n)
{
    int64_t value = try_product(n);
    while (!n->bad && (*n->at == '+' || *n->at == '-')) {
        const int sign = *n->at++ == '+' ? 1 : -1;
        const int64_t other = try_product(n);
        value = try_held(n, (double)value + sign * (double)other, value + sign * other);
    }
    return value;
}

/* 0, or -1 when text is no such number in lo .. hi. */
static int try_compute(const char *text, const struct gy_geom *g, int dtype, int64_t lo, int64_t hi, int64_t *out)
{
    struct try_number n = { .at = text, .g = g, .bytes = (int64_t)gy_dtype_bytes(dtype) };
    if (strlen(text) > 200) /* brackets in brackets: the stack */
        return -1;
    const int64_t value = try_sum(&n);
    if (n.bad || *n.at || value < lo || value > hi)
        return -1;
    *out = value;
    return 0;
}

/* ---- what there is ---- */

enum try_kind { TRY_NO, TRY_FLAT, TRY_WINDOW, TRY_CONV };

#define TRY_R(role) (1ull << (role))
#define TRY_RES (TRY_R(GY_RES) | TRY_R(GY_RES_SCALE) | TRY_R(GY_RES_SHIFT))
/* Ops that may be tried, and their optional roles. */
static const struct { uint8_t kind; uint64_t optional; } try_ops[GY_OP_CODES] = {
    [GY_OP_CONV] = { TRY_CONV, TRY_R(GY_BIAS) | TRY_R(GY_SCALE) | TRY_R(GY_SHIFT) | TRY_R(GY_RES) | TRY_R(GY_STATS) },
    [GY_OP_CONV_DGRAD] = { TRY_CONV, 0 },
    [GY_OP_CONV_WGRAD] = { TRY_CONV, TRY_R(GY_DBIAS) },
    [GY_OP_BN_STATS] = { TRY_FLAT, 0 },
    [GY_OP_BN_FINISH] = { TRY_FLAT, 0 },
    [GY_OP_BN_FOLD] = { TRY_FLAT, TRY_R(GY_BIAS) },
    [GY_OP_BN_APPLY] = { TRY_FLAT, TRY_RES },
    [GY_OP_BN_SUMS] = { TRY_FLAT, TRY_R(GY_Y) | TRY_R(GY_SCALE) | TRY_R(GY_SHIFT) | TRY_RES | TRY_R(GY_DRES) | TRY_R(GY_AGAIN) },
    [GY_OP_BN_BWD] = { TRY_FLAT, TRY_R(GY_Y) | TRY_R(GY_SCALE) | TRY_R(GY_SHIFT) | TRY_R(GY_RES) | TRY_R(GY_DRES) },
    [GY_OP_ACT] = { TRY_FLAT, 0 },
    [GY_OP_ACT_BWD] = { TRY_FLAT, 0 },
    [GY_OP_ADD] = { TRY_FLAT, 0 },
    [GY_OP_ADD_BWD] = { TRY_FLAT, TRY_R(GY_Y) | TRY_R(GY_DRES) },
    [GY_OP_DROPOUT] = { TRY_FLAT, 0 },
    [GY_OP_POOL_MAX] = { TRY_WINDOW, TRY_R(GY_ARG) },
    [GY_OP_POOL_AVG] = { TRY_WINDOW, 0 },
    [GY_OP_POOL_MAX_BWD] = { TRY_WINDOW, 0 },
    [GY_OP_POOL_AVG_BWD] = { TRY_WINDOW, 0 },
    [GY_OP_SOFTMAX_CE] = { TRY_FLAT, TRY_R(GY_MIX) },
    [GY_OP_SOFTMAX_CE_BWD] = { TRY_FLAT, TRY_R(GY_MIX) },
};

GY_INT uint64_t gy_try_roles(const struct gy_try *t)
{
    const struct gy_op_row *row = gy_op_row(t->code);
    return (row->reads | row->writes) & (~try_ops[t->code].optional | t->with);
}

/* ---- the lines ---- */

static int try_read_op(struct try_line *l)
{
    const char *const name = try_next(l);
    const char *names[GY_OP_CODES];
    size_t count = 0;
    for (int code = 0; name && code < GY_OP_CODES; code++) {
        if (try_ops[code].kind == TRY_NO)
            continue;
        names[count++] = gy_op_row(code)->name;
        l->t->code = strcmp(name, gy_op_row(code)->name) == 0 ? code : l->t->code;
    }
    if (l->t->code >= 0)
        return GY_OK;
    const char *const near = name ? gy_text_nearest(name, names, count) : NULL;
    return GY_FAIL(l->err, GY_E_FORMAT, "%.200s:%d: no op '%.40s' can be tried; did you mean %s?", l->t->path, l->t->line,
                   name ? name : "", near ? near : "conv, conv-dgrad, conv-wgrad, bn-apply, act or add");
}

static int try_read_dtype(struct try_line *l)
{
    static const char *const names[] = { "f32", "bf16", "f16" }; /* ORDER: enum gy_dtype */
    for (const char *word = try_next(l); word; word = try_next(l)) {
        int dtype = 0, twice = 0;
        while (dtype < 3 && strcmp(word, names[dtype]) != 0)
            dtype++;
        for (int i = 0; i < l->t->dtypes; i++)
            twice |= l->t->dtype[i] == dtype;
        if (dtype == 3 || twice)
            return try_wrong(l, "a dtype is f32, bf16 or f16, each at most once", word);
        l->t->dtype[l->t->dtypes++] = dtype;
    }
    return GY_OK;
}

static int try_read_act(struct try_line *l)
{
    const char *const word = try_next(l);
    for (int act = 1; word && act < GY_ACTS; act++)
        if (strcmp(word, gy_act_row(act)->name) == 0) {
            l->t->act = act;
            return GY_OK;
        }
    char names[128] = "an activation is";
    for (int act = 1; act < GY_ACTS; act++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s %s", act == 1 ? "" : act + 1 < GY_ACTS ? "," : " or",
                 gy_act_row(act)->name);
    }
    return try_wrong(l, names, word);
}

static int try_read_with(struct try_line *l)
{
    for (const char *word = try_next(l); word; word = try_next(l)) {
        int role = 0;
        while (role < GY_ROLES && strcmp(word, gy_role_name(role)) != 0)
            role++;
        if (l->t->code < 0)
            return try_wrong(l, "the line with op comes first", NULL);
        if (role == GY_ROLES || role == GY_MIX || !(try_ops[l->t->code].optional >> role & 1))
            return try_wrong(l, "with names a tensor that the op may have, in small letters", word);
        l->t->with |= TRY_R(role);
    }
    return GY_OK;
}

static int try_read_flags(struct try_line *l)
{
    for (const char *word = try_next(l); word; word = try_next(l)) {
        const int accumulate = strcmp(word, "accumulate") == 0, dx = strcmp(word, "add-dx") == 0, dres = strcmp(word, "add-dres") == 0;
        if (!accumulate && !dx && !dres)
            return try_wrong(l, "a flag is add-dx, add-dres or accumulate", word);
        l->t->accumulate |= accumulate;
        l->t->flags |= dx ? GY_F_ADD_DX : dres ? GY_F_ADD_DRES : 0;
    }
    return GY_OK;
}

static int try_read_f(struct try_line *l)
{
    double value;
    for (int i = 0; i < 8 && l->at < l->count; i++) {
        const char *const word = try_next(l);
        if (gy_text_real(word, -1e30, 1e30, &value) != 0)
            return try_wrong(l, "f has numbers", word);
        l->t->f[i] = (float)value;
    }
    return GY_OK;
}

/* "2x7x5x24": count whole numbers; 0 or -1 */
static int try_times(const char *text, int count, int64_t out[4])
{
    struct gy_geom none = { .n = 1 };
    char one[24];
    for (int i = 0; i < count; i++) {
        const size_t bytes = strcspn(text, "x");
        if (bytes == 0 || bytes >= sizeof one || (text[bytes] == 'x') != (i + 1 < count))
            return -1;
        memcpy(one, text, bytes);
        one[bytes] = 0;
        if (try_compute(one, &none, GY_F32, 1, 1 << 24, &out[i]) != 0)
            return -1;
        text += bytes + 1;
    }
    return 0;
}

static int try_read_option(struct try_line *l, const char *name, struct gy_geom *g)
{
    const char *const value = try_next(l);
    struct { const char *name; int64_t lo; int32_t *to[2]; } rows[] = {
        { "k", 1, { &g->k, NULL } },          { "stride", 1, { &g->stride_h, &g->stride_w } }, { "pad", 0, { &g->pad_h, &g->pad_w } },
        { "dil", 1, { &g->dil_h, &g->dil_w } }, { "groups", 1, { &g->groups, NULL } },
    };
    int64_t number, pair[4];
    if (value && strcmp(name, "filter") == 0 && try_times(value, 2, pair) == 0) {
        g->r = (int32_t)pair[0];
        g->s = (int32_t)pair[1];
        return GY_OK;
    }
    for (size_t i = 0; value && i < GY_COUNT(rows); i++)
        if (strcmp(name, rows[i].name) == 0 && gy_text_int(value, rows[i].lo, 1 << 24, &number) == 0) {
            *rows[i].to[0] = (int32_t)number;
            if (rows[i].to[1])
                *rows[i].to[1] = (int32_t)number;
            return GY_OK;
        }
    return try_wrong(l, "behind the input's shape come k, filter RxS, stride, pad, dil or groups, each with a number", name);
}

/* The output's size; 0 where there is none. */
static int32_t try_out(int32_t in, int32_t pad, int32_t dil, int32_t filter, int32_t stride)
{
    const int64_t room = (int64_t)in + 2 * (int64_t)pad - ((int64_t)filter - 1) * dil - 1;
    return room < 0 ? 0 : (int32_t)(room / stride + 1);
}

static int try_finish_shape(const struct try_line *l, struct gy_geom *g)
{
    const int kind = try_ops[l->t->code].kind;
    g->k = kind != TRY_CONV || g->k == 0 ? g->c : g->k;
    g->p = kind == TRY_FLAT ? g->h : try_out(g->h, g->pad_h, g->dil_h, g->r, g->stride_h);
    g->q = kind == TRY_FLAT ? g->w : try_out(g->w, g->pad_w, g->dil_w, g->s, g->stride_w);
    if (g->p < 1 || g->q < 1)
        return try_wrong(l, "the filter is larger than the padded input", NULL);
    if (kind == TRY_WINDOW && (g->pad_h >= g->r || g->pad_w >= g->s || g->r * (int64_t)g->s > 255))
        return try_wrong(l, "a window has at most 255 cells and is larger than the padding", NULL);
    if (g->c % g->groups != 0 || g->k % g->groups != 0)
        return try_wrong(l, "groups must divide the channels on both sides", NULL);
    if ((double)g->n * g->h * g->w * g->c > (double)((int64_t)1 << 31) || (double)g->n * g->p * g->q * g->k > (double)((int64_t)1 << 31))
        return try_wrong(l, "a tensor of more than 2^31 elements", NULL);
    return GY_OK;
}

static int try_read_shape(struct try_line *l)
{
    const char *const text = try_next(l), *name;
    int64_t in[4];
    if (l->t->code < 0)
        return try_wrong(l, "the line with op comes first", NULL);
    if (!text || try_times(text, 4, in) != 0)
        return try_wrong(l, "a shape begins with four numbers such as 2x7x5x24", text);
    if (l->t->shapes == GY_TRY_SHAPES)
        return try_wrong(l, "there may be 8 shapes", NULL);
    struct gy_geom g = { .n = in[0], .h = (int32_t)in[1], .w = (int32_t)in[2], .c = (int32_t)in[3], .r = 1, .s = 1, .stride_h = 1,
                         .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1 };
    while ((name = try_next(l)))
        GY_TRY(try_read_option(l, name, &g));
    GY_TRY(try_finish_shape(l, &g));
    l->t->shape_text[l->t->shapes] = text;
    l->t->shape[l->t->shapes++] = g;
    return GY_OK;
}

static int try_read_define(struct try_line *l)
{
    const char *const name = try_next(l), *const value = try_next(l);
    if (!value || l->t->defines == (int)GY_COUNT(l->t->define))
        return try_wrong(l, "define has a name and a number; there may be 8", name);
    l->t->define[l->t->defines].name = name;
    l->t->define[l->t->defines++].value = value;
    return GY_OK;
}

static int try_read_scratch(struct try_line *l)
{
    l->t->scratch = try_next(l);
    return l->t->scratch ? GY_OK : try_wrong(l, "scratch has a number of bytes", NULL);
}

static int try_is_launch_word(const char *word)
{
    return strcmp(word, "grid") == 0 || strcmp(word, "threads") == 0 || strcmp(word, "shared") == 0;
}

static int try_read_launch(struct try_line *l)
{
    struct gy_try_launch *const launch = &l->t->launch[l->t->launches];
    const char *name;
    if (l->t->launches == GY_CUDA_LAUNCHES)
        return try_wrong(l, "there may be four launches", NULL);
    *launch = (struct gy_try_launch){ .entry = try_next(l), .grid = { NULL, "1", "1" }, .threads = "256", .shared = "0" };
    while ((name = try_next(l))) {
        if (!try_is_launch_word(name) || l->at == l->count)
            return try_wrong(l, "behind the kernel's name come grid, threads and shared with numbers", name);
        if (strcmp(name, "threads") == 0)
            launch->threads = try_next(l);
        else if (strcmp(name, "shared") == 0)
            launch->shared = try_next(l);
        else
            for (int i = 0; i < 3 && l->at < l->count && !try_is_launch_word(l->word[l->at]); i++)
                launch->grid[i] = try_next(l);
    }
    if (!launch->entry || !launch->grid[0])
        return try_wrong(l, "launch has a kernel's name and a grid", launch->entry);
    l->t->launches++;
    return GY_OK;
}

static const struct { const char *name; int (*read)(struct try_line *l); } try_lines[] = {
    { "op", try_read_op },         { "dtype", try_read_dtype },   { "act", try_read_act },   { "with", try_read_with },
    { "flags", try_read_flags },   { "f", try_read_f },           { "shape", try_read_shape }, { "define", try_read_define },
    { "scratch", try_read_scratch }, { "launch", try_read_launch },
};

/* length bytes behind the mark */
static int try_read_line(struct gy_try *t, const char *text, size_t length, struct gy_error *err)
{
    struct try_line l = { .t = t, .err = err };
    if (length >= sizeof t->room - t->used)
        return try_wrong(&l, "the lines are longer than 8 kB", NULL);
    char *p = memcpy(t->room + t->used, text, length);
    p[length] = 0;
    t->used += length + 1;
    while (*p && l.count < TRY_WORDS) {
        p += strspn(p, " \t\r");
        if (*p)
            l.word[l.count++] = p;
        p += strcspn(p, " \t\r");
        if (*p)
            *p++ = 0;
    }
    const char *const name = try_next(&l);
    for (size_t i = 0; name && i < GY_COUNT(try_lines); i++)
        if (strcmp(name, try_lines[i].name) == 0) {
            GY_TRY(try_lines[i].read(&l));
            return l.at < l.count ? try_wrong(&l, "nothing may follow here", l.word[l.at]) : GY_OK;
        }
    return try_wrong(&l, "a line says op, dtype, act, with, flags, f, shape, define, scratch or launch", name ? name : "");
}

GY_INT int gy_try_read(struct gy_try *out, const char *path, const char *text, struct gy_error *err)
{
    memset(out, 0, sizeof *out);
    out->path = path;
    out->text = text;
    out->code = -1;
    for (const char *at = text; *at;) {
        const size_t length = strcspn(at, "\n");
        const char *const mark = at + strspn(at, " \t");
        const size_t mark_bytes = sizeof TRY_MARK - 1;
        out->line++;
        if (strncmp(mark, TRY_MARK, mark_bytes) == 0)
            GY_TRY(try_read_line(out, mark + mark_bytes, length - (size_t)(mark - at) - mark_bytes, err));
        at += length + (at[length] == '\n');
    }
    if (out->code < 0 || !out->shapes || !out->launches)
        return GY_FAIL(err, GY_E_FORMAT, "%.200s says no %s: it needs a line such as '%s'", path,
                       out->code < 0 ? "op" : !out->shapes ? "shape" : "launch",
                       out->code < 0 ? TRY_MARK " op conv" : !out->shapes ? TRY_MARK " shape 2x7x5x24" :
                       TRY_MARK " launch my_kernel grid up(N*H*W*C,256) threads 256");
    if (!out->dtypes)
        out->dtypes = 1; /* f32 */
    return GY_OK;
}

/* ---- the cut ---- */

static int try_number_of(const struct gy_try *t, const struct gy_geom *g, int dtype, const char *text, int64_t lo, int64_t hi, int64_t *out,
                         struct gy_error *err)
{
    if (try_compute(text, g, dtype, lo, hi, out) == 0)
        return GY_OK;
    return GY_FAIL(err, GY_E_FORMAT, "%.200s: '%.100s' is no number in %" PRId64 " .. %" PRId64 " on every shape", t->path, text, lo, hi);
}

static int try_cut_launch(const struct gy_try *t, const struct gy_geom *g, int dtype, const struct gy_try_launch *l,
                          struct gy_cuda_launch *out, struct gy_error *err)
{
    int64_t value;
    out->entry = l->entry;
    for (int i = 0; i < 3; i++) {
        GY_TRY(try_number_of(t, g, dtype, l->grid[i], 1, i ? 65535 : 2147483647, &value, err));
        out->grid[i] = (unsigned)value;
    }
    GY_TRY(try_number_of(t, g, dtype, l->threads, 1, 1024, &value, err));
    out->threads = (unsigned)value;
    GY_TRY(try_number_of(t, g, dtype, l->shared, 0, 1 << 20, &value, err));
    out->shared = (unsigned)value;
    return GY_OK;
}

GY_INT int gy_try_cut(const struct gy_try *t, const struct gy_geom *g, int dtype, struct gy_cuda_cut *cut, struct gy_error *err)
{
    int64_t value;
    memset(cut, 0, sizeof *cut);
    cut->file = t->path;
    cut->text = t->text;
    for (cut->launches = 0; cut->launches < t->launches; cut->launches++)
        GY_TRY(try_cut_launch(t, g, dtype, &t->launch[cut->launches], &cut->launch[cut->launches], err));
    for (cut->defines = 0; cut->defines < t->defines; cut->defines++) {
        GY_TRY(try_number_of(t, g, dtype, t->define[cut->defines].value, -TRY_MOST, TRY_MOST, &value, err));
        cut->define[cut->defines].name = t->define[cut->defines].name;
        cut->define[cut->defines].value = value;
    }
    if (t->scratch)
        GY_TRY(try_number_of(t, g, dtype, t->scratch, 0, TRY_MOST, &value, err));
    cut->scratch = t->scratch ? (size_t)value : 0;
    return GY_OK;
}

#undef TRY_MARK
#undef TRY_WORDS
#undef TRY_MOST
#undef TRY_R
#endif
