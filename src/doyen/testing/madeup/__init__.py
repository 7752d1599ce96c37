"""A user's own program in made-up time: real nodes on an event loop per made-up machine, driven by the simulator.

world.py      starts and ends the processes; a `World` whose nodes are processes instead of bare stacks
process.py    one process: its loop, its tasks, and the premises of its nodes
loop.py       an asyncio event loop whose time is the simulator's
wires.py      datagrams and streams between made-up machines
refusal.py    clocks, threads, sockets and processes of the real world are refused, with the line that wanted them
doubles.py    what stands for locks, random numbers and C functions
swap.py       puts all that in the place of the real things while a run lasts, wherever they are kept
"""
