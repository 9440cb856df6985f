/* SPDX-License-Identifier: MIT */
/* api_null.h: every public function, called with one of its pointers NULL and the others as they
 * should be (t_api_null.c has the table). */
#ifndef GY_API_NULL_H
#define GY_API_NULL_H
#include "engine/gyre_job.h"
#include "tools/lab/lab.h"
#include "tests/data_files.h"

#include "engine/gyre_glm.h"

#define AN_CLASSES 2
#define AN_PIXELS 48

/* What calls need. Made once; a call happens in a child, which has it as its own. */
static struct an_world {
    int null;              /* number of the pointer that is NULL; -1: none */
    const char *said;      /* the sentence of the call */
    struct gyre_error error;
    struct gyre_config config;
    struct gyre_net *net;
    struct gyre_batch batch;
    unsigned char x[2 * AN_PIXELS];
    int32_t label[2];
    float values[4096], scores[2 * AN_CLASSES];
    char text[4096], folder[256], file[256], other[256], blocks[256], images[256], image[256], rows[256], model_file[256];
    struct gyre_data_config data_config;
    struct gyre_data *data;
    struct gyre_sink sink;
    struct gyre_glm_data rows_data;
    struct gyre_glm *model;
    const char *files[1];
    struct gyre_job *job;
} an;

/* The pointer, or NULL when it is its turn. */
static void *an_p(int number, const void *pointer)
{
    void *p;
    memcpy(&p, &pointer, sizeof p);
    return number == an.null ? NULL : p;
}

static int an_nowhere(void *user, const char *text, size_t bytes)
{
    (void)user, (void)text, (void)bytes;
    return 0;
}

/* ---- calls: 0 or a status; an.said is where their sentence must stand ---- */

static int an_by_error(int status)
{
    an.said = an.error.text;
    return status;
}
static int an_by_net(int status)
{
    const struct gyre_error *const last = gyre_last_error(an.null == 0 ? NULL : an.net);
    an.said = status == GYRE_OK || last->status == status ? last->text : "";
    return status;
}
static int an_mute(int status)
{
    an.said = "none is promised";
    return status;
}
static int an_text(const char *text) { return an_mute(text ? GYRE_OK : GYRE_E_ARG); }

#define E an_p(9, &an.error) /* no call has so many pointers before it */

