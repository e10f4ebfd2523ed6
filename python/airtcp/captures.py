"""Analyses a capture, and keeps tables and page of it in a folder."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from pathlib import Path

from airtcp.analysis.reading import IDLE_TIMEOUT_S, MAX_CONNECTIONS, POINTS, Keep, Reading
from airtcp.analysis.results import FORMAT, Analysis
from airtcp.errors import ResultsError
from airtcp.results import Folder


def analyze(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    rotated: bool = False,
    out: str | os.PathLike[str] | None = None,
    flows: Collection[int] = (),
    hosts: Collection[str] = (),
    ports: Collection[int] = (),
    points: int = POINTS,
    idle_timeout_s: float = IDLE_TIMEOUT_S,
    max_connections: int = MAX_CONNECTIONS,
    report: bool = True,
    progress: Callable[[int, int], object] | None = None,
) -> Analysis:
    """Reads a capture (pcap, pcapng, snoop or ERF, plain or packed) and analyses its TCP connections.

    Of a damaged file, everything before the damage is analysed. `Analysis.damage` then says where and what it is.

    Args:
        path: path of the capture, or paths of several. A flow that several show counts where it was captured nearest to
            its sender, and all times are those of the first one's clock.
        rotated: the files are pieces of one capture.
        out: folder for the results, written while reading. Without it, they stay in memory.
        flows: keep only flows of these numbers.
        hosts: keep only flows with one of these addresses at an end.
        ports: keep only flows with one of these ports at an end.
        points: most points of a flow in each table over time.
        idle_timeout_s: seconds without packets that end a connection.
        max_connections: most connections followed at a time. Beyond that, the one idle longest ends.
        report: whether to write `report.html` into the folder.
        progress: called now and then with the bytes read and the size of the file.

    Raises:
        OSError: the capture cannot be opened.
        CaptureError: the file is not a capture.
        ValueError: an entry of `hosts` is not an IP address.
        ResultsError: the results cannot be written to `out`.
    """
    reading = Reading(
        path,
        rotated=rotated,
        keep=Keep(flows, hosts, ports),
        points=points,
        idle_timeout_s=idle_timeout_s,
        max_connections=max_connections,
    )
    if out is None:
        return reading.read_all(progress)
    with Folder(Path(out), FORMAT) as folder:
        reading.write_to(folder.work)
        save(reading.read_all(progress), folder, report=report)
    return Analysis.load(out)


def save(analysis: Analysis, folder: Folder, *, report: bool = True, details: int | None = None) -> None:
    """Adds the report to a folder that has the tables already, and gives the folder its name.

    Raises:
        ResultsError: it cannot be written.
    """
    if report:
        from airtcp.report import capture

        page = capture.html(analysis, capture.DETAILS if details is None else details)
        try:
            (folder.work / capture.PAGE).write_text(page, encoding="utf-8")
        except OSError as error:
            raise ResultsError(f"cannot write the report to {folder.path}: {error.strerror}") from error
    folder.publish(analysis.manifest)
