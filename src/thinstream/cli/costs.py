"""``thinstream costs``: what telling a learner the costs is worth, over all trade-offs, in one pass."""

from typing import Annotated

import typer

from thinstream.cli.groups import Output, Reading, grouped
from thinstream.cli.parameters import named_algorithm, options, values
from thinstream.cli.studies import Studying

DEFAULT = "arcsogd"


def register(app: typer.Typer, arguments: list[str]) -> None:
    """Adds the command, with the options of the algorithm that stands in the arguments."""
    own = options(named_algorithm(arguments, DEFAULT)) if arguments[:1] == ["costs"] else []
    app.command(epilog="Options of another algorithm: thinstream costs -a NAME --help")(grouped(costs, own))


def costs(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    output: Output,
    studying: Studying,
    own: dict[str, str | None],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="Its name, see `thinstream algorithms`.", rich_help_panel="Model")
    ] = DEFAULT,
    weights: Annotated[
        str | None,
        typer.Option(
            help="Weights of the positives, α_p and c_p, as in 0.5,0.9,0.99 (default 0.05, 0.1 … 0.95).",
            rich_help_panel="Sweep",
            show_default=False,
        ),
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(
            help="Negatives per positive, for ρ of the sum (default: of the first 10,000 rows).",
            rich_help_panel="Sweep",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Draw cost curves: how models told the weights they are judged by compare with one that is not told.

    Paper P3, Figs 3 and 4. At weight w a model learns with ρ = w/(1-w) times the negatives per positive, and is judged
    by w·sensitivity + (1-w)·specificity; another with ρ = w/(1-w), judged by w·false negatives + (1-w)·false positives,
    here per 100 rows. All are progressive: each row is scored before it is learned.
    """
    from thinstream.cli.trading import compare_costs
    from thinstream.tune.cost_curves import WEIGHTS

    compare_costs(
        data, reading, output, studying, algorithm, values(algorithm, own), _numbers(weights) or WEIGHTS, ratio
    )


def _numbers(text: str | None) -> tuple[float, ...]:
    try:
        return () if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter(f"--weights must be numbers between 0 and 1 as in 0.5,0.9, got {text!r}") from None
