"""Both sides of a benchmark are compared, and timed in turns."""

import pytest

from benchmarks import comparison


class Side:
    """Makes training steps of given losses and a gradient norm of 2."""

    def __init__(self, *losses):
        self.losses = list(losses)

    def step(self):
        return self.losses.pop(0), 2.0


def test_the_largest_difference_of_three_steps_counts(capsys):
    found = comparison.compare({"ours": Side(4.0, 5.002, 8.0), "PyTorch": Side(4.0, 5.0, 8.0008)}, "stored, ")
    assert [str(bar) for bar in found] == [
        "FAIL  stored, loss, apart by millionths: 400.00 (at most 100)",
        "PASS  stored, gradient norm, apart by millionths: 0.00 (at most 100)",
    ]
    assert (
        capsys.readouterr().out.splitlines()[2].split()
        == "step 2 loss 5.002000 ours 5.000000 PyTorch".split()
    )


def test_loops_take_turns_and_the_first_round_does_not_count():
    called = []
    loops = {name: lambda name=name: called.append(name) for name in ("ours", "peer")}
    seconds = comparison.time_in_turns(loops, rounds=2)
    assert called == 3 * ["ours", "peer"]
    assert {name: len(taken) for name, taken in seconds.items()} == {"ours": 2, "peer": 2}
    assert min(seconds["ours"]) == pytest.approx(0, abs=0.1)
