"""`slowwave`: the commands and their options. Everything heavy is imported by the command that needs it, so that
`slowwave --help` stays fast."""

from __future__ import annotations

import errno
import os
import sys
from typing import Annotated, NoReturn

import typer

app = typer.Typer(
    name="slowwave",
    help="Verified memory between the sessions of coding agents.",
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]


@app.command()
def run(
    extract_only: Annotated[bool, typer.Option("--extract-only", help="Stop after stage 1.")] = False,
    consolidate_only: Annotated[bool, typer.Option("--consolidate-only", help="Skip stage 1.")] = False,
    since: Annotated[str, typer.Option(help="Take sessions as old as this, e.g. 60d, 12h, 2026-11-01.")] = "",
    limit: Annotated[int | None, typer.Option(help="Take at most this many sessions.", min=0)] = None,
    host: Annotated[str, typer.Option(help="Only this host: codex, claude, pi or generic.")] = "",
    rollout: Annotated[
        list[str] | None, typer.Option(help="This session (id or its beginning); may be repeated.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="List what would be read and what it may cost; call no model.")
    ] = False,
    here: Annotated[
        bool, typer.Option("--here", help="In this process, also where the service is up and would do it.")
    ] = False,
    json: Json = False,
) -> None:
    """Extract idle sessions and consolidate what was learnt into the summary."""
    from cli import run as command

    command.run(
        extract_only=extract_only,
        consolidate_only=consolidate_only,
        since=since,
        limit=limit,
        host=host,
        rollouts=rollout or [],
        dry_run=dry_run,
        as_json=json,
        here=here,
    )


@app.command()
def cancel(
    run: Annotated[str, typer.Argument(help="Which run; may be left out where only one is going on.")] = "",
) -> None:
    """Stop a run, whoever started it: what it had begun is given back."""
    from cli import follow
    from memory.settings import load

    typer.echo(follow.cancel(run, load()))


@app.command()
def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return as soon as it is ready; it goes on behind.")
    ] = False,
    print_unit: Annotated[
        str, typer.Option("--print-unit", help="Print a unit for systemd or launchd, and start nothing.")
    ] = "",
) -> None:
    """Start the service: schedule, wake-ups of hooks, Prefect, dashboard."""
    from cli import service

    service.up(detach=detach, print_unit=print_unit)


@app.command()
def down() -> None:
    """Stop the service."""
    from cli import service

    service.down()


@app.command()
def logs(
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    last: Annotated[int, typer.Option("--last", "-n", help="How many lines.", min=0)] = 100,
) -> None:
    """Print the service's log."""
    from cli import service

    service.logs(follow=follow, last=last)


@app.command()
def status(json: Json = False) -> None:
    """What was seen, extracted, skipped and why; last run, next eligible time, spend."""
    from cli import look

    look.status(as_json=json)


@app.command()
def why(
    reference: Annotated[str, typer.Argument(help="A session id, a citation, a line number or words of a line.")],
    json: Json = False,
) -> None:
    """Where a line comes from, or why a session is (not) remembered."""
    from cli import look

    look.why(reference, as_json=json)


@app.command()
def show(
    version: Annotated[int | None, typer.Option(help="An earlier version.", min=1)] = None,
    numbers: Annotated[bool, typer.Option("--numbers", "-n", help="With line numbers, for `why`.")] = False,
    json: Json = False,
) -> None:
    """Print the confirmed summary."""
    from cli import look

    look.show(version=version, numbers=numbers, as_json=json)


