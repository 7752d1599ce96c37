"""A run described: a group on a network, what happens to it, and what must hold.

schema    the tables and fields of a scenario file, as Structs
defaults  what a scenario leaves open and its stack answers
text      from a TOML file, to one line and back
nodes     the nodes and their ranks, on the one world
run       one run from a seed, and its figures
shrink    a failing scenario made smaller
"""

from doyen.sim.scenario.run import Result as Result
from doyen.sim.scenario.run import simulate as simulate
from doyen.sim.scenario.schema import Scenario as Scenario
from doyen.sim.scenario.text import from_line as from_line
from doyen.sim.scenario.text import read_file as read_file
from doyen.sim.scenario.text import replay_line as replay_line
from doyen.sim.scenario.text import to_line as to_line
