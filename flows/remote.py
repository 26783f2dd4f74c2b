"""The service as commands and the dashboard use it: over Prefect's API, without the seconds Prefect takes to import.

`Remote` is the dashboard's port `Runs`. What a run does and has done it takes from the home, never from Prefect.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

import httpx

from flows.place import Place
from flows.place import State as Service
from memory import live
from memory.clock import Clock, SystemClock, parse_iso
from memory.errors import SlowwaveError, UnknownReference, UsageError
from memory.settings import DEFAULT_STORE, Settings
from memory.state import Store
from memory.wishes import Asked, ServiceState, Stage

FLOW = "slow-wave"
ON_DEMAND, SCHEDULED = "on-demand", "scheduled"
ACTIVE = ("PENDING", "RUNNING", "CANCELLING")
TERMINAL = frozenset({"COMPLETED", "FAILED", "CANCELLED", "CRASHED"})
LIMIT_REACHED = "concurrency limit"
"""Part of Prefect's message for a run that came while another one of its deployment was running."""
PARAMETERS = ("extract_only", "consolidate_only", "since", "limit", "host", "rollouts")
SECONDS = 5.0
RETRY_SECONDS = 5.0
"""A server that is busy (503) or restarting is asked again for so long."""


class ServiceDown(SlowwaveError):
    """The service does not run, or does not answer."""

    code = "service_down"


@dataclass(frozen=True, slots=True)
class FlowRun:
    """A run as Prefect knows it. `state` is its type, in capitals."""

    id: str
    name: str
    state: str
    message: str
    since: datetime | None
    due: datetime | None
    parameters: Mapping[str, Any]
    deployment: str = ""

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    @property
    def refused(self) -> bool:
        """Another one of its deployment was running."""
        return self.state == "CANCELLED" and LIMIT_REACHED in self.message.lower()

    @property
    def run_id(self) -> str | None:
        """Ours, once it has ended in order: its message has it."""
        _, found, rest = self.message.rpartition("(run ")
        return rest.rstrip(")") if found and self.ended else None


class Api:
    """A few calls of Prefect's API. Raises ServiceDown where nobody answers or the answer is a refusal."""

    def __init__(self, url: str, auth: str = "", *, seconds: float = SECONDS) -> None:
        self.url = url.rstrip("/")
        token = base64.b64encode(auth.encode()).decode()
        headers = {"Authorization": f"Basic {token}"} if auth else {}
        # The person's proxy has no part in a talk on loopback.
        local = urlsplit(url).hostname in {"127.0.0.1", "localhost", "::1"}
        self._client = httpx.Client(base_url=self.url, headers=headers, timeout=seconds, trust_env=not local)

    def close(self) -> None:
        self._client.close()

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, method: str, path: str, body: Any = None) -> Any:
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            try:
                reply = self._client.request(method, path, json=body)
            except httpx.HTTPError as error:
                problem = type(error).__name__
            else:
                if reply.is_success:
                    return reply.json() if reply.content else None
                problem = f"HTTP {reply.status_code}"
                if reply.status_code not in {500, 503}:
                    break
            if time.monotonic() >= deadline:
                break
            time.sleep(0.2)
        raise ServiceDown(f"The Prefect server does not do what is asked ({problem}).", hint="See: slowwave logs")

    def healthy(self) -> None:
        """Raises ServiceDown where the server does not answer now; asks once."""
        try:
            answer = self._client.get("/health")
        except httpx.HTTPError as error:
            raise ServiceDown(f"The Prefect server does not answer ({type(error).__name__}).") from None
        if not answer.is_success:
            raise ServiceDown(f"The Prefect server answers HTTP {answer.status_code}.")

    def deployment(self, name: str) -> str:
        """Its id."""
        return str(self.call("GET", f"/deployments/name/{FLOW}/{name}")["id"])

    def create(self, deployment: str, parameters: Mapping[str, Any]) -> FlowRun:
        body = {"parameters": dict(parameters), "state": {"type": "SCHEDULED"}}
        return _flow_run(self.call("POST", f"/deployments/{deployment}/create_flow_run", body))

    def flow_run(self, identity: str) -> FlowRun:
        return _flow_run(self.call("GET", f"/flow_runs/{identity}"))

    def flow_runs(self, deployments: Iterable[str], states: Sequence[str], *, limit: int = 200) -> list[FlowRun]:
        """The earliest due first."""
        wanted = {"state": {"type": {"any_": list(states)}}, "deployment_id": {"any_": list(deployments)}}
        body = {"flow_runs": wanted, "sort": "EXPECTED_START_TIME_ASC", "limit": limit}
        return [_flow_run(one) for one in self.call("POST", "/flow_runs/filter", body)]

    def end(self, identity: str, kind: str, message: str) -> None:
        """Sets a state whatever the rules say: for runs whose process is gone."""
        state = {"type": kind, "name": kind.capitalize(), "message": message}
        self.call("POST", f"/flow_runs/{identity}/set_state", {"state": state, "force": True})


def _flow_run(one: Mapping[str, Any]) -> FlowRun:
    state = one.get("state") or {}
    return FlowRun(
        id=str(one["id"]),
        name=str(one.get("name", "")),
        state=str(state.get("type") or one.get("state_type") or ""),
        message=str(state.get("message") or ""),
        since=parse_iso(state.get("timestamp")),
        due=parse_iso(one.get("expected_start_time")),
        parameters=one.get("parameters") or {},
        deployment=str(one.get("deployment_id") or ""),
    )


def name_in(store: str, name: str) -> str:
    """The name of a deployment of a store; the default one adds nothing."""
    return name if store == DEFAULT_STORE else f"{name}-{store}"


