"""The service of the capstone, and its judge: a process that keeps its settings to itself.

    cases      services drawn at random, as queueing networks; the changes on offer
    traffic    the calls of a run, the count of their answers, and a run without a clock
    sitting    what one learner measured, predicted and bought; the rules, the brief, the points
    __main__   the process: two servers in front of the stations, and the judge's own port

The process draws its case from the entropy of the operating system, and writes the case into the
record when the score is final, not before. Its command line, its environment and its replies say
nothing about it. What remains: the owner of a machine can read the memory of the process, or
change this package before the process starts. With `--practice N` the case follows from N, and the
record says so.
"""
