"""Docstrings as reStructuredText: written to be read in a terminal, they hold marks that mean something else there."""

import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sphinx.application import Sphinx

_CODE = re.compile(r"(``.+?``|`[^`]+`)")
_HEAD = re.compile(r"\w[\w, *]* : ")


def setup(app: "Sphinx") -> dict[str, bool]:
    """The extension; before numpydoc, which takes docstrings apart, and after it."""
    app.connect("autodoc-process-docstring", _process, priority=100)
    app.connect("autodoc-process-docstring", _unlink, priority=900)
    app.connect("autodoc-process-signature", _signed)
    app.connect("autodoc-skip-member", _skip)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def escaped(lines: list[str]) -> list[str]:
    r"""The lines, with marks that stand in plain text escaped; code, examples and displayed equations are as before.

    >>> escaped(["|w_j| of coef_, `a_` and", "", "::", "", "    |x|", "", "w*", "coef_ : array"])
    ['\\|w_j\\| of coef\\_, `a_` and', '', '::', '', '    |x|', '', 'w\\*', 'coef_ : array']
    """
    found, shown, example = [], -1, False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if line.strip() and shown >= 0 and indent <= shown:
            shown = -1
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if shown >= 0 or example or _HEAD.match(line):
            found.append(line)
        else:
            parts = _CODE.split(line)
            found.append("".join(part if i % 2 else _plain(part) for i, part in enumerate(parts)))
        if shown < 0 and line.rstrip().endswith("::"):
            shown = indent
    return found


def _plain(text: str) -> str:
    text = re.sub(r"(?<=\w)_(?=\W|$)", r"\\_", text.replace("|", "\\|"))
    return re.sub(r"\*(?!\w[^*]*\w?\*)(?<!\w\*)|(?<=\w)\*(?=\W*$)", r"\\*", text) if text.count("*") % 2 else text


def _process(app: "Sphinx", what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = escaped(lines)


def _unlink(app: "Sphinx", what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Attributes are told where they stand: numpydoc's links to pages of their own lead anywhere."""
    lines[:] = [re.sub(r":obj:`(\S+) <\.\S+>`", r"**\1**", line) for line in lines]


def _signed(app: "Sphinx", what: str, name: str, obj: Any, options: Any, signature: Any, returned: Any) -> Any:
    """Estimators by their parameters: ``__new__``, which explains wrong ones, takes anything."""
    return (str(inspect.signature(obj)), None) if hasattr(obj, "_own_parameters") else None


def _skip(app: "Sphinx", what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leaves out what scikit-learn and NamedTuple put into classes by themselves."""
    theirs = str(getattr(obj, "__module__", None)).startswith("sklearn.") or re.fullmatch(r"set_\w+_request", name)
    return True if theirs or "Alias for field number" in (getattr(obj, "__doc__", "") or "") else None
