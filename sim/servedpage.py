"""Prometheus page of a lab in virtual time: text that a thread serves on request."""

from __future__ import annotations

import asyncio
import threading

from mrclab.controller.metrics.page import MetricsServer


class ServedPage:
    """Serves `text` on loopback until it is closed. Only the world's thread writes the text: no race."""

    def __init__(self) -> None:
        self.text = ""
        self._loop = asyncio.new_event_loop()
        self._server = MetricsServer(0, self._make)
        self._serving = threading.Thread(target=self._loop.run_forever, name="metrics", daemon=True)
        self._serving.start()
        asyncio.run_coroutine_threadsafe(self._server.start(), self._loop).result()

    @property
    def url(self) -> str:
        """The page's whole address."""
        return self._server.url

    async def _make(self) -> str:
        return self.text

    def close(self) -> None:
        """Stop serving."""
        asyncio.run_coroutine_threadsafe(self._server.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._serving.join()
        self._loop.close()
