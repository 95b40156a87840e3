"""Crosses: features made of features, so that a linear model learns what two columns mean together.

A cross names columns (or namespaces): ``("user", "item")``. Of each row it takes every feature of ``user`` with every
feature of ``item``. What comes of it is a feature like any other, behind the row's own: its name is the names of its
parts with `MARK` between them, its value the product of theirs::

    user=ann × item=7      1        two categories
    user=ann × age         31       a category and a number
    age × height           5735     two numbers

The name is hashed as the plain name it is, so a file that has these features written out gives the same rows. A row
without one of the columns has no cross. Columns named twice, ``("words", "words")``, give each combination of different
features once, in the order of the row: of a, b, c the pairs a × b, a × c, b × c.

`declared` says what may be asked for and imports nothing heavy; `plan` has it in numbers; `rows` does it, compiled, for
all formats, which tell it only how their features are spelled (`spelling`).
"""
