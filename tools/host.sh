#!/bin/sh
# Builds or tests airtcp-host with BPF. Usage: tools/host.sh build|package|test|lint|have (from the repository's root)
# It links libelf and zlib statically, so nothing of them is needed where the binary runs.
set -eu
case $PWD in
*' '*) echo 'airtcp-host: libbpf is not built in a folder with a space in its name' >&2; exit 1 ;;
esac
target=$(rustc -vV | sed -n 's/^host: //p')
libraries=''
for library in libelf.a libz.a; do
    path=$(cc -print-file-name="$library")
    case $path in
    /*) libraries=$libraries${libraries:+:}$(dirname "$path") ;;
    *) echo "airtcp-host: $library is missing; on Debian: apt install libelf-dev zlib1g-dev pkg-config" >&2; exit 1 ;;
    esac
done
export LIBBPF_SYS_LIBRARY_PATH="$libraries"

# The program waits more than it computes: size comes before speed.
small() {
    CARGO_PROFILE_RELEASE_OPT_LEVEL=s CARGO_PROFILE_RELEASE_LTO=fat CARGO_PROFILE_RELEASE_CODEGEN_UNITS=1 \
        RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target "$1" -p airtcp-host --features bpf
}

# The same for aarch64, where there is a toolchain for it; otherwise says what is missing.
aarch64() {
    other=aarch64-unknown-linux-gnu
    [ "$target" != "$other" ] || return 0
    cross=aarch64-linux-gnu-gcc
    missing=''
    rustc --print target-libdir --target "$other" 2>/dev/null | { read -r folder && ls "$folder"/libstd-*.rlib >/dev/null 2>&1; } ||
        missing="rustup target add $other"
    command -v "$cross" >/dev/null || missing="${missing:+$missing; }apt install gcc-aarch64-linux-gnu"
    if [ -z "$missing" ]; then
        for library in libelf.a libz.a; do
            case $("$cross" -print-file-name="$library") in
            /*) ;;
            *) missing="${missing:+$missing; }dpkg --add-architecture arm64 and apt install libelf-dev:arm64 zlib1g-dev:arm64"; break ;;
            esac
        done
    fi
    if [ -n "$missing" ]; then
        echo "airtcp-host for aarch64 is not built here; it takes: $missing"
        return 0
    fi
    folder=$(dirname "$("$cross" -print-file-name=libelf.a)")
    export CC_aarch64_unknown_linux_gnu=$cross CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$cross
    LIBBPF_SYS_LIBRARY_PATH=$folder small "$other"
    aarch64-linux-gnu-strip "target/$other/release/airtcp-host"
    ls -l "target/$other/release/airtcp-host"
}
case ${1:-} in
build)
    small "$target"
    strip "target/$target/release/airtcp-host"
    ls -l "target/$target/release/airtcp-host"
    aarch64
    ;;
package)
    "$0" build
    tools/host_package.sh "target/$target/release/airtcp-host"
    [ ! -x target/aarch64-unknown-linux-gnu/release/airtcp-host ] ||
        tools/host_package.sh target/aarch64-unknown-linux-gnu/release/airtcp-host
    ;;
have) ;;
test) exec cargo test -p airtcp-host --features bpf ;;
lint) exec cargo clippy -p airtcp-host --features bpf --all-targets -- -D warnings ;;
*) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
esac
