"""``thinstream path``: models from dense to sparse in one pass."""

from pathlib import Path
from typing import Annotated

import typer

from thinstream.cli.groups import Output, Reading, grouped
from thinstream.cli.parameters import DEFAULT, named_algorithm, options, values
from thinstream.cli.studies import Studying

SWEEP, PICK = "Sweep", "Pick"


def register(app: typer.Typer, arguments: list[str]) -> None:
    """Adds the command, with the options of the algorithm that stands in the arguments."""
    own = options(named_algorithm(arguments), without=("l1",)) if arguments[:1] == ["path"] else []
    app.command(epilog="Options of another algorithm: thinstream path -a NAME --help")(grouped(path, own))


def path(
    data: Annotated[list[str], typer.Argument(help="Files, globs, or - for standard input.", show_default=False)],
    reading: Reading,
    output: Output,
    studying: Studying,
    own: dict[str, str | None],
    algorithm: Annotated[
        str, typer.Option("--algorithm", "-a", help="Its name, see `thinstream algorithms`.", rich_help_panel="Model")
    ] = DEFAULT,
    class_weight: Annotated[
        str | None,
        typer.Option(
            help="Costs of the classes: balanced, or NEG,POS as in 1,20.", rich_help_panel="Model", show_default=False
        ),
    ] = None,
    l1: Annotated[
        str | None,
        typer.Option(
            "--l1",
            help="The ends, as in 1e-6..1; an end left out is found by a look at the first 4000 rows.",
            metavar="LOW..HIGH",
            rich_help_panel=SWEEP,
            show_default=False,
        ),
    ] = None,
    n: Annotated[int, typer.Option("-n", min=2, help="Models.", rich_help_panel=SWEEP)] = 20,
    test: Annotated[
        list[str] | None,
        typer.Option(help="A file to score the models on, in place of --holdout.", rich_help_panel=SWEEP),
    ] = None,
    holdout: Annotated[
        int,
        typer.Option(
            min=0,
            help="Every so many-th row is left out by a twin of each model, to score it on; 0: none.",
            rich_help_panel=SWEEP,
        ),
    ] = 10,
    pick: Annotated[
        str,
        typer.Option(
            help="Which model to take: one_se (the sparsest within a standard error of the best) or best.",
            rich_help_panel=PICK,
        ),
    ] = "one_se",
    scoring: Annotated[
        str, typer.Option(help="error, balanced_accuracy, weighted_sum or cost.", rich_help_panel=PICK)
    ] = "error",
    alpha_p: Annotated[
        float,
        typer.Option(
            help="Weight of sensitivity in the weighted sum; specificity has the rest.",
            min=0.0,
            max=1.0,
            rich_help_panel=PICK,
        ),
    ] = 0.5,
    cost_p: Annotated[
        float,
        typer.Option(
            help="Cost of a missed positive; a false alarm costs the rest to 1.",
            min=0.0,
            max=1.0,
            rich_help_panel=PICK,
        ),
    ] = 0.95,
    max_nnz: Annotated[
        int | None, typer.Option(min=0, help="Most non-zero weights.", rich_help_panel=PICK, show_default=False)
    ] = None,
    max_density: Annotated[
        float | None,
        typer.Option(min=0.0, max=1.0, help="Most, as a share of all.", rich_help_panel=PICK, show_default=False),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", "-m", help="Where that model goes.", rich_help_panel=PICK, show_default=False),
    ] = None,
    weights_only: Annotated[
        bool,
        typer.Option("--weights-only", help="Save its non-zero weights only.", rich_help_panel=PICK),
    ] = False,
) -> None:
    """Learn models from dense to sparse, a value of l1 each, in one pass; show their errors and pick one.

    The table has a line per model: its progressive metrics (each row scored before it is learned), and the error of the
    final models on rows that were held out. An asterisk marks the model that is picked.
    """
    from thinstream.cli.sweeping import Sweeping, sweep
    from thinstream.evaluate.report import Tradeoff
    from thinstream.tune.selection import Limits
    from thinstream.tune.sparsity_path import Sweep

    low, high = _ends(l1)
    asked = Sweeping(
        data=data,
        reading=reading,
        output=output,
        studying=studying,
        algorithm=algorithm,
        class_weight=class_weight,
        parameters=values(algorithm, own),
        sweep=Sweep(n, low, high, holdout),
        test=test or [],
        pick=pick,
        scoring=scoring,
        tradeoff=Tradeoff(alpha_p, 1.0 - alpha_p, cost_p, 1.0 - cost_p),
        limits=Limits(max_nnz, max_density),
        model=model,
        weights_only=weights_only,
    )
    sweep(asked)


def _ends(text: str | None) -> tuple[float | None, float | None]:
    """LOW..HIGH, either of which may be missing.

    >>> _ends("1e-6..1"), _ends("..10")
    ((1e-06, 1.0), (None, 10.0))
    """
    if text is None:
        return None, None
    try:
        low, high = (float(part) if part else None for part in text.split(".."))
    except ValueError:
        raise typer.BadParameter(f"--l1 must be two numbers > 0 as in 1e-6..1, got {text!r}") from None
    return low, high
