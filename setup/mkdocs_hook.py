"""A hook of mkdocs: pages of the root folder become pages of the site, and links to sources become text."""

import html
import posixpath
import re
import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files  # type: ignore[import-not-found,unused-ignore]

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "setup" / "site"))
import glossary  # noqa: E402

PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "CONTRIBUTING.md", "CHANGELOG.md": "CHANGELOG.md"}
HERE = """
<p><a class="md-button md-button--primary" href="try/index.html">Open the lab in this tab</a>
<a class="md-button" href="try/cable.html">What happens when a cable dies</a></p>
<details><summary>Or start it here</summary>
<iframe src="try/index.html" loading="lazy" title="The lab" style="width: 100%; height: 44rem; border: 0"></iframe>
</details>
"""
"""The lab in the home page, below its picture; it is loaded when somebody opens it."""
_PICTURE = re.compile(r"<img[^>]*packets\.svg[^>]*/?>\s*</p>")

_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root folder."""
    for name, target in PAGES.items():
        files.append(File.generated(config, target, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, files: Files, **_: Any) -> str:
    """Let links lead to where the page is on the site."""
    source = page.file.src_uri
    rooted = next((name for name, target in PAGES.items() if target == source), None)
    here = "" if rooted else posixpath.join("docs", posixpath.dirname(source))

    def link(found: re.Match[str]) -> str:
        image, text, to = found.groups()
        if "://" in to or to.startswith("#"):
            return found[0]
        path, mark, anchor = to.partition("#")
        place = posixpath.normpath(posixpath.join(here, path))
        target = PAGES.get(place) or place.removeprefix("docs/")
        if files.get_file_from_path(target) is not None and (place in PAGES or place.startswith("docs/")):
            return f"{image}[{text}]({posixpath.relpath(target, posixpath.dirname(source) or '.')}{mark}{anchor})"
        if not (ROOT / place).exists():
            return found[0]  # mkdocs says that it is broken
        return text if text.strip("`") == to else f"{text} (`{place}`)"

    return _LINK.sub(link, markdown)


def on_page_content(html_: str, page: Any, **_: Any) -> str:
    """Put the lab into the home page, and link words of lessons to the glossary."""
    source = page.file.src_uri
    if source == "index.md":
        return _PICTURE.sub(lambda found: found[0] + HERE, html_, count=1)
    if source == "glossary.md":
        return str(glossary.anchored(html_))
    if not source.startswith("lessons/0"):
        return html_
    page_of = posixpath.relpath("glossary.html", posixpath.dirname(source))

    def link(text: str, anchor: str, meaning: str) -> str:
        return f'<a href="{page_of}#{anchor}" title="{html.escape(meaning)}">{text}</a>'

    return str(glossary.marked(html_, link))
