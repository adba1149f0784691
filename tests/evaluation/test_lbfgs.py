"""L-BFGS: where it ends, and how often it asks for the function."""

import torch

from vit_lightning.evaluation.lbfgs import minimise

START = torch.tensor([[3.0, -2.0], [1.0, 4.0]])


def counted(function):
    def asked(at):
        asked.times += 1
        at = at.detach().requires_grad_()
        value = function(at)
        (gradient,) = torch.autograd.grad(value, at)
        return float(value.detach()), gradient

    asked.times = 0
    return asked


def test_a_function_of_curvature_one_takes_one_step():
    goal = torch.tensor([[1.0, 2.0], [-3.0, 0.5]])
    function = counted(lambda at: (at - goal).square().sum() / 2 + 1)
    torch.testing.assert_close(minimise(function, START, steps=50, settled=1e-8), goal)
    assert function.times <= 4


def test_other_curvatures_are_learned():
    goal, curvature = torch.tensor([[1.0, 2.0], [-3.0, 0.5]]), torch.tensor([[0.05, 1.0], [2.0, 7.0]])
    function = counted(lambda at: (curvature * (at - goal).square()).sum() + 1)
    torch.testing.assert_close(minimise(function, START, steps=50, settled=1e-8), goal, atol=1e-3, rtol=0)
    assert function.times < 25


def test_steps_that_go_too_far_are_shortened():
    function = counted(lambda at: (1 + at.square()).sqrt().sum() + at.pow(4).sum())
    torch.testing.assert_close(minimise(function, START, 80, 1e-8), torch.zeros(2, 2), atol=1e-3, rtol=0)


def test_it_ends_at_a_least_point_and_after_so_many_steps():
    flat = counted(lambda at: at.square().sum() / 2)
    torch.testing.assert_close(minimise(flat, torch.zeros(3), 50, 1e-8), torch.zeros(3))
    assert flat.times == 1
    slow = counted(lambda at: at.pow(4).sum() / 1000)
    minimise(slow, START, steps=3, settled=1e-12)
    assert slow.times <= 5


def test_a_value_that_is_not_finite_shortens_the_step():
    function = counted(lambda at: -at.log().sum() + at.sum())
    start = torch.full((2,), 0.01)
    torch.testing.assert_close(minimise(function, start, 80, 1e-8), torch.ones(2), atol=1e-3, rtol=0)
