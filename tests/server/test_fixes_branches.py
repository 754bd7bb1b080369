"""Rewrites of control flow that depends on the data of tensors: from text to text.

None of the texts is executed here; what a rewrite means is verified elsewhere.
"""

from __future__ import annotations

import dataclasses
import textwrap
from dataclasses import replace

import pytest

from fullgraph.domain.positions import TextPositions
from fullgraph.fixes.candidate import Candidate
from fullgraph.fixes.catalogue import candidates
from fullgraph.fixes.rewrites.branches import branches
from fullgraph.fixes.site import Site, Text
from fullgraph_engine.protocol import Finding, Position, Range, SeenKind, SeenValue
from fullgraph_engine.protocol.evidence import BreakEvidence

HEAD = "import torch\n\n\n"


def found(text: str, expression: str, code: str = "graph-break/GB0170") -> Finding:
    """A graph break at the only place where a text has an expression."""
    assert text.count(expression) == 1
    start = text.index(expression)
    positions = TextPositions(text)
    range_ = Range(positions.position_at(start), positions.position_at(start + len(expression)))
    return Finding(code, "", range_, evidence=BreakEvidence("Data-dependent branching"))


def made(text: str, expression: str) -> list[Candidate]:
    return list(candidates(Text(text), found(text, expression)))


def rewritten(body: str, expression: str, rewrite: str, nth: int = 0) -> str:
    """The body of a file after one of the candidates of a rewrite."""
    text = HEAD + textwrap.dedent(body).lstrip("\n")
    one = [each for each in made(text, expression) if each.rewrite == rewrite][nth]
    compile(one.text, "m.py", "exec")
    assert one.text.startswith(HEAD)
    return one.text[len(HEAD) :]


def expected(body: str) -> str:
    return textwrap.dedent(body).lstrip("\n")


