"""Pictures of boxes and arrows, as SVG: which algorithm to take, and how the parts hang together.

`python -m tools.generate` writes them into docs/pictures.
"""

from html import escape
from typing import NamedTuple

INK, LINE, PAPER, ASKED, ANSWER, BLUE = "#1b2733", "#8796a5", "#ffffff", "#e8f1fa", "#fdf1e7", "#1f5f99"
#: Height of a line of text.
ROW = 19


class Rung(NamedTuple):
    """A question of the ladder, and what to take if the answer is yes."""

    asked: tuple[str, ...]
    answers: tuple[tuple[str, str], ...]  # name, when


LADDER = (
    Rung(("Do you just want", "a good model?"), (("Auto", "the default: many models learn along and are blended"),)),
    Rung(
        ("Do positives matter more,", "or come rarely?"),
        (
            ("set_threshold(false_alarms=…)", "of any model: learn as it is, then draw the line"),
            ("ARCSOGD, class_weight=…", "where the costs of mistakes are known (thinstream costs)"),
        ),
    ),
    Rung(
        ("Must the model be small", "in the end?"),
        (("Auto or AROW, then thin", "the most important features; kilobytes, any size from one model"),),
    ),
    Rung(
        ("Must it be small", "while it learns?"),
        (
            ("AdaRDA(l1=…)", "good untuned"),
            ("SSOL(l1=…)", "fewest weights at a low error, once tuned (thinstream path)"),
            ("FSOL(l1=…)", "the fastest, one number per feature"),
            ("FTRLProximal(l1=…)", "clicks, huge vocabularies"),
            ("max_features=…, SOFS", "no more than so many features, ever"),
        ),
    ),
    Rung(
        ("Does the stream change?",),
        (("AROW(half_life=…)", "forgets; tuning finds how fast. Monitors say where it changed"),),
    ),
    Rung(
        ("Few features, up to", "some hundred?"),
        (("AROW(covariance='full')", "knows which features go together"),),
    ),
    Rung(
        ("Should it cost", "what one model costs?"),
        (
            ("AROW", "good untuned, dense and noisy rows"),
            ("SCW", "the same with a limit on each step; tune C"),
            ("NAG", "columns of any unit, without scaling"),
            ("Coin", "no rate at all"),
        ),
    ),
    Rung(
        ("Are all rows here at once,", "and passes cheap?"),
        (("SCD, SparDCA", "l1 to the optimum"), ("SBCW, FGM, GraDes", "a given number of features, chosen")),
    ),
)
#: The parts, from the input to the results, each with the folder or file it is in.
FLOW = (
    ("X, y · files · pipes · brokers", "data/, estimators/inputs.py: read in pieces, checked once"),
    ("Batch", "batch.py: CSR rows, labels ±1, weights, position"),
    ("Encoder → preparation", "models/pipeline.py: slots, scales, unit length"),
    ("Outputs: one learner per class", "models/outputs.py: scalar loop, lanes or GPU; Auto: members and a head"),
    ("One compiled loop", "engine/loop.py: scores, steps, moves; its hooks: algorithms/online/*.py"),
    ("Memory", "engine/memory.py: one record per feature, weights on demand"),
    ("Decision", "models/model.py: threshold or highest score, class labels"),
    ("Metrics · predictions · model file · exports", "training/, models/, export/, serve/"),
)


def which_algorithm() -> str:
    """Questions from top to bottom; the first yes has the answer beside it."""
    parts, y = [], 20
    for i, rung in enumerate(LADDER):
        height = 20 + max(ROW * len(rung.asked), 2 * ROW * len(rung.answers))
        parts.append(_box(20, y, 240, height, ASKED, [(line, True) for line in rung.asked], "middle"))
        parts.append(_arrow(260, y + height / 2, 310, y + height / 2, "yes"))
        lines = [line for name, when in rung.answers for line in ((name, True), (when, False))]
        parts.append(_box(310, y, 470, height, ANSWER, lines))
        if i + 1 < len(LADDER):
            parts.append(_arrow(140, y + height, 140, y + height + 34, "no"))
        y += height + 34
    return _picture(
        800, y - 14, parts, "Which algorithm: questions from top to bottom, with what to take if the answer is yes"
    )


def architecture() -> str:
    """Draw the parts from rows to a model."""
    parts, y = [], 20
    for i, (name, where) in enumerate(FLOW):
        height = 20 + 2 * ROW
        parts.append(_box(20, y, 560, height, ASKED if i % 2 else ANSWER, [(name, True), (where, False)], "middle"))
        if i + 1 < len(FLOW):
            parts.append(_arrow(300, y + height, 300, y + height + 26, ""))
        y += height + 26
    return _picture(600, y - 6, parts, "From rows to a model: each part with the folder it is in")


def _picture(width: float, height: float, parts: list[str], told: str) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="14" fill="{INK}"><title>{escape(told)}</title>'
    )
    tip = (
        f'<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L10 5 L0 10 z" fill="{LINE}"/></marker>'
    )
    paper = f'<rect width="{width:g}" height="{height:g}" rx="10" fill="{PAPER}"/>'
    return "\n".join([head, f"<defs>{tip}</defs>", paper, *parts, "</svg>"]) + "\n"


def _box(
    x: float, y: float, width: float, height: float, fill: str, lines: list[tuple[str, bool]], anchor: str = "start"
) -> str:
    """A box of lines, some of them names, which are bold."""
    left = x + width / 2 if anchor == "middle" else x + 16
    top = y + height / 2 - ROW * len(lines) / 2 + 14
    texts = [
        f'<text x="{left:g}" y="{top + ROW * i:g}" text-anchor="{anchor}"'
        + (f' font-weight="600" fill="{BLUE}"' if name else "")
        + f">{escape(line)}</text>"
        for i, (line, name) in enumerate(lines)
    ]
    frame = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" fill="{fill}" stroke="{LINE}"/>'
    return "\n".join([frame, *texts])


def _arrow(x1: float, y1: float, x2: float, y2: float, word: str) -> str:
    ends = f'x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}"'
    line = f'<line {ends} stroke="{LINE}" stroke-width="1.5" marker-end="url(#tip)"/>'
    x, y = ((x1 + x2) / 2, y1 - 6) if y1 == y2 else (x1 + 16, (y1 + y2) / 2 + 5)
    return line + (
        f'\n<text x="{x:g}" y="{y:g}" text-anchor="middle" font-size="12">{escape(word)}</text>' if word else ""
    )
