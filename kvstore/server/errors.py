"""The public exceptions of the server."""


class ServerDidNotStart(RuntimeError):
    """The server's process ended, or printed no address, before it listened."""
