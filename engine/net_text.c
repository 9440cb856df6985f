/* SPDX-License-Identifier: MIT */
/* Net text to graph, in one pass and line by line. A block pushes a scope: a name prefix and the value that entered it. A repeated
 * block is simply read again from its first line with the next number, so that nothing of it is kept. Every error has a place. */
#include "graph.h"

#define NET_WORDS 64
#define NET_DEPTH 16
#define NET_NAME 200
#define NET_TEXT_LIMIT (1 << 20)

struct net_word {
    const char *text; /* in the line's copy, NUL-terminated */
    int column;
};

/* A block that is open. */
struct net_scope {
    char prefix[NET_NAME]; /* "layer1.0.", "" for the whole net */
    char name[NET_NAME];   /* "layer1" */
    int entered;           /* node whose value came in */
    int64_t number, last;  /* of a repeat; number > last: a single block */
    size_t body;           /* byte of the first line inside */
    int body_line, line;   /* its number; line of the opening word */
};

struct net_reader {
    struct gy_graph *graph;
    struct gy_arena *arena;
    struct gy_error *err;
    const char *source, *text;
    size_t bytes, at;
    int line;
    char copy[1024];
    struct net_word word[NET_WORDS];
    int words;
    struct net_scope scope[NET_DEPTH];
    int depth;
    int current;           /* node whose value the next layer reads, -1 before input */
    int loss;              /* node of the loss, -1 */
    uint8_t *used;         /* [GY_MAX_NODES] */
};

static int net_fail(struct net_reader *r, int column, const char *fmt, ...) GY_PRINTF(3, 4);
static int net_fail(struct net_reader *r, int column, const char *fmt, ...)
{
    char text[400];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    return GY_FAIL(r->err, GY_E_NET, "%.60s:%d:%d: %s", r->source, r->line, column, text);
}

/* ---- words ---- */

static int net_split(struct net_reader *r, size_t length)
{
    r->words = 0;
    for (size_t i = 0; i < length && r->copy[i] != '#';) {
        if (r->copy[i] == ' ' || r->copy[i] == '\t' || r->copy[i] == '\r') {
            i++;
            continue;
        }
        if (r->words == NET_WORDS)
            return net_fail(r, (int)i + 1, "more than %d words in a line", NET_WORDS);
        r->word[r->words++] = (struct net_word){ r->copy + i, (int)i + 1 };
        while (i < length && !strchr(" \t\r#", r->copy[i]))
            i++;
        const int comment = i < length && r->copy[i] == '#';
        r->copy[i++] = 0;
        if (comment)
            break;
    }
    return GY_OK;
}

/* Reads the next line into words; *more is 0 at the end of the text. */
static int net_next_line(struct net_reader *r, int *more)
{
    *more = r->at < r->bytes;
    if (!*more)
        return GY_OK;
    const char *start = r->text + r->at, *end = memchr(start, '\n', r->bytes - r->at);
    const size_t length = end ? (size_t)(end - start) : r->bytes - r->at;
    r->at += length + (end != NULL);
    r->line++;
    if (length >= sizeof r->copy)
        return net_fail(r, 1, "a line of %zu bytes; the limit is %zu", length, sizeof r->copy - 1);
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)start[i] < 32 && start[i] != '\t' && start[i] != '\r')
            return net_fail(r, (int)i + 1, "byte %d is not text", (unsigned char)start[i]);
    memcpy(r->copy, start, length);
    r->copy[length] = 0;
    return net_split(r, length);
}

/* ---- names ---- */

static int net_find(const struct net_reader *r, const char *full)
{
    for (int i = r->graph->node_count - 1; i >= 0; i--)
        if (strcmp(r->graph->nodes[i].name, full) == 0)
            return i;
    return -1;
}

