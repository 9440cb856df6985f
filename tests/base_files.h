/* SPDX-License-Identifier: MIT */
/* base_files.h: the part of t_base.c that tests files, apart for its length. Files are whole or
 * absent, also when two write at once or the disk is full. It uses t_base.c's counting heap. */
#ifndef GY_TEST_BASE_FILES_H
#define GY_TEST_BASE_FILES_H
#include "engine/base/file_line.h"
#include "engine/base/file_lock.h"

static char base_folder[200];

/* A path in the test's folder; four live at a time. */
static const char *base_path(const char *name)
{
    static char paths[4][400];
    static int turn;
    char *path = paths[turn++ % 4];
    T_CHECK(gy_file_join(path, sizeof paths[0], base_folder, name, &base_err) == GY_OK);
    return path;
}

static int base_entries(const char *folder)
{
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir && (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return count;
}

static int base_holds(const char *path, const char *expected)
{
    const struct gy_alloc alloc = gy_alloc_default();
    char *data = NULL;
    size_t bytes = 0;
    if (gy_file_read(&alloc, path, 1 << 20, &data, &bytes, &base_err) != GY_OK)
        return 0;
    const int same = bytes == strlen(expected) && strcmp(data, expected) == 0;
    gy_alloc_free(&alloc, data, bytes + 1);
    return same;
}

static int base_put(const char *path, const char *text)
{
    struct gy_outfile out;
    int status = gy_outfile_open(&out, path, &base_err);
    if (status == GY_OK)
        status = gy_outfile_write(&out, text, strlen(text), &base_err);
    if (status == GY_OK)
        status = gy_outfile_commit(&out, &base_err);
    gy_outfile_abandon(&out);
    return status;
}

static void base_test_outfile(void)
{
    struct gy_outfile out, other;
    const char *path = base_path("out.txt");
    T_CHECK(base_put(path, "first") == GY_OK && base_holds(path, "first"));
    T_CHECK(base_put(path, "second one") == GY_OK && base_holds(path, "second one"));
    T_CHECK(gy_outfile_open(&out, path, &base_err) == GY_OK && gy_outfile_write(&out, "lost", 4, &base_err) == GY_OK);
    T_CHECK(base_holds(path, "second one") && base_entries(base_folder) == 2);
    gy_outfile_abandon(&out);
    gy_outfile_abandon(&out);
    T_CHECK(base_holds(path, "second one") && base_entries(base_folder) == 1);

    /* two writers of one file: neither spoils the other, the later commit stands */
    T_CHECK(gy_outfile_open(&out, path, &base_err) == GY_OK && gy_outfile_open(&other, path, &base_err) == GY_OK);
    T_CHECK(gy_outfile_write(&out, "aaaa", 4, &base_err) == GY_OK);
    T_CHECK(gy_outfile_write(&other, "bb", 2, &base_err) == GY_OK);
    T_CHECK(gy_outfile_commit(&out, &base_err) == GY_OK && base_holds(path, "aaaa"));
    T_CHECK(gy_outfile_commit(&other, &base_err) == GY_OK && base_holds(path, "bb"));
    T_CHECK(base_entries(base_folder) == 1);
    T_CHECK(gy_outfile_write(&out, "x", 1, &base_err) == GY_E_STATE);
    T_CHECK(gy_outfile_commit(&out, &base_err) == GY_E_STATE);
}

/* One run alone has a folder, in whatever process and thread; who is refused takes nothing away. */
static void base_test_lock(void)
{
    struct gy_lock one = { 0 }, two = { 0 };
    const int before = base_entries(base_folder);
    for (int turn = 0; turn < 2; turn++) {
        T_CHECK(gy_run_folder_lock(&one, base_folder, &base_err) == GY_OK);
        T_CHECK(gy_run_folder_lock(&two, base_folder, &base_err) == GY_E_STATE);
        T_CHECK_MSG(strstr(base_err.text, "is being written already, by process"), "%s", base_err.text);
        gy_lock_drop(&two);
        T_CHECK(gy_run_folder_lock(&two, base_folder, &base_err) == GY_E_STATE);
        T_CHECK(base_entries(base_folder) == before + 1);
        gy_lock_drop(&one);
        T_CHECK(base_entries(base_folder) == before);
    }
}

static void base_test_outfile_refused(void)
{
    struct gy_outfile out;
    char far[5000];
    memset(far, 'a', sizeof far - 1);
    far[sizeof far - 1] = 0;
    const char *absent = base_path("absent/x"), *folder = base_path("folder");
    T_CHECK(gy_outfile_open(&out, absent, &base_err) == GY_E_IO);
    T_CHECK_MSG(strstr(base_err.text, absent) && strstr(base_err.text, strerror(ENOENT)), "%s", base_err.text);
    gy_outfile_abandon(&out);
    T_CHECK(gy_outfile_open(&out, far, &base_err) == GY_E_IO && strstr(base_err.text, strerror(ENAMETOOLONG)));
    gy_outfile_abandon(&out);
    far[4090] = 0; /* the name fits, the temporary one does not */
    T_CHECK(gy_outfile_open(&out, far, &base_err) == GY_E_IO && strstr(base_err.text, strerror(ENAMETOOLONG)));
    T_CHECK(gy_outfile_write(&out, "x", 1, &base_err) == GY_E_IO && gy_outfile_commit(&out, &base_err) == GY_E_IO);
    gy_outfile_abandon(&out);
    T_CHECK(gy_file_make_folder(folder, &base_err) == GY_OK);
    const int before = base_entries(base_folder);
    T_CHECK(base_put(folder, "x") == GY_E_IO && strstr(base_err.text, strerror(EISDIR)));
    T_CHECK(base_entries(base_folder) == before);
    rmdir(folder);
}

/* In a child with its own mounts: path lies on a disk of 64 KiB that holds "old". */
static void base_use_full_disk(const char *folder, const char *path, const char *filler)
{
    static const char block[4096] = { 1 };
    struct gy_outfile out;
    const char *reason = strerror(ENOSPC);
    T_CHECK(base_put(path, "old") == GY_OK);
    T_CHECK(gy_outfile_open(&out, path, &base_err) == GY_OK); /* too long at once */
    int status = GY_OK;
    for (int i = 0; i < 64 && status == GY_OK; i++)
        status = gy_outfile_write(&out, block, sizeof block, &base_err);
    T_CHECK(status == GY_E_IO && strstr(base_err.text, reason) && strstr(base_err.text, path));
    memset(&base_err, 0, sizeof base_err);
    /* the commit fails with the same reason, even if the caller ignored the failed write */
    T_CHECK(gy_outfile_commit(&out, &base_err) == GY_E_IO && strstr(base_err.text, reason));
    T_CHECK(base_holds(path, "old") && base_entries(folder) == 1);

    FILE *file = fopen(filler, "wb");
    if (!T_CHECK(file != NULL))
        return;
    while (fwrite(block, 1, sizeof block, file) == sizeof block && fflush(file) == 0)
        continue;
    fclose(file);
    /* so few bytes that only the flush finds the disk full */
    T_CHECK(gy_outfile_open(&out, path, &base_err) == GY_OK);
    T_CHECK(gy_outfile_write(&out, "new", 3, &base_err) == GY_OK);
    T_CHECK(gy_outfile_commit(&out, &base_err) == GY_E_IO && strstr(base_err.text, reason));
    gy_outfile_abandon(&out);
    T_CHECK(base_holds(path, "old") && base_entries(folder) == 2);
}

static int base_full_disk_child(const char *folder)
{
    char path[400], filler[400];
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=64k") != 0)
        return 100;
    const int failed = t_failed;
    T_CHECK(gy_file_join(path, sizeof path, folder, "target", &base_err) == GY_OK);
    T_CHECK(gy_file_join(filler, sizeof filler, folder, "filler", &base_err) == GY_OK);
    base_use_full_disk(folder, path, filler);
    fflush(stdout);
    return t_failed > failed ? 1 : 0;
}

static void base_test_full_disk(void)
{
    int status = -1;
    const char *folder = base_path("disk");
    T_CHECK(gy_file_make_folder(folder, &base_err) == GY_OK);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0)
        _exit(base_full_disk_child(folder));
    T_CHECK(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) &&
            (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 100));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 100)
        T_SKIP("full disk: a small one cannot be mounted here (needs root)");
    rmdir(folder);
}

