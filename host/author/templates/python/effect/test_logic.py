import unittest

from logic import reminder


class ReminderTest(unittest.TestCase):
    def test_agent_is_reminded_once_the_turns_are_taken(self):
        self.assertIsNone(reminder(2, 3))
        self.assertIn("3 turns", reminder(3, 3))


if __name__ == "__main__":
    unittest.main()
