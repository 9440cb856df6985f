/* SPDX-License-Identifier: MIT */
/* net_text.c: parses net text into a graph, for gyre_open and gyre_load. gy_layer_help (layer.c)
 * explains the language. Its grammar, one statement a line; '#' begins a comment:
 *
 *     net       = input-line { statement } loss-line
 *     statement = layer | opening-line { statement } "}"
 *     layer     = [ NAME ":" ] WORD { value } { NAME } { option [ value ] } [ "from" NAME ]
 *     opening   = "block" NAME "{" | "repeat" NAME FIRST ".." LAST "{"
 *
 * Three passes go over a table of the lines that hold a statement. The first matches braces. The
 * second counts layers, so that the graph's tables are taken once and at their size. The third runs
 * the statements, a repeated body once a copy. Work is bounded: text, line and depth have limits,
 * every block holds a layer, and there are at most GY_MAX_NODES layers. */
#include "engine/text/graph_finish.h"
#include "engine/text/layer.h"

#define PARSE_BYTES ((size_t)1 << 20)
#define PARSE_LINE_BYTES 1000
#define PARSE_TOKENS 40
#define PARSE_TOKEN_BYTES 100
#define PARSE_NAME_BYTES 160 /* whole name of a value, prefixes included */
#define PARSE_DEPTH 16

struct parse_token {
    int column;
    char text[PARSE_TOKEN_BYTES + 1];
};

struct parse_line {
    const char *text; /* without comment */
    int bytes, number;
    int close;        /* index of an opening line's closing line, else -1 */
};

struct parse_scope {
    const struct parse_scope *outer;
    const char *prefix;         /* "layer1.0." */
    int in;                     /* value that entered */
    int unlabelled[GY_LAYERS];  /* so far, by kind */
};

struct parse_header {
    char name[PARSE_TOKEN_BYTES + 1];
    int64_t first, last;
    int repeat;
};

struct parse_state {
    struct gy_graph *graph;
    struct gy_arena *arena;
    const char *source;
    struct gy_error *err;
    struct parse_line *lines;
    int line_count;
    struct parse_token token[PARSE_TOKENS]; /* of the line that was split last */
    int token_count, line;
    struct gy_names names;
    int node_room;
    int *unlabelled;            /* [node_room]: as gy_graph_finish takes it */
    int current;                /* value of the layer before */
};

#define PARSE_FAIL(p, column, ...) gy_layer_fail((p)->err, (p)->source, (p)->line, (column), __VA_ARGS__)

/* ---- bytes ---- */

/* Bytes of the UTF-8 sequence at text; 0: none. Overlong forms, surrogates, > 10FFFF are none. */
static size_t parse_utf8_bytes(const unsigned char *text, size_t left)
{
    static const struct { unsigned char mask, lead; uint32_t least; } forms[] = {
        { 0x80, 0x00, 0 }, { 0xe0, 0xc0, 0x80 }, { 0xf0, 0xe0, 0x800 }, { 0xf8, 0xf0, 0x10000 },
    };
    for (size_t f = 0; f < GY_COUNT(forms); f++) {
        if ((text[0] & forms[f].mask) != forms[f].lead)
            continue;
        uint32_t code = text[0] & (unsigned char)~forms[f].mask;
        for (size_t i = 1; i <= f; i++) {
            if (i >= left || (text[i] & 0xc0) != 0x80)
                return 0;
            code = code << 6 | (text[i] & 0x3f);
        }
        return code < forms[f].least || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff) ? 0 : f + 1;
    }
    return 0;
}

static int parse_check_bytes(struct parse_state *p, const char *text, size_t bytes)
{
    const unsigned char *t = (const unsigned char *)text;
    size_t start = 0, step;
    if (bytes > PARSE_BYTES)
        return PARSE_FAIL(p, 1, "the text has %zu bytes; at most %zu are allowed", bytes, PARSE_BYTES);
    for (size_t i = 0; i < bytes; i += step) {
        const int column = (int)(i - start) + 1;
        step = parse_utf8_bytes(t + i, bytes - i);
        if (step == 0)
            return PARSE_FAIL(p, column, "byte 0x%02x does not belong to UTF-8 text", t[i]);
        if ((t[i] < ' ' && t[i] != '\t' && t[i] != '\n' && t[i] != '\r') || t[i] == 0x7f)
            return PARSE_FAIL(p, column, "a control character (byte 0x%02x)", t[i]);
        if (column > PARSE_LINE_BYTES && t[i] != '\n')
            return PARSE_FAIL(p, column, "the line is longer than %d bytes", PARSE_LINE_BYTES);
        if (t[i] == '\n') {
            p->line++;
            start = i + 1;
        }
    }
    return GY_OK;
}

