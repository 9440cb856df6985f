/* SPDX-License-Identifier: MIT */
/* train_files.c: the folder of a run. Checkpoints hold all that a run must know to continue. The
 * curve is drawn from metrics.csv, so a resumed run draws the whole curve. */
#include "engine/train/train_files.h"
#include "io/safetensors.h"
#include <dirent.h>
#include <unistd.h>

#define TRAINF_PREFIX "checkpoint-"
#define TRAINF_SUFFIX ".safetensors"
#define TRAINF_HEADER "step,epoch,loss,accuracy,test_loss,test_accuracy,test_top5,rate,images_per_second"

/* ---- checkpoints ---- */

/* Batches done that a file name says, or -1. */
static int64_t trainf_step(const char *name)
{
    const size_t before = strlen(TRAINF_PREFIX), after = strlen(TRAINF_SUFFIX), bytes = strlen(name);
    char digits[24];
    int64_t step;
    if (bytes <= before + after || bytes - before - after >= sizeof digits || strncmp(name, TRAINF_PREFIX, before) != 0 ||
        strcmp(name + bytes - after, TRAINF_SUFFIX) != 0)
        return -1;
    memcpy(digits, name + before, bytes - before - after);
    digits[bytes - before - after] = 0;
    return gy_text_int(digits, 0, INT64_MAX, &step) == 0 ? step : -1;
}

/* Keeps the list sorted, largest first. */
static int trainf_add(struct gy_checkpoints *list, int64_t step, struct gy_error *err)
{
    if (list->count == list->room) {
        const int room = list->room ? 2 * list->room : 16;
        int64_t *steps = gy_alloc_grow(&list->alloc, list->steps, (size_t)list->room, (size_t)room, sizeof *steps);
        if (!steps)
            return GY_NOMEM(err, "the list of checkpoints", (size_t)room * sizeof *steps);
        list->steps = steps;
        list->room = room;
    }
    int at = list->count++;
    for (; at > 0 && list->steps[at - 1] < step; at--)
        list->steps[at] = list->steps[at - 1];
    list->steps[at] = step;
    return GY_OK;
}

GY_INT void gy_checkpoints_close(struct gy_checkpoints *list)
{
    if (list->room)
        gy_alloc_free(&list->alloc, list->steps, (size_t)list->room * sizeof *list->steps);
    memset(list, 0, sizeof *list);
}

GY_INT int gy_checkpoints_list(struct gy_checkpoints *list, const struct gy_alloc *alloc, const char *folder,
                               struct gy_error *err)
{
    *list = (struct gy_checkpoints){ .alloc = *alloc };
    DIR *dir = opendir(folder);
    if (!dir)
        return errno == ENOENT ? GY_OK : GY_FAIL(err, GY_E_IO, "%.300s: cannot be listed: %s", folder, strerror(errno));
    int status = GY_OK;
    while (status == GY_OK) {
        errno = 0;
        const struct dirent *entry = readdir(dir);
        if (!entry && errno)
            status = GY_FAIL(err, GY_E_IO, "%.300s: cannot be listed: %s", folder, strerror(errno));
        if (!entry)
            break;
        const int64_t step = trainf_step(entry->d_name);
        if (step >= 0)
            status = trainf_add(list, step, err);
    }
    closedir(dir);
    if (status != GY_OK)
        gy_checkpoints_close(list);
    return status;
}

GY_INT int gy_checkpoint_is_bad(int status) { return status <= GY_E_IO && status > GY_E_NOMEM; }

GY_INT int gy_checkpoint_path(char *path, size_t room, const char *folder, int64_t step, struct gy_error *err)
{
    char name[64];
    snprintf(name, sizeof name, TRAINF_PREFIX "%" PRId64 TRAINF_SUFFIX, step);
    return gy_file_join(path, room, folder, name, err);
}

GY_INT int gy_checkpoints_prune(const struct gy_alloc *alloc, const struct gy_log *log, const char *folder, int64_t step,
                                int keep, struct gy_error *err)
{
    struct gy_checkpoints list;
    char path[4096];
    int left = keep;
    GY_TRY(gy_checkpoints_list(&list, alloc, folder, err));
    for (int i = 0; i < list.count; i++) {
        if (list.steps[i] > step || left-- > 0)
            continue;
        if (gy_checkpoint_path(path, sizeof path, folder, list.steps[i], err) == GY_OK && unlink(path) != 0)
            gy_log_write(log, GY_LOG_WARN, "%s: an old checkpoint that cannot be removed: %s", path, strerror(errno));
    }
    gy_checkpoints_close(&list);
    return GY_OK;
}

/* Names that gy_outfile writes: "checkpoint-12.safetensors.part4711", "metrics.csv.part4711",
 * "curve.svg.part4711"; and of the command "recipe.txt.part4711". */
