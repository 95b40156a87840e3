"""The reading options: declared once, said again by the command line, model files and feature spaces."""

import subprocess
import sys
from dataclasses import fields

import pytest

from thinstream.data.options import (
    OPTIONS,
    WORDING,
    Options,
    ReadingSpec,
    as_learned,
    feature_space,
    in_feature_space,
    remembered,
    spelling,
)
from thinstream.errors import InvalidParameterError

#: A value of every option that is not its default.
OTHER = {
    "format": "csv",
    "classes": ("ham", "spam"),
    "positive_above": 2.5,
    "grow_classes": True,
    "zero_based": True,
    "normalize": "l2",
    "on_error": "skip",
    "max_errors": 1,
    "max_line": 1,
    "threads": 1,
    "look": 1,
    "label": "kind",
    "weight": "cost",
    "text": ("subject", "body"),
    "ngrams": (1, 2),
    "chars": (3, 5),
    "lower": False,
    "stop": ("a", "the"),
    "binary": True,
    "categorical": ("zip",),
    "numeric": ("age",),
    "dates": ("day",),
    "missing": "ignore",
    "ignore": ("id", "date"),
    "header": False,
    "delimiter": "\t",
    "bits": 1,
    "signed": True,
    "cross": (("age", "zip"), ("user", "item", "day")),
    "names": 1,
    "names_rows": 5,
    "id": "key",
    "dtype": "float64",
    "labels": False,
    "strict": False,
    "inferred": (),
    "columns": ("age",),
    "keys": ("age",),
}


def test_every_option_says_what_it_is():
    assert all(spelling(option).help for option in fields(Options))
    assert all(f"\n{name} : " in Options.__doc__ for name in OPTIONS)
    assert list(OTHER) == list(OPTIONS)


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if spelling(option).panel])
def test_the_command_line_reads_back_what_arguments_say(name):
    from thinstream.cli.options import Reading
    from thinstream.cli.parser import Command, Parser

    read = []

    def command(reading: Reading) -> None:
        read.append(reading)

    given = Options(**{name: OTHER[name]})
    parser = Parser(prog="command")
    parser.add_command("command", Command(command))
    Command(command)(parser.parse(given.arguments()))
    assert read == [given]


def test_feature_spaces_give_back_the_options_they_are_made_of():
    given = Options(**{name: OTHER[name] for name, option in OPTIONS.items() if spelling(option).in_space})
    found = in_feature_space(feature_space(given, hashed=True)) | in_feature_space(feature_space(given, hashed=False))
    assert {name: sorted(v) if isinstance(v, tuple) else v for name, v in found.items()} == {
        name: sorted(v) if isinstance(v, tuple) else v for name, v in given.given().items()
    }


def test_a_model_reads_as_it_learned():
    learned = Options(**{name: value for name, value in OTHER.items() if name not in ("format", "zero_based")})
    space, kept = feature_space(learned, hashed=True), remembered(learned)
    again = as_learned(Options(), "csv", ReadingSpec(space, kept, ("ham", "spam")), "m.ts")
    for name in (
        "label",
        "weight",
        "numeric",
        "ignore",
        "header",
        "classes",
        "bits",
        "signed",
        "cross",
        "normalize",
        *WORDING,
    ):
        assert getattr(again, name) == getattr(learned, name)
    assert sorted(again.text) == sorted(learned.text)
    assert again.threads is None
    assert again.on_error == "raise"


def test_other_data_may_need_other_options_but_not_another_feature_space():
    space = feature_space(Options(bits=18, text=("a", "b")), hashed=True)
    found = as_learned(Options(label="y", text=("b", "a")), "csv", ReadingSpec(space, {"label": "x"}, (-1, 1)), "m.ts")
    assert found.label == "y"
    assert found.bits == 18
    with pytest.raises(InvalidParameterError, match=r"m\.ts learned with bits 18; it cannot be used with bits 20"):
        as_learned(Options(bits=20), "csv", ReadingSpec(space, {}, (-1, 1)), "m.ts")
    with pytest.raises(InvalidParameterError, match="learned with classes 0,1; it cannot be used with classes 1,0"):
        as_learned(Options(classes=(1, 0)), "csv", ReadingSpec(space, {}, ("0", "1")), "m.ts")


def test_options_of_another_format_are_left_out():
    assert as_learned(Options(), "libsvm", ReadingSpec({"hashing": {"bits": 18}}, {"label": "x"}), "m.ts") == Options(
        inferred=()
    )


def test_values_that_are_not_allowed_are_refused():
    with pytest.raises(InvalidParameterError, match="threads must be None or an integer of 0 or more, got -1"):
        Options(threads=-1).check()
    with pytest.raises(InvalidParameterError, match="on_error must be 'raise' or 'skip', got 'stop'"):
        Options(on_error="stop").check()


def test_the_declaration_costs_no_time_at_start_up():
    code = "import sys, thinstream.data.options; print('numpy' in sys.modules, 'numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False False\n"