WHERE = {
    "one-side": (
        """
        def f(x):
            if x.sum() > 0:
                x = x * 2
            return x
        """,
        "x.sum() > 0",
        """
        def f(x):
            x = torch.where(x.sum() > 0, x * 2, x)
            return x
        """,
    ),
    "zero-divisor": (
        """
        def f(x, loss):
            n = (x > 0).sum()
            if n == 0:
                loss = loss - 1
            else:
                loss = loss - (x.sum() + 1) / n
            return loss
        """,
        "n == 0",
        """
        def f(x, loss):
            n = (x > 0).sum()
            loss = torch.where(n == 0, loss - 1, loss - (x.sum() + 1) / torch.where(n == 0, 1, n))
            return loss
        """,
    ),
    "positive-divisor": (
        """
        def f(x):
            n = (x > 0).sum()
            if 0 < n:
                x /= (n)
            return x % n // 2
        """,
        "0 < n",
        """
        def f(x):
            n = (x > 0).sum()
            x = torch.where(0 < n, x / torch.where(0 < n, n, 1), x)
            return x % n // 2
        """,
    ),
    "other-divisor": (
        """
        def f(x, m, n):
            if x.sum() > n:
                x = x / n / m
            return x
        """,
        "x.sum() > n",
        """
        def f(x, m, n):
            x = torch.where(x.sum() > n, x / n / m, x)
            return x
        """,
    ),
    "both-sides-and-comments": (
        """
        def f(x):
            # Scale it.
            if x.sum() > 0:  # large
                x = x * 2  # twice
            else:
                x = x - 1
            return x
        """,
        "x.sum() > 0",
        """
        def f(x):
            # Scale it.
            # large
            x = torch.where(x.sum() > 0, x * 2, x - 1)  # twice
            return x
        """,
    ),
    "chain": (
        """
        def f(x):
            if x.sum() > 10:
                y = x * 2
            elif x.mean() > 0.5:
                y = x - 1
            else:
                y = x
            return y
        """,
        "x.mean() > 0.5",
        """
        def f(x):
            y = torch.where(x.sum() > 10, x * 2, torch.where(x.mean() > 0.5, x - 1, x))
            return y
        """,
    ),
    "elif-below-python": (
        """
        def f(x, flag: bool):
            if flag:
                x = x + 1
            elif x.sum() > 0:
                x = x * 2
            return x
        """,
        "x.sum() > 0",
        """
        def f(x, flag: bool):
            if flag:
                x = x + 1
            else:
                x = torch.where(x.sum() > 0, x * 2, x)
            return x
        """,
    ),
    "names-depend-on-each-other": (
        """
        def f(x, y):
            if x.sum() > 0:
                x, y = y, x
            return x - y
        """,
        "x.sum() > 0",
        """
        def f(x, y):
            condition = x.sum() > 0
            x_true, y_true = y, x
            x = torch.where(condition, x_true, x)
            y = torch.where(condition, y_true, y)
            return x - y
        """,
    ),
    "later-value-reads-an-earlier-name": (
        """
        def f(x, y):
            if x.sum() > 0:
                x = x + 1
                y = y * x
            return x - y
        """,
        "x.sum() > 0",
        """
        def f(x, y):
            condition = x.sum() > 0
            x_true = x + 1
            y_true = y * x_true
            x = torch.where(condition, x_true, x)
            y = torch.where(condition, y_true, y)
            return x - y
        """,
    ),
    "name-of-one-side": (
        """
        def f(h):
            if not torch.isfinite(h).all():
                limit = torch.finfo(h.dtype).max - 1000
                h = torch.clamp(h, min=-limit, max=limit)
            return h
        """,
        "not torch.isfinite(h).all()",
        """
        def f(h):
            limit = torch.finfo(h.dtype).max - 1000
            h = torch.where(~torch.isfinite(h).all(), torch.clamp(h, min=-limit, max=limit), h)
            return h
        """,
    ),
    "python-part-first": (
        """
        def f(h):
            if h.dtype == torch.float16 and torch.isinf(h).any():
                h = h.clamp(-6e4, 6e4)
            return h
        """,
        "h.dtype == torch.float16 and torch.isinf(h).any()",
        """
        def f(h):
            if h.dtype == torch.float16:
                h = torch.where(torch.isinf(h).any(), h.clamp(-6e4, 6e4), h)
            return h
        """,
    ),
    "python-part-last": (
        """
        def f(x, debug):
            if torch.isnan(x).any() or debug is None:
                x = x + 1
            return x
        """,
        "torch.isnan(x).any() or debug is None",
        """
        def f(x, debug):
            if debug is None:
                x = x + 1
            else:
                x = torch.where(torch.isnan(x).any(), x + 1, x)
            return x
        """,
    ),
    "buffer": (
        """
        class M(torch.nn.Module):
            def forward(self, x):
                if x.max() > self.largest:
                    self.largest = x.max()
                return x
        """,
        "x.max() > self.largest",
        """
        class M(torch.nn.Module):
            def forward(self, x):
                self.largest = torch.where(x.max() > self.largest, x.max(), self.largest)
                return x
        """,
    ),
    "changed-in-place": (
        """
        def f(x):
            if x.sum() > 0:
                x.mul_(2)
            return x
        """,
        "x.sum() > 0",
        """
        def f(x):
            x.copy_(torch.where(x.sum() > 0, x.mul(2), x))
            return x
        """,
    ),
    "element": (
        """
        def f(x):
            if x.sum() > 0:
                x[0] = 1.0
            return x
        """,
        "x.sum() > 0",
        """
        def f(x):
            x[0] = torch.where(x.sum() > 0, 1.0, x[0])
            return x
        """,
    ),
    "loop-in-a-side": (
        """
        def f(x):
            if x.sum() > 0:
                for i in range(3):
                    x = x + i
            return x
        """,
        "x.sum() > 0",
        """
        def f(x):
            x_true = x
            for i in range(3):
                x_true = x_true + i
            x = torch.where(x.sum() > 0, x_true, x)
            return x
        """,
    ),
    "item": (
        """
        def f(x):
            if x.sum().item() > 0:
                x = x + 1
            return x
        """,
        "x.sum().item()",
        """
        def f(x):
            x = torch.where(x.sum() > 0, x + 1, x)
            return x
        """,
    ),
    "count-of-a-mask": (
        """
        def f(x, mask):
            if x[mask].numel() > 0:
                x = x + 1
            return x
        """,
        "x[mask]",
        """
        def f(x, mask):
            x = torch.where(torch.count_nonzero(mask) > 0, x + 1, x)
            return x
        """,
    ),
    "chained-comparison": (
        """
        def f(x):
            if 0 < x < 1:
                x = x + 1
            return x
        """,
        "0 < x < 1",
        """
        def f(x):
            x = torch.where((0 < x) & (x < 1), x + 1, x)
            return x
        """,
    ),
    "membership": (
        """
        def f(x):
            if x in (1, 2):
                x = x + 1
            return x
        """,
        "x in (1, 2)",
        """
        def f(x):
            x = torch.where((x == 1) | (x == 2), x + 1, x)
            return x
        """,
    ),
    "any-of-a-generator": (
        """
        def f(x):
            if any(t > 0 for t in x):
                x = x + 1
            return x
        """,
        "any(t > 0 for t in x)",
        """
        def f(x):
            x = torch.where(torch.stack([t > 0 for t in x]).any(), x + 1, x)
            return x
        """,
    ),
    "early-return": (
        """
        def f(x, y):
            if (x > 0).all():
                return y
            z = x @ y.T  # (n, n)
            return z @ x
        """,
        "(x > 0).all()",
        """
        def f(x, y):
            condition = (x > 0).all()
            z = x @ y.T  # (n, n)
            return torch.where(condition, y, z @ x)
        """,
    ),
    "early-returns-of-tuples": (
        """
        def f(x):
            if x.sum() > 3:
                return x, x + 1
            elif x.sum() > 2:
                return x, x + 2
            return x, -x
        """,
        "x.sum() > 3",
        """
        def f(x):
            return x, torch.where(x.sum() > 3, x + 1, torch.where(x.sum() > 2, x + 2, -x))
        """,
    ),
    "early-return-that-changes-what-is-read": (
        """
        def f(x):
            if x.sum() > 3:
                x = x * 2
                return x
            return x - 1
        """,
        "x.sum() > 3",
        """
        def f(x):
            condition = x.sum() > 3
            x_true = x * 2
            return torch.where(condition, x_true, x - 1)
        """,
    ),
    "ternary": (
        """
        def f(x):
            return x * 2 if x.sum() > 0 else -x
        """,
        "x.sum() > 0",
        """
        def f(x):
            return torch.where(x.sum() > 0, x * 2, -x)
        """,
    ),
    "ternary-in-a-lambda": (
        """
        f = lambda x: (
            x * 2  # twice
            if bool(x.sum() > 0)
            else -x
        )
        """,
        "bool(x.sum() > 0)",
        """
        f = lambda x: (
            torch.where(x.sum() > 0, x * 2, -x)
        )
        """,
    ),
    "return-in-a-loop": (
        """
        def f(x, layers, early):
            # Layers.
            for layer in layers:
                x = layer(x)
                if early and x.max() > 1:
                    y = x * 2
                    return y
            # None was sure.
            return x
        """,
        "early and x.max() > 1",
        """
        def f(x, layers, early):
            # Layers.
            returned = []
            for layer in layers:
                x = layer(x)
                if early:
                    y_true = x * 2
                    returned.append((x.max() > 1, y_true))
            # None was sure.
            result = x
            for condition, value in reversed(returned):
                result = torch.where(condition, value, result)
            return result
        """,
    ),
    "break-in-a-condition": (
        """
        def f(x, log):
            last = None
            for n in range(8):
                y = x * n
                if last is not None:
                    gap = y - last
                    if gap.max() < 1e-3:
                        print("done", n)
                        break
                last = y
            return y
        """,
        "gap.max() < 1e-3",
        """
        def f(x, log):
            last = None
            y = None
            done = torch.tensor(False)
            for n in range(8):
                y = (x * n) if y is None else torch.where(~done, x * n, y)
                if last is not None:
                    gap = y - last
                    done = done | (gap.max() < 1e-3)
                last = y if last is None else torch.where(~done, y, last)
            return y
        """,
    ),
    "return-of-two-in-a-loop": (
        """
        def f(x):
            for n in range(3):
                x = x + n
                if x.sum() > 1:
                    return x, x * n
            return x, x
        """,
        "x.sum() > 1",
        """
        def f(x):
            returned = []
            for n in range(3):
                x = x + n
                returned.append((x.sum() > 1, (x, x * n)))
            result = x, x
            for condition, value in reversed(returned):
                result = tuple(torch.where(condition, a, b) for a, b in zip(value, result))
            return result
        """,
    ),
    "dictionaries": (
        """
        def f(x):
            if x.max():
                return {"a": x, "b": [1]}
            return {"a": -x, "b": [1]}
        """,
        "x.max()",
        """
        def f(x):
            return {"a": torch.where(x.max() != 0, x, -x), "b": [1]}
        """,
    ),
    "break": (
        """
        def f(x):
            for _ in range(8):
                x = x * 0.5
                if x.abs().max() < 1e-3:
                    break
            return x
        """,
        "x.abs().max() < 1e-3",
        """
        def f(x):
            done = torch.tensor(False)
            for _ in range(8):
                x = torch.where(~done, x * 0.5, x)
                done = done | (x.abs().max() < 1e-3)
            return x
        """,
    ),
    "two-breaks": (
        """
        def f(a, p, r, x):
            for _ in range(8):
                d = p @ a
                if d.abs() < 1e-9:
                    break
                x = x + d * p
                if r.norm() < 1e-6:
                    x = x * 2
                    break
                p = r + p
            return x
        """,
        "d.abs() < 1e-9",
        """
        def f(a, p, r, x):
            done = torch.tensor(False)
            for _ in range(8):
                d = p @ a
                done = done | (d.abs() < 1e-9)
                x = torch.where(~done, x + d * p, x)
                stops_2 = ~done & (r.norm() < 1e-6)
                x = torch.where(stops_2, x * 2, x)
                done = done | stops_2
                p = torch.where(~done, r + p, p)
            return x
        """,
    ),
    "break-behind-a-continue": (
        """
        def f(x, layers, out):
            for layer in layers:
                y = layer(x)
                if y.mean() < 0:
                    continue
                out = out + y
                if out.max() > 9:
                    break
                x = y
            return out
        """,
        "out.max() > 9",
        """
        def f(x, layers, out):
            done = torch.tensor(False)
            for layer in layers:
                y = layer(x)
                skipped = ~done & (y.mean() < 0)
                out = torch.where(~(done | skipped), out + y, out)
                stops = ~done & ~skipped & (out.max() > 9)
                done = done | stops
                x = torch.where(~(done | skipped), y, x)
            return out
        """,
    ),
    "break-or-enough": (
        """
        def f(x, z):
            i = 0
            # Until nothing changes.
            while True:
                z = torch.tanh(z + x)
                i += 1
                if (z - x).abs().max() < 1e-3 or i >= 20:
                    break
            return z
        """,
        "(z - x).abs().max() < 1e-3 or i >= 20",
        """
        def f(x, z):
            i = 0
            # Until nothing changes.
            done = torch.tensor(False)
            while True:
                z = torch.where(~done, torch.tanh(z + x), z)
                i += 1
                done = done | ((z - x).abs().max() < 1e-3)
                if i >= 20:
                    break
            return z
        """,
    ),
    "while-of-two": (
        """
        def f(x, error, most):
            step = 0
            while error.max() > 1e-3 and step < most:
                error = error / 2
                step += 1
            return error
        """,
        "error.max() > 1e-3 and step < most",
        """
        def f(x, error, most):
            step = 0
            done = torch.tensor(False)
            while step < most:
                done = done | ~(error.max() > 1e-3)
                error = torch.where(~done, error / 2, error)
                step += 1
            return error
        """,
    ),
    "continue": (
        """
        def f(xs, total):
            for x in xs:
                if x.sum() < 0:
                    continue
                total = total + x
            return total
        """,
        "x.sum() < 0",
        """
        def f(xs, total):
            for x in xs:
                total = torch.where(~(x.sum() < 0), total + x, total)
            return total
        """,
    ),
    "nested-function": (
        """
        def outer(x):
            @torch.no_grad()
            def inner(y):
                if y.sum() > 0: y = y + 1
                return y
            return inner(x)
        """,
        "y.sum() > 0",
        """
        def outer(x):
            @torch.no_grad()
            def inner(y):
                y = torch.where(y.sum() > 0, y + 1, y)
                return y
            return inner(x)
        """,
    ),
}