static int an_version(void) { return an_mute(gyre_version() == GYRE_VERSION ? GYRE_OK : GYRE_E_BUG); }
static int an_source_id(void) { return an_text(gyre_source_id()); }
static int an_status_name(void) { return an_text(gyre_status_name(-1)); }
static int an_config_default(void) { gyre_config_default(an_p(0, &an.config)); return an_mute(GYRE_OK); }
static int an_measure(void)
{
    struct gyre_need need;
    return an_by_error(gyre_measure(an_p(0, &an.config), an_p(1, &need), E));
}
static int an_open(void)
{
    struct gyre_net *net;
    return an_by_error(gyre_open(an_p(0, &net), an_p(1, &an.config), E));
}
static int an_close(void) { gyre_close(an_p(0, an.net)); return an_mute(GYRE_OK); }
static int an_last_error(void) { return an_text(gyre_last_error(an_p(0, an.net))->text); }
static int an_get_shape(void)
{
    struct gyre_shape shape;
    gyre_get_shape(an_p(0, an.net), an_p(1, &shape));
    return an_mute(GYRE_OK);
}
static struct gyre_result an_result;
static int an_step(void) { return an_by_net(gyre_step(an_p(0, an.net), an_p(1, &an.batch), an_p(2, &an_result))); }
static int an_eval(void) { return an_by_net(gyre_eval(an_p(0, an.net), an_p(1, &an.batch), an_p(2, &an_result))); }
static int an_predict(void) { return an_by_net(gyre_predict(an_p(0, an.net), an_p(1, &an.batch), an_p(2, an.scores))); }
static int an_gradient(void) { return an_by_net(gyre_gradient(an_p(0, an.net), an_p(1, &an.batch), an_p(2, &an_result))); }
static int an_get_scores(void)
{
    const float *scores, *loss;
    const int32_t *rank;
    return an_by_net(gyre_get_scores(an_p(0, an.net), an_p(1, &scores), an_p(2, &loss), an_p(3, &rank)));
}
static int an_find_nonfinite(void)
{
    int32_t sample;
    return an_by_error(gyre_find_nonfinite(an_p(0, an.net), an_p(1, &an.batch), an_p(2, &sample), E));
}
static int an_write_trace(void) { return an_by_net(gyre_write_trace(an_p(0, an.net), an_p(1, an.other))); }
static int an_tensor_count(void) { return an_mute(gyre_tensor_count(an_p(0, an.net)) > 0 || an.null == 0 ? GYRE_OK : GYRE_E_BUG); }
static int an_tensor_at(void)
{
    struct gyre_tensor_info info;
    return an_mute(gyre_tensor_at(an_p(0, an.net), 0, an_p(1, &info)));
}
static int64_t an_count(struct gyre_tensor_info *info)
{
    gyre_tensor_at(an.net, 0, info);
    return info->count;
}
static int an_get_tensor(void)
{
    struct gyre_tensor_info info;
    const int64_t count = an_count(&info);
    return an_by_net(gyre_get_tensor(an_p(0, an.net), an_p(1, info.name), an_p(2, an.values), count));
}
static int an_set_tensor(void)
{
    struct gyre_tensor_info info;
    const int64_t count = an_count(&info);
    return an_by_net(gyre_set_tensor(an_p(0, an.net), an_p(1, info.name), an_p(2, an.values), count));
}
static int an_save(void) { return an_by_net(gyre_save(an_p(0, an.net), an_p(1, an.other))); }
static int an_load(void) { return an_by_net(gyre_load(an_p(0, an.net), an_p(1, an.file))); }
static int an_export(void) { return an_by_net(gyre_export(an_p(0, an.net), an_p(1, an.other))); }
static int an_import(void)
{
    int skipped;
    return an_by_net(gyre_import(an_p(0, an.net), an_p(1, an.file), 0, an_p(2, &skipped)));
}
static int an_read_net(void)
{
    size_t bytes;
    return an_by_error(gyre_read_net(an_p(0, an.file), an_p(1, an.text), sizeof an.text, an_p(2, &bytes), E));
}
static int an_read_input(void) { return an_by_error(gyre_read_input(an_p(0, an.file), an_p(1, &an.config), E)); }
static int an_read_note(void) { return an_by_error(gyre_read_note(an_p(0, an.file), an_p(1, "what"), an_p(2, an.text), sizeof an.text, E)); }
static int an_note(void) { return an_by_net(gyre_note(an_p(0, an.net), an_p(1, "key"), an_p(2, "value"))); }
static int an_zoo_name(void) { return an_text(gyre_zoo_name(0)); }
static int an_zoo_about(void) { return an_text(gyre_zoo_about(0)); }
static int an_zoo_text(void) { return an_by_error(gyre_zoo_text(an_p(0, "lenet5"), 0, 0, 0, 0, an_p(1, &an.sink), E)); }
static int an_print_language(void) { return an_mute(gyre_print_language(an_p(0, &an.sink))); }
static int an_print_knobs(void) { return an_mute(gyre_print_knobs(an_p(0, &an.sink))); }
static int an_print_plan(void) { return an_by_net(gyre_print_plan(an_p(0, an.net), 0, an_p(1, &an.sink))); }
static int an_print_stages(void)
{
    an.config.pipeline = 2;
    return an_by_error(gyre_print_stages(an_p(0, &an.config), 0, an_p(1, &an.sink), E));
}
static int an_print_config_plan(void) { return an_by_error(gyre_print_config_plan(an_p(0, &an.config), 0, an_p(1, &an.sink), E)); }
static int an_print_bench(void) { return an_by_net(gyre_print_bench(an_p(0, an.net), 1, 0, an_p(1, &an.sink))); }
static struct gyre_tune_config an_tune_config;
static int an_tune_default(void) { gyre_tune_config_default(an_p(0, &an_tune_config)); return an_mute(GYRE_OK); }
static int an_print_tune(void)
{
    gyre_tune_config_default(&an_tune_config);
    an_tune_config.runs = 1;
    an_tune_config.path = an.other;
    return an_by_net(gyre_print_tune(an_p(0, an.net), an_p(1, &an_tune_config), an_p(2, &an.sink)));
}
static struct gyre_kernels_config an_kernels_config;
static int an_kernels_default(void) { gyre_kernels_config_default(an_p(0, &an_kernels_config)); return an_mute(GYRE_OK); }
static int an_print_kernels(void)
{
    gyre_kernels_config_default(&an_kernels_config);
    return an_by_error(gyre_print_kernels(an_p(0, &an.config), an_p(1, &an_kernels_config), an_p(2, &an.sink), E));
}
static int an_pack_kernels(void)
{
    static const int archs[1] = { 9999 };
    return an_by_error(gyre_pack_kernels(an_p(0, &an.config), an_p(1, archs), 1, an_p(2, an.other), E));
}
static struct gyre_try_config an_try_config;
static int an_try_default(void) { gyre_try_config_default(an_p(0, &an_try_config)); return an_mute(GYRE_OK); }
static int an_print_try(void)
{
    gyre_try_config_default(&an_try_config);
    an_try_config.file = an.rows;
    return an_by_error(gyre_print_try(an_p(0, &an.config), an_p(1, &an_try_config), an_p(2, &an.sink), E));
}
static int an_print_audit(void) { return an_by_error(gyre_print_audit(an_p(0, an.file), an_p(1, &an.config.log), an_p(2, &an.sink), E)); }

