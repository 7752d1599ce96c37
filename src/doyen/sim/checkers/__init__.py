"""What must hold in every run, each watched by a small class that counts how often it really looked.

base        what a checker is
reigns      of any election: terms, reigns, and where it is promised never two who act
members     of any membership: the dead stay dead
settled     of any election: what the quiet time must come to
announce, churn_tolerant, pole, ring, spanning      of one protocol alone

A violation raises `InvariantViolated` out of the event that caused it; the run stops there.  A checker that does not
apply to a stack is left out; one that applies and never looked is reported.
"""

from typing import Final

from doyen.sim.checkers.announce import IncumbentsStay, InnerConsistency, LeadersExisted
from doyen.sim.checkers.base import Checker as Checker
from doyen.sim.checkers.base import Violation as Violation
from doyen.sim.checkers.churn_tolerant import (
    AnswersAreOfTheirAttempt,
    MessagesOfAnElection,
    OneFinalRecord,
    TheLowestIsNotPassedOver,
)
from doyen.sim.checkers.members import TheDeadStayDead
from doyen.sim.checkers.pole import PromisesHold, SelectionsAreSound
from doyen.sim.checkers.reigns import (
    LosersAreTold,
    NeverTwoAct,
    OneLeaderPerTerm,
    ReignsAlternate,
    TermsAreUnique,
    TermsNeverGoBack,
)
from doyen.sim.checkers.ring import (
    ComesToRest,
    Consistency,
    Detection,
    Joins,
    Lifespan,
    Majority,
    Mutual,
    Recent,
    Recovery,
    Symmetric,
    Upgrade,
)
from doyen.sim.checkers.settled import FailoverInTime, RegionsAgree, SteadyWhenQuiet
from doyen.sim.checkers.spanning import Stabilises

CHECKERS: Final[dict[str, type[Checker]]] = {
    kind.name: kind
    for kind in (
        TermsNeverGoBack,
        ReignsAlternate,
        TermsAreUnique,
        NeverTwoAct,
        OneLeaderPerTerm,
        LosersAreTold,
        TheDeadStayDead,
        LeadersExisted,
        InnerConsistency,
        IncumbentsStay,
        AnswersAreOfTheirAttempt,
        TheLowestIsNotPassedOver,
        OneFinalRecord,
        MessagesOfAnElection,
        PromisesHold,
        SelectionsAreSound,
        Upgrade,
        Detection,
        Symmetric,
        Mutual,
        Lifespan,
        Recent,
        Recovery,
        Consistency,
        Joins,
        Majority,
        ComesToRest,
        Stabilises,
        FailoverInTime,
        SteadyWhenQuiet,
        RegionsAgree,
    )
}