@pytest.mark.parametrize("case", WHERE)
def test_both_sides_are_computed_and_one_is_chosen(case: str) -> None:
    before, expression, after = WHERE[case]
    assert rewritten(before, expression, "where") == expected(after)


OTHERS = {
    "guard-with-both-checks": (
        "assert-async",
        0,
        """
        def f(x):
            # No NaN.
            if torch.isnan(x).any():
                raise ValueError(f"NaN in {x.shape}")
            return x
        """,
        "torch.isnan(x).any()",
        """
        def f(x):
            # No NaN.
            if torch.compiler.is_compiling():
                torch._assert_async(~torch.isnan(x).any(), "NaN in x.shape")
            elif torch.isnan(x).any():
                raise ValueError(f"NaN in {x.shape}")
            return x
        """,
    ),
    "guard-in-compiled-code-too": (
        "assert-async",
        1,
        """
        def f(x, strict):
            if strict is True and not (x > 0).all():
                raise ValueError("not " "positive")
            return x
        """,
        "strict is True and not (x > 0).all()",
        """
        def f(x, strict):
            if strict is True:
                torch._assert_async((x > 0).all(), "not positive")
            return x
        """,
    ),
    "guard-in-eager-mode": (
        "eager-check",
        0,
        """
        def f(x, y):
            if (x > 0).any() or (y > 0).any():
                raise ValueError
            return x
        """,
        "(x > 0).any() or (y > 0).any()",
        """
        def f(x, y):
            if not torch.compiler.is_compiling() and ((x > 0).any() or (y > 0).any()):
                raise ValueError
            return x
        """,
    ),
    "assert-with-values": (
        "assert-tensor",
        0,
        """
        def f(x):
            assert torch.isfinite(x).all(), f"bad: {x.max()}"  # checked
            return x
        """,
        "torch.isfinite(x).all()",
        """
        def f(x):
            assert torch.isfinite(x).all(), "bad: x.max()"  # checked
            return x
        """,
    ),
    "assert-of-parts": (
        "assert-tensor",
        0,
        """
        def f(x, n):
            assert n is not None and (x > 0).all() and (x < n).all()
            return x
        """,
        "n is not None and (x > 0).all() and (x < n).all()",
        """
        def f(x, n):
            assert n is not None
            assert ((x > 0).all() & (x < n).all())
            return x
        """,
    ),
    "assert-in-eager-mode": (
        "eager-check",
        0,
        """
        def f(x):
            assert x.max().item() < 9, f"{x}"
            return x
        """,
        "x.max().item()",
        """
        def f(x):
            assert torch.compiler.is_compiling() or x.max().item() < 9, f"{x}"
            return x
        """,
    ),
    "repair": (
        "always",
        0,
        """
        def f(x, mask):
            if mask.any():
                x[mask] = 0.0
            return x
        """,
        "mask.any()",
        """
        def f(x, mask):
            x[mask] = 0.0
            return x
        """,
    ),
    "message": (
        "eager-message",
        0,
        """
        def f(x):
            if x.isnan().any():
                print("NaN")
            return x
        """,
        "x.isnan().any()",
        """
        def f(x):
            if not torch.compiler.is_compiling() and x.isnan().any():
                print("NaN")
            return x
        """,
    ),
    "removed-message": (
        "drop-message",
        0,
        """
        def f(x):
            if x.isnan().any():
                print("NaN")
        """,
        "x.isnan().any()",
        """
        def f(x):
            pass
        """,
    ),
    "shortcut": (
        "drop-shortcut",
        0,
        """
        def f(x, mask):
            if not mask.any():
                mask = None
            return x, mask
        """,
        "not mask.any()",
        """
        def f(x, mask):
            return x, mask
        """,
    ),
    "cond": (
        "cond",
        0,
        """
        def f(x, y):
            # Choose.
            if x.sum() > 0:
                x = x @ y
                y = y * 2
            else:
                x = x - 1
            return x, y
        """,
        "x.sum() > 0",
        """
        def f(x, y):
            # Choose.
            def if_true(x, y):
                x = x @ y
                y = y * 2
                return x, y
            def if_false(x, y):
                x = x - 1
                return x, y.clone()
            x, y = torch.cond(x.sum() > 0, if_true, if_false, (x, y))
            return x, y
        """,
    ),
    "cond-of-new-names": (
        "cond",
        0,
        """
        def f(x):
            if x.sum() > 0:
                y = x.exp()
            else:
                y = x.log1p()
            return y
        """,
        "x.sum() > 0",
        """
        def f(x):
            def if_true():
                y = x.exp()
                return y
            def if_false():
                y = x.log1p()
                return y
            y = torch.cond(x.sum() > 0, if_true, if_false, ())
            return y
        """,
    ),
    "cond-of-a-ternary": (
        "cond",
        0,
        """
        def f(x):
            return x.exp() if x.sum() > 0 else x
        """,
        "x.sum() > 0",
        """
        def f(x):
            return torch.cond(x.sum() > 0, lambda: x.exp(), lambda: x.clone(), ())
        """,
    ),
    "while-loop": (
        "while-loop",
        0,
        """
        def f(x, y):
            while x.sum() < 10:
                x = x * y + 1
            return x
        """,
        "x.sum() < 10",
        """
        def f(x, y):
            def goes_on(x):
                return x.sum() < 10
            def step(x):
                x = x * y + 1
                return (x,)
            (x,) = torch.while_loop(goes_on, step, (x,))
            return x
        """,
    ),
    "bounded-loop": (
        "bounded-loop",
        0,
        """
        def f(x):
            while x.sum() < 10:
                x = x + 1
            return x
        """,
        "x.sum() < 10",
        """
        def f(x):
            done = torch.tensor(False)
            for _ in range(100):
                done = done | ~(x.sum() < 10)
                x = torch.where(~done, x + 1, x)
            return x
        """,
    ),
    "break-of-an-endless-loop": (
        "while-loop",
        0,
        """
        def f(x, z):
            # Until nothing changes.
            while True:
                new = torch.tanh(z + x)
                if (new - z).abs().max() < 1e-3:
                    break
                z = new
            return z
        """,
        "(new - z).abs().max() < 1e-3",
        """
        def f(x, z):
            # Until nothing changes.
            done = torch.tensor(False)
            def goes_on(done, z):
                return ~done
            def step(done, z):
                new = torch.tanh(z + x)
                done = done | ((new - z).abs().max() < 1e-3)
                z = torch.where(~done, new, z)
                return (done, z)
            done, z = torch.while_loop(goes_on, step, (done, z))
            return z
        """,
    ),
    "part-of-a-shortcut": (
        "drop-shortcut",
        0,
        """
        def f(x, mask):
            if mask is None or torch.all(mask == 1):
                return None
            else:
                return x * mask
        """,
        "mask is None or torch.all(mask == 1)",
        """
        def f(x, mask):
            if mask is None:
                return None
            else:
                return x * mask
        """,
    ),
    "shortcut-with-another-side": (
        "drop-shortcut",
        0,
        """
        def f(x, mask):
            # Nothing to hide.
            if torch.all(mask == 1):
                return None
            else:
                return x * mask
        """,
        "torch.all(mask == 1)",
        """
        def f(x, mask):
            # Nothing to hide.
            return x * mask
        """,
    ),
    "initialized-once": (
        "only-eager",
        0,
        """
        def f(self, x):
            if self.initialized.item() == 0:
                self.initialize(x)
                self.initialized.fill_(1)
            return x
        """,
        "self.initialized.item()",
        """
        def f(self, x):
            if not torch.compiler.is_compiling() and self.initialized.item() == 0:
                self.initialize(x)
                self.initialized.fill_(1)
            return x
        """,
    ),
    "one-call": (
        "one-call",
        0,
        """
        def f(self, x, long, short):
            if x.max() > 8:
                self.register_buffer("freq", long, persistent=False)
            else:
                self.register_buffer("freq", short, persistent=False)
            return x
        """,
        "x.max() > 8",
        """
        def f(self, x, long, short):
            self.register_buffer("freq", torch.where(x.max() > 8, long, short), persistent=False)
            return x
        """,
    ),
    "values-of-a-mask": (
        "mask",
        0,
        """
        def f(x, y, mask):
            x[mask] = y[mask] * 2  # twice
            return x
        """,
        "y[mask]",
        """
        def f(x, y, mask):
            x = torch.where(mask, y * 2, x)  # twice
            return x
        """,
    ),
    "rows-of-a-mask": (
        "mask",
        1,
        """
        def f(x, y, mask):
            x[mask] += g(y[mask])
            return x
        """,
        "y[mask]",
        """
        def f(x, y, mask):
            x = torch.where(mask.unsqueeze(-1), x + g(y), x)
            return x
        """,
    ),
    "mask-that-chooses-nothing": (
        "mask",
        0,
        """
        def f(e, mask, h):
            if mask.any():
                e = e.masked_scatter(mask, net(h[mask]).squeeze(-1))
            return e
        """,
        "mask.any()",
        """
        def f(e, mask, h):
            e = torch.where(mask, net(h).squeeze(-1), e)
            return e
        """,
    ),
    "mean-of-a-mask": (
        "mask-reduction",
        0,
        """
        def f(x, mask):
            return x[mask].mean()
        """,
        "x[mask]",
        """
        def f(x, mask):
            return (torch.where(mask, x, 0).sum() / mask.sum())
        """,
    ),
    "largest-of-a-mask": (
        "mask-reduction",
        0,
        """
        def f(x, n):
            return x[x < n].max()
        """,
        "x[x < n]",
        """
        def f(x, n):
            return torch.where(x < n, x, -torch.inf).max()
        """,
    ),
    "or-of-values": (
        "tensor-operators",
        0,
        """
        def f(x, y):
            return x or y
        """,
        "x or y",
        """
        def f(x, y):
            return torch.where(x != 0, x, y)
        """,
    ),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_rewrite(case: str) -> None:
    rewrite, nth, before, expression, after = OTHERS[case]
    assert rewritten(before, expression, rewrite, nth) == expected(after)


NOT_CONVERTIBLE = {
    "returns-nothing-in-a-loop": "for y in x:\n        if x.sum() > 0:\n            return None\n"
    "    return x",
    "goes-on-in-a-loop": "for y in log:\n        if x.sum() > 0:\n            return x\n"
    "        if y:\n            break\n    return x",
    "counts-what-it-returns": "i = 0\n    for y in log:\n        i += 1\n"
    "        if x.sum() > 0:\n            x = y\n            break\n        if i > 3:\n"
    "            break\n    return x, i",
    "may-never-end": "while True:\n        x = log(x)\n        if x.sum() > 0:\n            break\n"
    "    return x.g(x.sum() > 1)",
    "other-keys": "if x.sum() > 0:\n        return {'a': x}\n    return {'b': x}",
    "calls-for-its-effect": "if x.sum() > 0:\n        log.append(x)\n    return x",
    "none-or-tensor": "y = None\n    if x.sum() > 0:\n        y = 'big'\n    return y",
    "returns-nothing": "if x.sum() > 0:\n        return\n    log.append(x)",
    "yields": "if x.sum() > 0:\n        yield x\n    yield -x",
    "deletes": "if x.sum() > 0:\n        del x\n    return 1",
    "leaves-a-block": "if x.sum() > 0:\n        with g():\n            return x\n    log.append(x)",
}


@pytest.mark.parametrize("case", NOT_CONVERTIBLE)
def test_code_that_does_more_than_compute_is_not_chosen_from(case: str) -> None:
    text = f"import torch\n\n\ndef f(x, log):\n    {NOT_CONVERTIBLE[case]}\n"
    assert "where" not in {one.rewrite for one in made(text, "x.sum() > 0")}


def test_line_ends_and_tabs_are_kept() -> None:
    text = "import torch\r\n\r\ndef f(x):\r\n\tif x.sum() > 0:\r\n\t\tx = x + 1\r\n\treturn x\r\n"
    one = made(text, "x.sum() > 0")[0]
    assert one.text == (
        "import torch\r\n\r\ndef f(x):\r\n"
        "\tx = torch.where(x.sum() > 0, x + 1, x)\r\n\treturn x\r\n"
    )


def test_torch_is_imported_where_it_is_not() -> None:
    text = "from torch import nn\n\n\ndef f(x):\n    return x if x.sum() > 0 else -x\n"
    one = made(text, "x.sum() > 0")[0]
    assert one.text.startswith("from torch import nn\nimport torch\n")


def test_names_are_new_to_the_function() -> None:
    after = rewritten(
        """
        def f(x, condition, x_true):
            if x.sum() > 0:
                x, condition = condition, x
            return x, condition, x_true
        """,
        "x.sum() > 0",
        "where",
    )
    assert "condition_2 = x.sum() > 0" in after
    assert "x_true_2, condition_true = condition, x" in after


def test_an_augmented_assignment_may_keep_its_tensor() -> None:
    body = """
        def f(x):
            if x.sum() > 0:
                x += 1
            return x
        """
    assert "    x = torch.where(x.sum() > 0, x + 1, x)\n" in rewritten(body, "x.sum() > 0", "where")
    kept = rewritten(body, "x.sum() > 0", "where", nth=1)
    assert "    x.copy_(torch.where(x.sum() > 0, x + 1, x))\n" in kept


def test_an_attribute_may_keep_its_tensor() -> None:
    body = """
        def f(self, x):
            if x.sum() > 0:
                self.steps = self.steps + 1
            return x
        """
    kept = rewritten(body, "x.sum() > 0", "where", nth=1)
    chosen = "torch.where(x.sum() > 0, self.steps + 1, self.steps)"
    assert f"    self.steps.copy_({chosen})\n" in kept


def test_elements_of_what_a_side_makes_are_assigned_where_they_were() -> None:
    body = """
        def f(x, y):
            if x.sum() > 0:
                z = y.clone()
                z[0] = 1
                x = x + z
            return x
        """
    after = rewritten(body, "x.sum() > 0", "where")
    assert "    z = y.clone()\n    z[0] = 1\n    x = torch.where(x.sum() > 0, x + z, x)\n" in after
    # What others may see is chosen.
    for value in ("y", "y.view(-1)", "y.clone()[1:]"):
        seen = rewritten(body.replace("y.clone()", value), "x.sum() > 0", "where")
        assert "z[0] = torch.where(condition, 1, z[0])" in seen


def test_a_side_may_have_to_fit_what_is_kept() -> None:
    body = """
        def f(x, y):
            if x.sum() > 0:
                x = x + y
            return x
        """
    fitted = rewritten(body, "x.sum() > 0", "where", nth=1)
    assert "    x = torch.where(x.sum() > 0, x + y, x).view_as(x)\n" in fitted


def test_a_choice_does_not_claim_to_mean_the_same_for_every_input() -> None:
    # Gradients of what was not chosen are zeros instead of None, for one thing.
    for before, expression, _ in WHERE.values():
        text = HEAD + textwrap.dedent(before).lstrip("\n")
        chosen = [one for one in made(text, expression) if one.rewrite == "where"]
        assert {one.preserves for one in chosen} == {False}


def test_what_is_no_condition_is_no_branch() -> None:
    text = "import torch\n\n\ndef f(x):\n    if x.sum() > 0:\n        x = g(x)\n    return x\n"
    assert list(branches(Site(Text(text), found(text, "x.sum() > 0")))) != []
    assert list(branches(Site(Text(text), found(text, "g(x)")))) == []


def test_only_a_graph_break_is_rewritten() -> None:
    text = "import torch\n\n\ndef f(x):\n    if x.sum() > 0:\n        x = x + 1\n    return x\n"
    assert candidates(Text(text), found(text, "x.sum() > 0", "guard/specialized-dimension")) == ()


def test_a_number_that_data_decide_becomes_a_tensor_where_it_decides() -> None:
    text = f"{HEAD}def f(x, n):\n    if n > 3:\n        x = x * 2\n    return x\n"
    finding = dataclasses.replace(
        found(text, "n > 3"), context="attempted to jump with SymNodeVariable()"
    )
    where, _ = (one for one in candidates(Text(text), finding) if one.rewrite == "where")
    assert "x = torch.where(torch.tensor(n > 3), x * 2, x)" in where.text


CHANCE = "attempted to jump with UnspecializedPythonVariable()"


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("random.random() < p", "torch.tensor(random.random() < p)"),
        ("not random.random() < p", "~torch.tensor(random.random() < p)"),
        ("a.training and not random.random() < p", None),
    ],
)
def test_chance_becomes_a_tensor_where_it_decides(test: str, expected: str | None) -> None:
    text = f"import torch\n\n\ndef f(x, a, p):\n    if {test}:\n        x = x + 1\n    return x\n"
    broken = replace(found(text, test), context=CHANCE)
    where = next(one for one in candidates(Text(text), broken) if one.rewrite == "where")
    if expected is not None:
        assert f"x = torch.where({expected}, x + 1, x)" in where.text
    else:
        inner = "torch.where(~torch.tensor(random.random() < p), x + 1, x)"
        assert f"    if a.training:\n        x = {inner}\n" in where.text


