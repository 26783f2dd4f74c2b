"""How the server of the memory tools begins and ends: its two pipes, its one working thread, its end.

A server belongs to the client that started it. It ends when that closes the pipe, when that is gone and something else
still holds the pipe (a killed client leaves children behind), at SIGTERM and when nobody reads what it says: within
two seconds, whatever it is doing. What is being written to memory then is finished first, or was never begun.

Standard library only: all of this is in place before anything slow is imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hosts.mcp_greeting import Greeting

LOOK_SECONDS = 0.5
"""How often the server looks whether its client is still there."""
SILENT_SECONDS = 60.0
"""How long a client may take for its first word; hosts speak at once."""
GRACE_SECONDS = 1.0
"""How long an ended server may take to finish what it has begun."""
MAX_LINE_BYTES = 4 << 20
_CHUNK = 1 << 16
_WAITING = 64

T = TypeVar("T")
_log = logging.getLogger("slowwave.mcp")


class Pipes:
    """Standard input and output, taken for the protocol alone: what else reads or prints gets nothing or goes to
    standard error."""

    def __init__(self, greeting: Greeting | None = None) -> None:
        self._in, self._out = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # started without a standard error
            os.dup2(nothing, 1)
        os.close(nothing)
        self._greeting = greeting
        self._lock = threading.Lock()
        self._early: list[bytes] = []
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.heard = threading.Event()
        """Set when something was said."""
        self._opened = threading.Event()
        self._left: Callable[[], None] = lambda: os._exit(0)
        threading.Thread(target=self._read, daemon=True, name="slowwave-input").start()

    def open(self, left: Callable[[], None]) -> None:
        """Hands over to the protocol, inside the event loop; `left` is called when nobody reads us any more."""
        self._left = left
        with self._lock:
            for line in self._early:
                self._lines.put_nowait(line.decode("utf-8", "replace"))
            self._early.clear()
            self._loop = asyncio.get_running_loop()
        self._opened.set()

    def _read(self) -> None:
        rest, dropping = bytearray(), False
        with contextlib.suppress(RuntimeError, asyncio.CancelledError):  # the loop is over
            while chunk := self._chunk():
                *whole, tail = chunk.split(b"\n")
                for piece in whole:
                    if not dropping:
                        self._take(bytes(rest) + piece)
                    rest.clear()
                    dropping = False
                rest += tail
                if len(rest) > MAX_LINE_BYTES:
                    _log.warning("a message of more than %d bytes was dropped", MAX_LINE_BYTES)
                    rest.clear()
                    dropping = True
            self._opened.wait()
            self._hand(None)

    def _take(self, line: bytes) -> None:
        """A message: kept until the protocol is there, and answered meanwhile where the answer is known."""
        if len(self._early) >= _WAITING:
            self._opened.wait()
        with self._lock:
            if self._loop is None:
                self._early.append(line)
                if self._greeting is not None and (said := self._greeting.answer(line)):
                    self._write(said)
                return
        if self._greeting is not None:
            self._greeting.note(line)
        self._hand(line.decode("utf-8", "replace"))

    def _hand(self, line: str | None) -> None:
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self._put(line), self._loop).result()

    async def _put(self, line: str | None) -> None:
        while self._lines.qsize() > _WAITING:
            await asyncio.sleep(0.01)
        await self._lines.put(line)

    def _chunk(self) -> bytes:
        try:
            found = os.read(self._in, _CHUNK)
        except OSError:
            return b""
        self.heard.set()
        return found

    # What the SDK's transport asks of a text file.

    def __aiter__(self) -> Pipes:
        return self

    async def __anext__(self) -> str:
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        return line

    async def write(self, text: str) -> None:
        if self._greeting is not None and self._greeting.waits and self._greeting.settle(text):
            return
        data = text.encode("utf-8", "replace")
        await asyncio.get_running_loop().run_in_executor(None, self._write, data)

    async def flush(self) -> None:
        """Nothing is kept back."""

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(self._out, view) :]
        except OSError:
            self._left()


class Worker:
    """One thread for all that reads or writes memory, which is not made for several; the protocol goes on meanwhile."""

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._busy = threading.Lock()
        self._closed = False
        threading.Thread(target=self._run, daemon=True, name="slowwave-memory").start()

    async def run(self, work: Callable[[], T]) -> T:
        """The result of `work`; one that is cancelled before its turn is never begun."""
        future: Future[T] = Future()
        self._work.put((future, work))
        return await asyncio.wrap_future(future)

    def start(self, work: Callable[[], object]) -> None:
        """Does `work` when nothing else is to be done before it; nobody waits for it."""
        self._work.put((Future(), work))

    def finish(self, seconds: float) -> None:
        """Waits until what was begun is done, at most so long; nothing new is begun any more."""
        self._closed = True
        self._busy.acquire(timeout=seconds)

    def _run(self) -> None:
        while True:
            future, work = self._work.get()
            with self._busy:
                if self._closed:
                    return
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001  # whoever waits for it gets it
                    future.set_exception(error)


class Life:
    """Ends the process in time. `end` may be called from any thread, and more than once."""

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._ended = threading.Event()
        self._cancel: Callable[[], None] = lambda: os._exit(0)

    def begin(self) -> None:
        """Before anything slow."""
        signal.signal(signal.SIGTERM, lambda *_: self.end("it was told to"))
        signal.signal(signal.SIGINT, lambda *_: self.end("it was told to"))

    def watch(self, parent: int, heard: threading.Event) -> None:
        """The server ends when its client, the process `parent`, is gone, and when nobody ever speaks to it: then the
        client was gone before it could be told from whoever inherits its children."""

        def look() -> None:
            begun = time.monotonic()
            while not self._ended.wait(LOOK_SECONDS):
                if os.getppid() != parent:
                    self.end("its client is gone")
                elif not heard.is_set() and time.monotonic() - begun > SILENT_SECONDS:
                    self.end("nobody speaks to it")

        threading.Thread(target=look, daemon=True, name="slowwave-client").start()

    def serving(self, cancel: Callable[[], None]) -> None:
        """Inside the event loop: from now on the end is `cancel`, called there."""
        loop = asyncio.get_running_loop()

        def stop() -> None:
            with contextlib.suppress(RuntimeError):
                loop.call_soon_threadsafe(cancel)

        self._cancel = stop
        if self._ended.is_set():
            stop()

    def end(self, why: str) -> None:
        if self._ended.is_set():
            return
        self._ended.set()
        _log.info("the server ends: %s", why)
        threading.Thread(target=self._last, daemon=True, name="slowwave-end").start()
        self._cancel()

    def over(self) -> None:
        """After the event loop: waits for what was begun."""
        self._ended.set()
        self._worker.finish(GRACE_SECONDS)

    def _last(self) -> None:
        time.sleep(GRACE_SECONDS)
        os._exit(0)
