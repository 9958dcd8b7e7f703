"""A component with a world of its own, `wit/@{id}.wit`: each function that it exports is a tool."""

import wit_world
from wit_world import Counts

from logic import counts


class WitWorld(wit_world.WitWorld):
    def count(self, text: str) -> Counts:
        return Counts(**counts(text))
