"""Every `torch._foreach_*` operator, out of place and in place, over each form of arguments that the CPU takes."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compare import assert_equal_trees, make, move

LISTS = [
    [
        make(3, low=0.1, high=0.9, seed=seed),
        make(2, 2, low=0.1, high=0.9, seed=seed),
        make(low=0.2, high=0.9, seed=seed),
    ]
    for seed in range(3)
]
FIRST, SECOND, THIRD = LISTS
NUMBERS = [0.5, 2.0, 3.0]
FORMS: dict[str, tuple[Any, ...]] = {
    "alone": (),
    "number": (2.0,),
    "numbers": (NUMBERS,),
    "list": (SECOND,),
    "0-d tensor": (torch.tensor(2.0),),
    "list and number": (SECOND, 0.3),
    "list and numbers": (SECOND, NUMBERS),
    "two lists": (SECOND, THIRD),
    "two lists and number": (SECOND, THIRD, 0.5),
    "two lists and numbers": (SECOND, THIRD, NUMBERS),
    "two lists and a CPU tensor of numbers": (SECOND, THIRD, torch.tensor(NUMBERS)),
}
OPERATORS = sorted(name for name in dir(torch) if name.startswith("_foreach_"))


@pytest.mark.parametrize("name", OPERATORS)
def test_foreach(name: str) -> None:
    operator = getattr(torch, name)
    tried = 0
    for form, arguments in FORMS.items():
        expected = move(FIRST, "cpu")
        try:
            expected_output = operator(expected, *move(arguments, "cpu"))
        except (TypeError, RuntimeError):
            continue  # not a form of this operator
        tried += 1
        on_host = form.endswith("of numbers") or form == "0-d tensor"
        before = torch.tpu.fallback_ops()
        actual = move(FIRST, "tpu")
        output = (
            operator(actual, *(arguments[:-1] and move(arguments[:-1], "tpu")), arguments[-1])
            if on_host
            else operator(actual, *move(arguments, "tpu"))
        )
        assert torch.tpu.fallback_ops() == before, form
        assert_equal_trees(list(output or ()), list(expected_output or ()), f"{name} of {form}")
        assert_equal_trees(actual, expected, f"the list after {name} of {form}")
    if name not in ("_foreach_mm", "_foreach_mm_"):
        assert tried, "no form of arguments was right"


def test_lists_of_different_lengths() -> None:
    for device in ("cpu", "tpu"):
        with pytest.raises(RuntimeError, match="same number of tensors|same length"):
            torch._foreach_add(move(FIRST, device), move(SECOND[:2], device))
        with pytest.raises(RuntimeError, match="at least one tensor"):
            torch._foreach_add([], 1.0)


def test_matrix_products() -> None:
    left, right = [make(2, 3), make(4, 1)], [make(3, 2), make(1, 5)]
    assert_equal_trees(
        list(torch._foreach_mm(move(left, "tpu"), move(right, "tpu"))),
        [a @ b for a, b in zip(left, right, strict=True)],
        "products",
    )
