"""Every study needs a network in made-up time to run its machines on."""

from doyen.sim.engine import Simulation
from doyen.sim.network import Network, NetworkConfig
from doyen.sim.streams import Streams
from doyen.sim.topology import Topology
from doyen.sim.trace import Trace


def simulation(
    seed: int, nodes: Topology | int, network: NetworkConfig, trace: Trace | None = None, *, wire: bool = False
) -> Simulation:
    """Return a simulation without nodes yet, of a given topology or of a number of nodes that are all linked."""
    streams = Streams(seed)
    topology = Topology(nodes, None) if isinstance(nodes, int) else nodes
    return Simulation(Network(network, topology, streams), streams, trace=trace, wire=wire)
