/* SPDX-License-Identifier: MIT */
/* t_small.c: small scopes, all of them: every text of few letters as JSON, as the head of an image,
 * as a schedule. Each is accepted, or refused with a sentence that names the place. Where a second,
 * simpler implementation is at hand it must agree. Without options texts are two letters shorter
 * than with `--all`, which takes a minute. The name of a scope: that one alone. Inputs end where
 * their memory ends, so that a sanitizer sees a look behind them. */
#include <unistd.h>

#include "engine/base/clock.h"
#include "engine/base/text.h"
#include "io/images/data_set.h"
#include "io/json.h"
#include "net/schedule/schedule.h"
#include "tests/t.h"

#define SM_BYTES 64  /* of a prefix and its letters */
#define SM_TEXT 2048 /* of a schedule */

static int sm_less = 2; /* letters that are left out */
static int64_t sm_inputs, sm_accepted;

struct sm_scope {
    const char *name;
    const char *prefix;
    int prefix_bytes;
    const char *letters;
    int count, most; /* of letters, and of them in a text */
    const char *suffix;
    void (*look)(const unsigned char *text, size_t bytes);
};

/* All texts of a scope. digit[]: an odometer. */
static void sm_run(const struct sm_scope *scope)
{
    const int64_t inputs = sm_inputs, accepted = sm_accepted, began = gy_clock_ns();
    const int before = t_failed;
    for (int length = 0; length <= scope->most - sm_less; length++) {
        const size_t behind = strlen(scope->suffix), bytes = (size_t)scope->prefix_bytes + (size_t)length + behind;
        unsigned char *const text = malloc(bytes ? bytes : 1);
        int digit[SM_BYTES] = { 0 }, at = 0;
        if (!T_CHECK(text != NULL))
            return;
        memcpy(text, scope->prefix, (size_t)scope->prefix_bytes);
        memcpy(text + scope->prefix_bytes + length, scope->suffix, behind);
        while (at < length || length == 0) {
            for (int i = 0; i < length; i++)
                text[scope->prefix_bytes + i] = (unsigned char)scope->letters[digit[i]];
            scope->look(text, bytes);
            sm_inputs++;
            if (t_failed - before > 5 || length == 0)
                break;
            for (at = 0; at < length && ++digit[at] == scope->count; at++)
                digit[at] = 0;
        }
        free(text);
    }
    printf("%-28s %9" PRId64 " inputs, %7" PRId64 " accepted, %5.1f s\n", scope->name, sm_inputs - inputs, sm_accepted - accepted,
           (double)(gy_clock_ns() - began) * 1e-9);
    T_CHECK(t_failed == before && sm_inputs > inputs);
}

static void sm_bad(const char *what, const unsigned char *text, size_t bytes)
{
    char shown[4 * SM_BYTES + 1];
    size_t used = 0;
    for (size_t i = 0; i < bytes && used + 5 < sizeof shown; i++)
        used += (size_t)snprintf(shown + used, sizeof shown - used, text[i] > ' ' && text[i] < 127 ? "%c" : "\\x%02x", text[i]);
    shown[used] = 0;
    T_CHECK_MSG(0, "%s: %s", what, shown);
}

/* ---- JSON: a second reader, from RFC 8259; NULL: it is none ---- */

struct sm_json {
    const unsigned char *end;
};

static const unsigned char *sm_white(const struct sm_json *j, const unsigned char *p)
{
    while (p < j->end && (*p == ' ' || *p == '\t' || *p == '\n' || *p == '\r'))
        p++;
    return p;
}
static const unsigned char *sm_one(const struct sm_json *j, const unsigned char *p, const char *set)
{
    return p && p < j->end && *p && strchr(set, *p) ? p + 1 : NULL;
}
static const unsigned char *sm_digits(const struct sm_json *j, const unsigned char *p)
{
    const unsigned char *const from = p;
    while (p && p < j->end && *p >= '0' && *p <= '9')
        p++;
    return p == from ? NULL : p;
}

static int sm_hex(const struct sm_json *j, const unsigned char *p)
{
    int value = 0;
    for (int i = 0; i < 4; i++, p++) {
        if (p >= j->end)
            return -1;
        const int digit = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : *p >= 'A' && *p <= 'F' ? *p - 'A' + 10 : -1;
        if (digit < 0)
            return -1;
        value = 16 * value + digit;
    }
    return value;
}

