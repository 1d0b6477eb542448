// Scaled dot-product attention goes to one program each way, through the entry that PyTorch has for other devices.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/transformers/attention.h>
#include <torch/library.h>

#include <cmath>

#include "shim.h"

namespace torch_tpu {
namespace {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

// What the programs take; the rest stays with PyTorch's own composition of operators. That is also what a tracer gets to see.
int64_t choose(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& mask, double dropout, bool, std::optional<double>,
    bool grouped) {
  const auto math = static_cast<int64_t>(at::SDPBackend::math);
  if (!at::globalContext().userEnabledOverrideableSDP() || dropout > 0.0) {
    return math;
  }
  // Transformed tensors (vmap, functional gradients, forward mode) need formulas that only the single operators have.
  const c10::DispatchKeySet transforms({c10::DispatchKey::FuncTorchBatched, c10::DispatchKey::FuncTorchGradWrapper});
  for (const Tensor* tensor : {&query, &key, &value}) {
    if (tensor->key_set().has_any(transforms) || tensor->_fw_grad(/*level=*/0).defined()) {
      return math;
    }
    if (tensor->is_nested() || tensor->dim() != 4 || tensor->sym_numel() == 0 || tensor->scalar_type() != query.scalar_type() ||
        !tensor->is_floating_point() || tensor->unsafeGetTensorImpl()->is_python_dispatch() || !tensor->device().is_privateuseone()) {
      return math;
    }
  }
  const bool heads = key.size(1) == value.size(1) && key.size(1) > 0 &&
      (grouped ? query.size(1) % key.size(1) == 0 : query.size(1) == key.size(1));
  const bool fits = heads && query.size(0) == key.size(0) && key.size(0) == value.size(0) && key.size(2) == value.size(2) &&
      query.size(3) == key.size(3);
  const bool mask_fits = !mask || !mask->defined() ||
      (mask->dim() <= 4 && !mask->unsafeGetTensorImpl()->is_python_dispatch() && !mask->key_set().has_any(transforms));
  return fits && mask_fits ? static_cast<int64_t>(at::SDPBackend::overrideable) : math;
}

double scale_of(const Tensor& query, std::optional<double> scale) {
  return scale ? *scale : 1.0 / std::sqrt(static_cast<double>(query.size(3)));
}

std::tuple<Tensor, Tensor, Tensor, Tensor, c10::SymInt, c10::SymInt, Tensor, Tensor, Tensor> forward(
    const Tensor& query, const Tensor& key, const Tensor& value, const OptionalTensor& bias, double dropout, bool causal, bool,
    std::optional<double> scale) {
  TORCH_CHECK_NOT_IMPLEMENTED(dropout == 0.0, "fused attention with dropout is not supported on this device");
  using Signature = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, bool, double);
  static const auto program =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_torch_tpu_attention", "").typed<Signature>();
  auto [output, logsumexp] = program.call(query, key, value, bias, causal, scale_of(query, scale));
  return {output, logsumexp, Tensor(), Tensor(), query.sym_size(2), key.sym_size(2), Tensor(), Tensor(), Tensor()};
}

std::tuple<Tensor, Tensor, Tensor, Tensor> backward(
    const Tensor& grad, const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias, std::array<bool, 4> wanted,
    const Tensor& output, const Tensor& logsumexp, const Tensor&, const Tensor&, c10::SymInt, c10::SymInt, double, bool causal,
    const Tensor&, const Tensor&, std::optional<double> scale) {
  if (!grad.defined()) {
    return {};
  }
  using Signature = std::tuple<Tensor, Tensor, Tensor, Tensor>(
      const Tensor&, const Tensor&, const Tensor&, const Tensor&, const OptionalTensor&, const Tensor&, const Tensor&, bool, double, bool);
  static const auto program =
      c10::Dispatcher::singleton().findSchemaOrThrow("aten::_torch_tpu_attention_backward", "").typed<Signature>();
  const OptionalTensor given = bias.defined() ? OptionalTensor(bias) : std::nullopt;
  return program.call(grad, query, key, value, given, output, logsumexp, causal, scale_of(query, scale), wanted[3]);
}

}  // namespace

// Before install_boxed, which registers the programs.
void install_attention() {
  static torch::Library schemas(torch::Library::FRAGMENT, "aten", std::nullopt, __FILE__, __LINE__);
  schemas.def(
      "_torch_tpu_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool is_causal, float scale) -> (Tensor output, "
      "Tensor logsumexp)");
  schemas.def(
      "_torch_tpu_attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor? attn_bias, Tensor out, Tensor "
      "logsumexp, bool is_causal, float scale, bool bias_grad) -> (Tensor, Tensor, Tensor, Tensor)");
  static torch::Library kernels(torch::Library::IMPL, "aten", kKey, __FILE__, __LINE__);
  kernels.impl("_scaled_dot_product_fused_attention_overrideable", &forward);
  kernels.impl("_scaled_dot_product_fused_attention_overrideable_backward", &backward);
  at::native::_fused_sdp_choice_stub.set_privateuse1_dispatch_ptr(&choose);
}

}  // namespace torch_tpu
