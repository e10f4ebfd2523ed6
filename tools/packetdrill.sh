#!/bin/sh
# Fetches the public scripts of packetdrill (GPL) and plays them against airtcp's TCP. Usage: tools/packetdrill.sh (from the
# repository's root). AIRTCP_PACKETDRILL_SOURCE names another source than the project's own, a folder for example.
set -eu
commit=2c4001c4d6fc04a3bbd01d4b92be62717a37648a
source=${AIRTCP_PACKETDRILL_SOURCE:-https://github.com/google/packetdrill}
folder=${XDG_CACHE_HOME:-$HOME/.cache}/airtcp/packetdrill
if [ ! -d "$folder/.git" ]; then
    mkdir -p "$(dirname "$folder")"
    git clone --quiet --no-checkout "$source" "$folder"
fi
git -C "$folder" checkout --quiet --detach "$commit"
echo "scripts: $folder/gtests/net/tcp"
cargo build --quiet --package airtcp-packetdrill
# Scripts that fail are in the table, and are no error of this target.
target=${CARGO_TARGET_DIR:-target}
"$target/debug/airtcp-packetdrill" run "$folder/gtests/net/tcp" || [ $? -eq 1 ]