/* ---- data ---- */

static int an_data_default(void) { gyre_data_config_default(an_p(0, &an.data_config)); return an_mute(GYRE_OK); }
static int an_open_data(void)
{
    struct gyre_data *data;
    return an_by_error(gyre_open_data(an_p(0, &data), an_p(1, &an.data_config), E));
}
static int an_close_data(void) { gyre_close_data(an_p(0, an.data)); return an_mute(GYRE_OK); }
static int an_get_data_info(void)
{
    struct gyre_data_info info;
    gyre_get_data_info(an_p(0, an.data), an_p(1, &info));
    return an_mute(GYRE_OK);
}
static int an_class_name(void) { return an_text(gyre_class_name(an_p(0, an.data), 0)); }
static int an_sample_name(void) { return an_text(gyre_sample_name(an_p(0, an.data), 0, an_p(1, an.text), sizeof an.text)); }
static struct gyre_loader_config an_loader_config;
static int an_loader_default(void) { gyre_loader_config_default(an_p(0, &an_loader_config)); return an_mute(GYRE_OK); }
static void an_set_loader(void)
{
    gyre_loader_config_default(&an_loader_config);
    an_loader_config.batch = 2;
    an_loader_config.h = an_loader_config.w = 4;
    an_loader_config.c = 3;
}
static int an_open_loader(void)
{
    struct gyre_loader *loader;
    an_set_loader();
    return an_by_error(gyre_open_loader(an_p(0, &loader), an_p(1, an.data), an_p(2, &an_loader_config), E));
}
/* Loaders have threads, which no child inherits. */
static struct gyre_loader *an_loader(void)
{
    struct gyre_loader *loader = NULL;
    an_set_loader();
    gyre_open_loader(&loader, an.data, &an_loader_config, NULL);
    return loader;
}
static int an_next_batch(void)
{
    const int64_t *samples;
    struct gyre_loader *const loader = an_loader();
    return an_by_error(gyre_next_batch(an_p(0, loader), an_p(1, &an.batch), an_p(2, &samples), E));
}
static int an_close_loader(void) { gyre_close_loader(an_p(0, an_loader())); return an_mute(GYRE_OK); }
static int an_contact_sheet(void)
{
    struct gyre_loader *const loader = an_loader();
    return an_by_error(gyre_write_contact_sheet(an_p(0, loader), an_p(1, an.other), E));
}
static int an_read_image(void) { return an_by_error(gyre_read_image(an_p(0, an.image), 4, 4, 3, 0, an_p(1, an.text), E)); }
static int an_progress(void *user, int64_t done, int64_t total)
{
    (void)user, (void)done, (void)total;
    return 0;
}
static int an_pack(void)
{
    return an_by_error(gyre_pack(an_p(0, an.data), an_p(1, an.other), 0, 1, an.null == 2 ? NULL : an_progress, an_p(3, &an), E));
}

