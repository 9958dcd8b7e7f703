"""The part that needs no host: it is tested on your own machine."""


def counts(text):
    return {"words": len(text.split()), "lines": len(text.splitlines()), "characters": len(text)}
