"""A class that votes: a server on the teacher's machine, a page for the projector, the students.

    codes      the code on the board: a certificate's fingerprint and a word
    store      the votes on the disk
    figures    a histogram of votes; throughput, residence time and concurrency of votes
    service    what students call, over TLS
    page       what the room sees, on the teacher's machine alone
    client     what a student's notebook sends, without ever waiting
    __main__   `course.py class open`

Nothing here knows the course: it is told which questions there are.
"""
