"""Which records of a Claude Code transcript still hold: the tree of `uuid` and `parentUuid`.

The file is a log of appended records. A rewind leaves the records behind that it took back. Yet most forks are no
rewinds: parallel tool calls fork, hooks and progress hang at the side, two terminals may write into one session,
and a missing parent starts a tree of its own. Only a human turn that was replaced, or an answer that was made anew,
is abandoned; what cannot be told stays.
"""

from __future__ import annotations

from bisect import bisect_right
from enum import Enum, auto


class NodeKind(Enum):
    HUMAN = auto()
    ASSISTANT = auto()
    RESULT = auto()
    OTHER = auto()


class Tree:
    """Add the records of the main chain in file order, then ask for the `abandoned` ones."""

    def __init__(self) -> None:
        self._index: dict[str, int] = {}
        self._rows: list[tuple[str | None, NodeKind, int, int, str | None]] = []
        self._parents: list[str | None] = []
        self._kinds: list[NodeKind] = []
        self._messages: list[str | None] = []

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._index

    def add(
        self, uuid: str, parent: str | None, kind: NodeKind, begin: int, end: int, message: str | None = None
    ) -> None:
        """A record whose uuid is new. `begin` and `end` bound its drafts; `message` is an assistant's message id."""
        rows = self._rows
        self._index[uuid] = len(rows)
        rows.append((parent, kind, begin, end, message))

    def abandoned(self) -> list[tuple[int, int]]:
        """Bounds of the drafts on branches that were left, in file order."""
        index = self._index
        self._parents = [row[0] for row in self._rows]
        self._kinds = [row[1] for row in self._rows]
        self._messages = [row[4] for row in self._rows]
        parents = [index.get(parent, -1) if parent else -1 for parent in self._parents]
        roots = _roots(parents)
        on_path, successor = self._paths(parents, roots)
        kept = on_path if all(on_path) else self._keep(parents, on_path, successor)
        replaced = self._replaced_roots(parents, roots)
        if replaced:
            kept = [stays and root not in replaced for stays, root in zip(kept, roots, strict=True)]
        return [row[2:4] for row, stays in zip(self._rows, kept, strict=True) if not stays and row[2] < row[3]]

    def _paths(self, parents: list[int], roots: list[int]) -> tuple[list[bool], dict[int, int]]:
        """For each tree the way from its last spoken record to its root, and each one's successor on that way."""
        leaves: dict[int, int] = {}
        for number, (kind, root) in enumerate(zip(self._kinds, roots, strict=True)):
            if kind is not NodeKind.OTHER or root not in leaves:
                leaves[root] = number
        on_path = [False] * len(parents)
        successor: dict[int, int] = {}
        for leaf in leaves.values():
            number = leaf
            while number >= 0 and not on_path[number]:
                on_path[number] = True
                if parents[number] >= 0:
                    successor[parents[number]] = number
                number = parents[number]
        return on_path, successor

    def _keep(self, parents: list[int], on_path: list[bool], successor: dict[int, int]) -> list[bool]:
        kept = list(on_path)
        kinds = self._kinds
        messages = {message for message, on in zip(self._messages, on_path, strict=True) if on and message}
        spoken_on_path = [n for n, on in enumerate(on_path) if on and kinds[n] is not NodeKind.OTHER]
        last_spoken = self._last_spoken(parents)
        pending = [number for number, on in enumerate(on_path) if not on]
        # Parents stand before their children in nearly every file; a second round settles the others.
        for _ in range(2):
            for number in pending:
                parent, kind = parents[number], kinds[number]
                if kept[number]:
                    continue
                if self._messages[number] in messages:
                    kept[number] = True
                elif parent < 0 or not kept[parent]:
                    continue
                elif kind in {NodeKind.RESULT, NodeKind.OTHER} or parent not in successor:
                    kept[number] = True
                else:
                    later = kinds[successor[parent]]
                    replaced = later is NodeKind.OTHER or later is kind
                    kept[number] = not replaced or _woven(number, last_spoken[number], spoken_on_path)
        return kept

    def _last_spoken(self, parents: list[int]) -> list[int]:
        """For each node the last record spoken in its subtree."""
        speakers = {NodeKind.HUMAN, NodeKind.ASSISTANT}
        last = [number if kind in speakers else -1 for number, kind in enumerate(self._kinds)]
        for number in range(len(parents) - 1, -1, -1):
            parent = parents[number]
            if 0 <= parent < number:
                last[parent] = max(last[parent], last[number])
        return last

    def _replaced_roots(self, parents: list[int], roots: list[int]) -> set[int]:
        """Trees begun by a person and replaced by another such tree: a rewind to the very first prompt.

        A tree of a single record proves nothing (some writers link none).
        """
        begun = [
            number
            for number, parent in enumerate(parents)
            if parent < 0 and self._parents[number] is None and self._kinds[number] is NodeKind.HUMAN
        ]
        if len(begun) < 2:
            return set()
        linked = {root for root, parent in zip(roots, parents, strict=True) if parent >= 0}
        return set([number for number in begun if number in linked][:-1])


def _roots(parents: list[int]) -> list[int]:
    """The root of each node; a circle counts as rooted where it is entered."""
    roots = [-1] * len(parents)
    for number in range(len(parents)):
        way: list[int] = []
        at = number
        while roots[at] < 0:
            roots[at] = at  # provisional: ends a circle
            way.append(at)
            if parents[at] < 0:
                break
            at = parents[at]
        root = roots[at]
        for step in way:
            roots[step] = root
    return roots


def _woven(first: int, last: int, spoken_on_path: list[int]) -> bool:
    """Whether the kept branch was spoken on while this one was: two terminals, not a rewind."""
    return bisect_right(spoken_on_path, last) > bisect_right(spoken_on_path, first)
