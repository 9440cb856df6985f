/* SPDX-License-Identifier: MIT */
/* hdr.c: the public headers alone, as strict C99. They bring what they need; twice is the same as
 * once. */
#include "engine/gyre_glm.h"
#include "engine/gyre.h"
#include "engine/gyre_glm.h"

int main(void);

int main(void)
{
    return gyre_version() == GYRE_VERSION ? 0 : 1;
}
