"""An effect that reminds the agent to come to an end when it has taken many turns."""

from dataclasses import dataclass

from shelly_plugin import effect, export
from shelly_plugin.config import params
from shelly_plugin.effect import EffectInput, Note, Step, Wake


@dataclass
class Params:
    """The params in the config.

    Attributes:
        turns: The number of turns after which the agent is reminded.
    """

    turns: int = 10


class Reminder(effect.Effect):
    def eval(self, input: EffectInput, state: bytes) -> Step:
        turns = params(Params).turns
        if input.iteration < turns:
            # Until then the host does not start this plugin again.
            return Step(state, next_call=Wake(iteration=turns))
        note = f"You have taken {input.iteration} turns. Come to an end, or say what is still missing."
        return Step(state, [Note(note)], next_call="never")


Effect = export(Reminder)