static int parse_is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next line with a word; *at moves behind it, *number counts all lines. 0 at the end. */
static int parse_next_line(const char *text, size_t bytes, size_t *at, int *number, struct parse_line *line)
{
    while (*at < bytes) {
        const char *first = text + *at, *end = memchr(first, '\n', bytes - *at);
        const size_t length = end ? (size_t)(end - first) : bytes - *at;
        const char *comment = memchr(first, '#', length);
        const int used = (int)(comment ? (size_t)(comment - first) : length);
        int blank = 0;
        while (blank < used && parse_is_blank(first[blank]))
            blank++;
        *at += length + 1;
        ++*number;
        *line = (struct parse_line){ first, used, *number, -1 };
        if (blank < used)
            return 1;
    }
    return 0;
}

static int parse_find_lines(struct parse_state *p, const char *text, size_t bytes)
{
    struct parse_line line;
    size_t at = 0;
    int number = 0;
    while (parse_next_line(text, bytes, &at, &number, &line))
        p->line_count++;
    p->lines = gy_arena_take(p->arena, (size_t)p->line_count, sizeof *p->lines);
    if (!p->lines)
        return GY_NOMEM(p->err, "the table of lines", (size_t)p->line_count * sizeof *p->lines);
    at = 0;
    number = 0;
    for (int i = 0; parse_next_line(text, bytes, &at, &number, &line); i++)
        p->lines[i] = line;
    return GY_OK;
}

/* Cuts a line into p->token: words between blanks, braces alone. */
static int parse_split(struct parse_state *p, int index)
{
    const struct parse_line *line = &p->lines[index];
    p->line = line->number;
    p->token_count = 0;
    for (int i = 0; i < line->bytes;) {
        const int brace = line->text[i] == '{' || line->text[i] == '}';
        int end = i + 1;
        if (parse_is_blank(line->text[i])) {
            i++;
            continue;
        }
        while (!brace && end < line->bytes && !parse_is_blank(line->text[end]) && line->text[end] != '{' &&
               line->text[end] != '}')
            end++;
        if (p->token_count == PARSE_TOKENS)
            return PARSE_FAIL(p, i + 1, "more than %d words in a line", PARSE_TOKENS);
        if (end - i > PARSE_TOKEN_BYTES)
            return PARSE_FAIL(p, i + 1, "a word of %d bytes; at most %d are allowed", end - i, PARSE_TOKEN_BYTES);
        struct parse_token *token = &p->token[p->token_count++];
        token->column = i + 1;
        memcpy(token->text, line->text + i, (size_t)(end - i));
        token->text[end - i] = 0;
        i = end;
    }
    return GY_OK;
}

static int parse_is(const struct parse_state *p, int token, const char *word)
{
    return token < p->token_count && strcmp(p->token[token].text, word) == 0;
}

/* A value's or a block's name: letters, digits, '_', '-', '.'; no word with a meaning. */
static int parse_check_name(const struct parse_state *p, const char *name, int column)
{
    const size_t good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.");
    if (name[0] == 0)
        return PARSE_FAIL(p, column, "a name is missing");
    if (name[good] != 0)
        return PARSE_FAIL(p, column, "'%s' is no name: letters, digits, '_', '-' and '.' are allowed", name);
    if (strcmp(name, "in") == 0 || strcmp(name, "from") == 0)
        return PARSE_FAIL(p, column, "'%s' has a meaning of its own and cannot be a name", name);
    return GY_OK;
}

/* ---- blocks ---- */

static int parse_fail_word(const struct parse_state *p, const struct parse_token *word)
{
    const char *near = gy_layer_suggest(word->text);
    return PARSE_FAIL(p, word->column, near ? "there is no layer '%s'; did you mean '%s'?" : "there is no layer '%s'%s",
                      word->text, near ? near : "");
}