static const char *net_nearest(const struct net_reader *r, const char *name)
{
    const char *candidates[256];
    size_t count = 0;
    const char *prefix = r->scope[r->depth].prefix;
    const size_t length = strlen(prefix);
    for (int i = r->graph->node_count - 1; i >= 0 && count < GY_COUNT(candidates); i--)
        if (strncmp(r->graph->nodes[i].name, prefix, length) == 0)
            candidates[count++] = r->graph->nodes[i].name + length;
    return gy_text_nearest(name, candidates, count);
}

/* The node that a name means here: innermost scope first. */
static int net_lookup(struct net_reader *r, const struct net_word *w, int *node)
{
    char full[2 * NET_NAME];
    if (strcmp(w->text, "in") == 0 && r->depth > 0) {
        *node = r->scope[r->depth].entered;
        return GY_OK;
    }
    for (int d = r->depth; d >= 0; d--) {
        snprintf(full, sizeof full, "%s%s", r->scope[d].prefix, w->text);
        if ((*node = net_find(r, full)) >= 0)
            return GY_OK;
    }
    const char *near = net_nearest(r, w->text);
    return net_fail(r, w->column, "no value '%.80s' before this line (a value cannot be read before it is made: that would be a cycle)%s%.80s%s",
                    w->text, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static int net_check_name(struct net_reader *r, const char *name, int column)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-";
    const size_t good = strspn(name, allowed);
    if (name[good] || !name[0])
        return net_fail(r, column + (int)good, "a name is made of letters, digits, '_', '.' and '-', not '%.40s'", name);
    if (strlen(name) >= NET_NAME / 2)
        return net_fail(r, column, "a name of %zu bytes; the limit is %d", strlen(name), NET_NAME / 2 - 1);
    if (strcmp(name, "in") == 0)
        return net_fail(r, column, "'in' means the value that entered a block and cannot be a name");
    return GY_OK;
}

/* ---- numbers ---- */

static int net_number(struct net_reader *r, const char *text, int column, const struct gy_layer_option *o, double *value)
{
    int64_t whole = 0;
    double real = 0;
    const int integer = o->kind != GY_OPT_REAL;
    const int bad = integer ? gy_text_int(text, INT64_MIN, INT64_MAX, &whole) : gy_text_real(text, -1e300, 1e300, &real);
    if (bad)
        return net_fail(r, column, "%s is '%.40s', not a number%s", o->name, text, integer && o->kind == GY_OPT_PAIR ? " or a pair such as 3x3" : "");
    *value = integer ? (double)whole : real;
    if (*value < o->lo || *value > o->hi)
        return net_fail(r, column, "%s is %s; it must be in %.15g .. %.15g", o->name, text, o->lo, o->hi);
    return GY_OK;
}

static int net_value(struct net_reader *r, const struct net_word *w, const struct gy_layer_option *o, double *a, double *b)
{
    char first[64];
    const char *x = o->kind == GY_OPT_PAIR ? strchr(w->text, 'x') : NULL;
    const size_t length = x ? (size_t)(x - w->text) : strlen(w->text);
    if (length >= sizeof first)
        return net_fail(r, w->column, "%s is '%.40s...', not a number", o->name, w->text);
    memcpy(first, w->text, length);
    first[length] = 0;
    GY_TRY(net_number(r, first, w->column, o, a));
    *b = *a;
    return x ? net_number(r, x + 1, w->column + (int)length + 1, o, b) : GY_OK;
}

/* ---- layers ---- */

static int net_layer_of(struct net_reader *r, const struct net_word *w, int *layer)
{
    const char *words[GY_LAYERS + 2];
    for (int i = 0; i < GY_LAYERS; i++) {
        words[i] = gy_layer_name(i);
        if (strcmp(w->text, words[i]) == 0) {
            *layer = i;
            return GY_OK;
        }
    }
    words[GY_LAYERS] = "block";
    words[GY_LAYERS + 1] = "repeat";
    const char *near = gy_text_nearest(w->text, words, GY_COUNT(words));
    return net_fail(r, w->column, "no layer is called '%.40s'%s%s%s", w->text, near ? "; did you mean '" : "", near ? near : "",
                    near ? "'?" : "");
}

static const struct gy_layer_option *net_option(const struct gy_layer_row *row, const char *name, int *index)
{
    for (*index = 0; *index < GY_LAYER_OPTIONS && row->option[*index].kind != GY_OPT_END; ++*index)
        if (strcmp(row->option[*index].name, name) == 0 && !row->option[*index].place)
            return &row->option[*index];
    return NULL;
}

static int net_unknown_option(struct net_reader *r, const struct gy_layer_row *row, const struct net_word *w)
{
    const char *names[GY_LAYER_OPTIONS + 1];
    size_t count = 0;
    for (int i = 0; i < GY_LAYER_OPTIONS && row->option[i].kind != GY_OPT_END; i++)
        if (!row->option[i].place)
            names[count++] = row->option[i].name;
    names[count++] = "from";
    const char *near = gy_text_nearest(w->text, names, count);
    return net_fail(r, w->column, "%s has no option '%.40s'%s%s%s", row->word, w->text, near ? "; did you mean '" : "", near ? near : "",
                    near ? "'?" : "");
}

/* One option with its value; *at moves behind it. */
static int net_take_option(struct net_reader *r, const struct gy_layer_row *row, int *at, struct gy_layer_args *args)
{
    int index;
    const struct net_word *w = &r->word[*at];
    const struct gy_layer_option *o = net_option(row, w->text, &index);
    if (!o)
        return net_unknown_option(r, row, w);
    ++*at;
    if (o->kind == GY_OPT_FLAG) {
        args->a[index] = 1;
        return GY_OK;
    }
    if (*at >= r->words)
        return net_fail(r, w->column, "%s needs a value behind it", o->name);
    return net_value(r, &r->word[(*at)++], o, &args->a[index], &args->b[index]);
}

static int net_take_places(struct net_reader *r, const struct gy_layer_row *row, int *at, struct gy_layer_args *args)
{
    for (int i = 0; i < GY_LAYER_OPTIONS && row->option[i].kind != GY_OPT_END; i++) {
        args->a[i] = args->b[i] = row->option[i].initial;
        if (!row->option[i].place)
            continue;
        if (*at >= r->words)
            return net_fail(r, r->word[*at - 1].column, "%s needs %s", row->word, row->option[i].name);
        GY_TRY(net_value(r, &r->word[(*at)++], &row->option[i], &args->a[i], &args->b[i]));
    }
    return GY_OK;
}

static int net_add_input(struct net_reader *r, struct gy_node *node, const struct net_word *w)
{
    if (node->input_count == GY_NODE_INPUTS)
        return net_fail(r, w->column, "more than %d inputs", GY_NODE_INPUTS);
    GY_TRY(net_lookup(r, w, &node->input[node->input_count]));
    node->input_count++;
    return GY_OK;
}

/* Everything behind the layer's word. */
static int net_take_args(struct net_reader *r, struct gy_node *node, int at, struct gy_layer_args *args)
{
    const struct gy_layer_row *row = gy_layer_row(node->layer);
    GY_TRY(net_take_places(r, row, &at, args));
    while (at < r->words) {
        if (strcmp(r->word[at].text, "from") == 0) {
            if (at + 1 >= r->words)
                return net_fail(r, r->word[at].column, "from needs a name behind it");
            GY_TRY(net_lookup(r, &r->word[at + 1], &node->input[0]));
            at += 2;
        } else if (row->names) {
            GY_TRY(net_add_input(r, node, &r->word[at++]));
        } else {
            GY_TRY(net_take_option(r, row, &at, args));
        }
    }
    if (row->names && node->input_count < 2)
        return net_fail(r, r->word[r->words - 1].column, "%s needs the name of another value", row->word);
    return GY_OK;
}

static int net_grow_nodes(struct net_reader *r)
{
    const int room = r->graph->node_room ? 2 * r->graph->node_room : 64;
    struct gy_node *nodes = gy_arena_take(r->arena, (size_t)room, sizeof *nodes);
    if (!nodes)
        return GY_NOMEM(r->err, "the node table", (size_t)room * sizeof *nodes);
    if (r->graph->node_count)
        memcpy(nodes, r->graph->nodes, (size_t)r->graph->node_count * sizeof *nodes);
    r->graph->nodes = nodes;
    r->graph->node_room = room;
    return GY_OK;
}

/* label: the name that the line gives, or NULL: the layer's word and the number of the node. */
static int net_name_node(struct net_reader *r, struct gy_node *node, const struct net_word *label)
{
    char full[2 * NET_NAME], own[64];
    snprintf(own, sizeof own, "%s%d", gy_layer_name(node->layer), r->graph->node_count);
    const char *name = label ? label->text : own;
    if (label)
        GY_TRY(net_check_name(r, name, label->column));
    if ((size_t)snprintf(full, sizeof full, "%s%s", r->scope[r->depth].prefix, name) >= NET_NAME)
        return net_fail(r, node->column, "the name '%.60s...' is longer than %d bytes", full, NET_NAME - 1);
    const int other = net_find(r, full);
    if (other >= 0)
        return net_fail(r, label ? label->column : node->column, "the name '%s' is taken by line %d", full, r->graph->nodes[other].line);
    node->name = gy_arena_text(r->arena, full, strlen(full));
    return node->name ? GY_OK : GY_NOMEM(r->err, "a node's name", strlen(full) + 1);
}

static int net_add_node(struct net_reader *r, struct gy_node *node, const struct gy_layer_args *args)
{
    struct gy_error why = { 0 };
    const int index = r->graph->node_count;
    r->graph->nodes[index] = *node;
    const int status = gy_layer_infer(r->graph, r->arena, &r->graph->nodes[index], args, &why);
    if (status == GY_E_NET)
        return net_fail(r, node->column, "%s", why.text);
    if (status != GY_OK) {
        if (r->err)
            *r->err = why;
        return status;
    }
    for (int i = 0; i < node->input_count; i++)
        r->used[node->input[i]] = 1;
    r->graph->node_count++;
    r->current = index;
    if (node->layer == GY_LAYER_SOFTMAX || node->layer == GY_LAYER_MSE)
        r->loss = index;
    return GY_OK;
}

static int net_layer(struct net_reader *r, int at, const struct net_word *label)
{
    struct gy_node node = { .line = r->line, .column = r->word[at].column, .input_count = 1, .weight = -1, .bias = -1,
                            .run_mean = -1, .run_var = -1 };
    struct gy_layer_args args = { { 0 }, { 0 } };
    GY_TRY(net_layer_of(r, &r->word[at], &node.layer));
    if (node.layer == GY_LAYER_INPUT)
        return net_fail(r, node.column, "input stands once, as the first line");
    if (r->current < 0)
        return net_fail(r, node.column, "the first line must be 'input HxWxC'");
    if (r->graph->node_count >= GY_MAX_NODES)
        return net_fail(r, node.column, "more than %d layers", GY_MAX_NODES);
    if (r->graph->node_count == r->graph->node_room)
        GY_TRY(net_grow_nodes(r));
    node.input[0] = r->current;
    GY_TRY(net_take_args(r, &node, at + 1, &args));
    if (r->loss >= 0)
        return net_fail(r, node.column, "a layer behind the loss of line %d", r->graph->nodes[r->loss].line);
    GY_TRY(net_name_node(r, &node, label));
    return net_add_node(r, &node, &args);
}

/* ---- input ---- */

static int net_input(struct net_reader *r)
{
    static const struct gy_layer_option side[3] = { { "height", GY_OPT_COUNT, 1, 0, 1, GY_MAX_SIDE },
                                                    { "width", GY_OPT_COUNT, 1, 0, 1, GY_MAX_SIDE },
                                                    { "channels", GY_OPT_COUNT, 1, 0, 1, GY_MAX_CHANNELS } };
    char text[128];
    double size[3];
    const struct net_word *w = &r->word[1];
    if (r->words != 2 || gy_text_copy(text, sizeof text, w->text) != 0)
        return net_fail(r, r->word[0].column, "input needs one size, HxWxC, such as 224x224x3");
    char *piece = text;
    for (int i = 0; i < 3; i++) {
        char *x = strchr(piece, 'x');
        if ((x == NULL) != (i == 2))
            return net_fail(r, w->column, "input is '%.40s'; it must be HxWxC, such as 224x224x3", w->text);
        if (x)
            *x = 0;
        GY_TRY(net_number(r, piece, w->column + (int)(piece - text), &side[i], &size[i]));
        piece = x ? x + 1 : piece;
    }
    GY_TRY(net_grow_nodes(r));
    const int32_t h = (int32_t)size[0], wide = (int32_t)size[1], c = (int32_t)size[2];
    r->graph->nodes[0] = (struct gy_node){ .layer = GY_LAYER_INPUT, .name = "input", .line = r->line, .column = r->word[0].column,
                                           .geom = { .h = h, .w = wide, .c = c, .p = h, .q = wide, .k = c, .r = 1, .s = 1, .stride_h = 1,
                                                     .stride_w = 1, .dil_h = 1, .dil_w = 1, .groups = 1 },
                                           .flat_h = 1, .flat_w = 1, .weight = -1, .bias = -1, .run_mean = -1, .run_var = -1 };
    r->graph->h = h, r->graph->w = wide, r->graph->c = c;
    r->graph->node_count = 1;
    r->current = 0;
    return GY_OK;
}

/* ---- blocks ---- */

static int net_prefix(struct net_reader *r, struct net_scope *s)
{
    const char *outer = r->scope[r->depth - 1].prefix;
    const size_t need = s->number > s->last
                            ? (size_t)snprintf(s->prefix, sizeof s->prefix, "%s%s.", outer, s->name)
                            : (size_t)snprintf(s->prefix, sizeof s->prefix, "%s%s.%" PRId64 ".", outer, s->name, s->number);
    if (need >= sizeof s->prefix)
        return net_fail(r, 1, "the names inside block '%.60s' get longer than %d bytes", s->name, NET_NAME - 1);
    s->entered = r->current;
    return GY_OK;
}

static int net_range(struct net_reader *r, const struct net_word *w, struct net_scope *s)
{
    char text[64];
    char *dots = gy_text_copy(text, sizeof text, w->text) == 0 ? strstr(text, "..") : NULL;
    if (dots)
        *dots = 0;
    if (!dots || gy_text_int(text, 0, GY_MAX_NODES, &s->number) != 0 || gy_text_int(dots + 2, 0, GY_MAX_NODES, &s->last) != 0 ||
        s->last < s->number)
        return net_fail(r, w->column, "repeat needs a range such as 0..2 with numbers in 0 .. %d, not '%.40s'", GY_MAX_NODES, w->text);
    return GY_OK;
}

static int net_open_block(struct net_reader *r, int repeat)
{
    const int want = repeat ? 4 : 3;
    if (r->words != want || strcmp(r->word[want - 1].text, "{") != 0)
        return net_fail(r, r->word[0].column, repeat ? "a repeat is written: repeat NAME A..B {" : "a block is written: block NAME {");
    if (r->current < 0)
        return net_fail(r, r->word[0].column, "the first line must be 'input HxWxC'");
    if (r->depth + 1 == NET_DEPTH)
        return net_fail(r, r->word[0].column, "blocks are nested deeper than %d", NET_DEPTH - 1);
    struct net_scope *s = &r->scope[r->depth + 1];
    *s = (struct net_scope){ .number = 1, .last = 0, .body = r->at, .body_line = r->line, .line = r->line };
    GY_TRY(net_check_name(r, r->word[1].text, r->word[1].column));
    gy_text_copy(s->name, sizeof s->name, r->word[1].text);
    if (repeat)
        GY_TRY(net_range(r, &r->word[2], s));
    r->depth++;
    return net_prefix(r, s);
}

static int net_close_block(struct net_reader *r)
{
    if (r->words != 1)
        return net_fail(r, r->word[1].column, "'}' stands alone on its line");
    if (r->depth == 0)
        return net_fail(r, r->word[0].column, "'}' without an open block");
    struct net_scope *s = &r->scope[r->depth];
    if (s->number >= s->last) {
        r->depth--;
        return GY_OK;
    }
    if (r->current == s->entered)
        return net_fail(r, r->word[0].column, "the repeated block has no layers");
    s->number++;
    r->at = s->body;
    r->line = s->body_line;
    return net_prefix(r, s);
}

/* ---- the whole ---- */

static int net_line(struct net_reader *r)
{
    const char *first = r->word[0].text;
    if (strcmp(first, "input") == 0 && r->current < 0)
        return net_input(r);
    if (strcmp(first, "}") == 0)
        return net_close_block(r);
    if (strcmp(first, "block") == 0 || strcmp(first, "repeat") == 0)
        return net_open_block(r, first[0] == 'r');
    const size_t length = strlen(first);
    if (first[length - 1] != ':')
        return net_layer(r, 0, NULL);
    if (r->words < 2)
        return net_fail(r, r->word[0].column, "a layer must follow '%.60s'", first);
    r->copy[r->word[0].column - 1 + (int)length - 1] = 0;
    return net_layer(r, 1, &r->word[0]);
}

static int net_finish(struct net_reader *r)
{
    struct gy_graph *g = r->graph;
    if (r->depth > 0)
        return net_fail(r, 1, "the text ends inside block '%.60s' of line %d", r->scope[r->depth].name, r->scope[r->depth].line);
    if (r->current < 0)
        return net_fail(r, 1, "the text has no 'input HxWxC'");
    if (r->loss < 0)
        return net_fail(r, 1, "the last layer must be the loss: softmax or mse");
    for (int i = 0; i < g->node_count; i++)
        if (!r->used[i] && i != r->loss) {
            r->line = g->nodes[i].line;
            return net_fail(r, g->nodes[i].column, "the value of '%s' is never used", g->nodes[i].name);
        }
    g->loss = r->loss;
    g->output = g->nodes[r->loss].input[0];
    g->classes = g->nodes[r->loss].geom.k;
    if (g->param_count == 0)
        return net_fail(r, 1, "the net has no weights: nothing to train");
    return GY_OK;
}

static int net_read(struct net_reader *r)
{
    int more;
    GY_TRY(net_next_line(r, &more));
    while (more) {
        if (r->words)
            GY_TRY(net_line(r));
        GY_TRY(net_next_line(r, &more));
    }
    return net_finish(r);
}

GY_INT int gy_graph_parse(struct gy_graph *graph, struct gy_arena *arena, const char *text, size_t bytes, const char *source,
                          struct gy_error *err)
{
    memset(graph, 0, sizeof *graph);
    if (bytes > NET_TEXT_LIMIT)
        return GY_FAIL(err, GY_E_NET, "%.60s: %zu bytes of net text; the limit is %d", source, bytes, NET_TEXT_LIMIT);
    struct net_reader *r = gy_arena_take(arena, 1, sizeof *r);
    uint8_t *used = gy_arena_take(arena, GY_MAX_NODES, 1);
    if (!r || !used)
        return GY_NOMEM(err, "the net's reader", sizeof *r + GY_MAX_NODES);
    *r = (struct net_reader){ .graph = graph, .arena = arena, .err = err, .source = source, .text = text, .bytes = bytes,
                              .current = -1, .loss = -1, .used = used };
    return net_read(r);
}
