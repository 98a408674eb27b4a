"""A load test of any service: what to expect, how much it takes, and whether to believe it.

__main__     the command `rpcload`, or `python -m kvstore.load_test`
options      its flags, in groups, and the kinds of value that they take
session      one load test: first call, calibration, run or search, report
service      the service under test: address, channel, methods and requests
inputs       requests and metadata as JSON, from the command line or files
data         templates in requests and metadata, filled for each call
conditions   --fail-if on a run, and --check on each reply
first_call   whether the service answers, how long that takes, and whether a stream ends
levels       runs with more and more calls in flight: the ceiling, the knee and a prediction
bottleneck   what sets the ceiling, with the evidence for it
search       runs at other arrival rates, to find the highest one that meets an objective
findings     failures, limits that were reached, outages; the populations of the calls
estimates    figures with intervals, and the steady part of a closed loop
report       a run with its prediction and its verdict, as text, JSON and CSV
page         the same as one page of HTML
saved        saved runs: reported, compared, merged
"""
