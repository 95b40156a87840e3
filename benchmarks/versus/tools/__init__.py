"""The contestants."""

from benchmarks.versus.contest import Tool
from benchmarks.versus.tools.batch import Liblinear
from benchmarks.versus.tools.flow import River
from benchmarks.versus.tools.ours import Thinstream
from benchmarks.versus.tools.sgd import ScikitLearn
from benchmarks.versus.tools.sol import Sol
from benchmarks.versus.tools.wabbit import Wabbit

TOOLS: dict[str, Tool] = {
    tool.name: tool for tool in (Thinstream(), Wabbit(), ScikitLearn(), River(), Sol(), Liblinear())
}
