/* SPDX-License-Identifier: MIT */
/* api_odd.h: what public calls of t_api_null.c need, and misuse of them other than NULL pointers:
 * members that are missing, numbers out of range. Each must be refused with a sentence. */
#ifndef GY_API_ODD_H
#define GY_API_ODD_H
#include "engine/job/peers.h"
#include "tests/api_null.h"

/* ---- what is needed ---- */

static void an_make_files(void)
{
    static const char text[] = "+1 1:1 3:2\n-1 2:1\n+1 1:2\n-1 2:.5 3:-1\n";
    static const char cluster[] = "hosts 1\nranks-per-host 1\ninside 32G 5us\nnic 1G 8us\nadd 1G\nnoise 0\ncompute 1ms\nbackward .5\n";
    static const char *const folders[] = { "data", "data/train", "data/train/a", "data/train/b" };
    for (size_t i = 0; i < GY_COUNT(folders); i++)
        df_folder(folders[i]);
    for (int i = 0; i < 4; i++) {
        char name[64];
        snprintf(name, sizeof name, "data/train/%c/%d.ppm", "ab"[i % 2], i);
        df_write_pnm(name, i, 4, 4, 3);
    }
    df_write("rows.svm", text, sizeof text - 1);
    df_write("here.cluster", cluster, sizeof cluster - 1);
    snprintf(an.images, sizeof an.images, "%s", df_path("data"));
    snprintf(an.image, sizeof an.image, "%s", df_path("data/train/a/0.ppm"));
    snprintf(an.rows, sizeof an.rows, "%s", df_path("rows.svm"));
    snprintf(an.folder, sizeof an.folder, "%s", df_path("here.cluster"));
    snprintf(an.file, sizeof an.file, "%s", df_path("checkpoint-1.safetensors"));
    snprintf(an.other, sizeof an.other, "%s", df_path("other"));
    snprintf(an.blocks, sizeof an.blocks, "%s", df_path("blocks"));
    snprintf(an.model_file, sizeof an.model_file, "%s", df_path("a.model"));
    an.files[0] = an.rows;
}

static void an_make_net(void)
{
    gyre_config_default(&an.config);
    an.config.net = "input 4x4x3\nconv 2 3x3\nlinear 2\nsoftmax\n";
    an.config.batch = 2;
    an.config.threads = 1;
    an.config.input = GYRE_INPUT_U8;
    an.config.trace_events = 16;
    for (size_t i = 0; i < sizeof an.x; i++)
        an.x[i] = (unsigned char)(i * 37);
    an.label[1] = 1;
    an.batch = (struct gyre_batch){ .x = an.x, .label = an.label, .count = 2 };
    T_CHECK_MSG(gyre_open(&an.net, &an.config, &an.error) == GYRE_OK, "%s", an.error.text);
    T_CHECK(gyre_step(an.net, &an.batch, NULL) == GYRE_OK && gyre_note(an.net, "what", "a note") == GYRE_OK && gyre_save(an.net, an.file) == GYRE_OK);
}

static void an_make(void)
{
    df_open();
    an_make_files();
    an_make_net();
    an.sink = (struct gyre_sink){ an_nowhere, NULL };
    gyre_data_config_default(&an.data_config);
    an.data_config.path = an.images;
    an.data_config.split = "train";
    T_CHECK_MSG(gyre_open_data(&an.data, &an.data_config, &an.error) == GYRE_OK, "%s", an.error.text);
    gyre_glm_data_default(&an.rows_data);
    an.rows_data.files = an.files;
    an.rows_data.file_count = 1;
    an.null = -1;
    T_CHECK_MSG(an_glm_train() == GYRE_OK, "%s", an.error.text);
    an_glm_config.train = &an.rows_data;
    T_CHECK(gyre_glm_train(&an.model, &an_glm_config, NULL, NULL) == GYRE_OK && gyre_glm_save(an.model, an.model_file, NULL) == GYRE_OK);
    T_CHECK_MSG(gyre_job_open(&an.job, NULL, &an.error) == GYRE_OK, "%s", an.error.text);
    memset(&an.error, 0, sizeof an.error);
}

static void an_clean(void)
{
    gyre_job_close(an.job);
    gyre_glm_close(an.model);
    gyre_close_data(an.data);
    gyre_close(an.net);
    df_remove(df_root);
}

/* ---- misuse ---- */

