/* SPDX-License-Identifier: MIT */
/* t_api_null.c: the public functions with each of their pointers NULL, one at a time. Each call
 * runs in a child process, so that a crash is counted and named. The table says what must come of
 * it. It is compared with the public headers, function by function and pointer by pointer. Then
 * numbers out of range. */
#include <sys/wait.h>

#include "tests/api_null.h"

#define AN_SECONDS 60 /* that a call may take */

enum an_end { AN_GOOD, AN_WRONG }; /* a child's exit code */

/* then: the character behind a pointer's name says what the call does with NULL there. '!':
 * GYRE_E_ARG with a sentence. '-': NULL is allowed, and the call ends as with all pointers. '+':
 * like '-', but an earlier call covers it and this one is slow, so it is left out.
 * base: how the call ends with all pointers. '=': it succeeds. '?': it may fail with a sentence, as
 * not every machine has what it needs. '<': it must fail. */
static const struct an_row {
    const char *name;
    int (*call)(void);
    char base;
    const char *pointers; /* "net! batch! result-" in the order of the header */
} an_rows[] = {
    { "gyre_version", an_version, '=', "" },
    { "gyre_source_id", an_source_id, '=', "" },
    { "gyre_status_name", an_status_name, '=', "" },
    { "gyre_config_default", an_config_default, '=', "config-" },
    { "gyre_measure", an_measure, '=', "config! need! error-" },
    { "gyre_open", an_open, '=', "net! config! error-" },
    { "gyre_close", an_close, '=', "net-" },
    { "gyre_last_error", an_last_error, '=', "net-" },
    { "gyre_get_shape", an_get_shape, '=', "net- shape-" },
    { "gyre_step", an_step, '=', "net! batch! result-" },
    { "gyre_eval", an_eval, '=', "net! batch! result-" },
    { "gyre_predict", an_predict, '=', "net! batch! scores!" },
    { "gyre_gradient", an_gradient, '=', "net! batch! result-" },
    { "gyre_get_scores", an_get_scores, '=', "net! scores- loss- rank-" },
    { "gyre_find_nonfinite", an_find_nonfinite, '=', "net! batch! sample- where-" },
    { "gyre_write_trace", an_write_trace, '=', "net! path!" },
    { "gyre_tensor_count", an_tensor_count, '=', "net-" },
    { "gyre_tensor_at", an_tensor_at, '=', "net! info!" },
    { "gyre_get_tensor", an_get_tensor, '=', "net! name! values!" },
    { "gyre_set_tensor", an_set_tensor, '=', "net! name! values!" },
    { "gyre_save", an_save, '=', "net! path!" },
    { "gyre_load", an_load, '=', "net! path!" },
    { "gyre_export", an_export, '=', "net! path!" },
    { "gyre_import", an_import, '=', "net! path! skipped-" },
    { "gyre_read_net", an_read_net, '=', "path! text! bytes- error-" },
    { "gyre_read_input", an_read_input, '=', "path! config! error-" },
    { "gyre_read_note", an_read_note, '=', "path! key! text! error-" },
    { "gyre_note", an_note, '=', "net! key! value!" },
    { "gyre_zoo_name", an_zoo_name, '=', "" },
    { "gyre_zoo_about", an_zoo_about, '=', "" },
    { "gyre_zoo_text", an_zoo_text, '=', "name! sink! error-" },
    { "gyre_print_language", an_print_language, '=', "sink!" },
    { "gyre_print_knobs", an_print_knobs, '=', "sink!" },
    { "gyre_print_plan", an_print_plan, '=', "net! sink!" },
    { "gyre_print_stages", an_print_stages, '=', "config! sink! error-" },
    { "gyre_print_config_plan", an_print_config_plan, '=', "config! sink! error-" },
    { "gyre_print_bench", an_print_bench, '=', "net! sink!" },
    { "gyre_tune_config_default", an_tune_default, '=', "config-" },
    { "gyre_print_tune", an_print_tune, '?', "net! config- sink!" },
    { "gyre_kernels_config_default", an_kernels_default, '=', "config-" },
    { "gyre_print_kernels", an_print_kernels, '?', "config! what- sink! error-" },
    { "gyre_pack_kernels", an_pack_kernels, '?', "config! archs! path! error-" },
    { "gyre_try_config_default", an_try_default, '=', "config-" },
    { "gyre_print_try", an_print_try, '?', "config! what! sink! error-" },
    { "gyre_print_audit", an_print_audit, '?', "path! log- sink! error-" },
    { "gyre_data_config_default", an_data_default, '=', "config-" },
    { "gyre_open_data", an_open_data, '=', "data! config! error-" },
    { "gyre_close_data", an_close_data, '=', "data-" },
    { "gyre_get_data_info", an_get_data_info, '=', "data- info-" },
    { "gyre_class_name", an_class_name, '=', "data!" },
    { "gyre_sample_name", an_sample_name, '=', "data- buf!" },
    { "gyre_loader_config_default", an_loader_default, '=', "config-" },
    { "gyre_open_loader", an_open_loader, '=', "loader! data! config! error-" },
    { "gyre_next_batch", an_next_batch, '=', "loader! batch! samples- error-" },
    { "gyre_close_loader", an_close_loader, '=', "loader-" },
    { "gyre_write_contact_sheet", an_contact_sheet, '=', "loader! path! error-" },
    { "gyre_read_image", an_read_image, '=', "path! pixels! error-" },
    { "gyre_pack", an_pack, '=', "data! path! progress- user- error-" },
    { "gyre_job_config_default", an_job_default, '=', "config-" },
    { "gyre_job_open", an_job_open, '=', "job! config- error-" },
    { "gyre_job_end", an_job_end, '=', "job- error-" },
    { "gyre_job_close", an_job_close, '=', "job-" },
    { "gyre_job_rank", an_job_rank, '=', "job-" },
    { "gyre_job_ranks", an_job_ranks, '=', "job-" },
    { "gyre_job_sum", an_job_sum, '=', "job- data! error-" },
    { "gyre_job_memory", an_job_memory, '=', "job! memory! error-" },
    { "gyre_job_memory_shared", an_job_memory_shared, '=', "job! memory! sums! error-" },
    { "gyre_job_release", an_job_release, '=', "job- memory-" },
    { "gyre_job_sum_start", an_job_sum_start, '=', "job- data! ticket! error-" },
    { "gyre_job_sum_test", an_job_sum_test, '=', "job- done! error-" },
    { "gyre_job_sum_wait", an_job_sum_wait, '=', "job- error-" },
    { "gyre_collective_name", an_collective_name, '=', "" },
    { "gyre_collective_about", an_collective_about, '=', "" },
    { "gyre_collective_default", an_collective_default, '=', "collective-" },
    { "gyre_print_collective", an_print_collective, '=', "collective! sink! error-" },
    { "gyre_simulation_default", an_simulation_default, '=', "simulation-" },
    { "gyre_count_devices", an_count_devices, '?', "kind! count! error-" },
    { "gyre_print_ranks", an_print_ranks, '=', "job- sink! error-" },
    { "gyre_print_doctor", an_print_doctor, '?', "folder! sink! error-" },
    { "gyre_print_simulation", an_print_simulation, '=', "simulation! sink! error-" },
    { "gyre_train_config_default", an_train_default, '=', "config-" },
    { "gyre_train", an_train, '=', "net! config!" },
    { "gyre_find_checkpoint", an_find_checkpoint, '=', "folder! path! error-" },
    { "gyre_why_config_default", an_why_default, '=', "config-" },
    { "gyre_print_why", an_print_why, '=', "net! config- sink!" },
    { "gyre_fit_config_default", an_fit_default, '=', "config-" },
    { "gyre_fit_ranks_default", an_fit_ranks_default, '=', "ranks-" },
    { "gyre_print_fit_ranks", an_print_fit_ranks, '?', "config! fit! ranks! choice- half_wire- sink! error-" },
    { "gyre_print_fit", an_print_fit, '?', "config! fit! choice- sink+ error+" },
    { "gyre_evaluate_config_default", an_evaluate_default, '=', "config-" },
    { "gyre_evaluate", an_evaluate, '=', "net! config! report-" },
    { "gyre_glm_data_default", an_glm_data_default, '=', "data-" },
    { "gyre_glm_config_default", an_glm_config_default, '=', "config-" },
    { "gyre_glm_train", an_glm_train, '=', "model! config! report- error-" },
    { "gyre_glm_close", an_glm_close, '=', "model-" },
    { "gyre_glm_save", an_glm_save, '=', "model! path! error-" },
    { "gyre_glm_load", an_glm_load, '=', "model! path! error-" },
    { "gyre_glm_get_info", an_glm_get_info, '=', "model- info-" },
    { "gyre_glm_get_part", an_glm_get_part, '=', "model! part!" },
    { "gyre_glm_predict_default", an_glm_predict_default, '=', "config-" },
    { "gyre_glm_predict", an_glm_predict, '=', "model! config! metrics- error-" },
    { "gyre_glm_verify_default", an_glm_verify_default, '=', "config-" },
    { "gyre_glm_verify", an_glm_verify, '=', "model! config! verdict! error-" },
    { "gyre_glm_convert_default", an_glm_convert_default, '=', "config-" },
    { "gyre_glm_convert", an_glm_convert, '=', "config! text- error-" },
    { "gyre_glm_print_inspect", an_glm_print_inspect, '=', "path! how- text! error-" },
    { "gyre_glm_generate_default", an_glm_generate_default, '=', "config-" },
    { "gyre_glm_generate", an_glm_generate, '=', "config! out- error-" },
};

