#!/usr/bin/env python3
"""Makes the packet-level traces of this folder with ns-2 (Debian package ns2).

One row per event at the sender, in the order in which they happened:

time_s    seconds
event     syn, send, resend; ack (an acknowledgement arrived); timeout; drop (the queue or the line lost the packet; on
          the line at the end of its transmission plus the delay)
segment   number of the data segment, from 0; empty for syn, ack and timeout
ack       segments acknowledged by this ACK, cumulatively (SYN not counted); empty for other events
cwnd      segments, after the event (send: when it is sent)
ssthresh  likewise; 0 until it is first set
dupacks   likewise
rtt_ticks last measured round trip in ticks of 10 ms, likewise

ns-2 numbers the SYN 0 and the first data segment 1; here the SYN has no number.
"""

from __future__ import annotations

import csv
import pathlib
import subprocess
import sys
from collections.abc import Iterable, Iterator
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent

TWO_LOSSES = "-rate 10Mb -delay 20ms -buffer 1000 -ssthresh 8 -losses {60 63} -seconds 2"

# What each trace is for, and the arguments of single.tcl.
CASES = {
    # Slow start into a full queue: many losses in one window, one fast retransmit, then a timeout and go-back-N.
    "slow_start_overflow": "-rate 10Mb -delay 20ms -buffer 20 -seconds 3",
    # One loss in congestion avoidance: fast retransmit, inflation, exit.
    "one_loss": "-rate 10Mb -delay 20ms -buffer 1000 -ssthresh 8 -losses {60} -seconds 1",
    # Two losses in one window: the second waits for the timeout (Reno), a partial ACK (NewReno), its SACK hole (Sack1).
    "two_losses_reno": f"{TWO_LOSSES} -agent TCP/Reno",
    "two_losses_newreno": f"{TWO_LOSSES} -agent TCP/Newreno",
    "two_losses_sack": f"{TWO_LOSSES} -agent TCP/Sack1",
    # A segment is lost four times: fast retransmit, timeout, two backoffs.
    "timeout": "-rate 10Mb -delay 20ms -buffer 1000 -ssthresh 8 -losses {40 53 74 77} -seconds 3",
    # The SYN is lost, then all goes well.
    "syn_lost": "-rate 10Mb -delay 20ms -buffer 1000 -ssthresh 8 -losses {1} -seconds 4",
    # The last segments of a transfer are lost: no duplicate ACKs, timeout.
    "tail_loss": "-rate 10Mb -delay 20ms -buffer 1000 -losses {20 21} -writes {{0 21}} -seconds 3",
    # A pause longer than the timeout between two writes.
    "idle": "-rate 10Mb -delay 20ms -buffer 1000 -writes {{0 60} {3 60}} -seconds 5",
    # The AIMD sawtooth at a buffer of half the product of bandwidth and delay.
    "sawtooth": "-rate 1Mb -delay 60ms -buffer 6 -ssthresh 12 -seconds 30",
}


def words(text: str) -> list[str]:
    """Splits at blanks outside braces and drops the outer braces, as Tcl would."""
    out, depth, word = [], 0, ""
    for ch in text + " ":
        if ch == " " and depth == 0:
            if word:
                out.append(word)
            word = ""
            continue
        depth += {"{": 1, "}": -1}.get(ch, 0)
        if not ((ch == "{" and depth == 1) or (ch == "}" and depth == 0)):
            word += ch
    return out


def rows(lines: Iterable[str]) -> Iterator[list[object]]:
    state = {"cwnd_": "1", "ssthresh_": "0", "dupacks_": "0", "rtt_": "0"}
    sent = -1
    held: tuple[Any, ...] | None = None  # the ack or timeout row whose state changes are still arriving

    def row(time: str, event: str, segment: object = "", ack: object = "") -> list[object]:
        cwnd, ssthresh, dupacks = float(state["cwnd_"]), int(state["ssthresh_"]), int(state["dupacks_"])
        return [time, event, segment, ack, cwnd, ssthresh, dupacks, round(float(state["rtt_"]) / 0.01)]

    for line in lines:
        f = line.split()
        if f[0] in "+-rd":
            kind, time, what, seq = f[0], f[1], f[4], int(f[10])
            if held and (kind == "+" or (kind == "r" and what == "ack")):
                yield row(*held)
                held = None
            if kind == "+" and what == "tcp":
                event = "syn" if seq == 0 else "send" if seq > sent else "resend"
                sent = max(sent, seq)
                yield row(time, event, "" if seq == 0 else seq - 1)
            elif kind == "d" and what == "tcp":
                if held:
                    yield row(*held)
                    held = None
                yield row(time, "drop", "" if seq == 0 else seq - 1)
            elif kind == "r" and what == "ack":
                held = (time, "ack", "", seq)
        else:
            time, name, value = f[0], f[5], f[6]
            if name in state:
                # Changes within an ack carry its time, rounded to 10 us; others come from the timer.
                if sent < 0:
                    pass
                elif held is None or abs(float(held[0]) - float(time)) > 6e-6:
                    if held:
                        yield row(*held)
                    held = (time, "timeout")
                state[name] = value
    if held:
        yield row(*held)


def main() -> None:
    for name, args in CASES.items():
        command = ["ns", str(HERE / "single.tcl"), *words(args)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            sys.exit(f"{name}: {done.stderr.strip()}")
        with (HERE / f"{name}.csv").open("w", newline="") as f:
            out = csv.writer(f, lineterminator="\n")
            out.writerow(["time_s", "event", "segment", "ack", "cwnd", "ssthresh", "dupacks", "rtt_ticks"])
            out.writerows(rows(done.stdout.splitlines()))


if __name__ == "__main__":
    main()
