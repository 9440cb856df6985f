#!/bin/sh
# SPDX-License-Identifier: MIT
# The only build of Gyre: one POSIX sh file, no make, no generator. Files are found by pattern; a
# new source takes part by lying in its folder. A flavour (compiler, sanitizer, target) has a folder
# under $BUILD. An object is compiled again when its source, a header it read, or its flavour's
# flags changed.
#
#   ./build.sh                library and command
#   ./build.sh static         the command that needs no library: for an empty container
#   ./build.sh emu            the CUDA emulator, for --device emu
#   ./build.sh demo           trains on the real Fashion-MNIST images and classifies one
#   ./build.sh test           the test suite with the default compiler; the last line has the counts
#   ./build.sh test NAME... [OPTION...]  only these: t_engine, fuzz_idx, e2e_train; with OPTIONs
#   ./build.sh check          test with gcc and clang, sanitizers, style checks, POWER, amalgamation
#   ./build.sh check PART...  of it: gcc clang asan tsan ppc style single static nvrtc emu net glm
#   ./build.sh check PART...  random options faults proof small twice; long: on bare Debian
#   ./build.sh check coverage what the suite runs, by folder; what it does not: $BUILD/coverage
#   ./build.sh check mutants [SEED] [COUNT]: changes that no test notices, for a person to judge
#   ./build.sh bench          speed of kernels and of a training step
#   ./build.sh gpu OUT        on a GPU: op test, nets, training, benchmarks; OUT/report.txt, all.tgz
#   ./build.sh gpu OUT PART... some of it: probe head rows nets layers train why peer sanitizer
#   ./build.sh gpu-pack FILE [ARCH]  compiled kernels (sm_90) and images for it; GPU_PACK names it
#   ./build.sh ppc            cross build for POWER, tests under qemu
#   ./build.sh shared         libgyre-net.so: sums over processes, for other training programs
#   ./build.sh amalgamation [core|nets|glm|all...] profile amalgamation/NAME/gyre.[ch] (default all)
#   ./build.sh library core|nets|glm|all  the same as an archive, libgyre-NAME.a
#   ./build.sh fuzz [MINUTES] every fuzz target for so many minutes (default 1)
#   ./build.sh clean
#
# Variables: CC, BUILD (default build), JOBS, CFLAGS (added last), KERNEL_CFLAGS (kernels/cpu).
# GYRE_NO_INSTALL=1: never installs a package. TESTS: names of the suite's programs, default all.
# GYRE_TEST_ALL=1: `test` takes every case of the op test and of t_outlive, not a sample.
set -eu
unset CDPATH
export LC_ALL=C
cd "$(dirname "$0")"

BUILD=${BUILD:-build}
JOBS=${JOBS:-$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1)}
NO_INSTALL=${GYRE_NO_INSTALL:-0}
USER_CFLAGS=${CFLAGS:-}
case $USER_CFLAGS in *-O0*) USER_CFLAGS="$USER_CFLAGS -U_FORTIFY_SOURCE" ;; esac # it needs -O1
KERNEL_FLAGS="-fno-stack-protector -U_FORTIFY_SOURCE ${KERNEL_CFLAGS:-}"
WARNINGS="-Wall -Wextra -Wshadow -Wundef -Wvla -Wpointer-arith -Wcast-qual -Wstrict-prototypes -Wmissing-prototypes
-Wwrite-strings -Wformat=2 -Wdouble-promotion -Werror"
LANGUAGE="-std=c99 -I. -D_POSIX_C_SOURCE=200809L -g -fno-common -fvisibility=hidden -ffp-contract=off"
# The same bytes come out in any folder.
case $(pwd) in *[[:space:]]*) ;; *) LANGUAGE="$LANGUAGE -ffile-prefix-map=$(pwd)=." ;; esac
# An overrun ends the process; addresses are random. KERNEL_FLAGS switch the checks off.
HARDENED="-fPIE -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2"
HARDENED_LINK="-Wl,-z,relro,-z,now"
LIBS="-lm -lpthread -ldl"
MNIST=/usr/share/datasets/fashion-mnist
TESTS=${TESTS:-}

# ---- words to the user ---------------------------------------------------------------------------

