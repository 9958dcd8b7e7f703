"""The world `words` in Python."""

from wit_world import Counted, WitWorld as Words


class WitWorld(Words):
    def count_words(self, text: str) -> Counted:
        words = text.split()
        print(len(words), "words in Python")
        return Counted(words=len(words), longest=max(words, key=len, default=""))
