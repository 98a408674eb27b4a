"""One load test as the flags ask for it: first call, calibration, run or search, report."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, Final

from kvstore.client import load, pacing, strategies
from kvstore.client.channel import Target
from kvstore.client.errors import RunFailed, RunInterrupted, printable
from kvstore.client.fleet import Fleet, fleet_of
from kvstore.client.plan import Plan, RunOptions
from kvstore.client.strategies import Strategy
from kvstore.client.workload import MethodCalls
from kvstore.load_test.conditions import Condition, condition_of
from kvstore.load_test.first_call import (
    QUIET_S,
    FirstCall,
    Progress,
    at_times,
    first_call,
    with_an_end,
)
from kvstore.load_test.inputs import metadata_of
from kvstore.load_test.levels import calibrate
from kvstore.load_test.options import BY_NAME, Flags
from kvstore.load_test.report import Report, calibration_text
from kvstore.load_test.saved import FORMS
from kvstore.load_test.search import Objective, search
from kvstore.load_test.service import calls_of, descriptions_of, service_config_of, target_of
from kvstore.measure import Finding, Run
from kvstore.measure.recorder import Sample
from kvstore.measure.run import Outcome
from kvstore.numbers import count
from kvstore.subprocesses import INTERRUPTED

COMPLETE, MISSED, BAD_INPUT, COULD_NOT_RUN = 0, 1, 2, 3
"""Exit statuses besides 130 (Ctrl-C)."""

OPEN_LOOP_IN_FLIGHT: Final = 1000
"""Limit in flight of an open loop, unless another one is given: high, because arrivals do not wait
for replies."""
SECONDS: Final = 10.0
"""Duration of a run, unless another end is given."""
DRAIN_S, DRAIN_CALLS = 1.0, 3.0
"""Calls that are open when the time is over may still take a second, and 3 times as long as a first
call, before they are cut off."""

OWN_DESCRIPTORS: Final = 64
"""File descriptors of a load generator besides its connections, about."""


@dataclass(frozen=True)
class LoadTest:
    """A load test, checked, before its first call."""

    flags: Flags
    target: Target
    calls: MethodCalls
    options: RunOptions
    strategy: Strategy
    objective: Objective | None
    """What a search has to meet; None for a run."""
    fail_if: tuple[Condition, ...]

    @property
    def title(self) -> str:
        """What is loaded."""
        names = ", ".join(each.method for each in (self.calls, *self.calls.others))
        return f"{names} at {self.flags.address}"


def load_test(flags: Flags) -> int:
    """Make the load test that the flags describe, print its report, return the exit status.

    Raises `ValueError`, `OSError` or `RuntimeError` with a clear message when it cannot begin.
    """
    fail_if = tuple(condition_of(each) for each in flags.fail_if)
    target = target_of(flags)
    metadata = metadata_of(flags.metadata)
    described = descriptions_of(flags, target, metadata)
    if not flags.method:
        print(printable("\n".join(described.methods())))
        print("error: give one of these methods after the address", file=sys.stderr)
        return BAD_INPUT
    calls = calls_of(flags, described, metadata)
    for note in described.notes:
        print(f"note: {printable(note)}", file=sys.stderr)
    searching = flags.find_rate or flags.p99 is not None
    if searching and flags.p99 is None:
        raise ValueError("a search needs an objective: give --p99, such as --p99 50ms")
    if flags.rates and searching:
        raise ValueError("a search chooses its rates itself: leave --steps out")
    if flags.check and flags.workers is not None:
        raise ValueError("--check counts the replies of one process: leave --workers out")
    open_loop = searching or flags.rate_per_s is not None or flags.rates is not None
    strategy = _strategy(flags, calls, open_loop)
    options = _options(flags, open_loop, target)
    _check_descriptors(options)
    Plan.of(strategy, target, calls, options)  # refuse what makes no sense before any call
    objective = None if flags.p99 is None else Objective(latency_s=flags.p99, errors=flags.errors)
    test = LoadTest(flags, target, calls, options, strategy, objective, fail_if)
    try:
        return _run_test(test)
    except RunInterrupted:  # in a warm-up or a calibration: its run is not the one asked for
        raise KeyboardInterrupt from None


def _run_test(test: LoadTest) -> int:
    flags = test.flags
    with _progress(flags) as say:
        firsts = [
            first_call(test.target, each, test.options, say)
            for each in (test.calls, *test.calls.others)
        ]
        slowest = max(firsts, key=lambda each: each.took_s)
        test = replace(
            test, calls=_ending(test.calls, firsts), options=_bounded(test.options, slowest)
        )
        fleet = fleet_of(flags.workers)
        with fleet or nullcontext():  # one start of the workers for all runs
            if flags.warm_up is not None:
                _warm_up(test, fleet, say)
            report = Report()
            whole = all(each.ends for each in firsts)
            if test.objective is not None and not whole:
                raise ValueError(
                    "a stream that is cut after a time has no ceiling, so no rate can be searched:"
                    " cut it with --stream-messages"
                )
            if not whole and not flags.no_calibration:
                say("no calibration: the time of a stream that is cut says nothing of the service")
            if whole and (test.objective is not None or not flags.no_calibration):
                report = _calibrated(test, firsts[0], fleet, say)
            if test.objective is not None:
                return _search(test, report, fleet, say)
            return _run(test, report, fleet, say)


def _ending(calls: MethodCalls, firsts: list[FirstCall]) -> MethodCalls:
    """Return the calls with an end for the streams that have none of their own."""
    others = zip(calls.others, firsts[1:], strict=True)
    return replace(
        with_an_end(calls, firsts[0]), others=tuple(with_an_end(*each) for each in others)
    )


def _bounded(options: RunOptions, first: FirstCall) -> RunOptions:
    if options.duration_s is None and not options.rates:
        return options
    drain_s = min(options.deadline_s, max(DRAIN_S, DRAIN_CALLS * first.took_s))
    return replace(options, drain_s=drain_s)


def _options(flags: Flags, open_loop: bool, target: Target) -> RunOptions:
    names = (
        "in_flight",
        "connections",
        "duration_s",
        "calls",
        "rate_per_s",
        "rates",
        "seed",
        "deadline_s",
    )
    named = {name: value for name in names if (value := getattr(flags, name)) is not None}
    if not {"duration_s", "calls", "rates"} & {*named}:
        named["duration_s"] = SECONDS
    most = named.setdefault("in_flight", OPEN_LOOP_IN_FLIGHT if open_loop else 1)
    if flags.join_over is not None:
        ramp = pacing.climb(0, most, steps=most, over_s=flags.join_over)
        named["joins"] = tuple(pacing.joins(ramp))
    return RunOptions(
        arrivals="even" if flags.arrivals == "even" else "random",
        keep_going=flags.keep_going,
        service_config=service_config_of(flags.service_config, target.address),
        **named,
    )


def _check_descriptors(options: RunOptions) -> None:
    """Raise `ValueError` where the system permits fewer open connections than the run needs."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if options.connections + OWN_DESCRIPTORS > most:
        raise ValueError(
            f"{options.connections:,} connections need as many file descriptors, and this process"
            f" may have {most:,}: raise the limit with `ulimit -n`, or give fewer --connections"
        )


