"""Algorithms that a scenario's transport may name, by purpose."""

from typing import Final

from mrclab.topo.config.registry import Registry

CONGESTION_CONTROLS: Final = {
    "mrc": Registry(
        "congestion control",
        "mrc",
        "mrclab.congestion_controls",
        "mrclab.hosts.mrc.cc",
        needs=("allows", "wants_ack", "snapshot"),
    ),
    "roce": Registry(
        "congestion control",
        "roce",
        "mrclab.congestion_controls",
        "mrclab.hosts.roce.cc",
        needs=("rate", "snapshot"),
    ),
}
"""By transport. MRC's are classes of `mrclab.hosts.mrc.cc.CongestionController`, RoCE's of `RateControl`."""

PATH_SELECTIONS: Final = Registry("path selection", "mrc", "mrclab.path_selections", "mrclab.hosts.mrc.evs.selections")
"""Of MRC: classes of `mrclab.hosts.mrc.evs.selections.PathSelection`."""

QP_SCHEDULERS: Final = Registry("QP scheduler", "mrc", "mrclab.qp_schedulers", "mrclab.hosts.mrc.scheduling")
"""Of MRC: classes of `mrclab.hosts.mrc.scheduling.QpScheduler`."""
