"""A coordinator that lets the members of a team work one after the other, for some rounds."""

from dataclasses import dataclass

from shelly_plugin import coordinator, export
from shelly_plugin.config import params
from shelly_plugin.coordinator import Assignment, CoordinatorInput, Done, Run, Step


@dataclass
class Params:
    """The params in the config.

    Attributes:
        rounds: The number of times that each member works.
    """

    rounds: int = 1


class Rounds(coordinator.Coordinator):
    def next(self, input: CoordinatorInput, state: bytes) -> Step:
        members = input.members
        if not members or input.step // len(members) >= params(Params).rounds:
            # The answer of the team is the last reply in its chat.
            return Step(Done())
        return Step(Run([Assignment(members[input.step % len(members)].name)]), state)


Coordinator = export(Rounds)
