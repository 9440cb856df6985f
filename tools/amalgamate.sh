#!/bin/sh
# SPDX-License-Identifier: MIT
# amalgamate.sh FOLDER SOURCE_ID FILE.c...: writes FOLDER/gyre.c, gyre.h and gyre_glm.h: the library as one file and its headers.
# Every #include "..." is replaced by the file at its first place and dropped afterwards; #include <...> stays. Whatever
# the library's files share becomes static (GY_INT), so only gyre_ names leave the object. Same inputs, same bytes: no
# dates, no paths of the machine. The order of FILE.c is the order in the result.
set -eu
export LC_ALL=C
folder=$1
id=$2
shift 2
mkdir -p "$folder"
body=$folder/gyre.body
list=$folder/gyre.list
trap 'rm -f "$body" "$list"' EXIT
: >"$list"

awk -v list="$list" '
# folder part of a path, with the slash
function folder_of(path) { return match(path, /.*\//) ? substr(path, 1, RLENGTH) : "" }

function stop(sentence) { print "amalgamate: " sentence > "/dev/stderr"; bad = 1; exit 1 }

# Prints the file; depth counts open #if of this file alone, the guard of a header not counted.
function put(path, from,    line, depth, number, guard, name, shown) {
    done[path] = 1
    print path >> list
    shown = path
    sub(/.*generated\//, "generated/", shown)
    print "\n/* ---- " shown " ---- */"
    depth = 0
    guard = path ~ /\.h$/ ? 1 : 0
    while ((getline line < path) > 0) {
        number++
        if (line ~ /^[ \t]*#[ \t]*if/)
            depth++
        if (line ~ /^[ \t]*#[ \t]*endif/)
            depth--
        if (line ~ /^[ \t]*#[ \t]*include[ \t]*"/) {
            name = line
            sub(/^[^"]*"/, "", name)
            sub(/".*/, "", name)
            if (name !~ /\//)
                name = folder_of(path) name
            if (name in done)
                continue
            if (depth > guard)
                stop(path ":" number ": \"" name "\" is included first inside an #if; include it above")
            put(name, path)
            print "\n/* ---- " path ", continued ---- */"
        } else
            print line
    }
    if (number == 0)
        stop(path ": cannot be read" (from ? ", included by " from : ""))
    close(path)
}

BEGIN {
    for (i = 1; i < ARGC; i++)
        put(ARGV[i], "")
    exit bad
}' "$@" >"$body"

number() { sed -n "s/^#define GYRE_VERSION_$1 \\([0-9]*\\).*/\\1/p" engine/gyre_base.h; }

{
    cat <<END
/* SPDX-License-Identifier: MIT */
/* Gyre $(number MAJOR).$(number MINOR).$(number PATCH) as one C file. Compile:  cc -O2 -c gyre.c
 * A program with it:  cc -O2 app.c gyre.c -lm -lpthread -ldl
 *
 * Source id: $id
 *
 * Options, given with -D:
 *     GY_NO_IMAGE   without the system header stb_image.h: no JPEG, PNG, BMP, PPM, no .gz
 *     GY_NO_CUDA    without the CUDA backend, which otherwise opens CUDA's libraries where they are
 *     GY_INT        linkage of what is internal (default: static)
 *
 * Made by tools/amalgamate.sh from these files (SHA-256); change them, not this one:
END
    xargs sha256sum <"$list" | sed -e 's|  .*generated/|  generated/|' -e 's/^/ *     /'
    cat <<END
 */
#ifndef GY_SOURCE_ID
#define GY_SOURCE_ID "$id"
#endif
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
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
cp engine/gyre.h engine/gyre_glm.h "$folder"
