"""Expectations as JUnit XML, which every CI system reads: one test case each."""

from collections.abc import Sequence
from xml.etree import ElementTree

from mrclab.lab.expectations import Verdict

_NO_XML = dict.fromkeys(  # XML 1.0, production 2 (Char) has all others
    [*range(9), 0xB, 0xC, *range(0xE, 0x20), *range(0xD800, 0xE000), 0xFFFE, 0xFFFF], "\ufffd"
)


def plain(text: str) -> str:
    """Text without the characters that XML cannot hold, such as those that colour a terminal."""
    return text.translate(_NO_XML)


def render(suite: str, verdicts: Sequence[Verdict], invalid: Sequence[str] = ()) -> str:
    """The XML text of one scenario; an INVALID run has an error, which CI systems tell from a failure.

    Its expectations are neither passed nor failed but skipped.
    """
    failures = 0 if invalid else sum(not verdict.ok for verdict in verdicts)
    counts = {"tests": len(verdicts) + bool(invalid), "failures": failures, "errors": int(bool(invalid))}
    counts["skipped"] = len(verdicts) if invalid else 0
    root = ElementTree.Element("testsuite", {"name": suite, **{name: str(count) for name, count in counts.items()}})
    if invalid:
        case = ElementTree.SubElement(root, "testcase", classname=suite, name="0 the machine keeps up with the run")
        error = ElementTree.SubElement(case, "error", message=plain("INVALID: " + invalid[0]))
        error.text = plain("\n".join(invalid))
    for number, verdict in enumerate(verdicts, 1):
        case = ElementTree.SubElement(
            root, "testcase", classname=suite, name=plain(f"{number} {verdict.expected or verdict.kind}")
        )
        text = plain(f"expected: {verdict.expected}\nobserved: {verdict.observed}\nwhen: {verdict.when}")
        if invalid:
            word = "passed" if verdict.ok else "failed"
            ElementTree.SubElement(case, "skipped", message=f"the run is INVALID; the expectation {word}")
            ElementTree.SubElement(case, "system-out").text = text
        elif verdict.ok:
            ElementTree.SubElement(case, "system-out").text = text
        else:
            ElementTree.SubElement(case, "failure", message=plain(f"observed {verdict.observed}")).text = text
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