static int trainf_is_leftover(const char *name)
{
    static const char *const stems[] = { TRAINF_SUFFIX, "metrics.csv", "curve.svg", "recipe.txt" };
    const char *part = strstr(name, ".part");
    if (!part || !part[5] || strspn(part + 5, "0123456789") != strlen(part + 5))
        return 0;
    for (size_t i = 0; i < GY_COUNT(stems); i++) {
        const size_t bytes = strlen(stems[i]), before = (size_t)(part - name);
        const int whole = i == 0 ? strncmp(name, TRAINF_PREFIX, strlen(TRAINF_PREFIX)) == 0 : before == bytes;
        if (whole && before >= bytes && memcmp(part - bytes, stems[i], bytes) == 0)
            return 1;
    }
    return 0;
}

GY_INT void gy_run_folder_clean(const char *folder)
{
    char path[4096];
    struct gy_error err;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        if (trainf_is_leftover(entry->d_name) && gy_file_join(path, sizeof path, folder, entry->d_name, &err) == GY_OK)
            unlink(path);
    if (dir)
        closedir(dir);
}

/* Opens as a checkpoint: header whole, net text there. */
static int trainf_readable(const char *path, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_st_file *file;
    GY_TRY(gy_st_open(&file, &alloc, path, err));
    const int found = gy_st_meta(file, "gyre.net") != NULL;
    gy_st_close(file);
    return found ? GY_OK : GY_FAIL(err, GY_E_MISMATCH, "%.300s: not a checkpoint: it has no net text", path);
}

static int trainf_find(const char *folder, char *path, size_t room, struct gy_error *err)
{
    const struct gy_alloc alloc = gy_alloc_default();
    struct gy_checkpoints list;
    GY_TRY(gy_checkpoints_list(&list, &alloc, folder, err));
    int status = GY_FAIL(err, GY_E_IO, "%.300s: no checkpoint (" TRAINF_PREFIX "N" TRAINF_SUFFIX ") is there", folder);
    for (int i = 0; i < list.count && gy_checkpoint_is_bad(status); i++) {
        status = gy_checkpoint_path(path, room, folder, list.steps[i], err);
        if (status == GY_OK)
            status = trainf_readable(path, err);
    }
    gy_checkpoints_close(&list);
    return status;
}

GYRE_API int gyre_find_checkpoint(const char *folder, char *path, size_t room, struct gyre_error *error)
{
    GY_TRY(gy_given(folder, "gyre_find_checkpoint: folder", error));
    GY_TRY(gy_given(path, "gyre_find_checkpoint: path", error));
    struct gy_error err = { 0 };
    const int status = trainf_find(folder, path, room, &err);
    return status == GY_OK ? GYRE_OK : gy_error_out(error, &err);
}

/* ---- metrics ---- */

GY_INT int gy_run_files_open(struct gy_run_files *files, const struct gy_alloc *alloc, const char *folder,
                             int64_t first_step, struct gy_error *err)
{
    char path[4096];
    *files = (struct gy_run_files){ .alloc = alloc, .folder = folder };
    GY_TRY(gy_file_join(path, sizeof path, folder, "metrics.csv", err));
    GY_TRY(gy_csv_open(&files->csv, alloc, path, TRAINF_HEADER, first_step, err));
    GY_TRY(gy_events_open(&files->events, alloc, folder, err));
    /* the row of first_step may be missing */
    const int64_t next = gy_csv_last(files->csv) < first_step ? first_step : first_step + 1;
    return first_step > 0 ? gy_events_restart(files->events, next, err) : GY_OK;
}

GY_INT int64_t gy_run_files_last(const struct gy_run_files *files) { return gy_csv_last(files->csv); }

GY_INT int gy_run_files_close(struct gy_run_files *files, struct gy_error *err)
{
    const int events = gy_events_close(files->events, err), rows = gy_csv_close(files->csv, err);
    memset(files, 0, sizeof *files);
    return events != GY_OK ? events : rows;
}

/* A number, or nothing where there is none. */
static const char *trainf_number(char text[32], int there, double value)
{
    text[0] = 0;
    if (there && isfinite(value))
        gy_text_print(text, 32, "%.7g", value);
    return text;
}

static int trainf_events(struct gy_events *events, const struct gy_run_row *row, struct gy_error *err)
{
    const struct {
        const char *tag;
        int there;
        double value;
    } scalars[] = {
        { "loss/train", row->samples > 0, row->loss },
        { "accuracy/train", row->samples > 0, row->accuracy },
        { "loss/test", row->tested, row->test_loss },
        { "accuracy/test", row->tested, row->test_accuracy },
        { "top5/test", row->tested, row->test_top5 },
        { "rate", 1, row->rate },
        { "images_per_second", 1, row->images_per_second },
        { "loss_scale", row->loss_scale > 0, row->loss_scale },
        { "skipped_steps", row->loss_scale > 0, (double)row->skipped_steps },
    };
    for (size_t i = 0; i < GY_COUNT(scalars); i++)
        if (scalars[i].there)
            GY_TRY(gy_events_scalar(events, row->step, scalars[i].tag, scalars[i].value, err));
    return GY_OK;
}

