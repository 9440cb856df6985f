/* SPDX-License-Identifier: MIT */
/* safetensors.c: reads safetensors. It walks the header once. Then it sorts tensors by place, which
 * proves that they tile the data section without gap or overlap. It sorts them by name, which
 * proves that no name occurs twice and makes finding a binary search. */
#include "io/safetensors.h"
#include "io/json.h"

struct st_pair {
    const char *key, *value;
};

struct gy_st_file {
    struct gy_alloc alloc;
    struct gy_file file;           /* or memory */
    const char *name;              /* for sentences; valid only while opening */
    uint64_t data_at, data_bytes;  /* the data section */
    size_t text_bytes, text_used;  /* decoded names and metadata; never longer than the header */
    char *text;
    struct gy_st_tensor *tensors;  /* in the header's order */
    struct st_pair *pairs;
    int32_t tensor_count, tensor_room, pair_count, pair_room;
    int32_t *by_name, *by_key;     /* indexes, sorted */
    int has_meta;
};

/* What a dtype word means; words that Gyre does not compute with are known by their size only. */
static const struct st_dtype {
    const char *word;
    int bits, type;
} st_dtypes[] = {
    {"F32", 32, GY_ST_F32},      {"F16", 16, GY_ST_F16},       {"BF16", 16, GY_ST_BF16},    {"F64", 64, GY_ST_F64},
    {"I64", 64, GY_ST_I64},      {"I32", 32, GY_ST_I32},       {"U8", 8, GY_ST_U8},         {"BOOL", 8, GY_ST_OTHER},
    {"I8", 8, GY_ST_OTHER},      {"I16", 16, GY_ST_OTHER},     {"U16", 16, GY_ST_OTHER},    {"U32", 32, GY_ST_OTHER},
    {"U64", 64, GY_ST_OTHER},    {"C64", 64, GY_ST_OTHER},     {"F8_E4M3", 8, GY_ST_OTHER}, {"F8_E5M2", 8, GY_ST_OTHER},
    {"F8_E8M0", 8, GY_ST_OTHER}, {"F6_E2M3", 6, GY_ST_OTHER},  {"F6_E3M2", 6, GY_ST_OTHER}, {"F4", 4, GY_ST_OTHER},
    {"F8_E4M3FNUZ", 8, GY_ST_OTHER}, {"F8_E5M2FNUZ", 8, GY_ST_OTHER},
};

GY_INT int gy_st_element_bytes(int type)
{
    return type >= 0 && type < GY_ST_OTHER ? st_dtypes[type].bits / 8 : 0;
}

GY_INT const char *gy_st_dtype(int type)
{
    return type >= 0 && type < GY_ST_OTHER ? st_dtypes[type].word : NULL;
}

GY_INT const char *gy_st_show(char buf[128], const char *name)
{
    size_t i = 0;
    for (; i < 96 && name[i] != 0; i++)
        buf[i] = (unsigned char)name[i] < 0x20 || name[i] == 0x7F ? '?' : name[i];
    memcpy(buf + i, name[i] != 0 ? "..." : "", name[i] != 0 ? 4 : 1);
    return buf;
}

/* Lets order[at] sink to its place among order[at..count). */
static void st_sink(int32_t *order, int32_t at, int32_t count, int (*less)(const void *, int32_t, int32_t),
                    const void *context)
{
    for (int64_t child; (child = 2 * (int64_t)at + 1) < count; at = (int32_t)child) {
        if (child + 1 < count && less(context, order[child], order[child + 1]))
            child++;
        if (!less(context, order[at], order[child]))
            return;
        const int32_t swap = order[at];
        order[at] = order[child];
        order[child] = swap;
    }
}

GY_INT void gy_st_sort(int32_t *order, int32_t count, int (*less)(const void *context, int32_t a, int32_t b),
                       const void *context)
{
    for (int32_t i = count / 2; i-- > 0;)
        st_sink(order, i, count, less, context);
    for (int32_t last = count - 1; last > 0; last--) {
        const int32_t swap = order[0];
        order[0] = order[last];
        order[last] = swap;
        st_sink(order, 0, last, less, context);
    }
}

static int st_less_name(const void *context, int32_t a, int32_t b)
{
    const struct gy_st_tensor *tensors = context;
    return strcmp(tensors[a].name, tensors[b].name) < 0;
}