def wishes(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked for, without what is as always."""
    return {name: parameters[name] for name in PARAMETERS if parameters.get(name) not in (None, "", False, [], ())}


def covers(running: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Whether a run with these parameters does all the other one would: it leaves nothing out, or leaves out the same.

    A run takes what is due when it comes to it, so a wish for the same is taken along.
    """
    return not wishes(running) or wishes(running) == wishes(wanted)


class Remote:
    """Asks the service. Blocks for seconds at most."""

    def __init__(self, settings: Callable[[], Settings], *, clock: Clock | None = None) -> None:
        self._settings = settings
        self._clock = clock or SystemClock()

    def running(self) -> Service | None:
        """The service's own word, None where it does not run."""
        return Place(self._settings().home).running()

    def api(self) -> Api:
        """Raises ServiceDown where there is none to ask."""
        settings = self._settings()
        place = Place(settings.home)
        service = place.running()
        if service is None:
            raise ServiceDown("The service is not running.", hint="Start it: slowwave up")
        if service.own:
            return Api(service.prefect, place.auth())
        if not settings.prefect_url:
            raise ServiceDown(
                "The service uses a Prefect server of yours that this process does not know.",
                hint="Set PREFECT_API_URL here, too.",
            )
        return Api(settings.prefect_url, settings.prefect_auth.get_secret_value())

    # -- the port -------------------------------------------------------------------------------------

    def start(self, *, stage: Stage, rollouts: Sequence[str]) -> Asked:
        """A run of the on-demand deployment, or the one that runs when it takes the wish along."""
        parameters = {
            "trigger": "manual",
            **({"extract_only": True} if stage == "extract" else {}),
            **({"consolidate_only": True} if stage == "consolidate" else {}),
            **({"rollouts": list(rollouts)} if rollouts else {}),
        }
        with self.api() as api:
            other = self.active(api)
            if other is None:
                self.create(api, parameters)
                return Asked(None, False, "The run starts in a few seconds.")
            if not covers(other.parameters, parameters):
                raise UsageError(
                    f"The run {other.name} is going on and does something else.", hint="Ask again when it has ended."
                )
            ours = self._ours(other.id)
            return Asked(ours, True, f"The run {ours or other.name} is going on and takes this along.")

    def cancel(self, run_id: str) -> str:
        """Whatever started it. Raises UnknownReference where no such run is going on."""
        settings = self._settings()
        if live.request_cancel(settings.home, run_id):
            return f"Run {run_id} is stopping; what it had begun is given back."
        service = Place(settings.home).running()
        if service is not None:
            with self.api() as api:
                for one in api.flow_runs(self._deployments(api).values(), ("SCHEDULED", "PENDING")):
                    if run_id in (one.id, one.name):
                        api.end(one.id, "CANCELLED", "Cancelled before it began.")
                        return f"Run {one.name} is cancelled; it had not begun."
        raise UnknownReference(f"No run {run_id} is going on.", hint="See: slowwave status")

    def link(self, run_id: str) -> str | None:
        service = self.running()
        if service is None or not service.own:
            return None
        settings = self._settings()
        known = {run.run_id: run.prefect_run for run in live.running(settings.home)}
        identity = known.get(run_id)
        if identity is None:
            with Store.open(settings, self._clock) as store:
                row = store.runs.get(run_id)
            identity = str(row.detail.get("prefect_run") or "") if row is not None else None
        return f"{service.prefect.removesuffix('/api')}/runs/flow-run/{identity}" if identity else None

    def service(self) -> ServiceState:
        service = self.running()
        if service is None:
            return ServiceState(False, problems=("The service is not running; start it with: slowwave up",))
        problems = list(service.problems)
        if not service.ready:
            problems.append("The service is still starting.")
        return ServiceState(
            up=True,
            since=parse_iso(service.started),
            schedule=service.schedule,
            next_run=self._next(service),
            prefect_url=service.prefect.removesuffix("/api") or None,
            problems=tuple(problems),
        )

    # -- for the command ------------------------------------------------------------------------------

    def active(self, api: Api) -> FlowRun | None:
        """The run on demand that is going on, or about to."""
        deployment = api.deployment(name_in(self._settings().store, ON_DEMAND))
        now = self._clock.now()
        runs = api.flow_runs([deployment], (*ACTIVE, "SCHEDULED"))
        return next((one for one in runs if one.state != "SCHEDULED" or one.due is None or one.due <= now), None)

    def create(self, api: Api, parameters: Mapping[str, Any]) -> FlowRun:
        """A run that starts at once."""
        settings = self._settings()
        made = api.create(api.deployment(name_in(settings.store, ON_DEMAND)), parameters)
        Place(settings.home).poke()
        return made

    def _ours(self, prefect_run: str) -> str | None:
        return next((run.run_id for run in live.running(self._settings().home) if run.prefect_run == prefect_run), None)

    def _deployments(self, api: Api) -> dict[str, str]:
        store = self._settings().store
        return {name: api.deployment(name_in(store, name)) for name in (ON_DEMAND, SCHEDULED)}

    def _next(self, service: Service) -> datetime | None:
        worker = service.process("worker")
        if worker is None or worker.state != "ready":
            return None
        now = self._clock.now()
        try:
            with self.api() as api:
                deployment = api.deployment(name_in(self._settings().store, SCHEDULED))
                coming = [one.due for one in api.flow_runs([deployment], ("SCHEDULED",), limit=3)]
        except ServiceDown:
            return None
        return next((due for due in coming if due is not None and due >= now), None)
