#!/bin/sh
# SPDX-License-Identifier: MIT
# floors.sh OBJECTS: the form of the tree, measured. A room is a .c file with the header of its
# name. An arrow goes from a room to each whose header it includes or whose functions and data it
# uses. OBJECTS is the folder of the compiled files. Rooms that reach each other are a circle. A
# room's floor is the longest way down from it inside its folder; a circle is one step. An arrow
# climbs when it goes to a folder that stands above (the order of FOLDERS). Last come one line 'NAME
# VALUE' each for check.sh.
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
objects=$1
SCRATCH=${SCRATCH:-$(mktemp -d)}/floors
mkdir -p "$SCRATCH"
FOLDERS="engine engine/base kernels kernels/cpu/ref kernels/cpu/isa kernels/cpu kernels/cuda io io/images io/rows net/transport
net/schedule net/comm net/server engine/job engine/text engine/plan engine/run engine/train engine/glm/solve engine/glm tools/lab tools"

find $FOLDERS -maxdepth 1 \( -name '*.[ch]' -o -name '*.inc' \) -type f | sort >"$SCRATCH/files"

# 'includer included', both as paths from the root
xargs grep -n '^#include "' <"$SCRATCH/files" | awk -F'[:"]' '{
    print "include", $1, index($4, "/") ? $4 : "engine/" $4
}' >"$SCRATCH/facts"

# 'defines file symbol', 'uses file symbol'
while read -r file; do
    [ ! -f "$objects/${file%.c}.o" ] || printf '%s\n' "$objects/${file%.c}.o"
done <"$SCRATCH/files" | xargs nm -A -g 2>/dev/null | sed -nE -e "s|^$objects/(.*)\.o:.* [TDBRVW] ([A-Za-z_0-9]+)\$|defines \1.c \2|p" \
    -e "s|^$objects/(.*)\.o: +U ([A-Za-z_0-9]+)\$|uses \1.c \2|p" >>"$SCRATCH/facts"

# 'lines file count'
xargs wc -l <"$SCRATCH/files" | awk '$2 != "total" { print "lines", $2, $1 }' >>"$SCRATCH/facts"

awk -v folders="$(echo "$FOLDERS" | tr "\n" " ")" '
function folder_of(path) { sub("/[^/]*$", "", path); return path }
# Folders of one level: whose rooms use each other both ways, but in no circle
function level_of(folder) {
    if (folder ~ /^(kernels|io)\//) sub("/.*", "", folder)
    return folder == "engine/glm/solve" ? "engine/glm" : folder
}
function room_of(path) { sub("[.][ch]$", "", path); return path }
function arrow(from, to) {
    from = room_of(from)
    to = room_of(to)
    if (from == to || !(from in room) || !(to in room) || ((from, to) in seen)) return
    seen[from, to] = 1
    out[from, ++outs[from]] = to
}
# Everything that can be reached from a room.
function walk(start,   n, i, at) {
    n = 1
    queue[1] = start
    while (n > 0) {
        at = queue[n--]
        for (i = 1; i <= outs[at]; i++)
            if (!((start, out[at, i]) in reach)) {
                reach[start, out[at, i]] = 1
                queue[++n] = out[at, i]
            }
    }
}
function both_ways(a, b) { return a == b || (((a, b) in reach) && ((b, a) in reach)) }
# The longest way down inside a folder; rooms of one circle count once and stand on the same floor.
function floor_of(a,   i, b, k, most) {
    if (a in floor) return floor[a]
    floor[a] = 0
    for (k = 1; k <= rooms; k++)
        if (both_ways(a, name[k]) && folder_of(name[k]) == folder_of(a))
            for (i = 1; i <= outs[name[k]]; i++) {
                b = out[name[k], i]
                if (folder_of(b) == folder_of(a) && !both_ways(a, b) && floor_of(b) + 1 > most) most = floor_of(b) + 1
            }
    return floor[a] = most + 0
}
$1 == "lines" {
    files[folder_of($2)]++
    lines[folder_of($2)] += $3
    base = $2
    sub(".*/", "", base)
    if (base_names[base]++ == 1) doubled = doubled " " base
    if (!(room_of($2) in room)) {
        room[room_of($2)] = 1
        name[++rooms] = room_of($2)
    }
}
$1 == "defines" { where[$3] = $2 }
$1 == "uses" { use[++used] = $2 " " $3 }
$1 == "include" { include[++included] = $2 " " $3 }
END {
    for (i = 1; i <= included; i++) { split(include[i], w, " "); arrow(w[1], w[2]) }
    for (i = 1; i <= used; i++) { split(use[i], w, " "); if (w[2] in where) arrow(w[1], where[w[2]]) }
    for (i = 1; i <= rooms; i++) walk(name[i])
    count = split(folders, order, " ")
    for (i = 1; i <= count; i++) level[order[i]] = i
    for (i = 1; i <= rooms; i++) {
        a = name[i]
        f = folder_of(a)
        in_folder[f]++
        floors[f] = floor_of(a) + 1 > floors[f] ? floor_of(a) + 1 : floors[f]
        circle = ""
        first = 1
        for (j = 1; j <= rooms; j++)
            if (name[j] != a && both_ways(a, name[j])) {
                circle = circle " " name[j]
                if (name[j] < a) first = 0
            }
        if (circle != "" && first) {
            circles++
            here[f]++
            print "circle: " a circle
        }
        for (j = 1; j <= outs[a]; j++) {
            g = folder_of(out[a, j])
            if (g == f) arrows[f]++
            else if (level[level_of(g)] > level[level_of(f)]) { climbs[f]++; climb_all++; print "climbs: " a " to " out[a, j] }
        }
    }
    printf "%-14s %6s %7s %6s %7s %7s %7s %7s\n", "folder", "files", "lines", "rooms", "floors", "arrows", "climbs", "circles"
    for (i = 1; i <= count; i++) {
        f = order[i]
        printf "%-14s %6d %7d %6d %7d %7d %7d %7d\n", f, files[f], lines[f], in_folder[f], floors[f], arrows[f], climbs[f], here[f]
    }
    for (b in base_names) twice += base_names[b] > 1
    if (doubled != "") print "stand twice:" doubled
    print "circles " circles + 0
    print "climbs " climb_all + 0
    print "doubled_names " twice + 0
    for (i = 1; i <= count; i++) print "floors_" order[i], floors[order[i]]
}' "$SCRATCH/facts"

# widths, macros with arguments
xargs awk 'length > 100 { a++ } length > 120 { b++ } /^#[ ]*define [A-Za-z_0-9]+\(/ { m++ }
    END { print "over_100 " a + 0; print "over_120 " b + 0; print "macros " m + 0 }' <"$SCRATCH/files"

# functions, as check.sh counts them: from a line that begins one to the brace that ends it
xargs awk 'FNR == 1 { open = 0 } /^[A-Za-z].*[^;]$/ { open = FNR } /^}/ { if (open) print FNR - open - 1; open = 0 }' <"$SCRATCH/files" | sort -n | awk '
    { n[NR] = $1 }
    END { print "functions " NR; print "p50 " n[int(NR * 0.5)]; print "p90 " n[int(NR * 0.9)]; print "p99 " n[int(NR * 0.99)]; print "longest " n[NR] }'
for header in engine/gyre*.h; do
    echo "public_$(basename $header) $(grep -c '^GYRE_API' $header) functions, $(wc -l <$header) lines"
done
