"""The recurrences of [LE §5.3.3.3] as they are printed: how many messages under uncorrelated loss, without delay.

Processes are ordered by address, the largest first; T_S = 1 and wake-ups are uniform, so that P(t) = t.

Deviation: none; they are evaluated to show what they give.  They do not give the number of messages: senders are those
  that woke early, while Q draws the next process against wake-ups that are uniform anew; later rounds are multiplied by
  S, the chance that the last process gets there, whoever sends; and a message of round r is counted r times.
Ambiguity [LE §5.3.3.3]: in the form of later rounds an exponent is printed as i−q, a parenthesis encloses less than
  in the first round's; both are read as in the first round's.
"""

Distribution = list[list[float]]  # By n and i: the probability that n processes send i messages.


def kept(count: int, loss: float) -> float:
    """∫ (l + (1−l)(1−t))^j dt over [0, 1]: the chance that none of j messages suppresses a process."""
    return float((1 - loss ** (count + 1)) / ((1 - loss) * (count + 1)))


def first_round(nodes: int, loss: float) -> Distribution:
    """Return Q(i, n) for all i ≤ n ≤ nodes.  [LE §5.3.3.3]"""
    found: Distribution = [[1.0], [0.0, 1.0]]
    for n in range(2, nodes + 1):
        found.append(_next(found[n - 1], n, loss))
    return found


def rounds(nodes: int, loss: float, count: int) -> list[Distribution]:
    """Return Q(i, n, r) for all i ≤ n ≤ nodes and r = 1 … count; Q(i, i, r) as printed, from the second round on."""
    found = [first_round(nodes, loss)]
    for r in range(2, count + 1):
        now: Distribution = [[1.0], [0.0, 1.0]]
        for n in range(2, nodes + 1):
            share = survives(found, n, r - 1, loss)
            made = [share * value for value in _next(found[-1][n - 1], n, loss)]
            made[n] = loss ** (r * n * (n - 1) / 2)
            now.append(made)
        found.append(now)
    return found


def survives(found: list[Distribution], nodes: int, upto: int, loss: float) -> float:
    """Return S(n, r), r = `upto`: the chance that the last of n processes reaches round r."""
    product = 1.0
    for before in found[: upto - 1]:
        product *= sum(value * loss**i for i, value in enumerate(before[nodes - 1]) if i)
    return product


def mean_count(found: Distribution, nodes: int) -> float:
    """Return Σ i·Q(i, n)."""
    return sum(i * value for i, value in enumerate(found[nodes]))


def printed_terms(found: list[Distribution], nodes: int) -> list[float]:
    """Return Σ_{1 ≤ i < N} i·r·Q(i, N, r) for each r: the terms of the printed number of messages."""
    return [sum(i * r * value for i, value in enumerate(one[nodes][:nodes])) for r, one in enumerate(found, 1)]


def _next(before: list[float], nodes: int, loss: float) -> list[float]:
    """Return Q(·, n) from Q(·, n−1); Q(0, n) = 0, as the leader always sends."""
    found = [0.0] * (nodes + 1)
    for i in range(1, nodes + 1):
        sent = before[i - 1] * kept(i - 1, loss)
        silent = before[i] * (1 - kept(i, loss)) if i < nodes else 0.0
        found[i] = sent + silent
    return found