static int st_less_key(const void *context, int32_t a, int32_t b)
{
    const struct st_pair *pairs = context;
    return strcmp(pairs[a].key, pairs[b].key) < 0;
}

/* By first byte, then by end: empty tensors stand before the one that begins at the same place. */
static int st_less_place(const void *context, int32_t a, int32_t b)
{
    const struct gy_st_tensor *tensors = context;
    const uint64_t x = tensors[a].at, y = tensors[b].at;
    return x != y ? x < y : tensors[a].bytes < tensors[b].bytes;
}

/* A string of the header, kept. */
static int st_text(struct gy_st_file *file, struct gy_json *json, const char **out)
{
    size_t bytes;
    char *place = file->text + file->text_used;
    GY_TRY(gy_json_string(json, place, &bytes));
    file->text_used += bytes + 1;
    *out = place;
    return GY_OK;
}

/* Room for one more element in a list of the file; the new element is zeroed. */
static int st_grow(struct gy_st_file *file, void **list, int32_t count, int32_t *room, size_t elem_bytes,
                   struct gy_error *err)
{
    if (count == *room) {
        const int32_t wider = *room == 0 ? 64 : *room * 2; /* 10^8 bytes hold far fewer than 2^30 */
        void *grown = gy_alloc_grow(&file->alloc, *list, (size_t)*room, (size_t)wider, elem_bytes);
        if (!grown)
            return GY_NOMEM(err, "safetensors header", (size_t)wider * elem_bytes);
        *list = grown;
        *room = wider;
    }
    memset((unsigned char *)*list + (size_t)count * elem_bytes, 0, elem_bytes);
    return GY_OK;
}

/* The object after "__metadata__": text to text. */
static int st_read_meta(struct gy_st_file *file, struct gy_json *json)
{
    int64_t seen = 0;
    if (file->has_meta)
        return gy_json_fail(json, "a second \"__metadata__\"");
    file->has_meta = 1;
    GY_TRY(gy_json_take(json, '{'));
    for (int more;;) {
        void *list = file->pairs;
        GY_TRY(gy_json_more(json, '}', &seen, &more));
        if (!more)
            return GY_OK;
        GY_TRY(st_grow(file, &list, file->pair_count, &file->pair_room, sizeof(struct st_pair), json->err));
        file->pairs = list;
        struct st_pair *pair = &file->pairs[file->pair_count];
        GY_TRY(st_text(file, json, &pair->key));
        GY_TRY(gy_json_take(json, ':'));
        GY_TRY(st_text(file, json, &pair->value));
        file->pair_count++;
    }
}

static int st_read_dtype(struct gy_json *json, const char *name, int *index)
{
    char word[128], show[128];
    size_t bytes;
    const unsigned char *begin = json->at;
    GY_TRY(gy_json_string(json, NULL, &bytes));
    if (bytes < sizeof word) {
        json->at = begin;
        GY_TRY(gy_json_string(json, word, &bytes));
        for (*index = 0; *index < (int)GY_COUNT(st_dtypes); ++*index)
            if (strcmp(word, st_dtypes[*index].word) == 0)
                return GY_OK;
    }
    return GY_FAIL(json->err, GY_E_UNSUPPORTED, "%s: tensor \"%s\" has an unknown dtype of %zu bytes: \"%.24s\"",
                   json->source, gy_st_show(show, name), bytes, bytes < sizeof word ? word : "...");
}

static int st_read_shape(struct gy_json *json, struct gy_st_tensor *tensor)
{
    char show[128];
    int64_t seen = 0, side;
    tensor->count = 1;
    GY_TRY(gy_json_take(json, '['));
    for (int more;;) {
        GY_TRY(gy_json_more(json, ']', &seen, &more));
        if (!more)
            return GY_OK;
        if (seen > GY_ST_DIMS)
            return GY_FAIL(json->err, GY_E_UNSUPPORTED, "%s: tensor \"%s\" has more than %d dimensions", json->source,
                           gy_st_show(show, tensor->name), GY_ST_DIMS);
        GY_TRY(gy_json_count(json, &side));
        tensor->shape[tensor->dims++] = side;
        if (gy_mul_count(tensor->count, side, &tensor->count) != 0)
            return GY_FAIL(json->err, GY_E_FORMAT, "%s: tensor \"%s\" has more than 2^63 - 1 elements", json->source,
                           gy_st_show(show, tensor->name));
    }
}

