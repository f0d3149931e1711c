"""Titles and texts of the page's appendices: texts.yaml."""

from pathlib import Path

from mrclab.lab.scenario.files import yamlfile


def of(name: str) -> tuple[str, str]:
    """Return title and text of the appendix whose picture has this name."""
    fields = yamlfile.read(Path(__file__).with_name("texts.yaml")).data[name]
    return str(fields["title"]), str(fields["text"])
