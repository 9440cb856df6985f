/* SPDX-License-Identifier: MIT */
/* file_lock.h: lock files, for what writes folders of runs, packed images and rows. */
#ifndef GY_FILE_LOCK_H
#define GY_FILE_LOCK_H
#include "engine/base/status.h"

/* A lock file, by which one run alone writes a folder or a file. Its text says whose it is. The
 * system releases it when the process ends, however it ends; over NFS as far as locks work there.
 * Without Linux it does not keep apart runs of one process. */
struct gy_lock {
    int open, fd;
    char path[4096];
};
/* path: of the lock file; what: it stands for, in the sentence. GY_E_STATE when another run
 * holds it. A file system without locks holds nobody back. */
GY_INT int gy_lock_take(struct gy_lock *lock, const char *path, const char *what, struct gy_error *err);
/* path.lock, for a file that is written */
GY_INT int gy_lock_beside(struct gy_lock *lock, const char *path, struct gy_error *err);
/* Until it is dropped, no other run may write into the folder. */
GY_INT int gy_run_folder_lock(struct gy_lock *lock, const char *folder, struct gy_error *err);
GY_INT void gy_lock_drop(struct gy_lock *lock); /* safe on a zeroed struct */

#endif
