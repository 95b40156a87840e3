"""Fresh models of a portfolio: those whose rows are prepared alike together, and among them those of an algorithm."""

from collections.abc import Sequence
from typing import Any

from thinstream.blend.group import FIRST_ROOM, Group
from thinstream.blend.linear import Station
from thinstream.blend.member import Member
from thinstream.engine.loop import Costs
from thinstream.preparing import Preparation


def stations_of(portfolio: Sequence[Member], costs: Costs, **options: Any) -> tuple[list[Station], list[Member]]:
    """The stations, and the members in the order in which they stand there; ``options`` are those of `Lanes`."""
    stations, ordered = list[Station](), list[Member]()
    kinds = dict.fromkeys((member.scale, member.normalize) for member in portfolio)
    for kind in sorted(kinds, key=lambda kind: kind[1] is not None):  # so that the stations of a part stand together
        here = [member for member in portfolio if (member.scale, member.normalize) == kind]
        groups = []
        for name, limit in dict.fromkeys((member.algorithm, member.max_features) for member in here):
            own = [member for member in here if (member.algorithm, member.max_features) == (name, limit)]
            given = [member.parameters for member in own]
            room = options if limit is None else options | {"n_features": min(FIRST_ROOM, limit)}
            groups.append(Group(name, given, costs=[costs] * len(own), max_features=limit, **room))
            ordered += own
        stations.append(Station(Preparation(*kind), groups))
    return stations, ordered
