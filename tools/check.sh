#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh LIBRARY [full|RULE]: the rules of this tree that a compiler does not know. Each rule
# prints what breaks it, with file and line, and counts once. LIBRARY is a built libgyre.a. `full`
# adds what takes longer: every header alone, and the library without its options; RULE: the one of
# this name alone. Variables: CC (default cc), SCRATCH (a folder to write in, default a new one).
set -eu
export LC_ALL=C
cd "$(dirname "$0")/.."
library=$1
extent=${2:-quick}
CC=${CC:-cc}
SCRATCH=${SCRATCH:-$(mktemp -d)}
mkdir -p "$SCRATCH"
FILE_MOST=800      # lines of a file
FUNCTION_LIST=80   # lines of a function that is named
FUNCTION_MOST=100  # lines of a function that is refused
COLUMNS_MOST=160   # width of a line
passed=0 failed=0 skipped=0

# rule NAME FILE: FILE has one finding a line; none is a pass
rule()
{
    if [ -s "$2" ]; then
        failed=$((failed + 1))
        printf 'FAILED %s\n' "$1"
        sed 's/^/    /' "$2"
    else
        passed=$((passed + 1))
    fi
}
skip() { skipped=$((skipped + 1)); printf 'skipped: %s\n' "$1"; }
findings=$SCRATCH/findings

# files NAME-PATTERN FOLDER...: in a fixed order
files()
{
    pattern=$1
    shift
    for folder in "$@"; do
        [ ! -d "$folder" ] || find "$folder" -type f -name "$pattern"
    done | sort
}
LIBRARY_FOLDERS="engine kernels net io"
# shellcheck disable=SC2086
{
    files '*.c' $LIBRARY_FOLDERS >"$SCRATCH/library_c"
    files '*.h' $LIBRARY_FOLDERS >"$SCRATCH/library_h"
    { files '*.c' $LIBRARY_FOLDERS tools tests; files '*.h' $LIBRARY_FOLDERS tools tests; files '*.inc' kernels; } >"$SCRATCH/all_c"
    {
        cat "$SCRATCH/all_c"
        files '*.sh' tools tests
        files '*.py' tools tests
        files '*.cc' tests
        files '*.cu*' kernels
        echo build.sh
        echo .ci/run
    } >"$SCRATCH/all"
}

