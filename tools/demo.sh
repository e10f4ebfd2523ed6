#!/bin/sh
# Reno and paced Reno through a tiny buffer, as in the study "pacing-buffers": a table, and a picture of both.
set -eu
cd "$(dirname "$0")/.."
airtcp=.venv/bin/airtcp
out=runs/demo

mkdir -p "$out"
for kind in reno paced; do
    "$airtcp" run "examples/pacing-buffers-$kind.toml" --out "$out/$kind" --quiet
done
echo "500 flows through 100 Mbit/s, 200 ms round trip, a buffer of 111 packets (bandwidth-delay product / sqrt 500):"
"$airtcp" compare "$out/reno" "$out/paced"
"$airtcp" plot "$out/reno" "$out/paced" --out "$out/pacing-buffers.png"
echo "Picture over time: $out/pacing-buffers.png"
echo "Everything else:   $out/reno/ and $out/paced/ (Parquet; see docs/results.md)"
