"""Several load generators that make one run together: `load.run(..., fleet=Local(4))`.

cluster        Local and Cluster: where the generators run; Dask places and collects them
clock          the difference between the clocks of two processes, and its largest error
worker         what runs in each worker: its part of the run, behind a gate
driver         starts all parts at an agreed time, monitors them, and ends them in order
combined_run   their records combined into one run, with an account of each worker
parts          how a run is divided into parts
"""

from kvstore.client.fleet.cluster import Cluster, Fleet, Local, fleet_of

__all__ = ["Cluster", "Fleet", "Local", "fleet_of"]
