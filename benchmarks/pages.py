"""Generated parts of the docs."""

import re
from pathlib import Path


def put(page: Path, part: str, text: str) -> None:
    """Replaces what a page has between ``<!-- part: begin … -->`` and ``<!-- part: end -->``."""
    between = re.compile(rf"(<!-- {re.escape(part)}: begin[^>]*-->\n).*?(<!-- {re.escape(part)}: end -->)", re.DOTALL)
    old = page.read_text()
    if not between.search(old):
        raise SystemExit(f"{page} has no part {part!r}: <!-- {part}: begin --> … <!-- {part}: end -->")
    page.write_text(between.sub(lambda found: f"{found[1]}{text.strip()}\n{found[2]}", old))


def table(head: list[str], rows: list[list[str]], numbers_from: int = 1) -> str:
    """In Markdown; columns from the given one on are numbers."""
    rule = ["--:" if k >= numbers_from else "---" for k in range(len(head))]
    return "\n".join(["| " + " | ".join(cells) + " |" for cells in [head, *rows]]).replace(
        "\n", "\n|" + "|".join(rule) + "|\n", 1
    )
