/* SPDX-License-Identifier: MIT */
/* rows_text.h: what the text formats of sparse rows share, for the files of io/rows/ alone. A
 * source cuts text into pieces of whole lines. A format parses a piece into rows on any thread; it
 * knows only what the file's first line said. The last byte of a piece's text is a newline, and
 * GY_ROWS_PAD bytes behind it can be read. So no loop tests for the end: each ends at a newline,
 * and numbers are read a word of eight bytes at a time. */
#ifndef GY_ROWS_TEXT_H
#define GY_ROWS_TEXT_H
#include "engine/base/file.h"
#include "io/rows/blocks_pack.h"
#include "io/rows/convert.h"

#define GY_ROWS_PAD 64
#define GY_ROWS_CRITEO_TABLE 4096 /* integers below are looked up */

/* What is mended, or noted; the sentences are in rows_text.c. */
enum gy_rows_mend {
    GY_MEND_BLANK, GY_MEND_UNSORTED, GY_MEND_DUPLICATE, GY_MEND_QID, GY_MEND_MARK, GY_MEND_BEYOND, GY_MEND_COLLISION, GY_MEND_QUOTED, GY_MEND_COUNT
};

/* What a file's first line says. */
struct gy_rows_layout {
    int32_t columns; /* criteo, csv */
    int32_t label;   /* column of the label */
    unsigned char separator;
    int header;      /* the first line is no row */
};

struct gy_rows_settings { /* of a whole conversion; read-only while it runs */
    const struct gy_rows_format *format;
    int lenient, zero_based, hash_bits, label_column, header;
    uint64_t hash_seed;
    uint32_t features;     /* 0: any */
    uint32_t most;         /* then so many at most; UINT32_MAX: all that are read */
    /* [GY_ROWS_CRITEO_TABLE] what an integer's text becomes (criteo.c); NULL for other formats */
    uint32_t *criteo_word;
};

struct gy_rows_text { /* memory of text */
    unsigned char *bytes;
    size_t room;
};

/* A piece of text, and the rows it became. */
struct gy_rows_piece {
    const struct gy_rows_settings *settings;
    const struct gy_rows_layout *layout;
    const unsigned char *text; /* NULL: it is to be read (gy_rows_source_read) */
    size_t bytes;
    int64_t from;    /* where it stands in the file: the lines that begin in these bytes */
    size_t span;
    int file, first; /* number of the file; 1: its first piece */
    int added;       /* 1: the last newline is not the file's */
    uint32_t *start, *id;
    /* value is not filled in where format->ones; of kept rows NULL: all are `same` */
    float *label, *value;
    float same;
    int32_t rows;
    int64_t lines;
    const unsigned char *line; /* where the present line begins */
    /* how often, and the first one's line in this piece, from 0 */
    int64_t mend[GY_MEND_COUNT], mend_line[GY_MEND_COUNT];
    int status;                /* the line that was being read then is number `lines`, from 0 */
    int64_t column;            /* from 1 */
    struct gy_error error;
    /* of the conversion */
    struct gy_blocks_sum sum;  /* of all rows */
    struct gy_rows_slab *slab; /* where they are kept */
    int32_t used;              /* rows that blocks were made of */
    struct gy_rows_piece *next;
};

struct gy_rows_format {
    const char *name, *about;
    int ones;         /* every value is 1 */
    int entry_bytes;  /* fewest bytes of text of an entry */
    /* Reads a file's first line, whose newline is at end. The sentence of a failure says what the
     * line is; the caller adds the place. */
    int (*look)(struct gy_rows_layout *layout, const struct gy_rows_settings *settings, const unsigned char *line, const unsigned char *end,
                struct gy_error *err);
    /* 1: the line looks like this format. */
    int (*fits)(const unsigned char *line, const unsigned char *end);
    int (*parse)(struct gy_rows_piece *piece); /* its status */
};
GY_INT const struct gy_rows_format *gy_rows_svmlight(void);
GY_INT const struct gy_rows_format *gy_rows_libffm(void);
GY_INT const struct gy_rows_format *gy_rows_criteo(void);
GY_INT const struct gy_rows_format *gy_rows_csv(void);
GY_INT void gy_rows_criteo_words(uint32_t word[GY_ROWS_CRITEO_TABLE]);