found()   { printf '  \342\234\223 %-12s %s\n' "$1" "$2"; }
missing() { printf '  - %-12s %s\n' "$1" "$2"; }
say()     { printf '%s\n' "$*"; }
fail()    { printf 'build.sh: %s\n' "$*" >&2; exit 1; }
# counts NAME VALUE: a whole number above 0
counts()  { case $2 in ''|0*|*[!0-9]*) fail "$1 takes a whole number above 0, not '$2'" ;; esac; }
# known_tests NAME...: each is the name of a test
known_tests()
{
    for name in "$@"; do
        case $name/$(existing "tests/$name.c" "tests/$name.sh") in
        t_*/?*|fuzz_*/?*|e2e_*/?*) ;;
        *) fail "there is no test '$name'; tests/ has t_NAME.c, fuzz_NAME.c and e2e_NAME.sh" ;;
        esac
    done
}

# ---- packages ------------------------------------------------------------------------------------

have() { command -v "$1" >/dev/null 2>&1; }

can_install()
{
    [ "$NO_INSTALL" = 0 ] && [ -f /etc/debian_version ] && have apt-get && [ "$(id -u)" = 0 ]
}

# install WHY PACKAGE...: says so and installs (Debian, root), else names them. Fails without them.
install()
{
    why=$1
    shift
    if ! can_install; then
        say "  $why needs the Debian packages: $*"
        return 1
    fi
    say "  installing for $why: $*"
    if ! apt_install "$@"; then
        DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 || say "  apt-get update failed"
        apt_install "$@" || { say "  these packages could not be installed: $*"; return 1; }
    fi
}

apt_install()
{
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" >"$BUILD/install.log" 2>&1
}

# ---- what is here --------------------------------------------------------------------------------

# works CC [FLAGS]: the compiler makes a program that uses libc, libm and threads.
works()
{
    mkdir -p "$BUILD/probe"
    printf '#include <math.h>\n#include <pthread.h>\nint main(int c, char **v)\n{\n    (void)v;\n    return (int)floor(c / 2.0);\n}\n' \
        >"$BUILD/probe/probe.c"
    # shellcheck disable=SC2086
    "$@" -o "$BUILD/probe/probe" "$BUILD/probe/probe.c" $LIBS >"$BUILD/probe/log" 2>&1
}

has_header() { printf '#include <%s>\n' "$2" | "$1" -E -x c - >/dev/null 2>&1; }

find_compiler()
{
    if [ -z "${CC:-}" ]; then
        CC=
        for candidate in gcc clang cc; do
            if have $candidate && works $candidate; then
                CC=$candidate
                break
            fi
        done
        if [ -z "$CC" ]; then
            install "the compiler" gcc libc6-dev || fail "no C compiler"
            CC=gcc
        fi
    fi
    works "$CC" || { cat "$BUILD/probe/log" >&2; fail "$CC makes no program"; }
    have ar || install "the archiver ar" binutils || fail "no ar"
    found compiler "$("$CC" --version | sed -n 1p)"
}

# Sets IMAGE_FLAGS: stb_image's header, or none of it.
find_image()
{
    IMAGE_FLAGS=
    if ! has_header "$CC" stb/stb_image.h && ! has_header "$CC" stb_image.h && can_install; then
        install "JPEG, PNG and .gz files" libstb-dev || :
    fi
    if has_header "$CC" stb/stb_image.h || has_header "$CC" stb_image.h; then
        found stb_image "JPEG, PNG, BMP, PPM and .gz files are read"
    else
        missing stb_image "absent (Debian: libstb-dev): built without images and .gz files"
        IMAGE_FLAGS=-DGY_NO_IMAGE
    fi
}

find_optional()
{
    if has_header "$CC" ucp/api/ucp.h; then
        found UCX "present: ranks on hosts with RDMA devices talk through it; opened at run time"
    else
        missing UCX "absent (Debian: libucx-dev): not needed to build; ranks on hosts with RDMA devices talk through it, else over TCP"
    fi
    found CUDA "not needed to build"
    found jobs "$JOBS"
}

inspect()
{
    mkdir -p "$BUILD"
    say "Gyre: what is here"
    find_compiler
    find_image
    find_optional
}

# ---- sources -------------------------------------------------------------------------------------

# existing PATTERN...: those that match files, one a line, in a fixed order
existing()
{
    for path in "$@"; do
        [ ! -f "$path" ] || printf '%s\n' "$path"
    done
}

