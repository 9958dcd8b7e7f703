def total(prices, discount):
    """Adds up prices in cents, less a discount in percent."""
    return sum(prices) * (1 - discount)


def receipt(items, discount=0):
    lines = [f"{name:<12}{price / 100:>8.2f}" for name, price in items]
    lines.append(f"{'total':<12}{total([price for _, price in items], discount) / 100:>8.2f}")
    return "\n".join(lines)
