"""Files that a scenario names: beside it, below a folder, or sent along with it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from mrclab.topo.input import files, sentences

T = TypeVar("T")


class SourceFile(Protocol):
    """File of which a workload or topology is made: its name in the scenario, its text, and the suffix in results."""

    @property
    def name(self) -> str:
        """Name in the scenario."""

    @property
    def text(self) -> str:
        """Contents."""

    @property
    def suffix(self) -> str:
        """Suffix that results keep it by."""


@dataclass(frozen=True)
class InputFile(Generic[T]):
    """A `SourceFile` of a field of a scenario, and what was read from it."""

    name: str
    text: str
    suffix: str
    content: T

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FromFile(Generic[T]):
    """Annotation of a field that names a file: an `InputFile` whose content is `parse(text, name)`.

    `what` it should be is a phrase such as `a connection matrix such as permutation.cm`.
    """

    what: str
    suffix: str
    parse: Callable[[str, str], T]

    def __get_pydantic_core_schema__(self, _source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        shown = core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema())
        return core_schema.with_info_plain_validator_function(self._read, serialization=shown)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"type": "string"}

    def _read(self, value: object, info: ValidationInfo) -> InputFile[T]:
        if isinstance(value, InputFile):
            return value
        if not isinstance(value, str):
            raise ValueError(f"this is not a file name; name {self.what}")
        text = text_of(value, info.context, self.what)
        return InputFile(value, text, self.suffix, self.parse(text, value))


def text_of(name: str, context: Mapping[str, Any] | None, what: str) -> str:
    """Return the text of a file: one that came with the scenario, else one beside it.

    Where the context says `within`, of one below that folder only. ValueError names the file, and `what` it should be.
    """
    given = context or {}
    text = (given.get("files") or {}).get(name)
    if text is not None:
        return str(text)
    path = Path(given.get("folder", ".")) / sentences.brief(name)
    within = given.get("within")
    try:
        return files.read_text(path) if within is None else files.read_beneath(within, name).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file; name {what}") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        why = getattr(error, "strerror", None) or error
        raise ValueError(f"{path} cannot be read: {why}; name a file beside the scenario") from None
