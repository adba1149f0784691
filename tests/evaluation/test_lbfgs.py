"""L-BFGS: where it ends, and how often it asks for the function."""

from collections import deque

import torch

from vit_lightning.evaluation.lbfgs import _newton, _Pair, minimise

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


def test_the_direction_is_that_of_the_dense_inverse():
    """Against BFGS's update of the whole inverse, begun from the newest pair's curvature."""
    torch.manual_seed(0)
    hessian = torch.diag(torch.tensor([1.0, 2.0, 5.0, 0.5])).double()
    steps = torch.randn(3, 4).double()
    pairs = deque(_Pair(step, hessian @ step, float(step @ hessian @ step)) for step in steps)
    newest, unit = pairs[-1], torch.eye(4).double()
    inverse = unit * newest.product / newest.change.dot(newest.change)
    for step, change, product in pairs:
        left = unit - torch.outer(step, change) / product
        inverse = left @ inverse @ left.T + torch.outer(step, step) / product
    gradient = torch.randn(4).double()
    torch.testing.assert_close(_newton(gradient, pairs), inverse @ gradient)
    torch.testing.assert_close(_newton(gradient, deque()), gradient)


def test_the_search_ends_after_two_steps_in_a_row_that_hardly_help():
    """Each whole step lowers 1 by a share; steps of shares below the bound count, one above begins again."""
    for shares, asked in (([0.5, 1e-4, 1e-4, 0.5], 3), ([1e-4, 0.5, 1e-4, 1e-4], 4), ([0.5, 0.4, 0.3, 0.2], 4)):
        values = [1.0]
        for share in shares:
            values.append(values[-1] * (1 - share))
        left = iter(values)
        times = []

        def function(at, left=left, times=times):
            times.append(1)
            return next(left), torch.full((1,), 0.03)

        minimise(function, torch.zeros(1), steps=4, settled=1e-3)
        assert len(times) == asked + 1
