"""Pictures of boxes and arrows, as SVG for light and dark mode: how Auto works, and how data flows through the code.

`python -m tools.generate` writes them into docs/pictures.
"""

from html import escape

from thinstream.algorithms.auto import Member
from thinstream.models.blend import INTERACTIONS, PORTFOLIO

#: Colors by class, in light and dark mode.
COLORS = {
    "paper": ("#ffffff", "#14181e"),
    "ink": ("#1b2733", "#dfe5ec"),
    "name": ("#1f5f99", "#8cc4f5"),
    "asked": ("#e8f1fa", "#1d3044"),
    "answer": ("#fdf1e7", "#3a2d20"),
    "line": ("#8796a5", "#7c8a99"),
}
#: Height of a line of text.
ROW = 19


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


def auto() -> str:
    """Draw a row that goes to all members of Auto, whose scores become one linear model."""
    views: dict[tuple[str, ...], list[str]] = {}
    for member in (*PORTFOLIO, *INTERACTIONS):
        views.setdefault(_view(member), []).append(" ".join(str(member).split()[:2]).partition(" scale")[0])
    parts, y, ends = [], 20.0, []
    for view, members in views.items():
        height = 26 * len(members) - 4
        lines = [(line, False) for line in view]
        parts.append(_box(170, y, 150, height, "asked", lines, "middle"))
        ends.append(y + height / 2)
        for name in members:
            parts += [_box(350, y, 190, 22, "answer", [(name, False)], "middle"), _line(540, y + 11, 575, y + 11)]
            parts.append(_line(320, y + 11, 350, y + 11))
            y += 26
        y += 14
    middle = (20 + y - 18) / 2
    parts += [_line(140, ends[0], 140, ends[-1]), *(_line(140, end, 168, end, True) for end in ends)]
    parts += [_box(20, middle - 30, 90, 60, "asked", [("a row", True)], "middle"), _line(110, middle, 140, middle)]
    parts += [_line(575, 31, 575, y - 29), _line(575, middle, 598, middle, True)]
    head = [
        ("head", True),
        ("logistic regression", False),
        ("learns from scores", False),
        ("given before learning", False),
    ]
    parts.append(_box(600, middle - 50, 170, 100, "asked", head, "middle"))
    parts.append(_line(770, middle, 798, middle, True))
    model = [("one linear model", True), ("probabilities", False), ("one effect per feature", False)]
    parts.append(_box(800, middle - 42, 180, 84, "answer", model, "middle"))
    text = (
        "Auto: a row goes to eleven members in three views; a head blends their scores; the blend is one linear model"
    )
    return _picture(1000, y - 4, parts, text)


def _view(member: Member) -> tuple[str, ...]:
    if member.products:
        return ("products of", "features")
    return ("scaled features,", "unit length") if member.normalize else ("raw rows",)


def architecture() -> str:
    """Draw the parts from rows to a model."""
    parts, y = [], 20
    for i, (name, where) in enumerate(FLOW):
        height = 20 + 2 * ROW
        parts.append(_box(20, y, 560, height, "asked" if i % 2 else "answer", [(name, True), (where, False)], "middle"))
        if i + 1 < len(FLOW):
            parts.append(_line(300, y + height, 300, y + height + 26, True))
        y += height + 26
    return _picture(600, y - 6, parts, "From rows to a model: each part with the folder it is in")


def _picture(width: float, height: float, parts: list[str], text: str) -> str:
    light, dark = (" ".join(_style(name, colors[mode]) for name, colors in COLORS.items()) for mode in (0, 1))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" role="img" '
        f'font-family="system-ui, sans-serif" font-size="14"><title>{escape(text)}</title>'
        f"<style>{light} @media (prefers-color-scheme: dark) {{ {dark} }}</style>"
    )
    tip = (
        '<marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L10 5 L0 10 z" class="tip"/></marker>'
    )
    paper = f'<rect width="{width:g}" height="{height:g}" rx="10" class="paper"/>'
    return "\n".join([head, f"<defs>{tip}</defs>", paper, *parts, "</svg>"]) + "\n"


def _style(name: str, color: str) -> str:
    if name != "line":
        return f".{name} {{ fill: {color} }}"
    return f".line, .asked, .answer {{ stroke: {color} }} .tip {{ fill: {color} }}"


def _box(
    x: float, y: float, width: float, height: float, style: str, lines: list[tuple[str, bool]], anchor: str = "start"
) -> str:
    """Return a box of lines. Names are bold."""
    left = x + width / 2 if anchor == "middle" else x + 16
    top = y + height / 2 - ROW * len(lines) / 2 + 14
    texts = [
        f'<text x="{left:g}" y="{top + ROW * i:g}" text-anchor="{anchor}" '
        + ('class="name" font-weight="600"' if name else 'class="ink"')
        + f">{escape(line)}</text>"
        for i, (line, name) in enumerate(lines)
    ]
    frame = f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="8" class="{style}"/>'
    return "\n".join([frame, *texts])


def _line(x1: float, y1: float, x2: float, y2: float, arrow: bool = False) -> str:
    tip = ' marker-end="url(#tip)"' if arrow else ""
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="line" stroke-width="1.5"{tip}/>'
