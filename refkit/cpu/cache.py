"""Machine code on disk: a kernel is compiled once per machine; entries are keyed by all that decides their content.

An entry that is damaged, or that another version wrote, is as good as none. Writers never share a file: each entry is
written under a name of its own and moved into place, so that runs side by side cannot disturb each other.
"""

import contextlib
import fcntl
import hashlib
import os
import pickle
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_MAGIC = b"refkit-cache-1\n"
_MOST_BYTES = 512 * 1024 * 1024


def directory() -> Path | None:
    """Where entries lie: `$REFKIT_CACHE_DIR`, else `refkit` in the user's cache folder; None where none can be made."""
    named = os.environ.get("REFKIT_CACHE_DIR")
    base = Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "refkit"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return base if os.access(base, os.W_OK) else None


def key(*parts: str | bytes) -> str:
    """A name for what the parts decide."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def fetch(name: str, make: Callable[[], Any]) -> Any:
    """The entry's value, from disk or made and stored: bytes, numbers, strings, or tuples and dicts of them."""
    base = directory()
    if base is None:
        return make()
    path = base / name[:2] / name
    value = _read(path)
    if value is None:
        value = make()
        _write(path, value)
        _trim(base)
    return value


def fetch_once(name: str, make: Callable[[], Any]) -> Any:
    """`fetch` of an entry that is worth waiting for: while another process makes it, this one does not."""
    if holds(name):
        return fetch(name, make)
    with only_here(name):
        return fetch(name, make)


def holds(name: str) -> bool:
    """Whether there is an entry."""
    base = directory()
    return base is not None and (base / name[:2] / name).exists()


@contextlib.contextmanager
def only_here(name: str, *, wait: bool = True) -> Iterator[bool]:
    """Inside, this thread alone makes an entry, of all processes; gives whether it is so, False only without `wait`.

    The lock ends with its process, however that ends. Where files cannot be locked everyone is alone.
    """
    base = directory()
    handle = None
    try:
        alone = True
        try:
            if base is not None:
                (base / "locks").mkdir(exist_ok=True)
                handle = os.open(base / "locks" / name, os.O_CREAT | os.O_RDWR, 0o666)
                fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            alone = False
        except OSError:
            pass
        yield alone
    finally:
        if handle is not None:
            os.close(handle)


def _read(path: Path) -> Any:
    try:
        data = path.read_bytes()
    except OSError:
        return None
    header = len(_MAGIC) + 32
    body = data[header:]
    if not data.startswith(_MAGIC) or hashlib.sha256(body).digest() != data[len(_MAGIC) : header]:
        return None
    with contextlib.suppress(OSError):
        os.utime(path)
    return pickle.loads(body)  # the checksum holds: refkit wrote it


def _write(path: Path, value: Any) -> None:
    body = pickle.dumps(value, protocol=5)
    try:
        path.parent.mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + hashlib.sha256(body).digest() + body)
        os.replace(temporary, path)
    except OSError:
        return  # a full or read-only disk costs time, not results


def _trim(base: Path) -> None:
    """Drops the entries used longest ago where the cache is past its size; looked at on one write in a hundred."""
    if os.urandom(1)[0] >= 3:
        return
    with contextlib.suppress(OSError):
        entries = sorted(
            (entry for entry in base.glob("??/*") if entry.is_file()), key=lambda entry: entry.stat().st_mtime
        )
        total = sum(entry.stat().st_size for entry in entries)
        for entry in entries:
            if total <= _MOST_BYTES:
                break
            total -= entry.stat().st_size
            entry.unlink(missing_ok=True)