/* ---- jobs ---- */

static struct gyre_job_config an_job_config;
static int an_job_default(void) { gyre_job_config_default(an_p(0, &an_job_config)); return an_mute(GYRE_OK); }
static int an_job_open(void)
{
    struct gyre_job *job;
    gyre_job_config_default(&an_job_config);
    return an_by_error(gyre_job_open(an_p(0, &job), an_p(1, &an_job_config), E));
}
static int an_job_end(void) { return an_by_error(gyre_job_end(an_p(0, an.job), E)); }
static int an_job_close(void) { gyre_job_close(an_p(0, an.job)); return an_mute(GYRE_OK); }
static int an_job_rank(void) { return an_mute(gyre_job_rank(an_p(0, an.job))); }
static int an_job_ranks(void) { return an_mute(gyre_job_ranks(an_p(0, an.job)) == 1 ? GYRE_OK : GYRE_E_BUG); }
static int an_job_sum(void) { return an_by_error(gyre_job_sum(an_p(0, an.job), an_p(1, an.values), 4, E)); }
static int an_job_memory(void)
{
    void *memory;
    return an_by_error(gyre_job_memory(an_p(0, an.job), 64, an_p(1, &memory), E));
}
static int an_job_memory_shared(void)
{
    void *memory, *sums;
    return an_by_error(gyre_job_memory_shared(an_p(0, an.job), 64, an_p(1, &memory), an_p(2, &sums), E));
}
static int an_job_release(void)
{
    void *memory = NULL;
    gyre_job_memory(an.job, 64, &memory, NULL);
    gyre_job_release(an_p(0, an.job), an_p(1, memory));
    return an_mute(GYRE_OK);
}
static int an_job_sum_start(void)
{
    void *memory = NULL;
    int64_t ticket;
    gyre_job_memory(an.job, 64, &memory, NULL);
    return an_by_error(gyre_job_sum_start(an_p(0, an.job), an_p(1, memory), 4, an_p(2, &ticket), E));
}
static int an_job_sum_test(void)
{
    int done;
    return an_by_error(gyre_job_sum_test(an_p(0, an.job), 0, an_p(1, &done), E));
}
static int an_job_sum_wait(void) { return an_by_error(gyre_job_sum_wait(an_p(0, an.job), 0, E)); }

static int an_count_devices(void)
{
    int count;
    return an_by_error(gyre_count_devices(an_p(0, "cuda"), an_p(1, &count), E));
}
static int an_print_ranks(void)
{
    return an_by_error(gyre_print_ranks(an_p(0, an.job), 8, 0, an_p(1, &an.sink), E));
}
static int an_print_doctor(void)
{
    return an_by_error(gyre_print_doctor(an_p(0, an.folder), 0, 0, an_p(1, &an.sink), E));
}

