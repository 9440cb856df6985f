/* SPDX-License-Identifier: MIT */
/* rows_inflate.c: decodes a .gz file (RFC 1952) of any size and any number of members, a window at
 * a time (RFC 1951), for rows_source.c. The window holds the last 32 kB, which matches may reach
 * back to, and what is decoded next; a reader takes from it. A code of up to 11 bits is looked up,
 * two literals at once where both fit. An entry says how many bits it takes and what they mean, so
 * one short loop decodes nearly all content. That loop leaves alone whatever is rare or wrong, and
 * the ends of file and window. There one symbol is decoded bit by bit, by counting codes of each
 * length. */
#include "engine/base/hash.h"
#include "io/rows/rows_text.h"

#define INFLATE_BACK ((size_t)32768)
#define INFLATE_WINDOW (8 * INFLATE_BACK)
/* left in the window when a symbol is decoded: for a match, and for bytes copied too far behind
 * it */
#define INFLATE_ROOM 320
#define INFLATE_FAST 11
#define INFLATE_FAST_FAR 9 /* of distances */
#define INFLATE_MASK ((1u << INFLATE_FAST) - 1)
#define INFLATE_MASK_FAR ((1u << INFLATE_FAST_FAR) - 1)
#define INFLATE_LONGEST 15
/* bytes of the file that are held: more than a stored block or a member's extra field */
#define INFLATE_INPUT ((size_t)1 << 18)
#define INFLATE_BEHIND 8                /* of those, bytes that were taken and may be given back */
#define INFLATE_AHEAD 16 /* bytes of the file that the short loop may read */

/* The entry of a code. Bits 0 to 3: length of the code; 4 to 7: how many bits behind it are added
 * to the value; 8 and 9: how many literals it is. Bits 16 to 31: the value, which is literals (the
 * first lowest), or a length, a distance, a number. */
#define INFLATE_EXTRA 4
#define INFLATE_LITERALS 8
#define INFLATE_VALUE 16

struct inflate_code {
    uint32_t fast[1 << INFLATE_FAST]; /* 0: longer, or no code, or one that ends the block */
    uint16_t count[INFLATE_LONGEST + 1], symbol[288];
};

enum inflate_state { INFLATE_MEMBER, INFLATE_BLOCK, INFLATE_STORED, INFLATE_CODES, INFLATE_TRAILER, INFLATE_END };

struct gy_inflate {
    struct gy_alloc alloc;
    const struct gy_file *file;
    uint64_t base;          /* place in the file of the first byte that is held */
    size_t count, at;       /* bytes that are held, and of them taken */
    struct gy_error broken; /* why the file could not be read on; status 0: it could */
    uint64_t word; /* the lowest `bits` bits are next */
    int bits, last, state;
    size_t stored; /* bytes left of a stored block */
    uint32_t crc, length;
    struct inflate_code literal, distance;
    size_t filled, taken; /* of the window: decoded, and handed out */
    unsigned char window[INFLATE_WINDOW];
    unsigned char bytes[INFLATE_INPUT];
};

static uint64_t inflate_place(const struct gy_inflate *z) { return z->base + z->at; }

/* Holds at least n bytes from `at` on, or all that the file still has. n: at most INFLATE_INPUT -
 * INFLATE_BEHIND. */
static void inflate_hold(struct gy_inflate *z, size_t n)
{
    const uint64_t left = z->file->size - z->base - z->count;
    if (z->count - z->at >= n || left == 0)
        return;
    const size_t drop = z->at > INFLATE_BEHIND ? z->at - INFLATE_BEHIND : 0, room = INFLATE_INPUT - (z->count - drop);
    const size_t some = left < room ? (size_t)left : room;
    memmove(z->bytes, z->bytes + drop, z->count - drop);
    z->base += drop;
    z->at -= drop;
    z->count -= drop;
    if (z->broken.status == GY_OK && gy_file_read_at(z->file, z->base + z->count, z->bytes + z->count, some, &z->broken) == GY_OK)
        z->count += some;
}

static int inflate_cut(const struct gy_inflate *z, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_TRUNCATED, "%s: the .gz file ends at byte %" PRIu64 ", inside its content", z->file->name, z->file->size);
}
static int inflate_bad(const struct gy_inflate *z, const char *what, struct gy_error *err)
{
    return GY_FAIL(err, GY_E_FORMAT, "%s: damaged .gz content before byte %" PRIu64 ": %s", z->file->name, inflate_place(z), what);
}

