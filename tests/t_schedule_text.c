/* SPDX-License-Identifier: MIT */
/* t_schedule_text.c: schedules as text. What is printed reads as the same schedule with the same
 * proof. A schedule written by hand is proved and refused like a built one. Every wrong line is
 * named with its place. */
#include "net/schedule/algorithms.h"
#include "net/schedule/schedule.h"
#include "tests/t.h"

struct script_text {
    char *bytes;
    size_t count, room;
};

static int script_write(void *user, const char *text, size_t count)
{
    struct script_text *t = user;
    if (t->count + count > t->room) {
        t->room = 2 * (t->count + count);
        t->bytes = realloc(t->bytes, t->room);
    }
    if (T_CHECK(t->bytes != NULL))
        memcpy(t->bytes + t->count, text, count);
    t->count += count;
    return 0;
}

static int script_read(struct gy_net_schedule *s, const char *text, size_t bytes, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    *err = (struct gy_error){0};
    return gy_net_read_schedule(s, text, bytes, "x.schedule", &alloc, err);
}

static void script_round(const struct gy_net_algorithm *row, const struct gy_net_shape *shape)
{
    const struct gy_alloc alloc = gy_alloc_default();
    const int goal = row->goals & 1u << GY_NET_ALLREDUCE ? GY_NET_ALLREDUCE : GY_NET_BROADCAST;
    struct gy_net_schedule built, read;
    struct gy_net_proof proof, again;
    struct script_text text = {NULL, 0, 0};
    struct gy_sink sink = { .write = script_write, .user = &text };
    struct gy_error err = {0};
    if (!T_CHECK(gy_net_build(&built, row->name, shape, goal, &alloc, &err) == GY_OK && gy_net_verify(&built, &proof, &err) == GY_OK))
        return;
    gy_net_print(&built, &proof, -1, &sink);
    const int status = script_read(&read, text.bytes, text.count, &err);
    T_CHECK_MSG(status == GY_OK, "%s: %s", row->name, err.text);
    if (status == GY_OK) {
        T_CHECK(strcmp(read.name, built.name) == 0 && read.goal == built.goal && read.ranks == built.ranks);
        T_CHECK(read.pieces == built.pieces && read.lanes == built.lanes && read.count == built.count);
        T_CHECK(memcmp(read.first, built.first, ((size_t)built.ranks + 1) * sizeof *built.first) == 0);
        T_CHECK(memcmp(read.steps, built.steps, (size_t)built.count * sizeof *built.steps) == 0);
        T_CHECK(gy_net_verify(&read, &again, &err) == GY_OK && memcmp(again.order, proof.order, sizeof proof.order) == 0);
        gy_net_close_schedule(&read);
    }
    text.count = 0;
    gy_net_print(&built, &proof, -2, &sink);
    T_CHECK_MSG(memchr(text.bytes, '\n', text.count) == text.bytes + text.count - 1, "%s: nobody's steps are one line", row->name);
    gy_net_close_schedule(&built);
    free(text.bytes);
}

#define SCRIPT_HEAD "allreduce by mine: 2 ranks, 1 pieces in 1 lane\n"
#define SCRIPT_THERE \
    "rank 0 lane 0 round 0 add pieces 0 to 0 from rank 1\nrank 1 lane 0 round 0 send pieces 0 to 0 to rank 0 # a remark\n"
#define SCRIPT_BACK "rank 0 lane 0 round 1 send pieces 0 to 0 to rank 1\r\n\n\trank 1 lane 0 round 1 receive pieces 0 to 0 from rank 0"

static void script_by_hand(void)
{
    static const char right[] = "# two ranks\n" SCRIPT_HEAD SCRIPT_THERE SCRIPT_BACK;
    static const char short_one[] = SCRIPT_HEAD SCRIPT_THERE; /* rank 1 ends without the sum */
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    struct gy_error err;
    if (T_CHECK(script_read(&s, right, sizeof right - 1, &err) == GY_OK)) {
        T_CHECK_MSG(gy_net_verify(&s, &proof, &err) == GY_OK && proof.messages == 2 && proof.rounds == 2, "%s", err.text);
        gy_net_close_schedule(&s);
    }
    if (T_CHECK(script_read(&s, short_one, sizeof(short_one) - 1, &err) == GY_OK)) {
        T_CHECK(gy_net_verify(&s, &proof, &err) == GY_E_FORMAT && err.text[0] != 0);
        gy_net_close_schedule(&s);
    }
}