/* A brace may stand last in a line of block or repeat ('{'), or alone ('}'). *kind: 1 opening, 2
 * closing, 0 none. */
static int parse_brace_kind(struct parse_state *p, int *kind)
{
    const int opener = parse_is(p, 0, "block") || parse_is(p, 0, "repeat"), last = p->token_count - 1;
    if (!opener && last > 0 && parse_is(p, last, "{") && !strchr(p->token[0].text, ':') &&
        gy_layer_find(p->token[0].text) < 0)
        return parse_fail_word(p, &p->token[0]);
    for (int i = 0; i <= last; i++) {
        if (parse_is(p, i, "{") && (i != last || !opener))
            return PARSE_FAIL(p, p->token[i].column,
                              "'{' stands only at the end of a line that begins with block or repeat");
        if (parse_is(p, i, "}") && last != 0)
            return PARSE_FAIL(p, p->token[i].column, "'}' stands alone in its line");
    }
    if (opener && !parse_is(p, last, "{"))
        return PARSE_FAIL(p, p->token[last].column, "'%s' needs '{' at the end of its line", p->token[0].text);
    *kind = opener ? 1 : parse_is(p, 0, "}") ? 2 : 0;
    return GY_OK;
}

static int parse_match_braces(struct parse_state *p)
{
    int open[PARSE_DEPTH], depth = 0, kind = 0;
    for (int i = 0; i < p->line_count; i++) {
        GY_TRY(parse_split(p, i));
        GY_TRY(parse_brace_kind(p, &kind));
        if (kind == 1 && depth == PARSE_DEPTH)
            return PARSE_FAIL(p, p->token[0].column, "blocks are nested deeper than %d", PARSE_DEPTH);
        if (kind == 1)
            open[depth++] = i;
        if (kind == 2 && depth == 0)
            return PARSE_FAIL(p, p->token[0].column, "'}' closes nothing");
        if (kind == 2)
            p->lines[open[--depth]].close = i;
    }
    if (depth == 0)
        return GY_OK;
    GY_TRY(parse_split(p, open[depth - 1]));
    return PARSE_FAIL(p, p->token[0].column, "the block that begins here is never closed: '}' is missing");
}

/* FIRST..LAST */
static int parse_read_range(const struct parse_state *p, const struct parse_token *token, struct parse_header *header)
{
    char first[PARSE_TOKEN_BYTES + 1];
    const char *dots = strstr(token->text, "..");
    const size_t bytes = dots ? (size_t)(dots - token->text) : 0;
    memcpy(first, token->text, bytes);
    first[bytes] = 0;
    if (!dots || gy_text_int(first, 0, GY_MAX_NODES, &header->first) != 0 ||
        gy_text_int(dots + 2, 0, GY_MAX_NODES, &header->last) != 0)
        return PARSE_FAIL(p, token->column, "'%s' is not FIRST..LAST with whole numbers from 0 to %d", token->text,
                          GY_MAX_NODES);
    if (header->first > header->last)
        return PARSE_FAIL(p, token->column, "'%s' runs backwards", token->text);
    return GY_OK;
}

/* Reads the opening line that was split last. */
static int parse_read_header(struct parse_state *p, struct parse_header *header)
{
    const struct parse_token *t = p->token;
    *header = (struct parse_header){ .repeat = parse_is(p, 0, "repeat") };
    const int words = header->repeat ? 4 : 3;
    if (p->token_count != words)
        return PARSE_FAIL(p, t[p->token_count < words ? p->token_count - 1 : words - 1].column, "%s",
                         header->repeat ? "'repeat' reads: repeat NAME FIRST..LAST {" : "'block' reads: block NAME {");
    GY_TRY(parse_check_name(p, t[1].text, t[1].column));
    memcpy(header->name, t[1].text, sizeof header->name);
    return header->repeat ? parse_read_range(p, &t[2], header) : GY_OK;
}

