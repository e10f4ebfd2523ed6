#!/bin/sh
# Compiles the BPF objects from crates/law and the C files here. Usage: crates/host/bpf/build.sh [FOLDER] (default: built/ beside this file)
#
# Developers only: the objects are committed. Needs clang-14, and the toolchain of rust-toolchain.toml with `rustup component add llvm-tools`.
# rustc and clang write bitcode, rustc's own LLVM links it and generates the code. The law is inlined, since Rust's functions have no BTF.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "${1:-$here/built}"
out=$(cd "${1:-$here/built}" && pwd)
cd "$here"
tools=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin
clang=${CLANG:-clang-14}
command -v "$clang" >/dev/null || { echo "build.sh: $clang is missing; install clang-14 or set CLANG" >&2; exit 1; }
for tool in llvm-link llvm-dis llvm-strip llvm-nm opt llc; do
    [ -x "$tools/$tool" ] || { echo "build.sh: $tools/$tool is missing; run: rustup component add llvm-tools" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

flags='--edition 2024 --crate-type lib -C opt-level=2 -C panic=abort -C codegen-units=1 -C overflow-checks=off'
rustc $flags --crate-name airtcp_law --emit=link --out-dir "$work" ../../law/src/lib.rs
rustc $flags --crate-name law --emit=llvm-bc --extern airtcp_law="$work/libairtcp_law.rlib" --out-dir "$work" law.rs
"$tools/llvm-dis" "$work/law.bc" -o "$work/law.ll"
if grep -q 'panic' "$work/law.ll"; then echo "build.sh: the law has a path that panics" >&2; exit 1; fi
# Removes attributes of the host that BPF does not have, and sets the target.
sed -i -e 's/"target-cpu"="[^"]*"//g; s/"probe-stack"="[^"]*"//g; s/\buwtable\b//g; s/\bnonlazybind\b//g' \
    -e 's/^target triple = .*/target triple = "bpf"/' -e 's/^target datalayout = .*/target datalayout = "e-m:e-p:64:64-i64:64-i128:128-n32:64-S128"/' "$work/law.ll"

for source in *.bpf.c; do
    name=${source%.bpf.c}
    "$clang" -target bpf -mcpu=v3 -g -O2 -Wall -Werror -Wno-unused-variable -Wno-unused-function -Xclang -disable-llvm-passes \
        -fdebug-compilation-dir=. -emit-llvm -c "$source" -o "$work/$name.bc"
    "$tools/llvm-link" "$work/$name.bc" "$work/law.ll" -o "$work/$name.all.bc" 2>"$work/warnings" || { cat "$work/warnings" >&2; exit 1; }
    # Kept: programs, maps, the licence. Inlined: all others.
    kept=$("$tools/llvm-nm" --defined-only --extern-only --format=just-symbols "$work/$name.bc" | paste -sd, -)
    "$tools/opt" -internalize-public-api-list="$kept" -passes='internalize,module(cgscc(inline),globaldce),default<O2>' -inline-threshold=100000 \
        "$work/$name.all.bc" -o "$work/$name.opt.bc"
    "$tools/llc" -march=bpf -mcpu=v3 -filetype=obj "$work/$name.opt.bc" -o "$out/$name.o"
    "$tools/llvm-strip" -g "$out/$name.o"
    "$tools/llvm-nm" --undefined-only "$out/$name.o" | while read -r _ symbol; do
        grep -qh "KFUNC .*\b$symbol(" ./*.bpf.c || { echo "build.sh: $name.o wants $symbol, which is no function of the kernel" >&2; exit 1; }
    done
    echo "$name.o $(stat -c %s "$out/$name.o") bytes"
done
