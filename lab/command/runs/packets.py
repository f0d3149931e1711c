"""The command `mrclab packets`: captured frames as a table, or a smaller capture."""

import csv
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic import ValidationError

from mrclab.lab import console
from mrclab.lab.capture import packets as table
from mrclab.lab.capture import pcapng
from mrclab.lab.errors import LabError, naming
from mrclab.lab.scenario.files import yamlfile
from mrclab.lab.scenario.sections.trace import COLUMNS, PacketFilter
from mrclab.topo import fabricfile
from mrclab.topo.input import sentences

app = typer.Typer()
out = console.console()
_FORMS = (".parquet", ".csv", ".pcapng")


@app.command()
def packets(
    capture: Annotated[Path, typer.Argument(help="a file of `mrclab capture`, of the prompt, or of a run's trace")],
    only: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="e.g. kind=data qp=16..31 psn=100..200 plane=2 trimmed=true"),
    ] = None,
    output: Annotated[
        Path, typer.Option(help=f"the file to write; its suffix, {', '.join(_FORMS)}, is the format")
    ] = Path("packets.parquet"),
) -> None:
    """Write the packets of a capture that meet all conditions as a table, one row for a packet at a port."""
    if output.suffix not in _FORMS:
        raise LabError(f"--output {output}: invalid ending; expected one of {', '.join(_FORMS)}")
    chosen = _filter(only or [])
    try:
        interfaces, frames = pcapng.load(capture)
    except OSError as error:
        raise LabError(f"{capture} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise LabError(f"{capture} holds no capture of a lab: {error}; name a .pcapng file") from None
    fabric_file = capture.with_name("fabric.yaml")
    name = table.host_names(fabricfile.load(fabric_file)) if fabric_file.exists() else table.address_text
    rows = [(table.row(frame, interfaces, name), frame) for frame in frames]
    kept = [(row, frame) for row, frame in rows if chosen.accepts(row)]
    with naming(output):
        if output.suffix == ".pcapng":
            pcapng.store(output, interfaces, (frame for _, frame in kept), ())
        elif output.suffix == ".csv":
            with output.open("w", encoding="utf-8", newline="") as file:
                csv.writer(file).writerows([COLUMNS, *(row for row, _ in kept)])
        else:
            table.write_parquet(output, [row for row, _ in kept])
    console.plain(out, f"{output}: {len(kept)} of {len(rows)} packets")


def _filter(words: list[str]) -> PacketFilter:
    """Return the conditions that words such as `qp=3` give; LabError names an invalid one."""
    found: dict[str, Any] = {}
    for word in words:
        field, equals, value = word.partition("=")
        if not equals or field not in PacketFilter.model_fields:
            fields = ", ".join(PacketFilter.model_fields)
            raise LabError(f"{word}: no such condition; expected FIELD=VALUE with one of {fields}")
        try:
            found[field] = value.split(",") if field == "kind" else yamlfile.parse_value(value)
        except ValueError as error:
            raise LabError(f"{word}: {error}") from None
    try:
        return PacketFilter.model_validate(found)
    except ValidationError as error:
        raise LabError(sentences.first(error)) from None
