"""The experiments of the papers: their tables and figures, reproduced by ``python -m papers``.

`experiment` defines an experiment, `running` runs one cell by cell and resumes it after a stop, `writing` writes its
page with the help of `presenting`, and `data` reads the datasets. Each other module is one table or figure of a paper,
or holds what the experiments of one paper share. `catalogue` lists them all. ``published/`` has the papers' numbers.
"""