static int st_read_offsets(struct gy_json *json, int64_t offsets[2])
{
    GY_TRY(gy_json_take(json, '['));
    GY_TRY(gy_json_count(json, &offsets[0]));
    GY_TRY(gy_json_take(json, ','));
    GY_TRY(gy_json_count(json, &offsets[1]));
    return gy_json_take(json, ']');
}

enum st_field { ST_DTYPE, ST_SHAPE, ST_OFFSETS, ST_FIELDS };

/* Type, shape and offsets agree with each other and with the file. */
static int st_check_tensor(const struct gy_st_file *file, struct gy_st_tensor *tensor, const struct st_dtype *dtype,
                           const int64_t offsets[2], struct gy_error *err)
{
    char show[128];
    const char *name = gy_st_show(show, tensor->name);
    int64_t bits;
    if (gy_mul_count(tensor->count, dtype->bits, &bits) != 0 || bits % 8 != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%s: tensor \"%s\" with %" PRId64 " elements of %d bits is no number of bytes",
                       file->name, name, tensor->count, dtype->bits);
    if (offsets[0] > offsets[1] || offsets[1] - offsets[0] != bits / 8)
        return GY_FAIL(err, GY_E_FORMAT, "%s: tensor \"%s\" lies at bytes %" PRId64 " to %" PRId64
                       " but its shape needs %" PRId64 " bytes", file->name, name, offsets[0], offsets[1], bits / 8);
    if ((uint64_t)offsets[1] > file->data_bytes)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: tensor \"%s\" ends at byte %" PRId64
                       " but the file holds %" PRIu64 " bytes of data", file->name, name, offsets[1], file->data_bytes);
    tensor->dtype = dtype->word;
    tensor->type = dtype->type;
    tensor->bytes = (size_t)(offsets[1] - offsets[0]);
    tensor->at = file->data_at + (uint64_t)offsets[0];
    tensor->data = file->file.bytes ? file->file.bytes + tensor->at : NULL;
    tensor->file = &file->file;
    return GY_OK;
}

/* The object after a tensor's name. Unknown members are skipped, as other readers do. */
static int st_read_tensor(struct gy_st_file *file, struct gy_json *json, struct gy_st_tensor *tensor)
{
    static const char *const fields[ST_FIELDS] = {"dtype", "shape", "data_offsets"};
    char key[128], show[128];
    int64_t seen = 0, offsets[2] = {0, 0};
    int more, found[ST_FIELDS] = {0}, dtype = 0;
    GY_TRY(gy_json_take(json, '{'));
    for (;;) {
        size_t bytes;
        int field = 0;
        GY_TRY(gy_json_more(json, '}', &seen, &more));
        if (!more)
            break;
        const unsigned char *begin = json->at;
        GY_TRY(gy_json_string(json, NULL, &bytes));
        if (bytes >= sizeof key)
            return gy_json_fail(json, "a member's name is too long");
        json->at = begin;
        GY_TRY(gy_json_string(json, key, &bytes));
        GY_TRY(gy_json_take(json, ':'));
        while (field < ST_FIELDS && strcmp(key, fields[field]) != 0)
            field++;
        if (field < ST_FIELDS && found[field]++)
            return gy_json_fail(json, "a member occurs twice");
        GY_TRY(field == ST_DTYPE     ? st_read_dtype(json, tensor->name, &dtype)
               : field == ST_SHAPE   ? st_read_shape(json, tensor)
               : field == ST_OFFSETS ? st_read_offsets(json, offsets)
                                     : gy_json_skip(json, 2));
    }
    for (int i = 0; i < ST_FIELDS; i++)
        if (!found[i])
            return GY_FAIL(json->err, GY_E_FORMAT, "%s: tensor \"%s\" has no \"%s\"", json->source,
                           gy_st_show(show, tensor->name), fields[i]);
    return st_check_tensor(file, tensor, &st_dtypes[dtype], offsets, json->err);
}

static int st_read_header(struct gy_st_file *file, struct gy_json *json)
{
    int64_t seen = 0;
    GY_TRY(gy_json_take(json, '{'));
    for (int more;;) {
        void *list = file->tensors;
        GY_TRY(gy_json_more(json, '}', &seen, &more));
        if (!more)
            return gy_json_finish(json);
        GY_TRY(st_grow(file, &list, file->tensor_count, &file->tensor_room, sizeof(struct gy_st_tensor), json->err));
        file->tensors = list;
        struct gy_st_tensor *tensor = &file->tensors[file->tensor_count];
        GY_TRY(st_text(file, json, &tensor->name));
        GY_TRY(gy_json_take(json, ':'));
        if (strcmp(tensor->name, "__metadata__") == 0) {
            GY_TRY(st_read_meta(file, json));
            continue;
        }
        GY_TRY(st_read_tensor(file, json, tensor));
        file->tensor_count++;
    }
}