/* Behind \u: a code point that is not 0, or a pair. */
static const unsigned char *sm_code(const struct sm_json *j, const unsigned char *p)
{
    const int high = sm_hex(j, p);
    if (high <= 0 || (high >= 0xdc00 && high <= 0xdfff))
        return NULL;
    if (high < 0xd800 || high > 0xdbff)
        return p + 4;
    if (j->end - p < 6 || p[4] != '\\' || p[5] != 'u')
        return NULL;
    const int low = sm_hex(j, p + 6);
    return low >= 0xdc00 && low <= 0xdfff ? p + 10 : NULL;
}

/* UTF-8 by decoding: the shortest form of a code point that is no surrogate. */
static const unsigned char *sm_utf8(const struct sm_json *j, const unsigned char *p)
{
    const int more = *p < 0x80 ? 0 : *p >> 5 == 6 ? 1 : *p >> 4 == 14 ? 2 : *p >> 3 == 30 ? 3 : -1;
    static const uint32_t least[4] = { 0, 0x80, 0x800, 0x10000 };
    if (more < 0 || j->end - p <= more)
        return NULL;
    uint32_t code = more ? *p & (0x3fu >> more) : *p;
    for (int i = 1; i <= more; i++) {
        if (p[i] >> 6 != 2)
            return NULL;
        code = code << 6 | (p[i] & 0x3fu);
    }
    return code >= least[more] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff) ? p + more + 1 : NULL;
}

static const unsigned char *sm_string(const struct sm_json *j, const unsigned char *p)
{
    for (p = sm_one(j, p, "\""); p && p < j->end && *p != '"';) {
        if (*p < 0x20)
            return NULL;
        if (*p != '\\')
            p = sm_utf8(j, p);
        else if (p + 1 < j->end && p[1] == 'u')
            p = sm_code(j, p + 2);
        else
            p = sm_one(j, p + 1, "\"\\/bfnrt");
    }
    return sm_one(j, p, "\"");
}

static const unsigned char *sm_number(const struct sm_json *j, const unsigned char *p)
{
    const unsigned char *q = sm_one(j, p, "-"), *next;
    p = q ? q : p;
    q = sm_one(j, p, "0");
    p = q ? q : sm_digits(j, p);
    if ((q = sm_one(j, p, ".")))
        p = sm_digits(j, q);
    if ((q = sm_one(j, p, "eE"))) {
        next = sm_one(j, q, "+-");
        p = sm_digits(j, next ? next : q);
    }
    return p;
}

static const unsigned char *sm_value(const struct sm_json *j, const unsigned char *p)
{
    static const char *const words[] = { "true", "false", "null" };
    p = sm_white(j, p);
    if (p == j->end)
        return NULL;
    if (*p == '"')
        return sm_string(j, p);
    if (*p == '-' || (*p >= '0' && *p <= '9'))
        return sm_number(j, p);
    for (size_t i = 0; i < GY_COUNT(words); i++)
        if ((size_t)(j->end - p) >= strlen(words[i]) && memcmp(p, words[i], strlen(words[i])) == 0)
            return p + strlen(words[i]);
    if (*p != '{' && *p != '[')
        return NULL;
    const int object = *p == '{';
    const char *const close = object ? "}" : "]";
    p = sm_white(j, p + 1);
    if (sm_one(j, p, close))
        return p + 1;
    for (;;) {
        if (object && (!(p = sm_string(j, sm_white(j, p))) || !(p = sm_one(j, sm_white(j, p), ":"))))
            return NULL;
        if (!(p = sm_value(j, p)))
            return NULL;
        p = sm_white(j, p);
        if (sm_one(j, p, close))
            return p + 1;
        if (!(p = sm_one(j, p, ",")))
            return NULL;
    }
}

static int sm_told(int status, const struct gy_error *err)
{
    return status == GY_OK || (err->status == status && strncmp(err->text, "x: JSON header, byte ", 21) == 0);
}

static void sm_look_json(const unsigned char *text, size_t bytes)
{
    const struct sm_json second = { text + bytes };
    struct gy_json json;
    struct gy_error err = { 0 };
    gy_json_open(&json, text, bytes, "x", &err);
    int status = gy_json_skip(&json, 0);
    status = status == GY_OK ? gy_json_finish(&json) : status;
    const unsigned char *const end = sm_value(&second, text);
    const int accepted = end && sm_white(&second, end) == text + bytes;
    if ((status == GY_OK) != accepted)
        sm_bad(accepted ? "JSON that was refused" : "no JSON, but accepted", text, bytes);
    if (!sm_told(status, &err))
        sm_bad(err.text, text, bytes);
    sm_accepted += accepted;
    int64_t count;
    gy_json_open(&json, text, bytes, "x", &err);
    if (!sm_told(gy_json_count(&json, &count), &err))
        sm_bad("a count without a sentence", text, bytes);
}