GY_INT int gy_run_files_row(struct gy_run_files *files, const struct gy_run_row *row, struct gy_error *err)
{
    char text[7][32];
    GY_TRY(gy_csv_row(files->csv, err, "%" PRId64 ",%d,%s,%s,%s,%s,%s,%s,%s", row->step, row->epoch,
                      trainf_number(text[0], row->samples > 0, row->loss),
                      trainf_number(text[1], row->samples > 0, row->accuracy),
                      trainf_number(text[2], row->tested, row->test_loss),
                      trainf_number(text[3], row->tested, row->test_accuracy),
                      trainf_number(text[4], row->tested, row->test_top5), trainf_number(text[5], 1, row->rate),
                      trainf_number(text[6], 1, row->images_per_second)));
    return trainf_events(files->events, row, err);
}

/* ---- curve ---- */

enum { TRAINF_LOSS, TRAINF_ACCURACY, TRAINF_TEST_LOSS, TRAINF_TEST_ACCURACY, TRAINF_LINES };
/* Columns of metrics.csv that are drawn. */
static const struct {
    const char *name;
    int column, percent;
} trainf_lines[TRAINF_LINES] = {
    { "training loss", 2, 0 },
    { "training accuracy", 3, 1 },
    { "test loss", 4, 0 },
    { "test accuracy", 5, 1 },
};

struct trainf_points {
    double *x[TRAINF_LINES], *y[TRAINF_LINES];
    int64_t count[TRAINF_LINES];
};

/* Field number `column` of a row that ends at the newline; 0 when it is no number. */
static int trainf_field(const char *row, int column, double *value)
{
    char text[40];
    for (; column > 0; column--) {
        row += strcspn(row, ",\n");
        if (*row != ',')
            return 0;
        row++;
    }
    const size_t bytes = strcspn(row, ",\n");
    if (bytes == 0 || bytes >= sizeof text)
        return 0;
    memcpy(text, row, bytes);
    text[bytes] = 0;
    return gy_text_real(text, -HUGE_VAL, HUGE_VAL, value) == 0;
}

static void trainf_collect(struct trainf_points *points, const char *text, int64_t per_epoch)
{
    for (const char *row = strchr(text, '\n'); row && row[1]; row = strchr(row + 1, '\n')) {
        double step, value;
        if (!trainf_field(row + 1, 0, &step))
            continue;
        for (int l = 0; l < TRAINF_LINES; l++)
            if (trainf_field(row + 1, trainf_lines[l].column, &value)) {
                points->x[l][points->count[l]] = step / (double)per_epoch;
                points->y[l][points->count[l]++] = trainf_lines[l].percent ? 100 * value : value;
            }
    }
}

static int trainf_draw(struct gy_run_files *files, const char *text, double *room, size_t rows, int64_t per_epoch,
                       struct gy_error *err)
{
    struct trainf_points points = { .count = { 0 } };
    struct gy_series series[TRAINF_LINES];
    char path[4096];
    for (int l = 0; l < TRAINF_LINES; l++) {
        points.x[l] = room + (size_t)(2 * l) * rows;
        points.y[l] = points.x[l] + rows;
    }
    trainf_collect(&points, text, per_epoch);
    for (int l = 0; l < TRAINF_LINES; l++)
        series[l] = (struct gy_series){ trainf_lines[l].name, points.x[l], points.y[l], points.count[l],
                                        trainf_lines[l].percent };
    GY_TRY(gy_file_join(path, sizeof path, files->folder, "curve.svg", err));
    return gy_svg_curve(path, "training", "epoch", "loss", "accuracy, %", series, TRAINF_LINES, err);
}

GY_INT int gy_run_files_curve(struct gy_run_files *files, int64_t per_epoch, struct gy_error *err)
{
    char path[4096], *text;
    size_t bytes, rows = 1;
    GY_TRY(gy_file_join(path, sizeof path, files->folder, "metrics.csv", err));
    GY_TRY(gy_file_read(files->alloc, path, (size_t)1 << 30, &text, &bytes, err));
    for (size_t i = 0; i < bytes; i++)
        rows += text[i] == '\n';
    double *room = gy_alloc_take(files->alloc, rows, 2 * TRAINF_LINES * sizeof *room);
    const int status = room ? trainf_draw(files, text, room, rows, per_epoch, err)
                            : GY_NOMEM(err, "the curve", rows * 2 * TRAINF_LINES * sizeof *room);
    gy_alloc_free(files->alloc, room, rows * 2 * TRAINF_LINES * sizeof *room);
    gy_alloc_free(files->alloc, text, bytes + 1);
    return status;
}
