"""Count the phrases and variable names that the style of this project avoids.

    python -m tools.language                  # counts per pattern
    python -m tools.language src/thinstream/data   # every occurrence in one folder, with file and line

`tests/docs/test_language.py` compares the counts with a budget that may only fall.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent

#: Phrases to avoid. CONTRIBUTING.md shows what to write instead.
PHRASES = {
    "is told, is said": r"\b(is|are|was|were|be|been|not) (told|said|remarked)\b",
    "tells": r"\btells?\b",
    "says so": r"\bsays? (so|what|how|which|that|it)\b",
    "learns along": r"\blearn(s|ed|ing)? along\b",
    "so many": r"\b(of|with|by|for|after|than|at most|at least|are|is|as) so (many|much|few|wide|long)\b",
    "of its own": r"\bof (its|their|one's|our|your) own\b",
    "Of ...": r"(^|[.;:(] )Of [a-z]",
    "is no ...": r"(?<!there )(?<!There )\b(is|are|was|were) (no (?!better|worse|longer|more|less)[a-z]+|none)\b",
    "too": r",? too[,.;:)]",
    "beside": r"\bbeside\b",
    "rare words": r"\b(anew|for ever|seldom|mend(s|ed)?|the begin|its begin|need not|roads?|at hand|by looking)\b",
    "as it is": r"\bas (it|they|things) (is|are|comes?|stands?)\b",
    "the same bits": r"\b(the same bits|has the bits of|have the bits of)\b",
    "who": r"\b(whoever|nobody|somebody)\b|(?<!people )(?<!users )(?<!readers )(?<!nyone )(?<!engineers )\bwho\b",
    "goes on": r"\b(go|goes|went|going) on\b(?! the)",
    "Where ...": r"(^|[.;:(] )Where [a-z]|\bwhere there (is|are)\b",
    "What ...": r"(^|[.;:(] )What [a-z][^?]*?($|[.;:])|\b(by|of|from|with) what\b",
    "before it is learned": r"\bbefore (it|they) (is|are|was|were) learned\b",
    "called wrong": r"\bcall(ed)? (wrong|positive)\b",
    "stands in": r"\bstands? (in|for|behind|beside|there)\b|\bhas the face of\b",
    "sight": r"\b(sight|sights|gives? way|gave way|set aside)\b",
}
#: Names that do not say what a variable holds.
NAMES = ("found", "each", "place", "kind", "known", "given", "said", "told")
#: Legitimate uses of a phrase: (phrase, part of the line).
ALLOWED: list[tuple[str, str]] = []
#: Files that users read.
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "RELEASING.md",
    "docs/**/*.md",
    "src/thinstream/serve/dashboard/**/*.js",
    "src/thinstream/serve/dashboard/**/*.html",
)
#: Pages that `make docs-site` writes from docstrings and from other pages.
BUILT = ("docs/api/", "docs/commands/", "docs/gallery/", "docs/project/", "docs/code/")
#: Packages whose docstrings are part of the reference.
PUBLIC = (
    "src/thinstream/estimators",
    "src/thinstream/algorithms",
    "src/thinstream/__init__.py",
    "src/thinstream/errors.py",
    "src/thinstream/mlflow.py",
    "src/thinstream/plotting.py",
    "src/thinstream/serve/client.py",
    "src/thinstream/datasets",
)

COMPILED = {name: re.compile(pattern) for name, pattern in PHRASES.items()}


class Hit(NamedTuple):
    """One occurrence of a phrase or a name."""

    audience: str  # "users", "code" or "names"
    pattern: str
    path: str
    line: int
    text: str


def prose_of_markdown(text: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a page without code blocks, inline code and the targets of links."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
        elif not fenced:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)|<[^>]*>", "", line)


def texts_of_python(source: str) -> Iterator[tuple[str, int, str]]:
    """Yield ("docstring" or "comment" or "string", line, text) of a module, one line of text at a time."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node
        ):
            docstrings.add(id(node.body[0].value))  # type: ignore[attr-defined]
    inside_f_strings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            inside_f_strings.update(id(part) for part in node.values)
            text = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
            yield "string", node.lineno, text
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside_f_strings:
            kind = "docstring" if id(node) in docstrings else "string"
            for offset, line in enumerate(node.value.splitlines()):
                yield kind, node.lineno + offset, line.strip()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield "comment", token.start[0], token.string.lstrip("#: ")


def names_of_python(source: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable and parameter that says nothing."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in NAMES:
            yield node.lineno, node.id
        elif isinstance(node, ast.arg) and node.arg in NAMES:
            yield node.lineno, node.arg


def phrases_in(audience: str, path: str, line: int, text: str) -> Iterator[Hit]:
    """Yield the phrases to avoid in one line of text."""
    for name, pattern in COMPILED.items():
        for match in pattern.finditer(text):
            around = text[max(0, match.start() - 40) : match.end() + 40]
            if not any(name == phrase and part in around for phrase, part in ALLOWED):
                yield Hit(audience, name, path, line, around)


def hits(root: Path = ROOT) -> Iterator[Hit]:
    """Yield every occurrence in the pages and the package."""
    for pattern in PAGES:
        for file in sorted(root.glob(pattern)):
            path, text = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
            if path.startswith(BUILT):
                continue
            lines = prose_of_markdown(text) if file.suffix == ".md" else enumerate(text.splitlines(), 1)
            for line, prose in lines:
                yield from phrases_in("users", path, line, prose)
    for file in sorted((root / "src").rglob("*.py")):
        path, source = file.relative_to(root).as_posix(), file.read_text(encoding="utf-8")
        if path.endswith("estimators/algorithms.py"):  # generated from the rules
            continue
        for kind, line, text in texts_of_python(source):
            public = kind == "string" or (kind == "docstring" and path.startswith(PUBLIC))
            yield from phrases_in("users" if public else "code", path, line, text)
        for line, name in names_of_python(source):
            yield Hit("names", name, path, line, name)


def main(argv: list[str]) -> None:
    """Print counts, or the occurrences in the files that are named."""
    occurrences = list(hits())
    for path in argv:
        for hit in occurrences:
            if hit.path.startswith(path.rstrip("/")):
                print(f"{hit.path}:{hit.line}: {hit.audience}: {hit.pattern}: {hit.text}")
    if not argv:
        counts = Counter((hit.audience, hit.pattern) for hit in occurrences)
        for (audience, pattern), count in sorted(counts.items()):
            print(f"{audience:6} {count:5}  {pattern}")
        for audience in ("users", "code", "names"):
            print(f"{audience:6} {sum(count for (who, _), count in counts.items() if who == audience):5}  in all")


if __name__ == "__main__":
    main(sys.argv[1:])
