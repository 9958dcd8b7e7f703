"""The part that needs no host: it is tested on your own machine."""


def answer(prefix, texts):
    return prefix + "".join(texts)