/* ---- children ---- */

/* What a child found. */
static int an_judge(int status, char want, int hidden)
{
    const int said = hidden || (an.said && an.said[0]);
    const int failed = status < 0 && said;
    const int good = want == '!' ? status == GYRE_E_ARG && said : want == '=' ? status == GYRE_OK : failed || (want == '?' && status == GYRE_OK);
    if (!good)
        printf("    status %d (%s), '%.300s'\n", status, gyre_status_name(status), an.said ? an.said : "");
    return good ? AN_GOOD : AN_WRONG;
}

/* The call, in a child; number: of the pointer that is NULL. */
static void an_child(const char *name, const char *pointer, int (*call)(void), int number, char want)
{
    int code = 0;
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        alarm(AN_SECONDS);
        an.null = number;
        an.said = NULL;
        const int found = an_judge(call(), want, number == 9);
        fflush(stdout);
        _exit(found);
    }
    if (!T_CHECK(child > 0 && waitpid(child, &code, 0) == child))
        return;
    if (WIFSIGNALED(code))
        T_CHECK_MSG(0, "%s: signal %d with %s", name, WTERMSIG(code), pointer);
    else
        T_CHECK_MSG(WEXITSTATUS(code) == AN_GOOD, "%s with %s: code %d", name, pointer, WEXITSTATUS(code));
}

