/* SPDX-License-Identifier: MIT */
/* The public header alone, as strict C++ of 1998. */
#include "../engine/gyre.h"
#include "../engine/gyre.h"

int main()
{
    return gyre_version() == GYRE_VERSION ? 0 : 1;
}
