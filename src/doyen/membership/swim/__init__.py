"""SWIM, split by concept: probing, suspicion, dissemination, anti-entropy, local health; `machine` joins them."""

from doyen.membership.swim.config import SwimConfig as SwimConfig
from doyen.membership.swim.dissemination import payload_max as payload_max
from doyen.membership.swim.machine import Swim as Swim
from doyen.membership.swim.messages import MemberSuspected as MemberSuspected
from doyen.membership.swim.roster import Acquaintances as Acquaintances
from doyen.membership.swim.roundtrip import RoundTripEstimated as RoundTripEstimated
