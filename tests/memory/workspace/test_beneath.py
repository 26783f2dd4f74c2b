"""Opening below a folder: both ways, and while somebody swaps folders for links."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory.workspace import beneath
from memory.workspace.beneath import kernel_opener, open_beneath, open_by_walk

WAYS = ["kernel", "walk"]


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    opener = kernel_opener() if request.param == "kernel" else open_by_walk
    if opener is None:
        pytest.skip("this kernel has no openat2")
    beneath.force(opener)
    yield str(request.param)
    beneath.force(None)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[int]:
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep/f").write_text("ours")
    (tmp_path / "out").mkdir()
    (tmp_path / "out/f").write_text("SECRET")
    (tmp_path / "in/link").symlink_to(tmp_path / "out")
    (tmp_path / "in/inner").symlink_to("deep")
    (tmp_path / "in/flink").symlink_to("deep/f")
    fd = os.open(tmp_path / "in", os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def read(folder: int, path: str) -> str:
    fd = open_beneath(folder, path, os.O_RDONLY)
    try:
        return os.read(fd, 100).decode()
    finally:
        os.close(fd)


@pytest.mark.usefixtures("way")
def test_a_plain_path_opens(folder: int) -> None:
    assert read(folder, "deep/f") == "ours"


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize(
    "path", ["link/f", "inner/f", "flink", "../out/f", "deep/../../out/f", "/etc/hostname", "deep/f/x", "", "a\0b"]
)
def test_no_link_and_no_way_up_opens(folder: int, path: str) -> None:
    with pytest.raises((OSError, ValueError)) as caught:
        read(folder, path)
    if isinstance(caught.value, OSError):
        assert caught.value.errno in {errno.ELOOP, errno.ENOTDIR, errno.EXDEV, errno.ENOENT, errno.EINVAL}


@pytest.mark.usefixtures("way")
def test_the_folder_itself_opens_as_a_dot(folder: int) -> None:
    os.close(open_beneath(folder, ".", os.O_RDONLY | os.O_DIRECTORY))


@pytest.mark.usefixtures("way")
def test_no_descriptor_is_lost(folder: int) -> None:
    descriptors = Path("/proc/self/fd")
    if not descriptors.exists():
        pytest.skip("this system does not list descriptors")
    before = len(list(descriptors.iterdir()))
    for path in ["deep/f", "link/f", "deep/none", "none/f"] * 5:
        with contextlib.suppress(OSError):
            read(folder, path)
    assert len(list(descriptors.iterdir())) == before


@pytest.mark.parametrize(
    ("system", "machine", "number"),
    [
        ("linux", "x86_64", 437),
        ("linux", "aarch64", 437),
        ("linux", "riscv64", 437),
        ("linux", "alpha", 547),
        ("linux", "mips64", None),
        ("linux", "pdp11", None),
        ("darwin", "arm64", None),
    ],
)
def test_the_call_is_made_only_where_its_number_is_known(system: str, machine: str, number: int | None) -> None:
    assert beneath.syscall_number(system, machine) == number


def naive(root: Path, path: str) -> str:
    """What we do not do: judge the real path, then open."""
    if not os.path.realpath(root / path).startswith(f"{root}{os.sep}"):
        return ""
    return (root / path).read_text()


@pytest.mark.usefixtures("way")
@pytest.mark.fault("X18")
def test_two_thousand_swaps_of_a_folder_for_a_link_let_no_read_escape(tmp_path: Path, folder: int) -> None:
    """The control, judging the real path and opening afterwards, does escape in the same race."""
    inside = (tmp_path / "in").resolve()
    held = inside / "swap"
    held.mkdir()
    (held / "f").write_text("ours")
    seen: set[str] = set()
    control: set[str] = set()
    stop = threading.Event()

    def swap() -> None:
        for round_number in range(20_000):
            held.rename(inside / "away")
            held.symlink_to(tmp_path / "out")
            held.unlink()
            (inside / "away").rename(held)
            if round_number >= 1_000 and "SECRET" in control:
                break
        stop.set()

    thread = threading.Thread(target=swap)
    thread.start()
    while not stop.is_set():
        with contextlib.suppress(OSError):
            seen.add(read(folder, "swap/f"))
        with contextlib.suppress(OSError):
            control.add(naive(inside, "swap/f"))
    thread.join()
    assert "SECRET" in control
    assert "SECRET" not in seen
    assert read(folder, "swap/f") == "ours"