/* A string that is taken is also taken by the second reader. It stays the same when written and
 * read again. */
static void sm_look_string(const unsigned char *text, size_t bytes)
{
    static char out[SM_BYTES], written[8 * SM_BYTES], again[SM_BYTES];
    const struct sm_json second = { text + bytes };
    struct gy_json json;
    struct gy_error err = { 0 };
    size_t count = 0, count_again = 0;
    gy_json_open(&json, text, bytes, "x", &err);
    const int status = gy_json_string(&json, out, &count);
    const unsigned char *const end = sm_string(&second, sm_white(&second, text));
    if ((status == GY_OK) != (end != NULL) || (end && end != json.at) || !sm_told(status, &err))
        sm_bad("a string of which two readers differ", text, bytes);
    if (status != GY_OK || strlen(out) != count)
        return;
    sm_accepted++;
    struct gy_buf buf;
    const struct gy_alloc alloc = gy_alloc_default();
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_print_json_text(out, &sink);
    snprintf(written, sizeof written, "%s", buf.text);
    gy_buf_close(&buf);
    gy_json_open(&json, (const unsigned char *)written, strlen(written), "x", &err);
    if (gy_json_string(&json, again, &count_again) != GY_OK || count_again != count || memcmp(out, again, count) != 0)
        sm_bad("written and read again it is another string", text, bytes);
}

/* Any text in quotes is a string of JSON; of UTF-8 it is the same text when read. */
static void sm_look_quoted(const unsigned char *text, size_t bytes)
{
    static char plain[SM_BYTES], again[8 * SM_BYTES];
    const struct sm_json second = { text + bytes };
    const unsigned char *p = text;
    struct gy_json json;
    struct gy_buf buf;
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_error err = { 0 };
    size_t count = 0;
    snprintf(plain, sizeof plain, "%.*s", (int)bytes, (const char *)text);
    while (p && p < text + bytes)
        p = sm_utf8(&second, p);
    gy_buf_open(&buf, &alloc);
    struct gy_sink sink = gy_sink_buf(&buf);
    gy_print_json_text(plain, &sink);
    const struct sm_json quoted = { (const unsigned char *)buf.text + buf.bytes };
    if (sm_string(&quoted, (const unsigned char *)buf.text) != quoted.end)
        sm_bad("quoted, but no string of JSON", text, bytes);
    gy_json_open(&json, (const unsigned char *)buf.text, buf.bytes, "x", &err);
    if (gy_json_string(&json, again, &count) != GY_OK || (p && strcmp(again, plain) != 0))
        sm_bad("quoted it is another text", text, bytes);
    sm_accepted += p != NULL;
    gy_buf_close(&buf);
}

/* ---- heads of images ---- */

static struct gy_decoder *sm_decoder;

static void sm_look_image(const unsigned char *text, size_t bytes)
{
    struct gy_image image;
    struct gy_error err = { 0 };
    unsigned sum = 0;
    const int status = gy_image_decode(sm_decoder, text, bytes, "x", 0, 4096, &image, &err);
    if (status != GY_OK && (err.status != status || strncmp(err.text, "x: ", 3) != 0))
        sm_bad(err.text, text, bytes);
    if (status != GY_OK)
        return;
    sm_accepted++;
    for (int64_t i = 0; i < (int64_t)image.h * image.w * image.c; i++)
        sum += image.pixels[i];
    if (image.h < 1 || image.w < 1 || (int64_t)image.h * image.w > 4096 || (image.c != 1 && image.c != 3) || sum > 4096u * 3 * 255)
        sm_bad("an image beyond its limits", text, bytes);
}

/* ---- schedules ---- */