/* Adds the layers of lines [first, end) to *count, each repeat as often as it says. */
static int parse_count(struct parse_state *p, int first, int end, int64_t *count)
{
    for (int i = first; i < end; i++) {
        int64_t more = 1;
        GY_TRY(parse_split(p, i));
        if (p->lines[i].close >= 0) {
            struct parse_header header;
            GY_TRY(parse_read_header(p, &header));
            const int opening = i;
            more = 0;
            i = p->lines[opening].close;
            GY_TRY(parse_count(p, opening + 1, i, &more));
            GY_TRY(parse_split(p, opening));
            if (more == 0)
                return PARSE_FAIL(p, p->token[0].column, "the block that begins here has no layers");
            more *= header.last - header.first + 1; /* at most 2^13 * (2^13 + 1) */
        }
        *count += more;
        if (*count > GY_MAX_NODES)
            return PARSE_FAIL(p, p->token[0].column, "more than %d layers", GY_MAX_NODES);
    }
    return GY_OK;
}

/* ---- names of values ---- */

static int parse_find(const struct parse_state *p, const struct parse_scope *scope, const char *name)
{
    char whole[2 * PARSE_NAME_BYTES];
    if (strcmp(name, "in") == 0)
        return scope->in;
    for (; scope; scope = scope->outer) {
        snprintf(whole, sizeof whole, "%s%s", scope->prefix, name);
        const int node = gy_names_find(&p->names, whole);
        if (node >= 0)
            return node;
    }
    return -1;
}

/* The nearest name that could stand here, as it would be written here. */
static const char *parse_nearest_value(const struct parse_state *p, const struct parse_scope *scope, const char *name)
{
    const size_t prefix = strlen(scope->prefix);
    const char *best = NULL;
    for (int i = 0; i < p->graph->node_count; i++) {
        const char *candidate = p->graph->nodes[i].name;
        if (p->unlabelled[i] > 0)
            continue;
        if (strncmp(candidate, scope->prefix, prefix) == 0)
            candidate += prefix;
        const char *const pair[2] = { best ? best : candidate, candidate };
        best = gy_text_nearest(name, pair, 2);
    }
    return best;
}

/* The number of this or a later line that has the label `name`, or 0. Overwrites p->token. */
static int parse_label_line(struct parse_state *p, const char *name)
{
    const size_t bytes = strlen(name);
    const int from = p->line;
    for (int i = 0; i < p->line_count; i++)
        if (p->lines[i].number >= from && parse_split(p, i) == GY_OK && strncmp(p->token[0].text, name, bytes) == 0 &&
            strcmp(p->token[0].text + bytes, ":") == 0)
            return p->lines[i].number;
    return 0;
}

static int parse_fail_value(struct parse_state *p, const struct parse_scope *scope, const struct parse_token *token)
{
    const struct parse_token t = *token;
    const int line = p->line, later = parse_label_line(p, t.text);
    const char *near = parse_nearest_value(p, scope, t.text);
    p->line = line;
    if (later == line)
        return PARSE_FAIL(p, t.column,
                          "'%s' would need its own value: a cycle; only values above this line can be used", t.text);
    if (later)
        return PARSE_FAIL(p, t.column,
                          "'%s' comes only at line %d: that would be a cycle, or it must be moved up; only values "
                          "above this line can be used", t.text, later);
    return PARSE_FAIL(p, t.column, near ? "there is no value '%s' above this line; did you mean '%s'?"
                                       : "there is no value '%s' above this line%s", t.text, near ? near : "");
}

/* Gives the new node its label, or notes that it has none. */
static int parse_label(struct parse_state *p, struct parse_scope *scope, const char *label, int column)
{
    char whole[2 * PARSE_NAME_BYTES];
    const int index = p->graph->node_count;
    struct gy_node *node = &p->graph->nodes[index];
    if (!label && node->layer == GY_LAYER_INPUT)
        label = "input";
    if (!label) {
        node->name = scope->prefix;
        p->unlabelled[index] = ++scope->unlabelled[node->layer];
        return GY_OK;
    }
    const int length = snprintf(whole, sizeof whole, "%s%s", scope->prefix, label);
    if (length > PARSE_NAME_BYTES)
        return PARSE_FAIL(p, column, "the name '%.40s...%s' has %d bytes; at most %d are allowed", whole, label, length,
                         PARSE_NAME_BYTES);
    const int other = gy_names_find(&p->names, whole);
    if (other >= 0)
        return PARSE_FAIL(p, column, "the name '%s' is taken by line %d", whole, p->graph->nodes[other].line);
    node->name = gy_arena_text(p->arena, whole, (size_t)length);
    if (!node->name)
        return GY_NOMEM(p->err, "a layer's name", (size_t)length + 1);
    gy_names_add(&p->names, index);
    return GY_OK;
}

