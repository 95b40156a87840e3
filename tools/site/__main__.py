"""Builds the site into build/site, warnings being errors, and walks over it.

python -m tools.site [--gallery all|off|PATTERN]
"""

import argparse
import shutil
import sys
from pathlib import Path

from sphinx.cmd.build import main as sphinx

from tools.site import crawl
from tools.site.links import DOCS, ROOT


def main() -> int:
    """Builds and crawls; 0 if nothing is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--gallery", default="all", help="which stories are run: all (default), off, or a pattern")
    parser.add_argument("--jobs", default="2", help="processes (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "site", help="where it goes (default: build/site)")
    options = parser.parse_args()
    gallery = {"all": [], "off": ["-D", "plot_gallery=0"]}.get(
        options.gallery, ["-D", f"sphinx_gallery_conf.filename_pattern={options.gallery}"]
    )
    doctrees = ["-d", str(options.out.parent / "doctrees")]
    shutil.rmtree(options.out, ignore_errors=True)  # pages that are no longer made would be found by the crawler
    strict = ["-W", "--keep-going", "-q", "-j", options.jobs, "-b", "html"]
    code = sphinx([*strict, *doctrees, *gallery, str(DOCS), str(options.out)])
    return code or crawl.main(options.out)


if __name__ == "__main__":
    sys.exit(main())
