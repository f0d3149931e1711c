"""Text of a scenario and the data in it: each is made of the other on first use, since both take long."""

import io
from collections.abc import Mapping
from typing import Any

from ruamel.yaml import YAML

from mrclab.lab.scenario.files import yamlfile


class ScenarioContent:
    """A scenario as its file has it. Nobody changes `data`."""

    def __init__(self, name: str, text: str | None = None, data: Mapping[str, Any] | None = None) -> None:
        self._name, self._text, self._data = name, text, data

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScenarioContent) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def text(self) -> str:
        """YAML."""
        if self._text is None:
            self._text = dumped(self._data or {})
        return self._text

    @property
    def data(self) -> Mapping[str, Any]:
        """Plain dicts and lists."""
        if self._data is None:
            self._data = yamlfile.Document(self.text, self._name).data
        return self._data


def dumped(data: Mapping[str, Any]) -> str:
    """Return a scenario's data as YAML."""
    out = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 120
    yaml.dump(dict(data), out)
    return out.getvalue()
