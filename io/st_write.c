/* SPDX-License-Identifier: MIT */
/* st_write.c: writes safetensors. The header's text grows as tensors are declared; the first byte
 * of data fixes it and writes it out. Nothing is seen under the target's name before commit. */
#include "io/json.h"
#include "io/safetensors.h"

struct gy_st_writer {
    struct gy_alloc alloc;
    struct gy_outfile out;
    struct gy_buf header;      /* '{' and the members of all tensors so far */
    struct gy_buf meta;        /* members of __metadata__ so far */
    struct gy_buf names;       /* every tensor's name with its NUL */
    size_t *name_at;           /* [room]: where each name begins in names */
    int32_t *order;            /* [room]: scratch for the search of equal names */
    int32_t count, room;
    size_t declared, written;  /* bytes of data */
    int begun;                 /* the header is written */
    int status;                /* first error */
};

GY_INT int gy_st_create(struct gy_st_writer **out, const struct gy_alloc *alloc, const char *path, struct gy_error *err)
{
    struct gy_st_writer *writer = gy_alloc_take(alloc, 1, sizeof *writer);
    if (!writer)
        return GY_NOMEM(err, "safetensors writer", sizeof *writer);
    const int status = gy_outfile_open(&writer->out, path, err);
    if (status != GY_OK) {
        gy_alloc_free(alloc, writer, sizeof *writer);
        return status;
    }
    writer->alloc = *alloc;
    gy_buf_open(&writer->header, alloc);
    gy_buf_open(&writer->meta, alloc);
    gy_buf_open(&writer->names, alloc);
    *out = writer;
    return GY_OK;
}

GY_INT void gy_st_abandon(struct gy_st_writer *writer)
{
    if (!writer)
        return;
    const struct gy_alloc alloc = writer->alloc;
    gy_outfile_abandon(&writer->out);
    gy_alloc_free(&alloc, writer->order, (size_t)writer->room * sizeof(int32_t));
    gy_alloc_free(&alloc, writer->name_at, (size_t)writer->room * sizeof(size_t));
    gy_buf_close(&writer->names);
    gy_buf_close(&writer->meta);
    gy_buf_close(&writer->header);
    gy_alloc_free(&alloc, writer, sizeof *writer);
}

static int stw_buffers(const struct gy_st_writer *writer, struct gy_error *err)
{
    if (writer->header.failed || writer->meta.failed || writer->names.failed)
        return GY_NOMEM(err, "safetensors header", writer->header.bytes + writer->meta.bytes);
    return GY_OK;
}

GY_INT int gy_st_add_meta(struct gy_st_writer *writer, const char *key, const char *value, struct gy_error *err)
{
    if (writer->begun)
        return GY_FAIL(err, GY_E_STATE, "%s: metadata \"%s\" is added after data", writer->out.path, key);
    struct gy_sink sink = gy_sink_buf(&writer->meta);
    if (writer->meta.bytes > 0)
        gy_sink_printf(&sink, ",");
    gy_print_json_text(key, &sink);
    gy_sink_printf(&sink, ":");
    gy_print_json_text(value, &sink);
    return stw_buffers(writer, err);
}

/* Room for one more name. The two lists grow together. */
static int stw_grow(struct gy_st_writer *writer, struct gy_error *err)
{
    if (writer->count < writer->room)
        return GY_OK;
    const int32_t wider = writer->room == 0 ? 64 : writer->room * 2;
    size_t *name_at = gy_alloc_take(&writer->alloc, (size_t)wider, sizeof(size_t));
    int32_t *order = gy_alloc_take(&writer->alloc, (size_t)wider, sizeof(int32_t));
    if (!name_at || !order) {
        gy_alloc_free(&writer->alloc, name_at, (size_t)wider * sizeof(size_t));
        gy_alloc_free(&writer->alloc, order, (size_t)wider * sizeof(int32_t));
        return GY_NOMEM(err, "safetensors header", (size_t)wider * (sizeof(size_t) + sizeof(int32_t)));
    }
    if (writer->count > 0)
        memcpy(name_at, writer->name_at, (size_t)writer->count * sizeof(size_t));
    gy_alloc_free(&writer->alloc, writer->name_at, (size_t)writer->room * sizeof(size_t));
    gy_alloc_free(&writer->alloc, writer->order, (size_t)writer->room * sizeof(int32_t));
    writer->name_at = name_at;
    writer->order = order;
    writer->room = wider;
    return GY_OK;
}

/* Bytes of the tensor, after every check that needs no memory. */
static int stw_check(const struct gy_st_writer *writer, const char *name, int type, const int64_t *shape, int dims,
                     size_t *bytes, struct gy_error *err)
{
    char show[128];
    const int element = gy_st_element_bytes(type);
    int64_t count = element;
    gy_st_show(show, name);
    if (writer->begun)
        return GY_FAIL(err, GY_E_STATE, "%s: tensor \"%s\" is declared after data", writer->out.path, show);
    if (element == 0 || dims < 0 || dims > GY_ST_DIMS)
        return GY_FAIL(err, GY_E_ARG, "%s: tensor \"%s\" of type %d with %d dimensions cannot be written",
                       writer->out.path, show, type, dims);
    if (!gy_utf8_valid(name) || strcmp(name, "__metadata__") == 0)
        return GY_FAIL(err, GY_E_ARG, "%s: \"%s\" cannot be a tensor's name", writer->out.path, show);
    for (int i = 0; i < dims; i++)
        if (gy_mul_count(count, shape[i], &count) != 0)
            return GY_FAIL(err, GY_E_ARG, "%s: tensor \"%s\": dimension %d is %" PRId64, writer->out.path, show, i,
                           shape[i]);
    if ((uint64_t)count > SIZE_MAX / 2 - writer->declared)
        return GY_FAIL(err, GY_E_ARG, "%s: too many bytes at tensor \"%s\"", writer->out.path, show);
    *bytes = (size_t)count;
    return GY_OK;
}

