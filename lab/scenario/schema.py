"""JSON schema of scenario files, generated from the models.

`python -m mrclab.lab.scenario.schema` writes it into docs/.

Values written as text (`64 MiB`, `3s`, `25% of file`) are numbers or other types in the models: the schema
has both where a model accepts both.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from mrclab import HOME
from mrclab.lab.scenario.scenario import Scenario
from mrclab.lab.scenario.triggers import Trigger

FILE = HOME / "docs" / "scenario.schema.json"
_TEXT = {"type": "string"}
_ALSO = {  # validator that converts a value → what it takes besides
    "parse_duration": _TEXT,
    "parse_delay": _TEXT,
    "parse_size": _TEXT,
    "parse_percent": _TEXT,
    "parse_line_share": _TEXT,
    "parse_bit_rate": _TEXT,
    "parse_length": _TEXT,
    "one_or_list": _TEXT,
    "some_hosts": {"const": "all"},
    "true_or_false": {"type": "boolean"},
}


class _Schema(GenerateJsonSchema):
    """Schema generator: text besides numbers where a validator converts it; any text where only Python can check."""

    def function_before_schema(self, schema: core_schema.BeforeValidatorFunctionSchema) -> JsonSchemaValue:
        inner = super().function_before_schema(schema)
        also = _ALSO.get(getattr(schema["function"]["function"], "__name__", "").strip("_"))
        return {"anyOf": [also, inner]} if also else inner

    def encode_default(self, dft: Any) -> Any:
        return str(dft) if isinstance(dft, Trigger) else super().encode_default(dft)

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        return {"type": ["string", "number"]}

    def dataclass_schema(self, schema: core_schema.DataclassSchema) -> JsonSchemaValue:
        return {"type": ["string", "number"]}


def build() -> dict[str, Any]:
    """Return the schema of a whole scenario."""
    made = Scenario.model_json_schema(by_alias=True, schema_generator=_Schema)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made, "title": "MRC Lab scenario"}


def main() -> None:
    """Write the file."""
    FILE.write_text(json.dumps(build(), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
