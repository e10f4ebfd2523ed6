"""Goodput of an upload by pacing shift and send buffer, for several delays of what a driver reports as sent.

Usage: below_tcp.py    prints the table of evidence/wifi.md, "Data below TCP"
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import airtcp

SCENARIO: Final = Path(__file__).parent / "below-tcp.toml"
SHIFTS: Final = (6, 7, 8, 9)
BUFFERS: Final = ("256KiB", "2600KiB")
DELAYS_MS: Final = (0, 2, 4, 6, 8, 10, 12)
PUBLISHED: Final = (500, 454, 288, 200, 336, 598)
"""Mbit/s, in the order of the columns: QCA6174, VHT80."""
RADIO: Final = "wlans.wlan.station_radio"


def goodput_mbps(delay_ms: int, changes: dict[str, object]) -> float:
    """Of the upload."""
    late = {f"{RADIO}.tx_completion": {"delay": f"{delay_ms}ms"}}
    return float(airtcp.run(SCENARIO, set={**late, **changes}).summary["groups"][0]["goodput_bps"]) / 1e6


def row(delay_ms: int) -> list[float]:
    """Goodput at each shift, and with each send buffer at the default shift."""
    shifts = [goodput_mbps(delay_ms, {f"{RADIO}.transmit.tsq_pacing_shift": shift}) for shift in SHIFTS]
    keys = ("flows.up.tcp.send_buffer", "flows.up.tcp.send_buffer_max")
    return shifts + [goodput_mbps(delay_ms, dict.fromkeys(keys, buffer)) for buffer in BUFFERS]


def main() -> None:
    """Prints the table."""
    head = [*(f"shift {shift}" for shift in SHIFTS), *BUFFERS]
    print(f"| delay | {' | '.join(head)} |\n|{'---|' * (len(head) + 1)}")
    for delay_ms in DELAYS_MS:
        print(f"| {delay_ms} ms | {' | '.join(f'{value:.0f}' for value in row(delay_ms))} |")
    print(f"| published | {' | '.join(map(str, PUBLISHED))} |")


if __name__ == "__main__":
    main()
