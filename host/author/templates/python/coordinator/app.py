"""A coordinator that lets the members of a team work one after the other, for some rounds."""

import json

from wit_world import exports
from wit_world.exports.coordinator import Action_Done, Action_Run, Assignment, Step
from wit_world.imports import config

from logic import chosen


class Coordinator(exports.Coordinator):
    def next(self, moment, state):
        # The params of the config.
        rounds = json.loads(config.get()).get("rounds", 1)
        member = chosen([member.name for member in moment.members], moment.step, rounds)
        if member is None:
            # The answer of the team is the last reply in its chat.
            return Step(b"", Action_Done(None))
        return Step(state, Action_Run([Assignment(member, None)]))
