"""Pages that are made when the site is built: files of the project, sources that pages link to, and the references.

Nothing is written where nothing has changed, so that a second build does little; what is no longer made is removed.
"""

import ast
import hashlib
import os
from pathlib import Path

from sphinx.application import Sphinx

from tools.site import commands, reference
from tools.site.links import BELOW, DOCS, MADE, PAGES, ROOT, sources_linked, told_anew, written_pages


def setup(app: Sphinx) -> dict[str, bool]:
    """The extension."""
    app.add_config_value("site_tools", _tools(), "env")  # pages read before these files changed are read again
    app.connect("builder-inited", lambda app: write())
    app.connect("source-read", _relink)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write() -> None:
    """Writes all pages that are made of something else."""
    pages = project_pages() | source_pages() | reference.pages() | commands.pages()
    for name, text in pages.items():
        path = DOCS / name
        if not path.is_file() or path.read_text() != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    for folder in set(MADE) - {"gallery"}:
        for path in (DOCS / folder).rglob("*.*"):
            if path.is_file() and str(path.relative_to(DOCS)) not in pages:
                path.unlink()


def project_pages() -> dict[str, str]:
    """Files beside docs/, as pages."""
    found = {}
    for name, page in PAGES.items():
        if page.startswith("project/") and (ROOT / name).is_file():
            found[page] = told_anew((ROOT / name).read_text(), ROOT / name, DOCS / page)
    return found


def source_pages() -> dict[str, str]:
    """A page for each source that some page links to; the README is none, the front page stands in its place."""
    found = {}
    for place in sorted(sources_linked(page for page in written_pages() if page != ROOT / "README.md")):
        page = DOCS / "code" / f"{place}.md"
        if (ROOT / place).is_dir():
            text = f"# {place}\n\n" + "\n".join(_line_about(path) for path in sorted((ROOT / place).glob("*.py")))
        else:
            inside = os.path.relpath(ROOT / place, page.parent)
            text = f"# {place}\n\n```{{literalinclude}} {inside}\n:language: {_language(place)}\n```"
        found[str(page.relative_to(DOCS))] = f"---\norphan: true\n---\n\n{text}\n"
    return found


def _tools() -> str:
    return hashlib.sha256(
        b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))
    ).hexdigest()


def _line_about(path: Path) -> str:
    about = (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
    return f"- `{path.name}`: {about}"


def _language(place: str) -> str:
    return {".py": "python", ".toml": "toml", ".md": "markdown", ".sh": "bash"}.get(Path(place).suffix, "text")


def _relink(app: Sphinx, docname: str, content: list[str]) -> None:
    page = Path(app.env.doc2path(docname))
    if page.suffix == ".md":
        content[0] = told_anew(content[0], page, page)
    if docname in BELOW:
        pages = sorted(path.stem for path in (DOCS / BELOW[docname]).glob("*.md") if path.stem != "README")
        listed = "\n".join(f"/{BELOW[docname]}/{name}" for name in pages)
        content[0] += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