/* ---- layers ---- */

static const char *parse_kind_name(int kind)
{
    static const char *const name[] = { "a whole number", "a whole number or HxW", "HxWxC", "a number", "" };
    return name[kind];
}

/* At most `want` whole numbers with 'x' between them. Returns how many, or 0 if it is malformed. */
static int parse_read_sizes(const char *text, const struct gy_option *o, int want, double *value)
{
    char part[PARSE_TOKEN_BYTES + 1];
    int64_t number;
    int count = 0;
    for (const char *at = text;; at++) {
        const size_t bytes = strcspn(at, "x");
        memcpy(part, at, bytes);
        part[bytes] = 0;
        if (count == want || gy_text_int(part, (int64_t)o->lo, (int64_t)o->hi, &number) != 0)
            return 0;
        value[count++] = (double)number;
        at += bytes;
        if (*at == 0)
            break;
    }
    if (count == 1)
        value[1] = value[0];
    return count;
}

static int parse_read_value(struct parse_state *p, struct gy_layer_use *use, const struct gy_option *o, int token)
{
    const struct parse_token *t = &p->token[token];
    double *value = use->value[o->slot];
    int good;
    if (o->kind == GY_KIND_REAL)
        good = gy_text_real(t->text, o->lo, o->hi, value) == 0;
    else {
        const int want = o->kind == GY_KIND_WHOLE ? 1 : o->kind == GY_KIND_PAIR ? 2 : 3;
        const int count = parse_read_sizes(t->text, o, want, value);
        good = count == want || (count == 1 && want == 2);
    }
    if (!good)
        return PARSE_FAIL(p, t->column, "'%s' is not %s from %g to %.10g (%s: %s)", t->text, parse_kind_name(o->kind),
                          o->lo, o->hi, gy_layer_name(use->node->layer), o->word ? o->word : o->about);
    use->column[o->slot] = t->column;
    return GY_OK;
}

/* The option that a word begins, or NULL. */
static const struct gy_option *parse_option(const struct gy_layer_row *row, const char *word)
{
    for (int i = 0; i < row->option_count; i++)
        if (row->options[i].word && strcmp(row->options[i].word, word) == 0)
            return &row->options[i];
    return NULL;
}

static int parse_fail_option(const struct parse_state *p, const struct gy_layer_row *row, const struct parse_token *t)
{
    const char *words[16] = { "from" };
    size_t count = row->shape == gy_layer_row(GY_LAYER_INPUT)->shape ? 0 : 1;
    for (int i = 0; i < row->option_count && count < GY_COUNT(words); i++)
        if (row->options[i].word)
            words[count++] = row->options[i].word;
    const char *near = gy_text_nearest(t->text, words, count);
    return PARSE_FAIL(p, t->column,
                      near ? "'%s' is no option of '%s'; did you mean '%s'?" : "'%s' is no option of '%s'%s", t->text,
                      row->word, near ? near : "");
}

/* Values without a word, right behind the layer's word. */
static int parse_read_values(struct parse_state *p, struct gy_layer_use *use, const struct gy_layer_row *row, int *at)
{
    for (int i = 0; i < row->option_count; i++) {
        const struct gy_option *o = &row->options[i];
        if (o->word) {
            use->value[o->slot][0] = use->value[o->slot][1] = o->initial;
            continue;
        }
        if (*at >= p->token_count)
            return PARSE_FAIL(p, use->node->column, "'%s' needs its %s: %s", row->word, o->about, row->usage);
        GY_TRY(parse_read_value(p, use, o, (*at)++));
    }
    return GY_OK;
}

/* A named value becomes an input of the node; token may be behind the line's end. */
static int parse_read_input(struct parse_state *p, const struct parse_scope *scope, int token, int *input)
{
    if (token >= p->token_count)
        return PARSE_FAIL(p, p->token[p->token_count - 1].column, "a name must follow '%s'",
                          p->token[p->token_count - 1].text);
    const int node = parse_find(p, scope, p->token[token].text);
    if (node < 0)
        return parse_fail_value(p, scope, &p->token[token]);
    *input = node;
    return GY_OK;
}

