"""Products of matrices and vectors, triangular systems, Cholesky, LU and QR factors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from compare import compare, compare_error, make

NAN = math.nan
A, B = make(3, 4), make(4, 5)
BATCH_A, BATCH_B = make(2, 3, 4), make(2, 4, 5)
VECTOR = make(4)

PRODUCTS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "mm": (torch.mm, (A, B)),
    "mm of transposed": (lambda a, b: torch.mm(a.t(), b.t()), (make(4, 3), make(5, 4))),
    "matmul": (torch.matmul, (make(2, 1, 3, 4), make(6, 4, 5))),
    "bmm": (torch.bmm, (BATCH_A, BATCH_B)),
    "bmm of views": (lambda a, b: torch.bmm(a.transpose(1, 2), b[:, ::2]), (make(2, 4, 3), make(2, 8, 5))),
    "mv": (torch.mv, (A, VECTOR)),
    "dot": (torch.dot, (VECTOR, make(4, seed=1))),
    "vdot": (torch.vdot, (VECTOR, make(4, seed=1))),
    "outer": (torch.outer, (VECTOR, make(3))),
    "addmm": (torch.addmm, (make(5), A, B)),
    "addmm with factors": (lambda c, a, b: torch.addmm(c, a, b, beta=2, alpha=-3), (make(3, 1), A, B)),
    "baddbmm": (lambda c, a, b: torch.baddbmm(c, a, b, beta=2, alpha=3), (make(1, 5), BATCH_A, BATCH_B)),
    "addbmm": (lambda c, a, b: torch.addbmm(c, a, b, beta=2, alpha=3), (make(3, 5), BATCH_A, BATCH_B)),
    "addmv": (lambda c, a, b: torch.addmv(c, a, b, beta=2, alpha=3), (make(1), A, VECTOR)),
    "addr": (lambda c, a, b: torch.addr(c, a, b, beta=2, alpha=3), (make(3, 1), make(3), VECTOR)),
    "in place": (lambda c, a, b: c.clone().addmm_(a, b, beta=2), (make(3, 5), A, B)),
    "out": (lambda a, b: torch.mm(a.detach(), b.detach(), out=a.new_empty(0)), (A, B)),
    "linear": (torch.nn.functional.linear, (make(2, 3, 4), make(5, 4), make(5))),
    "einsum": (lambda a, b: torch.einsum("bik,bkj->ij", a, b), (BATCH_A, BATCH_B)),
    "tensordot": (lambda a, b: torch.tensordot(a, b, dims=([0, 2], [0, 1])), (BATCH_A, BATCH_B)),
    "bilinear": (torch.nn.functional.bilinear, (make(2, 3), make(2, 4), make(5, 3, 4))),
    "chain": (lambda a, b: torch.linalg.multi_dot([a, b, b.t(), a.t()]), (A, B)),
    "cross": (
        lambda a, b: (torch.linalg.cross(a, b), torch.cross(a.t(), b.t(), dim=0)),
        (make(2, 3), make(2, 3, seed=1)),
    ),
    "cross of rows": (lambda a, b: torch.linalg.cross(a, b), (make(1, 3), make(4, 3))),
    "kron": (torch.kron, (A, make(2, 2))),
    "matrix_power": (lambda a: torch.linalg.matrix_power(a, 5), (make(3, 3),)),
    "nothing to add up": (torch.mm, (torch.zeros(2, 0), torch.zeros(0, 3))),
    "no rows": (torch.mm, (torch.zeros(0, 4), B)),
    "no batches": (torch.bmm, (torch.zeros(0, 3, 4), torch.zeros(0, 4, 5))),
    "empty vectors": (torch.dot, (torch.zeros(0), torch.zeros(0))),
    "addmm of nothing": (
        lambda c, a, b: torch.addmm(c, a, b, beta=2),
        (make(2, 3), torch.zeros(2, 0), torch.zeros(0, 3)),
    ),
    "triu": (
        lambda x: (x.triu(), x.triu(1), x.triu(-2), x.triu(99), x.tril(), x.tril(-1), x.tril(-99)),
        (make(2, 3, 4),),
    ),
}


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(name: str) -> None:
    function, inputs = PRODUCTS[name]
    compare(function, *inputs)


#: bool products have no kernel on the CPU, `outer` and the like are multiplications
TYPED = ["mm", "bmm", "mv", "dot", "addmm with factors", "baddbmm", "addmv", "addr", "cross", "triu"]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("name", [*TYPED, "vdot"])
def test_products_of_other_dtypes(name: str, dtype: torch.dtype) -> None:
    function, inputs = PRODUCTS[name]
    inputs = tuple(make(*x.shape, dtype=dtype, seed=i) for i, x in enumerate(inputs))
    # PyTorch rounds each of the steps of `addr` to 16 bits.
    loose = {"rtol": 0.02, "atol": 0.02} if name == "addr" and dtype.itemsize == 2 else {}
    compare(function, *inputs, grad=dtype is torch.complex64, **loose)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8], ids=str)
@pytest.mark.parametrize("name", TYPED)
def test_products_of_integers(name: str, dtype: torch.dtype) -> None:
    function, inputs = PRODUCTS[name]
    compare(function, *(make(*x.shape, dtype=dtype, low=-9, high=9, seed=i) for i, x in enumerate(inputs)))


def test_factors_of_zero_drop_their_term() -> None:
    nan = torch.full((3, 5), NAN)
    compare(lambda c, a, b: torch.addmm(c, a, b, beta=0), nan, A, B, grad=False)
    compare(lambda c, a, b: torch.addmm(c, a, b, alpha=0), make(3, 5), A * NAN, B, grad=False)
    compare(lambda c, a, b: torch.baddbmm(c, a, b, beta=0), nan, BATCH_A, BATCH_B, grad=False)
    compare(lambda c, a, b: torch.addmv(c, a, b, beta=0), nan[:, 0], A, VECTOR, grad=False)
    compare(lambda c, a, b: torch.addr(c, a, b, beta=0), nan[:, :4], make(3), VECTOR, grad=False)
    compare(lambda a, b, c: torch.addmm(c, a, b, alpha=0.5), A.long(), B.long(), torch.ones(3, 5, dtype=torch.int64))


def test_a_changing_factor_does_not_recompile() -> None:
    a, b, c = (x.to("tpu") for x in (A, B, make(3, 5)))
    torch.addmm(c, a, b, alpha=0.1)
    before = torch.tpu.cache_stats()["misses"]
    for alpha in (0.2, 0.3, -4.0):
        torch.addmm(c, a, b, alpha=alpha)
    assert torch.tpu.cache_stats()["misses"] == before


def test_int8_products() -> None:
    a, b = make(32, 16, dtype=torch.int8, low=-100, high=100), make(16, 8, dtype=torch.int8, low=-100, high=100)
    compare(torch._int_mm, a, b)


def test_addmm_with_activation() -> None:
    compare(lambda c, a, b: torch._addmm_activation(c, a, b), make(5), A, B, grad=False)
    compare(lambda c, a, b: torch._addmm_activation(c, a, b, use_gelu=True, beta=2), make(5), A, B, grad=False)


def test_large_products_are_accurate() -> None:
    compare(torch.mm, make(130, 700), make(700, 90), rtol=1e-5, atol=1e-4)
    compare(torch.mm, make(130, 700, dtype=torch.bfloat16), make(700, 90, dtype=torch.bfloat16), grad=False)


def positive_definite(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    x = make(*shape, dtype=dtype)
    return x @ x.mH + 2 * torch.eye(shape[-1], dtype=dtype)


def test_cholesky() -> None:
    for dtype in (torch.float32, torch.float64, torch.complex64):
        x = positive_definite(2, 4, 4, dtype=dtype)
        compare(lambda x: (torch.linalg.cholesky(x), torch.linalg.cholesky(x, upper=True)), x)
    x = positive_definite(3, 3)
    compare(lambda x: torch.linalg.cholesky_ex(x.tril() * torch.tensor(1.0)), x)
    compare(torch.cholesky, x)
    compare(lambda x: (torch.cholesky_inverse(x.tril()), torch.cholesky_solve(make(3, 2).to(x.device), x.tril())), x)
    compare(lambda x: torch.cholesky_inverse(x.triu(), upper=True), x, grad=False)
    compare(lambda x: torch.linalg.cholesky_ex(x), torch.zeros(0, 0), grad=False)
    compare(lambda x: torch.linalg.cholesky_ex(x), torch.zeros(0, 2, 2), grad=False)


def test_failed_cholesky_names_the_minor() -> None:
    bad = torch.tensor(
        [[[4.0, 2, 1], [2, -5, 1], [1, 1, 1]], [[4.0, 0, 0], [0, 4, 0], [0, 0, 4]], [[NAN, 1, 0], [1, 2, 0], [0, 0, 1]]]
    )
    compare(
        lambda x: (torch.linalg.cholesky_ex(x).info, torch.linalg.cholesky_ex(x.mT, upper=True).info), bad, grad=False
    )
    compare_error(torch.linalg.cholesky, bad, error=RuntimeError, match="not positive-definite")
    compare_error(
        lambda x: torch.linalg.cholesky_ex(x, check_errors=True), bad, error=RuntimeError, match="not positive-definite"
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64], ids=str)
def test_triangular_systems(dtype: torch.dtype) -> None:
    a = make(3, 3, dtype=dtype) + 3 * torch.eye(3, dtype=dtype)
    b = make(2, 3, 4, dtype=dtype)

    def fn(a: torch.Tensor, b: torch.Tensor) -> Any:
        solve = torch.linalg.solve_triangular
        return (
            solve(a, b, upper=False),
            solve(a, b, upper=True, unitriangular=True),
            solve(a, b.mT, upper=True, left=False),
        )

    compare(fn, a, b)
    compare(lambda a, b: torch.triangular_solve(b, a), a, b, grad=dtype is torch.float32)
    compare(lambda a, b: torch.triangular_solve(b, a, upper=False, transpose=True), a, b, grad=False)


def test_empty_triangular_systems() -> None:
    compare(
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=False), torch.zeros(0, 0), torch.zeros(0, 3), grad=False
    )


SQUARE = make(2, 4, 4) + 2 * torch.eye(4)
SINGULAR = torch.tensor([[1.0, 2.0], [2.0, 4.0]])

LU_FORMS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "factor": (torch.linalg.lu_factor, (SQUARE,)),
    "factor of a wide matrix": (lambda a: torch.linalg.lu_factor_ex(a), (make(3, 5),)),
    "factor of a tall matrix": (lambda a: torch.linalg.lu_factor_ex(a), (make(2, 5, 3),)),
    "factor of nothing": (lambda a: torch.linalg.lu_factor_ex(a), (torch.zeros(0, 3),)),
    "factor of a singular matrix": (
        lambda a: (*torch.linalg.lu_factor_ex(a.detach()), *torch.linalg.lu(a.detach())),
        (SINGULAR,),
    ),
    "lu": (torch.linalg.lu, (SQUARE,)),
    "lu of a tall matrix": (torch.linalg.lu, (make(5, 3),)),
    "lu of a wide matrix": (torch.linalg.lu, (make(3, 5),)),
    "unpack": (lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a)), (make(2, 5, 3),)),
    "unpack one part": (lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a), unpack_pivots=False), (SQUARE,)),
    "solve": (torch.linalg.solve, (SQUARE, make(2, 4, 3))),
    "solve a vector": (torch.linalg.solve, (SQUARE[0], make(4))),
    "solve vectors": (torch.linalg.solve, (SQUARE, make(2, 4))),
    "solve broadcast": (torch.linalg.solve, (SQUARE[0], make(3, 4, 2))),
    "solve from the right": (lambda a, b: torch.linalg.solve(a, b, left=False), (SQUARE, make(2, 3, 4))),
    "solve nothing": (torch.linalg.solve, (torch.zeros(0, 0), torch.zeros(0, 3))),
    "solve factored": (lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b), (SQUARE, make(2, 4, 3))),
    "solve factored, adjoint": (
        lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False, adjoint=True),
        (SQUARE, make(2, 3, 4)),
    ),
    "determinant": (
        lambda a: (torch.linalg.det(a), torch.linalg.det(a.mT), torch.linalg.det(a[:, ::2, 1:3])),
        (SQUARE,),
    ),
    "logarithm of the determinant": (lambda a: (*torch.linalg.slogdet(a), torch.linalg.slogdet(a.mT)[1]), (-SQUARE,)),
    "determinant of nothing": (torch.linalg.det, (torch.zeros(0, 0),)),
    "determinant of a singular matrix": (
        lambda a: (torch.linalg.det(a), *torch.linalg.slogdet(a.detach())),
        (SINGULAR,),
    ),
    "inverse": (torch.linalg.inv, (SQUARE,)),
    "inverse of nothing": (torch.linalg.inv_ex, (torch.zeros(0, 0),)),
    "qr": (torch.linalg.qr, (make(2, 5, 3),)),
    "qr of a square matrix": (torch.linalg.qr, (SQUARE,)),
    "qr of a wide matrix": (lambda a: torch.linalg.qr(a.detach()), (make(3, 5),)),
    "complete qr": (lambda a: torch.linalg.qr(a.detach(), "complete"), (make(5, 3),)),
    "r alone": (lambda a: torch.linalg.qr(a.detach(), "r").R, (make(5, 3),)),
    "qr of nothing": (lambda a: torch.linalg.qr(a.detach(), "complete"), (torch.zeros(3, 0),)),
    "geqrf": (lambda a: torch.geqrf(a.detach()), (make(5, 3),)),
    "ormqr": (
        lambda a, c: (
            torch.ormqr(*torch.geqrf(a.detach()), c.detach()),
            torch.ormqr(*torch.geqrf(a.detach()), c.detach().mT, left=False, transpose=True),
        ),
        (make(5, 3), make(5, 4)),
    ),
    "householder product": (lambda a: torch.linalg.householder_product(*torch.geqrf(a.detach())), (make(5, 3),)),
}


@pytest.mark.parametrize("name", LU_FORMS)
def test_factors(name: str) -> None:
    function, inputs = LU_FORMS[name]
    compare(function, *inputs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "name", ["factor", "solve", "solve from the right", "solve factored, adjoint", "determinant", "inverse", "qr"]
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex128], ids=str)
def test_factors_of_other_dtypes(name: str, dtype: torch.dtype) -> None:
    function, inputs = LU_FORMS[name]
    compare(
        function,
        *(make(*x.shape, dtype=dtype) + (2 * torch.eye(*x.shape[-2:], dtype=dtype)) for x in inputs),
        grad=False,
    )


def test_singular_systems() -> None:
    compare_error(torch.linalg.inv, SINGULAR, error=RuntimeError, match="singular")
    compare_error(torch.linalg.solve, SINGULAR, make(2), error=RuntimeError, match="singular")
    compare_error(lambda a: torch.linalg.inv_ex(a, check_errors=True), SINGULAR, error=RuntimeError, match="singular")
    compare_error(torch.linalg.lu_factor, SINGULAR, error=RuntimeError, match="zero")


@pytest.mark.parametrize("order", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, math.inf])
def test_distances(order: float) -> None:
    compare(lambda a, b: torch.cdist(a, b, order), make(2, 3, 4), make(5, 4), rtol=1e-4, atol=1e-5)


def test_more_distances() -> None:
    compare(lambda a: torch.cdist(a, a), make(3, 4), grad=False)
    compare(torch.cdist, make(30, 4), make(28, 4, seed=1), rtol=1e-4, atol=1e-5)
    compare(torch.cdist, make(3, 0), make(2, 0))
    compare(torch.cdist, make(0, 4), make(2, 4))


ERRORS: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...], str]] = {
    "mm shapes": (torch.mm, (A, make(5, 2)), r"mat1 and mat2 shapes cannot be multiplied \(3x4 and 5x2\)"),
    "mm dtypes": (torch.mm, (A, B.double()), "same dtype, but got: float != double"),
    "mm rank": (torch.mm, (A, VECTOR), "mat2 must be a matrix"),
    "mm of bool": (torch.mm, (A.bool(), B.bool()), "not implemented for 'Bool'"),
    "addmm bias": (torch.addmm, (make(3), A, B), "must match the existing size"),
    "addmm dtype": (torch.addmm, (make(5).double(), A, B), "self and mat2 must have the same dtype"),
    "bmm batches": (torch.bmm, (BATCH_A, make(3, 4, 5)), "Expected size for first two dimensions of batch2"),
    "bmm rank": (torch.bmm, (A, B), "batch1 must be a 3D tensor"),
    "mv size": (torch.mv, (A, make(5)), "size mismatch"),
    "dot size": (torch.dot, (VECTOR, make(3)), "inconsistent tensor size"),
    "dot rank": (torch.dot, (A, VECTOR), "1D tensors expected"),
    "dot dtype": (torch.dot, (VECTOR, VECTOR.double()), "expected both vectors to have same dtype"),
    "addr rank": (torch.addr, (make(1), A, VECTOR), "Expected 1-D argument vec1"),
    "addr factor": (
        lambda c, a, b: torch.addr(c, a, b, alpha=2.5),
        (make(1).long(), make(3).long(), VECTOR.long()),
        "must not be a floating point number",
    ),
    "cross length": (torch.linalg.cross, (B, B), "must have length 3"),
    "triu of a vector": (torch.triu, (VECTOR,), "at least 2 dimensions"),
    "cholesky of a rectangle": (torch.linalg.cholesky_ex, (A,), "must be batches of square matrices"),
    "cholesky of integers": (
        torch.linalg.cholesky_ex,
        (torch.ones(2, 2).long(),),
        "Expected a floating point or complex",
    ),
    "solve shapes": (
        lambda a, b: torch.linalg.solve_triangular(a, b, upper=True),
        (torch.eye(2), torch.ones(3, 2)),
        "Incompatible shapes of A and B",
    ),
}


@pytest.mark.parametrize("name", ERRORS)
def test_errors(name: str) -> None:
    function, inputs, match = ERRORS[name]
    compare_error(function, *inputs, error=RuntimeError, match=match)
    with pytest.raises(RuntimeError, match=match):
        function(*inputs)
