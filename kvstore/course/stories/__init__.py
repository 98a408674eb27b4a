"""The published stories that a lesson plays again, each in a module that can be read.

java_client      the blocking client that does not count its creates (lesson 01)
lost_update      two clients that count together: the gap between two calls (lesson 04)
server_race      two calls for one key: the gap inside the server (lesson 04)
handovers        threads that only compute, and hand the interpreter around (lesson 04)
climb            from one operation in a message to the most there is (lesson 05)
rpc_pipeline     three clients of one connection, timed as `time` does (lesson 05)
reply_order      replies as they finish, against a protocol that answers in order (lesson 05)
link             a stream as two verbs, send and receive, for code of your own (lesson 05)
replicated_log   a leader that copies its log to a follower, pipelined (lesson 05)
shared_connections   ten channels that are one connection (lesson 06)
lost_answer      the work was done, the caller does not know (lesson 08)
own_retries      gRPC asks again by itself (lesson 08)
crash            a server that is killed at work, and what it still knows (lesson 09)
contract         the messages on the wire, from the proto file
counted          says which run of several is under way
pictures         the figures of these stories
"""