/* ---- helpers of the parsers (rows_text.c) ---- */

/* Sets the piece's status, column and sentence; returns NULL, which parsers hand up. */
GY_INT const unsigned char *gy_rows_fail(struct gy_rows_piece *piece, const unsigned char *at, const char *fmt, ...) GY_PRINTF(3, 4);
/* The same for a word that is no number: what names it. */
GY_INT const unsigned char *gy_rows_fail_number(struct gy_rows_piece *piece, const unsigned char *at, const char *what);
GY_INT void gy_rows_note(struct gy_rows_piece *piece, enum gy_rows_mend kind, int64_t count);
GY_INT const char *gy_rows_mend_text(enum gy_rows_mend kind);
/* Reads the number [+-]digits[.digits][e[+-]digits] at p, rounded to double and then to float.
 * Returns the place behind it; NULL when there is no number or it is not finite. */
GY_INT const unsigned char *gy_rows_real(const unsigned char *p, float *value);
/* Digits at p; more than UINT64_MAX stays there. Returns the first character that is none. */
GY_INT const unsigned char *gy_rows_count(const unsigned char *p, uint64_t *value);
/* Sorts n entries by id and adds the values of equal ids (value NULL: drops all but one). Returns
 * how many are left. */
GY_INT uint32_t gy_rows_tidy(uint32_t *id, float *value, uint32_t n);
/* A blank line whose end is at p: p, or NULL where such a line is a failure. */
GY_INT const unsigned char *gy_rows_blank_line(struct gy_rows_piece *piece, const unsigned char *p);
static inline const unsigned char *gy_rows_blanks(const unsigned char *p)
{
    while (*p == ' ' || *p == '\t')
        p++;
    return p;
}
/* Bytes of a byte order mark that a text begins with: 3 or 0. */
static inline size_t gy_rows_mark(const unsigned char *text, size_t bytes)
{
    return bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}
/* 1: a line ends at p, "\n" or "\r\n". */
static inline int gy_rows_at_end(const unsigned char *p) { return *p == '\n' || (*p == '\r' && p[1] == '\n'); }
static inline const unsigned char *gy_rows_behind(const unsigned char *p) { return p + 1 + (*p == '\r'); }

static inline uint64_t gy_rows_word(const unsigned char *p)
{
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}
/* How many of the eight bytes, from the first on, are digits. */
static inline int gy_rows_digits(uint64_t word)
{
    const uint64_t low = word ^ 0x3030303030303030u, other = (low | (low + 0x7676767676767676u)) & 0x8080808080808080u;
    return other == 0 ? 8 : __builtin_ctzll(other) >> 3;
}
/* The number of eight digits 0 to 9, the first in the lowest byte. */
static inline uint32_t gy_rows_eight_digits(uint64_t word)
{
    word = word * 10 + (word >> 8);
    return (uint32_t)(((word & 0x000000ff000000ffu) * 0x000f424000000064u + (word >> 16 & 0x000000ff000000ffu) * 0x0000271000000001u) >> 32);
}
/* The number of the first n (1 to 8) bytes, which are digits. */
static inline uint32_t gy_rows_eight(uint64_t word, int n) { return gy_rows_eight_digits((word ^ 0x3030303030303030u) << (64 - 8 * n)); }
static inline const unsigned char *gy_rows_number(const unsigned char *p, float *value)
{
    const unsigned digit = (unsigned)p[0] - '0';
    if (digit <= 9 && p[1] <= ',') { /* the end of a number, or what no caller takes for one */
        *value = (float)digit;
        return p + 1;
    }
    return gy_rows_real(p, value);
}
static inline uint64_t gy_rows_mix(uint64_t x)
{
    x = (x ^ x >> 33) * 0xff51afd7ed558ccdu;
    x = (x ^ x >> 33) * 0xc4ceb9fe1a85ec53u;
    return x ^ x >> 33;
}

