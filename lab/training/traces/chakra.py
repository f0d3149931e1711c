"""Chakra execution traces (MLCommons): one protobuf file per rank, `NAME.RANK.et`.

A file is a sequence of messages, each behind its length: the metadata, then the nodes. `et_def.pbtxt` is the part of
the schema that is read; fields that it does not name are skipped.

COMP nodes take their duration on the rank's processor, one for CPU operations and one for all others; so do MEM nodes
beside them. Of a collective, `comm_size` is the input of each rank: in an all-gather its own part. Groups are those
that a METADATA node lists for PyTorch's process groups (`pg_name`), else all ranks.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from mrclab.hosts.workloads.schedules import COLLECTIVE, COMPUTE, RECV, SEND
from mrclab.lab.training.job import JobError
from mrclab.lab.training.traces.nodes import DELAY, MAX_NODES, RecordedNode, RecordedRank

SUFFIX: Final = ".et"

_INVALID, _METADATA, _LOAD, _STORE, _COMP, _SEND, _RECV, _COLL = range(8)
COLLECTIVE_TYPES: Final = (
    "all_reduce", "reduce", "all_gather", "gather", "scatter", "broadcast", "all_to_all", "reduce_scatter",
    "reduce_scatter", "barrier",
)  # fmt: skip

DTYPE_BYTES: Final = {
    "bool": 1, "byte": 1, "char": 1, "uint8": 1, "int8": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
    "short": 2, "int16": 2, "half": 2, "float16": 2, "bfloat16": 2,
    "int": 4, "int32": 4, "float": 4, "float32": 4,
    "long": 8, "int64": 8, "double": 8, "float64": 8, "complexfloat": 8, "complex64": 8,
}  # fmt: skip
"""Bytes of one element, by the names that PyTorch's traces have."""

_SCHEMA = Path(__file__).with_name("et_def.pbtxt")


