"""What of the confirmed summary a project may see: the one door every read path goes through [C023 C063 M87].

A line belongs to the projects of the sources it cites, as the manifest of its version names them. For a project are
visible: lines it supports, lines that two or more projects support, notes that hold everywhere, and the User Profile.
Of `What's in Memory` the rest is told as a count. A caller can narrow what it gets, never widen it: the only way to the
whole text is the user's setting `inject.scope = "all"`.

Reads the files of the store, never the database, and only a text that was published: a kept version has its hash.
Standard library only. The form of the summary is that of `memory.documents`; a test holds the two together.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Mapping
from typing import NamedTuple

SUMMARY_NAME = "memory_summary.md"
GENERATION_FILE = "generation.json"
STATE_VERSION = 2
HEADINGS = ("## User Profile", "## User preferences", "## General Tips", "## What's in Memory")
PROFILE, _, _, INDEX = HEADINGS
MAX_SUMMARY_BYTES = 10_000
MAX_MANIFEST_BYTES = 4_000_000
UNKNOWN_PROJECT = "unknown"

_CITATION = re.compile(r"\[([0-9a-f]{16}|[0-9a-f]{8}|note:[A-Za-z0-9._-]{1,64})\]")
_PROJECT_ID = re.compile(r"[0-9a-f]{12}")


class Line(NamedTuple):
    """One bullet as it stands in the summary, citations kept, continuation lines joined. `number` is 1-based."""

    section: str
    text: str
    citations: tuple[str, ...]
    number: int


class Source(NamedTuple):
    """Where a cited source belongs: a project id (a note may name its project instead), or everywhere."""

    project: str
    everywhere: bool = False


class Viewer(NamedTuple):
    """The project that looks: its id and name. Without one only what holds everywhere is seen."""

    id: str = ""
    name: str = ""


NOBODY = Viewer()


class Published(NamedTuple):
    """The confirmed summary and what its citations belong to. `problem` says why there is none, where one should be.

    `folder` is the workspace, `version` the number of the version the text belongs to.
    """

    generation: str = ""
    folder: str = ""
    version: int = 0
    text: str = ""
    sources: Mapping[str, Source] = {}
    problem: str = ""


class View(NamedTuple):
    """What is visible, in order, and how many lines of the index are about other projects."""

    lines: tuple[Line, ...]
    elsewhere: int = 0


# -- the rule -----------------------------------------------------------------------------------------


def visible_lines(
    summary: str, sources: Mapping[str, Source], viewer: Viewer, setting: str, *, only: str | None = None
) -> View:
    """The lines of a summary that `viewer` may see. `setting` is `inject.scope`; `only` narrows to one project.

    `only` is a project id: naming another project than one's own leaves what holds everywhere, nothing more.
    """
    found = lines_of(summary)
    asked = viewer
    if setting == "all":
        if only is None:
            return View(tuple(found))
        asked = Viewer(only, only)
    elif only is not None and only not in {viewer.id, viewer.name}:
        asked = NOBODY
    seen = [line for line in found if is_visible(line, sources, asked)]
    index = sum(line.section == INDEX for line in found) - sum(line.section == INDEX for line in seen)
    return View(tuple(seen), index)


def is_visible(line: Line, sources: Mapping[str, Source], viewer: Viewer) -> bool:
    """Whether one line may be seen. A line whose sources are not known belongs to nobody."""
    cited = [sources[name] for name in line.citations if name in sources]
    if not cited:
        return False
    if line.section == PROFILE or any(source.everywhere for source in cited):
        return True
    projects = {source.project for source in cited if _PROJECT_ID.fullmatch(source.project)}
    return len(projects) >= 2 or any(_is_of(source.project, viewer) for source in cited)


def _is_of(project: str, viewer: Viewer) -> bool:
    """A rollout's project is an id. A note written by hand may give the name; a session without a folder has none."""
    if not project or not viewer.id or UNKNOWN_PROJECT in {project, viewer.id}:
        return False
    if _PROJECT_ID.fullmatch(project):
        return project == viewer.id
    return project.rstrip("/").rsplit("/", 1)[-1].casefold() == viewer.name.casefold()


