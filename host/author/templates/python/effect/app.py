"""An effect that reminds the agent to come to an end when it has taken many turns."""

import json

from wit_world import exports
from wit_world.exports.effect import Action_Edits, Edit_Note, Step, Wake
from wit_world.imports import config

from logic import reminder


class Effect(exports.Effect):
    def eval(self, moment, state):
        # The params of the config.
        turns = json.loads(config.get()).get("turns", 10)
        note = reminder(moment.iteration, turns)
        if note is None:
            # Until then the host does not start this plugin again.
            return Step(state, Action_Edits([]), Wake(turns, None, None, None))
        # A wake without a condition: no further call in this run.
        return Step(state, Action_Edits([Edit_Note(note)]), Wake(None, None, None, None))