/* ---- bits ---- */

/* At least 48 bits wait then, or all that there are. */
static inline void inflate_fill(struct gy_inflate *z)
{
    inflate_hold(z, 8);
    if (z->count - z->at >= 8) {
        z->word |= gy_rows_word(z->bytes + z->at) << z->bits;
        const int taken = (63 - z->bits) >> 3;
        z->at += (size_t)taken;
        z->bits += 8 * taken;
        return;
    }
    for (; z->bits <= 56 && z->at < z->count; z->bits += 8)
        z->word |= (uint64_t)z->bytes[z->at++] << z->bits;
}
static inline uint32_t inflate_take(struct gy_inflate *z, int n)
{
    const uint32_t value = (uint32_t)(z->word & (((uint64_t)1 << n) - 1));
    z->word >>= n;
    z->bits -= n;
    return value;
}
/* n bits, at most 32; fewer are left: -1. */
static int64_t inflate_get(struct gy_inflate *z, int n)
{
    inflate_fill(z);
    return z->bits >= n ? (int64_t)inflate_take(z, n) : -1;
}

/* ---- codes ---- */

static uint32_t inflate_reverse(uint32_t code, int bits)
{
    uint32_t back = 0;
    for (; bits > 0; bits--, code >>= 1)
        back = back << 1 | (code & 1);
    return back;
}

/* What symbols mean; 0: nothing that is looked up. */
static uint32_t inflate_literal(int symbol)
{
    static const uint16_t base[29] = { 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258 };
    const int l = symbol - 257;
    if (symbol < 256)
        return (uint32_t)symbol << INFLATE_VALUE | 1 << INFLATE_LITERALS;
    return l < 0 || l > 28 ? 0 : (uint32_t)base[l] << INFLATE_VALUE | (uint32_t)(l < 8 || l == 28 ? 0 : l / 4 - 1) << INFLATE_EXTRA;
}
static uint32_t inflate_distance(int symbol)
{
    const int more = symbol < 4 ? 0 : symbol / 2 - 1;
    const uint32_t base = ((symbol < 4 ? (uint32_t)symbol : 2 + ((uint32_t)symbol & 1)) << more) + 1;
    return symbol > 29 ? 0 : base << INFLATE_VALUE | (uint32_t)more << INFLATE_EXTRA;
}

/* Makes a code from the lengths of n symbols. -1: the lengths give too many codes. Too few are
 * allowed: a missing code is an error only when it comes. */
static int inflate_make_code(struct inflate_code *c, const unsigned char *length, int n, uint32_t (*meaning)(int symbol), int fast)
{
    uint16_t next[INFLATE_LONGEST + 2] = { 0 }, first[INFLATE_LONGEST + 2] = { 0 };
    int left = 1;
    memset(c->count, 0, sizeof c->count);
    memset(c->fast, 0, sizeof *c->fast << fast);
    for (int i = 0; i < n; i++)
        c->count[length[i]]++;
    c->count[0] = 0;
    for (int bits = 1; bits <= INFLATE_LONGEST; bits++) {
        left = 2 * left - c->count[bits];
        if (left < 0)
            return -1;
        first[bits + 1] = (uint16_t)((first[bits] + c->count[bits]) << 1);
        next[bits + 1] = (uint16_t)(next[bits] + c->count[bits]);
    }
    for (int i = 0; i < n; i++) {
        const int bits = length[i];
        if (bits == 0)
            continue;
        const uint32_t found = bits <= fast ? meaning(i) : 0;
        c->symbol[next[bits]++] = (uint16_t)i;
        const uint32_t code = inflate_reverse(first[bits]++, bits);
        for (uint32_t k = code; found != 0 && k < 1u << fast; k += 1u << bits)
            c->fast[k] = found | (uint32_t)bits;
    }
    return 0;
}

/* Joins two literals into one entry where the second one's code lies in the same bits. It goes from
 * the highest place down, so the entries that it reads have not changed. */