/* ---- text of a file, in pieces (rows_source.c) ---- */

struct gy_rows_bytes { /* a file that is in memory already */
    const char *name;
    const unsigned char *bytes;
    size_t count;
};
/* gy_convert from memory; config->from and files are not used. */
GY_INT int gy_convert_bytes(struct gy_blocks **out, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes, const struct gy_alloc *alloc,
                            struct gy_convert_report *report, struct gy_error *err);

struct gy_rows_source;
GY_INT int gy_rows_source_open(struct gy_rows_source **out, const struct gy_convert_config *config, const struct gy_rows_bytes *bytes,
                               const struct gy_alloc *alloc,
                               struct gy_error *err);
GY_INT void gy_rows_source_close(struct gy_rows_source *source); /* NULL is fine */
GY_INT const char *gy_rows_source_name(const struct gy_rows_source *source, int file);
GY_INT int64_t gy_rows_source_total(const struct gy_rows_source *source); /* bytes of the files */
GY_INT int64_t gy_rows_source_done(const struct gy_rows_source *source);  /* of these, handed out */
/* The beginning of the first file, as a piece's text; it stays until close. */
GY_INT int gy_rows_source_peek(struct gy_rows_source *source, const unsigned char **text, size_t *bytes, struct gy_error *err);
/* Fills in place, file, first and layout of the next piece. At the beginning of a file, and in all
 * of a .gz file, it also reads the piece's text into `text`. *more 0: there is no piece. */
GY_INT int gy_rows_source_next(struct gy_rows_source *source, const struct gy_rows_settings *settings, struct gy_rows_piece *piece, struct gy_rows_text *text,
                               int *more, struct gy_error *err);
/* Reads the text of a piece that has none yet. From any thread. */
GY_INT int gy_rows_source_read(const struct gy_rows_source *source, struct gy_rows_piece *piece, struct gy_rows_text *text, struct gy_error *err);

/* ---- rows of pieces in memory (rows_keep.c) ---- */

/* Of one thread; zeroed at first. */
struct gy_rows_keep {
    struct gy_rows_text text;
    uint32_t *memory;                          /* [count] arrays for the rows of `bytes` of text */
    size_t count, bytes, entries, rows;
    struct gy_rows_slab *slabs, *slab, *empty; /* all; the one being filled; those without rows */
};
/* Gives the piece arrays for all rows that its text can have. The thread's next piece uses them
 * again. */
GY_INT int gy_rows_keep_room(struct gy_rows_keep *keep, struct gy_rows_piece *piece, const struct gy_alloc *alloc, struct gy_error *err);
/* The piece's rows, which are summed up, get memory of their own. */
GY_INT int gy_rows_keep(struct gy_rows_keep *keep, struct gy_rows_piece *piece, const struct gy_alloc *alloc, struct gy_error *err);
GY_INT void gy_rows_let_go(struct gy_rows_piece *piece); /* while no thread keeps any */
GY_INT void gy_rows_keep_close(struct gy_rows_keep *keep, const struct gy_alloc *alloc);

/* ---- .gz (rows_inflate.c) ---- */

struct gy_inflate;
/* Of a .gz file of any number of members, which stays until close. */
GY_INT int gy_inflate_open(struct gy_inflate **out, const struct gy_file *file, const struct gy_alloc *alloc, struct gy_error *err);
/* Reads the next bytes of its content, at most room; fewer only at the end. Checks each member's
 * sum and length. */
GY_INT int gy_inflate_read(struct gy_inflate *inflate, unsigned char *out, size_t room, size_t *got, struct gy_error *err);
/* Bytes of the file that are used up. */
GY_INT uint64_t gy_inflate_taken(const struct gy_inflate *inflate);
GY_INT void gy_inflate_close(struct gy_inflate *inflate);

#endif
