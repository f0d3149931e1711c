"""Expectations as JUnit XML, which every CI system reads: one test case each."""

from collections.abc import Sequence
from xml.etree import ElementTree

from lab.expectations import Verdict


def render(suite: str, verdicts: Sequence[Verdict], invalid: Sequence[str] = ()) -> str:
    """The XML text of one scenario; a run that is no result has an error, which CI systems tell from a failure."""
    failures = sum(not verdict.ok for verdict in verdicts)
    counts = {"tests": len(verdicts) + bool(invalid), "failures": failures, "errors": int(bool(invalid))}
    root = ElementTree.Element("testsuite", {"name": suite, **{name: str(count) for name, count in counts.items()}})
    if invalid:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name="0 the machine keeps up with the run")
        ElementTree.SubElement(case, "error", message="INVALID: " + invalid[0]).text = "\n".join(invalid)
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
