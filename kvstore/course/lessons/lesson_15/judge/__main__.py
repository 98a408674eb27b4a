"""`python -m kvstore.course.lessons.lesson_15.judge`: serve one case until the parent ends.

The first line it prints is the address of the judge's own port. There, one method takes a JSON
object with `ask` and returns a JSON object: see `_Judge`. A run has two servers of its own, with
new ports, so no call can be made outside a run.
"""

import argparse
import asyncio
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc

from kvstore.course.lessons.lesson_15.judge.cases import SERVERS, Network
from kvstore.course.lessons.lesson_15.judge.sitting import Refused, Sitting, drawn
from kvstore.course.lessons.lesson_15.judge.traffic import Plan, Result, Tally
from kvstore.protocol import CREATE, RETRIEVE, UPDATE
from kvstore.subprocesses import listen
from kvstore.v1 import kvstore_pb2 as pb
from kvstore.v1 import kvstore_pb2_grpc

METHOD = "/kvstore.Judge/Ask"
LATE_S, RETRIES_S = 1.0, 20.0
"""Seconds after the end of sending in which a first attempt is served; and a repeated one, in the
run of the result, which may have a fault. Elsewhere repeated calls would be measurements."""
STALL_OPEN, STALL_CLOSED = 0.35, 0.2
"""Share of a run for which a server stalls, in an open and in a closed loop."""
GOES_S = 0.02
"""Seconds in which a server that goes may still answer."""
OPTIONS = (("grpc.so_reuseport", 0),)

Context = Any


class _Run:
    """Two servers in front of the stations, while one run lasts."""

    def __init__(
        self,
        network: Network,
        plan: Plan,
        fault: str | None,
        fault_s: float | None,
        retries_s: float,
    ) -> None:
        self.tally = Tally(plan)
        self._network = network
        self._plan = plan
        self._fault, self._fault_s = fault, fault_s
        self._retries_s = retries_s
        self._stalled_until_s = 0.0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._fault_timer: asyncio.TimerHandle | None = None
        self._servers: list[grpc.aio.Server] = []
        self._going: asyncio.Task[None] | None = None
        self._seen: set[int] = set()

    async def open(self) -> list[str]:
        """Start the servers; return their addresses."""
        addresses = []
        for number in range(SERVERS):
            server = grpc.aio.server(options=OPTIONS)
            kvstore_pb2_grpc.add_KeyValueServiceServicer_to_server(_Front(self, number), server)
            addresses.append(f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}")
            await server.start()
            self._servers.append(server)
        return addresses

    async def close(self) -> Result:
        """Stop the servers; return the result."""
        for timer in (self._timer, self._fault_timer):
            if timer is not None:
                timer.cancel()
        if self._going is not None:
            await self._going
        for server in self._servers:
            await server.stop(0)
        return self.tally.result(self._network.processor_s, self._fault_s)

    async def answer(self, server: int, kind: int, key: bytes, context: Context) -> None:
        """Let one call go through the stations; return when it has finished."""
        now_s = self._loop.time()
        serial = await self._serial(kind, key, now_s, context)
        if not self._seen and self._fault_s is not None:
            self._fault_timer = self._loop.call_at(now_s + self._fault_s, self._break)
        if self.tally.answered(serial):
            return  # again, because its answer was lost: it is not served twice
        self._seen.add(serial)
        self.tally.arrived(serial, now_s)
        finished_s: float | None = None
        try:
            if server == 0 and now_s < self._stalled_until_s:
                await asyncio.sleep(self._stalled_until_s - now_s)
            done: asyncio.Future[float] = self._loop.create_future()
            call = self._plan.call(serial, context.peer())
            self._network.arrive(call, self._loop.time(), lambda at_s: _set(done, at_s))
            self._advance()
            at_s = await done
            if server == 0 and self._loop.time() < self._stalled_until_s:
                at_s = self._stalled_until_s
                await asyncio.sleep(at_s - self._loop.time())
            finished_s = at_s
        finally:  # also when the client has given the call up
            self.tally.ended(serial, finished_s)

    async def _serial(self, kind: int, key: bytes, now_s: float, context: Context) -> int:
        """Return the serial number in the key of a call that this run has planned."""
        item, _, number = key.partition(b"/")
        serial = int(number) if number.isdigit() else -1
        plan = self._plan
        known = 0 <= serial < len(plan.kinds) and kind == plan.kinds[serial]
        if not known or item != b"item-%d" % plan.items[serial]:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "send the operations as given")
        late_s = self._retries_s if serial in self._seen else LATE_S
        if self._seen and now_s - self.tally.began_s > plan.duration_s + late_s:
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "the run is over")
        return serial

    def _break(self) -> None:
        if self._fault == "stall":
            share = STALL_CLOSED if self._plan.due_s is None else STALL_OPEN
            self._stalled_until_s = self._loop.time() + share * self._plan.duration_s
        else:
            self._going = self._loop.create_task(self._servers[0].stop(GOES_S))

    def _advance(self) -> None:
        """Let happen what is due, and set a timer for what is next."""
        self._network.advance(self._loop.time())
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._network.next_s < float("inf"):
            self._timer = self._loop.call_at(self._network.next_s, self._advance)


