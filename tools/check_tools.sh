#!/bin/sh
# Checks that the tools to build airtcp are there; names the Debian package of each one that is not.
# Usage: tools/check_tools.sh [lint | playground]
set -u
missing=0
need() { # what, Debian package
    printf 'missing: %s\n  Debian: apt install %s\n' "$1" "$2" >&2
    missing=1
}

# at_least 1.85 1.90.0: the second version is the first or newer
at_least() {
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$1" ]
}

rust_packages="cargo rustc"
# Debian 12 keeps its original Rust; the newer one has names of its own.
case "$(cat /etc/debian_version 2>/dev/null || true)" in 12*) rust_packages="cargo-web rustc-web" ;; esac

if ! command -v cargo >/dev/null 2>&1; then
    need "cargo, Rust's build tool" "$rust_packages"
fi
if ! command -v rustc >/dev/null 2>&1; then
    need "rustc 1.85 or newer, the Rust compiler" "$rust_packages"
else
    version=$(rustc --version | cut -d ' ' -f 2)
    at_least 1.85 "$version" || need "rustc 1.85 or newer (found $version)" "$rust_packages   (or install Rust with rustup)"
fi

python=${PYTHON:-python3}
if ! command -v "$python" >/dev/null 2>&1; then
    need "$python 3.11 or newer" "python3 python3-venv"
elif ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
    need "$python 3.11 or newer (found $("$python" --version 2>&1)); name another with make PYTHON=..." "python3 python3-venv"
elif ! "$python" -c 'import venv, ensurepip' >/dev/null 2>&1; then
    need "Python's venv module" "python3-venv"
fi

if ! command -v cc >/dev/null 2>&1; then
    need "cc, a C compiler: Rust links with it" "gcc libc6-dev"
else
    dir=$(mktemp -d) || exit 1
    printf 'int main(void) { return 0; }\n' >"$dir/a.c"
    cc -o "$dir/a" "$dir/a.c" >/dev/null 2>&1 || need "a C linker and the C library's headers: cc cannot build a program" "gcc libc6-dev"
    rm -rf "$dir"
fi

if [ "${1:-}" = lint ]; then
    command -v rustfmt >/dev/null 2>&1 || need "rustfmt" "rustfmt   (or: rustup component add rustfmt)"
    cargo clippy --version >/dev/null 2>&1 || need "clippy" "rust-clippy   (or: rustup component add clippy)"
fi

if [ "${1:-}" = playground ]; then
    if ! command -v node >/dev/null 2>&1; then
        need "Node 20 or newer" "nodejs npm"
    else
        version=$(node --version | tr -d v)
        at_least 20 "$version" || need "Node 20 or newer (found $version)" "nodejs npm   (or from nodejs.org)"
    fi
    command -v npm >/dev/null 2>&1 || need "npm, Node's package manager" "npm"
    if ! [ -d "$(rustc --print sysroot)/lib/rustlib/wasm32-unknown-unknown" ]; then
        need "Rust's target wasm32-unknown-unknown" "libstd-rust-dev-wasm32   (or: rustup target add wasm32-unknown-unknown)"
    fi
fi

exit "$missing"
