"""An HTTP server that sleeps while nobody asks: uvicorn, without its ten looks a second for whether it should end."""

from __future__ import annotations

import asyncio
from types import FrameType

import uvicorn


class QuietServer(uvicorn.Server):
    """`run` or `serve` until a signal or `stop`.

    Answers carry no `Date`, which uvicorn's look would keep right, nor are requests limited or anybody notified.
    """

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        config.date_header = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over = asyncio.Event()

    def stop(self) -> None:
        """From any thread: no new connections, open ones are given `timeout_graceful_shutdown`."""
        self.should_exit = True
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._over.set)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self.stop()

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        if not await self.on_tick(0):
            await self._over.wait()
