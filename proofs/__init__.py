"""What the course proves about itself: nothing lost, nothing left, no one in.

`python3 course.py prove NAME... [--short]` runs the provers. Each module of `NAMES` in `__main__`
has `prove(short)`, which yields one `Case` after the other, and figures.
"""
