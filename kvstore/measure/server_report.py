"""What the servers of a run report of themselves."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from kvstore.server_settings import ServerSettings

_SETTINGS = {each.name for each in fields(ServerSettings)}


@dataclass(frozen=True, kw_only=True)
class ServerReport:
    """The report of a server; of several servers, identities joined and counts added up."""

    identity: str = ""
    """The word that each server was started with, separated by commas; "" if unknown."""
    known_settings: ServerSettings | None = None
    """None for a server that does not report its settings."""
    versions: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, int] | None = None
    """Operations answered in the run by kind and status, such as "create/OK"; None if the server
    did not count them, or does not answer any more."""
    attempts: Sequence[Sequence[float]] = ()
    """Where the server notes attempts, each one: when its call was sent, in seconds of the run; how
    many were before it; and when it arrived and ended by the server's clock, 0 for no end."""

    @property
    def settings(self) -> ServerSettings:
        """The settings. Raises `ValueError` for a server that does not report them."""
        if self.known_settings is None:
            raise ValueError("the server of this run does not report its settings")
        return self.known_settings

    @property
    def answered(self) -> int:
        """Operations that the server answered, with any status; 0 if it did not count them."""
        return sum((self.operations or {}).values())

    def as_dict(self) -> dict[str, Any]:
        """Return the report by name, ready for JSON and for `of`."""
        facts = asdict(self)
        return {**facts, "settings": facts.pop("known_settings")}

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> "ServerReport":
        """Return the report that `as_dict` wrote; facts that are missing are unknown.

        Settings that this version does not have are left out. Raises `ValueError` for a setting
        that makes no sense.
        """
        settings = facts.get("settings")
        return cls(
            identity=facts.get("identity", ""),
            known_settings=None if not settings else _settings(settings),
            versions=facts.get("versions", {}),
            operations=facts.get("operations"),
            attempts=facts.get("attempts") or (),
        )


def _settings(reported: Mapping[str, Any]) -> ServerSettings:
    return ServerSettings(**{name: reported[name] for name in reported if name in _SETTINGS})
