"""A whole store with session files, in which everything can be done, killed and looked at."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from consolidate.service import LongMemory
from flows import pipeline
from memory import failpoints
from memory.clock import Clock
from memory.documents import claims
from memory.model import RolloutId
from memory.redact import Redactor
from memory.runtime import Runtime
from memory.settings import RedactSettings, Settings, load
from memory.state import Ledger, Store
from memory.testing import FrozenClock
from memory.tokens import TokenCounter
from memory.workspace import Workspace
from recall import doctor
from tests.torture.lines import LineModel, nothing, said_in

BEGAN = datetime(2026, 11, 20, 9, 0, tzinfo=UTC)
FOLDERS = ("home", "sessions")
STATE = "state.url"
"""A file of a world's folder that names the server its state lies on; without it the state lies in the home."""
LEASE_SECONDS = 3_600
"""Longer than every lease of the default settings."""


@cache
def redactor() -> Redactor:
    """Compiled once for all worlds of this process."""
    return Redactor(RedactSettings(), quick=True)


@cache
def tokens() -> TokenCounter:
    return TokenCounter()


@dataclass
class World:
    """`folder` holds `home`, `sessions` and the model's log. `said` is what each session holds, in order."""

    folder: Path
    clock: Clock = field(default_factory=lambda: FrozenClock(BEGAN))
    seconds: float = 0.0
    during: Callable[[], None] = nothing
    runs: int = 0
    store: Store | None = None

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def sessions(self) -> Path:
        return self.folder / "sessions"

    @property
    def log(self) -> Path:
        return self.folder / "model.log"

    @property
    def frozen(self) -> FrozenClock:
        assert isinstance(self.clock, FrozenClock)
        return self.clock

    # -- what people and hosts do

    def say(self, name: str, *lines: str, at: datetime | None = None) -> RolloutId:
        """Appends what a person says to the session `generic:<name>`, begun where there is none, now or `at`."""
        path, moment = self.sessions / f"{name}.jsonl", at or self.clock.now()
        self.sessions.mkdir(parents=True, exist_ok=True)
        events: list[dict[str, Any]] = []
        if not path.exists():
            head = {"type": "session", "id": name, "host_name": "test", "started": _iso(moment, name)}
            events.append({**head, "cwd": f"/home/dev/{name[:1]}"})
        for place, line in enumerate(lines):
            time = _iso(moment + timedelta(milliseconds=place), name)
            events.append({"type": "event", "role": "user", "text": line, "time": time})
        with path.open("a", encoding="utf-8") as file:
            file.write("".join(json.dumps(event) + "\n" for event in events))
        os.utime(path, (moment.timestamp(), moment.timestamp()))
        return RolloutId.parse(f"generic:{name}")

    def rewrite(self, name: str, *lines: str) -> RolloutId:
        """The session begins anew: another file under the same id."""
        (self.sessions / f"{name}.jsonl").unlink()
        return self.say(name, *lines)

    # -- what slowwave does

    def settings(self, **sections: dict[str, Any]) -> Settings:
        values: dict[str, dict[str, Any]] = {
            "memory": {"mode": "long"},
            "rollouts": {"hosts": ("generic",), "generic_roots": (self.sessions,)},
            "extract": {"idle_hours": 0, "max_age_days": 36_500, "batch": 100},
            "consolidate": {"unused_days": 36_500, "versions": 2, "cooldown_minutes": 0},
        }
        if (self.folder / STATE).exists():
            values["state"] = {"url": (self.folder / STATE).read_text(encoding="utf-8")}
        for section, keys in sections.items():
            values.setdefault(section, {}).update(keys)
        environment = {"SLOWWAVE_HOME": str(self.home), "HOME": str(self.folder)}
        return load(environ=environment, overrides=values)

    @contextmanager
    def opened(self, **sections: dict[str, Any]) -> Iterator[Runtime]:
        """As a new process would open it; nothing is recovered yet."""
        if self.store is not None and not sections:
            yield self._runtime(self.store, self.store.settings)
            return
        settings = self.settings(**sections)
        with Store.open(settings, self.clock) as store:
            yield self._runtime(store, settings)

    @contextmanager
    def held_open(self) -> Iterator[None]:
        """One opening for everything in the block: saves time where what is looked at is not the opening."""
        with Store.open(self.settings(), self.clock) as self.store:
            try:
                yield
            finally:
                self.store = None

    def _runtime(self, store: Store, settings: Settings) -> Runtime:
        self.runs += 1
        run_id = f"run-{os.getpid()}-{self.runs}-{os.urandom(2).hex()}"
        model = LineModel(self.log, self.seconds, self.during)
        return Runtime(
            settings=settings,
            clock=self.clock,
            store=store,
            workspace=Workspace.open(settings.home, store.generation),
            extract_model=model,
            consolidate_model=model,
            meter=Ledger(store, settings.budget, self.clock, run_id),
            tokens=tokens(),
            run_id=run_id,
            owner=f"test:{run_id}",
            redactor=redactor(),
        )

    @contextmanager
    def memory(self) -> Iterator[LongMemory]:
        """The service after recovery, as every command has it."""
        with self.opened() as runtime:
            service = LongMemory(runtime)
            service.recover()
            yield service

    def run(self, options: pipeline.Options = pipeline.NOTHING, **sections: dict[str, Any]) -> pipeline.RunReport:
        with self.opened(**sections) as runtime:
            return asyncio.run(pipeline.run(runtime, options))

    # -- what can be seen

    def summary(self) -> str:
        with self.opened() as runtime:
            return runtime.workspace.summary() or ""

    def lines(self) -> set[str]:
        """The lines of the confirmed summary without their citations."""
        return {claim.text for claim in claims(self.summary())}

    def answers(self, kind: str = "extract") -> list[tuple[str, ...]]:
        """The model's log: (pid, what, ...) of one kind, in order."""
        if not self.log.exists():
            return []
        entries = [tuple(line.split()) for line in self.log.read_text(encoding="utf-8").splitlines()]
        return [entry[1:] for entry in entries if entry[0] == kind]

    def traces(self, text: str) -> list[Path]:
        """Files of the home that hold a text, compressed git objects included."""
        return [path for path in self.files(self.home) if text.encode() in _readable(path)]

    @staticmethod
    def files(folder: Path) -> list[Path]:
        return sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())

    def fingerprint(self) -> dict[str, str]:
        """Hash of every session file and every input of the workspace."""
        roots = [self.sessions, *self.home.glob("generations/*/memories_v2/rollout_summaries")]
        roots += self.home.glob("generations/*/memories_v2/extensions")
        return {
            str(path.relative_to(self.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for root in roots
            for path in self.files(root)
            if not path.name.startswith(".tmp-")
        }


def _iso(moment: datetime, name: str) -> str:
    """Equal talk at equal times is a copy: every session has microseconds of its own."""
    offset = int(hashlib.sha256(name.encode()).hexdigest()[:4], 16) % 900
    return (moment + timedelta(microseconds=offset)).isoformat()


def _readable(path: Path) -> bytes:
    import zlib

    data = path.read_bytes()
    if "objects" in path.parts:
        try:
            return zlib.decompress(data)
        except zlib.error:
            return data
    return data


# -- what must be true ---------------------------------------------------------------------------------


def complaints(runtime: Runtime, *, ignoring: tuple[str, ...] = ()) -> list[str]:
    """Everything `doctor` finds that is not in order, open intents, left-overs. Empty: state and disk agree."""
    settings, store, workspace = runtime.settings, runtime.store, runtime.workspace
    found = [
        f"{finding.check}: {finding.says}"
        for finding in doctor.examine(settings, store, workspace, runtime.clock)
        if finding.level != "ok" and finding.check not in ignoring
    ]
    # An extraction's worker may be alive until its claim runs out: nobody may close its intent before.
    running = {job.key for job in store.jobs.all("extract") if job.running(runtime.clock.now())}
    intents = [i for i in store.intents.pending() if i.kind != "extract" or i.job_key not in running]
    found += [f"open intent: {intent.kind} {intent.job_key}" for intent in intents]
    found += [f"left over: {path}" for path in settings.home.rglob(".tmp-*")]
    found += [f"left over: {path}" for path in settings.home.glob(".*.*.*") if not path.name.endswith(("-wal", "-shm"))]
    found += [f"left over: {path}" for path in (workspace.root / "workspace").iterdir()]
    generations = [path.name for path in (settings.home / "generations").iterdir()]
    found += [f"generation: {name}" for name in generations if name != store.generation]
    found += ["text of deleted rows may still be in the database"] if store.meta.scrub_due() else []
    found += _orphans(runtime)
    return found


def _orphans(runtime: Runtime) -> list[str]:
    """The baseline is that of the summary; every line of the summary stands in a source it cites."""
    workspace, store = runtime.workspace, runtime.store
    latest, summary = store.versions.latest(), workspace.summary()
    if latest is None or summary is None:
        return [] if summary is None else ["a summary without a version"]
    cited = {item["citation"]: item["path"] for item in latest.manifest["inputs"]}
    texts = dict(workspace.read_version(latest.number).texts)
    found = []
    for claim in claims(summary):
        for citation in claim.citations:
            path = cited.get(citation, "")
            if path not in texts or claim.text not in said_in(path, texts[path]):
                found.append(f"[{citation}] does not say: {claim.text}")
    return found


# -- children that are killed ----------------------------------------------------------------------------


def in_child(action: Callable[[], object]) -> int:
    """Runs an action in a forked process; its exit code, negative for a signal. 70: it raised."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 70
        try:
            action()
            code = 0
        except Exception:  # noqa: BLE001 - the parent sees the code, the reader the traceback
            traceback.print_exc(file=sys.__stderr__)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(point: str, nth: int, action: Callable[[], object]) -> bool:
    """Runs an action in a child that gets SIGKILL at the `nth` passing of a point. False: it ended before."""

    def armed() -> None:
        failpoints.arm_from_text(f"{point}=kill@{nth}")
        action()

    code = in_child(armed)
    assert code in {0, -signal.SIGKILL}, (point, nth, code)
    return code == -signal.SIGKILL
