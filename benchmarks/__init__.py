"""Speed and memory, measured side by side and printed with their conditions.

Nothing in here is asserted by a test: a figure depends on the machine and the hour.
`python3 course.py bench` runs all of it; `python3 course.py bench published --quick` one.
Each module has one `measure(quick)` that yields rows of text for its table.
"""
