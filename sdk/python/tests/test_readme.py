import re
import unittest
from pathlib import Path

from shelly_plugin import PluginError, effect
from shelly_plugin.testing import Host
from shelly_plugin.tool_middleware import Deny
from shelly_plugin.types import Message, Request, RunContext, ToolCall

README = Path(__file__).resolve().parent.parent / "README.md"


class ReadmeTest(unittest.TestCase):
    def setUp(self):
        self.blocks = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
        self.names = {"__name__": "readme"}

    def run_block(self, words):
        (block,) = (block for block in self.blocks if words in block)
        exec(compile(block, str(README), "exec"), self.names)

    def test_tool_refuses_wrong_arguments_as_the_page_says(self):
        self.run_block("def sum_dice")
        with Host() as host:
            self.assertEqual(host.call(self.names["sum_dice"], rolls=[6, 1])[0].value, {"sum": 7})
            with self.assertRaises(PluginError) as refused:
                host.call(self.names["sum_dice"], rolls=[1, 7], bonus="2")
        self.assertIn(refused.exception.message, README.read_text())

    def test_unit_test_of_the_page_passes(self):
        self.run_block("def issue_title")
        self.run_block("class TitleTest")
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(self.names["TitleTest"]).run(result)
        self.assertTrue(result.wasSuccessful() and result.testsRun == 1, result.failures + result.errors)

    def test_effect_middleware_and_provider_of_the_page_work(self):
        self.run_block("class Reminder")
        self.run_block("class NoDeletes")
        self.run_block("class Chat")
        with Host() as host:
            step = host.eval(self.names["Reminder"](), effect.EffectInput(iteration=10))
            self.assertEqual((step.edits, step.next_call), ([effect.Note("Come to an end.")], "never"))
            decision = self.names["NoDeletes"]().before(RunContext(), ToolCall("1", "delete_file"), None)
            self.assertIsInstance(decision, Deny)
            host.respond("POST", "https://api.example.com/chat", body="data: a\n\ndata: b\n\n")
            reply = self.names["Chat"]().complete("m", Request([Message.of("user", "Hello")]))
            self.assertEqual((reply.text, host.text), ("ab", "ab"))


if __name__ == "__main__":
    unittest.main()
