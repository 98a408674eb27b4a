"""My key-value store, its clients and a bench. It needs nothing but grpcio and protobuf.

`python -m my_code.bench` starts the store, runs a client and prints calls/s.
"""
