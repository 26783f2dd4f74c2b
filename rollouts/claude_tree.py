"""Which records of a Claude Code transcript still hold: the tree of `uuid` and `parentUuid`.

The file is a log of appended records. A rewind leaves the records behind that it took back. Yet most forks are no
rewinds: parallel tool calls fork, hooks and progress hang at the side, two terminals may write into one session,
and a missing parent starts a tree of its own. Only a human turn that was replaced, or an answer that was made anew,
is abandoned; what cannot be told stays.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from enum import Enum, auto


class NodeKind(Enum):
    HUMAN = auto()
    ASSISTANT = auto()
    RESULT = auto()
    OTHER = auto()


@dataclass(slots=True)
class Node:
    """One record of the main chain. `begin` and `end` bound its drafts; `message` is the assistant's message id."""

    uuid: str
    parent: str | None
    kind: NodeKind
    begin: int
    end: int
    message: str | None = None
    top: bool = False
    """Whether the record says itself that it has no parent."""


class Tree:
    """Add the nodes in file order, then ask for the `abandoned` ones."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self._index: dict[str, int] = {}

    def __contains__(self, uuid: str) -> bool:
        return uuid in self._index

    def add(self, node: Node) -> None:
        """A node whose uuid is new."""
        self._index[node.uuid] = len(self.nodes)
        self.nodes.append(node)

    def abandoned(self) -> list[Node]:
        """Nodes on branches that were left, in file order."""
        nodes = self.nodes
        parents = [self._index.get(node.parent, -1) if node.parent else -1 for node in nodes]
        roots = _roots(parents)
        on_path, next_on_path = self._paths(parents, roots)
        kept = self._keep(parents, on_path, next_on_path)
        for root in self._replaced_roots(parents, roots):
            for number, its_root in enumerate(roots):
                if its_root == root:
                    kept[number] = False
        return [node for node, stays in zip(nodes, kept, strict=True) if not stays]

    def _paths(self, parents: list[int], roots: list[int]) -> tuple[list[bool], dict[int, int]]:
        """For each tree the way from its last spoken record to its root, and each one's successor on that way."""
        leaves: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            if node.kind is not NodeKind.OTHER or roots[number] not in leaves:
                leaves[roots[number]] = number
        on_path = [False] * len(self.nodes)
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
        messages = {node.message for node, on in zip(self.nodes, on_path, strict=True) if on and node.message}
        spoken_on_path = [n for n, on in enumerate(on_path) if on and self.nodes[n].kind is not NodeKind.OTHER]
        last_spoken = self._last_spoken(parents)
        pending = [number for number, on in enumerate(on_path) if not on]
        # Parents stand before their children in nearly every file; a second round settles the others.
        for _ in range(2):
            for number in pending:
                if kept[number]:
                    continue
                node, parent = self.nodes[number], parents[number]
                if node.message is not None and node.message in messages:
                    kept[number] = True
                elif parent < 0 or not kept[parent]:
                    continue
                elif node.kind in {NodeKind.RESULT, NodeKind.OTHER} or parent not in successor:
                    kept[number] = True
                else:
                    later = self.nodes[successor[parent]].kind
                    replaced = later is NodeKind.OTHER or later is node.kind
                    kept[number] = not replaced or _woven(number, last_spoken[number], spoken_on_path)
        return kept

    def _last_spoken(self, parents: list[int]) -> list[int]:
        """For each node the last record spoken in its subtree."""
        last = [n if node.kind in {NodeKind.HUMAN, NodeKind.ASSISTANT} else -1 for n, node in enumerate(self.nodes)]
        for number in range(len(parents) - 1, -1, -1):
            parent = parents[number]
            if 0 <= parent < number:
                last[parent] = max(last[parent], last[number])
        return last

    def _replaced_roots(self, parents: list[int], roots: list[int]) -> list[int]:
        """Trees begun by a person and replaced by another such tree: a rewind to the very first prompt.

        A tree of a single record proves nothing (some writers link none).
        """
        linked = {roots[number] for number, parent in enumerate(parents) if parent >= 0}
        begun = [
            number
            for number, parent in enumerate(parents)
            if parent < 0 and self.nodes[number].top and self.nodes[number].kind is NodeKind.HUMAN and number in linked
        ]
        return begun[:-1]


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
