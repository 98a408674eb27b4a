"""The files of `my_code/` as a learner gets them: plain gRPC, the generated stubs, nothing of ours.

Each top-level function and class stands there in the course's version until the learner's own has
passed its check. `my_code` copies the folder, and writes into the copy.
"""