@app.command()
def search(
    words: Annotated[str, typer.Argument(help="What to look for, in any language; nothing in it is syntax.")],
    project: Annotated[str, typer.Option("--project", help="A project's id or name, instead of this folder's.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="All projects.")] = False,
    limit: Annotated[int, typer.Option(help="Print at most this many lines.", min=1, max=200)] = 10,
    near: Annotated[bool, typer.Option("--near", help="Also what comes near without answering.")] = False,
    evidence: Annotated[
        bool, typer.Option("--evidence", help="Look in what was said (needs `index.evidence`).")
    ] = False,
    json: Json = False,
) -> None:
    """Find the lines of memory that answer a question; nothing is an answer too."""
    from cli import search as command

    command.search(
        words=words,
        project=project,
        everything=everything,
        limit=limit,
        near=near,
        evidence=evidence,
        as_json=json,
    )


@app.command()
def sources(json: Json = False) -> None:
    """List the sources of the summary: citation, project, date, use, and what was left out."""
    from cli import look

    look.sources(as_json=json)


@app.command()
def evidence(
    rollout: Annotated[str, typer.Argument(help="A session id or its beginning, or the path of a session file.")],
    json: Json = False,
) -> None:
    """Print exactly what a model would see of a session."""
    from cli import look

    look.evidence(rollout, as_json=json)


@app.command()
def doctor(
    fix: Annotated[
        bool, typer.Option("--fix", help="Do the safe mends; what is taken away is set aside, never deleted.")
    ] = False,
    json: Json = False,
) -> None:
    """Compare disk, database, versions and permissions; say what each finding means and what mends it."""
    from cli import look

    look.doctor(fix=fix, as_json=json)


Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


@app.command()
def history(json: Json = False) -> None:
    """List the published versions: when, by which model, at what cost, and what changed for which reason."""
    from cli import change

    change.history(as_json=json)


@app.command()
def diff(
    first: Annotated[int, typer.Argument(help="A version number.")],
    second: Annotated[int, typer.Argument(help="Another one.")],
    json: Json = False,
) -> None:
    """Show what changed between two versions."""
    from cli import change

    change.diff(first, second, as_json=json)


@app.command()
def restore(
    version: Annotated[int, typer.Argument(help="The version to put back.")], yes: Yes = False, json: Json = False
) -> None:
    """Put a former version and its inputs back. Never across a clear, never something forgotten."""
    from cli import change

    change.restore(version, yes=yes, as_json=json)


@app.command()
def forget(
    reference: Annotated[str, typer.Argument(help="A session, its citation, or a note.")] = "",
    text: Annotated[str, typer.Option("--text", help="Every line that holds these words.")] = "",
    project: Annotated[str, typer.Option("--project", help="Every session of this project.")] = "",
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Take a session, a note, a project or a text out of everything kept, for good."""
    from cli import change

    change.forget(reference, text=text, project=project, yes=yes, as_json=json)


@app.command()
def clear(yes: Yes = False, json: Json = False) -> None:
    """Clear long memory. Session histories, short files and settings stay; nothing old comes back."""
    from cli import change

    change.clear(yes=yes, as_json=json)


@app.command()
def mcp(
    project: Annotated[str, typer.Option("--project", help="The project's folder, instead of the client's own.")] = "",
    http: Annotated[bool, typer.Option("--http", help="Serve HTTP instead of standard input and output.")] = False,
    host: Annotated[str, typer.Option(help="With --http: the address to listen at.")] = "",
    port: Annotated[
        int | None, typer.Option(help="With --http: the port; 0 takes a free one.", min=0, max=65_535)
    ] = None,
    name: Annotated[
        list[str] | None, typer.Option(help="With --http: a further name clients call it by; may be repeated.")
    ] = None,
) -> None:
    """Serve the memory tools to a host (Model Context Protocol)."""
    from pathlib import Path

    from cli import mcp as command

    command.serve(project=Path(project) if project else None, http=http, host=host, port=port, name=tuple(name or ()))


@app.command()
def tool(
    name: Annotated[str, typer.Argument(help="A memory tool, such as memory_recall, or titles.")],
    arguments: Annotated[str, typer.Argument(help="Its arguments as JSON; - reads standard input.")] = "{}",
    json: Annotated[
        bool, typer.Option("--json", help="Take and print what extensions exchange (docs/mcp.md).")
    ] = False,
) -> None:
    """Call one memory tool as a host's extension does, in the project of this folder."""
    from cli import mcp as command

    command.tool(name, arguments, as_json=json)


hosts_app = typer.Typer(help="Put slowwave into Codex CLI, Claude Code and Pi, or take it out.", no_args_is_help=True)
app.add_typer(hosts_app, name="hosts")
Names = Annotated[list[str] | None, typer.Argument(help="codex, claude or pi; all that are here when left out.")]


@hosts_app.command(name="install")
def hosts_install(names: Names = None, json: Json = False) -> None:
    """Add the hooks to the hosts' configuration; a copy of each changed file is kept."""
    from cli import hosts

    hosts.install(names or [], as_json=json)


@hosts_app.command(name="uninstall")
def hosts_uninstall(names: Names = None, json: Json = False) -> None:
    """Take them out again; a file nobody changed since becomes what it was, byte for byte."""
    from cli import hosts

    hosts.uninstall(names or [], as_json=json)


@hosts_app.command(name="status")
def hosts_status(names: Names = None, json: Json = False) -> None:
    """Show which hosts are here, their versions, what is installed, and which approval is missing."""
    from cli import hosts

    hosts.status(names or [], as_json=json)


@hosts_app.command(name="plugin")
def hosts_plugin() -> None:
    """Print the folder of the Claude Code plugin, for `claude plugin marketplace add`."""
    from cli import hosts

    hosts.plugin()


@app.command()
def remember(
    text: Annotated[str, typer.Argument(help="What to remember, in quotes; - reads it from standard input.")],
    project: Annotated[bool, typer.Option("--project", help="Only for the project of this folder.")] = False,
    user: Annotated[bool, typer.Option("--user", help="For every project; this is the default.")] = False,
    note: Annotated[
        bool,
        typer.Option("--note", help="As a note of long memory: it goes into the summary, without limit of entries."),
    ] = False,
    name: Annotated[str, typer.Option("--id", help="Name of the entry; one that exists is replaced.")] = "",
    pinned: Annotated[bool, typer.Option("--pin/--no-pin", help="Whether a note must stay in the summary.")] = True,
    json: Json = False,
) -> None:
    """Keep something for later sessions: as an entry of a short file, which every session gets, or as a note."""
    from cli import remember as command

    command.remember(text, project=project, user=user, note=note, name=name, pinned=pinned, as_json=json)


short_app = typer.Typer(help="The short files: a few entries every session gets.", no_args_is_help=True)
app.add_typer(short_app, name="short")


@short_app.command("list")
def short_list(json: Json = False) -> None:
    """List the entries of the user's and this project's file."""
    from cli import remember as command

    command.show(as_json=json)


@short_app.command("edit")
def short_edit(
    project: Annotated[bool, typer.Option("--project", help="This project's file; else the user's.")] = False,
) -> None:
    """Open a short file in your editor ($EDITOR) and check it; without a terminal, print its path."""
    from cli import remember as command

    command.edit(project=project)


@short_app.command("check")
def short_check(json: Json = False) -> None:
    """Check both files; exit code 1 when one would be skipped."""
    from cli import remember as command

    command.check(as_json=json)


@app.command(name="try")
def try_out(
    samples: Annotated[str, typer.Option(help="Folder of sample sessions, used when you have none of your own.")] = "",
    json: Json = False,
) -> None:
    """Run everything once in a throw-away home and show the summary and where a line of it comes from."""
    from cli import tryout

    tryout.try_out(samples=samples, as_json=json)


@app.command()
def version() -> None:
    """Print the version."""
    from importlib.metadata import version as installed

    typer.echo(installed("slowwave"))


def _quickly(arguments: list[str]) -> bool:
    """Runs a plain `search`, `mcp` or `tool` without the library's preparations; false when the command line has to be
    looked at."""
    if arguments[:1] == ["mcp"]:
        from cli import mcp

        plain = mcp.read(arguments[1:])
        if plain is not None:
            mcp.serve(project=plain.project)
            return True
    if arguments[:1] == ["tool"] and arguments[2:] == ["-", "--json"]:
        from cli import mcp

        mcp.tool(arguments[1], "-", as_json=True)
        return True
    if arguments[:1] != ["search"]:
        return False
    from cli import search as command

    options = command.read(arguments[1:])
    if options is None:
        return False
    command.search(**options)
    return True


def main(arguments: list[str] | None = None) -> None:
    """Entry point: one clear sentence instead of a traceback for everything we know how to name."""
    from memory.errors import SlowwaveError

    given = sys.argv[1:] if arguments is None else arguments
    if given[:1] != ["mcp"]:  # a tool server ends with its client
        from cli import readers

        readers.outlive()
    try:
        try:
            if not _quickly(given):
                app(arguments)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, since the interpreter's own attempt would end in a message of its own
    except SlowwaveError as error:
        typer.echo(f"slowwave: {error}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        _nobody_reads(141)
    except OSError as error:
        if error.filename is not None or error.errno != errno.ENOSPC:
            raise
        typer.echo(f"slowwave: Standard output cannot be written ({error.strerror}).", err=True)
        _nobody_reads(1)


def _nobody_reads(code: int) -> NoReturn:
    """Ends without a word about what could not be written; 141 is what shells know a closed pipe by (`| head`)."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    sys.exit(code)


if __name__ == "__main__":
    main()
