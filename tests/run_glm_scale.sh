#!/bin/sh
# SPDX-License-Identifier: MIT
# Linear models beyond one process. Rows that need five times the memory of a process train to the
# same optimum as in memory. An epoch takes hardly longer than the longer one of reading and
# training. Two and four ranks, in shared memory, over loopback and on hosts in namespaces, reach
# the optimum of one. Sums, passes and seconds until the gap is 1e-3 are printed. run_glm_scale.sh
# GYRE [stream|ranks]. Variables: ROWS (of the set that does not fit, default 2500000), SMALL (of
# the set for ranks, default 300000), KEEP (a folder for the traces), GYRE_TEST_DATA.
. "$(dirname "$0")/e2e.inc"
GYRE=$1
ROWS=${ROWS:-2500000}
SMALL=${SMALL:-300000}
field() { sed -n "s/.*\"event\":\"end\".*\"$2\":\\([^,}]*\\).*/\\1/p" "$1"; }
# near A B PART: two objectives differ by so much of the first at most
near() { if awk -v a="$1" -v b="$2" -v p="$3" 'BEGIN { d = a - b; exit !(a > 0 && d <= p * a && -d <= p * a) }'; then ok; else bad "objectives $1 and $2"; fi; }

# ---- larger than memory
limited() # limited OPTIONS...: in an address space of $may KiB
{
    sh -c "ulimit -v $may && exec \"\$@\"" limited "$GYRE" glm train "$TMP/large.blocks" "$TMP/large.model" --solver sdca --l2 100 --gap 3e-4 -m 1 --json \
        --memory $((may / 1024 / 3)) "$@"
}
# whether a pass takes at most 1.1 times the longer of reading and training, by the trace
overlaps()
{
    sed -n 's/.*"cat":"\([a-z]*\)","ph":"X","ts":\([0-9.]*\),"dur":\([0-9.]*\),.*"pass":\([0-9]*\),.*/\1 \2 \3 \4/p' "$TMP/trace.json" | awk '
        $4 > last { last = $4 }
        { sum[$1, $4] += $3 }
        $1 == "train" && (!($4 in from) || $2 < from[$4]) { from[$4] = $2 }
        $1 == "train" && $2 + $3 > to[$4] { to[$4] = $2 + $3 }
        END {
            for (p = 1; p < last; p++) {
                n++
                read += sum["read", p]
                train += sum["train", p]
                span += to[p] - from[p]
                most += sum["read", p] > sum["train", p] ? sum["read", p] : sum["train", p]
            }
            if (n)
                printf("%d passes: reading %.3f s, training %.3f s, both %.3f s a pass: %.3f times the longer one\n", n, read / n / 1e6, train / n / 1e6,
                    span / n / 1e6, span / most)
            exit !(n > 2 && span <= 1.1 * most)
        }'
}
larger()
{
    expect 0 "$GYRE" glm generate "$TMP/large.blocks" --rows "$ROWS" --features 20000
    train() { "$GYRE" glm train "$TMP/large.blocks" "$TMP/large.model" --solver sdca --l2 100 --gap 3e-4 -m 1 --json; }
    unpacked=$((ROWS * 40 * 4 / 1024)) # KiB: 39 ids and a label
    may=$((unpacked / 5))
    expect 0 train
    whole=$(field "$out" objective)
    says "$out" '"streamed":false'
    # the limit is of the address space: what does not fit cannot even be mapped
    expect 0 limited --trace "$TMP/trace.json"
    says "$out" '"streamed":true'
    part=$(field "$out" objective)
    near "$whole" "$part" 6e-4
    printf 'rows of %d KiB unpacked: objective %s in memory; %s in an address space of %d KiB, %s epochs in %s s\n' $unpacked "$whole" "$part" $may \
        "$(field "$out" epochs)" "$(field "$out" train_seconds)"
    if limited --memory 100000 >/dev/null 2>&1; then bad 'all rows fit into the limit: it shows nothing'; else ok; fi

    # ---- the trace: seconds of whole passes, without the first. Reading and training need a
    # processor each; if other programs use them, it is tried again.
    tries=0
    until overlaps || [ $tries -ge 3 ]; do
        tries=$((tries + 1))
        limited --epochs 12 --gap 0 --trace "$TMP/trace.json" >/dev/null 2>&1
    done
    if [ $tries -lt 3 ]; then ok; else bad 'a pass takes more than 1.1 times the longer one of reading and training'; fi
    expect 0 limited --epochs 3 --gap 0 --trace "$TMP/trace.svg"
    says "$TMP/trace.svg" 'windows a pass, 3 rooms'
    [ -z "${KEEP:-}" ] || cp "$TMP/trace.svg" "$TMP/trace.json" "$KEEP"
}
[ "${2:-stream}" != stream ] || larger
[ "${2:-ranks}" = ranks ] || finish

# ---- ranks
expect 0 "$GYRE" glm generate "$TMP/small.blocks" --rows "$SMALL" --features 20000
# ranks_train WHERE RANKS SET L2 COMMAND...: what starts the ranks
ranks_train()
{
    where=$1 count=$2 set=$3 l2=$4
    shift 4
    expect 0 "$@" "$GYRE" glm train "$TMP/$set.blocks" "$TMP/$set.model" --solver sdca --l2 "$l2" --gap 1e-3 -m 1 --json
    printf '%-22s %-7s %d ranks: %3s passes, %3s sums, %8.3f s, objective %s\n' "$where" "$set" "$count" "$(field "$out" epochs)" "$(field "$out" rounds)" \
        "$(field "$out" train_seconds)" "$(field "$out" objective)"
}
sets='small:100'
if [ -f "${GYRE_TEST_DATA:-/nowhere}/glm/a9a" ]; then
    expect 0 "$GYRE" glm convert "$GYRE_TEST_DATA/glm/a9a" "$TMP/a9a.blocks"
    expect 0 "$GYRE" glm convert "$GYRE_TEST_DATA/glm/frappe.validation.libfm" "$TMP/frappe.blocks" --zero-based
    sets="$sets a9a:100 frappe:10"
else
    skip 'GYRE_TEST_DATA has no glm/a9a'
fi
if . "$(dirname "$0")/hosts.inc" && hosts_up 4; then
    hosts=yes
    for i in 0 1 2 3; do
        echo "$tag$i slots=1 address=10.77.0.$((i + 1))" >>"$TMP/four.txt"
    done
    head -n 2 "$TMP/four.txt" >"$TMP/two.txt"
else
    hosts=no
    skip "$why"
fi
for pair in $sets; do
    set=${pair%:*} l2=${pair#*:}
    ranks_train 'alone' 1 "$set" "$l2"
    alone=$(field "$out" objective)
    for count in 2 4; do
        ranks_train 'shared memory' $count "$set" "$l2" "$GYRE" launch -n $count --threads 1 --
        near "$alone" "$(field "$out" objective)" 2e-3
        ranks_train 'loopback' $count "$set" "$l2" env GYRE_ALLREDUCE=flat/ring "$GYRE" launch -n $count --threads 1 --
        near "$alone" "$(field "$out" objective)" 2e-3
        [ $hosts = yes ] || continue
        ranks_train "hosts, links $RATE" $count "$set" "$l2" "$GYRE" launch --hosts "$TMP/$([ $count = 2 ] && echo two || echo four).txt" --threads 1 \
            --ssh "sh $TMP/enter" --
        near "$alone" "$(field "$out" objective)" 2e-3
    done
done
finish
