"""Opening a path below a directory so that no link and no `..` can lead out of it, even while others rename.

On Linux the kernel does it in one step (`openat2`); elsewhere, and where a sandbox forbids that call, every
component is opened by hand, relative to the descriptor of the one before, without following links. Comparing real
paths first and opening afterwards is not an alternative: between the two steps a directory can become a link.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Callable
from functools import cache

RESOLVE_NO_MAGICLINKS = 0x02
RESOLVE_NO_SYMLINKS = 0x04
RESOLVE_BENEATH = 0x08
_RESOLVE = RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH

_ALWAYS = os.O_CLOEXEC | os.O_NOFOLLOW | getattr(os, "O_NOCTTY", 0)
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | _ALWAYS
_RETRIES = 64

# The calls added since Linux 5.0 have one number everywhere but on these.
_COMMON_NUMBER = 437
_SYSCALL_NUMBERS = {
    **dict.fromkeys(
        ("x86_64", "amd64", "i386", "i486", "i586", "i686", "aarch64", "arm64", "armv6l", "armv7l", "armv8l"),
        _COMMON_NUMBER,
    ),
    **dict.fromkeys(("riscv64", "riscv32", "ppc", "ppc64", "ppc64le", "s390", "s390x", "loongarch64"), _COMMON_NUMBER),
    "alpha": 110 + _COMMON_NUMBER,
}

Opener = Callable[[int, str, int, int], int]
"""(directory descriptor, relative path, flags, mode) -> descriptor; raises OSError."""


class _OpenHow(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def syscall_number(system: str, machine: str) -> int | None:
    """The number of `openat2`; None where the call is unknown, so that the walk is used."""
    return _SYSCALL_NUMBERS.get(machine.lower()) if system == "linux" else None


def open_by_walk(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Component by component. A link gives ELOOP or ENOTDIR, a path that would leave the folder EXDEV."""
    parts = path.split("/")
    if any(part in {"", ".."} for part in parts) or (len(parts) > 1 and "." in parts):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), path)
    here = folder
    try:
        for part in parts[:-1]:
            there = os.open(part, _FOLDER, dir_fd=here)
            if here != folder:
                os.close(here)
            here = there
        return os.open(parts[-1], flags | _ALWAYS, mode, dir_fd=here)
    finally:
        if here != folder:
            os.close(here)


def _openat2(number: int) -> Opener:
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_int, ctypes.c_char_p, ctypes.POINTER(_OpenHow), ctypes.c_size_t)

    def open_in_kernel(folder: int, path: str, flags: int, mode: int = 0) -> int:
        """EAGAIN means that a directory was renamed meanwhile and the kernel could not be sure: ask again."""
        name = os.fsencode(path)
        if b"\0" in name:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        how = _OpenHow(flags | _ALWAYS, mode if flags & os.O_CREAT else 0, _RESOLVE)
        code = 0
        for _ in range(_RETRIES):
            found = int(call(number, folder, name, ctypes.byref(how), ctypes.sizeof(how)))
            if found >= 0:
                return found
            code = ctypes.get_errno()
            if code not in {errno.EAGAIN, errno.EINTR}:
                break
        raise OSError(code, os.strerror(code), path)

    return open_in_kernel


@cache
def kernel_opener() -> Opener | None:
    """`openat2` where this kernel and its sandbox let us use it."""
    number = syscall_number(sys.platform, platform.machine())
    if number is None:
        return None
    try:
        opener = _openat2(number)
        root = os.open("/", _FOLDER)
    except (OSError, AttributeError):
        return None
    try:
        os.close(opener(root, ".", _FOLDER, 0))
    except OSError:  # ENOSYS, EPERM from an old seccomp filter, EINVAL, E2BIG: all mean "not here"
        return None
    finally:
        os.close(root)
    return opener


_forced: Opener | None = None


def force(opener: Opener | None) -> None:
    """Tests choose the way; None lets the machine decide again."""
    global _forced
    _forced = opener


def open_beneath(folder: int, path: str, flags: int, mode: int = 0) -> int:
    """Opens `path` (relative, `.` for the folder itself) below the descriptor `folder`, never following a link.

    Raises OSError: ELOOP or ENOTDIR for links, EXDEV for anything that would leave the folder.
    """
    opener = _forced or kernel_opener() or open_by_walk
    return opener(folder, path, flags, mode)
