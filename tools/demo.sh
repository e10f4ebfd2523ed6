#!/bin/sh
# The study "ap-retry-out" in its quick size: main verdicts here, a report to open.
set -eu
cd "$(dirname "$0")/.."
out=runs/demo

.venv/bin/airtcp study run ap-retry-out --quick --out "$out"
echo "Open $out/report.html in a browser: every finding, its figure and its verdict."
echo "Everything else: $out/ (docs/studies.md says what each file holds)"
