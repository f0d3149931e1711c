"""Scripts of RPCs whose answers are written down, to hold softswitch to what BMv2 answered.

A transcript is a list of steps: what was asked, in words, and what came back: canonical codes, messages and entities in
protobuf's JSON. Order among entities is not part of it.
"""

import json
import select
from collections.abc import Callable
from typing import Any

from google.protobuf import json_format
from p4runtime_client import DELETE, INSERT, MODIFY, Client, Names, RefusedError, StreamClient
from rig import Rig

EXIT_TIMEOUT_S = 120.0
Step = dict[str, Any]
KINDS = {INSERT: "insert", MODIFY: "modify", DELETE: "delete"}


class Transcript:
    """Runs RPCs on one switch and keeps what came back. Each step has a label of its own within the case."""

    def __init__(self, client: Client, rig: Rig | None = None) -> None:
        self.client, self.names, self.rig = client, client.names, rig
        self.steps: list[Step] = []

    def _step(self, label: str, call: Callable[[], Step | None]) -> Step:
        assert label not in {step["label"] for step in self.steps}, f"label {label!r} is used twice"
        step: Step = {"label": label}
        try:
            step |= call() or {}
            step["code"] = "OK"
        except RefusedError as error:
            step |= {"code": error.code, "message": error.message}
            if error.errors:
                step["updates"] = [
                    {"code": code, "message": e.message} for code, e in zip(error.codes, error.errors, strict=True)
                ]
        self.steps.append(step)
        return step

    def write(self, label: str, *updates: tuple[int, Any], **options: Any) -> None:
        self._step(label, lambda: self.client.write(*updates, **options))

    def insert(self, label: str, *messages: Any) -> None:
        self.write(label, *((INSERT, m) for m in messages))

    def modify(self, label: str, *messages: Any) -> None:
        self.write(label, *((MODIFY, m) for m in messages))

    def delete(self, label: str, *messages: Any) -> None:
        self.write(label, *((DELETE, m) for m in messages))

    def read(self, label: str, *messages: Any) -> None:
        def call() -> Step:
            found = self.client.read(*messages)
            return {"entities": sorted((as_json(message) for message in found), key=json.dumps)}

        self._step(label, call)

    def do(self, label: str, call: Callable[[], Any]) -> None:
        """Any RPC; a message it returns is kept."""

        def run() -> Step | None:
            result = call()
            return None if result is None else {"answer": as_json(result)}

        self._step(label, run)

    def exits(self, label: str, port: int, frames: list[bytes]) -> None:
        """Send frames one by one, each of which must leave somewhere; the ports they left by are kept."""
        self._step(label, lambda: {"answer": [self.exit_of(port, frame) for frame in frames]})

    def exit_of(self, port: int, frame: bytes) -> int:
        """Send a frame that must leave somewhere; return the port it left by."""
        assert self.rig is not None
        self.rig.send(port, frame)
        ready, _, _ = select.select(list(self.rig.ports.values()), [], [], EXIT_TIMEOUT_S)
        found = [number for number, end in self.rig.ports.items() if end in ready and self.rig.receive(number)]
        assert len(found) == 1, f"the frame left by ports {found}"
        return found[0]

    def leaves(self, label: str, port: int, frame: bytes) -> None:
        """Send a frame that must leave by port 2; the whole of what left is kept."""

        def call() -> Step:
            assert self.rig is not None
            self.rig.send(port, frame)
            return {"answer": self.rig.receive(2, EXIT_TIMEOUT_S).hex()}

        self._step(label, call)

    def stream(self, label: str, stream: StreamClient) -> None:
        """The next message of a stream, or the error that ended it."""
        self._step(label, lambda: {"answer": as_json(stream.next())})


def as_json(message: Any) -> Any:
    """A protobuf message in its JSON form; anything else as it is."""
    if isinstance(message, str | int | list | dict):
        return message
    found = json_format.MessageToDict(message, preserving_proto_field_name=True)
    if "replicas" in found:
        found["replicas"].sort(key=json.dumps)  # their order is free
    return found


def differences(recorded: list[Step], found: list[Step]) -> list[str]:
    """Yield differences, one line each. Messages may be longer than BMv2's: softswitch adds the cause."""
    if [s["label"] for s in recorded] != [s["label"] for s in found]:
        return ["the steps are not the recorded ones: record again"]
    return [
        f"{a['label']}: {key}: recorded {a.get(key)!r}, found {b.get(key)!r}"
        for a, b in zip(recorded, found, strict=True)
        for key in sorted(a.keys() | b.keys())
        if not _same(key, a.get(key), b.get(key))
    ]


def _same(key: str, recorded: Any, found: Any) -> bool:
    if key == "message":
        return found is not None and str(found).startswith(str(recorded))
    if key == "updates" and recorded and found and len(recorded) == len(found):
        return all(
            a["code"] == b["code"] and b["message"].startswith(a["message"])
            for a, b in zip(recorded, found, strict=True)
        )
    return bool(recorded == found)


__all__ = ["DELETE", "INSERT", "MODIFY", "Names", "Step", "Transcript", "as_json", "differences"]
