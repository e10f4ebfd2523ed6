#!/bin/sh
# Adds retry-out to a tree of OpenWrt: patches of mac80211 and ath9k, and a package with the switch.
# Exit codes: 0 done, 1 the tree is not as expected, 2 wrong use.
set -eu

usage() {
	cat <<'EOF'
Usage: kernel/openwrt/add.sh TREE

Copies the patches of kernel/mac80211-retry-out into TREE's package mac80211,
as its backports want them, and the package retry-out with its UCI option.
Running it again replaces what it has added before.

Example:
  kernel/openwrt/add.sh ~/openwrt
EOF
}

case ${1-} in
-h | --help) usage; exit 0 ;;
'' | -*) usage >&2; exit 2 ;;
esac
[ $# -eq 1 ] || { usage >&2; exit 2; }

here=$(cd "$(dirname "$0")" && pwd)
package=$1/package/kernel/mac80211
fail() {
	echo "error: $1" >&2
	exit 1
}
[ -f "$package/Makefile" ] || fail "$1 is no tree of OpenWrt: it has no package/kernel/mac80211/Makefile"
version=$(sed -n 's/^PKG_VERSION:=//p' "$package/Makefile")
case $version in
6.12 | 6.12.*) series=mac80211-retry-out ;;
6.1 | 6.1.*) series=mac80211-retry-out-6.1 ;;
*)
	series=mac80211-retry-out
	echo "warning: backports $version: the patches are for 6.12 and 6.1, and may need a refresh (make package/kernel/mac80211/refresh)" >&2
	;;
esac

# Backports call their options CPTCFG_..., not CONFIG_...
for patch in "$here/../$series"/*.patch; do
	name=$(basename "$patch")
	case $name in
	*-wifi-ath9k-*) folder=ath9k ;;
	*) folder=subsys ;;
	esac
	mkdir -p "$package/patches/$folder"
	sed 's/CONFIG_MAC80211_/CPTCFG_MAC80211_/' "$patch" >"$package/patches/$folder/990-retry-out-$name"
done

# The option goes where debugfs is switched on: without that there is no switch.
if ! grep -q MAC80211_RETRY_OUT "$package/Makefile"; then
	grep -q '^	MAC80211_DEBUGFS$' "$package/Makefile" ||
		fail "$package/Makefile: no line MAC80211_DEBUGFS in its options: add MAC80211_RETRY_OUT by hand"
	sed 's/^	MAC80211_DEBUGFS$/	MAC80211_DEBUGFS \\\
	MAC80211_RETRY_OUT/' "$package/Makefile" >"$package/Makefile.new"
	mv "$package/Makefile.new" "$package/Makefile"
fi

own=$1/package/network/utils/retry-out
rm -rf "$own"
mkdir -p "$(dirname "$own")"
cp -R "$here/retry-out" "$own"
echo "added for backports $version: $series; choose kmod-mac80211 with debugfs, and retry-out (Network)"
