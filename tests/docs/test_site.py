"""Every public name and command has a page, the crawler finds what is wrong, stories say what they show."""

import inspect
import os
import pkgutil
import re
import tomllib
from pathlib import Path

import pytest
from tools.site import commands, reference
from tools.site.crawl import faults
from tools.site.docstrings import escaped
from tools.site.links import BELOW, DOCS, MADE, PAGES, ROOT, told_anew, written_pages

import thinstream as ts
from thinstream.cli.parser import command_names

GALLERY = ROOT / "examples" / "gallery"
STORIES = sorted(GALLERY.glob("*.py"))


def test_every_public_name_has_a_page():
    """What ``dir(thinstream)`` and the ``__all__`` of public packages list, and some names users know."""
    pages = set(reference.pages())
    for module in reference.modules():
        offered = reference.OFFERED.get(module) or reference.names(module)
        for name in offered:
            own = f"api/{module}.{name}.rst" in pages
            assert own or f"api/thinstream.{name}.rst" in pages, f"{module}.{name}"
    for name in (name for name in dir(ts) if name[0] != "_" and not inspect.ismodule(getattr(ts, name))):
        assert f"api/thinstream.{name}.rst" in pages
    for name in (
        "distributed.train",
        "serve.create_app",
        "serve.client.Client",
        "errors.MergeError",
        "training.monitors.ADWIN",
    ):
        assert f"api/thinstream.{name}.rst" in pages


def test_modules_that_are_not_public_are_named():
    """A new module is in the reference by itself; one that is gone is not listed any more."""
    assert {module.name for module in pkgutil.iter_modules(ts.__path__)} >= reference.INTERNAL


def test_every_command_and_option_has_its_place():
    pages = commands.pages()
    assert {f"commands/{name}.rst" for name in command_names()} <= set(pages)
    assert ".. option:: --model PATH, -m PATH" in pages["commands/train.rst"]
    assert ".. option:: --intercept, --no-intercept" in pages["commands/train.rst"]
    for algorithm in ts.algorithms():
        assert f".. program:: thinstream train -a {algorithm.name.lower()}\n" in pages["commands/parameters.rst"]


@pytest.mark.parametrize("page", list(written_pages()), ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """As files, and as pages of the site, where those that are made when it is built count as there."""
    for text, place in ((page.read_text(), page), (told_anew(page.read_text(), page, page), page)):
        outside_code = re.sub(r"^(`{3,}).*?^\1|`(?:[^`\n]|\n(?!\n))+`", "", text, flags=re.M | re.S)
        for target in re.findall(r"\]\(([^)\s]+)", outside_code):
            path = target.partition("#")[0]
            if path and not re.match(r"[a-z]+:", path):
                found = (place.parent / path).resolve()
                made = any(found.is_relative_to(DOCS / folder) for folder in MADE)
                assert found.exists() or made, f"{page.name}: {target}"


def test_every_page_is_listed():
    """Each page of docs/ is in a ``toctree`` (pages of recipes and reproductions are listed by themselves)."""
    pages = {page.relative_to(DOCS).with_suffix("") for page in written_pages() if page.is_relative_to(DOCS)}
    listed = {Path("index"), Path("command-line")}  # the second below the list of commands
    for page in pages:
        text = (DOCS / page).with_suffix(".md").read_text()
        for block in re.findall(r"```\{toctree\}\n(.*?)```", text, flags=re.S):
            lines = [line for line in block.splitlines() if line and not line.startswith(":")]
            listed |= {Path(os.path.normpath(page.parent / line)) for line in lines}
    below = {page for page in pages if str(page.parent) in BELOW.values()}
    assert sorted(map(str, pages - listed - below)) == [], "name it in the toctree of docs/how-to.md, for example"


def test_links_out_of_the_docs_become_pages():
    assert told_anew("[a](../CHANGELOG.md)", DOCS / "auto.md", DOCS / "auto.md") == f"[a]({PAGES['CHANGELOG.md']})"
    assert told_anew("[a](src/thinstream/batch.py)", ROOT / "README.md", DOCS / "index.md") == (
        "[a](code/src/thinstream/batch.py.md)"
    )
    broken = "`make\ntest` [a](docs/auto.md) `x`"  # code that goes on in the next line
    assert told_anew(broken, ROOT / "README.md", DOCS / "index.md") == broken.replace("docs/", "")
    assert told_anew("```\n[a](../x.md)\n```", DOCS / "auto.md", DOCS / "b" / "c.md") == "```\n[a](../x.md)\n```"


PAGE = "<html><head><title>{title}</title></head><body><h1>A</h1>{body}</body></html>"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ('<a href="nowhere.html">a</a>', "links to nowhere.html, which is not there"),
        ('<a href="other.html#no">a</a>', "links to other.html#no, a place that page does not have"),
        ('<img src="p.png" alt="">', "has a picture without a text: p.png"),
        ('<script src="https://cdn.example/x.js"></script>', "fetches https://cdn.example/x.js from elsewhere"),
        ("<h1>B</h1>", "has 2 headings of the first level, one is expected"),
        ('<a href="other.html#yes">a</a><a href="https://example.org">b</a><img src="p.png" alt="a p">', None),
    ],
)
def test_crawler(tmp_path, body, said):
    (tmp_path / "index.html").write_text(PAGE.format(title="T", body=f'{body}<a href="other.html">o</a>'))
    (tmp_path / "other.html").write_text(PAGE.format(title="O", body='<p id="yes"></p>'))
    (tmp_path / "p.png").write_bytes(b"")
    assert faults(tmp_path) == ([] if said is None else [f"index.html: {said}"])


def test_crawler_misses_titles_and_ways_to_a_page(tmp_path):
    (tmp_path / "index.html").write_text(PAGE.format(title=" ", body=""))
    (tmp_path / "alone.html").write_text(PAGE.format(title="T", body=""))
    assert sorted(faults(tmp_path)) == ["alone.html: nothing links to it", "index.html: has no title"]


def test_docstrings_keep_their_code():
    text = ["Of |w| and coef_ :", "", "    >>> a | b", "    1", "", "``x_`` and x_"]
    assert escaped(text) == ["Of \\|w\\| and coef\\_ :", "", "    >>> a | b", "    1", "", "``x_`` and x\\_"]


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.stem)
def test_stories_are_told(story):
    """A title, a text, cells, and at least one picture; all but the one on Ray are run when the site is built."""
    text = story.read_text()
    assert re.match(r'"""\n(.+)\n(=+)\n\n\S', text)
    assert "\n# %%\n" in text
    assert "plt.show()" in text
    assert story.stem.startswith("plot_") or "not run when the site is built" in text
    compile(text, str(story), "exec")


def test_the_page_of_installing_has_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    ours = {"bench", "coverage", "dist", "fuzz", "lint", *(name for name in extras if name.startswith("test"))}
    text = (DOCS / "install.md").read_text()
    assert [name for name in extras if name not in ours and f"`{name}`" not in text] == []
    named = [line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| `")]
    assert len(named) == len(set(named))


def test_there_are_ten_stories():
    assert len(STORIES) > 10
    assert Path(ROOT / "docs" / "_static" / "ray_two_workers.png").read_bytes().startswith(b"\x89PNG")
