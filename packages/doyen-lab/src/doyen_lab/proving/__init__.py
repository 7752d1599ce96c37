"""The proving ground: real processes under real faults, and a judge of what they did.

scenarios   what is done to a group, by name
ground      the group: processes in namespaces on the switch, what was done to them, who could reach whom
witness     the application in each process: leads by the public API and writes down every act
history     what the witnesses wrote
judge       whether that is what the combination promises
combination an election, its timers, its promise
"""
