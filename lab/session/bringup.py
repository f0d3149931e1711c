"""A lab that is up for a block, in the world of its setting."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mrclab.lab.run.world import Progress
from mrclab.lab.run.worlds import world_up
from mrclab.lab.scenario.scenario import LabSetting
from mrclab.lab.session.lab import Lab
from mrclab.topo.model import Fabric


@contextmanager
def lab_up(setting: LabSetting, fabric: Fabric, progress: Progress, target: str | None, run_dir: Path) -> Iterator[Lab]:
    """Context manager: the lab of `setting` with `fabric`, ready for traffic and faults."""
    with (
        world_up(
            setting.world,
            fabric,
            progress,
            target=target,
            seed=setting.seed,
            run_dir=run_dir,
            mapper=setting.mapper,
            transport=setting.transport,
            repeatable=setting.repeatable,
        ) as world,
        Lab(world, setting.transport.qps) as lab,
    ):
        yield lab
