"""Texts for pictures that have none: the small ones of the gallery, which stand for the story they lead to."""

import re
from pathlib import PurePath

from docutils import nodes
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, bool]:
    """The extension."""
    app.connect("doctree-read", _tell)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def told_by(uri: str) -> str:
    """What the file of a small picture says of it.

    >>> told_by("/gallery/images/thumb/sphx_glr_plot_sparsity_path_thumb.png")
    'picture of the story: sparsity path'
    """
    name = re.sub(r"^sphx_glr_(plot_)?|_thumb$", "", PurePath(uri).stem)
    return f"picture of the story: {name.replace('_', ' ')}"


def _tell(app: Sphinx, doctree: nodes.document) -> None:
    for picture in doctree.findall(nodes.image):
        if not (picture.get("alt") or "").strip() and "_thumb" in picture["uri"]:
            picture["alt"] = told_by(picture["uri"])
