"""Digest configuration; the lists themselves travel on the stream (see `notifications`)."""

from __future__ import annotations

from collections.abc import Iterator

from finsy.proto import p4r

from mrclab.softswitch.objects.runtime_api import DigestConfig
from mrclab.softswitch.p4runtime.entities.common import DELETE, INSERT, MODIFY, own_copy
from mrclab.softswitch.p4runtime.messages.status import Code, P4RuntimeError, invalid, on_target
from mrclab.softswitch.p4runtime.p4info import Digest
from mrclab.softswitch.p4runtime.state import Apply, EntityHandler

NS_PER_SECOND = 1_000_000_000


class DigestHandler(EntityHandler):
    """`p4.v1.DigestEntry`."""

    def _digest(self, digest_id: int) -> Digest:
        digest = self._state.index.digests.get(digest_id)
        if digest is None:
            raise P4RuntimeError(Code.NOT_FOUND, f"{digest_id} is not a valid digest id")
        return digest

    def parse(self, update_type: int, entity: p4r.Entity) -> Apply:
        """Check an update: INSERT starts the digest, MODIFY changes how it is collected, DELETE stops it."""
        message = entity.digest_entry
        digest = self._digest(message.digest_id)
        if update_type not in {INSERT, MODIFY, DELETE}:
            raise invalid("Invalid update type for DigestEntry")
        config = None if update_type == DELETE else _config(message)

        def apply() -> None:
            configured = digest.id in self._state.digests
            if update_type == INSERT and configured:
                raise P4RuntimeError(Code.ALREADY_EXISTS, f"Digest {digest.id} already configured")
            if update_type != INSERT and not configured:
                raise _not_configured(digest.id)
            with on_target("Error when configuring digest with target"):
                self._switch.program().digests.enable(digest.name, config)
            if update_type == DELETE:
                del self._state.digests[digest.id]
            else:
                self._state.digests[digest.id] = own_copy(message)

        return apply

    def read(self, entity: p4r.Entity) -> Iterator[p4r.Entity]:
        """Yield a digest's configuration."""
        digest_id = entity.digest_entry.digest_id
        if digest_id == 0:
            raise P4RuntimeError(Code.UNIMPLEMENTED, "digest_id must be set when reading DigestEntry")
        message = self._state.digests.get(self._digest(digest_id).id)
        if message is None:
            raise _not_configured(digest_id)
        yield p4r.Entity(digest_entry=message)


def _not_configured(digest_id: int) -> P4RuntimeError:
    return P4RuntimeError(Code.NOT_FOUND, f"Digest {digest_id} not configured")


def _config(message: p4r.DigestEntry) -> DigestConfig:
    config = message.config
    if config.max_timeout_ns < 0 or config.max_list_size < 0 or config.ack_timeout_ns < 0:
        raise invalid("Digest timeouts and list size must not be negative")
    return DigestConfig(
        config.max_timeout_ns / NS_PER_SECOND, config.max_list_size, config.ack_timeout_ns / NS_PER_SECOND
    )
