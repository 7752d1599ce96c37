"""Gossiped heartbeats.  Begin with `machine.py`."""

from doyen.membership.heartbeat.config import HeartbeatConfig as HeartbeatConfig
from doyen.membership.heartbeat.machine import Heartbeat as Heartbeat
from doyen.membership.heartbeat.messages import Beat as Beat
from doyen.membership.heartbeat.messages import Beats as Beats
from doyen.membership.heartbeat.messages import PeriodBegins as PeriodBegins
