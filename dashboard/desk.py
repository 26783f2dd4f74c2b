"""What a page works with: the visitor (language, tokens, words), and the store as it is opened for one request.

Pages are plain functions: FastAPI runs them in a thread of its pool, so nothing here blocks the loop. The store is
opened for each request, as the commands do it: a clear, a restore or other settings hold from the next click on.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from threading import Lock
from typing import Annotated, Any
from urllib.parse import urlencode

import jinja2
from fastapi import Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from markupsafe import Markup, escape
from starlette.routing import Match

from consolidate.service import LongMemory
from dashboard import i18n, sayings
from dashboard.errors import CsrfError
from dashboard.i18n import Language
from dashboard.ports import HostSetup, Planner, Runs, no_planner
from dashboard.security import CSRF_COOKIE, CSRF_FIELD, MAX_BODY, SAFE, Guard, cookies
from dashboard.shown import plain, prose, shown
from dashboard.tracing import Transcripts
from memory.clock import Clock
from memory.errors import SettingsError
from memory.llm.base import ByteTokens
from memory.model import Host
from memory.offline import OfflineModel
from memory.redact import Redactor
from memory.runtime import Runtime, new_run_id
from memory.settings import RedactSettings, Settings
from memory.state import Ledger, Store
from memory.workspace import Workspace

LANGUAGE_COOKIE = "slowwave_lang"
MAX_SAID = 200
REFUSALS = frozenset({"runs.refused", "runs.not_cancelled", "settings.host_refused", "settings.no_answer"})
"""Messages that something asked for was not done."""
MAX_FIELDS = 60


class Desk:
    """One for the whole server."""

    def __init__(
        self,
        load: Callable[[], Settings],
        *,
        runs: Runs,
        hosts: HostSetup,
        clock: Clock,
        guard: Guard,
        planner: Planner = no_planner,
    ) -> None:
        self.load = load
        self.runs = runs
        self.planner = planner
        self.hosts = hosts
        self.clock = clock
        self.guard = guard
        self.templates = _templates()
        self.transcripts = Transcripts()
        self._said: OrderedDict[str, tuple[str, dict[str, object]]] = OrderedDict()
        self._redactors: dict[RedactSettings, Redactor] = {}
        self._lock = Lock()

    def redactor(self, settings: Settings | None = None) -> Redactor:
        """Made once for each set of rules: their first use takes half a second."""
        rules = settings.redact if settings is not None else RedactSettings()
        with self._lock:
            if rules not in self._redactors:
                self._redactors[rules] = Redactor(rules)
            return self._redactors[rules]

    def say(self, key: str, values: Mapping[str, object]) -> str:
        """Keeps a message for the page a redirect leads to; texts go neither into addresses nor into cookies."""
        name = secrets.token_urlsafe(9)
        with self._lock:
            self._said[name] = (key, dict(values))
            while len(self._said) > MAX_SAID:
                self._said.popitem(last=False)
        return name

    def said(self, name: str) -> tuple[str, dict[str, object]] | None:
        """Once: a page that is loaded again does not say it again."""
        with self._lock:
            return self._said.pop(name, None)


@cache
def _templates() -> jinja2.Environment:
    """Compiled once for every application of a process."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# -- the visitor --------------------------------------------------------------------------------------