static void base_test_read_at(void)
{
    struct gy_file file = { .size = 0 };
    char text[8] = "";
    const char *path = base_path("any"), *fifo = base_path("fifo");
    gy_file_close(&file);
    T_CHECK(base_put(path, "places") == GY_OK);
    if (T_CHECK(gy_file_open(&file, path, &base_err) == GY_OK))
        T_CHECK(file.size == 6 && gy_file_read_at(&file, 2, text, 4, &base_err) == GY_OK && strcmp(text, "aces") == 0);
    T_CHECK(gy_file_read_at(&file, 5, text, 2, &base_err) == GY_E_TRUNCATED && gy_file_read_at(&file, UINT64_MAX, text, 2, &base_err) == GY_E_TRUNCATED);
    T_CHECK(gy_file_read_at(&file, 6, text, 0, &base_err) == GY_OK);
    T_CHECK(truncate(path, 3) == 0 && gy_file_read_at(&file, 2, text, 4, &base_err) == GY_E_TRUNCATED);
    T_CHECK(strstr(base_err.text, path) && strstr(base_err.text, "nothing is at byte 3 any more; it had 6 bytes when it was opened"));
    gy_file_close(&file);
    T_CHECK(!file.open && file.size == 0);
    file = gy_file_of("memory", 6, "m");
    T_CHECK(gy_file_read_at(&file, 3, text, 3, &base_err) == GY_OK && memcmp(text, "ory", 3) == 0);
    T_CHECK(gy_file_read_at(&file, 3, text, 4, &base_err) == GY_E_TRUNCATED);
    T_CHECK(base_put(path, "") == GY_OK && gy_file_open(&file, path, &base_err) == GY_OK && file.size == 0);
    gy_file_close(&file);
    T_CHECK(base_put(path, "begin") == GY_OK && gy_file_begins(path, "beg", 3) && !gy_file_begins(path, "begins", 6) && !gy_file_begins(base_folder, "b", 1));
    remove(path);
    T_CHECK(gy_file_open(&file, path, &base_err) == GY_E_IO && strstr(base_err.text, path));
    T_CHECK(strstr(base_err.text, strerror(ENOENT)) && !file.open);
    T_CHECK(gy_file_open(&file, base_folder, &base_err) == GY_E_IO && strstr(base_err.text, "not a regular file"));
    T_CHECK(mkfifo(fifo, 0600) == 0 && gy_file_open(&file, fifo, &base_err) == GY_E_IO);
    remove(fifo);
}

