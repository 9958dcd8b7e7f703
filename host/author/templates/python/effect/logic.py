"""The part that needs no host: it is tested on your own machine."""


def reminder(iteration, turns):
    """Returns what the agent is told; None before it has taken so many turns."""
    if iteration < turns:
        return None
    return f"You have taken {iteration} turns. Come to an end, or say what is still missing."