GY_INT int gy_st_declare(struct gy_st_writer *writer, const char *name, int type, const int64_t *shape, int dims,
                         struct gy_error *err)
{
    size_t bytes = 0;
    GY_TRY(stw_check(writer, name, type, shape, dims, &bytes, err));
    GY_TRY(stw_grow(writer, err));
    writer->name_at[writer->count] = writer->names.bytes;
    gy_buf_add(&writer->names, name, strlen(name) + 1);
    struct gy_sink sink = gy_sink_buf(&writer->header);
    if (writer->count > 0)
        gy_sink_printf(&sink, ",");
    gy_print_json_text(name, &sink);
    gy_sink_printf(&sink, ":{\"dtype\":\"%s\",\"shape\":[", gy_st_dtype(type));
    for (int i = 0; i < dims; i++)
        gy_sink_printf(&sink, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    gy_sink_printf(&sink, "],\"data_offsets\":[%zu,%zu]}", writer->declared, writer->declared + bytes);
    GY_TRY(stw_buffers(writer, err));
    writer->declared += bytes;
    writer->count++;
    return GY_OK;
}

static int stw_less(const void *context, int32_t a, int32_t b)
{
    const struct gy_st_writer *writer = context;
    return strcmp(writer->names.text + writer->name_at[a], writer->names.text + writer->name_at[b]) < 0;
}

static int stw_check_names(struct gy_st_writer *writer, struct gy_error *err)
{
    char show[128];
    for (int32_t i = 0; i < writer->count; i++)
        writer->order[i] = i;
    gy_st_sort(writer->order, writer->count, stw_less, writer);
    for (int32_t i = 1; i < writer->count; i++)
        if (!stw_less(writer, writer->order[i - 1], writer->order[i]))
            return GY_FAIL(err, GY_E_ARG, "%s: tensor \"%s\" is declared twice", writer->out.path,
                           gy_st_show(show, writer->names.text + writer->name_at[writer->order[i]]));
    return GY_OK;
}

/* Writes length and header; the data section then begins at a multiple of 8. */
static int stw_begin(struct gy_st_writer *writer, struct gy_error *err)
{
    struct gy_buf text;
    unsigned char length[8];
    GY_TRY(stw_check_names(writer, err));
    gy_buf_open(&text, &writer->alloc);
    gy_buf_printf(&text, "{");
    if (writer->meta.bytes > 0) {
        gy_buf_printf(&text, "\"__metadata__\":{");
        gy_buf_add(&text, writer->meta.text, writer->meta.bytes);
        gy_buf_printf(&text, writer->count > 0 ? "}," : "}");
    }
    if (writer->count > 0)
        gy_buf_add(&text, writer->header.text, writer->header.bytes);
    gy_buf_printf(&text, "}");
    while (!text.failed && text.bytes % 8 != 0)
        gy_buf_add(&text, " ", 1);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)((uint64_t)text.bytes >> 8 * i);
    int status = text.failed ? GY_NOMEM(err, "safetensors header", text.bytes) : GY_OK;
    if (status == GY_OK && text.bytes > GY_ST_MAX_HEADER)
        status = GY_FAIL(err, GY_E_ARG, "%s: header of %zu bytes, at most %d allowed", writer->out.path, text.bytes,
                         GY_ST_MAX_HEADER);
    if (status == GY_OK)
        status = gy_outfile_write(&writer->out, length, sizeof length, err);
    if (status == GY_OK)
        status = gy_outfile_write(&writer->out, text.text, text.bytes, err);
    gy_buf_close(&text);
    writer->begun = status == GY_OK;
    return status;
}

/* The body of gy_st_write, without the sticky status. */
static int stw_write(struct gy_st_writer *writer, const void *data, size_t bytes, struct gy_error *err)
{
    if (!writer->begun)
        GY_TRY(stw_begin(writer, err));
    if (bytes > writer->declared - writer->written)
        return GY_FAIL(err, GY_E_BUG, "%s: %zu bytes of data after %zu, but %zu were declared", writer->out.path, bytes,
                       writer->written, writer->declared);
    GY_TRY(gy_outfile_write(&writer->out, data, bytes, err));
    writer->written += bytes;
    return GY_OK;
}

GY_INT int gy_st_write(struct gy_st_writer *writer, const void *data, size_t bytes, struct gy_error *err)
{
    if (writer->status != GY_OK)
        return GY_FAIL(err, writer->status, "%s: writing failed before", writer->out.path);
    writer->status = stw_write(writer, data, bytes, err);
    return writer->status;
}

GY_INT int gy_st_commit(struct gy_st_writer *writer, struct gy_error *err)
{
    int status = gy_st_write(writer, "", 0, err);
    if (status == GY_OK && writer->written != writer->declared)
        status = GY_FAIL(err, GY_E_BUG, "%s: %zu bytes of data were written, but %zu were declared", writer->out.path,
                         writer->written, writer->declared);
    if (status == GY_OK)
        status = gy_outfile_commit(&writer->out, err);
    gy_st_abandon(writer);
    return status;
}
