"""What a command takes, declared without typer, whose import takes longer than numpy's: most lines do without."""

from collections.abc import Callable, Iterable
from typing import Annotated, Any, NamedTuple, get_args, get_origin


class Declared(NamedTuple):
    """An option or an argument, as it stands in the annotation of a parameter."""

    help: str
    panel: str | None = None  # under which the help lists it
    names: tuple[str, ...] = ()  # (): that of the parameter
    show_default: bool = False  # otherwise its default stands in its help text, if anywhere
    metavar: str | None = None
    min: float | None = None
    max: float | None = None
    is_argument: bool = False
    values: Callable[[], Iterable[Any]] | None = None  # all there are, for shells to complete

    def for_typer(self) -> Any:
        """The same as typer takes it."""
        import typer

        from thinstream.cli.completing import offer

        if self.is_argument:
            return typer.Argument(help=self.help, metavar=self.metavar, show_default=self.show_default)
        return typer.Option(
            *self.names,
            help=self.help,
            rich_help_panel=self.panel,
            show_default=self.show_default,
            metavar=self.metavar,
            min=self.min,
            max=self.max,
            autocompletion=offer(self.values) if self.values else None,
        )


class Given(frozenset[str]):
    """Names of the parameters that stand on the command line, for a command that asks for it."""


def option(help: str, panel: str | None = None, *names: str, **more: Any) -> Declared:  # noqa: A002 (typer's word)
    """An option; ``more`` are fields of `Declared`."""
    return Declared(help, panel, names, **more)


def argument(help: str, **more: Any) -> Declared:  # noqa: A002 (typer's word)
    """An argument; ``more`` are fields of `Declared`."""
    return Declared(help, is_argument=True, **more)


def declared_in(annotation: Any) -> tuple[Any, Any]:
    """The type of a parameter, and what is declared of it.

    >>> declared_in(Annotated[int, option("How many.", min=1)])  # doctest: +ELLIPSIS
    (<class 'int'>, Declared(help='How many.', panel=None, names=(), ..., min=1, max=None, ...))
    >>> declared_in(int)
    (<class 'int'>, None)
    """
    return get_args(annotation)[:2] if get_origin(annotation) is Annotated else (annotation, None)
