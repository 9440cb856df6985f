#!/bin/sh
# SPDX-License-Identifier: MIT
# What newcomers read is true. The C program of README.md compiles and runs, and its figures stand
# in docs/measured.md. Every path and every link of README.md and docs/ leads somewhere, and
# README.md keeps its size. DOCS names another tree, whose pages have a fault that this script must
# find.
. "$(dirname "$0")/e2e.inc"
DOCS=${DOCS:-$(cd "$(dirname "$0")/.." && pwd)}
LINES_MOST=100 COLUMNS_MOST=120 CELL_MOST=59 CHANGES_COLUMNS=159
cd "$DOCS" || exit 1
found=$TMP/found

# none WHAT: the file $found, a finding a line, is empty
none()
{
    if [ -s "$found" ]; then
        bad "$1:"
        head -n 20 "$found"
    else
        ok
    fi
}

# ---- size ----

# at_most WHAT COUNT MOST
at_most() { if [ "$2" -le "$3" ] && [ "$2" -gt 0 ]; then ok; else bad "$1: $2, at most $3"; fi; }
at_most "lines of README.md" "$(wc -l <README.md)" $LINES_MOST
# wide FILE MOST: its lines of more characters; bytes 128 to 191 continue one
wide()
{
    awk -v most="$2" '{ gsub(/[\200-\277]/, ""); if (length > most) print FILENAME ":" FNR ": " length }' "$1"
}
wide README.md $COLUMNS_MOST >"$found"
none "README.md is too wide"
wide CHANGELOG.md $CHANGES_COLUMNS >"$found"
none "CHANGELOG.md is too wide"

# cells FILE: 'line number TAB cell' of its tables
cells()
{
    awk '/^```/ { code = !code }
        /^\|/ && !code && !/^\|[-| ]*$/ {
            n = split($0, cell, "|")
            for (i = 2; i < n; i++) { gsub(/^ +| +$/, "", cell[i]); print FNR "\t" cell[i] }
        }' "$1"
}
cells README.md |
    awk -F '\t' -v most=$CELL_MOST 'length($2) > most { print "line " $1 ": " length($2) " characters: " $2 }' >"$found"
none "cells of README.md are too long"
cells docs/glossary.md | awk -F '\t' '{ n[$1]++ } $2 == "" { print "line " $1 ": an empty cell" }
    END { for (i in n) if (n[i] != 3) print "line " i ": " n[i] " cells" }' >"$found"
none "every word of the glossary has its sentence and its source"

# ---- figures ----

# A row of figures in README.md names a row of docs/measured.md and repeats its figure.
awk -F ' *[|] *' '
    FILENAME == "docs/measured.md" && NF > 7 { figure[$2] = $3 }
    FILENAME == "README.md" && /^\| *what *\| *figure/ { inside = 1; next }
    FILENAME == "README.md" && !/^\|/ { inside = 0 }
    FILENAME == "README.md" && inside && !/^\|-/ {
        rows++
        if (!($2 in figure)) print "README.md:" FNR ": no row \"" $2 "\" in docs/measured.md"
        else if (figure[$2] != $3) print "README.md:" FNR ": \"" $3 "\", but \"" figure[$2] "\" in docs/measured.md"
    }
    END { if (rows != 6) print "README.md: " rows + 0 " headline figures, not 6" }' docs/measured.md README.md >"$found"
none "headline figures that are not in docs/measured.md"

# Every number with a point, a per cent sign or a unit, outside the C program, is a word of
# docs/measured.md.
awk '
    function clean(text) { sub(/[.,]+$/, "", text); return text }
    FILENAME == "docs/measured.md" {
        gsub(/[^0-9.,]+/, " ")
        n = split($0, word, " ")
        for (i = 1; i <= n; i++) known[clean(word[i])] = 1
        next
    }
    /^```c$/ { c = 1; next } # the program, then what it prints
    /^```$/ && c { c = (c + 1) % 4; next }
    c != 1 && c != 3 {
        line = $0
        gsub(/\]\([^)]*\)/, " ", line)
        while (match(line, /[0-9][0-9.,]*( ?%| (s|ms|us|B|KiB|MiB|MB|GB|images\/s|times|seconds)([^a-zA-Z]|$))?/)) {
            number = substr(line, RSTART, RLENGTH)
            before = RSTART > 1 ? substr(line, RSTART - 1, 1) : " "
            line = substr(line, RSTART + RLENGTH)
            value = number
            sub(/[^0-9.,].*/, "", value)
            value = clean(value)
            if (before !~ /[A-Za-z0-9_\/-]/ && (number ~ /[^0-9.,]/ || value ~ /\./) && !(value in known))
                print "README.md:" FNR ": " number
        }
    }' docs/measured.md README.md >"$found"
