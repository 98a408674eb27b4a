"""The public exceptions of the server."""


class ServerDidNotStart(RuntimeError):
    """The server's process ended, or printed no address, before it listened."""


class EtcdNotInstalled(RuntimeError):
    """There is no etcd on this machine."""