/* *order = 0 .. count - 1, from the hook. */
static int st_order(const struct gy_st_file *file, int32_t count, int32_t **order, struct gy_error *err)
{
    *order = gy_alloc_take(&file->alloc, (size_t)count + 1, sizeof(int32_t));
    if (!*order)
        return GY_NOMEM(err, "safetensors index", ((size_t)count + 1) * sizeof(int32_t));
    for (int32_t i = 0; i < count; i++)
        (*order)[i] = i;
    return GY_OK;
}

/* Tensors must fill the data section without gaps. order: scratch, sorted here. */
static int st_check_places(const struct gy_st_file *file, int32_t *order, struct gy_error *err)
{
    char show[128];
    uint64_t end = 0;
    gy_st_sort(order, file->tensor_count, st_less_place, file->tensors);
    for (int32_t i = 0; i < file->tensor_count; i++) {
        const struct gy_st_tensor *tensor = &file->tensors[order[i]];
        const uint64_t begin = tensor->at - file->data_at;
        if (begin != end)
            return GY_FAIL(err, GY_E_FORMAT, "%s: tensor \"%s\" begins at byte %" PRIu64 ", %s the end of its neighbour, %" PRIu64,
                           file->name, gy_st_show(show, tensor->name), begin, begin > end ? "after" : "before", end);
        end = begin + tensor->bytes;
    }
    if (end != file->data_bytes)
        return GY_FAIL(err, GY_E_FORMAT, "%s: %" PRIu64 " bytes follow the last tensor, which ends at byte %" PRIu64 " of the data",
                       file->name, file->data_bytes - end, end);
    return GY_OK;
}

/* Sorts names and keys; equal ones are neighbours then. */
static int st_index(struct gy_st_file *file, struct gy_error *err)
{
    char show[128];
    GY_TRY(st_order(file, file->tensor_count, &file->by_name, err));
    GY_TRY(st_check_places(file, file->by_name, err));
    gy_st_sort(file->by_name, file->tensor_count, st_less_name, file->tensors);
    for (int32_t i = 1; i < file->tensor_count; i++)
        if (!st_less_name(file->tensors, file->by_name[i - 1], file->by_name[i]))
            return GY_FAIL(err, GY_E_FORMAT, "%s: tensor \"%s\" occurs twice", file->name,
                           gy_st_show(show, file->tensors[file->by_name[i]].name));
    GY_TRY(st_order(file, file->pair_count, &file->by_key, err));
    gy_st_sort(file->by_key, file->pair_count, st_less_key, file->pairs);
    for (int32_t i = 1; i < file->pair_count; i++)
        if (!st_less_key(file->pairs, file->by_key[i - 1], file->by_key[i]))
            return GY_FAIL(err, GY_E_FORMAT, "%s: metadata \"%s\" occurs twice", file->name,
                           gy_st_show(show, file->pairs[file->by_key[i]].key));
    return GY_OK;
}

/* Reads and checks the header, of that many bytes from byte 8 on. */
static int st_load_header(struct gy_st_file *file, size_t bytes, struct gy_error *err)
{
    struct gy_json json;
    unsigned char *text = gy_alloc_take(&file->alloc, bytes, 1);
    file->text_bytes = bytes;
    file->text = gy_alloc_take(&file->alloc, bytes, 1);
    int status = !text || !file->text ? GY_NOMEM(err, "safetensors header", bytes) : gy_file_read_at(&file->file, 8, text, bytes, err);
    if (status == GY_OK && text[0] != '{')
        status = GY_FAIL(err, GY_E_FORMAT, "%s: not a safetensors file: the header does not begin with '{'", file->name);
    if (status == GY_OK) {
        gy_json_open(&json, text, bytes, file->name, err);
        status = st_read_header(file, &json);
    }
    gy_alloc_free(&file->alloc, text, bytes);
    return status;
}

