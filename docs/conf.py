"""Settings of the documentation site: `make docs-site` builds it, tools/site has what is special about it."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import thinstream

project = "thinstream"
author = "the thinstream developers"
copyright = f"2026, {author}"  # noqa: A001 (Sphinx's word)
version = release = thinstream.__version__

extensions = [
    "sphinx.ext.autodoc",
    "numpydoc",
    "myst_parser",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "tools.site.made_pages",
    "tools.site.docstrings",
    "tools.site.mathml",
    "tools.site.pictured",
]
source_suffix = {".rst": "restructuredtext", ".md": "markdown"}
exclude_patterns = ["sg_execution_times.rst", "gallery/sg_execution_times.rst"]
default_role = "py:obj"  # a link where the name is known, else code
nitpicky = False
html_math_renderer = "mathml"
myst_enable_extensions = ["dollarmath", "colon_fence", "deflist", "attrs_inline"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # pages that go on from a list with a third-level heading

autodoc_typehints = "none"  # docstrings tell them
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

# Only what stands below is executed; Ray starts processes of its own and takes longer than all the others.
sphinx_gallery_conf = {
    "examples_dirs": ["../examples/gallery"],
    "gallery_dirs": ["gallery"],
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"__init__\.py",
    "within_subsection_order": "FileNameSortKey",
    "backreferences_dir": "gallery/backreferences",
    "doc_module": ("thinstream",),
    "reference_url": {"thinstream": None},
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 0,
    "parallel": 2,
    "plot_gallery": "True",
    "show_signature": False,
    "matplotlib_animations": False,
    "thumbnail_size": (480, 320),
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")

html_theme = "pydata_sphinx_theme"
html_title = "thinstream"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/thin.svg"
html_logo = "_static/thin.svg"
html_show_sourcelink = False
html_copy_source = False
html_domain_indices = False
html_theme_options = {
    "logo": {"text": "thinstream", "alt_text": "thinstream"},
    "header_links_before_dropdown": 8,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": ["theme-version"],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