# from the ground up
LIBRARY_FOLDERS="engine/base kernels kernels/cpu/ref kernels/cpu/isa kernels/cpu kernels/cuda io io/images io/rows net/transport net/schedule
net/comm net/server engine/text engine/plan engine/run engine/job engine/train engine/glm/solve engine/glm"
in_folders() { for folder in $LIBRARY_FOLDERS; do existing "$folder"/*."$1"; done; }
written_sources() { in_folders c; }
# with what tools/embed.sh makes of the CUDA kernels
library_sources() { written_sources; existing "$BUILD"/generated/*.c; }
# profile_sources core|nets|glm|all: the files of a profile, for programs that need no more
profile_sources()
{
    ground="engine/base kernels kernels/cpu/ref kernels/cpu/isa kernels/cpu"
    files=engine/job/peers.c
    case $1 in
    core) folders="$ground engine/text engine/plan engine/run" files="$files io/json.c io/safetensors.c io/st_values.c io/st_write.c" ;;
    nets) folders="$ground io io/images engine/text engine/plan engine/run engine/train" ;;
    glm) folders="$ground io io/rows engine/glm/solve engine/glm" ;;
    all) # ranks last, under one switch
        library_sources | grep -vE '^(net/|engine/(job/|plan/(stage|split)|run/(agree|share|pipeline|split)))'
        echo engine/job/peers.c
        library_sources | grep -E '^net/'
        existing engine/job/*.c | grep -v '/peers\.c$'
        library_sources | grep -E '^engine/(plan/(stage|split)|run/(agree|share|pipeline|split))'
        return ;;
    *) fail "there is no profile '$1'; there are core, nets, glm and all" ;;
    esac
    printf '%s\n' $files
    for folder in $folders; do
        existing "$folder"/*.c
    done | grep -vE '^engine/(plan/(stage|split)|run/(agree|share|pipeline|split))' | case $1 in
    core) grep -vE -e '^kernels/(glm_loss|cpu/sparse|cpu/cpu_ceiling|cpu/block_tries)\.c$' \
        -e '^engine/(base/file_lock|plan/tuning_file|plan/op_work)\.c$' -e '^engine/run/(loss_scale|tuning|plan_print|trace_ranks)\.c$' ;;
    glm) grep -vE '^kernels/cpu/(cpu_ceiling|block_tries)\.c$' ;;
    *) grep -vE '^kernels/(glm_loss|cpu/sparse)\.c$' ;;
    esac
}
library_headers()
{
    existing engine/*.h
    in_folders h
    existing kernels/cuda/*.cu kernels/cuda/*.cuh
}
# with what tools/embed.sh makes of the recipes
command_sources() { existing tools/gyre.c tools/cli.c tools/train_options.c tools/cmd_*.c "$BUILD"/generated/tools/*.c; }
lab_sources()     { existing tools/lab/*.c; }
test_sources()    { existing tests/t_*.c; }
fuzz_sources()    { existing tests/fuzz_*.c; }
bench_sources()   { existing tests/bench_*.c; }
# what several test programs share
helper_sources()
{
    for path in tests/*.c; do
        case $path in
        tests/t_*|tests/fuzz_*|tests/bench_*|tests/replay.c|tests/hdr.c|'tests/*.c') ;;
        *) printf '%s\n' "$path" ;;
        esac
    done
}
example_sources() { existing tools/examples/*.c; }

# SHA-256 over the names and bytes of the library's sources
source_id()
{
    { written_sources; library_headers; } | sort | xargs sha256sum | sha256sum | cut -d' ' -f1
}

program_name() { basename "$1" .c; }

# ---- flavours ------------------------------------------------------------------------------------

# The default compiler where it has the sanitizer, else clang
sanitizer_compiler() { if works "$CC" "-fsanitize=$1"; then echo "$CC"; else echo clang; fi; }

# flavour NAME: sets DIR (its folder), FCC, FLAGS, LINK, RUNNER (what starts its programs).
flavour()
{
    FLAVOUR=$1 FCC=$CC LINK="-pie $HARDENED_LINK" RUNNER='' OPTIMIZE=-O2 MORE=$HARDENED
    case $1 in
    default) FLAVOUR=$(basename "$CC") ;;
    gcc|clang) FCC=$1 ;;
    static) LINK="-static-pie $HARDENED_LINK -Wl,--gc-sections"
        MORE="$MORE -DGY_NO_CUDA -DGY_NO_UCX -DGY_NO_NAMES -ffunction-sections -fdata-sections" ;;
    gpu) WARNINGS=${WARNINGS% -Werror} ;;
    nets) MORE="$MORE -DGY_NO_CUDA -DGY_NO_RANKS" ;;
    core|glm) MORE="$MORE -DGY_NO_CUDA -DGY_NO_RANKS -DGY_NO_TUNING" FLAVOUR=core ;;
    asan) FCC=$(sanitizer_compiler address,undefined) OPTIMIZE=-O1
        MORE="-fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all -fno-omit-frame-pointer" LINK=$MORE ;;
    tsan) FCC=$(sanitizer_compiler thread) OPTIMIZE=-O1 MORE="-fsanitize=thread -fno-omit-frame-pointer" LINK=$MORE
        # a kernel with much address randomisation confuses the sanitizer
        ! setarch -R true 2>/dev/null || RUNNER="setarch -R" ;;
    fuzz) FCC=clang OPTIMIZE=-O1
        MORE="-fsanitize=address,undefined,fuzzer-no-link -fno-sanitize-recover=all -fno-omit-frame-pointer -DFUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION"
        LINK="-fsanitize=address,undefined,fuzzer" ;;
    ppc) FCC=powerpc64le-linux-gnu-gcc RUNNER="qemu-ppc64le -L /usr/powerpc64le-linux-gnu" MORE="$MORE -isystem $BUILD/include" ;;
    coverage) FCC=gcc OPTIMIZE=-O1 MORE="--coverage -fprofile-update=atomic"
        LINK="--coverage -Wl,--wrap=_exit $BUILD/coverage_exit.o" ;;
    shared) MORE="$MORE -fPIC" LINK="-shared $HARDENED_LINK -Wl,-z,defs -Wl,-soname,libgyre-net.so" ;;
    *) fail "no flavour $1" ;;
    esac
    DIR=$BUILD/$FLAVOUR
    # shellcheck disable=SC2086,SC2116 # one line, single spaces
    FLAGS=$(echo $LANGUAGE $OPTIMIZE $WARNINGS $MORE $IMAGE_FLAGS $USER_CFLAGS)
    mkdir -p "$DIR"
    echo "$FCC $FLAGS | $KERNEL_FLAGS | $("$FCC" --version | sed -n 1p)" >"$DIR/flags.new"
    if ! cmp -s "$DIR/flags.new" "$DIR/flags"; then
        rm -rf "$DIR/obj"
        mv "$DIR/flags.new" "$DIR/flags"
    fi
    rm -f "$DIR/flags.new"
}

# stale SOURCE OBJECT: the object is absent or older than something it was made of
stale()
{
    [ -f "$2" ] && [ -f "${2%.o}.d" ] || return 0
    # the dependency file names every file that was read; one that is gone makes find fail
    # shellcheck disable=SC2046
    newer=$(find $(sed -e 's/^[^:]*://' -e 's/\\$//' "${2%.o}.d") -prune -newer "$2" 2>&1) || return 0
    [ -n "$newer" ]
}

# compile SOURCE...: into $DIR/obj, those that are stale, in parallel
compile()
{
    : >"$DIR/stale"
    for source in "$@"; do
        object=$DIR/obj/${source%.c}.o
        case $source in # the file that holds the source id follows every change
        engine/base/version.c) [ "$(cat "$DIR/id" 2>/dev/null)" = "$SOURCE_ID" ] || rm -f "$object" ;;
        esac
        if stale "$source" "$object"; then
            mkdir -p "$(dirname "$object")"
            printf '%s\n' "$source" >>"$DIR/stale"
        fi
    done
    [ -s "$DIR/stale" ] || return 0
    say "  $FLAVOUR: compiling $(wc -l <"$DIR/stale") files"
    # shellcheck disable=SC2016
    FCC=$FCC FLAGS=$FLAGS DIR=$DIR KERNEL_FLAGS=$KERNEL_FLAGS SOURCE_ID=$SOURCE_ID xargs -P "$JOBS" -n 1 sh -c '
        object=$DIR/obj/${1%.c}
        more=
        case $1 in
        kernels/cpu/*) more=$KERNEL_FLAGS ;;
        tools/examples/*) more=-Iengine ;;
        tests/t_*faults*|tests/t_no_memory.c) more=-U_FORTIFY_SOURCE ;; # it defines libc functions
        engine/base/version.c) more="-DGY_SOURCE_ID=\"$SOURCE_ID\"" ;;
        esac
        "$FCC" $FLAGS $more -MMD -MF "$object.d" -c "$1" -o "$object.o" || { rm -f "$object.o"; exit 1; }
    ' compile <"$DIR/stale" || fail "$FLAVOUR: a file does not compile"
    echo "$SOURCE_ID" >"$DIR/id"
}

objects_of() { for source in "$@"; do printf '%s\n' "$DIR/obj/${source%.c}.o"; done; }

# newest TARGET FILE...: the target exists and none of the files is newer
newest()
{
    target=$1
    shift
    [ -f "$target" ] && [ -z "$(find "$@" -prune -newer "$target")" ]
}

# archive NAME SOURCE...
archive()
{
    archive=$DIR/$1
    shift
    compile "$@"
    # shellcheck disable=SC2046
    set -- $(objects_of "$@")
    if ! newest "$archive" "$@" || [ "$(ar t "$archive" | wc -l)" != $# ]; then
        rm -f "$archive"
        ar rcsD "$archive" "$@"
    fi
}

# shellcheck disable=SC2046
build_library()
{
    archive libgyre.a $(library_sources)
    archive liblab.a $(lab_sources)
}

# link PROGRAM FILE...: objects and archives, with the flavour's library
link()
{
    program=$1
    shift
    newest "$program" "$DIR/libgyre.a" "$DIR/liblab.a" "$@" && return 0
    mkdir -p "$(dirname "$program")"
    # shellcheck disable=SC2086
    "$FCC" $LINK -o "$program" "$@" "$DIR/liblab.a" "$DIR/libgyre.a" $LIBS || fail "$program does not link"
}

build_command()
{
    # shellcheck disable=SC2046
    set -- $(command_sources)
    compile "$@"
    # shellcheck disable=SC2046
    link "$DIR/gyre" $(objects_of "$@")
}

# What of the library sums over processes, with nothing of nets; its public functions are exported.
network_sources() { existing engine/base/*.c engine/job/*.c net/*/*.c; }

