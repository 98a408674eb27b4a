"""Several load generators that make one run together.

parts            each generator's part of the run, and the gate for a common start
generators       the generator processes of a run, monitored from outside
local_processes  run_in_process(): generators in processes of this machine
combined_run     their records combined into one run
"""
