"""The setting of an announce-listen experiment: shared by closed forms, machine runs and kernels.  [LE §5.3]"""

from math import inf
from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from doyen.core.config import Amount, Config, Doc, Probability, Scale

Variant = Literal["le-a", "le-s", "le-m", "sup", "al", "sup-al-receipt", "sup-al-redraw", "sup-al-spread"]
LossModel = Literal["none", "correlated", "uncorrelated", "load"]
Timer = Literal["uniform", "exponential"]
Event = Literal["start", "leader-departs", "false-departure", "joiner-better", "joiner-worse"]

Nodes: TypeAlias = Annotated[int, Meta(ge=1, le=1_000_000)]
Endless: TypeAlias = Annotated[float, Meta(gt=0)]  # Infinity included.


class Setting(Config, frozen=True, kw_only=True):
    """One cell of Chapter 5: a variant, a group, a network and what happens to it.  Times are seconds."""

    variant: Variant = "le-s"
    nodes: Annotated[Nodes, Doc("N. Incumbents, where a joiner comes; the leader included, where it leaves.")] = 10
    loss: Annotated[Probability, Doc("l, the chance that one announcement (or one delivery of it) is lost.")] = 0.0
    loss_model: LossModel = "uncorrelated"
    timer: Annotated[Timer, Doc("Distribution of the wake-up time in [0, suppress_s).")] = "uniform"
    announce_s: Annotated[Scale, Doc("T_A.")] = 1.0
    listen_s: Annotated[Endless, Doc("T_L.")] = inf
    suppress_s: Annotated[Amount, Doc("T_S; counts as 0 for le-a and al.")] = 1.0
    delay_s: Annotated[Amount, Doc("Δ, the same for every delivery.")] = 0.1
    event: Event = "start"
    load_capacity: Annotated[Endless, Doc("Load model: messages that together add one more chance `loss`.")] = 2000.0
    load_window_s: Annotated[Amount, Doc("Load model: messages sent within this time arrive together.")] = 0.1

    @property
    def loss_prob(self) -> float:
        """Return the loss that counts: nothing is lost under the model `none`."""
        return 0.0 if self.loss_model == "none" else self.loss

    @property
    def suppress_interval_s(self) -> float:
        """Return T_S as the variant uses it: [LE §5.3] LE-A is LE-S with T_S = 0."""
        return 0.0 if self.variant in ("le-a", "al") else self.suppress_s

    def command(self, *always: str) -> str:
        """Return the command that simulates this setting: a flag per field that is not at its default."""
        words = ["doyen sim announce"]
        for field, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            given = getattr(self, field)
            if given != default or field in ("variant", "nodes", *always):
                unit = "s" if field.endswith("_s") and given != inf else ""
                words.append(f"--{field.removesuffix('_s').replace('_', '-')} {given}{unit}")
        return " ".join(words)
