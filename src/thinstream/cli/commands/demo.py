"""``thinstream demo``: predict from which library a docstring is, with text that every installation has.

The demo collects the docstrings of the installed NumPy, SciPy and scikit-learn, masks the names of the libraries, and
writes the texts to two JSON Lines files. Then it runs commands of thinstream on these files and prints each command.
"""

import ast
import importlib.util
import json
import random
import re
import shlex
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from thinstream.cli.options import option
from thinstream.errors import ThinstreamError

LIBRARIES = {"numpy": "NumPy", "scipy": "SciPy", "sklearn": "scikit-learn"}
#: Names and common abbreviations of the libraries, which would give the answer away.
NAMES = re.compile(r"numpy|scipy|sklearn|scikit[- _]?learn|scikits?|\b(np|sp)\b", re.IGNORECASE)
#: Docstrings with fewer characters say too little.
SHORTEST = 60
TRAIN, TEST, MODEL, SMALL = "train.jsonl", "test.jsonl", "model.ts", "small.ts"
COMMANDS = [
    f"train {TRAIN} --label library --text text -m {MODEL} --plot error.png --report report.html",
    f"evaluate {TEST} -m {MODEL}",
    f"inspect {MODEL} --top 12 --plot words.png",
    f"thin {MODEL} --nnz 100 --refit {TRAIN} -m {SMALL}",
    f"evaluate {TEST} -m {SMALL}",
]


def demo(
    folder: Annotated[
        str, option("The folder for texts, models and charts.", None, "--folder", "-o")
    ] = "thinstream-demo",
) -> None:
    """Train, evaluate and thin a model that predicts the library of a docstring.

    The texts are the docstrings of the installed NumPy, SciPy and scikit-learn. The demo prints each command it runs.
    """
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ThinstreamError(f"{folder}: cannot be used as a folder: {error.strerror}") from None
    print("Which library is a docstring from? The texts are those of the installed NumPy, SciPy and scikit-learn.")
    n_train, n_test = write_texts(target)
    print(
        f"{n_train + n_test:,} texts: {n_train:,} in {target / TRAIN}, the others in {target / TEST}.\n\n$ cd {folder}"
    )
    for command in COMMANDS:
        print(f"\n$ thinstream {command}", flush=True)
        thinstream(command, target)
    print("\nThe most important words of the thin model for each library:")
    for library, words in important_words(target).items():
        print(f"{library:>14}  {', '.join(words[:10])}")
    sizes = [(target / name).stat().st_size / 1000 for name in (MODEL, SMALL)]
    print(f"\nThe model has {sizes[0]:,.0f} kB, and the thin model {sizes[1]:,.0f} kB.")
    print(f"Look at error.png, words.png and report.html in {folder}.")
    print("\nThe figures and tables of the papers: python -m papers --help, in a clone of the repository.")
    print("`make reproduce` runs all of them.")


def write_texts(folder: Path) -> tuple[int, int]:
    """Write the texts of all libraries, four fifths to train on and the others to test. Return their numbers."""
    texts = [(library, text) for library in LIBRARIES for text in docstrings(library)]
    random.Random(0).shuffle(texts)
    n_train = len(texts) * 4 // 5
    write_rows(folder / TRAIN, texts[:n_train])
    write_rows(folder / TEST, texts[n_train:])
    return n_train, len(texts) - n_train


def thinstream(command: str, folder: Path, capture: bool = False) -> str:
    """Run a command in a folder. Return its output if it is captured."""
    words = [sys.executable, "-m", "thinstream", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, check=False, stdout=subprocess.PIPE if capture else None, text=True)
    if done.returncode:
        raise ThinstreamError(f"the demo stopped: `thinstream {command}` ended with exit code {done.returncode}")
    return done.stdout or ""


def important_words(folder: Path) -> dict[str, list[str]]:
    """Return the words with positive weights for each library, the most important first."""
    top = json.loads(thinstream(f"inspect {SMALL} --top 300 --json", folder, capture=True))["top"]
    words: dict[str, list[str]] = {library: [] for library in LIBRARIES.values()}
    for feature in top:
        if feature["weight"] > 0:
            words[feature["class"]].append(feature["name"].removeprefix("text^"))
    return words


def docstrings(package: str) -> list[str]:
    """Return the different docstrings of an installed package, with the names of the libraries masked.

    The source files are parsed and not imported.

    >>> texts = docstrings("sklearn.linear_model")
    >>> len(texts) > 100, any("sklearn" in text for text in texts)
    (True, False)
    """
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise ThinstreamError(f"the demo needs the source of {package}, which is not installed")
    texts: dict[str, None] = {}
    for file in sorted(Path(spec.origin).parent.rglob("*.py")):
        if "tests" not in file.parts:
            nodes = ast.walk(ast.parse(file.read_bytes()))
            texts |= dict.fromkeys(NAMES.sub("library", text) for node in nodes if (text := _docstring(node)))
    return [text for text in texts if len(text) >= SHORTEST]


def _docstring(node: ast.AST) -> str | None:
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        return ast.get_docstring(node)
    return None


def write_rows(path: Path, texts: Iterable[tuple[str, str]]) -> None:
    """Write JSON Lines with the name of the library and a text."""
    with path.open("w", encoding="utf-8") as file:
        for library, text in texts:
            file.write(json.dumps({"library": LIBRARIES[library], "text": text}) + "\n")
