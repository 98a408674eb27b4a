"""`rpcload`, or `python -m kvstore.load_test`: a load test of any gRPC service."""

import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, Final

import click

from kvstore.client.errors import NotEnoughMemory, ServerNotReached, printable
from kvstore.load_test.first_call import FirstCallFailed
from kvstore.load_test.options import OUTPUT, Flags, GroupedCommand, GroupedOption, parameters
from kvstore.load_test.saved import saved
from kvstore.load_test.service import flags_of
from kvstore.load_test.session import BAD_INPUT, COULD_NOT_RUN, load_test
from kvstore.subprocesses import INTERRUPTED

EXAMPLES: Final = """
rpcload 127.0.0.1:50051 pkg.Service/Get --json '{"id": 7}' -c 50 -s 10s
rpcload 127.0.0.1:50051 pkg.Service/Get --json '{"id": 7}' --find-rate --p99 50ms
rpcload 127.0.0.1:50051
rpcload report RUN -o html | compare A B | merge A B...   (runs of --save)
"""

EXIT_CODES: Final = """\b
Exit codes: 0 the run is complete; 1 an objective was missed, a --fail-if met
or a --check failed, no call ended OK, or the service went away in mid-run; 2 the input is
wrong; 3 the test could not run; 130 Ctrl-C.
"""


@click.command(
    cls=GroupedCommand,
    params=parameters(),
    examples=EXAMPLES,
    epilog=EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 90},
)
@click.option(
    "--config",
    cls=GroupedOption,
    group=OUTPUT,
    metavar="FILE",
    is_eager=True,
    expose_value=False,
    callback=lambda ctx, _, path: _read_config(ctx, path),
    help="Flags by name in a TOML file; flags of the command line count more.",
)
def command(**flags: Any) -> int:
    """Load one method of a gRPC service, predict what it can do, and measure it.

    First, short runs with more and more calls in flight show the ceiling of the service and the
    knee N*. They give a prediction. Then comes the run, with intervals and the reasons to distrust
    it. With --find-rate, a search follows in place of the run.
    """
    try:
        return load_test(Flags(**flags))
    except KeyboardInterrupt:  # click would write an empty line
        return _error("interrupted before the run began", INTERRUPTED)


def _read_config(ctx: click.Context, path: str | None) -> None:
    if path is not None:
        known = {
            name.lstrip("-"): each
            for each in ctx.command.params
            for name in each.opts
            if name.startswith("--") or isinstance(each, click.Argument)
        }
        ctx.default_map = flags_of(path, known)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    # gRPC logs the traceback of a reply that does not parse; its status is in the report.
    logging.getLogger("grpc").addHandler(logging.NullHandler())
    words = sys.argv[1:] if arguments is None else list(arguments)
    chosen = saved if words[:1] and words[0] in saved.commands else command
    try:
        status: int = chosen.main(words, "rpcload", standalone_mode=False)
        return status
    except click.UsageError as wrong:
        return _error(f"{wrong.format_message()}\nTry: rpcload --help", BAD_INPUT)
    except (ServerNotReached, FirstCallFailed, NotEnoughMemory) as wrong:
        return _error(wrong, COULD_NOT_RUN)
    except (ValueError, TypeError, OSError) as wrong:
        return _error(wrong, BAD_INPUT)
    except RecursionError:
        return _error("the request, or the type of it, is nested too deeply", BAD_INPUT)
    except RuntimeError as wrong:
        return _error(wrong, COULD_NOT_RUN)


def script() -> None:
    """Run the command and end the process: threads of cancelled calls must not hold it back."""
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def _error(problem: object, status: int) -> int:
    print(f"error: {printable(str(problem))}", file=sys.stderr)
    return status


if __name__ == "__main__":
    script()
