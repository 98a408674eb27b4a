"""Benchmarks of throughput and CPU time, printed with their conditions.

overhead     our client beside the bare loop of the same calls, and the measured channel's cost
ladder       the steps to a million operations/s, each predicted before its run: docs/ladder.md
performance  our clients beside ghz, Redis, a server in Go and bare loops: docs/performance.md

No test asserts a figure, because figures depend on the machine. Each of these modules has one
`measure(quick)` that yields the rows of its table. `harness` lets clients take turns and writes
tables, `bare` is the bare loop, and `others` are the programs of other projects.
"""