/* The next "name!" of a list; 0 at its end. */
static int an_pointer(const char **at, char name[40], char *then)
{
    int bytes = 0;
    while (**at == ' ')
        ++*at;
    if (sscanf(*at, "%38[a-z_]%n", name, &bytes) != 1)
        return 0;
    *then = (*at)[bytes];
    *at += bytes + 1;
    return 1;
}

static int an_number(const char *name, int order) { return strcmp(name, "error") == 0 || strcmp(name, "where") == 0 ? 9 : order; }

static void an_call_row(const struct an_row *row)
{
    char name[40], text[64], then;
    int order = 0;
    an_child(row->name, "all pointers", row->call, -1, row->base);
    for (const char *at = row->pointers; an_pointer(&at, name, &then); order++) {
        snprintf(text, sizeof text, "%s NULL", name);
        if (then != '+')
            an_child(row->name, text, row->call, an_number(name, order), then == '!' ? '!' : row->base);
    }
}

/* ---- the headers ---- */

/* Lists the names of pointers among arguments.
 * "type *a, int b, int (*c)(void *, int)" gives "a c ". */
static void an_list_pointers(const char *arguments, size_t bytes, char *out, size_t room)
{
    size_t used = 0, begin = 0;
    int depth = 0;
    out[0] = 0;
    for (size_t i = 0; i <= bytes; i++) {
        depth += i < bytes && arguments[i] == '(' ? 1 : i < bytes && arguments[i] == ')' ? -1 : 0;
        if (i < bytes && (arguments[i] != ',' || depth > 0))
            continue;
        char one[200], name[64] = "";
        snprintf(one, sizeof one, "%.*s", (int)(i - begin < 199 ? i - begin : 199), arguments + begin);
        const char *star = strstr(one, "(*") ? strstr(one, "(*") + 1 : strrchr(one, '*');
        if (star && sscanf(star + 1, "%60[a-z_]", name) == 1 && used + strlen(name) + 2 < room)
            used += (size_t)snprintf(out + used, room - used, "%s ", name);
        begin = i + 1;
    }
}

