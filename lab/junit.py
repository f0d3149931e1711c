"""Expectations as JUnit XML, which every CI system reads: one test case each."""

from collections.abc import Sequence
from xml.etree import ElementTree

from lab.expectations import Verdict


def render(suite: str, verdicts: Sequence[Verdict]) -> str:
    """The XML text of one scenario."""
    failures = sum(not verdict.ok for verdict in verdicts)
    root = ElementTree.Element("testsuite", name=suite, tests=str(len(verdicts)), failures=str(failures))
    for number, verdict in enumerate(verdicts, 1):
        case = ElementTree.SubElement(
            root, "testcase", classname=suite, name=f"{number} {verdict.wanted or verdict.kind}"
        )
        said = f"wanted: {verdict.wanted}\nsaw: {verdict.saw}\nwhen: {verdict.when}"
        if verdict.ok:
            ElementTree.SubElement(case, "system-out").text = said
        else:
            ElementTree.SubElement(case, "failure", message=f"saw {verdict.saw}").text = said
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
