"""Equations as MathML, which browsers draw by themselves: no script, nothing fetched from elsewhere."""

import html

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator


def setup(app: Sphinx) -> dict[str, bool]:
    """The extension: ``html_math_renderer = "mathml"``."""
    app.add_html_math_renderer("mathml", inline_renderers=(_inline, None), block_renderers=(_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def mathml(latex: str, display: str = "inline") -> str:
    """An equation as an element of HTML, with its source for those whose browser draws none.

    >>> mathml("w_t").partition("<mrow>")[2]
    '<msub><mi>w</mi><mi>t</mi></msub></mrow></math>'
    """
    made = convert(latex, display=display)
    return made.replace(">", f' alttext="{html.escape(latex)}">', 1)


def _inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(mathml(node.astext()))
    raise nodes.SkipNode


def _block(self: HTML5Translator, node: nodes.math_block) -> None:
    self.body.append(self.starttag(node, "div", CLASS="equation", tabindex="0"))
    self.body.append(mathml(" ".join(node.astext().split()), "block"))
    self.body.append("</div>\n")
    raise nodes.SkipNode
