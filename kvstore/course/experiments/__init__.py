"""Experiments that more than one lesson makes; those of one lesson lie in its room.

failures                a retry after a deadline (09), a killed server (11); the answer to one call
"""
