"""Storing what came of a rollout: file, output row and success, under one fenced transaction."""

from __future__ import annotations

import hashlib
from dataclasses import replace

from extract import form
from extract.asking import Answer, Task
from extract.outcomes import Kept, NothingKept
from extract.reading import COPIED
from extract.record import completed
from memory import failpoints, forgotten, settling
from memory.documents import print_rollout_summary
from memory.model import SummaryHeader
from memory.state import Lease, OutputRow

failpoints.declare("extract.before_file", "extract.after_file", "extract.stored")


def keep(task: Task, lease: Lease, answer: Answer) -> Kept:
    """File, output row and success under one fenced transaction, after a last redaction [X35]."""
    runtime = task.runtime
    body = form.tidy(runtime.redactor.redact(answer.body))
    # What the person asked to forget may still stand in the session.
    body = forgotten.without_lines(body, forgotten.of_tombstones(runtime.store.tombstones.all()))
    header = completed(task.header, body, answer.events, slug=answer.slug)
    text = print_rollout_summary(header, body)
    row = _output(task, answer, header, hashlib.sha256(text.encode()).hexdigest())

    def put() -> None:
        failpoints.hit("extract.before_file")
        runtime.workspace.write_rollout_summary(task.row.id.source_id, text)
        failpoints.hit("extract.after_file")

    settling.store_output(runtime.store, runtime.workspace, lease, row, put)
    failpoints.hit("extract.stored")
    return Kept(
        task.row.id,
        outcome=header.outcome,
        bullets=len(form.read(body).bullets),
        bytes=len(text.encode()),
        shrinks=answer.shrinks,
        dropped=answer.dropped,
        grown=task.former is not None and bool(task.former.body),
        coverage=answer.coverage,
    )


def keep_nothing(task: Task, lease: Lease, answer: Answer) -> NothingKept:
    """A success [M69]. The former record of a rollout that only grew stays; of one read anew it goes."""
    runtime, rollout = task.runtime, task.row.id
    stays = task.former is not None and bool(task.former.body)
    before = runtime.store.outputs.get(rollout)
    row = _output(task, answer, task.header, "")
    if stays and before is not None:
        row = replace(row, kept=True, outcome=before.outcome, slug=before.slug, sha256=before.sha256)

    def put() -> None:
        if not row.kept:
            failpoints.hit("extract.before_file")
            runtime.workspace.remove_rollout_summary(rollout.source_id)
            failpoints.hit("extract.after_file")

    settling.store_output(runtime.store, runtime.workspace, lease, row, put)
    failpoints.hit("extract.stored")
    return NothingKept(rollout, former=stays, suspicious=answer.suspicious, asked=answer.asked)


def _output(task: Task, answer: Answer, header: SummaryHeader, sha: str) -> OutputRow:
    return OutputRow(
        rollout=task.row.id,
        generation=task.runtime.store.generation,
        boundary=header.boundary,
        kept=bool(sha),
        outcome=header.outcome,
        slug=header.slug,
        sha256=sha,
        project=header.project,
        project_name=header.project_name,
        ended=header.ended,
        written=task.runtime.clock.now(),
        model=task.runtime.extract_model.name,
        shrinks=answer.shrinks,
        coverage={**answer.coverage, COPIED: task.found.copied},
    )
