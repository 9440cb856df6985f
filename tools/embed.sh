#!/bin/sh
# SPDX-License-Identifier: MIT
# embed.sh FILE: writes FILE, a C file with the text of everything that is compiled at run time: kernels/cuda/*.cu and *.cuh,
# and the headers that they share with the host. kernels/cuda/sources.c looks texts up in it. Same inputs, same bytes; a FILE
# that would not change is left alone, so that nothing is compiled again.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
out=$1
mkdir -p "$(dirname "$out")"
new=$out.$$
trap 'rm -f "$new"' EXIT

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
    for file in kernels/cuda/*.cu kernels/cuda/*.cuh kernels/cuda/args.h kernels/op_device.h kernels/glm_loss.h \
        kernels/glm_window.h; do
        [ -f "$file" ] || continue
        printf '"%s",\n' "$(basename "$file")"
        sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/?/\\?/g' -e 's/^/"/' -e 's/$/\\n"/' "$file"
        printf ',\n'
    done
    cat <<END
0 };
GY_INT const char *const *gy_cuda_texts(void) { return cuda_texts; }
#if defined(__GNUC__)
#pragma GCC diagnostic pop
#endif
#endif
END
} >"$new"
cmp -s "$new" "$out" || mv "$new" "$out"
