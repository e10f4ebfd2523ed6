#!/bin/sh
# All tests, and aloud what did not run here and why. Stops at the first suite that fails.
# Usage: tools/test_all.sh (from the repository's root, after `make build`)
set -eu
log=$(mktemp)
trap 'rm -f "$log"' EXIT

cargo test --workspace
# Against this kernel: what lacks rights says so on standard error.
if tools/host.sh have; then tools/host.sh test; else echo "SKIPPED: airtcp-host with BPF"; fi
# The patches for Linux: some minutes, unless nothing has changed since they passed; without the source it says that it skips.
kernel/check.sh
# Installed where nothing else of airtcp is.
.venv/bin/python tools/wheel.py
make --no-print-directory site
# No pipe into tee: its exit status would hide that of the tests.
status=0
AIRTCP_TEST_WASM=1 AIRTCP_TEST_TUTORIALS=1 .venv/bin/python -m pytest -n auto --dist worksteal -rs > "$log" 2>&1 || status=$?
cat "$log"

echo
echo "== skipped here =="
grep -E '^SKIPPED' "$log" || echo "nothing"
awk '/^SKIPPED/ { gsub(/[^0-9]/, "", $2); n += $2 } END { printf "%d tests skipped\n", n }' "$log"
exit "$status"
