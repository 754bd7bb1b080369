"""Results that are compared with eager mode, backward passes, and calls to warm up."""

from __future__ import annotations

import pytest
from projects import Project

pytestmark = pytest.mark.real_engine

BACKENDS = '''
from torch._dynamo.backends.common import aot_autograd


def wrong(change):
    """A backend whose graphs change their first result."""

    def backend(graph, inputs):
        def run(*args):
            first, *rest = graph(*args)
            return (change(first), *rest)

        return run

    return backend


def wrong_gradients(graph, inputs):
    from functorch.compile import make_boxed_func

    def doubled(graph, inputs):
        def run(*args):
            return [2 * one if one is not None else one for one in graph(*args)]

        return make_boxed_func(run)

    return aot_autograd(
        fw_compiler=lambda graph, inputs: make_boxed_func(graph), bw_compiler=doubled
    )(graph, inputs)


def one_element(y):
    y = y.clone()
    y.view(-1)[3] += 1e-3
    return y
'''

TESTS = """
def test_passes_with_equal_results(fullgraph):
    fullgraph.check(Net(), x, numerics=True, backend="aot_eager")


def test_passes_with_other_rounding(fullgraph):
    fullgraph.check(Net(), x, numerics=True, backend=wrong(lambda y: y * (1 + 1e-7)))


def test_passes_in_bfloat16(fullgraph):
    fullgraph.check(Net().bfloat16(), x.bfloat16(), numerics=True, backend="aot_eager")


def test_passes_with_random_numbers(fullgraph):
    fullgraph.check(lambda x: nn.functional.dropout(x), x, numerics=True, backend="aot_eager")


def test_passes_with_state(fullgraph):
    fullgraph.check(Counter(), x, calls=3, numerics=True, backend="aot_eager")


def test_passes_with_code_of_one_dtype(fullgraph):
    weight = torch.ones(4, 4)
    fullgraph.check(lambda x: x.float() @ weight, x, numerics=True, backend="aot_eager")


def test_passes_for_gradients(fullgraph):
    net = Net()
    fullgraph.check(net, x, numerics=True, train=True, backend="aot_eager")
    assert net.layer.weight.grad is not None


def test_passes_for_nan_that_the_test_passes(fullgraph):
    gaps = torch.where(x > 0, x, float("nan"))
    fullgraph.check(lambda x: x.nan_to_num(0.0) * 2, gaps, numerics=True, backend="aot_eager")


def test_passes_with_allowed_nan(fullgraph):
    fullgraph.check(lambda x: (x - 2).log(), x, numerics=True, allow_nan=True, backend="aot_eager")


def test_passes_for_a_method_and_keeps_its_object(fullgraph):
    net = nn.BatchNorm1d(4)
    fullgraph.check(net.forward, x, numerics=True, calls=2, backend="aot_eager")
    assert net.num_batches_tracked == 2


def test_passes_after_warmup(fullgraph):
    fullgraph.check(Net(), shapes=[(2, 4), (3, 4), (5, 4), (7, 4)], warmup=2, recompiles=0)


@pytest.mark.fullgraph(recompiles=0, warmup=2)
def test_passes_marked_after_warmup():
    net = torch.compile(Net(), backend="eager")
    for size in (2, 3, 5, 7):
        net(torch.ones(size, 4))


def test_passes_with_listed_calls(fullgraph):
    checked = fullgraph.check(lambda a, b: a + b, calls=[(x, 1), (x, 1)], recompiles=0)
    assert checked.value.tolist() == (x + 1).tolist()


def test_fails_without_warmup(fullgraph):
    fullgraph.check(Net(), shapes=[(2, 4), (3, 4), (5, 4), (7, 4)], recompiles=0)


def test_fails_after_a_short_warmup(fullgraph):
    fullgraph.check(Counter(), x, calls=4, warmup=2, recompiles=0)


def test_fails_for_one_element(fullgraph):
    fullgraph.check(Net(), torch.ones(400, 4), numerics=True, backend=wrong(one_element))


def test_fails_for_nan(fullgraph):
    fullgraph.check(Net(), x, numerics=True, backend=wrong(lambda y: y / 0 * 0))


def test_fails_for_nan_in_eager_mode(fullgraph):
    fullgraph.check(lambda x: (x - 2).log(), x, numerics=True, backend="aot_eager")


def test_fails_for_another_dtype(fullgraph):
    fullgraph.check(Net(), x, numerics=True, backend=wrong(lambda y: y.double()))


def test_fails_for_another_integer(fullgraph):
    fullgraph.check(
        lambda x: x.argmax(1), x, numerics=True, backend=wrong(lambda y: y + (y == 0).long())
    )


def test_fails_for_gradients(fullgraph):
    # Without an activation, no gradient can be zero by chance.
    fullgraph.check(nn.Linear(4, 4), x, numerics=True, train=True, backend=wrong_gradients)


def test_fails_without_gradients(fullgraph):
    fullgraph.check(lambda x: x + 1, x, train=True)


def test_fails_in_the_second_call(fullgraph):
    first = []

    def change(y):
        first.append(y)
        return y if len(first) == 1 else y + 1

    fullgraph.check(Net(), x, calls=2, numerics=True, backend=wrong(change))


def test_fails_for_a_state_that_differs(fullgraph):
    def broken(graph, inputs):
        def run(*args):
            return graph(*[torch.zeros_like(args[0]), *args[1:]])

        return run

    norm = nn.BatchNorm1d(4, affine=False)
    fullgraph.check(norm, x, numerics=True, backend=broken)


def test_fails_if_arguments_cannot_be_copied(fullgraph):
    fullgraph.check(lambda x, lock: x + 1, x, __import__("threading").Lock(), numerics=True)
"""


