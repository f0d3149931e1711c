"""Files that a scenario names: beside it, below a folder, or sent along with it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationInfo

from mrclab.topo.input import files, sentences


def text_of(name: str, context: Mapping[str, Any] | None, what: str) -> str:
    """Return the text of a file: one that came with the scenario, else one beside it.

    Where the context says `within`, of one below that folder only. ValueError names the file; `what` it should be is a
    phrase such as `a connection matrix such as permutation.cm`.
    """
    given = context or {}
    text = (given.get("files") or {}).get(name)
    if text is not None:
        return str(text)
    path = Path(given.get("folder", ".")) / sentences.brief(name)
    within = given.get("within")
    try:
        return files.read_text(path) if within is None else files.read_beneath(within, name).decode()
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror or error}; name a file beside the scenario") from None
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file; name {what}") from None


def reader(kind: type, what: str, parse: Callable[[str, str], object]) -> Callable[[object, ValidationInfo], object]:
    """Return the validator of a field that names a file: it makes a `kind` by `parse(text, name)`."""

    def read_file(value: object, info: ValidationInfo) -> object:
        if isinstance(value, kind):
            return value
        if not isinstance(value, str):
            raise ValueError(f"this is not a file name; name {what}")
        return parse(text_of(value, info.context, what), value)

    return read_file
