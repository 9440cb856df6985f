/* SPDX-License-Identifier: MIT */
/* The public headers alone, as strict C++ of 1998. */
#include "engine/gyre_glm.h"
#include "engine/gyre.h"

int main()
{
    return gyre_version() == GYRE_VERSION ? 0 : 1;
}
