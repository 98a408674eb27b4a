"""Benchmarks of throughput, CPU time and memory, printed with their conditions.

No test asserts a figure, because figures depend on the machine. `python3 course.py bench` runs the
main table, `python3 course.py bench all` every benchmark, and `python3 course.py bench published
--quick` one of them. Each module has one `measure(quick)` that yields the rows of its table.
"""