/* The names that 'add' and 'concat' take. */
static int parse_read_names(struct parse_state *p, struct gy_node *node, const struct gy_layer_row *row,
                           const struct parse_scope *scope, int *at)
{
    int names = 0;
    for (; row->names_hi > 0 && *at < p->token_count && !parse_is(p, *at, "from"); ++*at, names++) {
        if (names == row->names_hi)
            return PARSE_FAIL(p, p->token[*at].column, "'%s' takes at most %d names", row->word, row->names_hi);
        GY_TRY(parse_read_input(p, scope, *at, &node->input[node->input_count++]));
    }
    if (names < row->names_lo)
        return PARSE_FAIL(p, node->column, "'%s' needs the name of another value: %s", row->word, row->usage);
    return GY_OK;
}

static int parse_read_options(struct parse_state *p, struct gy_layer_use *use, const struct gy_layer_row *row,
                             const struct parse_scope *scope, int at)
{
    int from = 0;
    while (at < p->token_count) {
        const struct parse_token *t = &p->token[at++];
        const struct gy_option *o = parse_option(row, t->text);
        const int is_from = strcmp(t->text, "from") == 0 && use->node->layer != GY_LAYER_INPUT;
        if (!o && !is_from)
            return parse_fail_option(p, row, t);
        if (o ? use->column[o->slot] : from++)
            return PARSE_FAIL(p, t->column, "'%s' is given twice", t->text);
        if (is_from)
            GY_TRY(parse_read_input(p, scope, at++, &use->node->input[0]));
        else if (o->kind == GY_KIND_FLAG)
            use->column[o->slot] = t->column;
        else if (at >= p->token_count)
            return PARSE_FAIL(p, t->column, "'%s' needs a value: %s", t->text, parse_kind_name(o->kind));
        else
            GY_TRY(parse_read_value(p, use, o, at++));
    }
    return GY_OK;
}

/* Input comes first and once; nothing follows a loss. */
static int parse_check_order(const struct parse_state *p, int layer, int column)
{
    const int count = p->graph->node_count;
    const int before = count ? p->graph->nodes[count - 1].layer : -1;
    if (count == 0 && layer != GY_LAYER_INPUT)
        return PARSE_FAIL(p, column, "the first layer is '%s'; it must be the input: input HxWxC",
                          gy_layer_name(layer));
    if (count > 0 && layer == GY_LAYER_INPUT)
        return PARSE_FAIL(p, column, "'input' stands only once, in the first line");
    if (before == GY_LAYER_SOFTMAX || before == GY_LAYER_MSE)
        return PARSE_FAIL(p, column, "'%s' comes after the loss '%s' of line %d, which must be the last layer",
                          gy_layer_name(layer), gy_layer_name(before), p->graph->nodes[count - 1].line);
    return GY_OK;
}

/* The label in token 0 when there is one: *label is set and the colon cut off. */
static int parse_read_label(struct parse_state *p, const char **label)
{
    struct parse_token *t = &p->token[0];
    char *colon = strchr(t->text, ':');
    *label = NULL;
    if (!colon)
        return GY_OK;
    if (colon[1] != 0)
        return PARSE_FAIL(p, t->column, "'%s': put a blank behind the ':' of a name", t->text);
    *colon = 0;
    GY_TRY(parse_check_name(p, t->text, t->column));
    if (p->token_count == 1)
        return PARSE_FAIL(p, t->column, "a layer must follow '%s:'", t->text);
    *label = t->text;
    return GY_OK;
}

static int parse_find_layer(const struct parse_state *p, const struct parse_token *word, int *layer)
{
    *layer = gy_layer_find(word->text);
    return *layer >= 0 ? parse_check_order(p, *layer, word->column) : parse_fail_word(p, word);
}

/* One line becomes the next node. The label's text is copied before the tokens are used on. */
static int parse_layer(struct parse_state *p, int index, struct parse_scope *scope)
{
    const char *label;
    int layer;
    GY_TRY(parse_split(p, index));
    GY_TRY(parse_read_label(p, &label));
    int at = label ? 1 : 0;
    const struct parse_token *word = &p->token[at++];
    GY_TRY(parse_find_layer(p, word, &layer));
    struct gy_node *node = &p->graph->nodes[p->graph->node_count];
    *node = (struct gy_node){ .layer = layer, .line = p->line, .column = word->column, .input = { p->current },
                              .input_count = layer != GY_LAYER_INPUT, .weight = -1, .bias = -1, .run_mean = -1,
                              .run_var = -1 };
    struct gy_layer_use use = { .graph = p->graph, .node = node, .source = p->source, .err = p->err };
    const struct gy_layer_row *row = gy_layer_row(layer);
    GY_TRY(parse_read_values(p, &use, row, &at));
    GY_TRY(parse_read_names(p, node, row, scope, &at));
    GY_TRY(parse_read_options(p, &use, row, scope, at));
    GY_TRY(row->shape(&use));
    GY_TRY(parse_label(p, scope, label, p->token[0].column));
    p->current = p->graph->node_count++;
    return GY_OK;
}

