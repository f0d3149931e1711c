"""The backend `mrc` of torch.distributed: `import mrclab.torch`, then `init_process_group("mrc")`. See docs/torch.md.

A rank runs on a host of the lab (`mrclab train`, `mrclab exec`, `ranks:` in a scenario). With the package installed,
PyTorch imports this by itself, and a job that names no backend gets this one on such a host.
"""

from __future__ import annotations

import os
from typing import Final

from mrclab.hosts.collectives.steps import Steps

__all__ = ["Steps", "register"]

NAME: Final = "mrc"


def register() -> None:
    """Register the backend with torch.distributed; safe to repeat."""
    try:
        import torch.distributed as dist  # noqa: PLC0415 - PyTorch asks for this function while it is imported itself
    except ImportError as error:
        raise ImportError("mrclab.torch needs PyTorch 2.13 or later: pip install '.[torch]', or make torch") from error
    if not dist.is_available() or NAME in dist.Backend.backend_list:
        return
    from mrclab.torch.group import create  # noqa: PLC0415 - PyTorch may still be loading when it imports this

    dist.Backend.register_backend(NAME, create, extended_api=True, devices=["cpu"])
    if "MRCLAB_VERBS" in os.environ:
        dist.Backend.default_device_backend_map["cpu"] = NAME


register()
