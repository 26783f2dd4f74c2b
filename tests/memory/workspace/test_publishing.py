"""Publishing a summary: its form, one writer at a time, whole texts for readers, and faults of the disk."""

from __future__ import annotations

import errno
import itertools
import threading
from collections.abc import Callable

import pytest

from memory.errors import InputsChangedError, StorageError, WorkspaceError
from memory.workspace import Verdict, Workspace
from memory.workspace.healing import decide
from memory.workspace.layout import sha256_text
from memory.workspace.testing import FaultySyscalls, disk


@pytest.mark.req("Z046", "Z101")
def test_a_summary_of_9999_bytes_is_published_and_one_of_10000_is_not(workspace: Workspace) -> None:
    good = "v1\n" + "记" * 3_332
    assert len(good.encode()) == 9_999
    workspace.install_summary(good, None)
    with pytest.raises(WorkspaceError, match="10,000 bytes"):
        workspace.install_summary(good + "x", sha256_text(good))
    assert workspace.summary() == good


@pytest.mark.req("Z047")
@pytest.mark.parametrize("text", ["V1\n", " v1\n", "\ufeffv1\n", "\nv1\n", "v1", "v10\n", "v1 \n", "", "v1\r\n"])
def test_a_summary_that_does_not_begin_with_v1_is_not_published(workspace: Workspace, text: str) -> None:
    with pytest.raises(WorkspaceError):
        workspace.install_summary(text, None)
    assert workspace.summary() is None


@pytest.mark.req("Z103")
def test_a_summary_is_replaced_only_if_it_is_still_the_expected_one(workspace: Workspace) -> None:
    first = workspace.install_summary("v1\none\n", None)
    second = workspace.install_summary("v1\ntwo\n", first)
    for stale in (None, first, "0" * 64):
        with pytest.raises(InputsChangedError):
            workspace.install_summary("v1\nthree\n", stale)
    assert workspace.summary_sha() == second == sha256_text("v1\ntwo\n")


def test_of_many_writers_with_the_same_expectation_exactly_one_publishes(workspace: Workspace) -> None:
    workspace.install_summary("v1\n", None)
    base, won, gate = workspace.summary_sha(), [], threading.Barrier(8)

    def publish(number: int) -> None:
        gate.wait()
        try:
            workspace.install_summary(f"v1\n{number}\n", base)
            won.append(number)
        except InputsChangedError:
            pass

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [workspace.summary()] == [f"v1\n{number}\n" for number in won]


@pytest.mark.req("Z105")
def test_readers_that_never_stop_see_two_hundred_publishes_as_whole_texts_in_order(workspace: Workspace) -> None:
    texts = [f"v1\n{number:03}\n" + f"{number:03} 记忆\n" * 700 for number in range(201)]
    order = {text: number for number, text in enumerate(texts)}
    workspace.install_summary(texts[0], None)
    stop = threading.Event()
    seen: list[list[int]] = [[], []]

    def poll(mine: list[int], read: Callable[[], str | None]) -> None:
        while not stop.is_set():
            text = read()
            mine.append(-1 if text is None else order.get(text, -2))

    readers = [
        threading.Thread(target=poll, args=(seen[0], workspace.summary)),
        threading.Thread(target=poll, args=(seen[1], lambda: workspace.summary_path.read_bytes().decode())),
    ]
    for reader in readers:
        reader.start()
    for before, after in itertools.pairwise(texts):
        workspace.install_summary(after, sha256_text(before))
    stop.set()
    for reader in readers:
        reader.join()
    for mine in seen:
        assert len(mine) > 20
        assert min(mine) >= 0
        assert mine == sorted(mine)


@pytest.mark.req("Z103")
@pytest.mark.fault("O41")
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EIO], ids=errno.errorcode.get)
def test_whichever_call_fails_a_publish_raises_and_the_hash_tells_what_stands(workspace: Workspace, code: int) -> None:
    old, new = "v1\nold\n", "v1\nnew\n"
    workspace.install_summary(old, None)
    counting = FaultySyscalls()
    with disk(counting):
        workspace.install_summary(new, sha256_text(old))
    for name, count in counting.calls.items():
        for nth in range(1, count + 1):
            current = workspace.summary_sha()
            if current != sha256_text(old):
                workspace.install_summary(old, current)
            with disk(FaultySyscalls(name, nth, code)), pytest.raises(StorageError):
                workspace.install_summary(new, sha256_text(old))
            verdict = decide(workspace.summary_sha(), sha256_text(old), sha256_text(new))
            assert verdict is (Verdict.FINISH if (name, nth) == ("fsync", 2) else Verdict.UNDO), (name, nth)
            assert not [p for p in workspace.root.iterdir() if p.name.startswith(".tmp")]