def lines_of(summary: str) -> list[Line]:
    """The bullets of a summary, as `memory.documents.claims` sees them."""
    section = ""
    found: list[Line] = []
    for number, text in enumerate(summary.split("\n"), start=1):
        if text in HEADINGS:
            section = text
        elif text.startswith("- ") and text[2:3].strip():
            found.append(Line(section, text[2:].strip(), _cited(text), number))
        elif text.startswith("  ") and text.strip() and found:
            last = found[-1]
            both = tuple(dict.fromkeys(last.citations + _cited(text)))
            found[-1] = Line(last.section, f"{last.text} {text.strip()}", both, last.number)
    return found


def _cited(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_CITATION.findall(text)))


# -- the files ----------------------------------------------------------------------------------------


def read_published(home: str) -> Published:
    """The confirmed summary of a store and its sources. Never raises; nothing published yet is no problem.

    Only a text whose hash a kept version names is confirmed: an empty, cut or edited file is none [M7]. Read again
    once, since a publish may fall between the reading of the summary and of its manifest.
    """
    generation, problem = read_generation(home)
    if not generation:
        return Published(problem=problem)
    found = _read_version(home, generation)
    return found if not found.problem else _read_version(home, generation)


def read_generation(home: str) -> tuple[str, str]:
    """The generation in force and what is wrong with its file; two empty texts where there is none."""
    path = os.path.join(home, GENERATION_FILE)
    try:
        data = read_file(path, 4_096)
        values = None if data is None else json.loads(data)
    except (OSError, ValueError):
        return "", f"{path} cannot be read"
    if values is None:
        return "", ""
    version = values.get("version") if isinstance(values, dict) else None
    name = values.get("generation") if isinstance(values, dict) else None
    if version != STATE_VERSION or not isinstance(name, str) or not name.isalnum():
        return "", f"{path} is not of version {STATE_VERSION}"
    return name, ""


def workspace_folder(home: str, generation: str) -> str:
    """Where the files of long memory lie."""
    return os.path.join(home, "generations", generation, "memories_v2")


def versions_folder(home: str, generation: str) -> str:
    """Where the published versions are kept."""
    return os.path.join(home, "generations", generation, "versions")


def _read_version(home: str, generation: str) -> Published:
    folder = workspace_folder(home, generation)
    path = os.path.join(folder, SUMMARY_NAME)
    empty = Published(generation, folder)
    try:
        data = read_file(path, MAX_SUMMARY_BYTES)
    except (OSError, ValueError) as error:
        return empty._replace(problem=f"{path} cannot be read ({error})")
    versions = versions_folder(home, generation)
    numbers = _numbers(versions)
    if data is None:
        return empty._replace(problem=f"{path} is missing") if numbers else empty
    digest = hashlib.sha256(data).hexdigest()
    for number in numbers:
        manifest = _manifest(os.path.join(versions, str(number), "manifest.json"))
        if manifest is not None and manifest.get("summary_sha256") == digest:
            text = data.decode("utf-8", "replace")
            if not text.startswith("v1\n"):
                break
            return Published(generation, folder, number, text, _sources(manifest))
    return empty._replace(problem=f"{path} is not a text that was published")


def _numbers(folder: str) -> list[int]:
    try:
        return sorted((int(n) for n in os.listdir(folder) if n.isascii() and n.isdigit()), reverse=True)
    except OSError:
        return []


def _manifest(path: str) -> dict[str, object] | None:
    try:
        data = read_file(path, MAX_MANIFEST_BYTES)
        values = None if data is None else json.loads(data)
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) else None


def _sources(version: Mapping[str, object]) -> dict[str, Source]:
    manifest = version.get("manifest")
    inputs = manifest.get("inputs") if isinstance(manifest, dict) else None
    found: dict[str, Source] = {}
    for item in inputs if isinstance(inputs, list) else ():
        if isinstance(item, dict) and isinstance(item.get("citation"), str):
            found[item["citation"]] = Source(str(item.get("project") or ""), item.get("projects_global") is True)
    return found


def read_file(path: str, limit: int) -> bytes | None:
    """A plain file's bytes; None where there is none. Links are not followed, pipes not waited for.

    Raises OSError, or ValueError for what is no plain file or larger than `limit` bytes.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no plain file")
        if status.st_size > limit:
            raise ValueError(f"it has more than {limit:,} bytes")
        data = b""
        while len(data) <= limit and (chunk := os.read(descriptor, limit + 1 - len(data))):
            data += chunk
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise ValueError(f"it has more than {limit:,} bytes")
    return data
