"""Reflection: a client with no proto file asks the server what it may be asked."""

from collections.abc import Sequence
from typing import Any

from google.protobuf import descriptor_pool
from grpc_reflection.v1alpha import reflection


class _SymbolsWithMethods:
    """The descriptor pool, with methods among the symbols that it finds.

    Python's pool finds messages, fields and services only, and ghz asks for the very method
    that it is to call.
    """

    def __init__(self) -> None:
        self._pool = descriptor_pool.Default()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    def FindFileContainingSymbol(self, symbol: str) -> Any:
        """The file that describes this symbol. Raises `KeyError` when none does."""
        try:
            return self._pool.FindFileContainingSymbol(symbol)
        except KeyError:
            name, _, method = symbol.rpartition(".")
            service = self._pool.FindServiceByName(name)
            return service.methods_by_name[method].containing_service.file


def enable_reflection(services: Sequence[str], server: Any) -> None:
    """Let a server of either stack describe these services, and reflection itself."""
    reflection.enable_server_reflection(
        (*services, reflection.SERVICE_NAME), server, pool=_SymbolsWithMethods()
    )
