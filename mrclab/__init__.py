"""MRC Lab as one package: the folders beside this one, linked, so that their imports read `mrclab.hosts…`."""

from pathlib import Path

from mrclab import compiled

HOME = Path(__file__).parent  # what comes with the packages stands here too: p4src, scenarios

compiled.offer()
