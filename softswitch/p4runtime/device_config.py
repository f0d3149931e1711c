"""The `p4_device_config` of a pipeline: the BMv2 JSON, plain or in the wrapper of old tools.

The p4lang tutorials still send `p4.tmp.P4DeviceConfig`, which PI unwraps; its only field of interest is number 3,
`device_data`. The wrapper is read by hand because no package ships its descriptor any more.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from mrclab.softswitch.p4runtime.messages.stubs import p4i, p4r

DEVICE_DATA_FIELD = 3
WIRE_VARINT, WIRE_BYTES = 0, 2


def device_json(config: bytes) -> bytes:
    """Return the JSON text in `config`, or `config` itself where it is neither JSON nor the old wrapper."""
    if config.lstrip()[:1] == b"{":
        return config
    return _unwrap(config) or config


def _unwrap(message: bytes) -> bytes | None:
    """Return the field `device_data` of a serialised P4DeviceConfig; None if `message` is none."""
    position, found = 0, None
    while position < len(message):
        tag, position = _varint(message, position)
        if tag & 7 == WIRE_VARINT:
            _, position = _varint(message, position)
        elif tag & 7 == WIRE_BYTES:
            length, position = _varint(message, position)
            if tag >> 3 == DEVICE_DATA_FIELD:
                found = message[position : position + length]
            position += length
        else:
            return None
    return found if position == len(message) else None


def _varint(message: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    for byte in message[position : position + 10]:
        value |= (byte & 0x7F) << shift
        shift += 7
        position += 1
        if byte < 0x80:
            break
    return value, position


@dataclass(frozen=True)
class StoredConfig:
    """The pipeline configuration as it was sent, kept compressed: it is large, and rarely read.

    `program` is the device config where the compiled program has the same bytes, which it keeps in any case.
    """

    p4info: bytes
    device_config: bytes
    program: bytes | None
    cookie: int | None

    @staticmethod
    def of(config: p4r.ForwardingPipelineConfig, program: str | bytes) -> StoredConfig:
        """Store `config`, of which `program` was compiled."""
        device_config = config.p4_device_config
        same = isinstance(program, bytes) and program == device_config
        return StoredConfig(
            zlib.compress(config.p4info.SerializeToString()),
            b"" if same else zlib.compress(device_config),
            program if isinstance(program, bytes) and same else None,
            config.cookie.cookie if config.HasField("cookie") else None,
        )

    def restore(self, *, p4info: bool, device_config: bool) -> p4r.ForwardingPipelineConfig:
        """Return the cookie and the parts that are requested."""
        config = p4r.ForwardingPipelineConfig()
        if p4info:
            config.p4info.CopyFrom(p4i.P4Info.FromString(zlib.decompress(self.p4info)))
        if device_config:
            config.p4_device_config = zlib.decompress(self.device_config) if self.program is None else self.program
        if self.cookie is not None:
            config.cookie.cookie = self.cookie
        return config
