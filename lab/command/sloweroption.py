"""The option `--slower` of commands."""

from typing import Annotated

import typer

Slower = Annotated[
    float,
    typer.Option(min=1, help="divide link rates and multiply delays by this factor: same round trips, less load"),
]
