"""The complete index against the torch that it was made by."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from fullgraph_engine.protocol.operators import Entry, IndexHeader, Name, Operator, Overload

torch: Any = pytest.importorskip("torch")
pytestmark = pytest.mark.timeout(300)

Complete = tuple[IndexHeader, dict[str, Entry]]


def operator(index: Complete, name: str) -> Operator:
    found = index[1][name].decode()
    assert isinstance(found, Operator)
    return found


def overload(index: Complete, name: str) -> Overload:
    name, _, own = name.partition(".")
    return next(found for found in operator(index, name).overloads if found.name == own)


def name(index: Complete, path: str) -> Name:
    found = index[1][path].decode()
    assert isinstance(found, Name)
    return found


def test_the_header_counts(complete_index: Complete) -> None:
    header, entries = complete_index
    operators = [entry for entry in entries.values() if entry.kind == "operator"]
    assert header.complete
    assert header.torch == torch.__version__
    assert header.operators == len(operators)
    assert header.names == len(entries) - len(operators)
    assert header.overloads == sum(len(entry.decode_raw()["overloads"]) for entry in operators)
    assert not header.notes


def test_every_overload_of_the_dispatcher_is_there(complete_index: Complete) -> None:
    """Also those that Dynamo and its like register as they are imported."""
    import torch._dynamo

    missing, compared = [], 0
    for registered in torch._C._dispatch_get_all_op_names():
        if registered.startswith("aten::"):
            compared += 1
            own, _, which = registered.partition(".")
            entry = complete_index[1].get(own)
            overloads = entry.decode_raw()["overloads"] if entry is not None else []
            if which not in [overload.get("name", "") for overload in overloads]:
                missing.append(registered)
    print(f"{compared} overloads under aten compared with the index")
    assert compared > 2500
    assert missing == []


def test_overloads_stand_in_the_order_of_resolution(complete_index: Complete) -> None:
    compared = 0
    for key, entry in complete_index[1].items():
        if entry.kind == "operator" and key.startswith("aten::"):
            ours = [o.get("name", "") or "default" for o in entry.decode_raw()["overloads"]]
            packet = getattr(torch.ops.aten, key.partition("::")[2])
            assert ours == packet.overloads(), key
            compared += 1
    assert compared > 1000
    print(f"the order of overloads of {compared} operators is torch's")


def test_schemas_and_tags_are_torchs(complete_index: Complete) -> None:
    for each in (
        torch.ops.aten.max.dim,
        torch.ops.aten.add_.Tensor,
        torch.ops.aten.nonzero.default,
    ):
        found = overload(complete_index, each.name())
        assert found.schema == str(each._schema)
        assert found.tags == tuple(sorted(tag.name for tag in each.tags))


def test_how_fake_tensors_get_through(complete_index: Complete) -> None:
    """The same for all operators together as for one."""
    from fullgraph_engine.operators.fake import fake_support

    others = {}
    for key, entry in complete_index[1].items():
        if entry.kind == "operator" and key.startswith("aten::"):
            for raw in entry.decode_raw()["overloads"]:
                if raw["origin"] != "torchscript":
                    own = f"{key}.{raw['name']}" if raw.get("name") else key
                    if raw.get("fake", "unknown") != fake_support(own):
                        others[own] = raw.get("fake")
    assert others == {}
    assert overload(complete_index, "aten::bincount").fake == "kernel"
    assert overload(complete_index, "aten::mm").fake == "meta"
    assert overload(complete_index, "aten::linear").fake == "composite"


def test_kernels_of_other_builds_are_kept(complete_index: Complete) -> None:
    kernels = overload(complete_index, "aten::mm").kernels
    assert {"CPU", "CUDA", "Meta"} <= set(kernels)
    assert not any("Functionalize" in key or "Autocast" in key for key in kernels)


def test_torchscript_has_its_own(complete_index: Complete) -> None:
    assert overload(complete_index, "aten::Bool.Tensor").origin == "torchscript"
    assert overload(complete_index, "prims::add").origin == "registered"
    assert overload(complete_index, "aten::add.Tensor").decomposes


def test_every_name_exists(complete_index: Complete) -> None:
    absent = []
    for key, entry in complete_index[1].items():
        if entry.kind == "operator" or key.startswith("torch._C."):
            continue
        value = torch
        try:
            for part in key.split(".")[1:]:
                value = getattr(value, part)
        except AttributeError:
            if entry.kind == "module":
                # The engine has imported it, this process perhaps not.
                importlib.import_module(key)
            else:
                absent.append(key)
    assert absent == []


def test_names_of_torch_are_complete(complete_index: Complete) -> None:
    """What torch itself says is public."""
    for module in ("torch", "torch.fft", "torch.special", "torch.nn.init", "torch.nested"):
        listed = getattr(__import__(module, fromlist=["x"]), "__all__", ())
        public = [one for one in listed if not one.startswith("_")]
        assert [one for one in public if f"{module}.{one}" not in complete_index[1]] == []


def test_functions_written_in_python(complete_index: Complete) -> None:
    relu = name(complete_index, "torch.nn.functional.relu")
    assert relu.python == "(input, inplace=False)"
    assert relu.calls == ("torch.relu_", "torch.relu")
    assert not relu.signatures
    assert relu.summary == "Applies the rectified linear unit function element-wise."
    pool = name(complete_index, "torch.nn.functional.max_pool2d")
    assert pool.python.startswith("(input, kernel_size, ")
    assert "torch.max_pool2d" in pool.calls


def test_one_object_has_one_entry(complete_index: Complete) -> None:
    assert name(complete_index, "torch.nn.functional.conv2d").alias == "torch.conv2d"
    assert name(complete_index, "torch.float").alias == "torch.float32"
    conv = name(complete_index, "torch.conv2d")
    assert conv.signatures
    assert conv.href.endswith("/generated/torch.nn.functional.conv2d.html")


@pytest.mark.parametrize(
    "path, kind",
    [
        ("torch.nn.Linear", "class"),
        ("torch.float32", "dtype"),
        ("torch.strided", "layout"),
        ("torch.channels_last", "memory_format"),
        ("torch.linalg", "module"),
        ("torch.linalg.LinAlgError", "exception"),
        ("torch.pi", "constant"),
        ("torch.Tensor.shape", "property"),
        ("torch.Tensor.add_", "method"),
    ],
)
def test_kinds(complete_index: Complete, path: str, kind: str) -> None:
    assert name(complete_index, path).kind == kind


def test_deprecated_names_say_what_to_write(complete_index: Complete) -> None:
    assert "`torch.linalg.qr`" in name(complete_index, "torch.qr").deprecated
    lstsq = name(complete_index, "torch.lstsq").deprecated
    assert "removed" in lstsq and lstsq.endswith("in favor of `torch.linalg.lstsq`.")
    assert not name(complete_index, "torch.add").deprecated


def test_what_is_used_most_comes_first(complete_index: Complete) -> None:
    entries = complete_index[1]
    assert entries["torch.Tensor.size"].uses > entries["torch.Tensor.logdet"].uses
    assert entries["aten::sum"].uses > 0


def test_operators_know_who_calls_them(complete_index: Complete) -> None:
    assert {"torch.max", "torch.Tensor.max"} <= set(operator(complete_index, "aten::max").names)
    for entry in complete_index[1].values():
        if entry.kind == "operator":
            assert all(path in complete_index[1] for path in entry.decode_raw().get("names", ()))


def test_without_what_the_files_say() -> None:
    """A torch that brings no YAML still has operators and names."""
    from fullgraph_engine.operators.index_completion import build_complete_index
    from fullgraph_engine.protocol.operators import decode_index

    header, entries = decode_index(build_complete_index(None))
    kept = {entry.key: entry for entry in entries}
    assert header.complete
    assert header.notes
    assert "dim" in [o.get("name") for o in kept["aten::max"].decode_raw()["overloads"]]
    assert kept["torch.max"].decode_raw()["summary"].startswith("Returns the maximum value")


def test_strings_that_the_documentation_enumerates(complete_index: Complete) -> None:
    def documented(path: str, parameter: str) -> tuple[str, ...]:
        return name(complete_index, path).documented_choices(parameter)

    assert documented("torch.nn.functional.gelu", "approximate") == ("none", "tanh")
    assert documented("torch.nn.functional.mse_loss", "reduction") == ("none", "mean", "sum")
    assert documented("torch.div", "rounding_mode") == ("trunc", "floor")
    # Documented where the function is.
    assert documented("torch.Tensor.div", "rounding_mode") == ("trunc", "floor")
    # Mentions strings in the paragraph of something else that is no string.
    assert documented("torch.nn.functional.interpolate", "align_corners") == ()
    # Said of no list.
    assert documented("torch.einsum", "equation") == ()


def test_a_reference_is_followed(complete_index: Complete) -> None:
    method, function = (name(complete_index, f"{owner}.max") for owner in ("torch.Tensor", "torch"))
    assert method.summary == function.summary
    assert not method.summary.startswith("See")


def test_bindings_made_by_hand_take_what_their_parser_lists(complete_index: Complete) -> None:
    to = name(complete_index, "torch.Tensor.to")
    assert [[p.name for p in s.parameters][:2] for s in to.signatures] == [
        ["device", "dtype"],
        ["dtype", "non_blocking"],
        ["tensor", "non_blocking"],
    ]
