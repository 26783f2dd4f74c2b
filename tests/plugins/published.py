"""A home with a published summary, made of real files and without a database or a model."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from memory.documents import print_summary
from memory.model import HEADINGS, InputFile, Manifest
from memory.state.meta import new_generation_id, write_generation_file
from memory.workspace import Workspace

PROFILE, PREFERENCES, TIPS, INDEX = HEADINGS
HERE, THERE, ELSEWHERE = "aaaaaaaaaaaa", "bbbbbbbbbbbb", "cccccccccccc"
"""Ids of three projects."""


def source_id(citation: str) -> str:
    """A whole source id that begins with a citation."""
    return citation + hashlib.sha256(citation.encode()).hexdigest()[: 16 - len(citation)]


def generation_of(home: Path) -> str:
    """The generation in force; one is started where there is none."""
    path = home / "generation.json"
    if not path.exists():
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_generation_file(home, new_generation_id())
    return str(json.loads(path.read_text("utf-8"))["generation"])


def workspace_of(home: Path) -> Workspace:
    """The workspace of the generation in force."""
    return Workspace.open(home, generation_of(home))


def publish(
    home: Path,
    bullets: Mapping[str, Sequence[str]],
    sources: Mapping[str, str | None],
    *,
    keep: int = 10,
    text: str | None = None,
) -> str:
    """Publishes a summary of these bullets as the next version. `sources`: citation -> project, None for everywhere."""
    workspace = workspace_of(home)
    summary = print_summary(bullets) if text is None else text
    inputs, texts = [], {}
    for citation, project in sources.items():
        name = citation.removeprefix("note:")
        is_note = name != citation
        path = f"extensions/ad_hoc/notes/{name}.md" if is_note else f"rollout_summaries/{source_id(citation)}.md"
        body = f"---\nsource: codex:{citation}\n---\n\n## Reference\n- What {citation} says, at some length. [e1]\n"
        if is_note:
            workspace.write_note(name, body, replace=True)
            texts[path] = (workspace.root / path).read_text("utf-8")
        else:
            workspace.write_rollout_summary(source_id(citation), body)
            texts[path] = body
        digest = hashlib.sha256(texts[path].encode()).hexdigest()
        inputs.append(
            InputFile(citation, path, digest, len(texts[path]), project or "", projects_global=project is None)
        )
    manifest = Manifest(workspace.generation, tuple(inputs))
    number = max(workspace.versions(), default=0) + 1
    workspace.save_version(number, summary, manifest, texts, keep=keep)
    workspace.install_summary(summary, workspace.summary_sha())
    return summary
