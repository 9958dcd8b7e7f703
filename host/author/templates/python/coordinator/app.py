"""A coordinator that lets the members of a team work one after the other, for some rounds."""

from dataclasses import dataclass

from shelly_plugin import coordinator, export
from shelly_plugin.config import params
from shelly_plugin.coordinator import Assignment, Done, Moment, Run, Step


@dataclass
class Params:
    """The params in the config.

    Attributes:
        rounds: The number of times that each member works.
    """

    rounds: int = 1


class Rounds(coordinator.Coordinator):
    def next(self, moment: Moment, state: bytes) -> Step:
        members = moment.members
        if not members or moment.step // len(members) >= params(Params).rounds:
            # The answer of the team is the last reply in its chat.
            return Step(Done())
        return Step(Run([Assignment(members[moment.step % len(members)].name)]), state)


Coordinator = export(Rounds)
