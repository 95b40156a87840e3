"""The command ``thinstream``: one line per error, an exit code that tells, no traces.

Exit codes: 0 done, 1 bad input or another failure, 2 a wrong command line, 130 and 143 stopped by SIGINT and SIGTERM.
"""

import os
import sys
from typing import Annotated

import typer

from thinstream.cli import (
    algorithms,
    convert,
    datasets,
    demo,
    evaluate,
    export,
    inspect,
    merge,
    predict,
    reorder,
    train,
)

HELP = "Sparse, cost-sensitive, second-order online learning from streams."


def make_app(arguments: list[str]) -> typer.Typer:
    """The command line; which options ``train`` has depends on the algorithm in the arguments."""
    app = typer.Typer(
        name="thinstream",
        help=HELP,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode="rich",
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    train.register(app, arguments)
    for module in (predict, evaluate, convert, inspect, export, merge, reorder, algorithms, datasets, demo):
        module.register(app)
    app.callback()(_common)
    return app


def _version(asked: bool) -> None:
    if asked:
        from thinstream import __version__

        typer.echo(f"thinstream {__version__}")
        raise typer.Exit


def _common(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Runs the command line of this process."""
    from thinstream.errors import ThinstreamError

    try:
        make_app(sys.argv[1:])(prog_name="thinstream")
    except (ThinstreamError, NotImplementedError) as error:
        _fail(str(error))
    except BrokenPipeError:  # the reader of our output has left: as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
    except OSError as error:
        _fail(f"{error.filename}: {error.strerror}" if error.filename else str(error))
    except MemoryError as error:
        _fail(f"not enough memory{f': {error}' if str(error) else ''}")
    except KeyboardInterrupt:
        sys.exit(130)


def _fail(message: str) -> None:
    sys.stderr.write(f"thinstream: {message}\n")
    sys.exit(1)


if __name__ == "__main__":
    main()
