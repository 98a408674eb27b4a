"""What both ends of a connection agree on with gRPC, wherever we open or accept one."""

from typing import Final

MESSAGE_LIMIT_BYTES: Final = 4 * 1024 * 1024
"""gRPC accepts no larger message unless it was told otherwise."""

OWN_CONNECTION: Final = ("grpc.use_local_subchannel_pool", 1)
"""Channels of one process to one address share a TCP connection unless each keeps to itself.

For correctness, not for speed: connections that a learner counts have to be connections. What it
costs, and what options that are not used would bring, says `course.py bench settings`."""
