/* SPDX-License-Identifier: MIT */
/* The public header alone, as strict C99: it brings what it needs, twice is the same as once. */
#include "../engine/gyre.h"
#include "../engine/gyre.h"

int main(void);

int main(void)
{
    return gyre_version() == GYRE_VERSION ? 0 : 1;
}
