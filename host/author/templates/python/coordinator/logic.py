"""The part that needs no host: it is tested on your own machine."""


def chosen(members, step, rounds):
    """Returns the member that works in this step; None if all rounds are over."""
    if not members or step // len(members) >= rounds:
        return None
    return members[step % len(members)]
