#!/bin/sh
# Makes a Debian package of airtcp-host. Usage: tools/host_package.sh BINARY [FOLDER]   (default folder: target)
# The binary is linked statically, so the package depends on nothing; nft and ip are for `proxy --divert`, `pacing` and `efr`.
set -eu
[ $# -ge 1 ] && [ $# -le 2 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
binary=$1
out=${2:-target}
top=$(cd "$(dirname "$0")/.." && pwd)
command -v dpkg-deb >/dev/null || { echo 'host_package.sh: dpkg-deb is missing; it comes with Debian and Ubuntu' >&2; exit 1; }
[ -x "$binary" ] || { echo "host_package.sh: $binary is no program; run: make host" >&2; exit 1; }

# ELF's number of the machine, at offset 18, names the architecture.
case $(od -An -j18 -N2 -tu2 "$binary" | tr -d ' ') in
62) architecture=amd64 ;;
183) architecture=arm64 ;;
*) echo "host_package.sh: $binary is neither of x86-64 nor of aarch64" >&2; exit 1 ;;
esac
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$top/Cargo.toml" | head -n 1)
# The same sources give the same package.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$top" log -1 --format=%ct 2>/dev/null || echo 0)}
export SOURCE_DATE_EPOCH

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
install -Dm755 "$binary" "$root/usr/bin/airtcp-host"
for unit in "$top"/crates/host/systemd/*.service; do
    install -Dm644 "$unit" "$root/usr/lib/systemd/system/$(basename "$unit")"
done
install -Dm644 "$top/docs/hosts.md" "$root/usr/share/doc/airtcp-host/hosts.md"
install -Dm644 "$top/crates/host/systemd/airtcp-av.default" "$root/etc/default/airtcp-av"
install -Dm644 "$top/crates/host/systemd/proxy.toml" "$root/etc/airtcp/proxy.toml"
{
    echo 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/'
    echo
    echo 'Files: *'
    echo 'Copyright: The airtcp authors'
    echo 'License: MIT or Apache-2.0'
    sed 's/^$/./; s/^/ /' "$top/LICENSE-MIT"
} >"$root/usr/share/doc/airtcp-host/copyright"
chmod 644 "$root/usr/share/doc/airtcp-host/copyright"

# mktemp's folder is for its owner alone; the package must not say so of the root.
chmod 755 "$root"
mkdir "$root/DEBIAN"
printf '/etc/default/airtcp-av\n/etc/airtcp/proxy.toml\n' >"$root/DEBIAN/conffiles"
# What runs is ended with the package, and caps and targets end by themselves.
cat >"$root/DEBIAN/prerm" <<'EOF'
#!/bin/sh
set -e
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
    systemctl stop airtcp-av.service airtcp-proxy.service 'airtcp-coop@*.service' || true
fi
EOF
cat >"$root/DEBIAN/postrm" <<'EOF'
#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
fi
EOF
cp "$root/DEBIAN/postrm" "$root/DEBIAN/postinst"
chmod 755 "$root/DEBIAN/prerm" "$root/DEBIAN/postrm" "$root/DEBIAN/postinst"
size=$(du -sk --apparent-size "$root" | cut -f1)
cat >"$root/DEBIAN/control" <<EOF
Package: airtcp-host
Version: $version
Architecture: $architecture
Maintainer: The airtcp authors <airtcp@users.noreply.github.com>
Installed-Size: $size
Recommends: iproute2, nftables
Section: net
Priority: optional
Homepage: https://github.com/airtcp/airtcp
Description: remedies for TCP over Wi-Fi, and their measurements
 TCP-AV as a congestion control of the kernel and as a proxy, a cooperative
 daemon for terminals of one access point, a monitor of the kernel's TCP, a
 probe of an access point's buffer, and recipes for pacing and EFR.
EOF
find "$root" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$out"
package=$out/airtcp-host_${version}_$architecture.deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
ls -l "$package"