def test_what_is_said_once_is_said_in_eager_mode_only() -> None:
    body = """
    class Net:
        def f(self, x):
            if x.std() < 1 and not self.told:
                log.warning("flat")
                self.told = True
            return x{more}
    """
    test = "x.std() < 1 and not self.told"
    changed = rewritten(body.format(more=""), test, "eager-message")
    assert f"if not torch.compiler.is_compiling() and ({test}):" in changed
    debugged = body.format(more="").replace("self.told = True", "import pdb; pdb.set_trace()")
    assert f"is_compiling() and ({test}):" in rewritten(debugged, test, "eager-message")
    text = HEAD + textwrap.dedent(body.format(more=" + self.told"))
    assert "eager-message" not in {one.rewrite for one in made(text, test)}


def test_the_else_of_any_may_be_what_no_elements_give() -> None:
    body = """
        def f(x, mask):
            # the chosen
            if mask.any():
                y = x[mask] * 2
            else:
                y = x.new_zeros(0)
            return y
        """
    assert rewritten(body, "mask.any()", "always") == expected(
        """
        def f(x, mask):
            # the chosen
            y = x[mask] * 2
            return y
        """
    )
    other = HEAD + textwrap.dedent(body.replace("mask.any()", "mask.all()"))
    assert "always" not in {one.rewrite for one in made(other, "mask.all()")}


