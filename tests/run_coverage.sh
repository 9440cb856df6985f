#!/bin/sh
# SPDX-License-Identifier: MIT
# run_coverage.sh FOLDER COUNTERS: what a suite in the flavour `coverage` ran of the library and the
# command. COUNTERS has a folder for each program, FOLDER the flavour's objects. It prints the table
# by folder and writes into FOLDER:
#     lines/PROGRAM   'file:line:count:branches' of every line with code; a branch is 1 where taken
#     files.txt       a row for each file
#     uncovered.txt   lines that nothing ran
#     branches.txt    lines that were run, with a branch that was never taken
# It fails only when there are no counters.
set -eu
LC_ALL=C
export LC_ALL
cd "$(dirname "$0")/.."
folder=$1 counters=$2
root=$(cd "$folder/obj" && pwd)

# counted NAME: gcov's text of all objects that the program ran
counted()
{
    for part in engine kernels io net tools; do
        [ ! -d "$counters/$1$root/$part" ] || find "$counters/$1$root/$part" -name '*.gcda'
    done | sort | while read -r data; do
        object=${data#"$counters/$1"}
        ln -sf "${object%.gcda}.gcno" "${data%.gcda}.gcno"
        printf '%s\n' "$data"
    done | xargs -r gcov -b -c -t
}

# The text of gcov as 'file:line:count:branches'; of files of this tree alone.
rows()
{
    awk '
    function give() {
        if (line) print file ":" line ":" count ":" taken
        line = 0
    }
    /^ *-: +0:Source:/ {
        give()
        file = $0
        sub(/^ *-: +0:Source:/, "", file)
        while (match(file, /[^\/.][^\/]*\/\.\.\//)) file = substr(file, 1, RSTART - 1) substr(file, RSTART + RLENGTH)
        if (file !~ /^(engine|kernels|io|net|tools)\//) file = ""
        next
    }
    file == "" { next }
    /^branch / { if (line) taken = taken ($3 == "taken" && $4 != "0"); next }
    /^ *[0-9#=]+\*?: *[0-9]+:/ {
        give()
        split($0, field, ":")
        line = field[2] + 0
        count = field[1] ~ /[#=]/ ? 0 : field[1] + 0
        taken = ""
    }
    END { give() }'
}

# All programs together, by file and line.
# shellcheck disable=SC2016
all='
    {
        key = $1 ":" $2
        count[key] += $3
        n = length($4)
        if (n > ways[key]) ways[key] = n
        for (i = 1; i <= n; i++) if (substr($4, i, 1) == "1") taken[key, i] = 1
    }
    END {
        for (key in count) {
            bits = ""
            for (i = 1; i <= ways[key]; i++) bits = bits ((key, i) in taken ? 1 : 0)
            print key ":" count[key] ":" bits
        }
    }'

rm -rf "$folder/lines"
mkdir "$folder/lines"
programs=0
for data in "$counters"/*; do
    [ -d "$data" ] || continue
    name=$(basename "$data")
    counted "$name" | rows | awk -F: "$all" | sort -t: -k1,1 -k2,2n >"$folder/lines/$name"
    programs=$((programs + 1))
done
cat "$folder"/lines/* | awk -F: "$all" | sort -t: -k1,1 -k2,2n >"$folder/lines.txt"

# table COLUMN HEAD: sums by the file's name, or by its folder
table()
{
    awk -F: -v by="$1" '
        function row(name) {
            printf "%-32s %6d lines  %5.1f %%   %6d branches  %5.1f %%\n", name, lines[name], 100 * run[name] / lines[name], ways[name],
                ways[name] ? 100 * taken[name] / ways[name] : 100
        }
        function add(name) {
            lines[name]++
            run[name] += $3 > 0
            ways[name] += length($4)
            taken[name] += gsub(/1/, "", bits)
        }
        {
            name = $1
            if (by == "folder") sub(/\/[^\/]*$/, "", name)
            if (!(name in lines)) order[++count] = name
            bits = $4; add(name)
            bits = $4; add("all")
        }
        END { for (i = 1; i <= count; i++) row(order[i]); if (count) row("all") }' "$folder/lines.txt"
}
table file >"$folder/files.txt"
# lines WHICH: 'file:line: code' of the chosen lines
chosen()
{
    awk -F: "$1"' { print $1, $2 }' "$folder/lines.txt" | awk '
        $1 != file { if (file) close(file); file = $1; at = 0 }
        { while (at < $2 && (getline text <file) > 0) at++; sub(/^ +/, "", text); print file ":" $2 ": " text }'
}
chosen '$3 == 0' >"$folder/uncovered.txt"
chosen '$3 > 0 && $4 ~ /0/' >"$folder/branches.txt"
printf 'folder\n'
table folder
printf 'coverage: %d passed, %d failed\n' "$programs" "$((programs == 0))"
[ $programs -gt 0 ]
