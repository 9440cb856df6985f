#!/bin/sh
# SPDX-License-Identifier: MIT
# Certified optima of real data sets. Each is reached to 1e-6 relative by the solver that Gyre
# chooses, by one, two and four threads and by ranks and threads together. Its gap is never below
# zero, and the file's claims are verified. Then the models are tested on rows that they have not
# seen. The optima were found in double with duality gaps of 1e-10 and better (hinge: 1e-6), by
# programs that share nothing with Gyre. run_glm_optima.sh GYRE. Variables: GYRE_TEST_DATA,
# SECONDS_MOST (of one training, default 120).
. "$(dirname "$0")/e2e.inc"
GYRE=$1
data=${GYRE_TEST_DATA:-}/glm
SECONDS_MOST=${SECONDS_MOST:-120}
if [ -z "${GYRE_TEST_DATA:-}" ] || [ ! -d "$data" ]; then
    skip "GYRE_TEST_DATA has no folder glm"
    passed=1
    finish
fi
field() { sed -n "s/.*\"event\":\"end\".*\"$2\":\\([^,}]*\\).*/\\1/p" "$1"; }
# near WHAT GOT WANTED PART
near()
{
    if awk -v a="$2" -v b="$3" -v p="$4" 'BEGIN { d = a - b; exit !(a != "" && d <= p * b && -d <= p * b) }'; then ok; else bad "$1: $2, wanted $3"; fi
}

"$GYRE" glm convert "$data/imdb.train.svm.gz" "$TMP/imdb" >/dev/null
"$GYRE" glm convert "$data/imdb.test.svm.gz" "$TMP/imdb.t" >/dev/null
"$GYRE" glm convert "$data/frappe.validation.libfm" "$TMP/frappe" --zero-based >/dev/null
"$GYRE" glm convert "$data/frappe.test.libfm" "$TMP/frappe.t" --zero-based >/dev/null
for file in heart_scale german_scale a9a a9a.t cocoa_small.train cocoa_small.test; do
    "$GYRE" glm convert "$data/$file" "$TMP/${file%.train}" >/dev/null
done

while read -r set optimum part options; do
    [ -n "$set" ] || continue
    for shape in "1 1" "1 2" "1 4" "4 1" "2 2"; do
        ranks=${shape% *} threads=${shape#* } got=0 start=
        [ "$ranks" = 1 ] || start="$GYRE launch -n $ranks --"
        # shellcheck disable=SC2086
        timeout "$SECONDS_MOST" $start "$GYRE" glm train "$TMP/$set" "$TMP/model" $options --gap 3e-7 -m "$threads" --json >"$out" 2>"$err" </dev/null || got=$?
        objective=$(field "$out" objective)
        near "$set $options, $ranks ranks of $threads threads (code $got)" "$objective" "$optimum" "$part"
        if awk -v g="$(field "$out" gap)" 'BEGIN { exit !(g != "" && g >= -1e-9) }'; then ok; else bad "$set $options: gap $(field "$out" gap)"; fi
        [ "$shape" != "1 2" ] || expect 0 timeout "$SECONDS_MOST" "$GYRE" glm verify "$TMP/model" "$TMP/$set"
    done
    printf '%-12s %-42s %s, wanted %s, %s\n' "$set" "$options" "$objective" "$optimum" "$(field "$out" solver)"
done <<'END'
heart_scale 95.1187705901 1e-6 --l2 0.01
heart_scale 98.2267995081 1e-6 --l2 1
heart_scale 150.622516289 1e-6 --l2 100
a9a 10505.5069046 1e-6 --l2 0.01
a9a 10529.5625846 1e-6 --l2 1
a9a 10648.4027152 1e-6 --l2 10
a9a 11282.5069166 1e-6 --l2 100
german_scale 470.933753736 1e-6 --l2 1
cocoa_small 625.844012789 1e-6 --l2 1
cocoa_small 786.339473403 1e-6 --l2 2
frappe 17089.8931705 1e-6 --l2 1
frappe 23640.2141961 1e-6 --l2 10
frappe 30981.3625844 1e-6 --l2 10 --normalize
imdb 2016.19142084 1e-6 --l2 1
imdb 4820.67548498 1e-6 --l2 10
imdb 8310.92946555 1e-6 --l2 100
imdb 8600.3286661 1e-6 --l2 1 --normalize
heart_scale 96.4982780806 1e-6 --loss hinge --l2 1
german_scale 520.202439 1e-6 --loss hinge --l2 1
a9a 11433.8076961 1e-6 --loss hinge --l2 1
cocoa_small 393.256397932 1e-6 --loss hinge --l2 2
heart_scale 62.8414170995 1e-6 --loss squared --l2 1
a9a 7301.49583245 1e-6 --loss squared --l2 1
cocoa_small 156.458475836 1e-6 --loss squared --l2 1
heart_scale 80.1033248244 1e-6 --loss squared --l1 10
a9a 7380.46233505 1e-6 --loss squared --l1 10
cocoa_small 326.242030371 1e-6 --loss squared --l1 1
heart_scale 102.667827527 1e-6 --l1 1
german_scale 476.72561339 1e-6 --l1 1
cocoa_small 635.48612846 1e-6 --l1 1
a9a 10826.1667063 1e-6 --l1 10
a9a 10558.7234 1e-6 --l1 1
frappe 24213.1683617 1e-6 --l1 10
imdb 8440.97888095 1e-6 --l1 10
END

while read -r set l2 loss accuracy auc; do
    test=$TMP/$set.t
    [ "$set" != cocoa_small ] || test=$TMP/$set.test
    expect 0 "$GYRE" glm train "$TMP/$set" "$TMP/model" --l2 "$l2" --gap 1e-9 --epochs 300 --test "$test" --json
    near "$set $l2 log-loss" "$(field "$out" log_loss)" "$loss" 2e-6
    near "$set $l2 accuracy" "$(field "$out" accuracy)" "$accuracy" 2e-6
    near "$set $l2 AUC" "$(field "$out" auc)" "$auc" 2e-6
done <<'END'
a9a 1 0.32405864 0.849886 0.90222074
a9a 10 0.32370852 0.850439 0.90250712
frappe 1 0.29759369 0.885031 0.93097009
frappe 10 0.36485988 0.853881 0.92145485
imdb 1 0.36297899 0.872800 0.94154790
imdb 10 0.28751168 0.883200 0.94996702
imdb 100 0.31699069 0.878960 0.94775182
cocoa_small 2 0.28222279 0.975000 0.99340556
END
finish
