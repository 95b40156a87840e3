"""What the documents say of pieces of text."""

import re
from pathlib import Path

from thinstream.data.sources import PIECE

ROOT = Path(__file__).parents[2]


def test_the_documents_name_the_size_of_a_piece():
    for name in ("docs/architecture.md", "docs/files.md"):
        text = (ROOT / name).read_text().replace("\n", " ")
        said = re.findall(r"pieces of (?:about )?(\S+ (?:MiB|MB|megabytes?))", text)
        assert said == [f"{PIECE >> 20} MiB"], name
