/* SPDX-License-Identifier: MIT */
/* plan_compile.h: makes a plan from a graph, for run/tuning.c, run/open.c, run/pipeline_plan.c. */
#ifndef GY_PLAN_COMPILE_H
#define GY_PLAN_COMPILE_H
#include "engine/plan/program.h"

/* Everything but addresses. The backend's prepare is called for each device op. Memory: arena's. */
GY_INT int gy_plan_build(struct gy_plan *plan, const struct gy_graph *graph, const struct gy_plan_config *config,
                         const struct gy_uniform *uniform, const struct gy_backend *backend, void *backend_self,
                         struct gy_arena *arena, struct gy_error *err);

#endif