static int an_collective_name(void) { return an_text(gyre_collective_name(0)); }
static int an_collective_about(void) { return an_text(gyre_collective_about(0)); }
static struct gyre_collective an_collective;
static int an_collective_default(void) { gyre_collective_default(an_p(0, &an_collective)); return an_mute(GYRE_OK); }
static int an_print_collective(void)
{
    gyre_collective_default(&an_collective);
    return an_by_error(gyre_print_collective(an_p(0, &an_collective), an_p(1, &an.sink), E));
}
static struct gyre_simulation an_simulation;
static int an_simulation_default(void) { gyre_simulation_default(an_p(0, &an_simulation)); return an_mute(GYRE_OK); }
static int an_print_simulation(void)
{
    gyre_simulation_default(&an_simulation);
    an_simulation.cluster = an.folder; /* "here.cluster": one host */
    an_simulation.samples = 1;
    return an_by_error(gyre_print_simulation(an_p(0, &an_simulation), an_p(1, &an.sink), E));
}

/* ---- the loop ---- */

static struct gyre_train_config an_train_config;
static int an_train_default(void) { gyre_train_config_default(an_p(0, &an_train_config)); return an_mute(GYRE_OK); }
static int an_train(void)
{
    gyre_train_config_default(&an_train_config);
    an_train_config.train = an.data;
    an_train_config.max_steps = 1;
    return an_by_net(gyre_train(an_p(0, an.net), an_p(1, &an_train_config)));
}
static int an_find_checkpoint(void) { return an_by_error(gyre_find_checkpoint(an_p(0, df_root), an_p(1, an.text), sizeof an.text, E)); }
static struct gyre_why_config an_why_config;
static int an_why_default(void) { gyre_why_config_default(an_p(0, &an_why_config)); return an_mute(GYRE_OK); }
static int an_print_why(void)
{
    gyre_why_config_default(&an_why_config);
    an_why_config.steps = 1;
    return an_by_net(gyre_print_why(an_p(0, an.net), an_p(1, &an_why_config), an_p(2, &an.sink)));
}
static struct gyre_fit_config an_fit_config;
static int an_fit_default(void) { gyre_fit_config_default(an_p(0, &an_fit_config)); return an_mute(GYRE_OK); }
static int an_print_fit(void)
{
    struct gyre_fit choice;
    gyre_fit_config_default(&an_fit_config);
    an_fit_config.bytes = 1; /* nothing fits: what is measured takes long */
    if (an.null == 2)
        return an_mute(gyre_print_fit(&an.config, &an_fit_config, NULL, NULL, NULL));
    return an_by_error(gyre_print_fit(an_p(0, &an.config), an_p(1, &an_fit_config), &choice, &an.sink, &an.error));
}
static struct gyre_fit_ranks an_fit_ranks;
static int an_fit_ranks_default(void) { gyre_fit_ranks_default(an_p(0, &an_fit_ranks)); return an_mute(GYRE_OK); }
static int an_print_fit_ranks(void)
{
    struct gyre_fit choice;
    int half_wire;
    gyre_fit_config_default(&an_fit_config);
    gyre_fit_ranks_default(&an_fit_ranks);
    an_fit_config.bytes = 1; /* nothing fits */
    an_fit_ranks.cluster = an.folder;
    return an_by_error(gyre_print_fit_ranks(an_p(0, &an.config), an_p(1, &an_fit_config), an_p(2, &an_fit_ranks), an_p(3, &choice),
                                            an_p(4, &half_wire), an_p(5, &an.sink), E));
}
static struct gyre_evaluate_config an_evaluate_config;
static int an_evaluate_default(void) { gyre_evaluate_config_default(an_p(0, &an_evaluate_config)); return an_mute(GYRE_OK); }
static int an_evaluate(void)
{
    struct gyre_report report;
    gyre_evaluate_config_default(&an_evaluate_config);
    an_evaluate_config.data = an.data;
    return an_by_net(gyre_evaluate(an_p(0, an.net), an_p(1, &an_evaluate_config), an_p(2, &report)));
}

/* ---- linear models ---- */

