#!/bin/sh
# SPDX-License-Identifier: MIT
# bare_debian.sh [TARGET [FOLDER]]: the proof on a fresh machine. debootstrap puts the smallest
# Debian 12 into FOLDER (default: a new one, removed at the end), and this tree goes in as git has
# it. ./build.sh TARGET (default: test) runs inside, where it must install what it needs. Root only.
# The system inside reaches packages as this one does. Its sources, keys, name servers, certificates
# and proxy variables are copied at run time.
set -u
target=${1:-test}
root=${2:-}
SUITE=bookworm
here=$(cd "$(dirname "$0")/.." && pwd)
keep=1

skip() { echo "skipped: $*"; echo "bare_debian: 0 passed, 0 failed, 1 skipped"; exit 0; }
[ "$(id -u)" = 0 ] || skip "needs root"
command -v debootstrap >/dev/null 2>&1 || skip "needs debootstrap"
if [ -z "$root" ]; then
    root=$(mktemp -d)
    keep=0
fi
undo()
{
    ! mountpoint -q "$root/proc" || umount "$root/proc"
    [ "$keep" = 1 ] || rm -rf --one-file-system "$root"
}
trap undo EXIT

# the mirror that this machine uses for the same release
mirror()
{
    { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | sed -n "s/^deb \(\[[^]]*\] \)*\(http[^ ]*\) $SUITE .*/\2/p"
      awk -v suite=$SUITE 'tolower($1) == "uris:" { uri = $2 }
           tolower($1) == "suites:" { for (i = 2; i <= NF; i++) if ($i == suite) print uri }' /etc/apt/sources.list.d/*.sources 2>/dev/null
    } | sed 1q
}

if [ ! -x "$root/usr/bin/apt-get" ]; then
    echo "debootstrap $SUITE into $root"
    mkdir -p "$root"
    # shellcheck disable=SC2046
    debootstrap --variant=minbase $SUITE "$root" $(mirror) >"$root/debootstrap.out" 2>&1 || {
        tail -n 20 "$root/debootstrap.out"
        echo "bare_debian: 0 passed, 1 failed"
        exit 1
    }
fi

# how this machine reaches packages and the network; no credentials
copy() { [ ! -e "$1" ] || { mkdir -p "$root$(dirname "$1")" && cp -rL "$1" "$root$(dirname "$1")/"; }; }
for path in /etc/resolv.conf /etc/hosts /etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates \
    /usr/share/keyrings /etc/apt/keyrings /etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/trusted.gpg.d; do
    copy $path
done
mkdir -p "$root/etc/apt/apt.conf.d"
for file in /etc/apt/apt.conf.d/*; do
    case $(basename "$file") in
    # hooks for programs that are not inside
    *packagekit|*appstream|*postgresql|docker-*|*debconf) ;;
    *) copy "$file" ;;
    esac
done
mountpoint -q "$root/proc" || mount -t proc proc "$root/proc"

rm -rf "$root/root/gyre"
mkdir -p "$root/root/gyre"
git -C "$here" archive HEAD | tar xf - -C "$root/root/gyre"

# inside COMMAND: with this machine's proxy variables and nothing else of its environment
inside()
{
    # shellcheck disable=SC2046
    chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C \
        $(env | grep -iE '^(http|https|no|all|ftp)_proxy=') sh -c "$1"
}
inside 'apt-get update -qq' || echo "apt-get update failed"
inside "cd /root/gyre && ./build.sh $target" >"$root/root/gyre.log" 2>&1
status=$?
tail -n 60 "$root/root/gyre.log"
if [ $status = 0 ]; then
    echo "bare_debian: 1 passed, 0 failed"
else
    echo "bare_debian: 0 passed, 1 failed"
fi
exit $status
