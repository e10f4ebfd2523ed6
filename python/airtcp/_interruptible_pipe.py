"""A pipe that is read outside of Python, as captures are, and that ends when a signal comes.

The kernel interrupts the reading for a signal, but Python sees the signal only once the reading is over. The writer of
a pipe may be silent for ever. So a thread hands the bytes on through a pipe of its own, and ends that one.
"""

from __future__ import annotations

import os
import select
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

CHUNK_BYTES: Final = 1 << 20


class InterruptiblePipe:
    """Hands bytes on until they end or a signal comes."""

    def __init__(self) -> None:
        self.is_cut: bool = False
        """Whether a signal ended it."""

    def _pump(self, source: int, out: int, wake: int) -> None:
        data = b""
        try:
            while True:
                # Bytes are taken only where there is room: a pipe's writer is to wait as without this.
                ready, room, _ = select.select([wake] if data else [wake, source], [out] if data else [], [])
                if wake in ready:
                    self.is_cut = bool(set(os.read(wake, 100)) & {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
                    if self.is_cut:
                        return
                if room:
                    data = data[os.write(out, data) :]
                elif source in ready and not (data := os.read(source, CHUNK_BYTES)):
                    return
        except OSError:
            # Nobody reads on: the command is over.
            return
        finally:
            os.close(out)


@contextmanager
def interruptible(descriptor: int) -> Iterator[InterruptiblePipe]:
    """While the block runs, the file behind a descriptor ends at SIGINT, SIGTERM or SIGHUP, unless it is a regular one.

    To be used in the main thread, and once in a process: the descriptor stays another one.
    """
    inlet = InterruptiblePipe()
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        yield inlet
        return
    source = os.dup(descriptor)
    (end, out), (wake, waker) = os.pipe(), os.pipe()
    os.dup2(end, descriptor)
    os.close(end)
    for one in (out, waker):
        os.set_blocking(one, False)
    before = signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    thread = threading.Thread(target=inlet._pump, args=(source, out, wake), name="airtcp-inlet", daemon=True)
    thread.start()
    try:
        yield inlet
    finally:
        signal.set_wakeup_fd(before)
        with suppress(OSError):
            os.write(waker, bytes([signal.SIGINT]))
        thread.join()
        for one in (source, wake, waker):
            os.close(one)