def test_a_condition_that_decides_nothing_goes() -> None:
    body = """
        def f(x):
            if torch.any(x):
                pass  # not yet
            return x
        """
    without = expected("def f(x):\n    return x\n")
    assert rewritten(body, "torch.any(x)", "drop-nothing") == without
    for other in ("        pass\n    else:\n        x = x + 1\n", "        x = x + 1\n"):
        text = f"{HEAD}def f(x):\n    if torch.any(x):\n{other}    return x\n"
        assert "drop-nothing" not in {one.rewrite for one in made(text, "torch.any(x)")}


@pytest.mark.parametrize(
    ("kind", "condition"),
    [
        pytest.param("tensor", "mask != 0", id="of the tensor alone"),
        pytest.param(None, "(flag != 0) & (mask != 0)", id="unknown"),
    ],
)
def test_a_condition_is_split_by_the_kinds_that_the_trace_saw(
    kind: SeenKind | None, condition: str
) -> None:
    text = HEAD + "def f(x, flag, mask):\n    if flag and mask:\n        x = x + 1\n    return x\n"
    start = found(text, "f(x, flag, mask)").range.start
    name = Range(start, Position(start.line, start.byte + 1))
    seen = [] if kind is None else [SeenValue(name, kind, "mask", "f")]
    made = candidates(Text(text, seen), found(text, "flag and mask"))
    where = next(one.text for one in made if one.rewrite == "where")
    assert f"torch.where({condition}, " in where
