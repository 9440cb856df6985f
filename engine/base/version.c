/* SPDX-License-Identifier: MIT */
/* version.c: public calls for version, source id and names of statuses. build.sh sets the id. */
#include "engine/gyre_base.h"
#include "engine/base/status.h"

#ifndef GY_SOURCE_ID
#define GY_SOURCE_ID "unknown"
#endif

GYRE_API int gyre_version(void) { return GYRE_VERSION; }
GYRE_API const char *gyre_source_id(void) { return GY_SOURCE_ID; }
GYRE_API const char *gyre_status_name(int status) { return gy_status_name(status); }
