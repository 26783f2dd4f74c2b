"""Records the sample sessions: real hosts, a scripted model, two throw-away projects.

    python examples/record/record.py --work DIR [--only NAME]

Installs the hosts below DIR when they are not there, plays every scenario in its host, and writes the session
files, made neutral, to examples/sessions.
"""

import argparse
import datetime
import shutil
import sys
from functools import partial
from pathlib import Path

from examples.record import bench as benches
from examples.record import hosts
from examples.record.bench import Bench
from examples.record.check import check_story
from examples.record.fake_models import FakeModels
from examples.record.script import Scenario, load_scenarios
from examples.record.scrub import Scrubber
from examples.record.terminal import Terminal

HERE = Path(__file__).resolve().parent
SESSIONS = HERE.parent / "sessions"
Machines = dict[str, hosts.Host]
START_SECONDS = 60
TURN_SECONDS = 120
LEAVE_SECONDS = 20
QUIET_AT_START = 2.5  # seconds without output: the host is ready for typing
QUIET_AFTER_TURN = 2.0  # seconds without output: the turn is drawn and written
HEADING = """\
# Sample sessions

Written by the real hosts, offline, against a scripted model (see ../record). The words of the user and the
assistant are made up; tool calls were really executed, their outputs are real. Paths are neutral, and long
texts of the hosts' own (prompts, tool and skill listings) are replaced by a visible marker. The key in
session 10 is invented.

Recorded on {date} with {versions}.

| # | host | project | language | how | file | what it holds |
|---|---|---|---|---|---|---|
"""


def main() -> None:
    """Read the arguments, record, and write the samples."""
    parser = argparse.ArgumentParser(description="Record the sample sessions.")
    parser.add_argument("--work", type=Path, required=True, help="folder for installs and projects")
    parser.add_argument("--only", default="", help="try one scenario (start of its name); writes nothing")
    arguments = parser.parse_args()
    bench = Bench(arguments.work.absolute())
    bench.work.mkdir(parents=True, exist_ok=True)
    scenarios = load_scenarios(HERE / "scenarios")
    machines = install(bench)
    benches.build(bench, HERE / "projects")
    chosen = [scenario for scenario in scenarios if scenario.name.startswith(arguments.only)]
    recorded = record(bench, machines, chosen)
    texts = publishable(bench, machines, recorded)
    if arguments.only:
        for path, text in texts.items():
            sys.stdout.write(f"{path}\n{text}")
    else:
        publish(machines, chosen, texts)


def install(bench: Bench) -> Machines:
    """Install tools and hosts; return the hosts by name."""
    benches.install_tools(bench)
    machines: Machines = {}
    for kind in hosts.ALL:
        benches.install(bench, kind.name, [kind.package], scripts=kind.scripts)
        machines[kind.name] = kind(bench)
    return machines


def record(bench: Bench, machines: Machines, scenarios: list[Scenario]) -> list[tuple[Scenario, Path]]:
    """Play the scenarios in order; return each with the session file that its host wrote."""
    roots = {scenario.project: bench.project(scenario.project) for scenario in scenarios}
    recorded = []
    with FakeModels(scenarios, roots, bench.work / "requests.jsonl") as models:
        for host in machines.values():
            host.configure(models.url, list(roots.values()))
        for scenario in scenarios:
            sys.stderr.write(f"{scenario.name} in {scenario.host} ({scenario.mode})\n")
            host = machines[scenario.host]
            before = set(host.sessions.rglob("*.jsonl"))
            play = play_in_terminal if scenario.mode == "terminal" else play_printing
            play(bench, host, scenario, models)
            recorded.append((scenario, only_new(host, before)))
    return recorded


def only_new(host: hosts.Host, before: set[Path]) -> Path:
    """The one session file that the host has written since. Raises BenchError for none or several."""
    new = set(host.sessions.rglob("*.jsonl")) - before
    if len(new) != 1:
        raise benches.BenchError(f"{host.title} left {len(new)} new session files where one was expected")
    return new.pop()


def play_in_terminal(bench: Bench, host: hosts.Host, scenario: Scenario, models: FakeModels) -> None:
    """Open the host in a terminal and type the prompts, each when the turn before it is done."""
    root = bench.project(scenario.project)
    with Terminal(host.interactive(), root, host.env(models.url)) as terminal:
        terminal.wait_quiet(QUIET_AT_START, START_SECONDS)
        for number, turn in enumerate(scenario.turns):
            for line in turn.prepare:
                benches.shell(line, root, bench.install_env())
            terminal.type_line(turn.user)
            last = scenario.key(number, len(turn.steps) - 1)
            terminal.wait_until(partial(models.played.__contains__, last), last, TURN_SECONDS)
            terminal.wait_quiet(QUIET_AFTER_TURN, TURN_SECONDS)
        terminal.close(host.leave, LEAVE_SECONDS)


def play_printing(bench: Bench, host: hosts.Host, scenario: Scenario, models: FakeModels) -> None:
    """Give each prompt to the host's print mode; from the second on, resume the session."""
    root = bench.project(scenario.project)
    before = set(host.sessions.rglob("*.jsonl"))
    session: Path | None = None
    for turn in scenario.turns:
        for line in turn.prepare:
            benches.shell(line, root, bench.install_env())
        benches.run(host.printing(turn.user, session), root, host.env(models.url), TURN_SECONDS)
        session = only_new(host, before)


def publishable(bench: Bench, machines: Machines, recorded: list[tuple[Scenario, Path]]) -> dict[Path, str]:
    """The neutral, checked text of every recorded file by its path below examples/sessions."""
    scrubber = Scrubber(bench)
    texts: dict[Path, str] = {}
    for scenario, session in recorded:
        host = machines[scenario.host]
        text = scrubber.file(host.name, session.read_text("utf-8").splitlines())
        check_story(scenario, text)
        texts[host.layout / scrubber.path(session.relative_to(host.sessions))] = text
    return texts


def publish(machines: Machines, scenarios: list[Scenario], texts: dict[Path, str]) -> None:
    """Replace the published samples and their README. `texts` is in the order of `scenarios`."""
    for host in machines.values():
        shutil.rmtree(SESSIONS / host.name, ignore_errors=True)
    versions = ", ".join(f"{host.title} {host.version()}" for host in machines.values())
    rows = [HEADING.format(date=datetime.datetime.now(datetime.UTC).date(), versions=versions)]
    for scenario, (path, text) in zip(scenarios, texts.items(), strict=True):
        target = SESSIONS / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, "utf-8")
        how = "terminal" if scenario.mode == "terminal" else "print mode, resumed"
        cells = [scenario.name[:2], scenario.host, scenario.project, scenario.language, how]
        rows.append(f"| {' | '.join(cells)} | [{path.name[:28]}…]({path.as_posix()}) | {scenario.about} |\n")
    (SESSIONS / "README.md").write_text("".join(rows), "utf-8")


if __name__ == "__main__":
    main()
