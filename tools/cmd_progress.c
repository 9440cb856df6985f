/* SPDX-License-Identifier: MIT */
/* cmd_progress.c: shows a run's progress: a bar that is redrawn on a terminal, plain lines
 * elsewhere, or JSON. cmd_train.c, cmd_files.c, cmd_glm.c and cmd_glm_data.c call it. Signals
 * become a flag that the progress call hands to the loop. */
#include "tools/cli.h"
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

struct cli_progress {
    enum cli_progress_kind kind;
    int terminal, colour;
    double shown; /* seconds of the clock at the last line or bar */
};

static volatile sig_atomic_t signal_seen, signal_second; /* the first one's second of the clock */

/* ---- signals ---- */

/* The first signal asks to stop. One that comes a second or two later ends the process as usual. A
 * rank gets the terminal's signals twice, the launcher's copy at once. */
static void on_signal(int number)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    if (!signal_seen)
        signal_second = (sig_atomic_t)t.tv_sec;
    else if (t.tv_sec - signal_second > 1) {
        signal(number, SIG_DFL);
        raise(number);
    }
    signal_seen = number;
}

void cli_on_stop(void (*handler)(int number), int flags)
{
    static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
    for (size_t i = 0; i < CLI_COUNT(numbers); i++) {
        struct sigaction action, old;
        memset(&action, 0, sizeof action);
        action.sa_handler = handler;
        action.sa_flags = flags;
        sigemptyset(&action.sa_mask);
        if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(numbers[i], &action, NULL);
    }
    signal(SIGPIPE, SIG_IGN); /* a pager that is closed does not end a run */
}

void cli_catch_signals(void) { cli_on_stop(on_signal, SA_RESTART); }

int cli_stop_signal(void) { return (int)signal_seen; }

/* ---- the terminal ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

struct cli_progress *cli_progress_open(enum cli_progress_kind kind)
{
    struct cli_progress *progress = calloc(1, sizeof *progress);
    if (!progress)
        return NULL;
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    const int dumb = !term || strcmp(term, "dumb") == 0;
    progress->kind = kind;
    progress->terminal = kind == CLI_PROGRESS_AUTO && !dumb && isatty(STDOUT_FILENO);
    progress->colour = progress->terminal && !(no_colour && no_colour[0]);
    progress->shown = now();
    return progress;
}

void cli_progress_close(struct cli_progress *progress)
{
    cli_progress_skip_line();
    free(progress);
}

static int columns(void)
{
#ifdef TIOCGWINSZ
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
#endif
    const char *text = getenv("COLUMNS");
    const long width = text ? strtol(text, NULL, 10) : 0;
    return width > 0 && width < 10000 ? (int)width : 80;
}

static const char *clock_text(char buf[32], double seconds)
{
    const long s = seconds > 0 && seconds < 1e8 ? (long)(seconds + 0.5) : 0;
    if (s >= 3600)
        snprintf(buf, 32, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(buf, 32, "%ld:%02ld", s / 60, s % 60);
    return buf;
}

/* left [=====>     ] right, cut to the width. */
static void draw_bar(const struct cli_progress *progress, const char *left, double part, const char *right)
{
    char bar[64];
    const int width = columns() - 1;
    int room = width - (int)strlen(left) - (int)strlen(right) - 4;
    room = room > 40 ? 40 : room;
    const int full = (int)(part * room);
    for (int i = 0; i < room; i++)
        bar[i] = i < full ? '=' : i == full ? '>' : ' ';
    bar[room > 0 ? room : 0] = 0;
    if (room >= 5)
        printf("\r%s %s[%s]%s %s\033[K", left, progress->colour ? "\033[32m" : "", bar, progress->colour ? "\033[0m" : "", right);
    else
        printf("\r%.*s\033[K", width > 0 ? width : 0, right);
    fflush(stdout);
    cli_progress_keep_line();
}

/* ---- training ---- */

static void train_bar(const struct cli_progress *progress, const struct gyre_progress *p)
{
    char left[64], right[128], time_left[32];
    snprintf(left, sizeof left, "epoch %d/%d", p->epoch, p->epochs);
    snprintf(right, sizeof right, "loss %.4f  acc %5.2f %%  %.0f img/s  ETA %s", p->loss, 100 * p->accuracy, p->images_per_second,
             clock_text(time_left, p->seconds_left));
    draw_bar(progress, left, (double)p->step / (double)(p->steps > 0 ? p->steps : 1), right);
}