build_shared()
{
    flavour shared
    # shellcheck disable=SC2046
    set -- $(network_sources)
    compile "$@"
    # shellcheck disable=SC2046
    set -- $(objects_of "$@")
    newest "$BUILD/libgyre-net.so" "$@" && return 0
    # shellcheck disable=SC2086
    "$FCC" $LINK -o "$BUILD/libgyre-net.so" "$@" $LIBS || fail "libgyre-net.so does not link"
}

# build_programs FOLDER SOURCE...: one program a source
build_programs()
{
    folder=$1
    shift
    [ $# -gt 0 ] || return 0
    compile "$@"
    for source in "$@"; do
        link "$DIR/$folder/$(program_name "$source")" "$DIR/obj/${source%.c}.o" ${HELPERS:+"$HELPERS"}
    done
}

# The CUDA emulator, a shared library beside the command, without sanitizers: it switches fibers.
build_emulator()
{
    case $FLAVOUR in ppc|static|fuzz) return 0 ;; esac
    # shellcheck disable=SC2046
    newest "$DIR/libgyre-emu.so" $(existing tests/emu/* kernels/cuda/args.h kernels/op_device.h) && return 0
    say "  $FLAVOUR: the CUDA emulator"
    # shellcheck disable=SC2086,SC2046
    "$FCC" $LANGUAGE -O2 $WARNINGS -fPIC -shared -o "$DIR/libgyre-emu.so" $(existing tests/emu/*.c) $LIBS ||
        fail "the CUDA emulator does not compile"
}

# What every test stands on
build_base()
{
    build_library
    build_emulator
    build_command
    # shellcheck disable=SC2046
    archive libtests.a $(helper_sources)
    HELPERS=$DIR/libtests.a
}

# Everything that tests run, in one flavour
# shellcheck disable=SC2046
build_tests()
{
    build_base
    build_programs tests $(test_sources)
    HELPERS=
    build_programs examples $(example_sources)
    build_replays $(fuzz_sources)
}

# build_replays SOURCE...: fuzz targets with a main that replays the corpus
build_replays()
{
    compile tests/replay.c "$@"
    for source in "$@"; do
        link "$DIR/replay/$(program_name "$source")" "$DIR/obj/${source%.c}.o" "$DIR/obj/tests/replay.o"
    done
}

# ---- tools of the longer targets -----------------------------------------------------------------

need_clang()
{
    { have clang && works clang -fsanitize=fuzzer-no-link,address; } ||
        install "clang and its sanitizers" clang libclang-rt-14-dev libc6-dev
}

need_gcc() { { have gcc && works gcc; } || install "tests with gcc" gcc libc6-dev; }
need_sanitizer() { works "$CC" "-fsanitize=$1" || need_clang; }

# Processes that end by _exit leave their counts, too.
need_coverage()
{
    need_gcc && { have gcov || install "gcov" gcc; } || return 1
    printf 'void __gcov_dump(void);\nvoid __real__exit(int);\nvoid __wrap__exit(int code)\n{\n    __gcov_dump();\n    __real__exit(code);\n}\n' \
        >"$BUILD/coverage_exit.c"
    gcc -c "$BUILD/coverage_exit.c" -o "$BUILD/coverage_exit.o"
}

need_mutants() { need_coverage && { have python3 || install "mutants" python3; }; }

need_ppc()
{
    { have powerpc64le-linux-gnu-gcc && have qemu-ppc64le; } ||
        install "the POWER build" gcc-powerpc64le-linux-gnu libc6-dev-ppc64el-cross qemu-user || return 1
    # a cross compiler does not look into /usr/include
    stb=$(printf '#include <stb/stb_image.h>\n' | "$CC" -E -x c - 2>/dev/null | sed -n 's/^# 1 "\(\/.*stb_image\.h\)".*/\1/p' | sed 1q)
    mkdir -p "$BUILD/include/stb"
    [ -z "$stb" ] || cp -p "$stb" "$BUILD/include/stb/stb_image.h"
}

need_ucx() { has_header "$CC" ucp/api/ucp.h || install "ranks on hosts with RDMA devices" libucx-dev; }
need_mnist() { [ -d "$MNIST" ] || install "real images (Fashion-MNIST)" dataset-fashion-mnist; }

# optional WHAT COMMAND...: counts a skip when the command cannot provide its tools
optional()
{
    what=$1
    shift
    "$@" && return 0
    say "skipped: $what"
    echo "0 0 1" >>"$TALLY"
    return 1
}

# ---- running tests -------------------------------------------------------------------------------

open_tally()
{
    TALLY=$BUILD/tally
    LOGS=$BUILD/logs
    mkdir -p "$BUILD" "$LOGS"
    : >"$TALLY"
    STARTED=$(date +%s)
    export BUILD CC DIR FCC FLAGS JOBS LOGS MNIST RUNNER SOURCE_ID SUITE TALLY TESTS
}

# Prints the sums of the tally ('passed failed skipped'). Fails when a check failed or none ran.
close_tally()
{
    say "$(($(date +%s) - STARTED)) s"
    awk '{ p += $1; f += $2; s += $3 }
         END { printf("%d passed, %d failed%s\n", p, f, (s ? ", " s " skipped" : "")); exit (f > 0 || p == 0) }' "$TALLY"
}

# suite FLAVOUR: builds and runs all tests in it
suite()
{
    SUITE=$1
    flavour "$1"
    build_tests
    say "$SUITE: test programs"
    sh tests/run_suite.sh
}

# one NAME COMMAND...: a script with a closing line
one() { sh tests/run_one.sh "$@"; }

# ---- targets -------------------------------------------------------------------------------------

prepare()
{
    inspect
    sh tools/embed.sh "$(cd "$BUILD" && pwd)/generated/cuda_texts.c"
    sh tools/embed.sh "$(cd "$BUILD" && pwd)/generated/tools/recipe_texts.c" recipes
    SOURCE_ID=$(source_id)
}

target_build()
{
    prepare
    flavour default
    build_library
    build_command
    cp "$DIR/libgyre.a" "$BUILD/libgyre.a"
    cp "$DIR/gyre" "$BUILD/gyre"
    built "$BUILD/libgyre.a" "$BUILD/gyre"
}

built()
{
    say "built:"
    for made in "$@"; do
        [ ! -f "$made" ] || found "$(wc -c <"$made") B" "$made"
    done
}

target_static()
{
    prepare
    build_static
    built "$BUILD/gyre-static"
}

target_emu()
{
    prepare
    flavour default
    build_emulator
    cp "$DIR/libgyre-emu.so" "$BUILD/libgyre-emu.so"
    built "$BUILD/libgyre-emu.so"
}

# The command that needs nothing: for an empty container
build_static()
{
    flavour static
    build_library
    build_command
    newest "$BUILD/gyre-static" "$DIR/gyre" || strip -o "$BUILD/gyre-static" "$DIR/gyre"
}

# target_test [NAME...] [OPTION...]: the suite, or some of its programs with options of theirs
target_test()
{
    [ $# -eq 0 ] || { test_some "$@"; return; }
    . tests/check.inc
    prepare
    need_mnist || say "  tests on Fashion-MNIST will be skipped"
    have busybox || ! can_install || install "the empty container" busybox-static || :
    need_ucx || say "  tests of UCX will be skipped"
    open_tally
    suite default
    say "amalgamation, static command, style"
    one amalgamation env SOURCES="$(profile_sources all)" sh tests/run_amalgamation.sh quick
    check_profiles quick core
    build_static
    one static sh tests/run_static.sh "$BUILD/gyre-static"
    check_products
    one twice sh tests/run_twice.sh shared libgyre-net.so
    one check.sh sh tools/check.sh "$DIR/libgyre.a"
    one nvrtc sh tests/run_nvrtc.sh quick "$DIR"
    close_tally
}

# test_some NAME... [OPTION...]: runs t_NAME, fuzz_NAME (its corpus), e2e_NAME and shows output
test_some()
{
    names='' worst=0
    while [ $# -gt 0 ]; do
        case $1 in -*) break ;; esac
        names="$names $1"
        shift
    done
    # shellcheck disable=SC2086
    known_tests $names
    prepare
    flavour default
    build_base
    here=$(cd "$DIR" && pwd)
    export GYRE="$here/gyre" EXAMPLES="$here/examples" GYRE_KERNEL_CACHE="$here/../kernels"
    for name in $names; do
        # shellcheck disable=SC2046
        case $(existing "tests/$name.c" "tests/$name.sh") in
        tests/t_*.c) build_programs tests "tests/$name.c"; start=$here/tests/$name ;;
        tests/fuzz_*.c) build_replays "tests/$name.c"; start="$here/replay/$name tests/corpus/${name#fuzz_}" ;;
        tests/e2e_*.sh) HELPERS='' build_programs examples $(example_sources); start="sh tests/$name.sh" ;;
        esac
        say "$name"
        $start "$@" || worst=1
    done
    return $worst
}

