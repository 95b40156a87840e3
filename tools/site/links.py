"""Links between files of the repository, as links between pages of the site.

The pages in docs/ are written to be read as files, too: they link to sources, to CHANGELOG.md, to each other. A page
of the site is found at another place, so each link is resolved from where it was written and told anew.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
#: Files outside docs/ that are pages of the site, and where they are found there.
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "project/changelog.md",
    "CODE_OF_CONDUCT.md": "project/code-of-conduct.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "RELEASING.md": "project/releasing.md",
    "SECURITY.md": "project/security.md",
    "examples/README.md": "project/stories.md",
}
#: Pages in a folder that belong below a page which, as a file, lists them in its own words.
BELOW = {"recipes/README": "recipes", "reproduction": "reproduction"}
#: Folders of docs/ that are written by the build.
MADE = ("api", "code", "commands", "gallery", "project")
PICTURES = (".png", ".svg", ".jpg")
_FENCED = re.compile(r"(^(`{3,}|~{3,}).*?^\2`*$)", flags=re.M | re.S)
_LINK = re.compile(r"(\]\(<?)([^)\s>]+)(?=[>)\s])")


def told_anew(text: str, origin: Path, page: Path) -> str:
    """The Markdown of a file, its links as they must be on a page of the site.

    >>> told_anew("[how](../CONTRIBUTING.md#style), `[x](y.md)`", DOCS / "auto.md", DOCS / "auto.md")
    '[how](project/contributing.md#style), `[x](y.md)`'
    """
    return "".join(
        part if fenced else _LINK.sub(lambda m: m[1] + _target(m[2], origin, page), part)
        for part, fenced in _parts(text)
    )


def sources_linked(files: Iterator[Path]) -> set[str]:
    """Files and folders of the repository that pages link to and that are no pages."""
    found = set()
    for file in files:
        for part, fenced in _parts(file.read_text()):
            for link in [] if fenced else _LINK.findall(part):
                place = _place(link[1], file)
                if place is not None and _is_source(place):
                    found.add(place)
    return found


def written_pages() -> Iterator[Path]:
    """Every page that was written by hand."""
    yield from (ROOT / name for name in PAGES if name.endswith(".md") and (ROOT / name).is_file())
    yield from (path for path in sorted(DOCS.rglob("*.md")) if path.relative_to(DOCS).parts[0] not in MADE)


def _parts(text: str) -> Iterator[tuple[str, bool]]:
    """Text, and whether it is fenced or in backticks."""
    last = 0
    for match in re.finditer(rf"{_FENCED.pattern}|(`(?:[^`\n]|\n(?!\n))+`)(?!\()", text, flags=re.M | re.S):
        if match[0].startswith("`") and text[max(0, match.start() - 1) : match.start()] == "[":
            continue  # the text of a link
        yield text[last : match.start()], False
        yield match[0], True
        last = match.end()
    yield text[last:], False


def _place(target: str, origin: Path) -> str | None:
    """The path in the repository a link means, or None of one that leads elsewhere."""
    path = target.partition("#")[0]
    if not path or re.match(r"[a-z]+:", path):
        return None
    return os.path.relpath(origin.parent / path, ROOT)


def _is_source(place: str) -> bool:
    inside = place.startswith("docs" + os.sep) or place in PAGES or place.endswith(PICTURES)
    return not inside and (ROOT / place).exists()


def _target(target: str, origin: Path, page: Path) -> str:
    place = _place(target, origin)
    if place is None:
        return target
    fragment = "".join(target.partition("#")[1:])
    if place in PAGES:
        new = DOCS / PAGES[place]
    elif _is_source(place):
        new = DOCS / "code" / f"{place}.md"
    else:
        new = ROOT / place
    return os.path.relpath(new, page.parent) + fragment
