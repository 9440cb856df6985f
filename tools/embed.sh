#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh FILE [recipes]: writes FILE, a C file with the text of everything that is compiled at run
# time. That is: kernels/cuda/*.cu and *.cuh, and the headers that they share with the host.
# kernels/cuda/sources.c looks texts up in it. With `recipes`: the recipes of 'gyre recipe',
# tools/recipes/*.txt, for tools/cmd_recipe.c. Same inputs, same bytes. A FILE that would not change
# is left alone, so that nothing is compiled again.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
out=$1
what=${2:-kernels}
mkdir -p "$(dirname "$out")"
new=$out.$$
trap 'rm -f "$new"' EXIT

# texts SUFFIX FILE...: name without the suffix, text, and so on
texts()
{
    suffix=$1
    shift
    for file in "$@"; do
        [ -f "$file" ] || continue
        printf '"%s",\n' "$(basename "$file" "$suffix")"
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
        printf ',\n'
    done
}

kernels()
{
    cat <<END
/* SPDX-License-Identifier: MIT */
/* Texts of the kernels: name, text, name, text, NULL. Made by tools/embed.sh; change the files that it reads. */
#ifndef GY_NO_CUDA
#ifndef GY_INT
#define GY_INT
#endif
#if defined(__GNUC__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverlength-strings"
#endif
GY_INT const char *const *gy_cuda_texts(void);
static const char *const cuda_texts[] = {
END
    texts '' kernels/cuda/*.cu kernels/cuda/*.cuh kernels/cuda/args.h kernels/op_device.h kernels/glm_loss.h kernels/glm_window.h
    cat <<END
0 };
GY_INT const char *const *gy_cuda_texts(void) { return cuda_texts; }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif
END
}

recipes()
{
    cat <<END
/* SPDX-License-Identifier: MIT */
/* Texts of the recipes: name, text, name, text, NULL. Made by tools/embed.sh; change the files that it reads. */
#include "tools/cli.h"
static const char *const recipe_texts[] = {
END
    texts .txt tools/recipes/*.txt
    cat <<END
NULL };
const char *const *cli_recipe_texts(void) { return recipe_texts; }
END
}

"$what" >"$new"
cmp -s "$new" "$out" || mv "$new" "$out"
