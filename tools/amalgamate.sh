#!/bin/sh
# SPDX-License-Identifier: MIT
# amalgamate.sh FOLDER SOURCE_ID PROFILE FILE.c...: writes FOLDER/gyre.c and gyre.h: a profile of
# the library as one file, and its header. Every #include "..." is replaced by the file at its first
# place and dropped afterwards; #include <...> stays. A template, FILE.inc, which is included many
# times, stands once at the end, and gyre.c includes itself to reach it. Whatever the library's
# files share becomes static (GY_INT), so only gyre_ names leave the object. Same inputs, same
# bytes: no dates, no paths of the machine. The order of FILE.c is the order in the result.
set -eu
export LC_ALL=C
folder=$1
id=$2
profile=$3
shift 3
mkdir -p "$folder"
body=$folder/gyre.body
list=$folder/gyre.list
trap 'rm -f "$body" "$list"' EXIT
: >"$list"

awk -v list="$list" -v profile="$profile" '
# folder part of a path, with the slash
function folder_of(path) { return match(path, /.*\//) ? substr(path, 1, RLENGTH) : "" }

function stop(sentence) { print "amalgamate: " sentence > "/dev/stderr"; bad = 1; exit 1 }

# The path that an #include "..." names, of the file that has it.
function included(line, path) {
    sub(/^[^"]*"/, "", line)
    sub(/".*/, "", line)
    return line ~ /\// ? line : folder_of(path) line
}

function left_out(name) { return name in done || (name ~ /^kernels\/cuda\// && profile != "all") }

# Puts the headers that a file includes before all its own code in front of it. So the file stays in
# one piece.
function put_headers(path,    line, names, name, i, comment) {
    while ((getline line < path) > 0) {
        if (comment || line ~ /^[ \t]*\/\*/)
            comment = line !~ /\*\//
        else if (line ~ /^[ \t]*#[ \t]*include[ \t]*".*\.h"/)
            name[++names] = included(line, path)
        else if (line !~ /^[ \t]*(#[ \t]*include[ \t]*<.*|#[ \t]*(ifndef|define) GY[A-Z_]*_H)?$/)
            break
    }
    close(path)
    for (i = 1; i <= names; i++)
        if (!left_out(name[i]))
            put(name[i], path)
}

# Prints the file; depth counts open #if of this file alone, the guard of a header not counted.
function put(path, from,    line, depth, number, guard, name, shown, resumed) {
    done[path] = 1
    put_headers(path)
    print path >> list
    shown = path
    sub(/.*generated\//, "generated/", shown)
    if (path !~ /\.inc$/)
        print "\n/* ---- " shown " ---- */"
    depth = 0
    guard = path ~ /\.h$/ ? 1 : 0
    while ((getline line < path) > 0) {
        # the first line of gyre.c says it for all
        if (number++ == 0 && line ~ /SPDX-License-Identifier: MIT/)
            continue
        if (line ~ /^[ \t]*#[ \t]*if/)
            depth++
        if (line ~ /^[ \t]*#[ \t]*endif/)
            depth--
        if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            name = included(line, path)
            if (name ~ /\.inc$/) {
                if (!(name in number_of)) {
                    template[++templates] = name
                    number_of[name] = templates
                }
                print "#define GY_TEMPLATE " number_of[name] " /* " name " */"
                print "#include GY_SELF"
                continue
            }
            if (left_out(name))
                continue
            if (depth > guard)
                stop(path ":" number ": \"" name "\" is included first inside an #if; include it above")
            put(name, path)
            resumed = 1
            continue
        }
        if (resumed && line == "")
            continue
        if (resumed)
            print "\n/* ---- " path ", continued ---- */"
        resumed = 0
        print line
    }
    if (number == 0)
        stop(path ": cannot be read" (from ? ", included by " from : ""))
    close(path)
}

# The files of ranks come last, under one switch. After them come the templates, each under its
# number.
BEGIN {
    print "\n#ifndef GY_TEMPLATE /* what is included again: a template, at the end */"
    for (i = 1; i < ARGC; i++) {
        if (!ranks && ARGV[i] ~ /^net\//) {
            print "\n#ifndef GY_NO_RANKS"
            ranks = 1
        }
        put(ARGV[i], "")
    }
    if (ranks)
        print "\n#endif /* GY_NO_RANKS */"
    for (i = 1; i <= templates; i++) {
        print "\n#elif GY_TEMPLATE == " i " /* ---- " template[i] " ---- */\n#undef GY_TEMPLATE"
        put(template[i], "")
    }
    print "\n#endif"
    exit bad
}' "$@" >"$body"

about()
{
    case $1 in
    core) echo "nets on a CPU, from memory; save and load" ;;
    nets) echo "core, data sets, the training loop" ;;
    glm) echo "linear models of sparse rows" ;;
    all) echo "everything" ;;
    *) echo "amalgamate: there is no profile $1" >&2; exit 1 ;;
    esac
}

headers()
{
    case $1 in
    glm) echo gyre_base gyre_glm ;;
    all) echo gyre_base gyre gyre_job gyre_glm ;;
    *) echo gyre_base gyre ;;
    esac
}

# What a profile is made without
switches()
{
    [ "$1" != all ] || return 0
    for switch in GY_NO_CUDA GY_NO_RANKS $([ "$1" = nets ] || echo GY_NO_TUNING); do
        printf '#ifndef %s\n#define %s\n#endif\n' "$switch" "$switch"
    done
}

number() { sed -n "s/^#define GYRE_VERSION_$1 \\([0-9]*\\).*/\\1/p" engine/gyre_base.h; }

{
    cat <<END
/* SPDX-License-Identifier: MIT */
/* Gyre $(number MAJOR).$(number MINOR).$(number PATCH), profile $profile: $(about "$profile"). Compile:  cc -O2 -c gyre.c
 * A program with it:  cc -O2 app.c gyre.c -lm -lpthread -ldl
 *
 * Source id: $id
 *
 * Options, given with -D:
 *     GY_NO_CUDA    without GPUs: the device "cuda" is refused. Always so in core, nets and glm
 *     GY_NO_RANKS   without jobs of several processes, gyre_job_*. Always so in core, nets and glm
 *     GY_NO_TUNING  without block sizes measured on this machine, gyre_config.tune. Always so in core and glm
 *     GY_NO_UCX     without UCX between hosts, even where its header is; TCP stays
 *     GY_NO_IMAGE   without the system header stb_image.h: no JPEG, PNG, BMP, PPM, no .gz
 *     GY_NO_NAMES   hosts by number alone, no name service: for a static program
 *     GY_INT        linkage of what is internal (default: static)
 *     GY_SELF       this file, as it includes itself (default: "gyre.c")
 *
 * Made by tools/amalgamate.sh from these files (SHA-256); change them, not this one:
END
    xargs sha256sum <"$list" | sed -e 's|  .*generated/|  generated/|' -e 's/^/ *     /'
    cat <<END
 */
#ifndef GY_SOURCE_ID
#define GY_SOURCE_ID "$id"
#endif
$(switches "$profile")
#ifndef GY_SELF
#define GY_SELF "gyre.c"
#endif
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#if defined(__clang__) /* a header's small functions that nobody calls here: gcc says nothing of them */
#pragma clang diagnostic ignored "-Wunused-function"
#endif
#ifndef GY_INT
#if defined(__GNUC__)
#define GY_INT static __attribute__((unused))
#else
#define GY_INT static
#endif
#endif
END
    cat "$body"
} >"$folder/gyre.c"

# One header: what it includes of Gyre is in it already; of core what it has not is left out.
{
    echo "/* SPDX-License-Identifier: MIT */"
    echo "/* The public header of Gyre, profile $profile: $(about "$profile"). Made by tools/amalgamate.sh. */"
    for header in $(headers "$profile"); do
        awk -v core="$([ "$profile" = core ] && echo 1 || echo 0)" '
            NR == 1 || /^#include "gyre/ { next }
            /^\/\* ---- (data|the loop|the plan) -/ && core { print "/* " $3 " " $4 ": in the profile nets */"; left_out = 1; next }
            /^\/\* ---- / || /^#ifdef __cplusplus/ { left_out = 0 }
            !left_out' "engine/$header.h"
    done
} >"$folder/gyre.h"
