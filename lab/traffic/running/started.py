"""A traffic that was started in a lab that is up: its events, its state, its end. Prompt and Python API drive it."""

from collections.abc import Callable, Collection

from mrclab.lab.errors import RunError
from mrclab.lab.run.world import KINDS, World
from mrclab.lab.traffic.running.flows import Running


class StartedTraffic:
    """A traffic from its start on. Nothing stays subscribed where an agent refuses to start it (RunError)."""

    def __init__(self, world: World, running: Running, kinds: Collection[str] = KINDS) -> None:
        self.running = running
        self._world = world
        self._events = world.subscribe(running.hosts, kinds)
        try:
            running.prepare()
            running.start(world.now + world.lead(len(running.hosts)))
        except BaseException:
            self._events.close()
            raise

    @property
    def ended(self) -> bool:
        """True if it was finished."""
        return self.running.ended is not None

    @property
    def intact(self) -> bool:
        """True if it ended without an error and both ends have the same bytes."""
        end = self.running.outcome
        return (
            bool(end.get("sent_sha256")) and end["sent_sha256"] == end.get("received_sha256") and not end.get("error")
        )

    @property
    def state(self) -> str:
        """`runs`, `stalled` and why, `intact`, or what went wrong."""
        if not self.ended:
            reasons = dict.fromkeys(self.running.stalled.values())
            return f"stalled: {'; '.join(reasons)}" if reasons else "runs"
        return str(self.running.outcome.get("error") or ("intact" if self.intact else "NOT INTACT"))

    def listen(self, until: float) -> None:
        """Take in events: what has come, else let time pass until something comes, at most until a time."""
        for host, event in self._events.wait(until):
            self.running.dispatch(host, event)

    def reach(self, happened: Callable[[], bool], timeout: float, rest: float) -> None:
        """Let time pass until something happened; RunError after `timeout` seconds. `rest`: s between two looks."""
        deadline = self._world.now + timeout
        while not happened():
            if self._world.now > deadline:
                share = self.running.share(deadline)
                raise RunError(f"{self.running.name} is at {share * 100:.0f}% after {timeout:g} s")
            self.listen(self._world.now + rest)

    def finish(self, error: str = "") -> None:
        """End it, with an error where it is ended before its time. An ended one stays as it is."""
        try:
            if not self.ended:
                self.running.finish(error)
        finally:
            self._events.close()