static int an_odd_open(void)
{
    struct gyre_net *net;
    return an_by_error(gyre_open(&net, &an.config, &an.error));
}
static int an_no_net(void) { an.config.net = NULL; return an_odd_open(); }
static int an_empty_net(void) { an.config.net = ""; return an_odd_open(); }
static int an_size_0(void) { an.config.size = 0; return an_odd_open(); }
static int an_size_vast(void) { an.config.size = SIZE_MAX; return an_odd_open(); }
static int an_batch_less(void) { an.config.batch = -1; return an_odd_open(); }
static int an_batch_vast(void) { an.config.batch = INT_MAX; return an_odd_open(); }
static int an_mode_99(void) { an.config.mode = 99; return an_odd_open(); }
static int an_dtype_less(void) { an.config.dtype = -1; return an_odd_open(); }
static int an_input_99(void) { an.config.input = 99; return an_odd_open(); }
static int an_threads_less(void) { an.config.threads = -1; return an_odd_open(); }
static int an_threads_vast(void) { an.config.threads = INT_MAX; return an_odd_open(); }
static int an_accumulate_0(void) { an.config.accumulate = 0; return an_odd_open(); }
static int an_recompute_99(void) { an.config.recompute = 99; return an_odd_open(); }
static int an_pin_99(void) { an.config.pin = 99; return an_odd_open(); }
static int an_shards_less(void) { an.config.shards = -1; return an_odd_open(); }
static int an_shards_vast(void) { an.config.shards = INT_MAX; return an_odd_open(); }
static int an_events_less(void) { an.config.trace_events = -1; return an_odd_open(); }
static int an_events_vast(void) { an.config.trace_events = INT_MAX; return an_odd_open(); }
static int an_optimizer_99(void) { an.config.optimizer.kind = 99; return an_odd_open(); }
static int an_momentum_nan(void) { an.config.optimizer.momentum = NAN; return an_odd_open(); }
static int an_schedule_less(void) { an.config.schedule.kind = -1; return an_odd_open(); }
static int an_rate_nan(void) { an.config.schedule.rate = NAN; return an_odd_open(); }
static int an_std_0(void) { an.config.std[0] = 0; return an_odd_open(); }
static int an_log_99(void) { an.config.log.level = 99; return an_odd_open(); }
static int an_block_odd(void)
{
    an.config.memory.block = an.text + 1;
    an.config.memory.block_bytes = 100;
    return an_odd_open();
}
static int an_device_odd(void) { an.config.device = "toaster"; return an_odd_open(); }
static int an_isa_odd(void) { an.config.isa = "z80"; return an_odd_open(); }

static int an_no_x(void) { an.batch.x = NULL; return an_step(); }
static int an_no_label(void) { an.batch.label = NULL; return an_step(); }
static int an_count_0(void) { an.batch.count = 0; return an_step(); }
static int an_count_less(void) { an.batch.count = -1; return an_eval(); }
static int an_count_vast(void) { an.batch.count = INT32_MAX; return an_predict(); }
static int an_label_less(void) { an.label[0] = INT32_MIN; return an_step(); }
static int an_label_vast(void) { an.label[0] = INT32_MAX; return an_gradient(); }
static int an_mix_odd(void)
{
    static const struct gyre_mix mix[2] = { { .partner = -5 }, { .partner = INT32_MAX } };
    an.batch.mix = mix;
    return an_step();
}
static int an_box_odd(void)
{
    static const struct gyre_mix mix[2] = { { .partner = 1, .h0 = -1, .h1 = INT32_MAX, .w0 = 5, .w1 = -5, .inside = NAN }, { .partner = 0 } };
    an.batch.mix = mix;
    return an_step();
}
static int an_tensor_less(void)
{
    struct gyre_tensor_info info;
    return an_mute(gyre_tensor_at(an.net, -1, &info));
}
static int an_tensor_vast(void)
{
    struct gyre_tensor_info info;
    return an_mute(gyre_tensor_at(an.net, INT_MAX, &info));
}
static int an_values_less(void) { return an_by_net(gyre_get_tensor(an.net, "conv1.weight", an.values, -1)); }
static int an_values_vast(void) { return an_by_net(gyre_set_tensor(an.net, "conv1.weight", an.values, INT64_MAX)); }
static int an_room_0(void) { return an_by_error(gyre_read_net(an.file, an.text, 0, NULL, &an.error)); }
static int an_note_room_0(void) { return an_by_error(gyre_read_note(an.file, "what", an.text, 0, &an.error)); }
static int an_find_room_0(void) { return an_by_error(gyre_find_checkpoint(df_root, an.text, 0, &an.error)); }
static int an_zoo_odd(void) { return an_by_error(gyre_zoo_text("lenet5", -1, 0, 0, 0, &an.sink, &an.error)); }
static int an_zoo_vast(void) { return an_by_error(gyre_zoo_text("lenet5", 10, INT32_MAX, INT32_MAX, INT32_MAX, &an.sink, &an.error)); }
static int an_runs_less(void) { return an_by_net(gyre_print_bench(an.net, -1, 0, &an.sink)); }
static int an_archs_less(void)
{
    static const int archs[1] = { 80 };
    return an_by_error(gyre_pack_kernels(&an.config, archs, -1, an.other, &an.error));
}

