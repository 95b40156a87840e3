"""What builds the documentation site beside Sphinx: pages made from the code, links, equations, and a crawler.

`python -m tools.site` (`make docs-site`) builds it into build/site and walks over it. docs/conf.py has the settings.
"""