target_check()
{
    . tests/check.inc
    [ $# -gt 0 ] || set -- gcc clang asan tsan ppc style single static nvrtc emu net glm random options faults proof small twice
    prepare
    need_mnist || say "  tests on Fashion-MNIST will be skipped"
    open_tally
    numbers=$(printf '%s\n' "$@" | grep -x '[0-9]*' | tr '\n' ' ') || :
    for part in "$@"; do
        case $part in *[!0-9]*) ;; *) continue ;; esac
        say "check: $part"
        # shellcheck disable=SC2086
        check_part "$part" $numbers
    done
    close_tally
}

target_amalgamation()
{
    prepare
    [ $# -gt 0 ] || set -- all
    for profile in "$@"; do
        sources=$(profile_sources "$profile") || exit 1
        # shellcheck disable=SC2086
        sh tools/amalgamate.sh "amalgamation/$profile" "$SOURCE_ID" "$profile" $sources
        for made in gyre.c gyre.h; do
            found "$(wc -l <"amalgamation/$profile/$made") lines" "amalgamation/$profile/$made"
        done
    done
    say "  compile: cc -O2 app.c gyre.c -lm -lpthread -ldl"
}

# Each target starts from tests/corpus/NAME; what it finds stays in $BUILD/fuzz.
target_fuzz()
{
    minutes=${1:-1}
    counts fuzz "$minutes"
    prepare
    need_clang || fail "fuzzing needs clang"
    flavour fuzz
    open_tally
    build_library
    # shellcheck disable=SC2046
    build_programs fuzz $(fuzz_sources)
    say "fuzzing $minutes minutes each"
    for program in "$DIR"/fuzz/fuzz_*; do
        [ -x "$program" ] || continue
        basename "$program"
    done | DIR=$DIR xargs -P "$JOBS" -n 1 sh tests/run_fuzz.sh "$((minutes * 60))"
    close_tally
}

# The command's own measurement, and the programs tests/bench_*.c
target_bench()
{
    target_build
    flavour default
    # shellcheck disable=SC2046
    build_programs bench $(bench_sources)
    for net in lenet5 resnet20 resnet18; do
        say "gyre bench $net"
        "$BUILD/gyre" bench $net
    done
    for program in "$DIR"/bench/bench_*; do
        [ -x "$program" ] || continue
        say "$(basename "$program")"
        "$program"
    done
}

GPU_TESTS="t_ops_cuda t_cuda_net t_cuda_half t_cuda_queue t_cuda_input t_cuda_glm"

# What a run on a GPU needs. Such a machine has no network; its compiler has other warnings.
build_for_gpu()
{
    prepare
    flavour "$1"
    build_library
    build_command
    # shellcheck disable=SC2046
    archive libtests.a $(helper_sources)
    HELPERS=$DIR/libtests.a
    # shellcheck disable=SC2046
    build_programs tests $(for test in $GPU_TESTS; do echo "tests/$test.c"; done)
    HELPERS=
    build_programs . tests/peer/bench_gpu.c
}

target_gpu()
{
    [ $# -gt 0 ] || fail "gpu needs a folder for its results"
    NO_INSTALL=1
    build_for_gpu gpu
    out=$1
    shift
    sh tests/gpu.sh "$out" "$DIR" "$@"
}

target_gpu_pack()
{
    [ $# -gt 0 ] || fail "gpu-pack needs the name of a file to write"
    need_mnist || fail "the pack needs the images in $MNIST"
    build_for_gpu default
    sh tests/gpu_pack.sh "$1" "$DIR" "$BUILD/gpu-pack" "$MNIST" "${2:-90}"
    found "$(wc -c <"$1") B" "$1"
}

# target_library NAME: a profile as an archive
target_library()
{
    [ $# -eq 1 ] || fail "library needs the name of a profile: core, nets, glm or all"
    prepare
    sources=$(profile_sources "$1") || exit 1
    flavour "$([ "$1" = all ] && echo default || echo "$1")"
    # shellcheck disable=SC2086
    archive "libgyre-$1.a" $sources
    cp "$DIR/libgyre-$1.a" "$BUILD/libgyre-$1.a"
    built "$BUILD/libgyre-$1.a"
}

target_shared()
{
    prepare
    build_shared
    found "$(wc -c <"$BUILD/libgyre-net.so") B" "$BUILD/libgyre-net.so"
}

target_demo()
{
    target_build
    need_mnist || fail "the demo needs the images in $MNIST"
    sh tools/demo.sh "$BUILD/gyre" "$MNIST" "$BUILD/demo"
}

target_clean()
{
    rm -rf "$BUILD" amalgamation
    say "removed $BUILD and amalgamation"
}

usage() { sed -n '/^#   \.\/build/s/^# //p' "$0"; }

target=${1:-build}
[ $# -eq 0 ] || shift
counts JOBS "$JOBS"
case $BUILD in *[[:space:]*?[]*) fail "BUILD is '$BUILD'; blanks, * ? and [ cannot be in it" ;; esac
# shellcheck disable=SC2086
known_tests $TESTS
case $target in
build|static|emu|demo|bench|shared|clean|ppc|help|-h|--help) [ $# -eq 0 ] || fail "$target takes nothing, not '$1'" ;;
esac
case $target in
build|static|emu|demo|test|check|bench|gpu|shared|amalgamation|library|fuzz|clean) "target_$target" "$@" ;;
gpu-pack) target_gpu_pack "$@" ;;
ppc) target_check ppc ;;
help|-h|--help) usage ;;
*) usage >&2; fail "no target $target" ;;
esac
