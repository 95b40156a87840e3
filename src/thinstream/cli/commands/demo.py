"""``thinstream demo``: an example on text that every installation has."""

from typing import Annotated

from thinstream.cli.options import option


def demo(
    folder: Annotated[
        str, option("The folder for texts, models and charts.", None, "--folder", "-o", show_default=True)
    ] = "thinstream-demo",
) -> None:
    """Train, evaluate and thin a model that predicts the library of a docstring.

    The texts are the docstrings of the installed NumPy, SciPy and scikit-learn. The demo prints each command it runs.
    """
    from thinstream.demo import run

    run(folder)