static void inflate_pair(struct inflate_code *c)
{
    for (uint32_t k = 1u << INFLATE_FAST; k-- > 0;) {
        const uint32_t one = c->fast[k], bits = one & 15, two = c->fast[k >> bits], both = bits + (two & 15);
        if ((one >> INFLATE_LITERALS & 3) == 1 && (two >> INFLATE_LITERALS & 3) == 1 && both <= INFLATE_FAST)
            c->fast[k] = (one & 255u << INFLATE_VALUE) | (two & 255u << INFLATE_VALUE) << 8 | 2 << INFLATE_LITERALS | both;
    }
}

/* A code of more than INFLATE_FAST bits, or of fewer near the end; -1: none. */
static int inflate_slow(struct gy_inflate *z, const struct inflate_code *c)
{
    int code = 0, first = 0, index = 0;
    uint64_t word = z->word;
    for (int bits = 1; bits <= INFLATE_LONGEST && bits <= z->bits; bits++, word >>= 1) {
        code |= (int)(word & 1);
        if (code - first < c->count[bits]) {
            (void)inflate_take(z, bits);
            return c->symbol[index + code - first];
        }
        index += c->count[bits];
        first = (first + c->count[bits]) << 1;
        code <<= 1;
    }
    return -1;
}

static void inflate_fixed(struct gy_inflate *z)
{
    unsigned char length[288];
    for (int i = 0; i < 288; i++)
        length[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    (void)inflate_make_code(&z->literal, length, 288, inflate_literal, INFLATE_FAST);
    inflate_pair(&z->literal);
    memset(length, 5, 30);
    (void)inflate_make_code(&z->distance, length, 30, inflate_distance, INFLATE_FAST_FAR);
}

/* Lengths of `total` symbols, themselves in the code of z->literal. */
static int inflate_lengths(struct gy_inflate *z, unsigned char *length, int total, struct gy_error *err)
{
    static const struct { int bits, least; } repeat[3] = { { 2, 3 }, { 3, 3 }, { 7, 11 } };
    for (int n = 0; n < total;) {
        inflate_fill(z);
        const uint32_t found = z->literal.fast[z->word & INFLATE_MASK];
        const int symbol = (int)(found >> INFLATE_VALUE);
        if (found == 0 || (int)(found & 15) > z->bits)
            return z->at == z->count ? inflate_cut(z, err) : inflate_bad(z, "a code that is not there", err);
        (void)inflate_take(z, (int)(found & 15));
        if (symbol < 16) {
            length[n++] = (unsigned char)symbol;
            continue;
        }
        const int64_t more = inflate_get(z, repeat[symbol - 16].bits);
        const int times = repeat[symbol - 16].least + (int)more;
        if (more < 0)
            return inflate_cut(z, err);
        if (times > total - n || (symbol == 16 && n == 0))
            return inflate_bad(z, "lengths of codes are repeated too often", err);
        memset(length + n, symbol == 16 ? length[n - 1] : 0, (size_t)times);
        n += times;
    }
    return GY_OK;
}

static int inflate_dynamic(struct gy_inflate *z, struct gy_error *err)
{
    static const unsigned char order[19] = { 16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15 };
    unsigned char length[320] = { 0 };
    const int64_t head = inflate_get(z, 14);
    if (head < 0)
        return inflate_cut(z, err);
    const int literals = (int)(head & 31) + 257, distances = (int)(head >> 5 & 31) + 1, codes = (int)(head >> 10) + 4;
    if (literals > 286 || distances > 30)
        return inflate_bad(z, "too many codes", err);
    for (int i = 0; i < codes; i++) {
        const int64_t bits = inflate_get(z, 3);
        if (bits < 0)
            return inflate_cut(z, err);
        length[order[i]] = (unsigned char)bits;
    }
    if (inflate_make_code(&z->literal, length, 19, inflate_literal, INFLATE_FAST) != 0)
        return inflate_bad(z, "too many codes of a length", err);
    memset(length, 0, sizeof length);
    GY_TRY(inflate_lengths(z, length, literals + distances, err));
    if (length[256] == 0 || inflate_make_code(&z->literal, length, literals, inflate_literal, INFLATE_FAST) != 0 ||
        inflate_make_code(&z->distance, length + literals, distances, inflate_distance, INFLATE_FAST_FAR) != 0)
        return inflate_bad(z, "too many codes of a length, or no end", err);
    inflate_pair(&z->literal);
    return GY_OK;
}

/* ---- parts of a file ---- */

/* Skips n bytes; -1 when there are fewer. Whole bytes are read only where no bits wait. */
static int inflate_skip(struct gy_inflate *z, size_t n)
{
    inflate_hold(z, n);
    if (z->count - z->at < n)
        return -1;
    z->at += n;
    return 0;
}
static int inflate_skip_text(struct gy_inflate *z)
{
    for (;;) {
        inflate_hold(z, 1);
        const unsigned char *nul = z->at < z->count ? memchr(z->bytes + z->at, 0, z->count - z->at) : NULL;
        if (nul)
            return inflate_skip(z, (size_t)(nul - z->bytes) + 1 - z->at);
        if (z->at == z->count)
            return -1;
        z->at = z->count;
    }
}

static int inflate_member(struct gy_inflate *z, struct gy_error *err)
{
    inflate_hold(z, 18);
    const unsigned char *b = z->bytes + z->at;
    if (z->count - z->at < 18)
        return inflate_cut(z, err);
    if (b[0] != 0x1f || b[1] != 0x8b || b[2] != 8 || (b[3] & 224) != 0)
        return GY_FAIL(err, GY_E_FORMAT, "%s: not a .gz member at byte %" PRIu64 ": begins with %02x %02x %02x %02x", z->file->name, inflate_place(z),
                       b[0], b[1], b[2], b[3]);
    const int flags = b[3];
    z->at += 10;
    int cut = 0;
    if (flags & 4) {
        const size_t extra = z->count - z->at >= 2 ? (size_t)(b[10] | b[11] << 8) : 0;
        cut |= inflate_skip(z, 2 + extra);
    }
    cut |= flags & 8 ? inflate_skip_text(z) : 0;
    cut |= flags & 16 ? inflate_skip_text(z) : 0;
    cut |= flags & 2 ? inflate_skip(z, 2) : 0;
    z->crc = z->length = 0;
    z->state = INFLATE_BLOCK;
    return cut ? inflate_cut(z, err) : GY_OK;
}

/* Gives whole bytes that wait back, so that z->at is the next byte. */
static void inflate_to_byte(struct gy_inflate *z)
{
    z->at -= (size_t)(z->bits >> 3);
    z->word = 0;
    z->bits = 0;
}

static int inflate_block(struct gy_inflate *z, struct gy_error *err)
{
    const int64_t head = inflate_get(z, 3);
    if (head < 0)
        return inflate_cut(z, err);
    z->last = (int)(head & 1);
    z->state = INFLATE_CODES;
    if (head >> 1 == 1)
        inflate_fixed(z);
    else if (head >> 1 == 2)
        GY_TRY(inflate_dynamic(z, err));
    else if (head >> 1 == 3)
        return inflate_bad(z, "a block of no kind", err);
    else {
        inflate_to_byte(z);
        inflate_hold(z, 4);
        const unsigned char *b = z->bytes + z->at;
        if (inflate_skip(z, 4) != 0)
            return inflate_cut(z, err);
        z->stored = (size_t)(b[0] | b[1] << 8);
        if ((b[0] ^ b[2]) != 255 || (b[1] ^ b[3]) != 255)
            return inflate_bad(z, "the length of a stored block", err);
        z->state = INFLATE_STORED;
    }
    return GY_OK;
}

static int inflate_stored(struct gy_inflate *z, struct gy_error *err)
{
    size_t n = INFLATE_WINDOW - z->filled;
    n = n < z->stored ? n : z->stored;
    inflate_hold(z, n);
    if (z->count - z->at < n)
        return inflate_cut(z, err);
    memcpy(z->window + z->filled, z->bytes + z->at, n);
    z->at += n;
    z->filled += n;
    z->stored -= n;
    if (z->stored == 0)
        z->state = z->last ? INFLATE_TRAILER : INFLATE_BLOCK;
    return GY_OK;
}

/* The symbol of a length, 257 to 285: copies what lies so far behind. */
static int inflate_match(struct gy_inflate *z, int symbol, struct gy_error *err)
{
    const uint32_t l = inflate_literal(symbol);
    const int l_more = (int)(l >> INFLATE_EXTRA & 15);
    if (l == 0)
        return inflate_bad(z, "a length that is not there", err);
    if (z->bits < l_more)
        return inflate_cut(z, err);
    const size_t length = (l >> INFLATE_VALUE) + (size_t)inflate_take(z, l_more);
    inflate_fill(z);
    const int far = inflate_slow(z, &z->distance);
    const uint32_t d = far < 0 ? 0 : inflate_distance(far);
    const int d_more = (int)(d >> INFLATE_EXTRA & 15);
    if (d == 0 || z->bits < d_more)
        return z->at == z->count ? inflate_cut(z, err) : inflate_bad(z, "a distance that is not there", err);
    const size_t distance = (d >> INFLATE_VALUE) + (size_t)inflate_take(z, d_more);
    if (distance > z->filled)
        return inflate_bad(z, "a distance beyond the content", err);
    unsigned char *const to = z->window + z->filled;
    const unsigned char *const from = to - distance;
    for (size_t k = 0; k < length; k++)
        to[k] = from[k];
    z->filled += length;
    return GY_OK;
}

/* The bits that are next, in the short loop. */
struct inflate_bits {
    uint64_t word;
    int count;
    const unsigned char *in;
};
/* At least 56 wait then. */
static inline void inflate_refill(struct inflate_bits *b)
{
    b->word |= gy_rows_word(b->in) << b->count;
    b->in += (63 - b->count) >> 3;
    b->count |= 56;
}
static inline uint32_t inflate_drop(struct inflate_bits *b, uint32_t n)
{
    const uint32_t value = (uint32_t)(b->word & (((uint64_t)1 << n) - 1));
    b->word >>= n;
    b->count -= (int)n;
    return value;
}
/* Value and further bits of what was found. */
static inline uint32_t inflate_value(struct inflate_bits *b, uint32_t found)
{
    (void)inflate_drop(b, found & 15);
    return (found >> INFLATE_VALUE) + inflate_drop(b, found >> INFLATE_EXTRA & 15);
}
/* Puts the literals that were found; 0: it is none. */
static inline int inflate_put(struct inflate_bits *b, uint32_t found, unsigned char **out)
{
    if ((found & 3 << INFLATE_LITERALS) == 0)
        return 0;
    (*out)[0] = (unsigned char)(found >> INFLATE_VALUE);
    (*out)[1] = (unsigned char)(found >> (INFLATE_VALUE + 8));
    *out += found >> INFLATE_LITERALS & 3;
    (void)inflate_drop(b, found & 15);
    return 1;
}

/* In wide pieces, up to 15 bytes too far. */
static inline void inflate_copy(unsigned char *to, size_t distance, size_t length)
{
    const unsigned char *from = to - distance, *const end = to + length;
    if (distance >= 16)
        for (; to < end; to += 16, from += 16)
            memcpy(to, from, 16);
    else if (distance >= 8)
        for (; to < end; to += 8, from += 8)
            memcpy(to, from, 8);
    else
        while (to < end)
            *to++ = *from++;
}

/* Literals and matches as long as all is found at once. */
static void inflate_run(struct gy_inflate *z)
{
    inflate_hold(z, INFLATE_AHEAD);
    if (z->count - z->at < INFLATE_AHEAD)
        return;
    const uint32_t *const literal = z->literal.fast, *const distance = z->distance.fast;
    const unsigned char *const last = z->bytes + z->count - INFLATE_AHEAD, *const full = z->window + INFLATE_WINDOW - INFLATE_ROOM;
    unsigned char *out = z->window + z->filled;
    struct inflate_bits b = { z->word, z->bits, z->bytes + z->at };
    while (b.in <= last && out < full) {
        inflate_refill(&b);
        uint32_t found = literal[b.word & INFLATE_MASK];
        if (inflate_put(&b, found, &out)) {
            found = literal[b.word & INFLATE_MASK];
            if (inflate_put(&b, found, &out)) {
                found = literal[b.word & INFLATE_MASK];
                if (inflate_put(&b, found, &out))
                    continue;
            }
        }
        if (found == 0)
            break;
        const struct inflate_bits before = b;
        const size_t length = inflate_value(&b, found);
        inflate_refill(&b);
        found = distance[b.word & INFLATE_MASK_FAR];
        const size_t back = inflate_value(&b, found);
        if (found == 0 || back > (size_t)(out - z->window)) {
            b = before;
            break;
        }
        inflate_copy(out, back, length);
        out += length;
    }
    z->word = b.word;
    z->bits = b.count;
    z->at = (size_t)(b.in - z->bytes);
    z->filled = (size_t)(out - z->window);
}

static int inflate_codes(struct gy_inflate *z, struct gy_error *err)
{
    while (INFLATE_WINDOW - z->filled > INFLATE_ROOM) {
        inflate_run(z);
        if (INFLATE_WINDOW - z->filled <= INFLATE_ROOM)
            break;
        inflate_fill(z);
        const int symbol = inflate_slow(z, &z->literal);
        if (symbol < 0)
            return z->at == z->count ? inflate_cut(z, err) : inflate_bad(z, "a code that is not there", err);
        if (symbol < 256)
            z->window[z->filled++] = (unsigned char)symbol;
        else if (symbol == 256) {
            z->state = z->last ? INFLATE_TRAILER : INFLATE_BLOCK;
            return GY_OK;
        } else
            GY_TRY(inflate_match(z, symbol, err));
    }
    return GY_OK;
}

/* Sum and length of what was decoded since `from`. */
static void inflate_sum(struct gy_inflate *z, size_t from)
{
    z->crc = gy_crc32(z->crc, z->window + from, z->filled - from);
    z->length += (uint32_t)(z->filled - from);
}

static int inflate_trailer(struct gy_inflate *z, struct gy_error *err)
{
    inflate_to_byte(z);
    inflate_hold(z, 8);
    const unsigned char *b = z->bytes + z->at;
    if (inflate_skip(z, 8) != 0)
        return inflate_cut(z, err);
    const uint32_t crc = (uint32_t)(gy_rows_word(b)), length = (uint32_t)(gy_rows_word(b) >> 32);
#ifndef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
    if (crc != z->crc || length != z->length)
        return GY_FAIL(err, GY_E_HASH, "%s: the checksum or length of the .gz content before byte %" PRIu64 " differs", z->file->name, inflate_place(z));
#else
    (void)crc, (void)length;
#endif
    /* skips the zeros that fill up a tape's record */
    for (inflate_hold(z, 1); z->at < z->count && z->bytes[z->at] == 0; inflate_hold(z, 1))
        z->at++;
    z->state = z->at == z->count ? INFLATE_END : INFLATE_MEMBER;
    return GY_OK;
}

static int inflate_step(struct gy_inflate *z, struct gy_error *err)
{
    static int (*const part[])(struct gy_inflate *, struct gy_error *) = { inflate_member, inflate_block, inflate_stored, inflate_codes, inflate_trailer };
    const size_t from = z->filled;
    const int member = z->state == INFLATE_MEMBER, status = part[z->state](z, err);
    if (z->broken.status != GY_OK)
        return GY_FAIL(err, z->broken.status, "%s", z->broken.text);
    GY_TRY(status);
    if (!member)
        inflate_sum(z, from);
    return GY_OK;
}

GY_INT int gy_inflate_open(struct gy_inflate **out, const struct gy_file *file, const struct gy_alloc *alloc, struct gy_error *err)
{
    struct gy_inflate *z = gy_alloc_take(alloc, 1, sizeof *z);
    if (!z)
        return GY_NOMEM(err, "unpacking", sizeof *z);
    z->alloc = *alloc;
    z->file = file;
    *out = z;
    return GY_OK;
}

GY_INT int gy_inflate_read(struct gy_inflate *z, unsigned char *out, size_t room, size_t *got, struct gy_error *err)
{
    size_t done = 0;
    while (done < room) {
        const size_t some = z->filled - z->taken < room - done ? z->filled - z->taken : room - done;
        memcpy(out + done, z->window + z->taken, some);
        z->taken += some;
        done += some;
        if (done == room || z->state == INFLATE_END)
            break;
        if (INFLATE_WINDOW - z->filled <= INFLATE_ROOM) { /* all was handed out */
            memmove(z->window, z->window + z->filled - INFLATE_BACK, INFLATE_BACK);
            z->filled = z->taken = INFLATE_BACK;
        }
        GY_TRY(inflate_step(z, err));
    }
    *got = done;
    return GY_OK;
}

GY_INT uint64_t gy_inflate_taken(const struct gy_inflate *z) { return inflate_place(z); }

GY_INT void gy_inflate_close(struct gy_inflate *z)
{
    if (!z)
        return;
    const struct gy_alloc alloc = z->alloc;
    gy_alloc_free(&alloc, z, sizeof *z);
}
