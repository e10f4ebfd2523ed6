#!/bin/sh
# Builds or tests airtcp-host with BPF. Usage: tools/host.sh build|test|lint|have (from the repository's root)
# It links libelf and zlib statically, so nothing of them is needed where the binary runs.
set -eu
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
case ${1:-} in
build)
    RUSTFLAGS='-C target-feature=+crt-static' cargo build --release --target "$target" -p airtcp-host --features bpf
    strip "target/$target/release/airtcp-host"
    ls -l "target/$target/release/airtcp-host"
    ;;
have) ;;
test) exec cargo test -p airtcp-host --features bpf ;;
lint) exec cargo clippy -p airtcp-host --features bpf --all-targets -- -D warnings ;;
*) sed -n '2,3s/^# //p' "$0" >&2; exit 2 ;;
esac
