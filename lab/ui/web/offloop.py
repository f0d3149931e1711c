"""Work that may block, beside the page's event loop: in threads that never keep the page from ending."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import Any, TypeVar

from mrclab.lab.errors import LabError

T = TypeVar("T")

_MAX_THREADS = 16


class Workers:
    """Daemon threads, at most 16 at a time. One that hangs costs a place and nothing else."""

    def __init__(self) -> None:
        self._busy = 0

    async def run(self, work: Callable[..., T], /, *arguments: Any, **named: Any) -> T:
        """Call `work` in a thread of its own and return its result; LabError where too many are at work already."""
        if self._busy >= _MAX_THREADS:
            raise LabError(f"{_MAX_THREADS} requests are being worked on; try again when one of them is done")
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._busy += 1

        def settle(result: Any, error: BaseException | None) -> None:
            self._busy -= 1
            if future.cancelled():
                return
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def body() -> None:
            result, error = None, None
            try:
                result = work(*arguments, **named)
            except BaseException as raised:  # handed to the coroutine that waits
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed: the page has ended
                loop.call_soon_threadsafe(settle, result, error)

        threading.Thread(target=body, name="page-work", daemon=True).start()
        return await future
