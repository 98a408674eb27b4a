"""The six settings of connections and streams that source 2 is measured with."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple


class Scenario(NamedTuple):
    """How the calls in flight are laid out."""

    connections: int
    streams: int
    """Calls in flight on each connection."""

    @property
    def in_flight(self) -> int:
        """Calls in flight in all."""
        return self.connections * self.streams


SCENARIOS: Final[Mapping[str, Scenario]] = MappingProxyType(
    {
        "1a": Scenario(1, 1),
        "1b": Scenario(1, 10),
        "2a": Scenario(10, 1),
        "2b": Scenario(10, 10),
        "3a": Scenario(100, 1),
        "3b": Scenario(100, 10),
    }
)
"""By the names of the grpcxx project's README."""
