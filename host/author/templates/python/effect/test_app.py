import unittest

from app import Reminder
from shelly_plugin.effect import EffectInput, Wake
from shelly_plugin.testing import Host


class ReminderTest(unittest.TestCase):
    def test_agent_is_reminded_once_the_turns_are_taken(self):
        with Host(params={"turns": 3}) as host:
            early = host.eval(Reminder(), EffectInput(iteration=2))
            self.assertEqual((early.edits, early.next_call), ([], Wake(iteration=3)))
            late = host.eval(Reminder(), EffectInput(iteration=3))
            self.assertIn("3 turns", late.edits[0].text)
            self.assertEqual(late.next_call, "never")


if __name__ == "__main__":
    unittest.main()