static int an_glm_data_default(void) { gyre_glm_data_default(an_p(0, &an.rows_data)); return an_mute(GYRE_OK); }
static struct gyre_glm_config an_glm_config;
static int an_glm_config_default(void) { gyre_glm_config_default(an_p(0, &an_glm_config)); return an_mute(GYRE_OK); }
static int an_glm_train(void)
{
    struct gyre_glm *model = NULL;
    struct gyre_glm_report report;
    gyre_glm_config_default(&an_glm_config);
    an_glm_config.train = &an.rows_data;
    an_glm_config.threads = 1;
    const int status = gyre_glm_train(an_p(0, &model), an_p(1, &an_glm_config), an_p(2, &report), E);
    gyre_glm_close(model);
    return an_by_error(status);
}
static int an_glm_close(void) { gyre_glm_close(an_p(0, an.model)); return an_mute(GYRE_OK); }
static int an_glm_save(void) { return an_by_error(gyre_glm_save(an_p(0, an.model), an_p(1, an.other), E)); }
static int an_glm_load(void)
{
    struct gyre_glm *model;
    return an_by_error(gyre_glm_load(an_p(0, &model), an_p(1, an.model_file), E));
}
static int an_glm_get_info(void)
{
    struct gyre_glm_info info;
    gyre_glm_get_info(an_p(0, an.model), an_p(1, &info));
    return an_mute(GYRE_OK);
}
static int an_glm_get_part(void)
{
    struct gyre_glm_part part;
    return an_mute(gyre_glm_get_part(an_p(0, an.model), 0, an_p(1, &part)));
}
static struct gyre_glm_predict_config an_predict_config;
static int an_glm_predict_default(void) { gyre_glm_predict_default(an_p(0, &an_predict_config)); return an_mute(GYRE_OK); }
static int an_glm_predict(void)
{
    struct gyre_glm_metrics metrics;
    gyre_glm_predict_default(&an_predict_config);
    an_predict_config.data = &an.rows_data;
    an_predict_config.threads = 1;
    return an_by_error(gyre_glm_predict(an_p(0, an.model), an_p(1, &an_predict_config), an_p(2, &metrics), E));
}
static struct gyre_glm_verify_config an_verify_config;
static int an_glm_verify_default(void) { gyre_glm_verify_default(an_p(0, &an_verify_config)); return an_mute(GYRE_OK); }
static int an_glm_verify(void)
{
    struct gyre_glm_verdict verdict[4];
    gyre_glm_verify_default(&an_verify_config);
    an_verify_config.data = &an.rows_data;
    an_verify_config.threads = 1;
    return an_by_error(gyre_glm_verify(an_p(0, an.model), an_p(1, &an_verify_config), an_p(2, verdict), E));
}
static struct gyre_glm_convert_config an_convert_config;
static int an_glm_convert_default(void) { gyre_glm_convert_default(an_p(0, &an_convert_config)); return an_mute(GYRE_OK); }
static int an_glm_convert(void)
{
    gyre_glm_convert_default(&an_convert_config);
    an_convert_config.from = &an.rows_data;
    an_convert_config.to = an.blocks;
    an_convert_config.threads = 1;
    return an_by_error(gyre_glm_convert(an_p(0, &an_convert_config), 0, an_p(1, &an.sink), E));
}
static int an_glm_print_inspect(void)
{
    return an_by_error(gyre_glm_print_inspect(an_p(0, an.rows), an_p(1, &an.rows_data), 0, an_p(2, &an.sink), E));
}
static struct gyre_glm_generate_config an_generate_config;
static int an_glm_generate_default(void) { gyre_glm_generate_default(an_p(0, &an_generate_config)); return an_mute(GYRE_OK); }
static int an_glm_generate(void)
{
    struct gyre_glm_generated made;
    gyre_glm_generate_default(&an_generate_config);
    an_generate_config.to = an.blocks;
    an_generate_config.rows = 10;
    an_generate_config.features = 100;
    an_generate_config.threads = 1;
    return an_by_error(gyre_glm_generate(an_p(0, &an_generate_config), an_p(1, &made), E));
}

#undef E
#endif