/* Finds the header, then reads and checks it. */
static int st_load(struct gy_st_file *file, struct gy_error *err)
{
    const uint64_t count = file->file.size;
    unsigned char head[8];
    uint64_t header = 0;
    if (count < 8)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: %" PRIu64 " bytes; a safetensors file has at least 10", file->name, count);
    GY_TRY(gy_file_read_at(&file->file, 0, head, sizeof head, err));
    for (int i = 8; i-- > 0;)
        header = header << 8 | head[i];
    if (header > GY_ST_MAX_HEADER)
        return GY_FAIL(err, GY_E_FORMAT, "%s: not a safetensors file: header of %" PRIu64 " bytes, at most %d allowed",
                       file->name, header, GY_ST_MAX_HEADER);
    if (header > count - 8)
        return GY_FAIL(err, GY_E_TRUNCATED, "%s: header of %" PRIu64 " bytes, but only %" PRIu64 " bytes follow", file->name,
                       header, count - 8);
    if (header < 2)
        return GY_FAIL(err, GY_E_FORMAT, "%s: not a safetensors file: the header does not begin with '{'", file->name);
    file->data_at = 8 + header;
    file->data_bytes = count - 8 - header;
    GY_TRY(st_load_header(file, (size_t)header, err));
    return st_index(file, err);
}

/* Takes the source over, whatever happens. */
static int st_take(struct gy_st_file **out, const struct gy_alloc *alloc, struct gy_file source, const char *name, struct gy_error *err)
{
    struct gy_st_file *file = gy_alloc_take(alloc, 1, sizeof *file);
    if (!file) {
        gy_file_close(&source);
        return GY_NOMEM(err, "safetensors file", sizeof *file);
    }
    file->alloc = *alloc;
    file->file = source;
    file->name = name;
    const int status = st_load(file, err);
    file->name = NULL;
    if (status != GY_OK)
        gy_st_close(file);
    else
        *out = file;
    return status;
}

GY_INT int gy_st_parse(struct gy_st_file **out, const struct gy_alloc *alloc, const unsigned char *bytes, size_t count,
                       const char *name, struct gy_error *err)
{
    return st_take(out, alloc, gy_file_of(bytes, count, name), name, err);
}

GY_INT int gy_st_open(struct gy_st_file **out, const struct gy_alloc *alloc, const char *path, struct gy_error *err)
{
    struct gy_file source;
    GY_TRY(gy_file_open(&source, path, err));
    return st_take(out, alloc, source, path, err);
}

GY_INT void gy_st_close(struct gy_st_file *file)
{
    if (!file)
        return;
    const struct gy_alloc alloc = file->alloc;
    gy_file_close(&file->file);
    gy_alloc_free(&alloc, file->by_key, ((size_t)file->pair_count + 1) * sizeof(int32_t));
    gy_alloc_free(&alloc, file->by_name, ((size_t)file->tensor_count + 1) * sizeof(int32_t));
    gy_alloc_free(&alloc, file->pairs, (size_t)file->pair_room * sizeof(struct st_pair));
    gy_alloc_free(&alloc, file->tensors, (size_t)file->tensor_room * sizeof(struct gy_st_tensor));
    gy_alloc_free(&alloc, file->text, file->text_bytes);
    gy_alloc_free(&alloc, file, sizeof *file);
}

GY_INT int gy_st_count(const struct gy_st_file *file) { return file->tensor_count; }

GY_INT const struct gy_st_tensor *gy_st_at(const struct gy_st_file *file, int index)
{
    return index >= 0 && index < file->tensor_count ? &file->tensors[index] : NULL;
}

GY_INT const struct gy_st_tensor *gy_st_find(const struct gy_st_file *file, const char *name)
{
    int32_t low = 0, high = file->tensor_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const struct gy_st_tensor *tensor = &file->tensors[file->by_name[middle]];
        const int order = strcmp(name, tensor->name);
        if (order == 0)
            return tensor;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

GY_INT const char *gy_st_meta(const struct gy_st_file *file, const char *key)
{
    int32_t low = 0, high = file->pair_count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        const struct st_pair *pair = &file->pairs[file->by_key[middle]];
        const int order = strcmp(key, pair->key);
        if (order == 0)
            return pair->value;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

GY_INT int gy_st_meta_count(const struct gy_st_file *file) { return file->pair_count; }

GY_INT const char *gy_st_meta_key(const struct gy_st_file *file, int index)
{
    return index >= 0 && index < file->pair_count ? file->pairs[index].key : NULL;
}
