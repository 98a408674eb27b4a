"""Experiments of one lesson each, where the code is too long for a cell.

failures           a client that miscounts (01), retries (08), a killed server (11)
published_benchmarks   published figures: audited (00), and repeated (01, 06)
lost_update        two writers of one key, at the client and inside the server (04)
context_switches   threads that only compute (04)
batch_ladder       from one operation in a message to as many as help (05)
rpc_pipeline       three clients of one connection, timed as `time` does (05)
pipelining         a window of entries to a follower; the order of replies on a stream (05)
plots              the figures of these experiments (05, 11)
greeter            a service that is not ours (13)
etcd_runs          puts, reads and a killed leader on an etcd cluster (11)
several_servers    one channel to several servers; the slowest of several; hedging (06, 09, 10)
"""