/* The words of texts, and the lines of schedules of two ranks and one piece. */
static const char *const sm_words[13] = { "rank", "lane", "round", "send", "add", "pieces", "to", "from", "0", "1", "#", "\n", "4294967296:" };
static const char sm_head[] = "allreduce by x: 2 ranks, 1 pieces in 1 lane\n";
static const struct sm_step {
    const char *text;
    int rank, round, kind, peer; /* kind -1: no step */
} sm_steps[13] = {
    { "rank 0 lane 0 round 0 add pieces 0 to 0 from rank 1", 0, 0, GY_NET_ADD, 1 },
    { "rank 1 lane 0 round 0 send pieces 0 to 0 to rank 0", 1, 0, GY_NET_SEND, 0 },
    { "rank 0 lane 0 round 1 send pieces 0 to 0 to rank 1", 0, 1, GY_NET_SEND, 1 },
    { "rank 1 lane 0 round 1 receive pieces 0 to 0 from rank 0", 1, 1, GY_NET_RECV, 0 },
    { "rank 0 lane 0 round 0 send pieces 0 to 0 to rank 1", 0, 0, GY_NET_SEND, 1 },
    { "rank 1 lane 0 round 0 add pieces 0 to 0 from rank 0", 1, 0, GY_NET_ADD, 0 },
    { "rank 1 lane 0 round 1 send pieces 0 to 0 to rank 0", 1, 1, GY_NET_SEND, 0 },
    { "rank 0 lane 0 round 1 receive pieces 0 to 0 from rank 1", 0, 1, GY_NET_RECV, 1 },
    { "rank 0 lane 0 round 0 receive pieces 0 to 0 from rank 1", 0, 0, GY_NET_RECV, 1 },
    { "rank 1 lane 0 round 0 receive pieces 0 to 0 from rank 0", 1, 0, GY_NET_RECV, 0 },
    /* there is no rank 2 */
    { "rank 0 lane 0 round 0 send pieces 0 to 0 to rank 2", 0, 0, GY_NET_SEND, 0 },
    { "rank 1 lane 0 round 1 add pieces 0 to 0 from rank 0", 1, 1, GY_NET_ADD, 0 },
    { "# nothing", 0, 0, -1, 0 },
};

struct sm_rank { /* as it runs */
    /* have: how often it has each contribution; inside: its round has sent its messages */
    int have[2], round, inside;
    int mail[SM_BYTES][2], mails, taken; /* messages to it, in their order */
};

/* Enters its round, or leaves it when all that it receives has come. 1: it moved. */
static int sm_move(struct sm_rank *ranks, int own, const unsigned char *digit, size_t count)
{
    struct sm_rank *const r = &ranks[own];
    int waits = 0;
    for (size_t i = 0; i < count; i++) {
        const struct sm_step *const s = &sm_steps[digit[i]];
        if (s->kind < 0 || s->rank != own || s->round != r->round)
            continue;
        waits += s->kind != GY_NET_SEND;
        if (s->kind == GY_NET_SEND && !r->inside)
            memcpy(ranks[s->peer].mail[ranks[s->peer].mails++], r->have, sizeof r->have);
    }
    const int entered = !r->inside;
    r->inside = 1;
    if (r->mails - r->taken < waits)
        return entered;
    for (size_t i = 0; i < count; i++) {
        const struct sm_step *const s = &sm_steps[digit[i]];
        if (s->kind < 0 || s->rank != own || s->round != r->round || s->kind == GY_NET_SEND)
            continue;
        for (int k = 0; k < 2; k++)
            r->have[k] = r->mail[r->taken][k] + (s->kind == GY_NET_ADD ? r->have[k] : 0);
        r->taken++;
    }
    r->round++;
    r->inside = 0;
    return 1;
}

/* A round sends what was there before the round; what it receives is there at its end. 1: both
 * ranks have both contributions once, and no message is left. */
static int sm_simulate(const unsigned char *digit, size_t count)
{
    struct sm_rank ranks[2] = { { .have = { 1, 0 } }, { .have = { 0, 1 } } };
    for (int moved = 1; moved;) {
        moved = 0;
        for (int own = 0; own < 2; own++)
            moved |= ranks[own].round < 2 && sm_move(ranks, own, digit, count);
    }
    for (int own = 0; own < 2; own++)
        if (ranks[own].round < 2 || ranks[own].taken != ranks[own].mails || ranks[own].have[0] != 1 || ranks[own].have[1] != 1)
            return 0;
    return 1;
}

/* Reads and proves; 1: proved. */
static int sm_prove(const char *text, size_t bytes, const unsigned char *digit, size_t count)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    struct gy_error err = { 0 };
    int status = gy_net_read_schedule(&s, text, bytes, "x", &alloc, &err);
    const int read = status == GY_OK;
    if (!read && (strncmp(err.text, "x", 1) != 0 || err.status != status))
        sm_bad(err.text, digit, count);
    status = read ? gy_net_verify(&s, &proof, &err) : status;
    if (read && status != GY_OK && !err.text[0])
        sm_bad("not proved, without a sentence", digit, count);
    gy_net_close_schedule(&s);
    sm_accepted += status == GY_OK;
    return status == GY_OK;
}