static int an_odd_kernels(void)
{
    an.config.device = "sm_90";
    return an_by_error(gyre_print_kernels(&an.config, &an_kernels_config, &an.sink, &an.error));
}
static int an_kernels_form(void) { gyre_kernels_config_default(&an_kernels_config); an_kernels_config.form = 99; return an_odd_kernels(); }
static int an_kernels_less(void) { gyre_kernels_config_default(&an_kernels_config); an_kernels_config.form = -1; return an_odd_kernels(); }
static int an_kernels_op(void)
{
    gyre_kernels_config_default(&an_kernels_config);
    an_kernels_config.form = GYRE_KERNELS_SOURCE;
    an_kernels_config.op = "nonsense";
    const int status = an_odd_kernels();
    return status == GYRE_E_ARG && strcmp(an.error.text, "no op of the net does nonsense") != 0 ? GYRE_OK : status;
}
static int an_kernels_bucket(void)
{
    static struct gyre_job two = { .ranks = 2, .locals = 2, .hosts = 1 };
    gyre_kernels_config_default(&an_kernels_config);
    an_kernels_config.form = GYRE_KERNELS_SOURCE;
    an_kernels_config.op = "bucket"; /* the engine's */
    an.config.job = &two;
    return an_odd_kernels();
}

/* Of a config of another version, all that is behind its size has its default. */
static int an_stages_less(void)
{
    an.config.pipeline = 2;
    an.config.size = offsetof(struct gyre_config, pipeline);
    return an_by_error(gyre_print_stages(&an.config, 0, &an.sink, &an.error));
}
static int an_stages_one(void)
{
    an.config.pipeline = 1;
    return an_by_error(gyre_print_stages(&an.config, 0, &an.sink, &an.error));
}

/* A block as a net takes it, with room for all that it is refused to. */
static void an_set_block(struct gyre_memory *memory)
{
    static unsigned char room[1 << 24];
    memory->block = room + (64 - (uintptr_t)room % 64) % 64;
    memory->block_bytes = sizeof room - 64;
}
static int an_only_for_nets(int status) { return strstr(an.error.text, "memory.block is for nets alone") ? status : GYRE_OK; }

static int an_odd_data(void)
{
    struct gyre_data *data;
    return an_by_error(gyre_open_data(&data, &an.data_config, &an.error));
}
static int an_no_path(void) { an.data_config.path = NULL; return an_odd_data(); }
static int an_data_size(void) { an.data_config.size = 1; return an_odd_data(); }
static int an_data_block(void) { an_set_block(&an.data_config.memory); return an_only_for_nets(an_odd_data()); }
static int an_hold_less(void) { an.data_config.hold_out = -1; return an_odd_data(); }
static int an_hold_nan(void) { an.data_config.hold_out = (double)NAN; return an_odd_data(); }
static int an_bad_less(void) { an.data_config.max_bad = INT64_MIN; return an_odd_data(); }
static int an_class_less(void) { return an_text(gyre_class_name(an.data, -1)); }
static int an_class_vast(void) { return an_text(gyre_class_name(an.data, INT32_MAX)); }
static int an_sample_less(void) { return an_mute(gyre_sample_name(an.data, -1, an.text, 10)[0] ? GYRE_OK : GYRE_E_ARG); }

