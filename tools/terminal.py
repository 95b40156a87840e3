"""Write docs/pictures/terminal.svg: the commands of `thinstream demo` with their real output.

    python -m tools.terminal

The texts are the docstrings of the installed NumPy, SciPy and scikit-learn, so the numbers depend on their versions.
"""

import io
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from thinstream.cli.commands.demo import MODEL, SMALL, TEST, TRAIN, write_texts

PICTURE = Path(__file__).parent.parent / "docs" / "pictures" / "terminal.svg"
#: Commands, and the lines of their output that the picture shows.
COMMANDS = {
    f"train {TRAIN} --label library --text text -m {MODEL}": r" *(examples error|[\d,]+ )",
    f"evaluate {TEST} -m {MODEL}": "error  ",
    f"thin {MODEL} --nnz 100 --refit {TRAIN} -m {SMALL}": "$^",
    f"evaluate {TEST} -m {SMALL}": "error  ",
}
THEME = TerminalTheme((20, 24, 30), (223, 229, 236), [(20, 24, 30)] * 8, [(140, 196, 245)] * 8)


def main() -> None:
    """Run the commands and write the picture."""
    console = Console(record=True, width=76, file=io.StringIO(), force_terminal=True)
    with tempfile.TemporaryDirectory() as folder:
        write_texts(Path(folder))
        for command, shown in COMMANDS.items():
            console.print(Text.assemble(("$ ", "bold"), (f"thinstream {command}", "bold rgb(140,196,245)")))
            for line in output(command, shown, folder):
                console.print(Text(line), no_wrap=True)
    svg = console.export_svg(title="thinstream", theme=THEME, font_aspect_ratio=0.6)
    svg = re.sub(r"@font-face \{.*?\}\n?", "", svg, flags=re.DOTALL)  # fonts from other hosts
    PICTURE.write_text(re.sub(r"font-family: Fira Code", "font-family: ui-monospace, 'DejaVu Sans Mono'", svg), "utf-8")


def output(command: str, shown: str, folder: str) -> list[str]:
    """Return the lines of a command that the picture shows, without the margin and the last columns of the table."""
    words = [sys.executable, "-m", "thinstream", *shlex.split(command)]
    done = subprocess.run(words, cwd=folder, check=True, capture_output=True, text=True)
    lines = [line.rstrip() for line in done.stdout.splitlines() if re.match(shown, line)]
    margin = min((len(line) - len(line.lstrip()) for line in lines), default=0)
    end = lines[0].find("  non-zeros") if lines else -1
    return [line[margin : end if end > 0 else None] for line in lines]


if __name__ == "__main__":
    main()
