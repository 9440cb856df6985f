#!/bin/sh
# SPDX-License-Identifier: MIT
# gpu_pack.sh FILE FOLDER WORK IMAGES ARCH: an archive of what gpu.sh would else make or lack on a
# machine without a network. It has kernels of the op test and of the nets of gpu_nets.txt, compiled
# for ARCH, which its file arch names. It has the images of IMAGES, unpacked. FOLDER holds gyre and
# tests/; WORK is written anew.
set -eu
file=$1 folder=$2 work=$3 images=$4 arch=$5
rm -rf "$work"
mkdir -p "$work/images"
for image in "$images"/*-ubyte*; do
    name=$(basename "$image" .gz)
    case $image in *.gz) gzip -dc "$image" >"$work/images/$name" ;; *) cp "$image" "$work/images/$name" ;; esac
done
GYRE_KERNEL_CACHE=$work/kernels
export GYRE_KERNEL_CACHE
"$folder/tests/t_ops_cuda" --arch "$arch" --each 32 | tail -n 1
while read -r net batch type; do
    "$folder/gyre" kernels "$net" --arch "$arch" --batch "$batch" --dtype "$type" | tail -n 1
done <tests/gpu_nets.txt
echo "sm_$arch" >"$work/arch"
tar cJf "$file.new" -C "$work" arch kernels images
mv "$file.new" "$file"
