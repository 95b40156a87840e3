"""MurmurHash3 (x86, 32 bits) in SQL that SQLite and DuckDB both know, of sums and shifts of 64 bits."""

from typing import Any

from thinstream.errors import InvalidParameterError

_DIGITS, _LOW = "'0123456789ABCDEF'", 2**32 - 1
#: The spelling of crosses.
_MARK = " × "

_PIECES = """\
named("feature", "space", "name") AS MATERIALIZED (
  SELECT "feature", "space", SUBSTR("feature", LENGTH("space") + CASE
    WHEN "space" <> '' AND SUBSTR("space", -1) <> '=' THEN 2 ELSE 1 END)
  FROM (SELECT "feature", CASE
{spaces}    ELSE '' END AS "space"
  FROM (SELECT DISTINCT CAST("feature" AS TEXT) AS "feature" FROM given WHERE "feature" IS NOT NULL))
),
texts("text", "hex") AS (
  SELECT "text", HEX("text") FROM (SELECT "space" AS "text" FROM named UNION SELECT "name" FROM named)
),
cuts("text", "hex", "part") AS (
  SELECT "text", "hex", 0 FROM texts
  UNION ALL SELECT "text", "hex", "part" + 1 FROM cuts WHERE ("part" + 1) * 8 < LENGTH("hex")
),
words("text", "part", "size", "whole", "word") AS MATERIALIZED (
{words}
),
"""

_CHAIN = """\
{name}_chain("key", "text", "part", "hash") AS (
  {start}
  UNION ALL SELECT c."key", c."text", c."part" + 1, {stirred}
  FROM {name}_chain c JOIN words w ON w."text" = c."text" AND w."part" = c."part" WHERE w."whole" = 1
),
{name}("key", "hash") AS MATERIALIZED (
{ended}
),
"""


def hashing_steps(space: dict[str, Any], has_columns: bool) -> str:
    """The steps from ``given``, with features by name, to ``cells`` by column."""
    how = space["hashing"]
    if how["bits"] > 31:
        raise InvalidParameterError(
            f"in SQL names are hashed into 2^31 numbers at most, this model has 2^{how['bits']}: train with --bits 31"
        )
    spaces = "".join(f"    WHEN {test} THEN {found}\n" for test, found in _spaces(space, has_columns))
    seeds = f"""SELECT DISTINCT "space", "space", 0, CAST({how["seed"]} AS BIGINT) FROM named"""
    start = """SELECT n."feature", n."name", 0, s."hash" FROM named n JOIN spaces s ON s."key" = n."space\""""
    sign = """CASE WHEN f."hash" >= 2147483648 THEN -g."value" ELSE g."value" END""" if how["signed"] else 'g."value"'
    column = f"""(f."hash" & {(1 << how["bits"]) - 1})"""
    once = "MIN" if space.get("binary") else "SUM"  # of a row's equal features, which are 1 each
    return (
        _PIECES.format(spaces=spaces, words=_words())
        + _chain("spaces", seeds)
        + _chain("hashed", start)
        + f"""cells("row", "feature", "value") AS MATERIALIZED (
  SELECT g."row", {column}, {once}({sign})
  FROM given g JOIN hashed f ON f."key" = CAST(g."feature" AS TEXT) GROUP BY g."row", {column}
),
"""
    )


def text(value: str) -> str:
    """A text of SQL."""
    return "'" + value.replace("'", "''") + "'"


def _spaces(space: dict[str, Any], has_columns: bool) -> list[tuple[str, str]]:
    """Which namespace a readable name is in: tests, and what is found."""
    found = [(f"""INSTR("feature", {text(_MARK)}) > 0""", "''")] if space.get("cross") else []
    for column in space.get("text", ()):
        for head in (column, f"{column}~"):
            found.append((f"""SUBSTR("feature", 1, {len(head) + 1}) = {text(head + "^")}""", text(head)))
    if not space.get("text") and not has_columns:  # namespaces of Vowpal Wabbit
        found.append(("""INSTR("feature", '^') > 1""", """SUBSTR("feature", 1, INSTR("feature", '^') - 1)"""))
    found.append(("""INSTR("feature", '=') > 0""", """SUBSTR("feature", 1, INSTR("feature", '='))"""))
    return found


def _words() -> str:
    """Four bytes of a text, mixed as the hash has them."""
    digits = [f"""(INSTR({_DIGITS}, SUBSTR("cut", {k}, 1)) - 1)""" for k in range(1, 9)]
    number = " + ".join(f"({digits[2 * k]} * 16 + {digits[2 * k + 1]}) * {256**k}" for k in range(4))
    begun = (
        """SELECT "text", "part", CAST(LENGTH("hex") / 2 AS BIGINT) AS "size",\n"""
        """    CASE WHEN ("part" + 1) * 8 <= LENGTH("hex") THEN 1 ELSE 0 END AS "whole",\n"""
        """    SUBSTR("hex" || '00000000', "part" * 8 + 1, 8) AS "cut" FROM cuts"""
    )
    steps = [number, _times('"x"', 0xCC9E2D51), _turned('"x"', 15), _times('"x"', 0x1B873593)]
    return _nested(begun, '"text", "part", "size", "whole"', steps)


def _chain(name: str, start: str) -> str:
    """The hash of each key: word after word, then what is left, then the end."""
    turned = _turned(_xor('c."hash"', 'w."word"'), 13)
    stirred = f"(({turned} * 5 + {0xE6546B64}) & {_LOW})"
    tail = _xor('c."hash"', """CASE WHEN w."whole" = 0 AND t."size" > c."part" * 4 THEN w."word" ELSE 0 END""")
    begun = (
        f"""SELECT c."key" AS "key", t."size" AS "size", {tail} AS "x" FROM {name}_chain c\n"""
        """    JOIN (SELECT DISTINCT "text", "size" FROM words) t ON t."text" = c."text"\n"""
        """    LEFT JOIN words w ON w."text" = c."text" AND w."part" = c."part"\n"""
        """    WHERE c."part" * 4 <= t."size" AND (c."part" + 1) * 4 > t."size\""""
    )
    steps = [
        _xor('"x"', '"size"'),
        _xor('"x"', '("x" >> 16)'),
        _times('"x"', 0x85EBCA6B),
        _xor('"x"', '("x" >> 13)'),
        _times('"x"', 0xC2B2AE35),
        _xor('"x"', '("x" >> 16)'),
    ]
    ended = _nested(begun, '"key", "size"', steps)
    return _CHAIN.format(name=name, start=start, stirred=stirred, ended=f"""  SELECT "key", "x" FROM (\n{ended}\n  )""")


def _nested(begun: str, keep: str, steps: list[str]) -> str:
    """One step after another, each on what the one before made: ``x``."""
    for step in steps:
        begun = f"""  SELECT {keep}, {step} AS "x" FROM (\n  {begun.lstrip()})"""
    return begun


def _xor(one: str, two: str) -> str:
    return f"(({one} | {two}) - ({one} & {two}))"


def _times(one: str, constant: int) -> str:
    """The product modulo 2³², in halves, so that it fits into 63 bits."""
    high = f"(((({one} >> 16) * {constant}) & 65535) << 16)"
    return f"(({high} + (({one} & 65535) * {constant})) & {_LOW})"


def _turned(one: str, bits: int) -> str:
    """Turned to the left in 32 bits."""
    return f"((({one} << {bits}) | ({one} >> {32 - bits})) & {_LOW})"
