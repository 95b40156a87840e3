"""``thinstream tune``: which parameters are best, in one pass."""

from pathlib import Path
from typing import Annotated

import typer

from thinstream.cli.groups import Output, Reading, grouped
from thinstream.cli.parameters import DEFAULT, named_algorithm, options, values
from thinstream.cli.studies import Studying

HELP = (
    "NAME=VALUES, repeatable. Values: 0.5,1,2 · 2^-5..2^5 (doubling) · 1e-6..1*10 (by a factor) · log:1e-6..1:20 "
    "(20 of them, evenly on a log scale) · log:1e-6..1 (drawn, with --random). Also intercept=yes,no and "
    "class-weight=none,balanced,1:20. Without any: what the papers try."
)
MODEL, SEARCH, JUDGE = "Model", "Search", "Judging"


def register(app: typer.Typer, arguments: list[str]) -> None:
    """Adds the command, with the options of the algorithm that stands in the arguments."""
    own = options(named_algorithm(arguments)) if arguments[:1] == ["tune"] else []
    app.command(epilog="Options of the algorithm hold for all candidates.")(grouped(tune, own))


def tune(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    output: Output,
    studying: Studying,
    own: dict[str, str | None],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="Its name, see `thinstream algorithms`.", rich_help_panel=MODEL)
    ] = DEFAULT,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Where the best model goes.", rich_help_panel=MODEL, show_default=False),
    ] = None,
    class_weight: Annotated[
        str | None,
        typer.Option(help="Of all candidates: balanced, or NEG,POS.", rich_help_panel=MODEL, show_default=False),
    ] = None,
    grid: Annotated[
        list[str] | None,
        typer.Option("--grid", "-g", help=HELP, metavar="NAME=VALUES", rich_help_panel=SEARCH, show_default=False),
    ] = None,
    random: Annotated[
        int | None,
        typer.Option(min=1, help="Try that many at random instead of all.", rich_help_panel=SEARCH, show_default=False),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of --random.", rich_help_panel=SEARCH)] = 0,
    eliminate: Annotated[
        bool, typer.Option("--eliminate", help="Drop hopeless candidates on the way.", rich_help_panel=SEARCH)
    ] = False,
    paper: Annotated[
        bool,
        typer.Option(
            "--paper",
            help="The papers' protocol: their grid at l1 = 0 with 5 folds, then a sweep of l1 with the best.",
            rich_help_panel=SEARCH,
        ),
    ] = False,
    folds: Annotated[
        int, typer.Option(min=2, help="Row i is held out from the models of fold i mod FOLDS.", rich_help_panel=JUDGE)
    ] = 5,
    progressive: Annotated[
        bool,
        typer.Option(
            "--progressive",
            help="No folds: one model per candidate, judged by each row before it learns it.",
            rich_help_panel=JUDGE,
        ),
    ] = False,
    final: Annotated[
        bool,
        typer.Option(
            "--final",
            help="Score held-out rows with the final models, in a second pass, not as they pass.",
            rich_help_panel=JUDGE,
        ),
    ] = False,
    scoring: Annotated[
        str,
        typer.Option(help="error, balanced_accuracy, weighted_sum, cost (per row) or log_loss.", rich_help_panel=JUDGE),
    ] = "error",
    alpha_p: Annotated[
        float, typer.Option(help="Weight of sensitivity in weighted_sum.", min=0.0, max=1.0, rich_help_panel=JUDGE)
    ] = 0.5,
    cost_p: Annotated[
        float, typer.Option(help="Cost of a missed positive in cost.", min=0.0, max=1.0, rich_help_panel=JUDGE)
    ] = 0.95,
    top: Annotated[int, typer.Option(min=1, help="Lines of the table.", rich_help_panel="Output")] = 10,
) -> None:
    """Find the best parameters by cross-validation in one pass over the data.

    Every candidate and fold is a model; all learn side by side while the data is read once. The last line is the
    command that trains the best.
    """
    from thinstream.cli.tuning import Job, tuned
    from thinstream.evaluate.report import Tradeoff

    job = Job(
        data=data,
        reading=reading,
        algorithm=algorithm,
        parameters=values(algorithm, own),
        model=model,
        class_weight=class_weight,
        studying=studying,
        grid=grid or [],
        random=random,
        seed=seed,
        eliminate=eliminate,
        paper=paper,
        folds=0 if progressive else folds,
        final=final,
        scoring=scoring,
        tradeoff=Tradeoff(alpha_p, 1.0 - alpha_p, cost_p, 1.0 - cost_p),
        top=top,
    )
    tuned(job, output)
