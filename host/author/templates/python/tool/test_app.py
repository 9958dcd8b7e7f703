import unittest

from app import count_text
from shelly_plugin import Json, PluginError


class CountTextTest(unittest.TestCase):
    def test_words_lines_and_characters_are_counted(self):
        self.assertEqual(count_text("to be\nor not"), {"words": 4, "lines": 2, "characters": 12})
        self.assertEqual(count_text("süß"), {"words": 1, "lines": 1, "characters": 3})

    def test_call_of_a_model_is_checked_and_answered_in_json(self):
        self.assertEqual(count_text.run('{"text": "a"}'), [Json('{"words": 1, "lines": 1, "characters": 1}')])
        for arguments in ['{"text": ""}', '{"text": 7}', '{"txt": "a"}']:
            with self.assertRaises(PluginError) as refused:
                count_text.run(arguments)
            self.assertEqual(refused.exception.kind, "invalid")


if __name__ == "__main__":
    unittest.main()
