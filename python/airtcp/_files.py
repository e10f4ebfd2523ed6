"""Reading and writing files without surprises: no links, no half files, no end of memory, nothing that is not airtcp's.

What airtcp writes appears under its name when it is whole and on disk. The temporary name is new and random, so that
nothing that lies there already is opened. What airtcp reads must be a regular file of a bounded size.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
from contextlib import contextmanager

from airtcp.errors import NotOursError, ResultsError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO, Final

MAX_DOCUMENT_BYTES: Final = 64 << 20
"""Files that people write, and manifests: TOML and JSON."""

MAX_LINKS: Final = 40
"""As Linux has it."""

TEMPORARY: Final = re.compile(r"\..+\.[0-9a-f]{16}\.partial")
"""Names of files on their way; one that is there without a writer is a leftover."""


class OutsideError(OSError):
    """A file names something outside the folder that it came in."""


def within(root: Path, folder: Path, name: str) -> Path:
    """The real path of what a file names. Neither `..` nor a link leads out of `root`.

    Nothing out there is touched: a look at it might already mount a network file system.

    Args:
        root: folder that came as a whole, such as a study's.
        folder: that of the file that names it: `root`, or below it.
        name: relative to `folder`. Nothing needs to be there.

    Raises:
        OutsideError: it is an absolute path, or leads out.
        OSError: a link cannot be read.
    """
    outside = OutsideError(errno.EACCES, f"leads out of {root}: must be a relative path that stays there", name)
    if name.startswith("/") or "\0" in name:
        raise outside
    here = top = root.resolve()
    links = 0
    left = [*reversed(name.split("/")), *reversed(folder.relative_to(root).parts)]
    while left:
        part = left.pop()
        if part == "..":
            if here == top:
                raise outside
            here = here.parent
        elif (here / part).is_symlink():
            target = str((here / part).readlink())
            links += 1
            if target.startswith("/"):
                raise outside
            if links > MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name)
            left += reversed(target.split("/"))
        else:
            here /= part
    return root / here.relative_to(top)


def open_regular(path: Path | str) -> BinaryIO:
    """Opens a file to read it.

    Raises:
        OSError: it cannot be opened, or is no regular file (a device, a FIFO).
    """

    def check(found: os.stat_result) -> None:
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))

    # Before as well: to open some devices is to do something.
    check(os.stat(path))  # noqa: PTH116 -- pathlib takes longer to load than a short run
    # Opening a FIFO would wait for a writer.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb")
    try:
        check(os.fstat(file.fileno()))
    except OSError:
        file.close()
        raise
    return file


def read_bytes(path: Path | str, limit: int | None = MAX_DOCUMENT_BYTES) -> bytes:
    """All of a regular file.

    Raises:
        OSError: it cannot be read, is no regular file (a device, a FIFO), or is larger than `limit` bytes.
    """
    with open_regular(path) as file:
        if limit is None:
            return file.read()
        data = file.read(limit + 1)
    if len(data) > limit:
        raise OSError(errno.EFBIG, f"larger than {limit >> 20} MiB", str(path))
    return data


def fault_of_input(path: str | os.PathLike[str]) -> str | None:
    """Why something is no file to be read: a pipe would be waited for, a device may never end. `None`: it may be."""
    try:
        mode = os.stat(path).st_mode  # noqa: PTH116 -- pathlib takes longer to load than a short run
    except (OSError, ValueError):
        return None  # who opens it tells
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    return f"{path}: is not a regular file (a scenario from a pipe: airtcp run - reads standard input)"


def write_temporary(path: Path, data: bytes) -> Path:
    """Writes a new file beside `path`, for a rename; it is on disk when this returns.

    Raises:
        OSError: it cannot be written; nothing is left.
    """
    work = path.with_name(f".{path.name}.{os.urandom(8).hex()}.partial")
    handle = os.open(work, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
    try:
        try:
            write_all(handle, data)
            # Some file systems only find out here that they are full.
            os.fsync(handle)
        finally:
            os.close(handle)
    except BaseException:
        work.unlink(missing_ok=True)
        raise
    return work


def write_bytes(path: Path, data: bytes) -> None:
    """Writes a file: a reader finds the old one or the new one, never half of one. A link there is replaced.

    Raises:
        OSError: it cannot be written; what was there before still is.
    """
    try:
        is_special = not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        is_special = False
    if is_special and not path.is_symlink():
        if path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        # A device or a pipe: it takes what it is given, and is not replaced.
        handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
        try:
            write_all(handle, data)
        finally:
            os.close(handle)
        return
    work = write_temporary(path, data)
    try:
        work.replace(path)
    except OSError:
        work.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_all(handle: int, data: bytes) -> None:
    """All of it, however many calls that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def sync_folder(folder: Path) -> None:
    """The names in a folder are on disk as well."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    except OSError as error:
        # Some network file systems cannot do this for folders.
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(handle)


def open_own(path: Path, flags: int) -> int:
    """Opens a file in a folder of airtcp: a regular file, no link to one.

    Raises:
        NotOursError: it is something else.
        OSError: it cannot be opened.
    """
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.EMLINK) or path.is_symlink():
            raise NotOursError(f"{path} is a link: airtcp writes no links (nothing was touched)") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise NotOursError(f"{path} is not a regular file: airtcp did not write it (it was not touched)")
    return handle


def own_folder(folder: Path) -> None:
    """Makes a folder below one of airtcp's, if it is not there.

    Raises:
        NotOursError: a link or a file is there.
        OSError: it cannot be made.
    """
    try:
        folder.mkdir()
    except FileExistsError:
        if not stat.S_ISDIR(folder.lstat().st_mode):
            raise NotOursError(f"{folder} is a link or a file: airtcp did not write it (it was not touched)") from None


def lock_folder(folder: Path, *, wait: bool) -> int | None:
    """Takes the lock of a folder itself; it goes when the handle is closed or its process ends.

    Returns:
        The handle; `None` if another process has it and `wait` is false.
    """
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(handle)
        if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
            return None
        raise OSError(error.errno, f"this file system cannot lock folders ({error.strerror})", str(folder)) from error
    return handle


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else changes the folder's list of files meanwhile."""
    try:
        handle = lock_folder(folder.resolve(), wait=True)
    except OSError as error:
        raise ResultsError(f"{folder}: cannot be locked: {error.strerror}") from error
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


_EXCHANGE: Final = 2
_HERE: Final = -100


def exchange(a: Path, b: Path) -> bool:
    """Two names change places in one step, as Linux can do (renameat2(2)); false where that is not possible.

    Raises:
        OSError: of another kind.
    """
    import ctypes  # only here: a short run does not wait for it

    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    if call(_HERE, os.fsencode(a), _HERE, os.fsencode(b), _EXCHANGE) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP):
        return False
    raise OSError(number, os.strerror(number), str(b))
