"""What the environment of a process tells gRPC, which reads it when it is imported."""

import os
from typing import Final

VERBOSITY: Final = "GRPC_VERBOSITY"
"""gRPC's own variable: what its log says. Below ERROR, the log has raw text of a peer's GOAWAY."""
PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy")
"""The environment variables in which gRPC looks for a proxy."""
NO_PROXY: Final = "no_grpc_proxy"
"""gRPC's own variable in place of `no_proxy`: hosts that are called without a proxy."""
LOOPBACK: Final = ("localhost", "127.0.0.0/8", "::1")


def quiet_log() -> None:
    """Let gRPC log errors only, unless the environment says what it logs."""
    os.environ.setdefault(VERBOSITY, "ERROR")


def call_this_machine_directly() -> None:
    """Let gRPC call this machine without a proxy, whatever channel a program opens.

    gRPC would send calls to 127.0.0.1 to the proxy of `http_proxy`, unless `no_proxy` names it.
    """
    if any(os.environ.get(name) for name in PROXIES):
        known = os.environ.get(NO_PROXY) or os.environ.get("no_proxy") or ""
        names = [each for each in known.split(",") if each]
        os.environ[NO_PROXY] = ",".join([*names, *(n for n in LOOPBACK if n not in names)])