class Visitor:
    """One request's side of a page: language, CSRF token, rendering. Needs no store: error pages are made with it."""

    def __init__(self, desk: Desk, request: Request) -> None:
        self.desk = desk
        self.request = request
        jar = cookies(request.headers)
        self.language: Language = i18n.choose(
            jar.get(LANGUAGE_COOKIE), self._setting(), request.headers.get("accept-language")
        )
        self.seed = jar.get(CSRF_COOKIE) or ""
        self.is_new = not self.seed
        if self.is_new:
            self.seed = desk.guard.new_seed()

    def _setting(self) -> str:
        try:
            return self.desk.load().memory.language
        except SettingsError:
            return "auto"

    @property
    def csrf(self) -> str:
        return self.desk.guard.csrf(self.seed)

    @property
    def redactor(self) -> Redactor:
        return self.desk.redactor()

    def t(self, key: str, /, **values: object) -> str:
        return i18n.translate(self.language, key, **values)

    def told(self, key: str, /, **values: object) -> str:
        """As `t`, for templates: what is filled in comes from data, and may stand in an attribute."""
        clean = {name: plain(one, self.redactor) if isinstance(one, str) else one for name, one in values.items()}
        return self.t(key, **clean)

    def own(self, text: str) -> str:
        """What the program says of itself, in the visitor's language."""
        return sayings.own(self.language, text)

    def _said(self, key: str, values: Mapping[str, Any]) -> str:
        return self.t(key, **{name: self.own(one) if name == "says" else one for name, one in values.items()})

    def word(self, prefix: str, value: str | None) -> str:
        """The word for a value of the data, as a reason; the value itself where the catalog has none."""
        key = f"{prefix}.{value or 'none'}"
        return self.t(key) if i18n.known(key) else str(value or "–")

    def shown(self, text: object) -> Markup:
        """Text of sessions or memory, safe to be shown."""
        return shown(text, self.redactor)

    def prose(self, text: object) -> Markup:
        """A line of memory: as `shown`, with what stands in backticks as code."""
        return prose(text, self.redactor)

    def page(self, template: str, *, status: int = 200, **context: Any) -> Response:
        """A rendered page; sets the CSRF cookie of a browser that has none."""
        from dashboard.pages import NAVIGATION

        said = self.desk.said(self.request.query_params.get("said", "")[:40])
        text = self.desk.templates.get_template(template).render(
            {
                "t": self.told,
                "word": self.word,
                "s": self.shown,
                "prose": self.prose,
                "own": lambda text: self.prose(self.own(str(text))),
                "when": self.when,
                "ago": self.ago,
                "language": self.language,
                "language_tag": i18n.TAGS[self.language],
                "languages": [(code, i18n.NAMES[code], i18n.TAGS[code]) for code in i18n.LANGUAGES],
                "navigation": NAVIGATION,
                "path": self.request.url.path,
                "here": self.here,
                "csrf": self.csrf,
                "csrf_field": Markup('<input type="hidden" name="{}" value="{}">').format(CSRF_FIELD, self.csrf),
                "said": None if said is None else self._said(*said),
                "said_refused": said is not None and said[0] in REFUSALS,
                "needs_login": self.desk.guard.token is not None,
                **context,
            }
        )
        response = HTMLResponse(text, status)
        if self.is_new:
            response.set_cookie(CSRF_COOKIE, self.seed, httponly=True, samesite="strict")
        return response

    def redirect(self, path: str, said: str = "", /, **values: object) -> Response:
        """Where a form leads; `said` is the key of the message to be shown there, `values` its fields."""
        if said:
            mark = "&" if "?" in path else "?"
            path = f"{path}{mark}{urlencode({'said': self.desk.say(said, values)})}"
        return RedirectResponse(path, 303)

    @property
    def here(self) -> str:
        """This page's address, for forms that come back to it; of one that answers a form, the page it stood on."""
        if self.request.method not in SAFE:
            return _readable(self.request, self.request.url.path)
        query = [(name, value) for name, value in self.request.query_params.multi_items() if name != "said"]
        return self.request.url.path + (f"?{urlencode(query)}" if query else "")

    def when(self, moment: datetime | None) -> Markup:
        """A time of this machine's zone, to the minute."""
        if moment is None:
            return escape("–")
        local = moment.astimezone()
        return Markup('<time datetime="{}" title="{}">{}</time>').format(
            moment.isoformat(timespec="seconds"), f"{local:%Y-%m-%d %H:%M:%S %Z}", f"{local:%Y-%m-%d %H:%M}"
        )

    def ago(self, moment: datetime | None) -> str:
        """How long ago or ahead, in words."""
        if moment is None:
            return "–"
        seconds = (self.desk.clock.now() - moment).total_seconds()
        for unit, size in (("days", 86_400), ("hours", 3_600), ("minutes", 60)):
            if abs(seconds) >= size:
                tense = "past" if seconds > 0 else "future"
                return self.t(f"ago.{unit}.{tense}", n=round(abs(seconds) / size))
        return self.t("ago.now")


