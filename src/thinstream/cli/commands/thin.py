"""``thinstream thin``: make a small model from a large one."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from thinstream.cli.options import Output, Reading, argument, option

if TYPE_CHECKING:
    from thinstream.models.model import Model
    from thinstream.tuning.thin_curve import Choice, Curve

#: Measures of importance, by their power of q_j.
MEASURES = {0.0: "|w|", 0.5: "|w|·√q", 1.0: "|w|·q"}
#: Show every Nth line of the curve.
EVERY = 4


def thin(
    model: Annotated[Path, argument("The model file.")],
    reading: Reading,
    output: Output,
    out: Annotated[Path | None, option("The file of the thin model.", None, "--model", "-m")] = None,
    nnz: Annotated[
        str | None,
        option(
            "The number of features to keep. With several numbers, such as 30,100,300, the command prints a table and "
            "writes a file for each, with the number in its name.",
            metavar="N",
        ),
    ] = None,
    refit: Annotated[
        str | None,
        option(
            "Labeled rows to train the thin model on, usually the training rows. Separate files with commas. They are "
            "read several times.",
            metavar="FILES",
        ),
    ] = None,
    on: Annotated[
        str | None,
        option(
            "Labeled rows that the model has not learned. Separate files with commas. They determine the number of "
            "features and, without --refit, their importance.",
            metavar="FILES",
        ),
    ] = None,
    scoring: Annotated[
        str | None,
        option(
            "The metric for --on: log_loss (default), average_precision (default without probabilities), auc, error, "
            "balanced_accuracy, f1, precision, recall or jaccard."
        ),
    ] = None,
    plot: Annotated[
        Path | None, option("With --refit, draw errors against sizes to this file (.png, .svg or .html).")
    ] = None,
    l1_path: Annotated[
        Path | None, option("A table from `thinstream path --csv`, to draw its l1 models in the same chart.")
    ] = None,
) -> None:
    """Keep the most important features of a model. The thin model cannot continue to learn.

    With --refit, a new model is trained on these features only, which is usually much better. The command tries several
    ways to select features on four fifths of the rows, and uses the one with the lowest log-loss on the other rows.

    Without --refit, the features keep their weights. A feature is important if its weight and its values are large.
    With --on, the command tries three measures of importance and many sizes, and uses the smallest model within one
    standard error of the best.
    """
    from thinstream.cli import thinning
    from thinstream.cli.io import collect_garbage, require_model_file, require_not_input, require_writable
    from thinstream.cli.render import SMALL, say, show_json
    from thinstream.errors import InvalidParameterError
    from thinstream.models.file import read, write
    from thinstream.models.importance import importance
    from thinstream.models.thin import thin as cut
    from thinstream.training.refit import choose_ways, refit_chosen

    held_out, rows = (text.split(",") if text else [] for text in (on, refit))
    sizes = thinning.parse_sizes(nnz)
    if not sizes and not held_out:
        raise InvalidParameterError(
            "pass --nnz N, the number of features to keep, or --on FILES, rows that determine the number, or both"
        )
    if not sizes and rows:
        raise InvalidParameterError("--refit needs --nnz: a number of features, or several to choose from")
    if out is None and not (rows and (len(sizes) > 1 or plot)):
        raise InvalidParameterError("pass --model FILE, the file of the thin model")
    if (plot or l1_path) and not rows:
        raise InvalidParameterError("--plot and --l1-path need --refit")
    files = [out] if held_out and out is not None else thinning.model_files(out, sizes)
    for file in files:
        require_writable(file)
        require_not_input(file, model, *held_out, *rows)
        require_model_file(file)
    if rows:
        thinning.require_readable_again(rows, "--refit")
    full = read(model)
    if not rows:
        choice = None
        if held_out:
            curve = _curve(full, model, held_out, reading, sizes, scoring, output.quiet)
            choice = curve.choice
            if not (output.quiet or output.json):
                _show(curve, choice)
            if curve.is_constant(choice) and not output.quiet:
                say(
                    f"thinstream: the model with {choice.n:,} features is not better than a constant prediction, by "
                    f"{curve.scoring.replace('_', ' ')}"
                )
            thinned = [cut(full, choice.n, importance(full.learner, choice.power))]
        else:
            thinned = [cut(full, n) for n in sizes]
        for file, small in zip(files, thinned, strict=True):
            write(file, small, "weights")
            kept, before = _n_features(small), _n_features(full)
            nbytes = file.stat().st_size, model.stat().st_size
            if output.json:
                counts = {"features": kept, "of": before, "non_zeros": small.learner.nnz}
                show_json(
                    counts
                    | {"bytes": nbytes[0], "bytes_before": nbytes[1]}
                    | _chosen(choice, held_out and curve.scoring)
                )
            elif not output.quiet:
                print(f"{file}: {kept:,} of {before:,} features, {nbytes[0]:,} bytes instead of {nbytes[1]:,}")
                if not held_out and kept < before < SMALL:
                    say(
                        "thinstream: the kept weights do not fit well without the removed features. Pass --refit ROWS "
                        "for a better model"
                    )
        return
    table = thinning.l1_path(l1_path)
    source = thinning.rows_like(full, rows, reading, str(model))
    collect_garbage()
    choices = choose_ways(full, source, sizes, notify=thinning.progress(output))
    refitted = refit_chosen(full, source, choices, notify=thinning.progress(output))
    models, choices = [model for model, _ in refitted], [choice for _, choice in refitted]
    best = None
    if held_out:
        best = _best_size(models, held_out, reading, str(model), scoring)
        write(files[0], models[best], "weights") if files else None
        thinning.show(models, choices, files if output.json is False else [], output, best)
    else:
        thinning.show(models, choices, thinning.write_models(out, models, choices), output)
    thinning.draw(choices, plot, table)


def _n_features(model: "Model") -> int:
    """Return the number of features, and of products of features, with a weight."""
    features = (where.tolist() for where, _ in model.learner.served().sparse_feature_weights(products=True))
    return len(set().union(*features))


def _chosen(choice: "Choice | None", scoring: Any) -> dict[str, Any]:
    """Return how the size was chosen, for JSON."""
    return {} if choice is None else {**choice._asdict(), "scoring": scoring}


def _best_size(models: "list[Model]", files: list[str], reading: Reading, name: str, scoring: str | None) -> int:
    """Return the smallest refitted model within one standard error of the best, on rows that were not learned."""
    from thinstream.cli.thinning import rows_like
    from thinstream.tuning.thin_curve import compare_sizes

    rows = rows_like(models[0], files, reading, name)
    return compare_sizes(models, rows, scoring)[0]


def _curve(
    model: "Model", path: Path, files: list[str], reading: Reading, sizes: list[int], scoring: str | None, quiet: bool
) -> "Curve":
    """Return the metric on labeled rows by the number of features."""
    from thinstream.cli.io import collect_garbage
    from thinstream.cli.render import report_skipped
    from thinstream.data.labels import GrowingClasses
    from thinstream.data.opening import open_like
    from thinstream.tuning.thin_curve import measured

    stream = open_like(model.reading_spec, files, reading, str(path))
    model.require_features(stream.feature_space, "the data", str(path))
    collect_garbage()
    batches, classes = stream.batches(), model.classes
    if isinstance(classes, GrowingClasses):  # a class that the model does not know is never predicted
        growing = classes
        batches = (
            batch.labelled(growing.numbered(stream.classes or (), batch.require_labels("thin on"))[1], batch.weights)
            for batch in batches
        )
    most = max(_n_features(model), 1)
    tried = sorted({min(size, most) for size in sizes}) if sizes else None
    curve = measured(model, batches, tried, scoring=scoring)
    report_skipped(stream, quiet)
    return curve


def _show(curve: "Curve", choice: "Choice") -> None:
    """Print some lines of the curve, with an asterisk at the chosen size."""
    from thinstream.cli.render import write_table
    from thinstream.tuning.figures import scoring_name, texts

    last = len(curve.sizes) - 1
    shown = [k for k, n in enumerate(curve.sizes) if k in (0, last) or k % EVERY == 0 or n == choice.n]
    columns = [texts(values, curve.scoring) for values in curve.values]
    rows = [[f"{curve.sizes[k]:,}", *(column[k] for column in columns)] for k in shown]
    chosen = next(line for line, k in enumerate(shown) if curve.sizes[k] == choice.n)
    name = scoring_name(curve.scoring)
    write_table(["features", *(f"{MEASURES[power]}, {name}" for power in curve.powers)], rows, chosen)
    value, best, spread = texts([choice.value, choice.best, choice.standard_error], curve.scoring)
    print(
        f"{choice.n:,} features, the most important by {MEASURES[choice.power]}: {name} {value}, best {best} ± {spread}"
    )
