"""`python -m mrclab.lab.command`: the command `mrclab`, where it is not on the path."""

from mrclab.lab.command.cli import main

main()
