"""What the terminal of `course.py lab` shows of JupyterLab's log: what a learner can act on."""

import logging
import re

NOTHING_TO_DO = (
    "is not trusted",  # it has no outputs yet: nothing in it could be trusted
    "Could not determine jupyterlab build status",
    "websocket_ping_timeout",
    "Got events for closed stream",
    "received signal",
    "WebSocketClosedError",  # a page was closed
)


class Useful(logging.Filter):
    """Leave out warnings that a learner can do nothing about."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether to show the record."""
        message = record.getMessage()
        return not any(each in message for each in NOTHING_TO_DO)


class Plain(logging.Formatter):
    """Show the message alone, and in place of several addresses the one to open."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line to print."""
        shown = super().format(record)
        addresses = re.findall(r"http://\S+", shown)
        if "To access the server" not in shown or not addresses:
            return shown
        return f"course.py: open this address in a browser. Ctrl-C here ends it.\n  {addresses[0]}"