# code LIST: every line of the C files as 'file:line:code', comments, strings and characters blanked
code()
{
    xargs awk '
    FNR == 1 { inside = 0 }
    {
        text = $0; out = ""
        while (text != "") {
            if (inside) {
                at = index(text, "*/")
                if (!at) { text = ""; break }
                text = substr(text, at + 2); inside = 0; continue
            }
            if (!match(text, /\/\*|\/\/|["'\'']/)) { out = out text; break }
            mark = substr(text, RSTART, RLENGTH)
            out = out substr(text, 1, RSTART - 1)
            text = substr(text, RSTART + RLENGTH)
            if (mark == "/*") { inside = 1; out = out " " }
            else if (mark == "//") text = ""
            else {
                out = out mark mark
                while (text != "") {
                    c = substr(text, 1, 1)
                    text = substr(text, c == "\\" ? 3 : 2)
                    if (c == mark) break
                }
            }
        }
        print FILENAME ":" FNR ":" out
    }' <"$1"
}
code "$SCRATCH/library_c" >"$SCRATCH/library_code"
code "$SCRATCH/library_h" >"$SCRATCH/header_code"

# ---- text ----------------------------------------------------------------------------------------

rule_licence()
{
    while read -r file; do
        sed 2q "$file" | grep -q 'SPDX-License-Identifier: MIT' || echo "$file:1: no SPDX line in the first two lines"
    done <"$SCRATCH/all"
}

rule_first_comment()
{
    while read -r file; do
        sed -n 2p "$file" | grep -q '^/\*' || echo "$file:2: no comment that says what the file is for"
    done <"$SCRATCH/all_c"
}

rule_text()
{
    xargs awk -v most=$COLUMNS_MOST '
        /\t/ && FILENAME ~ /\.(c|h|cc|sh|py)$/ { print FILENAME ":" FNR ": a tab" }
        /[ \t]$/ { print FILENAME ":" FNR ": white space at the end" }
        length($0) > most { print FILENAME ":" FNR ": " length($0) " columns, at most " most }
        /\r/ { print FILENAME ":" FNR ": a carriage return" }' <"$SCRATCH/all"
    xargs grep -nE '\b(TO[D]O|FIX[M]E|XX[X]|HA[C]K)\b' <"$SCRATCH/all" || :
}

rule_file_size()
{
    xargs awk -v most=$FILE_MOST '
        FNR == 1 && NR > 1 && lines > most { print file ":" lines ": " lines " lines, at most " most }
        { file = FILENAME; lines = FNR }
        END { if (lines > most) print file ":" lines ": " lines " lines, at most " most }' <"$SCRATCH/all"
}

# A function begins with { alone in its first column and ends with } there.
functions()
{
    xargs awk '
        /^\{/ { start = FNR; name = before; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name) }
        /^\}/ && start { print FNR - start + 1, FILENAME ":" start, name; start = 0 }
        /^[a-zA-Z].*\(/ { before = $0 }
        FNR == 1 { start = 0 }' <"$SCRATCH/all_c"
}
rule_function_size() { functions | awk -v most=$FUNCTION_MOST '$1 > most { print $2 ": " $3 " has " $1 " lines, at most " most }'; }
list_long_functions()
{
    functions | awk -v list=$FUNCTION_LIST '$1 > list { print "long: " $2 ": " $3 ", " $1 " lines" }'
    functions | sort -n | awk '{ n[NR] = $1 } END {
        if (NR)
            printf "functions: %d, median %d lines, 90 of 100 under %d, longest %d\n", NR, n[int((NR + 1) / 2)], n[int(NR * 0.9)] + 1, n[NR]
    }'
}

# ---- structure -----------------------------------------------------------------------------------

# What a folder may include besides itself. kernels, io and engine/glm are each one area with their
# subfolders.
DIRECTIONS='
kernels          base
io               base
net/transport    base
net/schedule     base net/transport
net/comm         base net/transport net/schedule
net/server       base
engine/job       base net/transport net/schedule net/comm net/server
engine/text      base kernels
engine/plan      base kernels engine/text
engine/run       base kernels io engine/text engine/plan engine/job
engine/train     base kernels io engine/text engine/plan engine/run engine/job
engine/glm       base kernels io engine/job
tools/lab        base kernels io net/transport net/schedule net/comm engine/text engine/plan engine/run engine/train engine/job engine/glm
tools            tools/lab
'
rule_directions()
{
    xargs awk -v directions="$DIRECTIONS" '
    function area(path) {
        if (path ~ /^engine\/base\//) return "base"
        if (path ~ /^engine\/glm\//) return "engine/glm"
        if (path ~ /^(kernels|io|tests)\//) return substr(path, 1, index(path, "/") - 1)
        if (path ~ /^tools\/lab\//) return "tools/lab"
        sub(/\/[^\/]*$/, "", path)
        return path
    }
    BEGIN {
        rows = split(directions, row, "\n")
        for (i = 1; i <= rows; i++) {
            words = split(row[i], word, " ")
            for (j = 2; j <= words; j++) allowed[word[1] ":" word[j]] = 1
        }
    }
    /^[ \t]*#[ \t]*include[ \t]*"/ {
        name = $0; sub(/^[^"]*"/, "", name); sub(/".*/, "", name)
        if (name ~ /^\//) next # of the system, where it lies
        public = name ~ /^(engine\/)?gyre(_base|_job|_glm)?\.h$/
        from = area(FILENAME); to = area(name)
        if (FILENAME ~ /^tools\/examples\//) {
            if (name !~ /^gyre(_base|_job|_glm)?\.h$/)
                print FILENAME ":" FNR ": an example includes " name "; only public headers"
        } else if (name !~ /\// && FILENAME !~ /^engine\/gyre/)
            print FILENAME ":" FNR ": \"" name "\" is not a path from the root"
        else if (from ~ /^engine\/(run|train|glm)$/ && to == "engine/job" && name !~ /^engine\/job\/(peers|served|wire)\.h$/)
            print FILENAME ":" FNR ": " from " includes " name "; of a job it knows engine/job/peers.h, served.h and wire.h alone"
        else if (public ? from !~ /^(base|engine|tools|tests)/ : from != "tests" && from != to && !((from ":" to) in allowed))
            print FILENAME ":" FNR ": " from " includes " name
    }' <"$SCRATCH/all_c"
}

# The form of the tree gets no worse than tools/limits.
rule_form()
{
    SCRATCH=$SCRATCH sh tools/floors.sh "$(dirname "$library")/obj" >"$SCRATCH/form"
    awk 'FNR == NR { if ($1 ~ /^[a-z]/) limit[$1] = $2; next }
        /^(circle|climbs|stand twice):/ { place[++places] = $0 }
        $1 in limit && NF == 2 { seen[$1] = 1; if ($2 + 0 > limit[$1]) { print $1 " " $2 ", at most " limit[$1] " (tools/limits)"; worse[$1] = 1 } }
        END {
            for (name in limit) if (!(name in seen)) print name ": not measured by tools/floors.sh"
            for (i = 1; i <= places; i++) {
                name = place[i] ~ /^circle/ ? "circles" : place[i] ~ /^climbs/ ? "climbs" : "doubled_names"
                if (name in worse) print place[i]
            }
        }' tools/limits "$SCRATCH/form"
}

# Calls that the library never makes, and those that nobody needs
rule_calls()
{
    banned='exit|_exit|abort|strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atof|system|popen|alloca|signal|sigaction|setjmp|longjmp'
    banned="$banned|printf|puts|putchar|vprintf|perror|strtok|rand|srand|stdout|stderr"
    grep -E "(^|[^a-zA-Z0-9_.>])($banned)[ ]*(\\(|[,;)])" \
        "$SCRATCH/library_code" | grep -vE '^io/images/image_stb\.c:[0-9]+:.*(setjmp|longjmp)' | sed 's/$/   <- not in the library/' || :
    grep '^tools/' "$SCRATCH/all_c" | xargs grep -nE '(^|[^a-zA-Z0-9_])(strcpy|strcat|sprintf|vsprintf|gets|atoi|alloca|system|popen)[ ]*\(' || :
}

# In one translation unit every static name, tag and macro of a .c file is alone.
rule_unique_names()
{
    sed -nE 's/^([^:]*):([0-9]+):static [^(]*[ *]([a-z_A-Z0-9]+)\(.*$/\3 \1:\2/p
             s/^([^:]*):([0-9]+):static [^(]*[ *]([a-z_A-Z0-9]+)(\[.*)? = .*$/\3 \1:\2/p' "$SCRATCH/library_code" "$SCRATCH/header_code" |
        sort -u | twice "static name"
    sed -nE 's/^([^:]*):([0-9]+):(struct|enum|union) ([a-zA-Z0-9_]+) \{.*$/\4 \1:\2/p' "$SCRATCH/library_code" "$SCRATCH/header_code" |
        sort -u | twice "tag"
}

# Reads lines 'name file:line', sorted. Prints names that more than one file defines. A name may
# come twice in one file, under #if.
twice()
{
    awk -v kind="$1" '
        { split($2, place, ":") }
        $1 == name && place[1] != file { print $2 ": " kind " " name " is also at " first }
        $1 != name { name = $1; file = place[1]; first = $2 }'
}

# ---- symbols -------------------------------------------------------------------------------------

rule_symbols()
{
    nm -g "$library" 2>/dev/null | awk '
        /^[^ ]*:$/ { object = $1 }
        NF == 3 && $3 !~ /^(gyre_|gy_)/ && $3 !~ /^__(asan|tsan|odr|ubsan)/ { print object " exports " $3 }'
    readelf -Ws "$library" | awk '
        /^File:/ { object = $2 }
        $5 == "GLOBAL" && $6 == "DEFAULT" && $7 != "UND" && $8 !~ /^gyre_/ { print object ": " $8 " is visible outside" }'
}

rule_undefined()
{
    nm -u "$library" 2>/dev/null | awk '
        BEGIN {
            split("exit _exit abort __assert_fail strcpy strcat sprintf vsprintf __sprintf_chk gets atoi system popen signal " \
                  "sigaction printf puts putchar vprintf perror stdout stderr setenv putenv rand srand strtok", words, " ")
            for (i in words) bad[words[i]] = 1
        }
        /:$/ { object = $1 }
        $1 == "U" && ($2 in bad) { print object " calls " $2 }'
}

# Every function of the public headers exists.
rule_public()
{
    nm -g "$library" 2>/dev/null | awk 'NF == 3 { print $3 }' | sort -u >"$SCRATCH/defined"
    cat engine/gyre*.h | grep -E '^GYRE_API' | sed -E 's/^([^(]*)\(.*/\1/; s/.*[ *]//' | sort -u >"$SCRATCH/declared"
    comm -23 "$SCRATCH/declared" "$SCRATCH/defined" | sed 's/^/a public header: declared, not defined: /'
    [ -s "$SCRATCH/declared" ] || echo "engine/gyre.h: no public function found"
}

rule_header_c()   { "$CC" -std=c99 -pedantic -Wall -Wextra -Werror -I. -fsyntax-only tests/hdr.c 2>&1 || :; }
rule_header_cxx() { "$1" -std=c++98 -pedantic -Wall -Wextra -Wno-long-long -Werror -I. -fsyntax-only tests/hdr.cc 2>&1 || :; }

# No file that a tool makes lies in the tree.
rule_generated() { xargs grep -lE '^ \* Made by tools/' <"$SCRATCH/all" | grep -v '^tools/amalgamate' | sed 's/$/: made by a tool, should not lie here/' || :; }

# A kernel is C99 and CUDA C at the same time: what is neither stands in the two preludes alone.
rule_ptx()
{
    files '*.cu*' kernels/cuda | grep -vE '/(prelude|hopper)\.cuh$' |
        xargs -r grep -nE '(^|[^a-zA-Z0-9_])(asm|template|static_cast|reinterpret_cast)([^a-zA-Z0-9_]|$)|#[ ]*include[ ]*<' |
        sed 's/$/   <- only in the preludes/' || :
}

# Every row of docs/changing.md must be true: the file has the text. Every table must be complete:
# it has each file with the text of a sibling. A row: | `file` | what to add | `text` |; the
# siblings: a line above the table, Sibling: `text`, `text`.
rule_changing()
{
    page=docs/changing.md
    [ -f "$page" ] || { echo "$page: is not there"; return 0; }
    awk -v page="$page" '
        function table_ends() { if (rows && !siblings) print "bad", page ":" FNR ": table \"" table "\" names no sibling" }
        BEGIN { OFS = "\t" }
        /^#/ { table_ends(); table = $0; sub(/^#+ */, "", table); rows = siblings = 0 }
        /^Sibling: / {
            n = split($0, part, "`")
            for (i = 2; i < n; i += 2) { print "sibling", FNR, table, part[i]; siblings++ }
        }
        /^\|/ && !/^\| file \|/ && !/^\|[-|]+$/ {
            rows++
            if (/^\| `[^`|]+` \| [^|]+ \| `[^`|]+` \|$/) { n = split($0, part, "`"); print "row", FNR, table, part[2], part[n - 1] }
            else print "bad", page ":" FNR ": not a row of file, what to add, text"
        }
        END { table_ends(); if (!table) print "bad", page ": no table" }' "$page" >"$SCRATCH/changing"
    awk -F '\t' '$1 == "row" { print $3 "\t" $4 }' "$SCRATCH/changing" >"$SCRATCH/changing_rows"
    tab=$(printf '\t')
    while IFS=$tab read -r kind line table text more; do
        case $kind in
        bad) echo "$line" ;;
        row)
            if [ ! -f "$text" ]; then echo "$page:$line: there is no $text"
            elif ! grep -qF -e "$more" "$text"; then echo "$page:$line: $text has no '$more'"
            fi ;;
        sibling)
            # shellcheck disable=SC2086
            grep -rlF -e "$text" $LIBRARY_FOLDERS tools | sort >"$SCRATCH/has"
            [ -s "$SCRATCH/has" ] || echo "$page:$line: no file has the sibling '$text'"
            awk -F '\t' -v table="$table" '$1 == table { print $2 }' "$SCRATCH/changing_rows" | sort -u |
                comm -13 - "$SCRATCH/has" | sed "s|^|$page:$line: no row of this table for |" ;;
        esac
    done <"$SCRATCH/changing"
}

# ---- full ----------------------------------------------------------------------------------------

# What compilers of GPU kernels read too includes nothing, so it cannot stand alone.
rule_headers_alone()
{
    grep -vxE 'kernels/op_device\.h|kernels/cuda/args\.h' "$SCRATCH/library_h" | while read -r header; do
        "$CC" -std=c99 -I. -D_POSIX_C_SOURCE=200809L -Wall -Wextra -Wundef -Wno-unused-function -Werror -fsyntax-only -x c "$header" 2>&1 |
            grep -vE 'pragma once in main|-Wpragma-once' | grep -E 'error' || :
    done
}

rule_without_image()
{
    "$CC" -std=c99 -I. -D_POSIX_C_SOURCE=200809L -DGY_NO_IMAGE -Wall -Wextra -Wundef -Werror -c io/images/image_stb.c -o "$SCRATCH/no_image.o" 2>&1 || :
}

# Finds whole numbers that change their sign or lose digits silently. Tables of floats are computed
# in double on purpose.
rule_conversions()
{
    { cat "$SCRATCH/library_c"; printf '%s\n' tools/gyre.c tools/cli.c; files 'cmd_*.c' tools; files '*.c' tools/lab; } |
        xargs "$CC" -std=c99 -I. -D_POSIX_C_SOURCE=200809L -O1 -fsyntax-only \
        -DGY_SOURCE_ID='"x"' -Wconversion -Wsign-conversion -Wno-float-conversion 2>&1 |
        grep -E '(warning|error):' | grep -v 'implicit-float-conversion' || :
}

run()
{
    name=$1
    shift
    case $extent in quick|full|"$name") ;; *) return 0 ;; esac
    "$@" >"$findings" 2>&1 || echo "$name: the rule itself failed" >>"$findings"
    rule "$name" "$findings"
}

run "licence line" rule_licence
run "first comment" rule_first_comment
run "text" rule_text
run "file size" rule_file_size
run "function size" rule_function_size
run "include directions" rule_directions
run "form of the tree" rule_form
run "forbidden calls" rule_calls
run "unique names" rule_unique_names
run "symbols" rule_symbols
run "calls of the library" rule_undefined
run "public functions" rule_public
run "public header as C99" rule_header_c
if command -v g++ >/dev/null 2>&1; then
    run "public header as C++ (g++)" rule_header_cxx g++
elif command -v clang++ >/dev/null 2>&1; then
    run "public header as C++ (clang++)" rule_header_cxx clang++
else
    skip "public header as C++: no C++ compiler"
fi
run "generated files" rule_generated
run "inline PTX" rule_ptx
run "docs/changing.md" rule_changing
run "conversions" rule_conversions
if [ "$extent" = full ]; then
    run "every header alone" rule_headers_alone
    run "library without images" rule_without_image
fi
list_long_functions
printf 'check.sh: %d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
printf '\n'
[ "$failed" = 0 ]
