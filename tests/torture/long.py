"""`python -m tests.torture.long [--seed N] [--minutes M]`: the long tier. Prints its seed and its progress; the same
seed does the same things in the same order. Ends with a table, and with exit code 1 when something was lost."""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from tests.torture.crowd import Crowd, clear, overlaps, restore
from tests.torture.deeds import DEEDS
from tests.torture.harness import Rehearsal, asked, fail, faults_of, kill, kills_of, rehearse
from tests.torture.machine import Machine

RULES = (
    "new_session", "new_session", "grow", "grow", "note", "run", "run", "run", "clear", "forget_session", "forget_text",
    "restore", "restore", "jump", "crash", "crash", "crash",
)  # fmt: skip
PLAIN = frozenset({"new_session", "note", "run", "clear"})
STEPS = 25


@dataclass
class Tally:
    """What was tried, and what went wrong: kind -> count, and the stories of failures."""

    tried: Counter[str] = field(default_factory=Counter)
    outcomes: Counter[str] = field(default_factory=Counter)
    failed: list[str] = field(default_factory=list)

    def attempt(self, kind: str, name: str, what: Callable[[], str | None]) -> None:
        self.tried[kind] += 1
        try:
            said = what()
        except Exception as error:  # noqa: BLE001 - one failure must not end a night's work
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.failed.append(f"{kind}: {name}: {type(error).__name__} at {last.name}:{last.lineno}: {error}"[:2000])
            self.outcomes[f"{kind}: FAILED"] += 1
            _say(f"FAILED {self.failed[-1]}")
        else:
            self.outcomes[f"{kind}: {said or 'survived'}"] += 1


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="torture")
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "big"))
    parser.add_argument("--minutes", type=float, default=20.0)
    chosen = parser.parse_args(arguments)
    _say(f"seed {chosen.seed}, {chosen.minutes:g} minutes: make torture SEED={chosen.seed} MINUTES={chosen.minutes:g}")
    tally, end = Tally(), time.monotonic() + chosen.minutes * 60
    with tempfile.TemporaryDirectory(prefix="slowwave-torture-") as folder:
        work(Path(folder), chosen.seed, end, tally)
    for outcome, count in sorted(tally.outcomes.items()):
        _say(f"{count:6}  {outcome}")
    _say(f"bytes lost: {'see above' if tally.failed else 0}; seed {chosen.seed}; {sum(tally.tried.values())} tried")
    return 1 if tally.failed else 0


def work(folder: Path, seed: int, end: float, tally: Tally) -> None:
    """Kills and faults in an order the seed gives, with histories and crowds between them, until the time is over."""
    rehearsals: dict[str, Rehearsal] = {}
    for number, (name, deed) in enumerate(DEEDS.items()):
        rehearsals[name] = rehearse(folder / str(number), deed)
    chance = random.Random(seed)
    kills = [(name, where) for name, found in kills_of(rehearsals, long=True).items() for where in found]
    faults = [(name, fault) for name, found in faults_of(rehearsals, long=True).items() for fault in found]
    chance.shuffle(kills)
    chance.shuffle(faults)
    _say(f"{len(DEEDS)} deeds, {len(kills)} kills and {len(faults)} faults to choose from")
    told, turn = time.monotonic(), 0
    while time.monotonic() < end:
        name, where = kills[turn % len(kills)]
        tally.attempt("kill", f"{name} at {where}", partial(kill, folder / "w", rehearsals[name], where))
        name, fault = faults[turn % len(faults)]
        tally.attempt("fault", f"{name} with {fault}", partial(fail, folder / "w", rehearsals[name], fault))
        if turn % 10 == 0:
            tally.attempt("history", f"{seed}/{turn}", partial(history, folder / f"h{turn}", f"{seed}/{turn}"))
        if turn % 40 == 0:
            tally.attempt("crowd", f"seed {seed + turn}", partial(crowd, folder / f"c{turn}", seed + turn))
        turn += 1
        if time.monotonic() - told > 30:
            told = time.monotonic()
            left = max(0.0, end - told) / 60
            _say(f"{sum(tally.tried.values())} tried, {len(tally.failed)} failed, {left:.1f} minutes left")


def history(folder: Path, seed: str) -> None:
    """One random history of the machine."""
    chance = random.Random(seed)
    machine = Machine(folder)
    for _ in range(STEPS):
        rule = chance.choice(RULES)
        do = getattr(machine, rule)
        do() if rule in PLAIN else do(random.Random(chance.random()))
        machine.check()


def crowd(folder: Path, seed: int) -> None:
    """One crowd with clearing and restoring in it."""
    made = Crowd(folder, seed=seed, rounds=3, others=(clear, restore))
    world = made.run()
    twice = [boundary for boundary, count in asked(world).items() if count > 1]
    found = [*made.wrong, *(f"asked twice: {boundary}" for boundary in twice), *overlaps(world)]
    if found:
        raise AssertionError("; ".join(found))


def _say(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')}  {text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
