"""The part that needs no host: it is tested on your own machine."""


def question(tool, is_read_only, allowed):
    """Returns what a person is asked before a call; None if the call needs no question."""
    return None if is_read_only or tool in allowed else f"`{tool}` may change something"
