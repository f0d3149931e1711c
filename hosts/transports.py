"""The transports that an agent can run, as the node config names them: MRC, or RoCEv2 behind the same calls."""

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from mrclab.hosts.mrc.endpoint import MrcEndpoint
from mrclab.hosts.mrc.packets import packet as mrc
from mrclab.hosts.roce import packets as roce
from mrclab.topo.config.nodeconfig import NodeConfig
from mrclab.topo.economy import Secrets, SeededSecrets

if TYPE_CHECKING:
    from mrclab.hosts.roce.endpoint import RoceEndpoint

Endpoint: TypeAlias = "MrcEndpoint | RoceEndpoint"


class Codecs(NamedTuple):
    """Frame codecs of either transport."""

    mrc: mrc.MrcCodec
    roce: roce.RoceCodec


WIRE = Codecs(mrc.WIRE, roce.WIRE)


def draws(seed: int, host: str, repeatable: bool) -> tuple[random.Random, Secrets]:
    """Return the generators of EVs and source ports, and of keys and first PSNs: the system's, or those of the seed.

    They are two, so that the same seed gives the same EVs whether or not keys are secret.
    """
    secrets = SeededSecrets(f"{seed}/{host}/keys") if repeatable else random.SystemRandom()
    return random.Random(f"{seed}/{host}"), secrets


def endpoint(
    config: NodeConfig,
    rng: random.Random,
    log: Callable[[dict[str, Any]], object],
    kind: str | None = None,
    secrets: Secrets | None = None,
    codecs: Codecs = WIRE,
) -> Endpoint:
    """Make the transport of a node config, or of `kind`: "mrc" or "roce".

    Keys and first PSNs are drawn from `secrets`, by default from `rng` like all else.
    """
    if (kind or config.transport.kind) == "roce":
        from mrclab.hosts.roce.endpoint import RoceEndpoint  # noqa: PLC0415 - most runs have none

        return RoceEndpoint(config, rng, log, secrets, codecs.roce)
    return MrcEndpoint(config, rng, log, secrets, codecs.mrc)