static void base_test_read(void)
{
    struct base_heap heap;
    const struct gy_alloc alloc = base_alloc(&heap, 0);
    char *data = NULL, name[40];
    size_t bytes = 99;
    int ends[2];
    const char *path = base_path("read");
    T_CHECK(base_put(path, "12345") == GY_OK);
    T_CHECK(gy_file_read(&alloc, path, 4, &data, &bytes, &base_err) == GY_E_FORMAT && !data && bytes == 99);
    T_CHECK(strstr(base_err.text, path) && strstr(base_err.text, "5 bytes; at most 4"));
    T_CHECK(gy_file_read(&alloc, path, 5, &data, &bytes, &base_err) == GY_OK);
    T_CHECK(bytes == 5 && data && strcmp(data, "12345") == 0);
    T_CHECK(heap.live_bytes == 6);
    gy_alloc_free(&alloc, data, bytes + 1);
    FILE *const longer = base_put(path, "a long one\nb\n1234567\n12345678\nlast") == GY_OK ? fopen(path, "r") : NULL;
    /* the cut-off rest of a long line is not read as a line of its own */
    static const char *const lines[] = { "a long ", "b\n", "1234567", "1234567", "last" };
    for (size_t i = 0; longer && i < GY_COUNT(lines); i++)
        T_CHECK(gy_file_next(longer, name, 8) == 1 && strcmp(name, lines[i]) == 0);
    T_CHECK(longer && gy_file_next(longer, name, 8) == 0 && fclose(longer) == 0);
    T_CHECK(base_put(path, "one\ntwo\n") == GY_OK && strcmp(gy_file_line(path, name, sizeof name), "one\n") == 0);
    T_CHECK(strcmp(gy_file_line(path, name, 3), "on") == 0);
    T_CHECK(base_put(path, "") == GY_OK && base_holds(path, "") && strcmp(gy_file_line(path, name, sizeof name), "") == 0);
    remove(path);
    T_CHECK(strcmp(gy_file_line(path, name, sizeof name), "") == 0);
    T_CHECK(gy_file_read(&alloc, path, 5, &data, &bytes, &base_err) == GY_E_IO);
    T_CHECK(strstr(base_err.text, strerror(ENOENT)));
    T_CHECK(gy_file_read(&alloc, base_folder, 5, &data, &bytes, &base_err) == GY_E_IO);
    T_CHECK(heap.live_bytes == 0);
    for (int limit = 4999; limit <= 5000; limit++) { /* a pipe: no size to begin with */
        char text[5000];
        memset(text, 'p', sizeof text);
        if (!T_CHECK(pipe(ends) == 0 && write(ends[1], text, sizeof text) == (ssize_t)sizeof text))
            return;
        close(ends[1]);
        snprintf(name, sizeof name, "/dev/fd/%d", ends[0]);
        const int status = gy_file_read(&alloc, name, (size_t)limit, &data, &bytes, &base_err);
        close(ends[0]);
        if (limit < 5000)
            T_CHECK(status == GY_E_FORMAT && heap.live_bytes == 0);
        else if (T_CHECK(status == GY_OK && bytes == 5000 && memcmp(data, text, 5000) == 0 && data[5000] == 0))
            gy_alloc_free(&alloc, data, bytes + 1);
    }
    T_CHECK(heap.live_bytes == 0);
}