none "numbers of README.md that are not in docs/measured.md"

# ---- places ----

# A path is a word that begins with a folder of the tree; it may be a pattern. Files that the build
# makes do not count.
for page in README.md docs/*.md; do
    grep -oE '(^|[^A-Za-z0-9_./-])(engine|kernels|net|io|tools|tests|docs|\.ci)/[A-Za-z0-9_./*-]*' "$page" |
        sed -E 's/^[^A-Za-z.]//; s/[.]$//' | sort -u | while read -r path; do
            # shellcheck disable=SC2086
            set -- $path
            [ -e "$1" ] || echo "$page: $path"
        done
    grep -oE '`(\./)?[A-Za-z_]+\.(sh|md)' "$page" | tr -d '`' | sort -u | while read -r path; do
        [ -e "$path" ] || [ -e "docs/$path" ] || echo "$page: $path"
    done
done >"$found"
none "paths that lead nowhere"

# headings FILE: as a link names them
headings()
{
    sed -nE 's/^#+ //p' "$1" | tr '[:upper:]' '[:lower:]' | sed -E 's/[^a-z0-9 _-]//g; s/ /-/g'
}
for page in README.md docs/*.md; do
    grep -oE '\]\([^)]+\)' "$page" | sed -E 's/^\]\(//; s/\)$//' | while read -r link; do
        case $link in http://*|https://*) continue ;; esac
        file=${link%%#*}
        file=${file:+$(dirname "$page")/$file}
        file=${file:-$page}
        [ -e "$file" ] || { echo "$page: $link"; continue; }
        case $link in *#*) headings "$file" | grep -qxF -e "${link#*#}" || echo "$page: $link: no such heading" ;; esac
    done
done >"$found"
none "links that lead nowhere"

# ---- knobs ----

# A variable that `gyre knobs` lists is read somewhere else than in its table.
if [ -x "${GYRE:-}" ]; then
    "$GYRE" knobs | while read -r knob rest; do
        grep -rqw "$knob" build.sh engine kernels net tools tests --include=*.[ch] --include=build.sh --exclude=knob.c ||
            echo "$knob: $rest"
    done >"$found"
    none "knobs that nobody reads"
fi

# ---- pictures ----

sh tools/floors_svg.sh >"$TMP/floors.svg" || bad "tools/floors_svg.sh"
same "$TMP/floors.svg" docs/floors.svg
for picture in docs/floors.svg docs/curve.svg; do
    tells "$picture" '</svg>'
    tells README.md "$picture"
    at_most "bytes of $picture" "$(wc -c <"$picture")" 16384
done

# ---- the program ----

awk '/^```c$/ { inside = 1; next } /^```/ { inside = 0 } inside' README.md >"$TMP/readme.c"
# the block after the program
awk '/^```c$/ { c = 1; next } /^```$/ && c { c++; next } c == 3' README.md >"$TMP/promised"
at_most "lines of the program in README.md" "$(wc -l <"$TMP/readme.c")" 20
library=$(dirname "${GYRE:-build/gyre}")/libgyre.a
CC=${FCC:-${CC:-cc}}
if [ ! -f "$library" ] || ! command -v "$CC" >/dev/null 2>&1; then
    skip "the program of README.md: no compiler, or no $library"
    finish
fi
# a float that is printed becomes a double
# shellcheck disable=SC2086
expect 0 "$CC" ${FLAGS:--std=c99 -Wall -Wextra -Werror} -Wno-double-promotion -Iengine "$TMP/readme.c" "$library" \
    -lm -lpthread -ldl -o "$TMP/readme"
expect 0 "$TMP/readme"
cp "$out" "$TMP/printed"
same "$TMP/printed" "$TMP/promised"
finish
