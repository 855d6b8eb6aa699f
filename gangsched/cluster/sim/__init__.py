"""A cluster in memory on a virtual clock: what ``simulate``, ``demo`` and the fault tests run the scheduler against.

:class:`~gangsched.cluster.sim.world.World` is the cluster (objects, kubelet, controllers, API server);
:class:`~gangsched.cluster.sim.world.SimCluster` is one scheduler process' connection to it.
"""

from gangsched.cluster.sim.world import SimCluster, Timing, World

__all__ = ["SimCluster", "Timing", "World"]