static int parse_open_scope(struct parse_state *p, const struct parse_scope *outer, const struct parse_header *header,
                            int64_t copy, struct parse_scope *scope)
{
    char prefix[2 * PARSE_NAME_BYTES];
    const int length = header->repeat
                           ? snprintf(prefix, sizeof prefix, "%s%s.%d.", outer->prefix, header->name, (int)copy)
                           : snprintf(prefix, sizeof prefix, "%s%s.", outer->prefix, header->name);
    if (length > PARSE_NAME_BYTES)
        return PARSE_FAIL(p, p->token[0].column, "names in this block begin with %d bytes; a name has at most %d",
                          length, PARSE_NAME_BYTES);
    memset(scope, 0, sizeof *scope);
    scope->outer = outer;
    scope->in = p->current;
    scope->prefix = gy_arena_text(p->arena, prefix, (size_t)length);
    return scope->prefix ? GY_OK : GY_NOMEM(p->err, "a block's name", (size_t)length + 1);
}

/* The statements of lines [first, end). Recursion is as deep as blocks are nested. */
static int parse_run(struct parse_state *p, int first, int end, struct parse_scope *scope)
{
    for (int i = first; i < end; i++) {
        if (p->lines[i].close < 0) {
            GY_TRY(parse_layer(p, i, scope));
            continue;
        }
        struct parse_header header;
        GY_TRY(parse_split(p, i));
        GY_TRY(parse_read_header(p, &header));
        if (p->graph->node_count == 0)
            return PARSE_FAIL(p, p->token[0].column, "the first line must be the input, before any block: input HxWxC");
        for (int64_t copy = header.first; copy <= header.last; copy++) {
            struct parse_scope inner;
            GY_TRY(parse_open_scope(p, scope, &header, copy, &inner));
            GY_TRY(parse_run(p, i + 1, p->lines[i].close, &inner));
        }
        i = p->lines[i].close;
    }
    return GY_OK;
}

static int parse_take_tables(struct parse_state *p)
{
    int64_t count = 0;
    GY_TRY(parse_count(p, 0, p->line_count, &count));
    p->node_room = (int)count;
    p->graph->nodes = gy_arena_take(p->arena, (size_t)count, sizeof *p->graph->nodes);
    p->unlabelled = gy_arena_take(p->arena, (size_t)count, sizeof *p->unlabelled);
    if (!p->graph->nodes || !p->unlabelled)
        return GY_NOMEM(p->err, "the table of layers", (size_t)count * sizeof *p->graph->nodes);
    return gy_names_open(&p->names, p->graph, p->node_room, p->arena, p->err);
}

GY_INT int gy_graph_parse(struct gy_graph *graph, struct gy_arena *arena, const char *text, size_t bytes,
                          const char *source, struct gy_error *err)
{
    struct gy_graph made = { 0 };
    struct parse_scope top = { .prefix = "" };
    struct parse_state p = { .graph = &made, .arena = arena, .source = source ? source : "net", .err = err, .line = 1 };
    if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) { /* a byte order mark */
        text += 3;
        bytes -= 3;
    }
    GY_TRY(parse_check_bytes(&p, text, bytes));
    GY_TRY(parse_find_lines(&p, text, bytes));
    p.line = 1;
    if (p.line_count == 0)
        return PARSE_FAIL(&p, 1, "the text has no layers");
    GY_TRY(parse_match_braces(&p));
    GY_TRY(parse_take_tables(&p));
    GY_TRY(parse_run(&p, 0, p.line_count, &top));
    GY_TRY(gy_graph_finish(&made, &p.names, p.unlabelled, arena, p.source, err));
    *graph = made;
    return GY_OK;
}