static void base_test_folders(void)
{
    char joined[8];
    const char *deep = base_path("a//b/c/"), *plain = base_path("a/b/c"), *file = base_path("file");
    T_CHECK(gy_file_make_folder(deep, &base_err) == GY_OK && gy_file_exists(plain) == 2);
    T_CHECK(gy_file_make_folder(plain, &base_err) == GY_OK && gy_file_make_folder("/", &base_err) == GY_OK);
    T_CHECK(rmdir(plain) == 0 && rmdir(base_path("a/b")) == 0 && rmdir(base_path("a")) == 0);
    T_CHECK(gy_file_make_folder("", &base_err) == GY_E_ARG);
    file = base_path("file");
    T_CHECK(base_put(file, "x") == GY_OK && gy_file_exists(file) == 1);
    T_CHECK(gy_file_make_folder(file, &base_err) == GY_E_IO && strstr(base_err.text, file));
    T_CHECK(gy_file_make_folder(base_path("file/x"), &base_err) == GY_E_IO && strstr(base_err.text, strerror(ENOTDIR)));
    remove(file);
    T_CHECK(gy_file_exists(file) == 0);
    T_CHECK(gy_file_join(joined, 8, "abc", "def", &base_err) == GY_OK && strcmp(joined, "abc/def") == 0);
    T_CHECK(gy_file_join(joined, 8, "abc/", "def", &base_err) == GY_OK && strcmp(joined, "abc/def") == 0);
    T_CHECK(gy_file_join(joined, 8, "", "def", &base_err) == GY_OK && strcmp(joined, "def") == 0);
    T_CHECK(gy_file_join(joined, 8, "abcd", "def", &base_err) == GY_E_ARG && strstr(base_err.text, "abcd/def"));
}

static void base_test_files(void)
{
    const char *parent = getenv("TMPDIR");
    snprintf(base_folder, sizeof base_folder, "%.150s/gyre-base-XXXXXX", parent && parent[0] ? parent : "/tmp");
    if (!T_CHECK(mkdtemp(base_folder) != NULL))
        return;
    base_test_outfile();
    base_test_nomem(base_path("out.txt"));
    base_test_lock();
    base_test_outfile_refused();
    base_test_full_disk();
    base_test_read_at();
    base_test_read();
    base_test_folders();
    remove(base_path("out.txt"));
    T_CHECK(base_entries(base_folder) == 0);
    rmdir(base_folder);
}

#endif