def _readable(request: Request, path: str) -> str:
    """The path, or the nearest one above it, that can be looked at; where a form goes, often nothing can."""
    path = "/runs" if path.startswith("/runs/") else path
    while path.strip("/"):
        scope = {"type": "http", "method": "GET", "path": path, "root_path": "", "headers": []}
        if any(route.matches(scope)[0] is Match.FULL for route in request.app.routes):
            return path
        path = path.rpartition("/")[0]
    return "/"


def visitor(request: Request) -> Visitor:
    desk: Desk = request.app.state.desk
    return Visitor(desk, request)


AnyVisitor = Annotated[Visitor, Depends(visitor)]


# -- with the store open ------------------------------------------------------------------------------


class Look(Visitor):
    """A visitor with settings, state and workspace as they are now."""

    def __init__(self, desk: Desk, request: Request, settings: Settings, store: Store, workspace: Workspace) -> None:
        super().__init__(desk, request)
        self.settings = settings
        self.store = store
        self.workspace = workspace

    @property
    def redactor(self) -> Redactor:
        return self.desk.redactor(self.settings)

    def long_memory(self, *, recover: bool = True) -> LongMemory:
        """The service through which memory is changed, as the commands use it. No model is asked, so none is needed.

        `recover` settles what an interrupted process left, as every command does; not where one only looks.
        """
        tokens = ByteTokens()
        model = OfflineModel()
        run_id = new_run_id(self.desk.clock)
        runtime = Runtime(
            settings=self.settings,
            clock=self.desk.clock,
            store=self.store,
            workspace=self.workspace,
            extract_model=model,
            consolidate_model=model,
            meter=Ledger(self.store, self.settings.budget, self.desk.clock, run_id),
            tokens=tokens,
            run_id=run_id,
            owner=f"{socket.gethostname()}:{os.getpid()}:{run_id}",
            redactor=self.redactor,
        )
        memory = LongMemory(runtime)
        if recover:
            self.desk.transcripts.clear()
            memory.recover()
        return memory


def look(request: Request) -> Iterator[Look]:
    desk: Desk = request.app.state.desk
    settings = desk.load()
    with Store.open(settings, desk.clock) as store:
        yield Look(desk, request, settings, store, Workspace.open(settings.home, store.generation))


AnyLook = Annotated[Look, Depends(look)]


# -- forms --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Posted:
    """The fields of a form whose CSRF token was right."""

    fields: Mapping[str, str]

    def get(self, name: str, default: str = "") -> str:
        return self.fields.get(name, default)

    def has(self, name: str) -> bool:
        return bool(self.fields.get(name))


async def posted(request: Request) -> Posted:
    """Reads and checks a form. Raises CsrfError, UsageError."""
    async with request.form(max_files=0, max_fields=MAX_FIELDS, max_part_size=MAX_BODY) as form:
        fields = {name: value.replace("\r\n", "\n") for name, value in form.items() if isinstance(value, str)}
    guard: Guard = request.app.state.desk.guard
    if not guard.is_csrf(cookies(request.headers).get(CSRF_COOKIE), fields.get(CSRF_FIELD)):
        raise CsrfError(
            "This form is out of date: the page is older than the server.", hint="Load the page again and repeat it."
        )
    return Posted(fields)


Form = Annotated[Posted, Depends(posted)]


def local_path(text: str, default: str = "/") -> str:
    """A path of this server a form may come back to; never another site."""
    plain = text.isascii() and text.isprintable() and not any(sign in text for sign in "\\<>\"' ")
    return text if plain and text.startswith("/") and not text.startswith("//") else default


HOSTS = tuple(host.value for host in Host)
