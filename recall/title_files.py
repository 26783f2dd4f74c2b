"""The titles of entries, read from their files for the block a session gets: `inject.titles` [P019 P020 P022].

Names and headings only, no text of an entry. The form of the files is that of `memory.workspace.topic_text` and
`memory.workspace.notes`, the lines those of `recall.titles`; a test holds them together. Standard library only, for
hooks; a file that cannot be read is passed over.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import unicodedata

from recall import scope

HEADING = "# Memory Index"
TIERS = ("profile", "log", "note")
MAX_FILES = 400
MAX_TITLES = 1_000
MAX_LINE = 200
MAX_FILE_BYTES = 262_144
MAX_NOTE_BYTES = 512_000
_TITLE = re.compile(r"## +(\S.*?)\s*")
_TOPIC = re.compile(r"# +(\S.*?)\s*")
_FIELD = re.compile(r"([A-Za-z_]+)\s*:\s*(.*?)\s*")


def titles(folder: str, viewer: scope.Viewer) -> tuple[list[str], list[str]]:
    """`[project/profile] testing/New test framework`, profile first, for what `viewer` sees of a workspace; and every
    file and folder whose change may change it."""
    found: list[tuple[tuple[int, str, str], str]] = []
    depends: list[str] = []
    places = [("user", "user"), *([("project", viewer.id)] if viewer.id not in {"", scope.UNKNOWN_PROJECT} else [])]
    for name, place in places:
        topics = os.path.join(folder, "extensions", "topics", place)
        depends.append(topics)
        for path in _files(topics):
            depends += [path, f"{path.removesuffix('.md')}.json"]
            found += [_row(name, tier, topic, title) for topic, title, tier in _of_topic(path, place)]
    notes = os.path.join(folder, "extensions", "ad_hoc", "notes")
    depends.append(notes)
    for path in _files(notes):
        depends.append(path)
        found += [_row(name, "note", topic, title) for name, topic, title in _of_note(path, viewer)]
    return list(dict.fromkeys(line for _, line in sorted(found)[:MAX_TITLES])), depends


def _row(place: str, tier: str, topic: str, title: str) -> tuple[tuple[int, str, str], str]:
    line = f"[{place}/{tier}] {f'{topic}/{title}' if topic else title}"
    line = line if len(line) <= MAX_LINE - 2 else f"{line[: MAX_LINE - 3]}…"
    return (TIERS.index(tier), _key(topic), _key(title)), line


def _files(folder: str) -> list[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(".md") and name[0] != "."][:MAX_FILES]


def _text(path: str, limit: int) -> str:
    try:
        data = scope.read_file(path, limit)
        return "" if data is None else data.decode("utf-8").removeprefix("\ufeff").replace("\r\n", "\n")
    except (OSError, ValueError):
        return ""


def _of_topic(path: str, place: str) -> list[tuple[str, str, str]]:
    topic = ""
    found: dict[str, str] = {}
    for line in _text(path, MAX_FILE_BYTES).split("\n"):
        title, heading = _TITLE.fullmatch(line), _TOPIC.fullmatch(line)
        if title is not None:
            found.setdefault(_key(title[1]), title[1])
        elif heading is not None and not topic and not found:
            topic = heading[1]
    topic = topic or os.path.basename(path).removesuffix(".md")
    tiers = _tiers(f"{path.removesuffix('.md')}.json")
    return [(topic, title, tiers.get(_entry_id(place, topic, title), "log")) for title in found.values()]


def _tiers(path: str) -> dict[str, str]:
    """Entry id -> tier of its last record."""
    try:
        values = json.loads(_text(path, 1_000_000) or "{}")
    except (ValueError, RecursionError):
        return {}
    entries = values.get("entries") if isinstance(values, dict) else None
    found: dict[str, str] = {}
    for name, rows in entries.items() if isinstance(entries, dict) else ():
        last = rows[-1] if isinstance(rows, list) and rows else None
        tier = last.get("tier") if isinstance(last, dict) else None
        if tier in TIERS:
            found[name] = str(tier)
    return found


def _of_note(path: str, viewer: scope.Viewer) -> list[tuple[str, str, str]]:
    """The scope, topic and title of a note that `viewer` may see; none else."""
    lines = _text(path, MAX_NOTE_BYTES).split("\n")
    end = next((at for at, line in enumerate(lines[1:20], start=1) if line.rstrip() == "---"), 0)
    fields: dict[str, str] = {}
    if lines[0].rstrip() == "---" and end:
        for line in lines[1:end]:
            match = _FIELD.fullmatch(line)
            if match is not None:
                fields[match[1].lower()] = match[2]
        lines = "\n".join(lines[end + 1 :]).lstrip("\n").split("\n")
    project, said = fields.get("project", ""), fields.get("scope", "").lower()
    everywhere = said == "global" or (not project and said != "project")
    source, seen_as = scope.Source(project, everywhere), scope.Line("", "", ("note",), 0)
    if not any(text.strip() for text in lines) or not scope.is_visible(seen_as, {"note": source}, viewer):
        return []
    topic = fields.get("topic", "")
    name = os.path.basename(path).removesuffix(".md")
    title = lines[0][2:].strip() if topic and lines[0].startswith("# ") else ""
    return [("user" if everywhere else "project", topic, title or name)]


def _key(name: str) -> str:
    return " ".join(unicodedata.normalize("NFKC", name).casefold().split())


def _entry_id(place: str, topic: str, title: str) -> str:
    text = "\0".join((place, _key(topic), _key(title)))
    return f"mem:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
