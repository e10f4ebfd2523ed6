"""Who carries out the runs of a sweep: worker processes or threads here, or a Dask cluster.

An executor takes tasks and hands back outcomes as they come. It keeps nothing and decides nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from airtcp.errors import ExecutorError

if TYPE_CHECKING:
    from airtcp.tasks.task import Outcome, Task


@runtime_checkable
class Executor(Protocol):
    """Carries out tasks, several at a time."""

    @property
    def slots(self) -> int:
        """Tasks at a time."""

    def run(self, next_task: Callable[[], Task | None], is_stopped: Callable[[], bool]) -> Iterator[list[Outcome]]:
        """Carries out tasks until there are none left.

        Every task leads to one outcome, also when it fails. Closing the iterator gives up what is under way.

        Args:
            next_task: gives the next task, or `None` when all are handed out.
            is_stopped: when it says so, no further task is begun and those under way are given up.

        Yields:
            What has finished since the last time; an empty list several times a second, so that the caller can look
            after other things.

        Raises:
            ExecutorError: the executor itself fails.
        """


def executor_of(address: object, jobs: int | None = None, memory_limit: int | None = None) -> Executor:
    """The executor that is meant.

    Args:
        address: `None`: worker processes here; `"threads"`: threads here; `"dask://HOST:PORT"`,
            `"dask+tls://HOST:PORT"`, `"dask://SCHEDULER_FILE"`, or a `distributed.Client`. Whoever controls the
            cluster can run programs as this user.
        jobs: tasks at a time, here; by default one per core.
        memory_limit: bytes that a run may take, for worker processes; by default what the machine has.

    Raises:
        ExecutorError: nothing is known by that address, or nothing answers there.
    """
    if address is None:
        from airtcp.executors.local import LocalExecutor

        return LocalExecutor(jobs, memory_limit)
    if address == "threads":
        from airtcp.executors.threads import ThreadExecutor

        return ThreadExecutor(jobs)
    if isinstance(address, str):
        scheme, _, place = address.partition("://")
        if scheme not in ("dask", "dask+tls") or not place:
            raise ExecutorError(
                f"--executor {address}: must be dask://HOST:PORT, dask+tls://HOST:PORT, dask:// and the path of a "
                f"scheduler file, or threads"
            )
        from airtcp.executors.dask import DaskExecutor

        return DaskExecutor.connect(place, tls=scheme == "dask+tls")
    if hasattr(address, "scheduler_info"):
        from airtcp.executors.dask import DaskExecutor

        return DaskExecutor(address)
    if isinstance(address, Executor):
        return address
    raise ExecutorError(
        f"{address!r} is not an executor: give an address such as dask://HOST:PORT, or a distributed.Client"
    )


def unprotected(address: str | None) -> str | None:
    """A warning if an address of a cluster is on a network, without TLS; else `None`."""
    scheme, _, place = (address or "").partition("://")
    if scheme != "dask":
        return None
    if ":" not in place or "/" in place:
        import json
        from contextlib import suppress
        from pathlib import Path

        url = ""
        with suppress(OSError, ValueError, AttributeError):
            url = str(json.loads(Path(place).read_text(encoding="utf-8")).get("address", ""))
        protocol, _, place = url.partition("://")
        if protocol in ("", "tls", "wss", "inproc"):
            return None
    host = place.rpartition(":")[0].strip("[]")
    if _is_loopback(host):
        return None
    return (
        f"the connection to {host} is not protected: whoever is between can run programs as you. "
        f"dask+tls://HOST:PORT is (docs/cluster.md)"
    )


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


__all__ = ["Executor", "ExecutorError", "executor_of", "unprotected"]
