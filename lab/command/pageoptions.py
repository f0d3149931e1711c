"""The options `--ui` and `--open` of commands that can show the live page."""

from typing import Annotated

import typer

Ui = Annotated[bool, typer.Option("--ui", help="with the live page: prints its address")]
Open = Annotated[bool, typer.Option("--open", help="with the live page, opened in the browser")]
