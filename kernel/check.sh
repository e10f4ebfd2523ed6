#!/bin/sh
# Does the patch series apply to a fresh Linux source, pass checkpatch and build?
# Exit codes: 0 yes, or skipped aloud; 1 no; 2 wrong use.
set -eu

usage() {
	cat <<'EOF'
Usage: kernel/check.sh [SOURCE.tar.xz]

Unpacks a fresh Linux source, applies kernel/mac80211-retry-out,
kernel/mac80211-hwsim and kernel/tcp-efr, runs checkpatch --strict on each
patch and builds mac80211, mac80211_hwsim, ath9k and TCP for User-Mode Linux.
Where sparse is installed, it may say nothing about the changed files that it
does not say about them without the patches.

SOURCE is /usr/src/linux-source-6.12.tar.xz by default (Debian's package
linux-source-6.12). Without it the check is skipped, and says so. A source of
Linux 6.1 gets kernel/mac80211-retry-out-6.1 and kernel/mac80211-hwsim-6.1.

A check that passed is remembered in ${XDG_CACHE_HOME:-~/.cache}/airtcp/kernel
and not made again while source, patches, configuration and script are the same.
It takes 4 to 6 minutes on 2 idle cores and 2 GB, which are freed at the end.

Exit codes: 0 passed or skipped, 1 failed, 2 wrong use.

Example:
  kernel/check.sh
  kernel/check.sh /usr/src/linux-source-6.1.tar.xz
EOF
}

here=$(cd "$(dirname "$0")" && pwd)
uml=$here/../tools/uml
case ${1-} in
-h | --help) usage; exit 0 ;;
-*) usage >&2; exit 2 ;;
esac
[ $# -le 1 ] || { usage >&2; exit 2; }

source=${1-/usr/src/linux-source-6.12.tar.xz}
if [ ! -f "$source" ]; then
	echo "skipped: $source is not there; apt-get install linux-source-6.12 brings it"
	[ $# -eq 0 ] && exit 0
	exit 1
fi
for tool in make gcc flex bison bc xz patch perl; do
	command -v $tool >/dev/null || { echo "skipped: $tool is not installed"; exit 0; }
done

cache=${XDG_CACHE_HOME:-$HOME/.cache}/airtcp/kernel
key=$({ sha256sum <"$source"; cat "$here"/*/*.patch "$uml/kernel.config" "$uml/wifi.config" "$here/check.config" "$0"; gcc --version; } | sha256sum | cut -c1-16)
if [ -f "$cache/$key" ]; then
	echo "passed before, nothing has changed:"
	cat "$cache/$key"
	exit 0
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/airtcp-kernel-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
fail() {
	echo "failed: $1" >&2
	[ ! -f "$work/log" ] || tail -n 40 "$work/log" >&2
	exit 1
}

# As the laboratory's kernel, and ath9k.
cat "$uml/kernel.config" "$uml/wifi.config" "$here/check.config" >"$work/config"
mkdir "$work/src"
tar xf "$source" -C "$work/src" --strip-components=1 || fail "$source cannot be unpacked"
cd "$work/src"
version=$(make -s kernelversion)
changed="net/mac80211/agg-rx.o net/mac80211/debugfs.o net/mac80211/main.o net/mac80211/rx.o net/mac80211/sta_info.o
	drivers/net/wireless/ath/ath9k/common.o drivers/net/wireless/ath/ath9k/recv.o drivers/net/wireless/ath/ath9k/htc_drv_txrx.o"
case $version in
6.1.*)
	series="mac80211-retry-out-6.1 mac80211-hwsim-6.1" places="net/mac80211/ drivers/net/wireless/mac80211_hwsim.o"
	changed="$changed drivers/net/wireless/mac80211_hwsim.o"
	# Patches that both versions share name the folder of 6.12.
	moved=s,drivers/net/wireless/virtual/,drivers/net/wireless/,g
	# Its checkpatch wants comments as only net/ had them then; the rule is gone since.
	ignored=,NETWORKING_BLOCK_COMMENT_STYLE
	;;
*)
	series="mac80211-retry-out mac80211-hwsim tcp-efr" places="net/mac80211/ drivers/net/wireless/virtual/ net/ipv4/"
	changed="$changed drivers/net/wireless/virtual/mac80211_hwsim.o net/ipv4/tcp_input.o net/ipv4/tcp_recovery.o"
	moved=
	ignored=
	;;
esac

make_um() { nice -n 5 make -j"$(nproc)" ARCH=um O="$work/build" "$@" >"$work/log" 2>&1; }
configure() { KCONFIG_ALLCONFIG="$work/config" make_um allnoconfig || fail "the configuration"; }
# What sparse says of these files, without the numbers of lines. The objects are compiled, too.
sparse_says() {
	make_um C=2 "$@" || fail "sparse cannot run"
	sed -nE 's,^(\.\./src/)?([^ ]*\.[ch]):[0-9]+:[0-9]+: (warning|error): ,\2: ,p' "$work/log" | sort -u
}
mkdir "$work/build"
if command -v sparse >/dev/null; then
	configure
	# shellcheck disable=SC2086 # objects are words
	sparse_says $changed >"$work/sparse.before"
fi

patches=$(for folder in $series; do ls "$here/$folder"/*.patch; done)
echo "$patches" | while read -r patch; do
	name=${patch#"$here/"}
	# New files lie in directories that MAINTAINERS lists as a whole.
	perl scripts/checkpatch.pl --strict --no-tree --ignore "FILE_PATH_CHANGES,SPDX_LICENSE_TAG$ignored" "$patch" >"$work/log" 2>&1 ||
		fail "checkpatch complains about $name"
	sed "$moved" "$patch" | patch -p1 --fuzz=0 --silent >"$work/log" 2>&1 || fail "$name does not apply to Linux $version"
done || exit 1
count=$(echo "$patches" | wc -l)

configure
for option in MAC80211_RETRY_OUT MAC80211_HWSIM ATH9K ATH9K_HTC; do
	grep -q "^CONFIG_$option=[ym]" "$work/build/.config" || fail "CONFIG_$option cannot be set"
done
# shellcheck disable=SC2086 # places are words
make_um W=1 $places drivers/net/wireless/ath/ || fail "the build"
if grep -E 'warning:' "$work/log" | grep -E 'retry_out|rx\.c|agg-rx|hwsim|ath9k|tcp_input|tcp_recovery|net/tcp\.h' >"$work/warnings"; then
	cp "$work/warnings" "$work/log"
	fail "warnings"
fi
if command -v sparse >/dev/null; then
	# shellcheck disable=SC2086 # objects are words
	sparse_says $changed net/mac80211/retry_out.o >"$work/sparse.after"
	comm -13 "$work/sparse.before" "$work/sparse.after" >"$work/log"
	[ ! -s "$work/log" ] || fail "sparse complains of what the patches bring"
	sparse="sparse says nothing new of $(echo $changed | wc -w) files, and nothing of retry_out.c"
else
	sparse="sparse is not installed"
fi

mkdir -p "$cache"
echo "$count patches apply to Linux $version; checkpatch --strict is silent; $places and ath9k build without warnings in what changed; $sparse" >"$work/result"
mv "$work/result" "$cache/$key"
cat "$cache/$key"