static int an_odd_loader(void)
{
    struct gyre_loader *loader;
    return an_by_error(gyre_open_loader(&loader, an.data, &an_loader_config, &an.error));
}
static int an_loader_batch(void) { an_set_loader(); an_loader_config.batch = -1; return an_odd_loader(); }
static int an_loader_block(void) { an_set_loader(); an_set_block(&an_loader_config.memory); return an_only_for_nets(an_odd_loader()); }
static int an_loader_batch_vast(void) { an_set_loader(); an_loader_config.batch = INT32_MAX; return an_odd_loader(); }
static int an_loader_h(void) { an_set_loader(); an_loader_config.h = -4; return an_odd_loader(); }
static int an_loader_vast(void) { an_set_loader(); an_loader_config.h = an_loader_config.w = INT32_MAX; return an_odd_loader(); }
static int an_loader_c(void) { an_set_loader(); an_loader_config.c = 99; return an_odd_loader(); }
static int an_loader_threads(void) { an_set_loader(); an_loader_config.threads = INT_MAX; return an_odd_loader(); }
static int an_loader_depth(void) { an_set_loader(); an_loader_config.depth = -1; return an_odd_loader(); }
static int an_loader_parts(void) { an_set_loader(); an_loader_config.part = 5; return an_odd_loader(); }
static int an_loader_groups(void) { an_set_loader(); an_loader_config.groups = -3; return an_odd_loader(); }
static int an_loader_first(void) { an_set_loader(); an_loader_config.first_batch = -1; return an_odd_loader(); }
static int an_loader_flip(void) { an_set_loader(); an_loader_config.augment.flip = NAN; return an_odd_loader(); }
static int an_sheet_nowhere(void)
{
    struct gyre_loader *const loader = an_loader();
    return an_by_error(gyre_write_contact_sheet(loader, "/no/such/folder/sheet.png", &an.error));
}
static int an_image_less(void) { return an_by_error(gyre_read_image(an.image, -1, 4, 3, 0, (uint8_t *)an.text, &an.error)); }
static int an_image_c(void) { return an_by_error(gyre_read_image(an.image, 4, 4, 0, 0, (uint8_t *)an.text, &an.error)); }
static int an_image_vast(void) { return an_by_error(gyre_read_image(an.image, INT32_MAX, INT32_MAX, 3, 0, (uint8_t *)an.text, &an.error)); }
static int an_pack_side(void) { return an_by_error(gyre_pack(an.data, an.other, -1, 1, NULL, NULL, &an.error)); }
static int an_pack_threads(void) { return an_by_error(gyre_pack(an.data, an.other, 0, -1, NULL, NULL, &an.error)); }

static int an_memory_0(void)
{
    void *memory;
    return an_by_error(gyre_job_memory(an.job, 0, &memory, &an.error));
}
static int an_memory_vast(void)
{
    void *memory;
    return an_by_error(gyre_job_memory(an.job, SIZE_MAX, &memory, &an.error));
}
static int an_sum_less(void) { return an_by_error(gyre_job_sum(an.job, an.values, -1, &an.error)); }
static int an_start_less(void)
{
    int64_t ticket;
    return an_by_error(gyre_job_sum_start(an.job, an.values, -1, &ticket, &an.error));
}
static int an_job_wire(void)
{
    struct gyre_job *job;
    gyre_job_config_default(&an_job_config);
    an_job_config.wire = 99;
    return an_by_error(gyre_job_open(&job, &an_job_config, &an.error));
}

