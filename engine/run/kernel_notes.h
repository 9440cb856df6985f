/* SPDX-License-Identifier: MIT */
/* kernel_notes.h: what a checkpoint has of a GPU's kernels: open.c notes, 'gyre audit' reads it. */
#ifndef GY_KERNEL_NOTES_H
#define GY_KERNEL_NOTES_H
#include "engine/run/engine.h"

/* Notes the net's kernels and what they depend on, for each later gyre_save. None on the CPU. */
GY_INT int gy_engine_note_kernels(struct gyre_net *net);
/* The configuration of note "kernels.config", into c; 0 where the text is no such note. */
GY_INT int gy_kernel_notes_config(const char *text, struct gyre_config *c);

#endif