static void train_line(const struct gyre_progress *p)
{
    char time_left[32];
    printf("epoch %d/%d  step %" PRId64 "/%" PRId64 "  loss %.4f  accuracy %.2f %%", p->epoch, p->epochs, p->step, p->steps, p->loss,
           100 * p->accuracy);
    if (strcmp(p->event, "epoch") == 0 && p->test_accuracy == p->test_accuracy)
        printf("  test loss %.4f  test accuracy %.2f %%  top-5 %.2f %%", p->test_loss, 100 * p->test_accuracy, 100 * p->test_top5);
    printf("  %.0f images/s", p->images_per_second);
    if (strcmp(p->event, "epoch") == 0)
        printf("  input waits %" PRId64 " (%.2f s)", p->loader_waits, p->loader_wait_seconds);
    if (strcmp(p->event, "epoch") == 0 && p->skipped_steps)
        printf("  skipped steps %" PRId64, p->skipped_steps);
    if (p->step < p->steps)
        printf("  left %s", clock_text(time_left, p->seconds_left));
    putchar('\n');
    fflush(stdout);
}

static void json_real(const char *name, double value)
{
    char text[32];
    printf(",\"%s\":%s", name, cli_json_number(text, value));
}

static void train_json(const struct gyre_progress *p)
{
    printf("{\"event\":\"%s\",\"step\":%" PRId64 ",\"steps\":%" PRId64 ",\"epoch\":%d,\"epochs\":%d", p->event, p->step, p->steps,
           p->epoch, p->epochs);
    json_real("loss", p->loss);
    json_real("accuracy", p->accuracy);
    if (strcmp(p->event, "epoch") == 0) {
        json_real("test_loss", p->test_loss);
        json_real("test_accuracy", p->test_accuracy);
        json_real("test_top5", p->test_top5);
    }
    json_real("rate", (double)p->rate);
    json_real("images_per_second", p->images_per_second);
    json_real("seconds_left", p->seconds_left);
    printf(",\"loader_waits\":%" PRId64, p->loader_waits);
    json_real("loader_wait_seconds", p->loader_wait_seconds);
    if (p->loss_scale > 0) {
        json_real("loss_scale", p->loss_scale);
        printf(",\"skipped_steps\":%" PRId64, p->skipped_steps);
    }
    if (p->path) {
        printf(",\"path\":");
        cli_json_text(stdout, p->path);
    }
    puts("}");
    fflush(stdout);
}

/* Shows a step when the last one is a tenth of a second (terminal), ten seconds (file) or one
 * second (JSON) old. Epochs are always shown. */
int cli_progress_train(void *progress, const struct gyre_progress *p)
{
    struct cli_progress *self = progress;
    const int step = strcmp(p->event, "step") == 0, checkpoint = strcmp(p->event, "checkpoint") == 0;
    const double pause = self->kind == CLI_PROGRESS_JSON ? 1 : self->terminal ? 0.1 : 10, time = now();
    if (step && time - self->shown < pause)
        return cli_stop_signal();
    if (!checkpoint)
        self->shown = time;
    if (strcmp(p->event, "servers") == 0)
        cli_server_report(p, self->kind == CLI_PROGRESS_JSON);
    else if (self->kind == CLI_PROGRESS_JSON)
        train_json(p);
    else if (strcmp(p->event, "resume") == 0) {
        printf("going on from %s, after %" PRId64 " of %" PRId64 " steps\n", p->path, p->step, p->steps);
        fflush(stdout); /* before a step is made, which may be the last */
    } else if (step && self->terminal)
        train_bar(self, p);
    else if (!checkpoint) {
        cli_progress_skip_line();
        train_line(p);
    }
    return cli_stop_signal();
}

/* ---- counting, and what other commands show ---- */

int cli_progress_show(struct cli_progress *progress, const char *left, double part, const char *right, const char *line, double pause)
{
    const double time = now();
    if (time - progress->shown < (progress->terminal ? 0.1 : pause))
        return cli_stop_signal();
    progress->shown = time;
    if (progress->terminal)
        draw_bar(progress, left, part > 1 ? 1 : part, right);
    else {
        puts(line);
        fflush(stdout);
    }
    return cli_stop_signal();
}

int cli_progress_count(void *progress, int64_t done, int64_t total)
{
    struct cli_progress *self = progress;
    const double time = now();
    if (self->terminal && (time - self->shown >= 0.1 || done == total)) {
        char right[64];
        snprintf(right, sizeof right, "%" PRId64 "/%" PRId64, done, total);
        draw_bar(self, "images", (double)done / (double)(total > 0 ? total : 1), right);
        self->shown = time;
    }
    return cli_stop_signal();
}