static int an_odd_collective(void) { return an_by_error(gyre_print_collective(&an_collective, &an.sink, &an.error)); }
static int an_collective_none(void) { gyre_collective_default(&an_collective); an_collective.algorithm = NULL; return an_odd_collective(); }
static int an_collective_size(void) { gyre_collective_default(&an_collective); an_collective.size = 0; return an_odd_collective(); }
static int an_collective_ranks(void) { gyre_collective_default(&an_collective); an_collective.ranks = -1; return an_odd_collective(); }
static int an_collective_vast(void) { gyre_collective_default(&an_collective); an_collective.ranks = INT_MAX; return an_odd_collective(); }
static int an_collective_lanes(void) { gyre_collective_default(&an_collective); an_collective.lanes = INT_MAX; return an_odd_collective(); }
static int an_collective_rank(void) { gyre_collective_default(&an_collective); an_collective.rank = INT_MAX; return an_odd_collective(); }
static int an_collective_dims(void)
{
    gyre_collective_default(&an_collective);
    for (int i = 0; i < 8; i++)
        an_collective.dims[i] = INT_MAX;
    return an_odd_collective();
}
static int an_odd_simulation(void)
{
    an_simulation.cluster = an_simulation.cluster ? an_simulation.cluster : an.folder;
    return an_by_error(gyre_print_simulation(&an_simulation, &an.sink, &an.error));
}
static int an_simulation_none(void)
{
    gyre_simulation_default(&an_simulation);
    return an_by_error(gyre_print_simulation(&an_simulation, &an.sink, &an.error));
}
static int an_simulation_size(void) { gyre_simulation_default(&an_simulation); an_simulation.size = 1; return an_odd_simulation(); }
static int an_simulation_algorithm(void) { gyre_simulation_default(&an_simulation); an_simulation.algorithm = NULL; return an_odd_simulation(); }
static int an_simulation_samples(void) { gyre_simulation_default(&an_simulation); an_simulation.samples = INT_MAX; return an_odd_simulation(); }
static int an_simulation_bytes(void) { gyre_simulation_default(&an_simulation); an_simulation.bytes = (double)NAN; return an_odd_simulation(); }
static int an_simulation_bucket(void) { gyre_simulation_default(&an_simulation); an_simulation.bucket_bytes = 0; return an_odd_simulation(); }

static int an_odd_train(void) { return an_by_net(gyre_train(an.net, &an_train_config)); }
static void an_set_train(void)
{
    gyre_train_config_default(&an_train_config);
    an_train_config.train = an.data;
    an_train_config.max_steps = 1;
}
static int an_train_none(void) { an_set_train(); an_train_config.train = NULL; return an_odd_train(); }
static int an_train_epochs(void) { an_set_train(); an_train_config.epochs = -1; return an_odd_train(); }
static int an_train_steps(void) { an_set_train(); an_train_config.max_steps = -1; return an_odd_train(); }
static int an_train_threads(void) { an_set_train(); an_train_config.loader_threads = INT_MAX; return an_odd_train(); }
static int an_train_keep(void) { an_set_train(); an_train_config.folder = df_root; an_train_config.keep = -1; return an_odd_train(); }
static int an_train_every(void) { an_set_train(); an_train_config.checkpoint_steps = -1; return an_odd_train(); }
static int an_why_steps(void)
{
    gyre_why_config_default(&an_why_config);
    an_why_config.steps = INT_MAX;
    return an_by_net(gyre_print_why(an.net, &an_why_config, &an.sink));
}
static int an_fit_batch(void)
{
    gyre_fit_config_default(&an_fit_config);
    an_fit_config.target_batch = INT_MAX;
    return an_by_error(gyre_print_fit(&an.config, &an_fit_config, NULL, NULL, &an.error));
}
static int an_evaluate_none(void)
{
    gyre_evaluate_config_default(&an_evaluate_config);
    return an_by_net(gyre_evaluate(an.net, &an_evaluate_config, NULL));
}
static int an_evaluate_threads(void)
{
    gyre_evaluate_config_default(&an_evaluate_config);
    an_evaluate_config.data = an.data;
    an_evaluate_config.loader_threads = -1;
    return an_by_net(gyre_evaluate(an.net, &an_evaluate_config, NULL));
}

/* Images of bytes for a net that was opened for floats */
static int an_evaluate_kind(void)
{
    struct gyre_net *net;
    an.config.input = GYRE_INPUT_F32;
    T_CHECK_MSG(gyre_open(&net, &an.config, &an.error) == GYRE_OK, "%s", an.error.text);
    gyre_evaluate_config_default(&an_evaluate_config);
    an_evaluate_config.data = an.data;
    const int status = gyre_evaluate(net, &an_evaluate_config, NULL);
    T_CHECK(status == GYRE_E_MISMATCH && strstr(gyre_last_error(net)->text, "the data set's samples are u8"));
    gyre_close(net);
    return an_mute(status);
}