@functools.cache
def messages() -> Mapping[str, Any]:
    """Return protobuf's classes by the names of the messages; JobError where protobuf is not installed."""
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, text_format  # noqa: PLC0415
    except ImportError:
        raise JobError("Chakra traces need the package protobuf; `pip install '.[traces]'`") from None
    file = text_format.Parse(_SCHEMA.read_text(encoding="utf-8"), descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = (pool.FindMessageTypeByName(f"{file.package}.{message.name}") for message in file.message_type)
    return {message.name: message_factory.GetMessageClass(message) for message in found}


def _nodes(data: bytes, name: str) -> Iterator[Any]:
    if not data:
        raise JobError(f"{name}: this file is empty; a Chakra execution trace begins with its metadata")
    made, file = messages(), io.BytesIO(data)
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - after `messages` has said where it is missing
    from google.protobuf.proto import parse_length_prefixed  # noqa: PLC0415

    try:
        parse_length_prefixed(made["GlobalMetadata"], file)
        while (node := parse_length_prefixed(made["Node"], file)) is not None:
            yield node
    except (DecodeError, ValueError) as error:
        raise JobError(f"{name}: this is not a Chakra execution trace ({error}); name another file") from None


def read(files: Mapping[int, bytes], stem: str) -> list[RecordedRank]:
    """Return the ranks whose files these are, by rank; JobError names file and node of an error."""
    count = max(files) + 1
    missing = next((rank for rank in range(count) if rank not in files), None)
    if missing is not None:
        raise JobError(f"{stem}.{missing}{SUFFIX} is missing, and there is {stem}.{count - 1}{SUFFIX}; add it")
    left, found = MAX_NODES, []
    for rank in range(count):
        one = _Rank(rank, count, f"{stem}.{rank}{SUFFIX}")
        found.append(one.read(files[rank], left))
        left -= len(found[-1].nodes)
    return found


class _Rank:
    """One rank's file while it is read."""

    def __init__(self, rank: int, count: int, name: str) -> None:
        self._rank = rank
        self._count = count
        self._name = name
        self._groups: dict[str, tuple[int, ...]] = {}

    def read(self, data: bytes, most: int) -> RecordedRank:
        """Return its nodes."""
        made = RecordedRank(self._name)
        for node in _nodes(data, self._name):
            if len(made.nodes) >= most:
                raise JobError(f"{self._name}: a trace has at most {MAX_NODES} nodes; this one has more")
            made.nodes.append(self._node(node))
        return made

    def _node(self, node: Any) -> RecordedNode:
        text = f"node {node.id} ({node.name})" if node.name else f"node {node.id}"
        attributes = {one.name: getattr(one, one.WhichOneof("value") or "int64_val") for one in node.attr}
        after = tuple(dict.fromkeys([*node.ctrl_deps, *node.data_deps]))
        seconds, key = node.duration_micros * 1e-6, int(node.id)
        if node.type == _METADATA:
            self._note_groups(node.inputs.values)
        if node.type in {_INVALID, _METADATA}:
            return RecordedNode(key, text, COMPUTE, 0.0, DELAY, after=after)
        if node.type in {_LOAD, _STORE}:
            return RecordedNode(key, text, COMPUTE, seconds, 2, after=after)
        if node.type == _COMP:
            return RecordedNode(key, text, COMPUTE, seconds, int(bool(attributes.get("is_cpu_op"))), after=after)
        if node.type in {_SEND, _RECV}:
            sends = node.type == _SEND
            other = "comm_dst" if sends else "comm_src"
            peer, tag = self._number(attributes, other, text), attributes.get("comm_tag", 0)
            size = self._size(attributes, text)
            if not isinstance(tag, int):
                raise JobError(f"{self._name}: {text} has the comm_tag {tag!r}; give it as a number")
            return RecordedNode(key, text, SEND if sends else RECV, peer=peer, size=size, tag=tag, after=after)
        if node.type == _COLL:
            return self._collective(key, text, attributes, after)
        raise JobError(f"{self._name}: {text} is of unknown type {node.type}; types are 0 to {_COLL}")

    def _collective(self, key: int, text: str, attributes: Mapping[str, Any], after: tuple[int, ...]) -> RecordedNode:
        number = self._number(attributes, "comm_type", text)
        if number >= len(COLLECTIVE_TYPES):
            raise JobError(
                f"{self._name}: {text} has unknown comm_type {number}; it is 0 to {len(COLLECTIVE_TYPES) - 1}"
            )
        kind = COLLECTIVE_TYPES[number]
        group = self._group(attributes, text)
        size = 1 if kind == "barrier" else self._size(attributes, text)
        if kind in {"all_gather", "gather"}:
            size *= len(group) or self._count
        return RecordedNode(key, text, COLLECTIVE, size=size, collective=kind, group=group, after=after)

    def _number(self, attributes: Mapping[str, Any], name: str, text: str) -> int:
        value = attributes.get(name)
        if not isinstance(value, int) or value < 0:
            raise JobError(f"{self._name}: {text} has no {name}; give it as a number from 0 on")
        return value

    def _size(self, attributes: Mapping[str, Any], text: str) -> int:
        if "comm_size" in attributes:
            return self._number(attributes, "comm_size", text)
        dtype = str(attributes.get("dtype", ""))
        named = next((name for name in ("in_msg_nelems", "In msg nelems") if name in attributes), None)
        if named is None:
            raise JobError(f"{self._name}: {text} has no comm_size; give the bytes that the rank sends")
        each = DTYPE_BYTES.get(dtype.lower().removeprefix("torch."))
        if each is None:
            raise JobError(f"{self._name}: {text} has unknown dtype {dtype!r}; known are {', '.join(DTYPE_BYTES)}")
        return self._number(attributes, named, text) * each

    # --- groups -----------------------------------------------------------------------------------

    def _note_groups(self, values: str) -> None:
        """Take the process groups that PyTorch's metadata lists, if this is such a node."""
        begin, end = values.find("[{"), values.rfind("}]")
        if begin < 0 or end < begin:
            return
        try:
            rows = json.loads(values[begin : end + 2].replace('\\"', '"'))
            for row in rows:
                self._groups[str(row["pg_name"])] = tuple(int(rank) for rank in row["ranks"])
        except (ValueError, KeyError, TypeError):
            return  # metadata of another kind

    def _group(self, attributes: Mapping[str, Any], text: str) -> tuple[int, ...]:
        name = str(attributes.get("pg_name", ""))
        if name and self._groups:
            if name not in self._groups:
                known = ", ".join(list(self._groups)[:8])
                raise JobError(f"{self._name}: {text} names process group {name!r}; the metadata lists {known}")
            return self._groups[name]
        return ()