/* Is what the header declares in the table, as it declares it? */
static void an_check_function(const char *name, size_t bytes, const char *pointers, int *seen)
{
    char want[300] = "", one[40], then;
    for (size_t i = 0; i < GY_COUNT(an_rows); i++) {
        if (strlen(an_rows[i].name) != bytes || strncmp(an_rows[i].name, name, bytes) != 0)
            continue;
        for (const char *at = an_rows[i].pointers; an_pointer(&at, one, &then);)
            snprintf(want + strlen(want), sizeof want - strlen(want), "%s ", one);
        T_CHECK_MSG(strcmp(want, pointers) == 0, "%.*s: the table has '%s', the header '%s'", (int)bytes, name, want, pointers);
        seen[i]++;
        return;
    }
    T_CHECK_MSG(0, "%.*s is not in the table", (int)bytes, name);
}

static int an_check_header(const char *path, int *seen)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *text, pointers[300];
    size_t bytes;
    int count = 0;
    if (gy_file_read(&alloc, path, (size_t)1 << 20, &text, &bytes, NULL) != GY_OK)
        return 0;
    for (char *at = text; (at = strstr(at, "\nGYRE_API ")) != NULL; count++) {
        at += 10;
        char *const open = strchr(at, '('), *const end = open ? strstr(open, ");") : NULL;
        if (!T_CHECK(end != NULL))
            break;
        char *name = open;
        while (name > at && (name[-1] == '_' || (name[-1] >= 'a' && name[-1] <= 'z')))
            name--;
        an_list_pointers(open + 1, (size_t)(end - open - 1), pointers, sizeof pointers);
        an_check_function(name, (size_t)(open - name), pointers, seen);
    }
    gy_alloc_free(&alloc, text, bytes + 1);
    return count;
}

static void an_headers(void)
{
    int seen[GY_COUNT(an_rows)] = { 0 };
    const int nets = an_check_header("engine/gyre.h", seen), models = an_check_header("engine/gyre_glm.h", seen),
              others = an_check_header("engine/gyre_base.h", seen) + an_check_header("engine/gyre_job.h", seen),
              lab = an_check_header("tools/lab/lab.h", seen);
    if (nets == 0 || models == 0 || lab == 0) {
        T_SKIP("the public headers are not in this folder: the table is not compared with them");
        return;
    }
    for (size_t i = 0; i < GY_COUNT(an_rows); i++)
        T_CHECK_MSG(seen[i] == 1, "%s: %d declarations", an_rows[i].name, seen[i]);
    printf("%d public functions, %d of the lab\n", nets + models + others, lab);
}

/* ---- NULL members and numbers out of range: GYRE_E_ARG, or another refusal, explained ---- */

#include "tests/api_odd.h"

int main(void)
{
    an_make();
    an_headers();
    for (size_t i = 0; i < GY_COUNT(an_rows); i++)
        an_call_row(&an_rows[i]);
    for (size_t i = 0; i < GY_COUNT(an_odds); i++)
        an_child(an_odds[i].name, "odd values", an_odds[i].call, -1, '<');
    an_clean();
    T_END("t_api_null");
}