static int an_odd_glm(void)
{
    struct gyre_glm *model;
    an_glm_config.threads = an_glm_config.threads ? an_glm_config.threads : 1;
    return an_by_error(gyre_glm_train(&model, &an_glm_config, NULL, &an.error));
}
static void an_set_glm(void)
{
    gyre_glm_config_default(&an_glm_config);
    an_glm_config.train = &an.rows_data;
}
static int an_glm_none(void) { an_set_glm(); an_glm_config.train = NULL; return an_odd_glm(); }
static int an_glm_loss(void) { an_set_glm(); an_glm_config.loss = 99; return an_odd_glm(); }
static int an_glm_block(void) { an_set_glm(); an_set_block(&an_glm_config.memory); return an_only_for_nets(an_odd_glm()); }
static int an_glm_l2(void) { an_set_glm(); an_glm_config.l2 = (double)NAN; return an_odd_glm(); }
static int an_glm_weights(void) { an_set_glm(); an_glm_config.weights = 2; return an_odd_glm(); }
static int an_glm_threads(void) { an_set_glm(); an_glm_config.threads = -1; return an_odd_glm(); }
static int an_glm_folds(void) { an_set_glm(); an_glm_config.folds = INT_MAX; return an_odd_glm(); }
static int an_glm_solver(void) { an_set_glm(); an_glm_config.solver = "magic"; return an_odd_glm(); }
static int an_glm_device(void) { an_set_glm(); an_glm_config.device = "toaster"; return an_odd_glm(); }
static int an_glm_file(void) { an_set_glm(); an.files[0] = NULL; return an_odd_glm(); }
static int an_glm_files(void) { an_set_glm(); an.rows_data.file_count = -1; return an_odd_glm(); }
static int an_glm_bits(void) { an_set_glm(); an.rows_data.hash_bits = 99; return an_odd_glm(); }
static int an_glm_arrays(void) { an_set_glm(); an.rows_data.files = NULL; an.rows_data.rows = 4; return an_odd_glm(); }
static int an_glm_data_size(void) { an_set_glm(); an.rows_data.size = 0; return an_odd_glm(); }
static int an_part_less(void)
{
    struct gyre_glm_part part;
    return an_mute(gyre_glm_get_part(an.model, -1, &part));
}
static int an_predict_none(void)
{
    gyre_glm_predict_default(&an_predict_config);
    return an_by_error(gyre_glm_predict(an.model, &an_predict_config, NULL, &an.error));
}
static int an_verify_none(void)
{
    struct gyre_glm_verdict verdict[4];
    gyre_glm_verify_default(&an_verify_config);
    return an_by_error(gyre_glm_verify(an.model, &an_verify_config, verdict, &an.error));
}
static int an_convert_none(void)
{
    gyre_glm_convert_default(&an_convert_config);
    return an_by_error(gyre_glm_convert(&an_convert_config, 0, NULL, &an.error));
}
static int an_convert_file(void) { an.files[0] = NULL; return an_glm_convert(); }
static int an_convert_rows(void)
{
    gyre_glm_convert_default(&an_convert_config);
    an_convert_config.from = &an.rows_data;
    an_convert_config.to = an.blocks;
    an_convert_config.block_rows = INT32_MAX;
    return an_by_error(gyre_glm_convert(&an_convert_config, 0, NULL, &an.error));
}
static int an_generate_rows(void)
{
    gyre_glm_generate_default(&an_generate_config);
    an_generate_config.to = an.blocks;
    an_generate_config.rows = -1;
    return an_by_error(gyre_glm_generate(&an_generate_config, NULL, &an.error));
}
static int an_generate_none(void)
{
    gyre_glm_generate_default(&an_generate_config);
    return an_by_error(gyre_glm_generate(&an_generate_config, NULL, &an.error));
}

