#!/bin/sh
# SPDX-License-Identifier: MIT
# floors_svg.sh: the levels of the tree as a picture, from the table below. Its output is
# docs/floors.svg. A box: 'row rows column columns colour name | what is in it'. An arrow goes from
# a folder to one that it may include.
set -eu
export LC_ALL=C
table()
{
    cat <<'END'
0 1 0 3 eeeeee tools | the command, a file a subcommand
1 1 0 3 eeeeee tools/lab | what measures, prints and generates
2 4 0 1 fff2cc engine/glm | linear models, their proof
2 1 1 1 dae8fc engine/train | the loop, data, evaluation
3 1 1 1 dae8fc engine/run | open, step, save, load
4 1 1 1 dae8fc engine/plan | fusion, memory, programs of ops
5 1 1 1 dae8fc engine/text | net text, layers, graph, zoo
2 2 2 1 e2efda engine/job | peers.h: what ranks ask of each other
4 1 2 1 e2efda net/comm, net/server | ranks meet, who is lost; servers
5 1 2 1 e2efda net/schedule | allreduce as data, its proof
6 1 2 1 e2efda net/transport | shared memory, TCP, UCX
6 1 0 2 dae8fc kernels, io | ops on CPU and CUDA; images, rows, files (neither includes the other)
7 1 0 3 d9d9d9 engine/base | status, memory, threads, random numbers, hashes
tools > tools/lab
tools/lab > engine/glm
tools/lab > engine/train
tools/lab > engine/job
engine/train > engine/run
engine/run > engine/plan
engine/run > engine/job
engine/plan > engine/text
engine/text > kernels, io
engine/glm > kernels, io
engine/glm > engine/job
engine/job > net/comm, net/server
net/comm, net/server > net/schedule
net/schedule > net/transport
net/transport > engine/base
kernels, io > engine/base
END
}
table | awk '
BEGIN { WIDE = 268; GAP = 24; HIGH = 42; ROOM = 20; EDGE = 12 }
function most(a, b) { return a > b ? a : b }
function least(a, b) { return a < b ? a : b }
function put(text) { gsub(/@/, "\"", text); print text }
/ \| / {
    name = $0; sub(/ \| .*/, "", name); sub(/^([0-9]+ )*[0-9a-f]+ /, "", name)
    about[name] = $0; sub(/.* \| /, "", about[name])
    order[++count] = name; fill[name] = $5
    top[name] = EDGE + $1 * (HIGH + ROOM); low[name] = top[name] + $2 * (HIGH + ROOM) - ROOM
    left[name] = EDGE + $3 * (WIDE + GAP); right[name] = left[name] + $4 * (WIDE + GAP) - GAP
    width = most(width, right[name] + EDGE); height = most(height, low[name] + EDGE)
}
/ > / { # straight down where the boxes stand above each other, else across
    split($0, end, " > "); from = end[1]; to = end[2]
    if (!(from in top && to in top)) { print "floors_svg.sh: no box for " $0 >"/dev/stderr"; exit failed = 1 }
    a = most(left[from], left[to]); b = least(right[from], right[to])
    c = most(top[from], top[to]); d = least(low[from], low[to])
    if (a < b) path[++paths] = sprintf("M%d %dV%d", (a + b) / 2, low[from], top[to] - 5)
    else path[++paths] = sprintf("M%d %dH%d", right[from], (c + d) / 2, left[to] - 5)
}
END {
    if (failed) exit 1
    put("<svg xmlns=@http://www.w3.org/2000/svg@ viewBox=@0 0 " width " " height "@")
    put(" font-family=@sans-serif@ font-size=@13@>\n<defs>")
    put("<marker id=@m@ viewBox=@0 0 6 6@ refX=@1@ refY=@3@ orient=@auto@><path d=@M0 0L6 3L0 6@/></marker></defs>")
    put("<rect width=@" width "@ height=@" height "@ fill=@#fff@/>\n<g stroke=@#000@ marker-end=@url(#m)@>")
    for (i = 1; i <= paths; i++) put("<path d=@" path[i] "@/>")
    put("</g>")
    for (i = 1; i <= count; i++) {
        n = order[i]; x = left[n] + 10; y = (top[n] + low[n]) / 2
        put(sprintf("<rect x=@%d@ y=@%d@ width=@%d@ height=@%d@ rx=@4@ fill=@#%s@ stroke=@#555@/>",
            left[n], top[n], right[n] - left[n], low[n] - top[n], fill[n]))
        put(sprintf("<text x=@%d@ y=@%d@ font-weight=@bold@>%s</text>", x, y - 4, n))
        put(sprintf("<text x=@%d@ y=@%d@>%s</text>", x, y + 12, about[n]))
    }
    put("</svg>")
}'
