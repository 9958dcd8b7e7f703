import unittest

from app import NoEmptyAnswer
from shelly_plugin import Message
from shelly_plugin.run_middleware import Accept, Outcome, Retry
from shelly_plugin.testing import Host
from shelly_plugin.types import RunContext


class NoEmptyAnswerTest(unittest.TestCase):
    def after(self, text, attempt=0, **meta):
        reply = Message("assistant", [text], meta=meta)
        return NoEmptyAnswer().after(RunContext(), Outcome(reply, attempt=attempt), b"")

    def test_empty_answer_is_asked_for_once_more(self):
        with Host(params={"feedback": "Answer."}):
            self.assertEqual(self.after("yes"), Accept())
            self.assertEqual(self.after(" \n"), Retry("Answer."))
            self.assertEqual(self.after(" ", attempt=1), Accept())
            self.assertEqual(self.after("", **{"shelly.ending": "handed-over"}), Accept())


if __name__ == "__main__":
    unittest.main()