def _strategy(flags: Flags, calls: MethodCalls, open_loop: bool) -> Strategy:
    """Return the strategy of this name, or the default.

    `tasks` costs the generator least. In an open loop `bounded` keeps the due times better.
    """
    if flags.strategy is not None:
        return BY_NAME[flags.strategy]
    unary = all(each.shape == "unary_unary" for each in (calls, *calls.others))
    return strategies.bounded if open_loop and unary else strategies.tasks


def _warm_up(test: LoadTest, fleet: Fleet | None, say: Progress) -> None:
    say("warm-up")
    options = replace(test.options, duration_s=test.flags.warm_up, calls=None, rates=(), joins=())
    load.run(test.strategy, test.target, test.calls, options, fleet=fleet)


def _calibrated(test: LoadTest, first: FirstCall, fleet: Fleet | None, say: Progress) -> Report:
    calibration = calibrate(
        test.strategy,
        test.target,
        test.calls,
        test.options,
        fleet=fleet,
        errors=test.flags.errors,
        first=first,
        progress=say,
    )
    prediction = None
    if test.objective is None:
        rate = test.options.rate_per_s
        if test.options.rates:
            rate = max(each for each, _ in test.options.rates)
        if rate is None:
            prediction = calibration.closed_loop(test.options.in_flight)
        else:
            prediction = calibration.open_loop(rate)
    if test.flags.output == "table":
        print(calibration_text(calibration, prediction), end="\n\n", flush=True)
    return Report(calibration=calibration, prediction=prediction)


