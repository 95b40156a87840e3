"""A walk over the built site: no dead link, no page without a title, no picture without a text, nothing from elsewhere.

python -m tools.site.crawl build/site
"""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: Attributes by which a page asks for a file as it opens.
FETCHED = {("script", "src"), ("img", "src"), ("link", "href"), ("iframe", "src"), ("source", "src"), ("video", "src")}
#: Relations of ``link`` elements that fetch nothing.
TOLD_ONLY = {"canonical", "next", "prev", "author", "copyright", "index", "search"}


class Page(HTMLParser):
    """What a page links to, what it can be linked at, and what is wrong with it by itself."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.anchors: set[str] = set()
        self.faults: list[str] = []
        self.title = ""
        self._in_title = False
        self._headings = 0
        self.feed(path.read_text(encoding="utf-8"))
        if not self.title.strip():
            self.faults.append("has no title")
        if self._headings != 1:
            self.faults.append(f"has {self._headings} headings of the first level, one is expected")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Notes links, anchors, files and pictures."""
        given = dict(attrs)
        self._in_title |= tag == "title" and not self.title
        self._headings += tag == "h1"
        self.anchors |= {name for name in (given.get("id"), given.get("name")) if name}
        for name, value in attrs:
            if (tag, name) in FETCHED and value and not TOLD_ONLY & set((given.get("rel") or "").split()):
                self.fetched.append(value)
            elif name == "href" and value:
                self.links.append(value)
        if tag == "img" and not (given.get("alt") or "").strip() and given.get("aria-hidden") != "true":
            self.faults.append(f"has a picture without a text: {given.get('src')}")

    def handle_endtag(self, tag: str) -> None:
        """The title ends."""
        self._in_title &= tag != "title"

    def handle_data(self, data: str) -> None:
        """The title's text."""
        self.title += data if self._in_title else ""


def faults(site: Path) -> list[str]:
    """What is wrong with a site, a line each; pages that nothing links to among them."""
    pages = {path: Page(path) for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts}
    found, reached = [], {site / "index.html", site / "search.html", site / "genindex.html"}
    for path, page in pages.items():
        place = path.relative_to(site)
        found += [f"{place}: {fault}" for fault in page.faults]
        found += [f"{place}: fetches {url} from elsewhere" for url in page.fetched if urlsplit(url).netloc]
        for url in [*page.links, *page.fetched]:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
            target = target / "index.html" if target.is_dir() else target
            if not target.is_file():
                found.append(f"{place}: links to {url}, which is not there")
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                found.append(f"{place}: links to {url}, a place that page does not have")
            if target != path:
                reached.add(target)
    return found + [f"{path.relative_to(site)}: nothing links to it" for path in pages if path not in reached]


def main(site: Path) -> int:
    """Walks over a site; says what is wrong with it, and returns 1 if anything is."""
    if not (site / "index.html").is_file():
        print(f"{site}: has no index.html: build the site first (make docs-site)")
        return 1
    found = faults(site.resolve())
    print("\n".join(found) or f"{site}: {len(list(site.rglob('*.html')))} pages, no dead link")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1] if len(sys.argv) > 1 else "build/site")))
