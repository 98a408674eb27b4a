"""`python -m kvstore.client`: one run from a process of its own, by hand or for a notebook."""

import argparse
import json
import math
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kvstore.client import NotEnoughMemory, load, pacing, run_in_process, strategies
from kvstore.client.channel import Target
from kvstore.client.gate import INTERRUPTED, Gate
from kvstore.client.generators import ENDED, EXIT_STATUS
from kvstore.client.part import WHOLE, Part
from kvstore.client.workload import Workload
from kvstore.lifeline import end_with_parent
from kvstore.measure.audit import audit
from kvstore.measure.journal import Journal
from kvstore.measure.run import Run
from kvstore.measure.sampler import Sample
from kvstore.measure.summary import summary

BY_NAME = {strategy.__name__: strategy for strategy in strategies.STRATEGIES}


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.client",
        description="Make calls to a key-value server with one strategy, and say what happened.",
    )
    add = parse.add_argument
    add("strategy", choices=BY_NAME)
    add("address", help="the server, such as 127.0.0.1:40123; several that share out the keys have"
        " commas between")  # fmt: skip
    add(
        "--in-flight", type=int, default=1, metavar="N", help="limit of calls in flight (default 1)"
    )
    add("--connections", type=int, default=1, metavar="C",
        help="connections that share the calls in flight evenly (default 1)")  # fmt: skip
    add("--processes", type=int, default=1, metavar="P",
        help="share the load out among so many generator processes (default 1)")  # fmt: skip
    add("--duration-s", type=float, default=None, metavar="S", help="seconds (default 10)")
    add("--calls", type=int, default=None, metavar="N", help="end after so many calls")
    add("--rate-per-s", type=float, default=None, metavar="R",
        help="send at a constant rate instead of as fast as the strategy can")  # fmt: skip
    add("--deadline-s", type=float, default=30.0, metavar="S", help="for each call (default 30)")
    add("--memory-ceiling-mb", type=float, default=math.inf, metavar="MB",
        help="end when client or server use this much")  # fmt: skip
    add("--workload", type=json.loads, default={}, metavar="JSON",
        help='settings of the workload, such as {"seed": 1, "value_bytes_mean": 1024}')  # fmt: skip
    add("--options", type=json.loads, default={}, metavar="JSON",
        help='settings of the strategy, such as {"batch": 8}')  # fmt: skip
    add("--metadata", type=json.loads, default={}, metavar="JSON",
        help='goes along with every call, such as {"tenant": "blue"}')  # fmt: skip
    add("--leave-garbage", action="store_true", help="leave Python's collector as it is")
    add("--save", default=None, metavar="FILE", help="write the run to this file")
    add("--identity", default=None, help="what the server must say it is")
    add("--sample-interval-s", type=float, default=0.25, help=argparse.SUPPRESS)
    add("--part", type=Part.parse, default=WHOLE, help=argparse.SUPPRESS)
    add("--journal", type=Path, default=None, help=argparse.SUPPRESS)
    add("--end-with-parent", type=int, default=None, metavar="PID",
        help="end with this parent, and print samples as JSON lines for it")  # fmt: skip
    return parse


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    options = parser().parse_args(arguments)
    for_parent = options.end_with_parent is not None
    gate = Gate()
    if for_parent:
        end_with_parent(options.end_with_parent, gate.stop, gate.hear)
    if options.duration_s is None and options.calls is None:
        options.duration_s = 10.0
    try:
        run = _run(options, for_parent, gate)
    except (load.RunInterrupted, load.RunFailed) as ended:
        _finish(ended.run, options.save, for_parent)
        if not isinstance(ended, load.RunInterrupted):
            print(f"error: {ended}", file=sys.stderr)
        return INTERRUPTED if isinstance(ended, load.RunInterrupted) else 1
    except KeyboardInterrupt:
        return INTERRUPTED  # before the run began; Python's own way out may wait for threads
    except (ValueError, TypeError, OSError, RuntimeError, NotEnoughMemory) as wrong:
        print(f"error: {wrong}", file=sys.stderr)
        return EXIT_STATUS.get(type(wrong), EXIT_STATUS[ValueError])
    _finish(run, options.save, for_parent)
    return 0


def _run(options: argparse.Namespace, for_parent: bool, gate: Gate) -> Run:
    strategy = BY_NAME[options.strategy]
    server = Target(options.address, options.identity)
    workload = Workload(**options.workload)
    settings: dict[str, Any] = {
        "in_flight": options.in_flight,
        "connections": options.connections,
        "metadata": options.metadata,
        "settle_garbage": not options.leave_garbage,
        "duration_s": options.duration_s,
        "calls": options.calls,
        "deadline_s": options.deadline_s,
        "memory_ceiling_bytes": options.memory_ceiling_mb * 1e6,
        "on_sample": _tell_parent if for_parent else _show,
        "sample_interval_s": options.sample_interval_s,
        **options.options,
    }
    rate, part = options.rate_per_s, options.part
    if options.processes != 1:
        return run_in_process(
            strategy, server, workload, processes=options.processes, rate_per_s=rate, **settings
        )
    return load.run(
        strategy,
        server,
        part.workload(workload),
        due_times=None if rate is None else part.due_times(pacing.constant_rate(rate)),
        part=part,
        gate=gate if for_parent else None,
        journal=None if options.journal is None else Journal(options.journal),
        **settings,
    )


def _finish(run: Run, path: str | None, for_parent: bool) -> None:
    if path:
        run.save(path)
    if for_parent:
        print(json.dumps({ENDED: run.outcome}), flush=True)
    else:
        print(f"\r{'':70}\r{summary(run).to_string()}\n{audit(run)}")


def _show(sample: Sample) -> None:
    rate = sample.answered / sample.elapsed_s if sample.elapsed_s else 0.0
    print(
        f"\r{sample.elapsed_s:6.1f} s  {sample.answered:12,.0f} answered  {rate:10,.1f} calls/s"
        f"  {sample.in_flight:8,.0f} in flight",
        end="",
        flush=True,
        file=sys.stderr,
    )


def _tell_parent(sample: Sample) -> None:
    print(json.dumps(sample), flush=True)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads of cancelled calls must not hold the process back
