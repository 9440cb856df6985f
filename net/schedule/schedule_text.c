/* SPDX-License-Identifier: MIT */
/* schedule_text.c: schedules as text. What is printed can be read again, so a schedule can be
 * written by hand or by another program. The lab prints and reads; inter_host.c reads the file of
 * GYRE_ALLREDUCE=file:PATH. Readers prove it before use. The first line tells goal, name and sizes;
 * every other line is a step. The order of the lines of one rank, lane and round counts. # begins a
 * comment.
 *
 *     allreduce by mine: 2 ranks, 1 pieces in 1 lane
 *     rank 0  lane 0  round 0  add      pieces 0 to 0 from rank 1
 *     rank 1  lane 0  round 0  send     pieces 0 to 0 to rank 0
 *     rank 0  lane 0  round 1  send     pieces 0 to 0 to rank 1
 *     rank 1  lane 0  round 1  receive  pieces 0 to 0 from rank 0
 *
 * A line is matched against a pattern: # takes a number, ? any word, other words stand for
 * themselves. */
#include "engine/base/text_plain.h"
#include "net/schedule/algorithms.h"

#define SCRIPT_WORD 48                    /* bytes of a word, with its end */
#define SCRIPT_CELLS ((int64_t)1 << 22)   /* ranks times pieces, at most */
#define SCRIPT_MOVED ((int64_t)1 << 26)   /* pieces of all steps together, at most */

static const char *const script_kinds[GY_NET_KINDS] = {"send", "receive", "add"};
static const char *const script_ways[GY_NET_KINDS] = {"to", "from", "from"};

GY_INT void gy_net_print(const struct gy_net_schedule *s, const struct gy_net_proof *proof, int rank, struct gy_sink *sink)
{
    gy_sink_printf(sink, "%s by %s: %d ranks, %d pieces in %d lane%s, %" PRId64 " messages, %d rounds\n", gy_net_goal_name(s->goal), s->name,
                   s->ranks, s->pieces, s->lanes, s->lanes == 1 ? "" : "s", proof->messages, proof->rounds);
    for (int r = rank < 0 ? 0 : rank; rank >= -1 && r < s->ranks && (rank < 0 || r == rank); r++)
        for (int64_t i = s->first[r]; i < s->first[r + 1]; i++) {
            const struct gy_net_step *t = &s->steps[i];
            gy_sink_printf(sink, "rank %d  lane %d  round %-3d  %-7s pieces %d to %d %s rank %d\n", r, t->lane, t->round,
                           script_kinds[t->kind], t->piece, t->piece + t->pieces - 1, script_ways[t->kind], t->peer);
        }
}

/* ---- reading ---- */

struct script {
    const char *at, *end; /* the rest of the line */
    const char *name;     /* of the file, for sentences */
    int line;
    int64_t moved;
    struct gy_error *err;
};
struct script_found { /* what a pattern took, in its order */
    int64_t number[8];
    char word[4][SCRIPT_WORD];
};

static int script_bad(const struct script *x, const char *what)
{
    return GY_FAIL(x->err, GY_E_FORMAT, "%.200s:%d: %s", x->name, x->line, what);
}

/* The next word of the line, without a comma or colon at its end. It is "" at the end of the line.
 * A longer word is cut to SCRIPT_WORD - 1 bytes: a name may be, a word of the pattern is
 * shorter. */
static void script_word(struct script *x, char *word)
{
    size_t bytes = 0;
    while (x->at < x->end && (*x->at == ' ' || *x->at == '\t' || *x->at == '\r'))
        x->at++;
    for (; x->at < x->end && *x->at != ' ' && *x->at != '\t' && *x->at != '\r'; x->at++)
        if (bytes < SCRIPT_WORD - 1)
            word[bytes++] = *x->at;
    if (bytes > 0 && (word[bytes - 1] == ',' || word[bytes - 1] == ':'))
        bytes--;
    word[bytes] = 0;
}

/* Takes the line's beginning by the pattern. 1: it matches; 0: it differs. */
static int script_match(struct script *x, const char *pattern, struct script_found *found)
{
    int numbers = 0, words = 0;
    for (const char *p = pattern; *p;) {
        char word[SCRIPT_WORD];
        const size_t bytes = strcspn(p, " ");
        script_word(x, word);
        if (*p == '#') {
            if (gy_text_int(word, 0, INT32_MAX, &found->number[numbers++]) != 0)
                return 0;
        } else if (*p == '?') {
            if (word[0] == 0)
                return 0;
            memcpy(found->word[words++], word, sizeof word);
        } else if (strlen(word) != bytes || memcmp(word, p, bytes) != 0) {
            return 0;
        }
        p += bytes + (p[bytes] == ' ');
    }
    return 1;
}