def _run(test: LoadTest, report: Report, fleet: Fleet | None, say: Progress) -> int:
    flags = test.flags
    problem = ""
    every_s = 0.1 if sys.stderr.isatty() else QUIET_S
    try:
        run = load.run(
            test.strategy,
            test.target,
            test.calls,
            test.options,
            fleet=fleet,
            on_sample=at_times(say, _shown, every_s),
        )
    except RunInterrupted as ended:
        run, problem = ended.run, "interrupted: this is the run until then"
    except RunFailed as ended:
        run, problem = ended.run, str(ended)
    if run.outcome is Outcome.SERVER_UNRESPONSIVE:
        problem = run.ended_by
    elif not run.issued and not problem:
        problem = "no call was sent in the time of the run: give it more, or a higher rate"
    if flags.save:
        run.save(flags.save)
    missed = _missed(test, run)
    report = report._replace(run=run, more=tuple(missed))
    _print(test, report)
    if problem:
        say("")
        print(f"error: {problem}", file=sys.stderr)
    return status_of(run) or (MISSED if missed else COMPLETE)


def status_of(run: Run) -> int:
    """Return the exit status of a run by itself: it is complete only if calls ended OK."""
    if run.outcome is Outcome.INTERRUPTED:
        return INTERRUPTED
    if run.outcome in (Outcome.COMPLETE, Outcome.MEMORY_CEILING) and run.outcomes().get("OK"):
        return COMPLETE
    return MISSED


def _missed(test: LoadTest, run: Run) -> list[Finding]:
    """Return the conditions that fail a run, and the replies that were wrong."""
    failed = [Finding("fail-if", text) for each in test.fail_if if (text := each.holds(run))]
    return failed + _wrong_replies(test)


def _wrong_replies(test: LoadTest) -> list[Finding]:
    wrong = []
    for calls in (test.calls, *test.calls.others):
        check: Any = calls.check_reply
        if check is not None and check.wrong:
            replies = count(check.wrong, "reply", "replies")
            wrong.append(Finding("check", f"{replies} failed it; the first: {check.first_wrong}"))
    return wrong


def _search(test: LoadTest, report: Report, fleet: Fleet | None, say: Progress) -> int:
    assert test.objective is not None
    assert report.calibration is not None
    named = {"step_s": test.flags.step, "search_s": test.flags.search_time}
    settings = {name: value for name, value in named.items() if value is not None}
    result = search(
        test.strategy,
        test.target,
        test.calls,
        test.objective,
        report.calibration,
        test.options,
        fleet=fleet,
        progress=say,
        **settings,
    )
    wrong = _wrong_replies(test)
    _print(test, report._replace(search=result, more=tuple(wrong)))
    if result.limit == "interrupted":
        return INTERRUPTED
    return COMPLETE if result.rate_per_s and not wrong else MISSED


def _print(test: LoadTest, report: Report) -> None:
    print(FORMS[test.flags.output](report, test.title), flush=True)


@contextmanager
def _progress(flags: Flags) -> Iterator[Progress]:
    """Yield what shows a line of progress on standard error.

    On a terminal each line takes the place of the one before.
    """
    if flags.quiet:
        yield lambda text: None
        return
    if not sys.stderr.isatty():
        yield lambda text: print(text, file=sys.stderr, flush=True) if text else None
        return
    clear = f"\r{'':79}\r"

    def say(text: str) -> None:
        print(f"{clear}{text[:78]}", end="", file=sys.stderr, flush=True)

    try:
        yield say
    finally:
        print(clear, end="", file=sys.stderr, flush=True)


def _shown(sample: Sample) -> str:
    rate = sample.answered / sample.elapsed_s if sample.elapsed_s else 0.0
    return (
        f"run: {sample.elapsed_s:.1f} s, {sample.answered:,.0f} answered, {rate:,.0f} calls/s,"
        f" {sample.in_flight:,.0f} in flight"
    )
