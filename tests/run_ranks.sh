#!/bin/sh
# SPDX-License-Identifier: MIT
# ResNet-20 on the real CIFAR-10 images by one, two and four processes with --shards 4. Their final
# checkpoints are the same file, and so is that of a run which other numbers of processes began.
# Then it prints what two processes of one thread gain over one. run_ranks.sh GYRE. Variables:
# GYRE_TEST_DATA (folder with images/cifar10-jpeg.tar.gz, or with cifar10/ unpacked), STEPS.
. "$(dirname "$0")/e2e.inc"
GYRE=$1
STEPS=${STEPS:-40}
archive=${GYRE_TEST_DATA:-/nowhere}/images/cifar10-jpeg.tar.gz
if [ ! -f "$archive" ]; then
    skip 'GYRE_TEST_DATA has no images/cifar10-jpeg.tar.gz'
    finish
fi
mkdir "$TMP/cifar"
tar xzf "$archive" -C "$TMP/cifar" train

# ranks_run RANKS FOLDER OPTIONS...
ranks_run()
{
    ranks=$1 folder=$2
    shift 2
    "$GYRE" launch --ranks "$ranks" --threads 1 -- "$GYRE" train resnet20 "$TMP/cifar/train" --test-data none --steps "$STEPS" \
        --batch 32 --pad-crop 4 --flip --out "$TMP/$folder" "$@"
}
last=checkpoint-$STEPS.safetensors
for ranks in 1 2 4; do
    expect 0 ranks_run $ranks shards$ranks --shards 4 --checkpoint-every $((STEPS / 2))
    there "$TMP/shards$ranks/$last"
    sha256sum "$TMP/shards$ranks/$last" | cut -c1-64
done
same "$TMP/shards1/$last" "$TMP/shards2/$last"
same "$TMP/shards1/$last" "$TMP/shards4/$last"
mkdir "$TMP/moved"
cp "$TMP/shards1/checkpoint-$((STEPS / 2)).safetensors" "$TMP/moved"
expect 0 ranks_run 4 moved --shards 4 --resume --threads 2 --bucket 0.1
same "$TMP/shards1/$last" "$TMP/moved/$last"

# buckets of any size, sums while backward runs: the same bits
expect 0 ranks_run 2 whole --bucket 100
expect 0 ranks_run 2 parts --bucket 0.05
same "$TMP/whole/$last" "$TMP/parts/$last"
finish