static const struct an_odd {
    const char *name;
    int (*call)(void);
} an_odds[] = {
    { "no_net", an_no_net }, { "empty_net", an_empty_net }, { "size_0", an_size_0 }, { "size_vast", an_size_vast }, { "batch_less", an_batch_less },
    { "batch_vast", an_batch_vast }, { "mode_99", an_mode_99 }, { "dtype_less", an_dtype_less }, { "input_99", an_input_99 },
    { "threads_less", an_threads_less }, { "threads_vast", an_threads_vast }, { "accumulate_0", an_accumulate_0 },
    { "recompute_99", an_recompute_99 }, { "pin_99", an_pin_99 }, { "shards_less", an_shards_less }, { "shards_vast", an_shards_vast },
    { "events_less", an_events_less }, { "events_vast", an_events_vast }, { "optimizer_99", an_optimizer_99 }, { "momentum_nan", an_momentum_nan },
    { "schedule_less", an_schedule_less }, { "rate_nan", an_rate_nan }, { "std_0", an_std_0 }, { "log_99", an_log_99 }, { "block_odd", an_block_odd },
    { "device_odd", an_device_odd }, { "isa_odd", an_isa_odd }, { "no_x", an_no_x }, { "no_label", an_no_label }, { "count_0", an_count_0 },
    { "count_less", an_count_less }, { "count_vast", an_count_vast }, { "label_less", an_label_less }, { "label_vast", an_label_vast },
    { "mix_odd", an_mix_odd }, { "box_odd", an_box_odd }, { "tensor_less", an_tensor_less }, { "tensor_vast", an_tensor_vast },
    { "values_less", an_values_less }, { "values_vast", an_values_vast }, { "room_0", an_room_0 }, { "note_room_0", an_note_room_0 },
    { "find_room_0", an_find_room_0 }, { "zoo_odd", an_zoo_odd }, { "zoo_vast", an_zoo_vast }, { "runs_less", an_runs_less },
    { "archs_less", an_archs_less }, { "no_path", an_no_path },
    { "kernels_form", an_kernels_form }, { "kernels_less", an_kernels_less },
    { "kernels_op", an_kernels_op }, { "kernels_bucket", an_kernels_bucket },
    { "stages_less", an_stages_less }, { "stages_one", an_stages_one },
    { "data_size", an_data_size }, { "data_block", an_data_block }, { "loader_block", an_loader_block }, { "glm_block", an_glm_block },
    { "hold_less", an_hold_less },
    { "hold_nan", an_hold_nan }, { "bad_less", an_bad_less }, { "class_less", an_class_less }, { "class_vast", an_class_vast },
    { "sample_less", an_sample_less }, { "loader_batch", an_loader_batch }, { "loader_batch_vast", an_loader_batch_vast },
    { "loader_h", an_loader_h }, { "loader_vast", an_loader_vast }, { "loader_c", an_loader_c }, { "loader_threads", an_loader_threads },
    { "loader_depth", an_loader_depth }, { "loader_parts", an_loader_parts }, { "loader_groups", an_loader_groups },
    { "loader_first", an_loader_first }, { "loader_flip", an_loader_flip }, { "image_less", an_image_less }, { "image_c", an_image_c },
    { "image_vast", an_image_vast }, { "pack_side", an_pack_side }, { "pack_threads", an_pack_threads }, { "memory_0", an_memory_0 },
    { "memory_vast", an_memory_vast }, { "sum_less", an_sum_less }, { "start_less", an_start_less }, { "job_wire", an_job_wire },
    { "collective_none", an_collective_none }, { "collective_size", an_collective_size }, { "collective_ranks", an_collective_ranks },
    { "collective_vast", an_collective_vast }, { "collective_lanes", an_collective_lanes }, { "collective_rank", an_collective_rank },
    { "collective_dims", an_collective_dims }, { "simulation_none", an_simulation_none }, { "simulation_size", an_simulation_size },
    { "simulation_algorithm", an_simulation_algorithm }, { "simulation_samples", an_simulation_samples }, { "simulation_bytes", an_simulation_bytes },
    { "simulation_bucket", an_simulation_bucket }, { "train_none", an_train_none }, { "train_epochs", an_train_epochs },
    { "train_steps", an_train_steps }, { "train_threads", an_train_threads }, { "train_keep", an_train_keep }, { "train_every", an_train_every },
    { "why_steps", an_why_steps }, { "fit_batch", an_fit_batch }, { "evaluate_none", an_evaluate_none },
    { "evaluate_threads", an_evaluate_threads }, { "evaluate_kind", an_evaluate_kind },
    { "sheet_nowhere", an_sheet_nowhere },
    { "glm_none", an_glm_none }, { "glm_loss", an_glm_loss }, { "glm_l2", an_glm_l2 },
    { "glm_weights", an_glm_weights }, { "glm_threads", an_glm_threads }, { "glm_folds", an_glm_folds }, { "glm_solver", an_glm_solver },
    { "glm_device", an_glm_device }, { "glm_file", an_glm_file }, { "glm_files", an_glm_files }, { "glm_bits", an_glm_bits },
    { "glm_arrays", an_glm_arrays }, { "glm_data_size", an_glm_data_size }, { "part_less", an_part_less }, { "predict_none", an_predict_none },
    { "verify_none", an_verify_none }, { "convert_none", an_convert_none }, { "convert_file", an_convert_file }, { "convert_rows", an_convert_rows },
    { "generate_rows", an_generate_rows }, { "generate_none", an_generate_none },
};

#endif
