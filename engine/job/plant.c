/* SPDX-License-Identifier: MIT */
/* Counters that run down. A meeting is amid when the others have had time to call. */
#include <signal.h>
#include <time.h>

#include "engine/base/knob.h"
#include "engine/job/plant.h"

#define PLANT_PAUSE_NS 150000000

enum plant_kind { PLANT_SUM, PLANT_WAIT, PLANT_AMID, PLANT_BEHIND, PLANT_KINDS };
struct gy_job_plant {
    int64_t left[PLANT_KINDS]; /* until the point; 0: none */
};

/* One word of the list: "ID:N", or a letter before N. */
static int plant_word(const char *word, int id, struct gy_job_plant *out)
{
    static const char letters[PLANT_KINDS] = { 0, 'w', 'r', 'v' };
    char *end = NULL;
    const long whose = strtol(word, &end, 10);
    if (end == word || *end++ != ':')
        return -1;
    int kind = PLANT_SUM;
    for (int k = PLANT_WAIT; k < PLANT_KINDS; k++)
        kind = *end == letters[k] ? k : kind;
    const long count = strtol(end + (kind != PLANT_SUM), &end, 10);
    if (count < 1 || (*end != 0 && *end != ','))
        return -1;
    if (whose == id)
        out->left[kind] = count;
    return 0;
}

GY_INT int gy_job_plant_open(struct gy_job_plant **out, int id, const struct gy_alloc *alloc,
                             struct gy_error *err)
{
    const char *const text = gy_knob_get("GYRE_DIE");
    struct gy_job_plant plant = { { 0 } };
    *out = NULL;
    if (!text)
        return GY_OK;
    for (const char *word = text; word; word = strchr(word, ',') ? strchr(word, ',') + 1 : NULL)
        if (plant_word(word, id, &plant) != 0)
            return GY_FAIL(err, GY_E_ARG, "GYRE_DIE is \"%.80s\"; it must be RANK:N or RANK:rN, "
                           "vN, wN, and more behind a comma", text);
    *out = gy_alloc_take(alloc, 1, sizeof **out);
    if (!*out)
        return GY_NOMEM(err, "what is planted", sizeof **out);
    **out = plant;
    return GY_OK;
}

GY_INT void gy_job_plant_close(struct gy_job_plant *plant, const struct gy_alloc *alloc)
{
    if (plant)
        gy_alloc_free(alloc, plant, sizeof *plant);
}

static void plant_count(struct gy_job_plant *plant, int kind)
{
    if (!plant || plant->left[kind] == 0 || --plant->left[kind] > 0)
        return;
    if (kind == PLANT_AMID)
        nanosleep(&(const struct timespec){ 0, PLANT_PAUSE_NS }, NULL);
    raise(SIGKILL);
}

GY_INT void gy_job_plant_sums(struct gy_job_plant *plant) { plant_count(plant, PLANT_SUM); }

GY_INT void gy_job_plant_waits(struct gy_job_plant *plant) { plant_count(plant, PLANT_WAIT); }

GY_INT void gy_job_plant_meets(struct gy_job_plant *plant, int after)
{
    plant_count(plant, after ? PLANT_BEHIND : PLANT_AMID);
}