/* digit: numbers of words. The text ends where its memory ends. */
static size_t sm_join(char *text, const char *head, const char *const *words, const char *between, const unsigned char *digit, size_t count)
{
    size_t used = (size_t)snprintf(text, SM_TEXT, "%s", head);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, SM_TEXT - used, "%s%s", words[digit[i]], between);
    return used;
}
static void sm_look_words(const unsigned char *digit, size_t count)
{
    char text[SM_TEXT];
    const size_t bytes = sm_join(text, "", sm_words, " ", digit, count);
    char *const exact = malloc(bytes ? bytes : 1);
    memcpy(exact, text, bytes);
    if (sm_prove(exact, bytes, digit, count))
        sm_bad("a few words are a schedule", digit, count);
    free(exact);
}
static void sm_look_steps(const unsigned char *digit, size_t count)
{
    char text[SM_TEXT];
    const char *lines[13];
    for (int i = 0; i < 13; i++)
        lines[i] = sm_steps[i].text;
    const size_t bytes = sm_join(text, sm_head, lines, "\n", digit, count);
    if (sm_prove(text, bytes, digit, count) && !sm_simulate(digit, count))
        sm_bad("a schedule was proved that does not sum", digit, count);
}

/* ---- all of it ---- */

#define SM_THIRTEEN "\0\1\2\3\4\5\6\7\10\11\12\13\14"
#define SM_PNG "\211PNG\r\n\032\n"
#define SM_PNM_LETTERS "012 \n#9-"
#define SM_JPEG_LETTERS "\377\330\300\304\332\0\1\21"
#define SM_BINARY_LETTERS "\0\1\2\10\50\177\200\377"

int main(int argc, char **argv)
{
    static const struct sm_scope scopes[] = {
        { "JSON texts", "", 0, "{}[]:,\"\\01-.e+trunl \200", 21, 5, "", sm_look_json },
        { "JSON words", "[tru", 4, "etfalsn]", 8, 6, "]", sm_look_json },
        { "JSON strings", "\"", 1, "\\u0dD8cC\"\037", 10, 6, "\"", sm_look_string },
        { "JSON escapes", "\"\\ud80", 6, "\\u0dcf\"", 7, 8, "\"", sm_look_string },
        { "JSON UTF-8", "\"", 1, "\0\177\200\237\240\277\301\302\337\340\355\357\360\364\365", 15, 5, "\"", sm_look_string },
        { "texts quoted as JSON", "", 0, "\"\\a\n\177\200\237\240\301\302\337\340\355\360\364\365", 16, 5, "", sm_look_quoted },
        { "heads of P5", "P5", 2, SM_PNM_LETTERS, 8, 7, "", sm_look_image },
        { "heads of P6", "P6", 2, SM_PNM_LETTERS, 8, 7, "", sm_look_image },
        { "heads of P5 with a width", "P5 1 ", 5, SM_PNM_LETTERS, 8, 7, "", sm_look_image },
        { "heads of JPEG", "\377\330", 2, SM_JPEG_LETTERS, 8, 7, "", sm_look_image },
        { "heads of JPEG, its frame", "\377\330\377\300\0\13\10", 7, SM_JPEG_LETTERS, 8, 7, "", sm_look_image },
        { "heads of PNG", SM_PNG, 8, SM_BINARY_LETTERS, 8, 7, "", sm_look_image },
        { "heads of PNG, its IHDR", SM_PNG "\0\0\0\15IHDR\0\0\0\1\0", 21, SM_BINARY_LETTERS, 8, 7, "", sm_look_image },
        { "heads of BMP", "BM", 2, SM_BINARY_LETTERS, 8, 7, "", sm_look_image },
        { "heads of BMP, its sizes", "BM\0\0\0\0\0\0\0\0\66\0\0\0\50\0\0\0\1\0\0\0", 22, SM_BINARY_LETTERS, 8, 7, "", sm_look_image },
        { "schedules, words", "", 0, SM_THIRTEEN, 13, 5, "", sm_look_words },
        { "schedules, steps", "", 0, SM_THIRTEEN, 13, 5, "", sm_look_steps },
    };
    const struct gy_alloc alloc = gy_alloc_default();
    const int64_t began = gy_clock_ns();
    sm_less = argc > 1 && strcmp(argv[1], "--all") == 0 ? 0 : sm_less;
    const char *const only = argc > 1 && strcmp(argv[argc - 1], "--all") != 0 ? argv[argc - 1] : NULL;
    T_CHECK(gy_decoder_open(&sm_decoder, &alloc, (size_t)1 << 20, NULL) == GY_OK);
    for (size_t i = 0; i < GY_COUNT(scopes); i++)
        if (!only || strcmp(only, scopes[i].name) == 0)
            sm_run(&scopes[i]);
    gy_decoder_close(sm_decoder);
    printf("%" PRId64 " inputs, %" PRId64 " accepted, in %.1f s\n", sm_inputs, sm_accepted, (double)(gy_clock_ns() - began) * 1e-9);
    T_END("t_small");
}