def _set(done: "asyncio.Future[float]", at_s: float) -> None:
    if not done.done():  # else the client has given the call up
        done.set_result(at_s)


class _Front(kvstore_pb2_grpc.KeyValueServiceServicer):
    """One of the two servers: the methods that the traffic uses."""

    def __init__(self, run: _Run, number: int) -> None:
        self._run = run
        self._number = number
        self._value = bytes(run.tally.plan.value_bytes)

    async def Create(self, request: pb.CreateRequest, context: Context) -> pb.CreateResponse:
        """Store a value under a new key."""
        await self._run.answer(self._number, CREATE, request.key, context)
        return pb.CreateResponse()

    async def Retrieve(self, request: pb.RetrieveRequest, context: Context) -> pb.RetrieveResponse:
        """Return the value of a key."""
        await self._run.answer(self._number, RETRIEVE, request.key, context)
        return pb.RetrieveResponse(value=self._value)

    async def Update(self, request: pb.UpdateRequest, context: Context) -> pb.UpdateResponse:
        """Replace the value of a key."""
        await self._run.answer(self._number, UPDATE, request.key, context)
        return pb.UpdateResponse()


class _Judge:
    """Answers the learner's kernel: one JSON object for each request."""

    def __init__(self, sitting: Sitting, folder: Path) -> None:
        self._sitting = sitting
        self._file = folder / f"{sitting.record['learner']}-{sitting.record['id']}.json"
        self._run: _Run | None = None
        self._one = asyncio.Lock()

    async def ask(self, raw: bytes, context: Context) -> bytes:
        """Do what is requested; a refusal is a reply with `refused` and its reason."""
        async with self._one:
            try:
                reply = await self._reply(json.loads(raw))
            except Refused as refused:
                reply = {"refused": str(refused)}
            except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
                reply = {"refused": f"the judge did not understand the request: {error}"}
            except RecursionError:
                reply = {"refused": "the request is nested too deeply"}
            try:
                self._keep()
            except OSError as error:  # such as a full disk; the next request writes it all
                reply = {**reply, "unsaved": f"the record could not be written: {error}"}
        return json.dumps(reply).encode()

    async def _reply(self, request: dict[str, Any]) -> dict[str, Any]:
        sitting, ask = self._sitting, request.pop("ask", None)
        if ask == "brief":
            return sitting.brief()
        if ask == "begin":
            return await self._begin(request["what"], request["options"])
        if ask == "end":
            return await self._end(bool(request["broken_off"]))
        if ask in ("name", "predict", "buy"):
            getattr(sitting, ask)(**request)
        elif ask != "record":
            raise Refused(f"the judge does not know {ask!r}")
        return {"record": sitting.record}

    async def _begin(self, what: str, options: dict[str, Any]) -> dict[str, Any]:
        await self.close()
        network, plan, fault_s = self._sitting.begin(what, options)
        retries_s = RETRIES_S if what == "result" else LATE_S
        self._run = _Run(network, plan, self._sitting.fault, fault_s, retries_s)
        return {
            "addresses": await self._run.open(),
            "kinds": plan.kinds,
            "items": plan.items,
            "due_s": plan.due_s,
            "duration_s": plan.duration_s,
            "value_bytes": plan.value_bytes,
        }

    async def _end(self, broken_off: bool) -> dict[str, Any]:
        result = await self.close()
        if result is None:
            raise Refused("no run was begun")
        if broken_off:
            self._sitting.abort()
            return {"record": self._sitting.record}
        return {"result": self._sitting.end(result), "record": self._sitting.record}

    async def close(self) -> Result | None:
        """End the run that was begun, if any; return its result."""
        run, self._run = self._run, None
        return None if run is None else await run.close()

    def _keep(self) -> None:
        """Write the record so that its file is always whole."""
        unfinished = self._file.with_suffix(".new")
        try:
            unfinished.write_text(json.dumps(self._sitting.record, indent=1), encoding="utf-8")
            os.replace(unfinished, self._file)
        except OSError:
            unfinished.unlink(missing_ok=True)
            raise


async def _serve(judge: _Judge) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = grpc.aio.server(options=OPTIONS)
    handler = grpc.unary_unary_rpc_method_handler(judge.ask)
    service, method = METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler(service, {method: handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(f"127.0.0.1:{port}", flush=True)
    listen(lambda: loop.call_soon_threadsafe(stop.set))
    await stop.wait()
    await judge.close()
    await server.stop(0)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit status."""
    parse = argparse.ArgumentParser(
        prog="python -m kvstore.course.lessons.lesson_15.judge", description=__doc__
    )
    parse.add_argument("--folder", type=Path, required=True, help="where the record is written")
    parse.add_argument("--learner", default="learner", help="the name in the record")
    parse.add_argument("--practice", type=int, help="a case that follows from this number")
    parse.add_argument("--loop", choices=("open", "closed"), help="how calls arrive in the runs")
    parse.add_argument("--fast", action="store_true", help="half as long runs, for tests")
    options = parse.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    loop = None if options.loop is None else options.loop == "open"
    sitting = drawn(options.practice, loop, learner=options.learner, fast=options.fast)
    asyncio.run(_serve(_Judge(sitting, options.folder)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