def test_outcomes_and_messages(project: Project) -> None:
    project.write_tests(BACKENDS + TESTS)
    # Other tests may have changed the compiler of this process.
    session = project.run_process()
    wrong = {
        name: outcome
        for name, outcome in session.outcomes.items()
        if outcome != ("PASSED" if "_passes" in name else "FAILED")
    }
    assert len(session.outcomes) == TESTS.count("def test_") and not wrong, session.output
    one = session.section("test_fails_for_one_element")
    assert one.startswith("Compiled code computes different values than eager mode:\n")
    assert "output: 1 of 1600 elements differ (largest error 0.001 compared with float64" in one
    assert "    [0, 3] compiled " in one
    nan = session.section("test_fails_for_nan")
    assert "output: elements that are NaN: compiled 8, eager 0 of 8" in nan
    assert "pass `allow_nan=True` to accept NaN" in session.section(
        "test_fails_for_nan_in_eager_mode"
    )
    dtype = session.section("test_fails_for_another_dtype")
    assert "output: dtype: compiled torch.float64, eager torch.float32" in dtype
    assert "compiled 1, eager 0" in session.section("test_fails_for_another_integer")
    gradients = session.section("test_fails_for_gradients")
    assert "gradient of `weight`: " in gradients and "output: " not in gradients
    assert "requires gradients" in session.section("test_fails_without_gradients")
    assert "eager mode in call 2 of 2:" in session.section("test_fails_in_the_second_call")
    state = session.section("test_fails_for_a_state_that_differs")
    assert "buffer `running_mean`: " in state
    copied = session.section("test_fails_if_arguments_cannot_be_copied")
    assert copied.startswith("`numerics=True` needs copies of the function and its arguments")


@pytest.mark.slow
def test_inductor_is_the_backend_for_numerics(project: Project) -> None:
    project.write_tests("""
        def test_net(fullgraph):
            fullgraph.check(Net(), x, numerics=True, train=True, calls=2, recompiles=0)
            assert "torch._inductor.compile_fx" in __import__("sys").modules
    """)
    assert project.run().outcomes == {"test_net": "PASSED"}