/* Two ranks double their sums in each round: contributions are beyond any number of int32_t. */
static void script_doubles(void)
{
    char text[16384];
    size_t at = (size_t)snprintf(text, sizeof text, "%s", SCRIPT_HEAD);
    struct gy_net_schedule s;
    struct gy_net_proof proof;
    struct gy_error err;
    for (int rank = 0; rank < 2; rank++)
        for (int step = 0; step < 2 * 33; step++)
            at += (size_t)snprintf(text + at, sizeof text - at,
                                   "rank %d lane 0 round %d %s pieces 0 to 0 %s rank %d\n", rank,
                                   step / 2, step % 2 ? "add" : "send", step % 2 ? "from" : "to",
                                   1 - rank);
    if (!T_CHECK(script_read(&s, text, at, &err) == GY_OK))
        return;
    T_CHECK_MSG(gy_net_verify(&s, &proof, &err) == GY_E_FORMAT &&
                strstr(err.text, "with 2147483647 contributions"), "%s", err.text);
    gy_net_close_schedule(&s);
}

struct script_mistake {
    const char *text, *says;
};
static const struct script_mistake script_mistakes[] = {
    {"", "x.schedule:0: the file has no line"},
    {"# nothing\n\n", "x.schedule:2: the file has no line"},
    {"allreduce ring\n", "x.schedule:1: the first line"},
    {"\nallreduce by mine: 2 ranks, 1 pieces in 1\n", "x.schedule:2: the number of lanes"},
    {"allreduce by mine: 2 ranks, 1 pieces in 1 lanes2\n", "number of lanes"},
    {"gather by mine: 2 ranks, 1 pieces in 1 lane\n", "an allreduce or a broadcast"},
    {"all-gather by mine: 2 ranks, 2 pieces in 1 lane\n", "an allreduce or a broadcast"},
    {"allreduce by mine: 0 ranks, 1 pieces in 1 lane\n", "1 to 4096 ranks"},
    {"allreduce by mine: 4097 ranks, 1 pieces in 1 lane\n", "1 to 4096 ranks"},
    {"allreduce by mine: 99999999999 ranks, 1 pieces in 1 lane\n", "the first line"},
    {"allreduce by mine: 2 ranks, 0 pieces in 1 lane\n", "ranks times pieces"},
    {"allreduce by mine: 4096 ranks, 1025 pieces in 1 lane\n", "ranks times pieces"},
    {"allreduce by mine: 2 ranks, 3 pieces in 2 lanes\n", "multiple of the lanes"},
    {"allreduce by mine: 2 ranks, 3 pieces in 0 lanes\n", "multiple of the lanes"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 0 to 0 to rank\n", "x.schedule:2: a step must be"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 0 to 0\n", "x.schedule:2: a step must be"},
    {SCRIPT_HEAD "rank -1 lane 0 round 0 send pieces 0 to 0 to rank 1\n", "a step must be"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 give pieces 0 to 0 to rank 1\n", "sends pieces to"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 0 to 0 from rank 1\n", "sends pieces to"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 0 to 0 to rank 1 now\n", "something follows"},
    {SCRIPT_HEAD "rank 2 lane 0 round 0 send pieces 0 to 0 to rank 1\n", "no such rank"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 0 to 0 to rank 2\n", "no such rank"},
    {SCRIPT_HEAD "rank 0 lane 1 round 0 send pieces 0 to 0 to rank 1\n", "no such lane"},
    {SCRIPT_HEAD "rank 0 lane 0 round 65536 send pieces 0 to 0 to rank 1\n", "a round above"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 0 to 1 to rank 1\n", "no such pieces"},
    {SCRIPT_HEAD "rank 0 lane 0 round 0 send pieces 1 to 0 to rank 1\n", "no such pieces"},
};

int main(void)
{
    size_t count;
    const struct gy_net_algorithm *rows = gy_net_algorithms(&count);
    struct gy_net_schedule s;
    struct gy_error err;
    for (size_t i = 0; i < count; i++)
        for (int lanes = 1; lanes <= 3; lanes++) {
            const struct gy_net_shape shape = { .ranks = 6, .lanes = lanes, .dim_count = 2, .dims = {2, 3} };
            script_round(&rows[i], &shape);
        }
    script_by_hand();
    script_doubles();
    for (size_t i = 0; i < GY_COUNT(script_mistakes); i++) {
        const struct script_mistake *m = &script_mistakes[i];
        T_CHECK_MSG(script_read(&s, m->text, strlen(m->text), &err) == GY_E_FORMAT && strstr(err.text, m->says),
                    "mistake %zu: \"%s\" does not say \"%s\"", i, err.text, m->says);
    }
    T_END("t_schedule_text");
}
