// Determinants: what PyTorch's gradients expect of the factors depends on the strides of the matrix.
#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include "shim.h"

namespace torch_tpu {
namespace {

using at::Tensor;

// The factors of the transpose where the matrix is real and contiguous, else its own (`linalg_det_backward` in FunctionsManual.cpp).
Tensor to_factor(const Tensor& matrix) {
  return matrix.dim() >= 2 && matrix.is_contiguous() && !matrix.is_complex() ? matrix.mT() : matrix;
}

std::tuple<Tensor, Tensor, Tensor> determinant(const Tensor& matrix) {
  static const auto program = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("aten::_torch_tpu_det", "")
                                  .typed<std::tuple<Tensor, Tensor, Tensor>(const Tensor&)>();
  return program.call(to_factor(matrix));
}

std::tuple<Tensor, Tensor, Tensor, Tensor> logarithm_of_determinant(const Tensor& matrix) {
  static const auto program = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("aten::_torch_tpu_slogdet", "")
                                  .typed<std::tuple<Tensor, Tensor, Tensor, Tensor>(const Tensor&)>();
  return program.call(to_factor(matrix));
}

}  // namespace

// Before install_boxed, which registers the programs.
void install_linalg() {
  static torch::Library schemas(torch::Library::FRAGMENT, "aten", std::nullopt, __FILE__, __LINE__);
  schemas.def("_torch_tpu_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)");
  schemas.def("_torch_tpu_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet, Tensor LU, Tensor pivots)");
  static torch::Library kernels(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  kernels.impl("_linalg_det", &determinant);
  kernels.impl("_linalg_slogdet", &logarithm_of_determinant);
}

}  // namespace torch_tpu
