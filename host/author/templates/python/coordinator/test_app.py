import unittest

from app import Rounds
from shelly_plugin.coordinator import Assignment, CoordinatorInput, Done, Member, Run
from shelly_plugin.testing import Host


class RoundsTest(unittest.TestCase):
    def test_each_member_works_once_a_round(self):
        members = [Member("a"), Member("b")]
        with Host(params={"rounds": 2}) as host:
            actions = [host.next(Rounds(), CoordinatorInput(members, step)).action for step in range(5)]
        chosen = [Run([Assignment(member)]) for member in ("a", "b", "a", "b")]
        self.assertEqual(actions, [*chosen, Done()])


if __name__ == "__main__":
    unittest.main()