/* What follows the sizes is a remark. */
static int script_head(struct script *x, struct gy_net_schedule *s, const struct gy_alloc *alloc)
{
    struct script_found f;
    char lanes[SCRIPT_WORD];
    if (!script_match(x, "? by ? # ranks # pieces in #", &f))
        return script_bad(x, "the first line must be such as: allreduce by ring: 4 ranks, 4 pieces in 1 lane");
    script_word(x, lanes);
    const int goal = strcmp(f.word[0], gy_net_goal_name(GY_NET_ALLREDUCE)) == 0   ? GY_NET_ALLREDUCE
                     : strcmp(f.word[0], gy_net_goal_name(GY_NET_BROADCAST)) == 0 ? GY_NET_BROADCAST
                                                                                  : GY_NET_GOALS;
    const int64_t ranks = f.number[0], pieces = f.number[1], count = f.number[2];
    if (strcmp(lanes, "lane") != 0 && strcmp(lanes, "lanes") != 0)
        return script_bad(x, "the number of lanes is missing");
    if (goal == GY_NET_GOALS)
        return script_bad(x, "files tell an allreduce or a broadcast");
    if (ranks < 1 || ranks > GY_NET_RANKS_MOST)
        return script_bad(x, "there may be 1 to 4096 ranks");
    if (pieces < 1 || pieces * ranks > SCRIPT_CELLS)
        return script_bad(x, "ranks times pieces may be 1 to 4194304");
    if (count < 1 || count > UINT16_MAX || pieces % count != 0)
        return script_bad(x, "the pieces must be a multiple of the lanes, at least one lane");
    gy_text_plain(f.word[1], sizeof f.word[1]); /* it will be printed */
    gy_net_open_schedule(s, alloc, f.word[1], goal, (int)ranks, (int32_t)pieces, (int)count);
    return GY_OK;
}

static int script_step(struct script *x, struct gy_net_schedule *s)
{
    struct script_found f;
    char rest[SCRIPT_WORD];
    if (!script_match(x, "rank # lane # round # ? pieces # to # ? rank #", &f))
        return script_bad(x, "a step must be such as: rank 0 lane 0 round 0 send pieces 2 to 3 to rank 1");
    script_word(x, rest);
    int kind = 0;
    while (kind < GY_NET_KINDS && strcmp(script_kinds[kind], f.word[0]) != 0)
        kind++;
    const int64_t *n = f.number; /* rank, lane, round, first piece, last piece, peer */
    if (kind == GY_NET_KINDS || strcmp(f.word[1], script_ways[kind]) != 0)
        return script_bad(x, "a step sends pieces to a rank, or receives or adds pieces from a rank");
    if (rest[0] != 0)
        return script_bad(x, "something follows the step");
    if (n[0] >= s->ranks || n[5] >= s->ranks)
        return script_bad(x, "there is no such rank");
    if (n[1] >= s->lanes || n[2] > UINT16_MAX)
        return script_bad(x, "there is no such lane, or a round above 65535");
    if (n[3] > n[4] || n[4] >= s->pieces)
        return script_bad(x, "there are no such pieces");
    x->moved += n[4] - n[3] + 1;
    if (x->moved > SCRIPT_MOVED)
        return script_bad(x, "the steps move more than 67108864 pieces together");
    gy_net_add(s, (int)n[0], (int)n[1], (int)n[2], kind, (int)n[5], (int32_t)n[3], (int32_t)(n[4] - n[3] + 1));
    return GY_OK;
}

static int script_lines(struct script *x, const char *text, const char *last, struct gy_net_schedule *s, const struct gy_alloc *alloc)
{
    int begun = 0;
    for (const char *at = text; at < last; at = x->end + (x->end < last)) {
        const char *newline = memchr(at, '\n', (size_t)(last - at));
        const char *end = newline ? newline : last, *remark = memchr(at, '#', (size_t)(end - at));
        char word[SCRIPT_WORD];
        x->line++;
        x->at = at;
        x->end = remark ? remark : end;
        script_word(x, word);
        x->at = at;
        if (word[0] != 0)
            GY_TRY(begun ? script_step(x, s) : script_head(x, s, alloc));
        begun |= word[0] != 0;
        x->end = end;
    }
    return begun ? GY_OK : script_bad(x, "the file has no line");
}

GY_INT int gy_net_read_schedule(struct gy_net_schedule *out, const char *text, size_t bytes, const char *name, const struct gy_alloc *alloc,
                                struct gy_error *err)
{
    struct script x = { .name = name, .err = err };
    *out = (struct gy_net_schedule){ .failed = 1 };
    int status = script_lines(&x, text, text + bytes, out, alloc);
    status = status == GY_OK ? gy_net_finish(out, err) : status;
    if (status != GY_OK)
        gy_net_close_schedule(out);
    return status;
}
