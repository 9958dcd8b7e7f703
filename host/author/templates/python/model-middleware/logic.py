"""The part that needs no host: it is tested on your own machine."""


def refusal(tokens, most):
    """Returns why a request is refused; None if it is not."""
    return f"the request has about {tokens} tokens, {most} are allowed" if tokens > most else None
