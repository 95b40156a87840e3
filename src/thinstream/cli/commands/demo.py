"""``thinstream demo``: P0's synthetic experiment."""

from typing import Annotated

import typer


def demo(
    rows: Annotated[int, typer.Option(min=10, help="Length of the training stream.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Of the generated stream.")] = 0,
    out: Annotated[str, typer.Option("--out", "-o", help="Where the picture goes (.png or .svg).")] = "demo.png",
) -> None:
    """Run the synthetic experiment of paper P0: a table, and the sparsity-error curve as a picture."""
    from thinstream.cli.io import require_writable
    from thinstream.cli.terminal import keep_going
    from thinstream.demo import run

    require_writable(out)
    keep_going()
    run(rows, seed, out)
